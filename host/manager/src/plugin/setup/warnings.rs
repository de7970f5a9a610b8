//! Reports the API server's warnings about a plugin's requests in the plugin's log and in an Event
//! on the Plugin, once per text.

use std::{collections::HashSet, sync::Arc};

use operetta_api::reasons;
use operetta_core::{
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventSink, LogLevel, ObjectLookup, WarningSink},
};
use parking_lot::Mutex;

use crate::{
    context::Context,
    events::Regarding,
    logs::store::PluginLog,
    plugin::{crd, setup::Setup},
};

/// How many texts to report for one version of the code. If there are more, they probably differ
/// every time.
const REPORTED: usize = 100;

/// The warnings caused by one version of a plugin's code.
pub(super) struct Warnings {
    plugin: ObjectKey,
    log: Arc<PluginLog>,
    context: Arc<Context>,
    reported: Mutex<HashSet<String>>,
}

impl Warnings {
    pub(super) fn new(setup: &Setup<'_>) -> Arc<Self> {
        Arc::new(Self {
            plugin: setup.key.clone(),
            log: setup.log.clone(),
            context: setup.context.clone(),
            reported: Mutex::default(),
        })
    }

    /// Reports whether this text is new and should be reported.
    fn is_news(&self, text: &str) -> bool {
        let mut reported = self.reported.lock();
        reported.len() < REPORTED && reported.insert(text.to_owned())
    }
}

impl WarningSink for Warnings {
    fn warned(&self, request: &str, text: &str) {
        if !self.is_news(text) {
            return;
        }

        let message = format!("the API server warns about {request}: {text}");
        self.log.write_host_line(LogLevel::Warn, message.clone());
        let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        let cluster = &self.context.cluster;
        let plugin = cluster.api.cached(&kind, &self.plugin);
        let regarding = Regarding {
            kind,
            key: self.plugin.clone(),
            uid: plugin.map(|plugin| plugin.uid().to_owned()),
        };
        cluster
            .recorder
            .emit(regarding.warning(reasons::API_WARNING, message));
    }
}

//! A plugin as core's [`Mapper`]: one fresh instance for each event, also where its reconciles have warm ones.

use std::sync::Arc;

use async_trait::async_trait;
use operetta_core::{
    controller::request::{Failure, ReconcileRequest},
    gate::Gate,
    handler::map_event::{Change, MapEvent},
    object::ObjectKey,
    ports::Mapper,
};

use crate::{
    CallLimits, Plugin,
    bindings::operetta::controller::types,
    call::{self, Budget, reconciler::MAX_FAILURE},
    cut,
    imports::some,
    mapper_bindings::exports::operetta::controller::mapper as generated,
};

/// Bytes that an event's keys may have. [`MAX_KEYS`](operetta_core::handler::mapping::MAX_KEYS) of the longest have a third of it: who
/// maps to a few times as many is told so by their number. They are copied in one go, in which their thread does nothing else.
const MAX_TRANSFER: usize = 1 << 20;

/// Maps a plugin's events.
pub struct PluginMapper {
    plugin: Arc<Plugin>,
    gate: Arc<Gate>,
    budget: Budget,
}

impl PluginMapper {
    /// A mapper that runs this plugin behind this gate; None for a plugin that exports none.
    pub fn new(plugin: Arc<Plugin>, gate: Arc<Gate>, limits: &CallLimits) -> Option<Self> {
        plugin.maps().then(|| {
            let mut budget = limits.budget();
            budget.transfer_bytes = budget.transfer_bytes.min(MAX_TRANSFER);
            Self { plugin, gate, budget }
        })
    }
}

#[async_trait]
impl Mapper for PluginMapper {
    async fn map(&self, request: &ReconcileRequest, event: &MapEvent) -> Result<Vec<ObjectKey>, Failure> {
        let engine = self.plugin.engine();
        let event = generated(&request.controller, event);
        let linked = self.plugin.linked().await?;
        let Some(pre) = &linked.mapper else { return Err(Failure::Retry("the plugin has no mapper".to_owned())) };
        let _slot = call::slots(engine, linked.slots).await?;
        let mut store = call::store(engine, self.gate.session(Some(request.clone())), &self.budget);
        let answer = tokio::time::timeout(self.budget.timeout, async {
            let guest = pre.instantiate_async(&mut store).await?;
            guest.operetta_controller_mapper().call_map_event(&mut store, &event).await
        });
        let answer = answer.await;
        match call::finish(&mut store, answer, &self.budget)? {
            Ok(keys) => Ok(keys.into_iter().map(key).collect()),
            Err(message) => Err(Failure::Retry(cut(message, MAX_FAILURE))),
        }
    }
}

fn generated(controller: &str, event: &MapEvent) -> generated::Event {
    let at = event.object.key();
    generated::Event {
        controller: controller.to_owned(),
        kind: types::GroupVersionKind { api_version: event.kind.api_version.clone(), kind: event.kind.kind.clone() },
        key: types::ObjectKey { namespace: at.namespace.clone(), name: at.name.clone() },
        event_type: match event.change {
            Change::Added => generated::EventType::Added,
            Change::Modified => generated::EventType::Modified,
            Change::Deleted => generated::EventType::Deleted,
        },
        object: event.object.json().to_owned(),
        old: event.old.as_ref().map(|old| old.json().to_owned()),
    }
}

fn key(key: types::ObjectKey) -> ObjectKey {
    ObjectKey { namespace: some(key.namespace), name: key.name }
}

//! Work on a tenant's bytes with a note in the crash journal: work of which the host died is done last and alone, or not at
//! all.

use std::sync::Arc;

use operetta_api::{annotations::RETRY, reasons};
use operetta_core::object::ObjectKey;
use operetta_kube::store::Lookup;

use crate::{
    context::Context,
    crash_journal::{CrashJournal, LOOK_AGAIN, Noted, Step, Verdict, Work},
    plugin::{host_informers::HostInformers, slot::PluginRef},
    problem::Problem,
};

/// Decides when such work is done, and notes it meanwhile.
pub struct CrashGuard {
    context: Arc<Context>,
    informers: Arc<HostInformers>,
    journal: Arc<CrashJournal>,
}

/// The reason why a work does not begin now.
pub enum Held {
    /// Its turn has not come yet.
    Waiting,
    /// The host died during it: it waits for the first reconcile of all other Plugins.
    Suspected(String),
    /// The host died twice in a row during it.
    Quarantined(String),
}

impl CrashGuard {
    /// Creates a guard over this journal.
    pub fn new(context: Arc<Context>, informers: Arc<HostInformers>, journal: Arc<CrashJournal>) -> Arc<Self> {
        Arc::new(Self { context, informers, journal })
    }

    /// Notes that a work begins.
    ///
    /// # Errors
    /// Returns the reason why it does not begin now.
    pub fn begin(&self, work: Work) -> Result<Noted, Held> {
        match self.journal.verdict(&work) {
            Verdict::Suspect if !self.are_others_loaded() => Err(Held::Suspected(format!(
                "the host died while it {}: it tries again, alone, after all other plugins are loaded",
                work.past_tense()
            ))),
            Verdict::Quarantined => {
                let work = work.past_tense();
                let text = format!(
                    "the host died twice in a row while it {work}: it does not try again until its source changes"
                );
                Err(Held::Quarantined(text))
            }
            Verdict::Ordinary | Verdict::Suspect => self.journal.begin(work).ok_or(Held::Waiting),
        }
    }

    /// Notes that work on a Plugin begins.
    ///
    /// # Errors
    /// Returns the problem if it is not done; None if only its turn has not come yet, and the Plugin is enqueued for it.
    pub fn note(&self, plugin: PluginRef<'_>, step: Step, version: &str) -> Result<Noted, Option<Problem>> {
        let ObjectKey { namespace, name } = plugin.key;
        let namespace = namespace.as_deref().unwrap_or_default();
        let retry = plugin.object.metadata.annotations.as_ref().and_then(|annotations| annotations.get(RETRY));
        let work = Work::new(step, namespace, name, version, retry.map_or("", String::as_str));
        self.begin(work).map_err(|held| match held {
            Held::Waiting => {
                self.context.queue.enqueue_after(plugin.key, LOOK_AGAIN);
                None
            }
            Held::Suspected(text) => {
                self.context.queue.enqueue_after(plugin.key, LOOK_AGAIN);
                Some(Problem::new(reasons::CRASH_SUSPECTED, text))
            }
            Held::Quarantined(text) => {
                let command = format!("kubectl annotate plugin {name} -n {namespace} --overwrite {RETRY}=$(date +%s)");
                let text = format!("{text} or an administrator asks for it: {command}");
                Some(Problem::new(reasons::CRASH_QUARANTINED, text))
            }
        })
    }

    /// Records that a Plugin was reconciled: suspects wait for the first reconcile of all others.
    pub fn record_attempt(&self, plugin: &ObjectKey) {
        self.journal.record_attempt(plugin);
    }

    fn are_others_loaded(&self) -> bool {
        let plugins = self.informers.plugins.cache.store.list(&Lookup::All, None, None);
        self.journal.are_others_loaded(plugins.map(|plugin| plugin.key().clone()))
    }
}

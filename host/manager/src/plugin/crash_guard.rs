//! Work on a tenant's bytes with a record in the crash journal: work during which the host crashed is done last and alone,
//! or not at all.

use std::sync::Arc;

use operetta_api::{annotations::RETRY, reasons};
use operetta_core::object::ObjectKey;
use operetta_kube::store::Lookup;

use crate::{
    context::Context,
    crash_journal::{CrashJournal, LOOK_AGAIN, Noted, Step, Verdict, Work},
    plugin::{crd::Plugin, host_informers::HostInformers},
    problem::Problem,
};

/// Decides when such work may begin, and records it in the journal while it is in flight.
pub struct CrashGuard {
    context: Arc<Context>,
    informers: Arc<HostInformers>,
    journal: Arc<CrashJournal>,
}

/// The reason why work does not begin now.
pub enum Held {
    /// It only has to wait for others.
    Waiting,
    /// The host crashed during it: it waits for the first reconcile of all other Plugins.
    Suspected(String),
    /// The host crashed twice in a row during it.
    Quarantined(String),
}

impl CrashGuard {
    /// Creates a guard over this journal.
    pub fn new(context: Arc<Context>, informers: Arc<HostInformers>, journal: Arc<CrashJournal>) -> Arc<Self> {
        Arc::new(Self { context, informers, journal })
    }

    /// Records that work begins.
    ///
    /// # Errors
    /// Returns the reason why it does not begin now.
    pub fn begin(&self, work: Work) -> Result<Noted, Held> {
        match self.journal.verdict(&work) {
            Verdict::Suspect if !self.are_others_loaded() => Err(Held::Suspected(format!(
                "the host crashed while it {}: retrying alone, after all other plugins are loaded",
                work.past_tense()
            ))),
            Verdict::Quarantined => {
                let work = work.past_tense();
                let text = format!(
                    "the host crashed twice in a row while it {work}: it does not retry until the source changes"
                );
                Err(Held::Quarantined(text))
            }
            Verdict::Ordinary | Verdict::Suspect => self.journal.begin(work).ok_or(Held::Waiting),
        }
    }

    /// Records that work on a Plugin begins.
    ///
    /// # Errors
    /// Returns the problem if it must not begin; None if it only has to wait for others. The Plugin is enqueued again then.
    pub fn note(&self, key: &ObjectKey, plugin: &Plugin, step: Step, version: &str) -> Result<Noted, Option<Problem>> {
        let ObjectKey { namespace, name } = key;
        let namespace = namespace.as_deref().unwrap_or_default();
        let retry = plugin.metadata.annotations.as_ref().and_then(|annotations| annotations.get(RETRY));
        let work = Work::new(step, namespace, name, version, retry.map_or("", String::as_str));
        self.begin(work).map_err(|held| match held {
            Held::Waiting => {
                self.context.queue.enqueue_after(key, LOOK_AGAIN);
                None
            }
            Held::Suspected(text) => {
                self.context.queue.enqueue_after(key, LOOK_AGAIN);
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

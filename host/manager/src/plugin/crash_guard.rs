//! Records work on a tenant's bytes in the crash journal. Work that the host crashed on before is
//! done last, or not at all.

use std::sync::Arc;

use operetta_api::{annotations::RETRY, reasons};
use operetta_core::{
    object::ObjectKey,
    remedy::{Advice, Remedy},
};

use crate::{
    context::Context,
    crash_journal::{CrashJournal, InFlight, RETRY_INTERVAL, Step, Verdict, Work},
    plugin::{crd::Plugin, host_informers::HostInformers},
    problem::Problem,
};

/// Decides when work may start, and keeps it in the journal while it is in flight.
pub struct CrashGuard {
    context: Arc<Context>,
    informers: Arc<HostInformers>,
    journal: Arc<CrashJournal>,
}

/// Why work can't start now.
pub enum Postponed {
    /// Another suspect of its namespace has to end first.
    Busy,
    /// The host crashed during it, so it waits until every other Plugin has been reconciled.
    Suspected(String),
    /// The host crashed during it twice in a row.
    Quarantined(String),
}

impl CrashGuard {
    /// Creates a guard with this journal.
    pub fn new(
        context: Arc<Context>,
        informers: Arc<HostInformers>,
        journal: Arc<CrashJournal>,
    ) -> Arc<Self> {
        Arc::new(Self {
            context,
            informers,
            journal,
        })
    }

    /// Records that work starts.
    ///
    /// # Errors
    /// Why it can't start now.
    pub fn begin(&self, work: Work) -> Result<InFlight, Postponed> {
        match self.journal.verdict(&work) {
            Verdict::Suspect if !self.are_others_loaded() => Err(Postponed::Suspected(format!(
                "the host crashed while it {}: retrying after all other plugins are loaded",
                work.past_tense()
            ))),
            Verdict::Quarantined => {
                let work = work.past_tense();
                let text = format!(
                    "the host crashed at least twice in a row while it {work}: it does not retry until the source changes"
                );
                Err(Postponed::Quarantined(text))
            }
            Verdict::Ordinary | Verdict::Suspect => self.journal.begin(work).ok_or(Postponed::Busy),
        }
    }

    /// Records that work on a Plugin starts.
    ///
    /// # Errors
    /// The problem if the work can't start, or None if it only has to wait for other work. Unless
    /// the work is quarantined, the Plugin is enqueued again.
    pub fn begin_for_plugin(
        &self,
        key: &ObjectKey,
        plugin: &Plugin,
        step: Step,
        version: &str,
    ) -> Result<InFlight, Option<Problem>> {
        let ObjectKey { namespace, name } = key;
        let namespace = namespace.as_deref().unwrap_or_default();
        let annotations = plugin.metadata.annotations.as_ref();
        let retry = annotations.and_then(|annotations| annotations.get(RETRY));
        let retry = retry.map_or("", String::as_str);
        let work = Work::new(step, namespace, name, version, retry);

        self.begin(work).map_err(|postponed| match postponed {
            Postponed::Busy => {
                self.context.queue.enqueue_after(key, RETRY_INTERVAL);
                None
            }
            Postponed::Suspected(text) => {
                self.context.queue.enqueue_after(key, RETRY_INTERVAL);
                Some(Problem::new(reasons::CRASH_SUSPECTED, text))
            }
            Postponed::Quarantined(text) => {
                // Any new value allows another attempt.
                let next = retry
                    .parse::<u64>()
                    .map_or(1, |last| last.saturating_add(1));
                let annotation = format!("{RETRY}={next}");
                let annotate = Remedy::new([
                    "kubectl",
                    "annotate",
                    "plugin",
                    name,
                    "-n",
                    namespace,
                    "--overwrite",
                    &annotation,
                ]);
                let advice = Advice::from(format!("{text} or an administrator asks for it"));
                let advice = advice.with(": ", annotate);
                Some(Problem::new(reasons::CRASH_QUARANTINED, advice))
            }
        })
    }

    /// Records that a Plugin was reconciled. Suspects wait for all other Plugins.
    pub fn record_attempt(&self, plugin: &ObjectKey) {
        self.journal.record_attempt(plugin);
    }

    fn are_others_loaded(&self) -> bool {
        let plugins = self.informers.plugins_in(None);
        self.journal
            .are_others_loaded(plugins.map(|plugin| plugin.key().clone()))
    }
}

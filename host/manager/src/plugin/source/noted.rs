//! Loading with a record in the crash journal: code during whose load the host crashed is loaded last and alone, or not
//! at all.

use operetta_api::{annotations::RETRY, reasons};
use operetta_core::object::ObjectKey;
use operetta_kube::store::Lookup;

use super::Loader;
use crate::{
    crash_journal::{LOOK_AGAIN, Noted, Step, Verdict, Work},
    plugin::slot::PluginRef,
    problem::Problem,
};

impl Loader {
    /// Records that a component is being loaded. Returns the problem if it must not be loaded; None if it only has to
    /// wait for others.
    pub(super) fn note(&self, plugin: PluginRef<'_>, digest: &str) -> Result<Noted, Option<Problem>> {
        let key = plugin.key;
        let retry = plugin.object.metadata.annotations.as_ref().and_then(|annotations| annotations.get(RETRY));
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let work = Work::new(Step::Load, namespace, &key.name, digest, retry.map_or("", String::as_str));
        match self.journal.verdict(&work) {
            Verdict::Suspect if !self.are_others_loaded() => {
                self.context.queue.enqueue_after(key, LOOK_AGAIN);
                let message = format!(
                    "the host crashed while it loaded {digest}: it is loaded again, alone, after all other plugins"
                );
                Err(Some(Problem::new(reasons::CRASH_SUSPECTED, message)))
            }
            Verdict::Quarantined => {
                self.context.metrics.loaded(reasons::CRASH_QUARANTINED);
                Err(Some(Problem::new(reasons::CRASH_QUARANTINED, quarantine(key, digest))))
            }
            Verdict::Ordinary | Verdict::Suspect => self.journal.begin(work).ok_or_else(|| {
                self.context.queue.enqueue_after(key, LOOK_AGAIN);
                None
            }),
        }
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

/// Builds the message of a quarantine, with the command that lifts it.
fn quarantine(key: &ObjectKey, digest: &str) -> String {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    format!(
        "the host crashed twice in a row while it loaded {digest}: it is not loaded until its source changes or an \
         administrator asks for it: kubectl annotate plugin {} -n {namespace} --overwrite {RETRY}=$(date +%s)",
        key.name
    )
}

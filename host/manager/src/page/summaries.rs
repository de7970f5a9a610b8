//! All Plugins with state, reason and cure from their status, and rates from this replica's counts.
//! All readers share one list.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use operetta_api::{conditions, reasons};
use operetta_core::{
    object::{Object, ObjectKey},
    remedy::{Remedy, cure_for},
};
use operetta_kube::store::Lookup;
use serde::{Deserialize, Serialize};
use tokio::{sync::Mutex, time::Instant};

use super::rates::{self, AllCounts, Counts, History, Rates};
use crate::{
    manager::Manager,
    plugin::crd::{PluginStatus, RemedyStatus},
};

/// How often updates are sent, and how long a list is cached.
pub(super) const INTERVAL: Duration = Duration::from_millis(500);

/// A Plugin in the list.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    pub namespace: String,
    pub name: String,
    pub state: &'static str,
    pub reason: String,
    pub message: String,
    /// The commands in the message that solve the problem, in shell syntax.
    pub remedies: Vec<String>,
    /// How to fix the reason, in Markdown, with the Plugin in its commands.
    pub cure: String,
    /// The replicas that run it.
    pub runs_on: Vec<String>,
    pub digest: String,
    /// Without numbers at first, and always for another replica's Plugin.
    #[serde(flatten)]
    pub rates: Rates,
    pub memory_bytes: u64,
    pub queued: usize,
    pub needs_attention: bool,
    /// The kinds of its controllers with failing keys, as in its status.
    #[serde(skip)]
    pub failing_kinds: Vec<String>,
}

/// What the page shows of a Plugin.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ShownPlugin {
    spec: ShownSpec,
    pub status: PluginStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ShownSpec {
    suspend: bool,
    service_account_name: Option<String>,
}

impl ShownPlugin {
    pub(super) fn read(plugin: &Object) -> Self {
        // Anybody may have written the status, so it may not parse.
        serde_json::from_str(plugin.json()).unwrap_or_default()
    }

    /// Returns the name of the ServiceAccount that it acts as.
    pub(super) fn service_account(&self) -> Option<&str> {
        self.spec.service_account_name.as_deref()
    }

    fn is(&self, type_: &str) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.type_ == type_ && condition.status == "True")
    }

    fn state(&self) -> &'static str {
        match () {
            () if self.spec.suspend => "Paused",
            () if self.is(conditions::DEGRADED) => "Degraded",
            () if self.is(conditions::READY) => "Running",
            () => "Waiting",
        }
    }

    fn replicas(&self) -> Vec<String> {
        let owner = &self.status.owner;
        let of_shards: BTreeSet<String> = owner
            .shards
            .iter()
            .filter_map(|shard| shard.replica.clone())
            .collect();
        match of_shards.is_empty() {
            true => owner.replica.iter().cloned().collect(),
            false => of_shards.into_iter().collect(),
        }
    }
}

/// The list of all Plugins, shared by all readers.
#[derive(Default)]
pub(super) struct Summaries(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    history: History,
    latest: Option<(Instant, Arc<Vec<Summary>>)>,
}

impl Summaries {
    /// Returns all Plugins; those that need attention come first.
    pub(super) async fn latest(&self, manager: &Manager) -> Arc<Vec<Summary>> {
        let mut kept = self.0.lock().await;
        if let Some((_, latest)) = kept
            .latest
            .as_ref()
            .filter(|(at, _)| at.elapsed() < INTERVAL)
        {
            return latest.clone();
        }

        let counts = Arc::new(rates::count(&manager.hosted_plugins).await);
        let now = Instant::now();
        let before = kept.history.push(now, counts.clone());
        let mut all: Vec<_> = objects(manager)
            .iter()
            .map(|plugin| summary(plugin, &counts, before.as_ref()))
            .collect();
        all.sort_by(|one, other| {
            let order = |plugin: &Summary| {
                (
                    !plugin.needs_attention,
                    plugin.namespace.clone(),
                    plugin.name.clone(),
                )
            };
            order(one).cmp(&order(other))
        });

        let all = Arc::new(all);
        kept.latest = Some((now, all.clone()));

        all
    }
}

pub(super) fn objects(manager: &Manager) -> Vec<Arc<Object>> {
    let Some(informer) = manager.plugins() else {
        return Vec::new();
    };
    informer
        .cache
        .store
        .list(&Lookup::All, None, None)
        .collect()
}

fn summary(
    plugin: &Object,
    counts: &AllCounts,
    before: Option<&(Duration, Arc<AllCounts>)>,
) -> Summary {
    let key = plugin.key();
    let shown = ShownPlugin::read(plugin);
    let here = counts.get(key);
    let before = before.and_then(|(elapsed, counts)| Some((*elapsed, counts.get(key)?.clone())));
    let rates = here
        .map(|counts| counts.rates(before.as_ref()))
        .unwrap_or_default();
    describe(key, shown, here, rates)
}

fn describe(key: &ObjectKey, shown: ShownPlugin, here: Option<&Counts>, rates: Rates) -> Summary {
    let state = shown.state();
    let runs_on = shown.replicas();
    let status = shown.status;
    let queued: i64 = status
        .controllers
        .iter()
        .map(|controller| controller.queued)
        .sum();

    let failing_kinds = status
        .controllers
        .iter()
        .filter(|controller| controller.failing > 0)
        .map(|controller| controller.for_.clone())
        .collect();

    let memory = status
        .usage
        .map(|usage| usage.peak_memory_bytes)
        .unwrap_or_default();
    let reason = status
        .reason
        .unwrap_or_else(|| reasons::PLUGIN_NOT_ASSIGNED.into());

    Summary {
        namespace: key.namespace.clone().unwrap_or_default(),
        name: key.name.clone(),
        state,
        cure: reasons::find(&reason)
            .map(|reason| cure_for(reason, key))
            .unwrap_or_default(),
        reason,
        message: status.message.unwrap_or_default(),
        remedies: status.remedies.iter().filter_map(for_shell).collect(),
        runs_on,
        digest: status.digest.unwrap_or_default(),
        rates,
        memory_bytes: here.map_or(u64::try_from(memory).unwrap_or_default(), |counts| {
            counts.memory_bytes
        }),
        queued: here.map_or(usize::try_from(queued).unwrap_or_default(), |counts| {
            counts.queued
        }),
        needs_attention: matches!(state, "Degraded" | "Waiting"),
        failing_kinds,
    }
}

/// Formats a remedy as in the message. None if it can't come from a host.
fn for_shell(remedy: &RemedyStatus) -> Option<String> {
    let mut commands = remedy
        .commands
        .iter()
        .map(|command| Remedy::new(&command.argv));
    let first = commands.next()??;
    let joined = commands.try_fold(first, Remedy::then)?;
    Some(joined.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Summary {
        let shown: ShownPlugin = serde_json::from_str(text).expect("a Plugin");
        describe(
            &ObjectKey::namespaced("n", "p"),
            shown,
            None,
            Rates::default(),
        )
    }

    #[test]
    fn state_is_that_of_the_conditions() {
        let with = |type_: &str| {
            let condition = r#""status":"True","reason":"R","message":"","lastTransitionTime":"""#;
            shown(&format!(
                r#"{{"status":{{"conditions":[{{"type":"{type_}",{condition}}}]}}}}"#
            ))
        };
        let ready = with("Ready");
        assert_eq!((ready.state, ready.needs_attention), ("Running", false));

        let degraded = with("Degraded");
        assert_eq!(
            (degraded.state, degraded.needs_attention),
            ("Degraded", true)
        );

        let paused = shown(r#"{"spec":{"suspend":true}}"#);
        assert_eq!((paused.state, paused.needs_attention), ("Paused", false));

        let new = shown("{}");
        assert_eq!(
            (new.state, new.reason.as_str()),
            ("Waiting", "PluginNotAssigned")
        );
    }

    #[test]
    fn remedies_are_quoted_as_in_the_message() {
        let plugin = shown(
            r#"{"status":{"remedies":[{"commands":[{"argv":["a","$(b)"]},{"argv":["c"]}]},{"commands":[]},
            {"commands":[{"argv":["d\n"]}]}]}}"#,
        );
        assert_eq!(plugin.remedies, ["a '$(b)' && c"]);
    }

    #[test]
    fn plugin_elsewhere_has_the_numbers_of_its_status() {
        let plugin = shown(
            r#"{"status":{"reason":"Trap","usage":{"peakMemoryBytes":7},"controllers":[{"name":"c","for":"K","queued":3,"failing":1},
            {"name":"well","for":"L"}],
            "shards":[{"shard":0,"replica":"b"},{"shard":1,"replica":"a"},{"shard":2,"replica":"b"}]}}"#,
        );
        assert_eq!(
            (plugin.memory_bytes, plugin.queued, plugin.rates),
            (7, 3, Rates::default())
        );
        assert_eq!(plugin.runs_on, ["a", "b"]);
        assert_eq!(plugin.failing_kinds, ["K"]);
        assert_eq!(plugin.cure, "", "the reason is unknown");
    }

    #[test]
    fn cure_names_the_plugin() {
        let plugin = shown(r#"{"status":{"reason":"ReconcileTrapped"}}"#);
        assert!(
            plugin.cure.contains("`operetta logs p -n n`"),
            "{}",
            plugin.cure
        );
    }
}

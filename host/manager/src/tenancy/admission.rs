//! Admits Plugins within their namespace's quotas: how many are loaded, and how many controllers
//! and sources they have together.
//!
//! Plugins of a namespace are admitted by age, each one if it fits beside the older ones. The
//! result depends only on the Plugins: restarting the host doesn't change it, and a new Plugin
//! displaces no older one. What a Plugin needs is known once its code is loaded; until then it
//! needs nothing. A Plugin that was over the quota when the host started waits until all older ones
//! are known, because otherwise it would run in the meantime.
//!
//! When a Plugin's admission changes, it is enqueued.

use std::{
    collections::{BTreeMap, HashMap},
    mem::{self, discriminant},
};

use operetta_api::reasons;
use operetta_core::object::ObjectKey;
use parking_lot::Mutex;

use crate::{
    plugin::queue::PluginQueue,
    problem::Problem,
    tenancy::quotas::{NamespaceQuota, Quotas},
};

/// How many controllers and sources a plugin has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The number of controllers.
    pub controllers: usize,
    /// The number of sources of all controllers.
    pub sources: usize,
}

/// What a namespace's admitted plugins use of its quotas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUse {
    /// The number of Plugins that may be loaded.
    pub plugins: usize,
    /// The controllers and sources of running Plugins.
    pub demand: Demand,
    /// The number of Plugins not admitted.
    pub over: usize,
}

/// The quotas of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// The maximum number of Plugins.
    pub plugins: usize,
    /// The maximum numbers of controllers and sources.
    pub demand: Demand,
}

impl QuotaLimits {
    fn new(quota: &NamespaceQuota) -> Self {
        let limit = |limit: Option<u32>| limit.map_or(usize::MAX, |limit| limit as usize);
        let demand = Demand {
            controllers: limit(quota.controllers),
            sources: limit(quota.sources),
        };
        Self {
            plugins: limit(quota.plugins),
            demand,
        }
    }
}

/// Why a Plugin doesn't run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excess {
    /// The namespace already has its maximum number of older Plugins.
    Plugins { limit: usize },
    /// Older Plugins leave too few controllers or sources.
    Demand {
        what: &'static str,
        wanted: Option<usize>,
        used: usize,
        limit: usize,
    },
    /// It was over the quota before the host started, and some older Plugins aren't loaded yet.
    OlderUnknown,
}

impl Excess {
    fn problem(self, namespace: &str) -> Problem {
        let raise = |quota: &str| {
            format!("raise quotas.namespaces.{namespace}.{quota} of the host's configuration")
        };
        let message = match self {
            Self::Plugins { limit } => format!(
                "namespace {namespace:?} may have {limit} Plugins and has as many older ones: delete one of them, or {}",
                raise("plugins")
            ),
            Self::Demand {
                what,
                wanted,
                used,
                limit,
            } => {
                let wanted = wanted.map_or_else(String::new, |wanted| {
                    format!("it has {wanted} {what}, and ")
                });
                format!(
                    "{wanted}older Plugins of namespace {namespace:?} have {used} of the {limit} {what} that it may have: \
                     delete or suspend one of them, or {}",
                    raise(what)
                )
            }
            Self::OlderUnknown => format!(
                "it was over a quota of namespace {namespace:?} before the host started: wait until the older Plugins of \
                 the namespace are loaded"
            ),
        };
        Problem::new(reasons::QUOTA_EXCEEDED, message)
    }
}

/// What a Plugin needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Its code isn't loaded yet.
    Unknown,
    /// Its code is loaded, or doesn't run.
    Known(Demand),
    /// Another replica runs it. Every replica counts it the same, so the same Plugins run no matter
    /// how many replicas there are.
    Elsewhere(Demand),
}

#[derive(Debug)]
struct Entry {
    need: Need,
    /// True if its status said that it was over the quota when the host first saw it.
    was_over: bool,
    /// Why it isn't admitted.
    excess: Option<Excess>,
}

/// A namespace's Plugins by creation time and name, oldest first.
#[derive(Default)]
struct Namespace {
    plugins: BTreeMap<(String, String), Entry>,
    /// Each Plugin's creation time.
    created: HashMap<String, String>,
    usage: QuotaUse,
}

/// Decides which Plugins run.
pub struct Admission {
    quotas: Quotas,
    queue: PluginQueue,
    namespaces: Mutex<HashMap<String, Namespace>>,
}

impl Admission {
    /// Creates the admission for a host without Plugins. Plugins whose admission changes are added
    /// to `queue`.
    pub fn new(quotas: Quotas, queue: PluginQueue) -> Self {
        Self {
            quotas,
            queue,
            namespaces: Mutex::default(),
        }
    }

    /// Adds a Plugin, unless it is known. `created` is its creation time in RFC 3339; `was_over`
    /// reports whether its status says that it is over the quota.
    pub fn add(&self, plugin: &ObjectKey, created: &str, was_over: impl FnOnce() -> bool) {
        let limit = self
            .limits(plugin.namespace.as_deref().unwrap_or_default())
            .plugins;
        self.change(plugin, |namespace| {
            if namespace
                .created
                .get(&plugin.name)
                .is_some_and(|known| known == created)
            {
                return false;
            }
            namespace.remove(&plugin.name);

            // Until it is admitted below.
            let excess = Some(Excess::Plugins { limit });
            let entry = Entry {
                need: Need::Unknown,
                was_over: was_over(),
                excess,
            };
            namespace
                .created
                .insert(plugin.name.clone(), created.to_owned());
            namespace
                .plugins
                .insert((created.to_owned(), plugin.name.clone()), entry);
            true
        });
    }

    /// Removes a deleted Plugin.
    pub fn remove(&self, plugin: &ObjectKey) {
        self.change(plugin, |namespace| namespace.remove(&plugin.name));
    }

    /// Checks that a Plugin may be loaded.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check_load(&self, plugin: &ObjectKey) -> Result<(), Problem> {
        let name = plugin.namespace.as_deref().unwrap_or_default();
        let all = self.namespaces.lock();
        let entry = all
            .get(name)
            .and_then(|namespace| namespace.entry(&plugin.name));
        let excess = entry.and_then(|entry| {
            // A Plugin that needs too much may still load other code, which may need less.
            let forbids = |excess: &Excess| {
                matches!(excess, Excess::Plugins { .. }) || entry.need == Need::Unknown
            };
            entry.excess.filter(forbids)
        });
        excess.map_or(Ok(()), |excess| Err(excess.problem(name)))
    }

    /// Records what a Plugin needs, and checks that it may run.
    ///
    /// # Errors
    /// Why it may not.
    pub fn record(&self, plugin: &ObjectKey, need: Need) -> Result<(), Problem> {
        self.change(plugin, |namespace| {
            let Some(entry) = namespace.entry_mut(&plugin.name) else {
                return false;
            };
            mem::replace(&mut entry.need, need) != need
        });
        let name = plugin.namespace.as_deref().unwrap_or_default();
        let all = self.namespaces.lock();
        let excess = all
            .get(name)
            .and_then(|namespace| namespace.entry(&plugin.name)?.excess);
        excess.map_or(Ok(()), |excess| Err(excess.problem(name)))
    }

    /// Records that this replica is about to take over a Plugin from another one. Younger Plugins
    /// wait for it.
    pub fn expect(&self, plugin: &ObjectKey) {
        self.change(plugin, |namespace| {
            match namespace.entry_mut(&plugin.name) {
                Some(entry) if matches!(entry.need, Need::Elsewhere(_)) => {
                    entry.need = Need::Unknown;
                    true
                }
                _ => false,
            }
        });
    }

    /// Returns the usage and the quotas of each namespace.
    pub fn usage(&self) -> Vec<(String, QuotaUse, QuotaLimits)> {
        let all = self.namespaces.lock();
        all.iter()
            .map(|(name, namespace)| (name.clone(), namespace.usage, self.limits(name)))
            .collect()
    }

    fn limits(&self, namespace: &str) -> QuotaLimits {
        QuotaLimits::new(&self.quotas.of_namespace(namespace))
    }

    /// Changes a Plugin's namespace. If `change` returns true, admits its Plugins again and
    /// enqueues those whose admission changed.
    fn change(&self, plugin: &ObjectKey, change: impl FnOnce(&mut Namespace) -> bool) {
        let name = plugin.namespace.as_deref().unwrap_or_default();
        let mut all = self.namespaces.lock();
        let namespace = all.entry(name.to_owned()).or_default();
        if change(namespace) {
            for changed in namespace.admit(self.limits(name)) {
                self.queue.enqueue(&ObjectKey::namespaced(name, &changed));
            }
        }

        if namespace.plugins.is_empty() {
            all.remove(name);
        }
    }
}

impl Namespace {
    fn entry(&self, plugin: &str) -> Option<&Entry> {
        self.plugins
            .get(&(self.created.get(plugin)?.clone(), plugin.to_owned()))
    }

    fn entry_mut(&mut self, plugin: &str) -> Option<&mut Entry> {
        self.plugins
            .get_mut(&(self.created.get(plugin)?.clone(), plugin.to_owned()))
    }

    fn remove(&mut self, plugin: &str) -> bool {
        let created = self.created.remove(plugin);
        created.is_some_and(|created| self.plugins.remove(&(created, plugin.to_owned())).is_some())
    }

    /// Admits Plugins within these limits, and returns the names of those whose admission changed.
    /// It looks only at the first ones up to the limit: however many there are, all others are over
    /// the quota.
    fn admit(&mut self, limits: QuotaLimits) -> Vec<String> {
        let all = self.plugins.len();
        let mut usage = QuotaUse::default();
        let mut admitted = 0;
        let mut changed = Vec::new();
        let mut is_older_unknown = false;

        for ((_, name), entry) in self
            .plugins
            .iter_mut()
            .take(limits.plugins.saturating_add(1))
        {
            let excess = if usage.plugins == limits.plugins {
                Some(Excess::Plugins {
                    limit: limits.plugins,
                })
            } else {
                usage.plugins += 1;
                excess(entry, usage.demand, limits.demand, is_older_unknown)
            };
            if let (None, Need::Known(demand) | Need::Elsewhere(demand)) = (excess, entry.need) {
                usage.demand.controllers += demand.controllers;
                usage.demand.sources += demand.sources;
                entry.was_over &= matches!(entry.need, Need::Elsewhere(_));
            }

            is_older_unknown |= entry.need == Need::Unknown;
            admitted += usize::from(excess.is_none());
            if entry.excess.as_ref().map(discriminant) != excess.as_ref().map(discriminant) {
                changed.push(name.clone());
            }
            entry.excess = excess;
        }
        usage.over = all - admitted;
        self.usage = usage;

        changed
    }
}

/// Returns why a Plugin doesn't fit beside older ones that use `used`.
fn excess(entry: &Entry, used: Demand, limits: Demand, is_older_unknown: bool) -> Option<Excess> {
    let is_known = entry.need != Need::Unknown;
    let demand = match entry.need {
        Need::Known(demand) | Need::Elsewhere(demand) if demand == Demand::default() => {
            return None;
        }
        Need::Known(demand) | Need::Elsewhere(demand) => demand,
        // All code has at least one of each.
        Need::Unknown => Demand {
            controllers: 1,
            sources: 1,
        },
    };

    for (what, wanted, used, limit) in [
        (
            "controllers",
            demand.controllers,
            used.controllers,
            limits.controllers,
        ),
        ("sources", demand.sources, used.sources, limits.sources),
    ] {
        if used.saturating_add(wanted) > limit {
            return Some(Excess::Demand {
                what,
                wanted: is_known.then_some(wanted),
                used,
                limit,
            });
        }
    }

    (is_known && is_older_unknown && entry.was_over).then_some(Excess::OlderUnknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("n", name)
    }

    fn admission(quota: NamespaceQuota) -> Admission {
        let quotas = Quotas {
            namespace: quota,
            ..Quotas::default()
        };
        Admission::new(quotas, PluginQueue::new())
    }

    /// Adds a Plugin that was created in this second.
    fn add(admission: &Admission, name: &str, second: usize) {
        admission.add(
            &key(name),
            &format!("2026-01-01T00:00:{second:02}Z"),
            || false,
        );
    }

    fn known(controllers: usize, sources: usize) -> Need {
        Need::Known(Demand {
            controllers,
            sources,
        })
    }

    /// Returns the Plugins that may be loaded.
    fn loaded(admission: &Admission) -> String {
        NAMES
            .into_iter()
            .filter(|name| admission.check_load(&key(name)).is_ok())
            .collect()
    }

    /// Returns the Plugins that were enqueued since the last call.
    async fn enqueued(admission: &Admission) -> String {
        let queue = admission.queue.work_queue();
        let mut names = Vec::new();

        while !queue.is_empty() {
            let key = queue.get().await.expect("open");
            queue.done(&key);
            names.push(key.name);
        }
        names.sort();
        names.concat()
    }

    #[test]
    fn plugin_over_quota_waits_for_older_ones_of_a_dead_replica() {
        let admission = admission(NamespaceQuota {
            controllers: Some(4),
            ..NamespaceQuota::default()
        });
        let created = |second: usize| format!("2026-01-01T00:00:{second:02}Z");
        admission.add(&key("a"), &created(1), || false);
        admission.add(&key("b"), &created(2), || true);

        let elsewhere = |controllers| {
            Need::Elsewhere(Demand {
                controllers,
                sources: controllers,
            })
        };

        // They count the same, whichever replica runs them.
        assert!(admission.record(&key("a"), elsewhere(3)).is_ok());
        assert!(admission.record(&key("b"), elsewhere(2)).is_err());

        let problem = admission
            .record(&key("b"), known(2, 2))
            .expect_err("a has three of four");
        assert!(
            problem.message.contains("have 3 of the 4 controllers"),
            "{}",
            problem.message
        );

        for name in ["b", "a"] {
            admission.expect(&key(name));
        }
        let problem = admission
            .record(&key("b"), known(2, 2))
            .expect_err("a is not loaded yet");
        assert!(
            problem.message.contains("before the host started"),
            "{}",
            problem.message
        );
        assert!(admission.record(&key("a"), known(3, 3)).is_ok());
        assert!(admission.record(&key("b"), known(2, 2)).is_err());

        // What this replica runs is not forgotten.
        admission.expect(&key("a"));
        assert_eq!(admission.usage()[0].1.demand.controllers, 3);
    }

    #[tokio::test]
    async fn older_plugins_are_loaded_in_whatever_order_they_come() {
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 3, 1]] {
            let admission = admission(NamespaceQuota {
                plugins: Some(3),
                ..NamespaceQuota::default()
            });
            order
                .into_iter()
                .for_each(|at| add(&admission, NAMES[at], 10 - at));
            assert_eq!(loaded(&admission), "cde", "{order:?}");

            let problem = admission.check_load(&key("a")).expect_err("over the quota");
            assert_eq!(problem.reason, "QuotaExceeded");
            assert!(
                problem.message.contains("may have 3 Plugins"),
                "{}",
                problem.message
            );
            assert!(
                problem.message.contains("quotas.namespaces.n.plugins"),
                "{}",
                problem.message
            );

            drop(enqueued(&admission).await);
            admission.remove(&key("d"));
            assert_eq!(
                (
                    loaded(&admission).as_str(),
                    enqueued(&admission).await.as_str()
                ),
                ("bcde", "b")
            );

            let (_, usage, limits) = admission.usage().remove(0);
            assert_eq!((usage.plugins, usage.over, limits.plugins), (3, 1, 3));

            NAMES.iter().for_each(|name| admission.remove(&key(name)));
            assert_eq!(admission.usage(), [], "nothing is left behind");
        }
    }

    #[tokio::test]
    async fn freed_room_goes_to_the_oldest_that_fits() {
        let admission = admission(NamespaceQuota {
            controllers: Some(10),
            sources: Some(20),
            ..NamespaceQuota::default()
        });
        NAMES
            .iter()
            .enumerate()
            .for_each(|(at, name)| add(&admission, name, at));
        let record = |name: &str, need: Need| {
            admission
                .record(&key(name), need)
                .map_err(|problem| problem.message)
        };
        assert_eq!(record("a", known(6, 6)), Ok(()));

        let message = record("b", known(5, 5)).expect_err("too many controllers");
        assert!(
            message.contains(
                "it has 5 controllers, and older Plugins of namespace \"n\" have 6 of the 10"
            ),
            "{message}"
        );
        assert_eq!(record("c", known(4, 4)), Ok(()), "a smaller one fits");

        let message = record("d", known(0, 11)).expect_err("too many sources");
        assert!(message.contains("have 10 of the 20 sources"), "{message}");

        drop(enqueued(&admission).await);
        assert!(
            admission.check_load(&key("b")).is_ok(),
            "other code of it may fit"
        );

        let problem = admission
            .check_load(&key("e"))
            .expect_err("there is no room for any code");
        assert!(
            problem.message.starts_with("older Plugins"),
            "{}",
            problem.message
        );
        // The older Plugin shrinks by a swap of its code.
        assert_eq!(record("a", known(1, 1)), Ok(()));
        assert_eq!(enqueued(&admission).await, "b");
        assert_eq!(
            (record("b", known(5, 5)), record("d", known(0, 11)).is_err()),
            (Ok(()), true)
        );
        // It is suspended.
        assert_eq!(record("b", Need::Known(Demand::default())), Ok(()));
        assert_eq!(enqueued(&admission).await, "de");
        assert_eq!(record("d", known(0, 11)), Ok(()));
    }

    #[tokio::test]
    async fn plugin_over_quota_before_restart_waits_for_older_ones() {
        let admission = admission(NamespaceQuota {
            controllers: Some(3),
            ..NamespaceQuota::default()
        });
        add(&admission, "a", 0);
        add(&admission, "b", 1);
        admission.add(&key("c"), "2026-01-01T00:00:02Z", || true);

        let message = |name: &str, need: Need| {
            admission
                .record(&key(name), need)
                .map_err(|problem| problem.message)
        };
        assert!(
            message("c", known(2, 2))
                .expect_err("it waits")
                .contains("wait until the older Plugins")
        );
        assert_eq!(message("b", known(1, 1)), Ok(()), "it ran before");

        drop(enqueued(&admission).await);
        assert_eq!(message("a", known(1, 1)), Ok(()));
        assert_eq!(enqueued(&admission).await, "c", "it learns why");
        assert!(
            message("c", known(2, 2))
                .expect_err("over")
                .contains("have 2 of the 3 controllers")
        );

        admission.remove(&key("a"));
        assert_eq!(
            (
                enqueued(&admission).await.as_str(),
                message("c", known(2, 2))
            ),
            ("c", Ok(()))
        );
    }

    #[test]
    fn recreated_plugin_is_the_youngest() {
        let admission = admission(NamespaceQuota {
            plugins: Some(1),
            ..NamespaceQuota::default()
        });
        add(&admission, "a", 0);
        add(&admission, "b", 1);
        add(&admission, "a", 2);
        assert_eq!(
            loaded(&admission),
            "bcde",
            "those that are not there are not limited"
        );
    }
}

//! Enforces the quota of cached bytes: how much each plugin makes the host cache, checked every few
//! seconds.
//!
//! An informer is charged in equal parts to the plugins that use it. If a plugin is over its quota,
//! or has the largest share in a namespace that is over its own, it first loses the informers
//! started only by its reads; the API server then answers those reads. If what its controllers
//! watch is too much on its own, they are stopped, like a native operator at its memory limit, and
//! tried again after [`RETRY`].

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use operetta_api::reasons;
use operetta_core::object::ObjectKey;
use operetta_kube::informer::Informer;

use crate::{
    context::Context,
    plugin::{hosted_plugin::HostedPlugin, hosted_plugins::HostedPlugins},
    problem::Problem,
    tenancy::quotas::Quotas,
};

/// How often the quotas are checked.
const INTERVAL: Duration = Duration::from_secs(3);
/// How many checks may be skipped while the cache doesn't change. A plugin may have started to
/// share an informer with others, so we can't skip all.
const MAX_SKIPPED: u32 = 20;
/// When a stopped plugin is tried again.
pub const RETRY: Duration = Duration::from_secs(600);

/// What one plugin uses of the cache, in bytes per informer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Uses {
    /// Informers its controllers watch.
    watched: BTreeMap<usize, u64>,
    /// Informers started by its reads.
    on_demand: BTreeMap<usize, u64>,
}

/// What to do about a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Measure {
    /// Nothing.
    Keep,
    /// Drop the informers started by its reads.
    ReadLive,
    /// Stop its controllers for this reason.
    Stop(String),
}

/// Checks the quotas until it is cancelled.
pub async fn enforce(context: Arc<Context>, all: Arc<HostedPlugins>) {
    // Remembered for plugins that are being set up and can't be asked.
    let mut before: HashMap<ObjectKey, Uses> = HashMap::new();
    let mut unchanged = Unchanged::default();

    loop {
        tokio::time::sleep(INTERVAL).await;
        if unchanged.skips(extent(&context, &all)) {
            continue;
        }

        let hosted_plugins = all.all();
        let uses: Vec<(ObjectKey, Uses)> = hosted_plugins
            .iter()
            .map(|(key, hosted)| {
                let now = uses(hosted)
                    .or_else(|| before.remove(key))
                    .unwrap_or_default();
                (key.clone(), now)
            })
            .collect();
        let shares = shares(&uses);
        let measures = measures(&uses, &shares, context.tenants.quotas());
        for (((key, hosted), bytes), measure) in hosted_plugins.iter().zip(shares).zip(measures) {
            hosted.cached_bytes.store(bytes, Ordering::Relaxed);
            if measure != Measure::Keep {
                unchanged = Unchanged::default();
            }
            carry_out(&context, key, hosted, measure);
        }

        before = uses.into_iter().collect();
    }
}

/// The numbers of hosted plugins and informers, and the bytes in the caches.
type Extent = (usize, usize, u64);

fn extent(context: &Context, all: &HostedPlugins) -> Extent {
    let informers = context.cluster.registry.running();
    let bytes = informers
        .iter()
        .map(|informer| informer.cache.store.bytes() as u64)
        .sum();
    (all.count(), informers.len(), bytes)
}

/// Skips checks on an idle host, where they would cost more than the idle plugins themselves.
#[derive(Debug, Default)]
struct Unchanged {
    checked: Option<Extent>,
    skipped: u32,
}

impl Unchanged {
    /// Reports whether the check can be skipped at this extent.
    fn skips(&mut self, now: Extent) -> bool {
        if self.checked.replace(now) == Some(now) && self.skipped < MAX_SKIPPED {
            self.skipped += 1;
            return true;
        }
        self.skipped = 0;
        false
    }
}

/// Returns what a plugin uses, or None while it is being set up.
fn uses(hosted: &HostedPlugin) -> Option<Uses> {
    let state = hosted.state.try_lock().ok()?;
    let by_informer = |informers: Vec<Arc<Informer>>| {
        let of = |informer: &Arc<Informer>| {
            (
                Arc::as_ptr(informer) as usize,
                informer.cache.store.bytes() as u64,
            )
        };
        informers.iter().map(of).collect::<BTreeMap<_, _>>()
    };

    let (watched, on_demand) = state
        .running
        .as_ref()
        .map(|running| running.informers())
        .unwrap_or_default();
    Some(Uses {
        watched: by_informer(watched),
        on_demand: by_informer(on_demand),
    })
}

fn carry_out(context: &Context, key: &ObjectKey, hosted: &HostedPlugin, measure: Measure) {
    // Being set up: leave it to the next check.
    let Ok(mut state) = hosted.state.try_lock() else {
        return;
    };
    match measure {
        Measure::Keep => return,
        Measure::ReadLive => {
            if let Some(running) = &state.running {
                running.read_live();
            }
        }
        Measure::Stop(why) => state.pause(Problem::new(reasons::CACHE_QUOTA_EXCEEDED, why)),
    }
    context.queue.enqueue(key);
}

/// Returns each plugin's share in bytes, in the order of `uses`.
fn shares(uses: &[(ObjectKey, Uses)]) -> Vec<u64> {
    let users = users(uses);
    let share = |of: &Uses| {
        all(of)
            .into_iter()
            .map(|(informer, bytes)| bytes / users[&informer])
            .sum()
    };
    uses.iter().map(|(_, of)| share(of)).collect()
}

/// Counts the plugins using each informer.
fn users(uses: &[(ObjectKey, Uses)]) -> HashMap<usize, u64> {
    let mut users = HashMap::new();
    for (_, of) in uses {
        for informer in all(of).into_keys() {
            *users.entry(informer).or_default() += 1;
        }
    }
    users
}

fn all(uses: &Uses) -> BTreeMap<usize, u64> {
    uses.on_demand
        .iter()
        .chain(&uses.watched)
        .map(|(informer, bytes)| (*informer, *bytes))
        .collect()
}

fn measures(uses: &[(ObjectKey, Uses)], shares: &[u64], quotas: &Quotas) -> Vec<Measure> {
    let namespace = |key: &ObjectKey| key.namespace.clone().unwrap_or_default();
    let mut of_namespace: HashMap<String, (u64, usize)> = HashMap::new();
    for (at, ((key, _), bytes)) in uses.iter().zip(shares).enumerate() {
        let (sum, largest) = of_namespace.entry(namespace(key)).or_insert((0, at));
        *sum += bytes;
        if *bytes > shares[*largest] {
            *largest = at;
        }
    }

    let measure = |(at, ((key, of), bytes)): (usize, (&(ObjectKey, Uses), &u64))| {
        let name = namespace(key);
        let own = quotas.plugin.cache_bytes.filter(|quota| bytes > quota);
        let (sum, largest) = of_namespace.get(&name).copied().unwrap_or_default();
        let shared = quotas
            .of_namespace(&name)
            .cache_bytes
            .filter(|quota| sum > *quota && largest == at);

        let why = match (own, shared) {
            (Some(quota), _) => {
                format!(
                    "the host would cache {bytes} bytes for it: quotas.plugin.cacheBytes is {quota}"
                )
            }
            (None, Some(quota)) => format!(
                "the host would cache {sum} bytes for the plugins of namespace {name:?}, {bytes} of them for this one: their \
                 quota of cacheBytes is {quota}"
            ),
            (None, None) => return Measure::Keep,
        };

        if of
            .on_demand
            .keys()
            .any(|informer| !of.watched.contains_key(informer))
        {
            return Measure::ReadLive;
        }

        Measure::Stop(why)
    };
    uses.iter().zip(shares).enumerate().map(measure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::quotas::{NamespaceQuota, PluginQuota};

    fn plugin(
        name: &str,
        watched: &[(usize, u64)],
        on_demand: &[(usize, u64)],
    ) -> (ObjectKey, Uses) {
        let map = |of: &[(usize, u64)]| of.iter().copied().collect();
        (
            ObjectKey::namespaced("n", name),
            Uses {
                watched: map(watched),
                on_demand: map(on_demand),
            },
        )
    }

    #[test]
    fn idle_host_checks_once_a_minute() {
        let mut unchanged = Unchanged::default();
        let checks = |unchanged: &mut Unchanged, extent| {
            (0..42).filter(|_| !unchanged.skips(extent)).count()
        };
        assert_eq!(checks(&mut unchanged, (1, 2, 3)), 2);
        assert!(!unchanged.skips((1, 2, 4)), "the cache has changed");
        assert!(unchanged.skips((1, 2, 4)));
        assert!(!unchanged.skips((2, 2, 4)), "a plugin has come");
    }

    #[test]
    fn plugins_share_the_bytes_of_their_informer() {
        let uses = [
            plugin("a", &[(1, 90), (2, 7)], &[]),
            plugin("b", &[(1, 90)], &[(1, 90)]),
            plugin("c", &[], &[(1, 90)]),
        ];
        assert_eq!(shares(&uses), [37, 30, 30]);
    }

    #[test]
    fn plugin_over_its_quota_reads_live_before_it_stops() {
        let quotas = Quotas {
            plugin: PluginQuota {
                cache_bytes: Some(50),
                ..PluginQuota::default()
            },
            ..Quotas::default()
        };

        let uses = [
            plugin("a", &[(1, 50)], &[]),
            plugin("b", &[(2, 51)], &[(3, 1)]),
            plugin("c", &[(4, 51)], &[]),
        ];
        let measures = measures(&uses, &shares(&uses), &quotas);
        assert_eq!(measures[..2], [Measure::Keep, Measure::ReadLive]);
        assert!(
            matches!(&measures[2], Measure::Stop(why) if why.contains("51 bytes") && why.contains("is 50"))
        );
    }

    #[test]
    fn only_the_largest_plugin_of_a_namespace_stops() {
        let quotas = Quotas {
            namespace: NamespaceQuota {
                cache_bytes: Some(50),
                ..NamespaceQuota::default()
            },
            ..Quotas::default()
        };
        let uses = [plugin("a", &[(1, 20)], &[]), plugin("b", &[(2, 40)], &[])];
        let measures = measures(&uses, &shares(&uses), &quotas);
        assert_eq!(measures[0], Measure::Keep);
        assert!(
            matches!(&measures[1], Measure::Stop(why) if why.contains("60 bytes") && why.contains("40 of them"))
        );
    }
}

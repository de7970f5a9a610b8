//! Samples of informers, by kind. They are sums over a kind's informers, since plugins may choose
//! any number of selectors.
//!
//! Each scrape adds the informers' counts to totals, so counters never decrease when an informer
//! ends. What an informer counts between the last scrape and its end is lost.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};

use operetta_kube::informer::Informer;
use parking_lot::Mutex;

use crate::metrics::samples::{Labels, Samples};

/// Counts of all informers so far, including those that have ended.
#[derive(Default)]
pub struct InformerMetrics(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    /// What `totals` already includes, by the informer's address. The Weak keeps the allocation, so
    /// no other informer gets this address.
    known: HashMap<usize, (Weak<Informer>, Counts)>,
    /// By kind.
    totals: BTreeMap<String, Counts>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    watches: u64,
    relists: u64,
    unreadable: u64,
}

/// The current size of a kind's informers.
#[derive(Clone, Copy, Default)]
struct CachedKind {
    informers: u64,
    objects: u64,
    bytes: u64,
}

impl InformerMetrics {
    /// Adds samples of these informers.
    pub fn sample(&self, informers: &[Arc<Informer>], samples: &mut Samples) {
        let mut by_kind = BTreeMap::<String, CachedKind>::new();
        for informer in informers {
            let of = by_kind
                .entry(informer.resource.kind.to_string())
                .or_default();
            of.informers += 1;
            of.objects += informer.cache.store.len() as u64;
            of.bytes += informer.cache.store.bytes() as u64;
        }

        let gauges = |value: fn(&CachedKind) -> u64| {
            by_kind
                .iter()
                .map(|(kind, of)| (labels(kind), value(of)))
                .collect::<Vec<_>>()
        };
        samples.gauge(
            "operetta_informers",
            "Number of running informers",
            gauges(|of| of.informers),
        );
        samples.gauge(
            "operetta_informer_objects",
            "Number of cached objects",
            gauges(|of| of.objects),
        );
        samples.gauge(
            "operetta_informer_bytes",
            "Size of the cached objects in bytes",
            gauges(|of| of.bytes),
        );

        let totals = self.count(informers);
        let counters = |value: fn(&Counts) -> u64| {
            totals
                .iter()
                .map(|(kind, of)| (labels(kind), value(of)))
                .collect::<Vec<_>>()
        };
        let help = "Number of watch requests of informers";
        samples.counter("operetta_informer_watches", help, counters(|of| of.watches));

        let help = "Number of relists of informers";
        samples.counter("operetta_informer_relists", help, counters(|of| of.relists));
        let help = "Number of object states that were skipped because they could not be decoded";
        samples.counter(
            "operetta_informer_unreadable_objects",
            help,
            counters(|of| of.unreadable),
        );
    }

    fn count(&self, informers: &[Arc<Informer>]) -> BTreeMap<String, Counts> {
        let mut counted = self.0.lock();
        let Counted { known, totals } = &mut *counted;

        for informer in informers {
            let (_, before) = known
                .entry(Arc::as_ptr(informer) as usize)
                .or_insert_with(|| (Arc::downgrade(informer), Counts::default()));
            let stats = informer.stats();
            let total = totals
                .entry(informer.resource.kind.to_string())
                .or_default();
            total.watches += stats.watches.saturating_sub(before.watches);
            total.relists += stats.relists.saturating_sub(before.relists);
            total.unreadable += stats.unreadable.saturating_sub(before.unreadable);
            *before = Counts {
                watches: stats.watches,
                relists: stats.relists,
                unreadable: stats.unreadable,
            };
        }
        known.retain(|_, (informer, _)| informer.strong_count() > 0);

        totals.clone()
    }
}

fn labels(kind: &str) -> Labels {
    vec![("kind", kind.to_owned())]
}

//! Samples of informers, by kind. Informers of a kind are summed up, because plugins choose as many
//! selectors as they like.
//!
//! Counters never decrease when informers end: each scrape adds their counts to totals. Counts
//! between the last scrape and the end of an informer are lost.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};

use operetta_kube::informer::Informer;
use parking_lot::Mutex;

use crate::metrics::samples::{Labels, Samples};

/// The counts of informers so far, also of those that have ended.
#[derive(Default)]
pub struct InformerMetrics(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    /// The counts that were added up, by address. While an entry is here, no other informer has
    /// that address.
    known: HashMap<usize, (Weak<Informer>, Counts)>,
    /// The sums by kind.
    totals: BTreeMap<String, Counts>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    watches: u64,
    relists: u64,
    unreadable: u64,
}

/// The current size of the informers of a kind.
#[derive(Clone, Copy, Default)]
struct CachedKind {
    informers: u64,
    objects: u64,
    bytes: u64,
}

impl InformerMetrics {
    /// Takes samples of these informers.
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

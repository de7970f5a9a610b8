//! What Prometheus reads about informers, by kind: those of a kind together, because their selectors are as many as the
//! plugins like.
//!
//! Counters never fall, though informers end: what an informer did is added up at each look. What it did between the last
//! look and its end is lost.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use operetta_kube::informer::Informer;

use crate::metrics::{counter, gauge};

/// What informers have done so far.
#[derive(Default)]
pub struct InformerMetrics(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    /// By address, what was added up of an informer. As long as it is here, no other one has that address.
    known: HashMap<usize, (Weak<Informer>, Counts)>,
    /// By kind.
    totals: BTreeMap<String, Counts>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    watches: u64,
    relists: u64,
}

/// What the informers of a kind have now.
#[derive(Clone, Copy, Default)]
struct Held {
    informers: u64,
    objects: u64,
    bytes: u64,
}

impl InformerMetrics {
    /// Writes the lines of these informers, in the text format.
    ///
    /// # Errors
    /// Of the formatter.
    pub fn write(&self, text: &mut String, informers: &[Arc<Informer>]) -> fmt::Result {
        let mut held = BTreeMap::<String, Held>::new();
        for informer in informers {
            let of = held.entry(informer.resource.kind.to_string()).or_default();
            of.informers += 1;
            of.objects += informer.cache.store.len() as u64;
            of.bytes += informer.cache.store.bytes() as u64;
        }
        let gauges =
            |value: fn(&Held) -> u64| held.iter().map(|(kind, of)| (labels(kind), value(of))).collect::<Vec<_>>();
        gauge(text, "operetta_informers", "Informers that run", &gauges(|of| of.informers))?;
        gauge(text, "operetta_informer_objects", "Objects cached", &gauges(|of| of.objects))?;
        gauge(text, "operetta_informer_bytes", "Bytes of cached objects", &gauges(|of| of.bytes))?;

        let totals = self.count(informers);
        let counters = |value: fn(&Counts) -> u64| {
            totals.iter().map(|(kind, of)| (labels(kind), value(of) as f64)).collect::<Vec<_>>()
        };
        let help = "Watch requests begun by informers";
        counter(text, "operetta_informer_watches_total", help, &counters(|of| of.watches))?;
        let help = "Lists of informers after their first one";
        counter(text, "operetta_informer_relists_total", help, &counters(|of| of.relists))
    }

    fn count(&self, informers: &[Arc<Informer>]) -> BTreeMap<String, Counts> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Counted { known, totals } = &mut *counted;
        for informer in informers {
            let (_, before) = known
                .entry(Arc::as_ptr(informer) as usize)
                .or_insert_with(|| (Arc::downgrade(informer), Counts::default()));
            let stats = informer.stats();
            let total = totals.entry(informer.resource.kind.to_string()).or_default();
            total.watches += stats.watches.saturating_sub(before.watches);
            total.relists += stats.relists.saturating_sub(before.relists);
            *before = Counts { watches: stats.watches, relists: stats.relists };
        }
        known.retain(|_, (informer, _)| informer.strong_count() > 0);
        totals.clone()
    }
}

fn labels(kind: &str) -> String {
    format!("kind=\"{kind}\"")
}

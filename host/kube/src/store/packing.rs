//! Decides whether a store's objects are compressed. Once there are enough objects, it is tried on
//! a sample in the background.
//!
//! Training and packing run on a blocking thread (`spawn_blocking`), so readers and the watch wait
//! for neither. The lock is held only to take the sample and to swap in each small batch of packed
//! objects.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use operetta_core::object::RawObject;

use super::{
    Store,
    entry::{Codec, Entry},
};

/// The minimum number of objects. Fewer don't justify a dictionary, and are too few to train it.
const OBJECTS: usize = 1_000;
/// The minimum number of bytes. Fewer don't justify the time.
const BYTES: usize = 8 << 20;
/// The worst acceptable compression ratio of the sample: packed bytes by plain bytes.
const RATIO: f64 = 0.5;
/// The sample's maximum number of objects, and their maximum size in bytes.
const SAMPLE: usize = 1_000;
const SAMPLE_BYTES: usize = 6 << 20;
/// How many objects are swapped in at once.
const BATCH: usize = 64;

/// The compression mode of a host's stores.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// Compresses large stores, if that saves at least half.
    #[default]
    Auto,
    /// Compresses nothing.
    Off,
}

#[derive(Default)]
pub(super) struct Trial {
    /// The next trial starts at this many bytes; `usize::MAX` if there is none.
    from: AtomicUsize,
    /// The sample's compression ratio, if it was good enough.
    ratio: OnceLock<f64>,
}

impl Trial {
    pub(super) fn new(packing: Packing) -> Self {
        let from = if packing == Packing::Auto {
            BYTES
        } else {
            usize::MAX
        };
        Self {
            from: AtomicUsize::new(from),
            ratio: OnceLock::new(),
        }
    }
}

impl Store {
    /// The sample's compression ratio, if the objects are compressed.
    pub fn packing_ratio(&self) -> Option<f64> {
        self.trial.ratio.get().copied()
    }

    /// Starts a trial if one is due. Needs a tokio runtime; without one, the next change tries
    /// again.
    pub(super) fn consider(self: &Arc<Self>) {
        if !self.is_due() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let store = Arc::downgrade(self);
        self.trial.from.store(usize::MAX, Ordering::Relaxed);
        runtime.spawn_blocking(move || pack(&store));
    }

    fn is_due(&self) -> bool {
        let from = self.trial.from.load(Ordering::Relaxed);
        from != usize::MAX && self.read(|inner| inner.by_key.len() > OBJECTS && inner.bytes > from)
    }

    /// Runs a trial now and compresses all objects if it is worth it. Reports whether it was.
    pub fn pack_now(self: &Arc<Self>) -> bool {
        pack(&Arc::downgrade(self));
        self.packing_ratio().is_some()
    }

    fn sample(&self) -> Vec<RawObject> {
        self.read(|inner| {
            let step = (inner.by_key.len() / SAMPLE).max(1);
            let mut left = SAMPLE_BYTES;
            let plain =
                inner
                    .slots
                    .iter()
                    .flatten()
                    .step_by(step)
                    .filter_map(|entry| match entry {
                        Entry::Plain(raw) => Some(raw.clone()),
                        Entry::Packed(_) => None,
                    });
            let fits = plain.take_while(|raw| {
                let fits = raw.text().len() <= left;
                left = left.saturating_sub(raw.text().len());
                fits
            });
            fits.collect()
        })
    }

    /// Packs the next slots from `from`. Returns None at the end.
    fn pack_batch(&self, codec: &Codec, from: usize) -> Option<usize> {
        let to = from + BATCH;
        let plain: Vec<(usize, Entry)> = self.read(|inner| {
            let slots = inner
                .slots
                .get(from..)
                .map(|slots| slots.iter().take(BATCH).cloned().enumerate());
            slots.map(|slots| {
                slots
                    .filter_map(|(at, entry)| Some((from + at, entry?)))
                    .collect()
            })
        })?;

        let packed: Vec<_> = plain
            .into_iter()
            .filter_map(|(at, entry)| Some((at, codec.pack(&entry)?, entry)))
            .collect();
        let mut inner = self.inner.write();

        for (at, packed, plain) in packed {
            // An object changed meanwhile was already packed when it was stored.
            if inner.slots[at].as_ref().is_some_and(|now| now.is(&plain)) {
                inner.bytes = inner.bytes + packed.heap_bytes() - plain.heap_bytes();
                inner.slots[at] = Some(packed);
            }
        }

        Some(to).filter(|to| *to < inner.slots.len())
    }
}

fn pack(store: &Weak<Store>) {
    let began = Instant::now();
    let Some(strong) = store.upgrade() else {
        return;
    };
    if strong.codec.get().is_none() {
        let sample = strong.sample();
        match Codec::train(&sample) {
            Some((codec, ratio)) if ratio <= RATIO => {
                let _only_once = strong.trial.ratio.set(ratio);
                let _only_once = strong.codec.set(codec);
            }
            tried => {
                let ratio = tried.map(|(_, ratio)| ratio);
                tracing::debug!(
                    ?ratio,
                    objects = strong.len(),
                    "a cache gains too little by compression"
                );
                // A later trial may succeed with more data.
                strong.trial.from.store(
                    strong
                        .read(|inner| inner.bytes)
                        .saturating_mul(4)
                        .max(BYTES),
                    Ordering::Relaxed,
                );
                return;
            }
        }
    }

    let before = strong.bytes();
    let mut from = Some(0);
    drop(strong);

    while let Some(at) = from {
        let Some(store) = store.upgrade() else { return };
        from = store
            .codec
            .get()
            .and_then(|codec| store.pack_batch(codec, at));
        std::thread::yield_now();
    }

    if let Some(store) = store.upgrade() {
        let after = store.bytes();
        let ms = began.elapsed().as_millis();
        tracing::info!(
            objects = store.len(),
            before,
            after,
            ms,
            "a cache is compressed"
        );
    }
}

//! Decides whether a store's objects are compressed: tried on a sample in the background when there are enough of them.
//!
//! Training and packing run on a thread of their own kind (`spawn_blocking`). Readers and the watch wait for neither: the
//! sample is taken, and each small batch of packed objects swapped in, under the lock; everything else is done without.

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

/// Fewer objects are not worth a dictionary, and teach it too little.
const OBJECTS: usize = 1_000;
/// Fewer bytes are not worth the time.
const BYTES: usize = 8 << 20;
/// The ratio that the sample must reach.
const RATIO: f64 = 0.5;
/// Objects of the sample, and bytes that they may have in all.
const SAMPLE: usize = 1_000;
const SAMPLE_BYTES: usize = 6 << 20;
/// Objects that are swapped in at once.
const BATCH: usize = 64;

/// The compression of a host's stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// Those that hold much, where it gains at least half.
    #[default]
    Auto,
    /// None.
    Off,
}

/// The trial of a store, and its result.
#[derive(Default)]
pub(super) struct Trial {
    /// From how many bytes on the next trial is made; the greatest number when there is none to come.
    from: AtomicUsize,
    /// The ratio of the sample, once it was good enough.
    ratio: OnceLock<f64>,
}

impl Trial {
    pub(super) fn new(packing: Packing) -> Self {
        let from = if packing == Packing::Auto { BYTES } else { usize::MAX };
        Self { from: AtomicUsize::new(from), ratio: OnceLock::new() }
    }
}

impl Store {
    /// Returns the ratio that compression reached on a sample, if the objects are compressed.
    pub fn packing_ratio(&self) -> Option<f64> {
        self.trial.ratio.get().copied()
    }

    /// Starts a trial if there is one to make. Needs a tokio runtime; without one, the next change asks again.
    pub(super) fn consider(self: &Arc<Self>) {
        if !self.is_due() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let store = Arc::downgrade(self);
        self.trial.from.store(usize::MAX, Ordering::Relaxed);
        runtime.spawn_blocking(move || pack(&store));
    }

    fn is_due(&self) -> bool {
        let from = self.trial.from.load(Ordering::Relaxed);
        from != usize::MAX && self.read(|inner| inner.by_key.len() > OBJECTS && inner.bytes > from)
    }

    /// Tries what compression gains now, and compresses everything if it is worth it. Returns whether it was.
    pub fn pack_now(self: &Arc<Self>) -> bool {
        pack(&Arc::downgrade(self));
        self.packing_ratio().is_some()
    }

    fn sample(&self) -> Vec<RawObject> {
        self.read(|inner| {
            let step = (inner.by_key.len() / SAMPLE).max(1);
            let mut left = SAMPLE_BYTES;
            let plain = inner.slots.iter().flatten().step_by(step).filter_map(|entry| match entry {
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

    /// Packs the next slots from `from` on; None at the end.
    fn pack_batch(&self, codec: &Codec, from: usize) -> Option<usize> {
        let to = from + BATCH;
        let plain: Vec<(usize, Entry)> = self.read(|inner| {
            let slots = inner.slots.get(from..).map(|slots| slots.iter().take(BATCH).cloned().enumerate());
            slots.map(|slots| slots.filter_map(|(at, entry)| Some((from + at, entry?))).collect())
        })?;
        let packed: Vec<_> =
            plain.into_iter().filter_map(|(at, entry)| Some((at, codec.pack(&entry)?, entry))).collect();
        let mut inner = self.inner.write();
        for (at, packed, plain) in packed {
            // It may have changed meanwhile; then it was packed on its way in.
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
    let Some(held) = store.upgrade() else { return };
    if held.codec.get().is_none() {
        let sample = held.sample();
        match Codec::train(&sample) {
            Some((codec, ratio)) if ratio <= RATIO => {
                let _only_once = held.trial.ratio.set(ratio);
                let _only_once = held.codec.set(codec);
            }
            tried => {
                let ratio = tried.map(|(_, ratio)| ratio);
                tracing::debug!(?ratio, objects = held.len(), "a cache gains too little by compression");
                // Perhaps another time, when it has become another one.
                held.trial.from.store(held.read(|inner| inner.bytes).saturating_mul(4).max(BYTES), Ordering::Relaxed);
                return;
            }
        }
    }
    let before = held.bytes();
    let mut from = Some(0);
    drop(held);
    while let Some(at) = from {
        let Some(store) = store.upgrade() else { return };
        from = store.codec.get().and_then(|codec| store.pack_batch(codec, at));
        std::thread::yield_now();
    }
    if let Some(store) = store.upgrade() {
        let after = store.bytes();
        let ms = began.elapsed().as_millis();
        tracing::info!(objects = store.len(), before, after, ms, "a cache is compressed");
    }
}

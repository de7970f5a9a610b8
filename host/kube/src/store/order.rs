//! The slots of a store in the order of their objects' keys: four bytes each, in chunks, so that an
//! insertion moves only a few.
//!
//! An order doesn't know the keys. The caller's predicate tells whether a slot comes before the
//! searched position.

/// The maximum number of slots in a chunk.
const CHUNK: usize = 512;

/// The slots in chunks. No chunk is empty or longer than [`CHUNK`], and all slots together are
/// sorted.
#[derive(Default)]
pub(super) struct Order {
    chunks: Vec<Vec<u32>>,
}

impl Order {
    /// The first position where `before` is false. It must be true for all earlier ones.
    fn position(&self, before: impl Fn(u32) -> bool) -> (usize, usize) {
        let chunk = self
            .chunks
            .partition_point(|chunk| chunk.last().is_some_and(|last| before(*last)));
        (
            chunk,
            self.chunks
                .get(chunk)
                .map_or(0, |chunk| chunk.partition_point(|slot| before(*slot))),
        )
    }

    pub(super) fn insert(&mut self, slot: u32, before: impl Fn(u32) -> bool) {
        let (chunk, at) = self.position(before);
        if chunk < self.chunks.len() {
            self.chunks[chunk].insert(at, slot);
            if self.chunks[chunk].len() > CHUNK {
                let second = self.chunks[chunk].split_off(CHUNK / 2);
                self.chunks.insert(chunk + 1, second);
            }
            return;
        }

        // At the end, as in a list, full chunks stay full.
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push(slot),
            None => {
                // Most values of an index have one chunk.
                self.chunks
                    .reserve_exact(usize::from(self.chunks.is_empty()));
                self.chunks.push(vec![slot]);
            }
        }
    }

    pub(super) fn remove(&mut self, slot: u32, before: impl Fn(u32) -> bool) {
        let (chunk, at) = self.position(before);
        debug_assert_eq!(
            self.chunks[chunk][at], slot,
            "a slot stands where its key does"
        );
        self.chunks[chunk].remove(at);
        let joined = self
            .chunks
            .get(chunk + 1)
            .map(|next| next.len() + self.chunks[chunk].len());

        if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
        } else if joined.is_some_and(|joined| joined <= CHUNK / 2) {
            let next = self.chunks.remove(chunk + 1);
            self.chunks[chunk].extend(next);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The slots from the first one where `before` is false.
    pub(super) fn from(&self, before: impl Fn(u32) -> bool) -> impl Iterator<Item = u32> + '_ {
        let (chunk, at) = self.position(before);
        let first = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk[at..]);
        let others = self.chunks.get(chunk + 1..).unwrap_or_default();
        first.iter().chain(others.iter().flatten()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_stay_in_order_after_random_changes() {
        let mut order = Order::default();
        let mixed = |at: u32| at.wrapping_mul(2_654_435_761) % 10_007;
        let mut all: Vec<u32> = (0..5_000).map(mixed).collect();
        for slot in &all {
            order.insert(*slot, |other| other < *slot);
        }
        all.sort_unstable();
        assert_eq!(order.from(|_| false).collect::<Vec<_>>(), all);
        assert_eq!(
            order.from(|slot| slot < 9_000).next(),
            all.iter().copied().find(|slot| *slot >= 9_000)
        );
        assert_eq!(order.from(|_| true).next(), None);
        for slot in (0..5_000).map(mixed).step_by(2) {
            order.remove(slot, |other| other < slot);
            all.retain(|other| *other != slot);
        }
        assert_eq!(order.from(|_| false).collect::<Vec<_>>(), all);
        assert!(
            order
                .chunks
                .iter()
                .all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK)
        );
        for slot in all {
            order.remove(slot, |other| other < slot);
        }
        assert!(order.is_empty());
    }
}

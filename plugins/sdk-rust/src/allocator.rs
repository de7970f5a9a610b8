//! The guest's allocator: an arena that is large enough for most reconciles, and the system
//! allocator beyond it.
//!
//! The memory of a fresh instance is discarded after its reconcile, so searching for freed blocks
//! costs more than it gains. The arena is a bump allocator that reuses only the newest block. All
//! further blocks come from [`System`], which reuses freed memory: a long reconcile, or a warm
//! instance, uses at most the arena's size more than without it. The arena is part of an instance's
//! initial memory, so most reconciles never grow the memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};

/// The largest alignment of a block in the arena; the system allocates the others.
const ALIGN: usize = 16;

#[repr(C, align(16))]
struct Bytes<const N: usize>(UnsafeCell<[u8; N]>);

/// The allocator of a guest, which has one thread.
pub(crate) struct Arena<const N: usize> {
    bytes: Bytes<N>,
    used: Cell<usize>,
}

// SAFETY: a guest has one thread.
#[cfg(all(target_arch = "wasm32", not(target_feature = "atomics")))]
#[expect(
    unsafe_code,
    reason = "a static must be Sync, although a guest has one thread"
)]
unsafe impl<const N: usize> Sync for Arena<N> {}

impl<const N: usize> Arena<N> {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: Bytes(UnsafeCell::new([0; N])),
            used: Cell::new(0),
        }
    }

    fn base(&self) -> *mut u8 {
        self.bytes.0.get().cast()
    }

    /// The offset of a block in the arena; `None` for a block of the system.
    fn offset(&self, block: *mut u8) -> Option<usize> {
        (block as usize)
            .checked_sub(self.base() as usize)
            .filter(|offset| *offset < N)
    }

    /// Reserves a block and returns its offset; `None` if there is no room.
    fn take(&self, layout: Layout) -> Option<usize> {
        let start = self.used.get().next_multiple_of(layout.align());
        // Neither part is over `isize::MAX`.
        let end = start + layout.size();

        // The address of an empty block at the end of the arena would not be within the arena.
        if layout.align() > ALIGN || end > N || start == N {
            return None;
        }

        self.used.set(end);
        Some(start)
    }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: blocks of the arena do not overlap, because each begins at or after the end of all
// earlier blocks that were not freed. A block belongs to the arena if its address is within the
// arena.
unsafe impl<const N: usize> GlobalAlloc for Arena<N> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some(start) => self.base().wrapping_add(start),
            // SAFETY: the caller's promises are the same.
            None => unsafe { System.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.offset(block) {
            Some(start) if start + layout.size() == self.used.get() => self.used.set(start),
            Some(_) => {}
            // SAFETY: the block is the system's, and the caller's promises are the same.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let Some(start) = self.offset(block) else {
            // SAFETY: the block is the system's, and the caller's promises are the same.
            return unsafe { System.realloc(block, layout, new_size) };
        };

        let newest = start + layout.size() == self.used.get();
        // Neither part is over `isize::MAX`.
        if newest && start + new_size <= N {
            self.used.set(start + new_size);
            return block;
        }

        if new_size <= layout.size() {
            return block;
        }

        // SAFETY: the caller promises that the size fits the alignment; both blocks are valid for
        // the copied bytes, and they are different blocks.
        unsafe {
            let larger = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !larger.is_null() {
                std::ptr::copy_nonoverlapping(block, larger, layout.size());
                self.dealloc(block, layout);
            }
            larger
        }
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "an allocator's calls")]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a layout")
    }

    #[test]
    fn arena_blocks_are_aligned_and_disjoint() {
        let arena = Arena::<1024>::new();
        let mut end = arena.base() as usize;
        for (size, align) in [(3, 1), (8, 8), (1, 1), (16, 16), (5, 4), (0, 1), (7, 2)] {
            let block = unsafe { arena.alloc(layout(size, align)) } as usize;
            assert!(
                block >= end && block.is_multiple_of(align),
                "{size} bytes at {align}"
            );

            assert!(arena.offset(block as *mut u8).is_some());
            end = block + size;
        }
    }

    #[test]
    fn newest_block_is_reused_and_grows_in_place() {
        let arena = Arena::<1024>::new();
        unsafe {
            let first = arena.alloc(layout(8, 8));
            let second = arena.alloc(layout(8, 8));
            second.write_bytes(7, 8);

            assert_eq!(arena.realloc(second, layout(8, 8), 64), second);
            assert_eq!(arena.realloc(second, layout(64, 8), 16), second);
            assert_eq!(second.add(7).read(), 7);

            arena.dealloc(second, layout(16, 8));
            assert_eq!(arena.alloc(layout(4, 4)), second);

            // Any other block shrinks in place, and moves when it grows.
            first.write_bytes(9, 8);
            assert_eq!(arena.realloc(first, layout(8, 8), 4), first);
            let moved = arena.realloc(first, layout(4, 8), 8);
            assert_ne!(moved, first);
            assert_eq!(moved.add(3).read(), 9);
        }
    }

    #[test]
    fn blocks_beyond_arena_come_from_system() {
        let arena = Arena::<64>::new();
        unsafe {
            let small = arena.alloc(layout(32, 8));
            small.write_bytes(5, 32);
            let large = arena.alloc(layout(33, 8));
            let aligned = arena.alloc(layout(8, 64));
            assert!(arena.offset(large).is_none() && arena.offset(aligned).is_none());
            assert!((aligned as usize).is_multiple_of(64));

            arena.dealloc(aligned, layout(8, 64));
            let large = arena.realloc(large, layout(33, 8), 4096);
            arena.dealloc(large, layout(4096, 8));

            let moved = arena.realloc(small, layout(32, 8), 65);
            assert!(arena.offset(moved).is_none());
            assert_eq!(moved.add(31).read(), 5);
            arena.dealloc(moved, layout(65, 8));

            assert_eq!(
                arena.alloc(layout(64, 8)),
                small,
                "the moved block's bytes are free again"
            );

            let full = arena.alloc(layout(0, 1));
            assert!(
                arena.offset(full).is_none(),
                "an empty block behind a full arena"
            );
            arena.dealloc(full, layout(0, 1));
        }
    }

    #[test]
    fn alloc_zeroed_clears_reused_block() {
        let arena = Arena::<64>::new();
        unsafe {
            let block = arena.alloc(layout(16, 8));
            block.write_bytes(0xff, 16);
            arena.dealloc(block, layout(16, 8));

            let again = arena.alloc_zeroed(layout(16, 8));
            assert_eq!((again, again.add(15).read()), (block, 0));
        }
    }
}

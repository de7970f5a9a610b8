//! The memory limit of one instance.
//!
//! The limit covers all linear memories of the instance together. The limiter records a refusal for
//! the host to report: a refused guest usually aborts, with a trap that does not mention memory.

use operetta_core::gate::bytes::{Bytes, NoRoom};
use wasmtime::{ResourceLimiter, Result};

/// The maximum number of elements of one table of a plugin. The largest one seen, Go with
/// controller-runtime, needs 31,336.
pub(crate) const TABLE_ELEMENTS: usize = 65_536;

/// The same for a process. An operator in Go with nothing but controller-runtime needs 38,553.
pub(crate) const PROCESS_TABLE_ELEMENTS: usize = 262_144;

/// The maximum number of core instances of one component. Wrapped interpreters have a dozen.
pub(crate) const CORE_INSTANCES: u32 = 64;

/// The maximum number of tables of one component. Each takes `PROCESS_TABLE_ELEMENTS` pointers of
/// reserved address space per slot.
pub(crate) const TABLES: u32 = 8;

/// The maximum number of memories of one component. Each takes 4 GiB of reserved address space per
/// slot.
pub(crate) const MEMORIES: u32 = 8;

/// Counts the linear memory of one store against a limit.
pub(crate) struct MemoryLimiter {
    limit_bytes: usize,
    /// The size of all memories together in bytes; never more than `limit_bytes`.
    used_bytes: usize,
    /// The bytes added by the last allowed growth, subtracted if it fails after all.
    last_bytes: usize,
    /// The maximum number of elements of one table.
    table_elements: usize,
    /// True once the guest has asked for more than its limit.
    refused: bool,
    /// The memory charged to the namespace; None without a limit.
    charged: Option<Bytes>,
    /// The budget, of the namespace or the host, that had no room.
    no_room: Option<NoRoom>,
}

impl MemoryLimiter {
    /// For an instance without memory yet. Its memory is also charged to `charged`.
    pub(crate) fn new(limit_bytes: usize, charged: Option<Bytes>) -> Self {
        Self {
            limit_bytes,
            used_bytes: 0,
            last_bytes: 0,
            table_elements: TABLE_ELEMENTS,
            refused: false,
            charged,
            no_room: None,
        }
    }

    /// For an instance with the tables of a process.
    pub(crate) fn for_process(mut self) -> Self {
        self.table_elements = PROCESS_TABLE_ELEMENTS;
        self
    }

    pub(crate) fn no_room(&self) -> Option<&NoRoom> {
        self.no_room.as_ref()
    }

    pub(crate) fn refused(&self) -> bool {
        self.refused
    }

    /// Called before the next call of the instance.
    pub(crate) fn forget_refusal(&mut self) {
        self.refused = false;
        self.no_room = None;
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    pub(crate) fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        let more = desired.saturating_sub(current);
        let after = self.used_bytes.saturating_add(more);
        let own_maximum = maximum.is_some_and(|maximum| desired > maximum);

        if after > self.limit_bytes {
            self.refused = true;
            return Ok(false);
        }

        if own_maximum {
            return Ok(false);
        }

        if let Some(Err(no_room)) = self
            .charged
            .as_mut()
            .map(|charged| charged.take(more as u64))
        {
            self.no_room = Some(no_room);
            return Ok(false);
        }

        self.used_bytes = after;
        self.last_bytes = more;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> Result<()> {
        // The operating system had no memory left. The guest is refused all the same.
        let last_bytes = std::mem::take(&mut self.last_bytes);
        self.used_bytes = self.used_bytes.saturating_sub(last_bytes);
        if let Some(charged) = &mut self.charged {
            charged.give(last_bytes as u64);
        }
        self.refused = true;
        Ok(())
    }

    fn table_growing(&mut self, _: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let limit = self.table_elements;
        Ok(desired <= maximum.unwrap_or(limit).min(limit))
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        TABLES as usize
    }

    fn memories(&self) -> usize {
        MEMORIES as usize
    }
}

#[cfg(test)]
mod tests {
    use operetta_core::gate::bytes::ByteBudget;

    use super::*;

    #[test]
    fn all_memories_of_an_instance_share_one_limit() {
        let mut limiter = MemoryLimiter::new(100, None);
        assert!(limiter.memory_growing(0, 60, None).expect("no trap"));
        assert!(!limiter.memory_growing(0, 60, None).expect("no trap"));
        assert!(limiter.refused());
        assert!(
            limiter.memory_growing(60, 100, None).expect("no trap"),
            "a refused growth is not counted"
        );
    }

    #[test]
    fn growth_is_charged_to_the_namespace() {
        let budget = ByteBudget::new("namespace n", 100);
        let mut one = MemoryLimiter::new(80, Some(budget.open()));
        let mut two = MemoryLimiter::new(80, Some(budget.open()));
        assert!(one.memory_growing(0, 60, None).expect("no trap"));
        assert!(!two.memory_growing(0, 60, None).expect("no trap"));
        assert!(
            !two.refused()
                && two
                    .no_room()
                    .is_some_and(|no_room| no_room.name == "namespace n")
        );
        one.memory_grow_failed(wasmtime::Error::msg("no memory"))
            .expect("no trap");
        assert!(two.memory_growing(0, 60, None).expect("no trap"));
        drop(two);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn memory_at_own_maximum_is_not_over_limit() {
        let mut limiter = MemoryLimiter::new(100, None);
        assert!(!limiter.memory_growing(0, 60, Some(50)).expect("no trap"));
        assert!(!limiter.refused());
    }

    #[test]
    fn extreme_growth_does_not_overflow_the_count() {
        let mut limiter = MemoryLimiter::new(100, None);
        assert!(limiter.memory_growing(usize::MAX, 0, None).is_ok());
        assert!(
            !limiter
                .memory_growing(0, usize::MAX, None)
                .expect("no trap")
        );
    }
}

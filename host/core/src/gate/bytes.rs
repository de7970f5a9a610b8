//! Byte budgets: how much memory a namespace's plugins may make the host use at once.
//!
//! Both the guests' linear memory and the data the host reads and decodes for a call are charged. A
//! namespace's budget is part of its parent, the host's budget. A charge that doesn't fit is
//! refused at once: a call waiting for room would itself hold memory others are waiting for.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::status::{ApiError, ErrorKind};

/// The setting that has the limit of a namespace.
const MEMORY_BYTES: &str = "memoryBytes";

/// A memory budget in bytes.
#[derive(Debug)]
pub struct ByteBudget {
    /// The owner's name, for messages.
    name: String,
    /// The setting of the host's configuration that has the limit.
    setting: &'static str,
    limit: u64,
    used: AtomicU64,
    parent: Option<Arc<Self>>,
}

/// Bytes charged to a budget. Dropping this gives them back.
#[derive(Debug)]
pub struct Bytes {
    budget: Arc<ByteBudget>,
    taken: u64,
}

/// A charge exceeded its budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory quota of {name} exceeded: at most {limit} bytes at once ({setting})")]
pub struct NoRoom {
    /// The budget's owner.
    pub name: String,
    /// The budget's limit, in bytes.
    pub limit: u64,
    /// The setting of the host's configuration that has the limit.
    pub setting: &'static str,
}

impl From<NoRoom> for ApiError {
    fn from(error: NoRoom) -> Self {
        Self::new(ErrorKind::TooManyRequests, error.to_string())
    }
}

impl ByteBudget {
    /// Creates the budget of all plugins of a host.
    pub fn of_host(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            name: "the host".to_owned(),
            setting: "pluginMemoryMiB",
            limit,
            used: AtomicU64::new(0),
            parent: None,
        })
    }

    /// Creates a budget with this limit.
    pub fn new(name: impl Into<String>, limit: u64) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            setting: MEMORY_BYTES,
            limit,
            used: AtomicU64::new(0),
            parent: None,
        })
    }

    /// Creates a budget whose bytes are charged to this one as well.
    pub fn child(self: &Arc<Self>, name: impl Into<String>, limit: u64) -> Arc<Self> {
        Arc::new(Self {
            name: name.into(),
            setting: MEMORY_BYTES,
            limit,
            used: AtomicU64::new(0),
            parent: Some(self.clone()),
        })
    }

    /// Starts a charge of zero bytes.
    pub fn open(self: &Arc<Self>) -> Bytes {
        Bytes {
            budget: self.clone(),
            taken: 0,
        }
    }

    /// The number of bytes charged now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> Result<(), NoRoom> {
        let fits = |used: u64| used.checked_add(bytes).filter(|after| *after <= self.limit);
        if self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .is_err()
        {
            return Err(NoRoom {
                name: self.name.clone(),
                limit: self.limit,
                setting: self.setting,
            });
        }

        let Some(parent) = &self.parent else {
            return Ok(());
        };
        parent.take(bytes).inspect_err(|_| self.give_own(bytes))
    }

    fn give_own(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn give(&self, bytes: u64) {
        self.give_own(bytes);
        if let Some(parent) = &self.parent {
            parent.give(bytes);
        }
    }
}

impl Bytes {
    /// Charges more bytes.
    ///
    /// # Errors
    /// [`NoRoom`] if the budget or its parent has no room. Nothing is charged then.
    pub fn take(&mut self, bytes: u64) -> Result<(), NoRoom> {
        self.budget.take(bytes)?;
        self.taken += bytes;
        Ok(())
    }

    /// Gives bytes back to the budget.
    pub fn give(&mut self, bytes: u64) {
        let bytes = bytes.min(self.taken);
        self.taken -= bytes;
        self.budget.give(bytes);
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.budget.give(self.taken);
    }
}

tokio::task_local! {
    /// The charge of the call running on this task.
    static CALL: RefCell<Bytes>;
}

/// Runs a call, collecting what it charges with [`charge`]. Also returns the collected charge, to
/// be kept as long as the call's result.
pub(super) async fn charged<T>(
    budget: &Arc<ByteBudget>,
    call: impl Future<Output = T>,
) -> (T, Bytes) {
    CALL.scope(RefCell::new(budget.open()), async {
        let result = call.await;
        let bytes = CALL.with(|bytes| bytes.replace(budget.open()));
        (result, bytes)
    })
    .await
}

/// Charges bytes to the call running on this task, until its result is dropped. Charges nothing
/// outside of a plugin's call.
///
/// # Errors
/// [`NoRoom`] if the bytes exceed the budget of the plugin's namespace or of the host.
pub fn charge(bytes: usize) -> Result<(), NoRoom> {
    CALL.try_with(|call| call.borrow_mut().take(bytes as u64))
        .unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_in_the_budget_and_its_parent() {
        let host = ByteBudget::of_host(100);
        let one = host.child("namespace one", 60);
        let two = host.child("namespace two", 60);
        let mut first = one.open();
        first.take(60).expect("room");
        let full = first.take(1).expect_err("full");
        assert_eq!(
            (&*full.name, full.setting),
            ("namespace one", "memoryBytes")
        );
        let mut second = two.open();
        assert_eq!(
            second.take(41),
            Err(NoRoom {
                name: "the host".into(),
                limit: 100,
                setting: "pluginMemoryMiB",
            })
        );
        second.take(40).expect("room");
        assert_eq!((one.used(), two.used(), host.used()), (60, 40, 100));
        drop(first);
        second.give(1_000);
        assert_eq!((one.used(), two.used(), host.used()), (0, 0, 0));
    }

    #[tokio::test]
    async fn charge_counts_until_the_bytes_of_the_call_are_dropped() {
        let budget = ByteBudget::new("n", 10);
        charge(1 << 40).expect("nobody is charged outside of a call");
        let (result, bytes) = charged(&budget, async {
            tokio::task::yield_now().await;
            charge(7)
        })
        .await;
        assert_eq!((result, budget.used()), (Ok(()), 7));
        let (result, _) = charged(&budget, async { charge(7) }).await;
        assert!(
            result
                .expect_err("full")
                .to_string()
                .starts_with("memory quota of n exceeded: at most 10 bytes")
        );
        drop(bytes);
        assert_eq!(budget.used(), 0);
    }
}

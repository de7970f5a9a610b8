//! Worker slots: a limit on concurrent reconciles that may change while slots are taken.
//!
//! First come, first served. A lower limit ends no reconcile; surplus slots are removed when they are returned.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of slots that means no limit.
const UNLIMITED: usize = u32::MAX as usize >> 3;

/// The worker slots of an account or a group.
#[derive(Debug)]
pub struct WorkerSlots {
    semaphore: Arc<Semaphore>,
    limit: Mutex<Limit>,
}

#[derive(Debug)]
struct Limit {
    worker_slots: usize,
    /// The number of slots to remove when they are returned. The semaphore's permits, free and taken, are
    /// `worker_slots + surplus`.
    surplus: usize,
}

/// One worker slot. Dropping it returns it.
#[derive(Debug)]
pub struct WorkerSlot {
    /// Present until it is dropped.
    permit: Option<OwnedSemaphorePermit>,
    worker_slots: Arc<WorkerSlots>,
}

impl WorkerSlots {
    /// Creates the slots of this limit; None means no limit.
    pub fn new(limit: Option<u32>) -> Arc<Self> {
        let worker_slots = count(limit);
        let semaphore = Arc::new(Semaphore::new(worker_slots));
        Arc::new(Self { semaphore, limit: Mutex::new(Limit { worker_slots, surplus: 0 }) })
    }

    /// Changes the limit; None means no limit.
    pub fn set_limit(&self, limit: Option<u32>) {
        let mut now = self.limit.lock();
        let wanted = count(limit);
        if wanted >= now.worker_slots {
            let more = wanted - now.worker_slots;
            let kept = more.min(now.surplus);
            now.surplus -= kept;
            self.semaphore.add_permits(more - kept);
        } else {
            let fewer = now.worker_slots - wanted;
            now.surplus += fewer - self.semaphore.forget_permits(fewer);
        }
        now.worker_slots = wanted;
    }

    /// Waits for a worker slot. Cancel safe: a dropped call has taken none and loses its queue position.
    pub async fn enter(self: Arc<Self>) -> WorkerSlot {
        let permit = self.semaphore.clone().acquire_owned().await.ok();
        WorkerSlot { permit, worker_slots: self }
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let mut limit = self.worker_slots.limit.lock();
        if limit.surplus > 0 {
            limit.surplus -= 1;
            permit.forget();
        }
    }
}

fn count(limit: Option<u32>) -> usize {
    limit.map_or(UNLIMITED, |limit| UNLIMITED.min(limit as usize))
}

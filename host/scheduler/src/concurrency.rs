//! A limit on concurrent reconciles, adjustable while some are in flight.
//!
//! Permits are granted first come, first served. Lowering the limit interrupts nothing: surplus
//! permits are removed as they are returned.

use std::sync::Arc;

use operetta_core::gate::wait_time::WaitTime;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of permits that stands for "no limit".
const UNLIMITED: usize = u32::MAX as usize >> 3;

/// Limits the concurrent reconciles of an account or a group.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    semaphore: Arc<Semaphore>,
    limit: Mutex<Limit>,
}

#[derive(Debug)]
struct Limit {
    reconciles: usize,
    /// Permits to remove once they are returned. The semaphore has `reconciles + surplus` permits,
    /// counting both free and taken ones.
    surplus: usize,
}

/// Permission to have one reconcile in flight. Dropping it gives the permission back.
#[derive(Debug)]
pub struct ConcurrencyPermit {
    /// None only while dropping.
    permit: Option<OwnedSemaphorePermit>,
    of: Arc<ConcurrencyLimit>,
}

impl ConcurrencyLimit {
    /// Creates the limit; None means unlimited.
    pub fn new(limit: Option<u32>) -> Arc<Self> {
        let reconciles = count(limit);
        let semaphore = Arc::new(Semaphore::new(reconciles));
        Arc::new(Self {
            semaphore,
            limit: Mutex::new(Limit {
                reconciles,
                surplus: 0,
            }),
        })
    }

    /// Changes the limit; None means unlimited.
    pub fn set_limit(&self, limit: Option<u32>) {
        let mut now = self.limit.lock();
        let wanted = count(limit);
        if wanted >= now.reconciles {
            let more = wanted - now.reconciles;
            let kept = more.min(now.surplus);
            now.surplus -= kept;
            self.semaphore.add_permits(more - kept);
        } else {
            let fewer = now.reconciles - wanted;
            now.surplus += fewer - self.semaphore.forget_permits(fewer);
        }

        now.reconciles = wanted;
    }

    /// Waits for a permit, and counts the time in `waits`. Cancel safe: a dropped call holds no
    /// permit, but loses its place in line.
    pub async fn enter(self: Arc<Self>, waits: &WaitTime) -> ConcurrencyPermit {
        let permit = match self.semaphore.clone().try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => {
                let _waiting = waits.begin();
                self.semaphore.clone().acquire_owned().await.ok()
            }
        };
        ConcurrencyPermit { permit, of: self }
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else {
            return;
        };
        let mut limit = self.of.limit.lock();
        if limit.surplus > 0 {
            limit.surplus -= 1;
            permit.forget();
        }
    }
}

fn count(limit: Option<u32>) -> usize {
    limit.map_or(UNLIMITED, |limit| UNLIMITED.min(limit as usize))
}

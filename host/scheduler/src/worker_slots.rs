//! How many are in at once: a number of places that may change while they are taken.
//!
//! First come, first served. Fewer places throw nobody out: those who leave take the surplus with them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Stands for no limit.
const UNLIMITED: usize = u32::MAX as usize >> 3;

/// The places of an account or a group.
#[derive(Debug)]
pub struct Places {
    semaphore: Arc<Semaphore>,
    limit: Mutex<Limit>,
}

#[derive(Debug)]
struct Limit {
    places: usize,
    /// Places to be removed when they are given back: the semaphore's permits, free and taken, are `places + surplus`.
    surplus: usize,
}

/// One place; dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    /// Present until it is dropped.
    permit: Option<OwnedSemaphorePermit>,
    places: Arc<Places>,
}

impl Places {
    /// None: without limit.
    pub fn new(limit: Option<u32>) -> Arc<Self> {
        let places = count(limit);
        let semaphore = Arc::new(Semaphore::new(places));
        Arc::new(Self { semaphore, limit: Mutex::new(Limit { places, surplus: 0 }) })
    }

    /// Changes the number of places; None: without limit.
    pub fn set_limit(&self, limit: Option<u32>) {
        let mut now = self.lock();
        let wanted = count(limit);
        if wanted >= now.places {
            let more = wanted - now.places;
            let kept = more.min(now.surplus);
            now.surplus -= kept;
            self.semaphore.add_permits(more - kept);
        } else {
            let fewer = now.places - wanted;
            now.surplus += fewer - self.semaphore.forget_permits(fewer);
        }
        now.places = wanted;
    }

    /// Waits for a place. Cancel safe: a dropped call has taken none and loses its turn.
    pub async fn enter(self: Arc<Self>) -> Place {
        let permit = self.semaphore.clone().acquire_owned().await.ok();
        Place { permit, places: self }
    }

    fn lock(&self) -> MutexGuard<'_, Limit> {
        self.limit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let mut limit = self.places.lock();
        if limit.surplus > 0 {
            limit.surplus -= 1;
            permit.forget();
        }
    }
}

fn count(limit: Option<u32>) -> usize {
    limit.map_or(UNLIMITED, |limit| UNLIMITED.min(limit as usize))
}

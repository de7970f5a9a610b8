//! The host's wall clock, randomness and blocking work, replaced in a simulation for its thread.
//!
//! Like tokio's paused clock, the replacement belongs to the thread running the simulation's
//! runtime, so no constructor of the host takes it as a parameter. Durations are measured with
//! [`tokio::time::Instant`], which follows the paused clock. Together they make a host on a
//! single-threaded runtime deterministic.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use operetta_core::nondeterminism::{self, Nondeterminism};
//!
//! struct Zero;
//! impl Nondeterminism for Zero {
//!     fn wall_clock(&self) -> Duration { Duration::ZERO }
//!     fn monotonic_clock(&self) -> Duration { Duration::ZERO }
//!     fn random(&self, bytes: &mut [u8]) { bytes.fill(0) }
//! }
//!
//! let replaced = nondeterminism::replace(Arc::new(Zero));
//! assert_eq!(nondeterminism::wall_clock(), Duration::ZERO);
//! drop(replaced);
//! assert_ne!(nondeterminism::wall_clock(), Duration::ZERO);
//! ```

use std::{
    cell::RefCell,
    marker::PhantomData,
    sync::{Arc, LazyLock},
    time::{Duration, Instant, SystemTime},
};

use tokio::task::{JoinError, spawn_blocking};

/// A source of time and randomness for guests.
pub trait Nondeterminism: Send + Sync {
    /// The time since 1970-01-01 UTC.
    fn wall_clock(&self) -> Duration;
    /// The time since a fixed moment in the life of the process; never goes back.
    fn monotonic_clock(&self) -> Duration;
    /// Fills `bytes`.
    fn random(&self, bytes: &mut [u8]);
}

thread_local! {
    static REPLACEMENT: RefCell<Option<Arc<dyn Nondeterminism>>> = const { RefCell::new(None) };
}

/// The machine's own clocks and randomness.
struct Machine {
    started: Instant,
}

impl Nondeterminism for Machine {
    fn wall_clock(&self) -> Duration {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn monotonic_clock(&self) -> Duration {
        self.started.elapsed()
    }

    fn random(&self, bytes: &mut [u8]) {
        // A per-thread generator, seeded by the system's.
        rand::RngCore::fill_bytes(&mut rand::rng(), bytes);
    }
}

/// Restores the thread's former source of time and randomness when dropped.
#[must_use = "dropping it restores the former source"]
pub struct Replaced {
    former: Option<Arc<dyn Nondeterminism>>,
    /// Must stay on its thread.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Replaced {
    fn drop(&mut self) {
        REPLACEMENT.set(self.former.take());
    }
}

/// Replaces the source of time and randomness on this thread, and makes [`blocking`] run its work
/// here.
pub fn replace(source: Arc<dyn Nondeterminism>) -> Replaced {
    Replaced {
        former: REPLACEMENT.replace(Some(source)),
        _not_send: PhantomData,
    }
}

/// The replacement on this thread; None for the machine's own clocks and randomness.
pub fn replacement() -> Option<Arc<dyn Nondeterminism>> {
    REPLACEMENT.with_borrow(Clone::clone)
}

/// The source of time and randomness on this thread.
pub fn source() -> Arc<dyn Nondeterminism> {
    static MACHINE: LazyLock<Arc<dyn Nondeterminism>> = LazyLock::new(|| {
        Arc::new(Machine {
            started: Instant::now(),
        })
    });
    replacement().unwrap_or_else(|| MACHINE.clone())
}

/// The time since 1970-01-01 UTC.
pub fn wall_clock() -> Duration {
    source().wall_clock()
}

/// Returns random bytes.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    source().random(&mut bytes);
    bytes
}

/// A random number from 0 to below 1, for jitter.
pub fn random_fraction() -> f32 {
    // 24 bits fill a float's mantissa.
    (u32::from_le_bytes(random_bytes()) >> 8) as f32 / (1 << 24) as f32
}

/// Runs blocking work outside the runtime's worker threads. In a simulation it runs on this thread,
/// to completion before anything else happens.
///
/// # Errors
/// Fails if the work panics or the runtime shuts down.
///
/// # Panics
/// Panics outside a tokio runtime; in a simulation also if the work does.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    match replacement() {
        Some(_) => Ok(work()),
        None => spawn_blocking(work).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up.
    #[derive(Default)]
    struct Counter(parking_lot::Mutex<u8>);

    impl Nondeterminism for Counter {
        fn wall_clock(&self) -> Duration {
            Duration::from_secs(7)
        }

        fn monotonic_clock(&self) -> Duration {
            Duration::from_secs(8)
        }

        fn random(&self, bytes: &mut [u8]) {
            let mut next = self.0.lock();
            for byte in bytes {
                *byte = *next;
                *next += 1;
            }
        }
    }

    #[test]
    fn replacement_lasts_until_it_is_dropped() {
        let replaced = replace(Arc::new(Counter::default()));
        assert_eq!(
            (wall_clock(), source().monotonic_clock()),
            (Duration::from_secs(7), Duration::from_secs(8))
        );
        assert_eq!([random_bytes(), random_bytes()], [[0, 1], [2, 3]]);
        let elsewhere = std::thread::spawn(wall_clock).join().expect("a time");
        assert!(
            elsewhere > Duration::from_secs(7),
            "other threads have the machine's clock"
        );
        drop(replaced);
        assert!(wall_clock() > Duration::from_secs(7));
        assert_ne!(random_bytes::<16>(), random_bytes::<16>());
    }

    #[test]
    fn fractions_are_below_one() {
        let fractions: Vec<f32> = (0..1_000).map(|_| random_fraction()).collect();
        assert!(
            fractions
                .iter()
                .all(|fraction| (0.0..1.0).contains(fraction)),
            "{fractions:?}"
        );
        let mean = fractions.iter().sum::<f32>() / 1_000.0;
        assert!((0.4..0.6).contains(&mean), "the mean of 1,000 is {mean}");
    }

    #[tokio::test]
    async fn blocking_work_stays_on_the_thread_of_a_simulation() {
        let here = std::thread::current().id();
        assert_ne!(
            blocking(|| std::thread::current().id())
                .await
                .expect("a thread"),
            here
        );
        let _replaced = replace(Arc::new(Counter::default()));
        assert_eq!(
            blocking(|| std::thread::current().id())
                .await
                .expect("a thread"),
            here
        );
    }
}

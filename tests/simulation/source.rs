//! The time and randomness of a run, which follow from its seed.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use operetta_apiserver::server::Environment;
use operetta_core::ports::Nondeterminism;
use parking_lot::Mutex;
use rand::{RngCore, SeedableRng, rngs::StdRng};
use tokio::time::Instant;

/// The time at which every run begins: 2026-01-01, in seconds since 1970.
const BEGIN: u64 = 1_767_225_600;

/// The parts of a run that draw random numbers. Each has its own, so that a change of one leaves
/// the others alone.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// The user who creates and changes objects.
    User = 1,
    /// The network between host and API server.
    Network,
    /// The host and its plugins.
    Host,
    /// The API server.
    Server,
}

impl Stream {
    /// Returns the random numbers of a part.
    pub fn random(self, seed: u64) -> StdRng {
        StdRng::seed_from_u64(seed.wrapping_mul(8).wrapping_add(self as u64))
    }
}

/// The paused clock of the runtime, and random numbers.
pub struct Seeded {
    began: Instant,
    random: Mutex<StdRng>,
}

impl Seeded {
    /// Creates a source whose clock begins now.
    pub fn new(random: StdRng) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            random: Mutex::new(random),
        })
    }
}

impl Nondeterminism for Seeded {
    fn wall_clock(&self) -> Duration {
        Duration::from_secs(BEGIN) + self.monotonic_clock()
    }

    fn monotonic_clock(&self) -> Duration {
        // A machine that has just started would have Leases that end before it did.
        self.began.elapsed() + Duration::from_secs(3_600)
    }

    fn random(&self, bytes: &mut [u8]) {
        self.random.lock().fill_bytes(bytes);
    }
}

/// Returns the time and randomness of the API server.
pub fn environment(seed: u64) -> Environment {
    let began = Instant::now();
    let mut random = Stream::Server.random(seed);
    let begin = Timestamp::from_second(BEGIN as i64).expect("a time");
    let now = move || begin + SignedDuration::try_from(began.elapsed()).expect("a time");
    Environment::new(now, move || random.next_u64())
}

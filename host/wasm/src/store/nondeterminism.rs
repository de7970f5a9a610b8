//! Clocks and randomness of guests: WASI's interfaces on core's [`Nondeterminism`].
//!
//! Guests have no other clocks and randomness, so an implementation of [`Nondeterminism`] can
//! record or replay them. A wait, such as `thread::sleep`, runs on the machine's clock, for a
//! duration the guest computes from these clocks.

use std::{convert::Infallible, sync::Arc, time::Duration};

use operetta_core::ports::Nondeterminism;
use rand::TryRng;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

pub(crate) struct WallClock(pub Arc<dyn Nondeterminism>);

impl HostWallClock for WallClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        self.0.wall_clock()
    }
}

pub(crate) struct MonotonicClock(pub Arc<dyn Nondeterminism>);

impl HostMonotonicClock for MonotonicClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        self.0.monotonic_clock().as_nanos() as u64
    }
}

/// All randomness of WASI, even what it calls insecure.
pub(crate) struct Random(pub Arc<dyn Nondeterminism>);

impl Random {
    pub(crate) fn seed(&self) -> u128 {
        u128::from_le_bytes(self.random_bytes())
    }

    fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.random(&mut bytes);
        bytes
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(self.random_bytes()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(self.random_bytes()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.random(bytes);
        Ok(())
    }
}

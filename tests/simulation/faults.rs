//! The faults of a run: how often each happens, which one a request meets, and what has happened.

use std::time::Duration;

use rand::{Rng, rngs::StdRng};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The API server refuses it with this status, and does nothing.
    Refused(u16),
    /// The connection fails before the API server has the request.
    NotSent,
    /// The API server does what is asked, and the connection fails before the response.
    ResponseLost,
    /// The API server does what is asked, and a proxy answers with 504.
    GatewayTimeout,
    /// The API server does what is asked, and never answers.
    NoAnswer,
    /// The host crashes before the request is sent.
    CrashBefore,
    /// The host crashes after the API server has done what is asked.
    CrashAfter,
}

/// What happens to a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFault {
    /// It ends after this many events.
    Closed(u32),
    /// Its connection breaks after this many events.
    Broken(u32),
    /// It ends with an error 410 after this many events.
    Expired(u32),
}

/// How often faults happen, of 1,000 requests or watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Requests that meet a [`Fault`] other than a crash.
    pub requests: u32,
    /// Requests at which the host crashes.
    pub crashes: u32,
    /// The most crashes.
    pub max_crashes: u32,
    /// Watches that meet a [`WatchFault`].
    pub watches: u32,
    /// The longest time that a request or a response takes.
    pub latency: Duration,
    /// The longest time by which an event of a watch is late.
    pub lag: Duration,
    /// Events that are lost for good, which no API server does. A deliberate bug, to show that it
    /// is found.
    pub lost_events: u32,
}

impl Profile {
    /// No faults, and no time on the way.
    pub const NONE: Self = Self {
        requests: 0,
        crashes: 0,
        max_crashes: 0,
        watches: 0,
        latency: Duration::ZERO,
        lag: Duration::ZERO,
        lost_events: 0,
    };

    /// Draws the profile of a run: some runs have many faults of one kind, some a few of all.
    pub fn draw(random: &mut StdRng) -> Self {
        let mut one_of = |choices: &[u32]| choices[random.random_range(0..choices.len())];
        Self {
            requests: one_of(&[0, 20, 80, 250]),
            crashes: one_of(&[0, 0, 10, 30]),
            max_crashes: 3,
            watches: one_of(&[0, 200, 600]),
            latency: Duration::from_millis(one_of(&[1, 20, 300]).into()),
            lag: Duration::from_millis(one_of(&[0, 50, 3_000]).into()),
            lost_events: 0,
        }
    }

    /// Draws the fault of a request.
    pub fn fault(&self, random: &mut StdRng, is_write: bool) -> Option<Fault> {
        let number = random.random_range(0..1_000);

        if number < self.crashes {
            return Some(if random.random() {
                Fault::CrashBefore
            } else {
                Fault::CrashAfter
            });
        }

        if number >= self.crashes + self.requests {
            return None;
        }

        Some(match random.random_range(0..10) {
            // Only a write that replaces something has a conflict.
            0 if is_write => Fault::Refused(409),
            0 | 1 => Fault::Refused(429),
            2 => Fault::Refused(500),
            3 => Fault::Refused(503),
            4 | 5 => Fault::NotSent,
            6 | 7 => Fault::ResponseLost,
            8 => Fault::GatewayTimeout,
            _ => Fault::NoAnswer,
        })
    }

    /// Draws the fault of a watch.
    pub fn watch_fault(&self, random: &mut StdRng) -> Option<WatchFault> {
        if random.random_range(0..1_000) >= self.watches {
            return None;
        }

        let events = random.random_range(0..6);
        Some(match random.random_range(0..3) {
            0 => WatchFault::Closed(events),
            1 => WatchFault::Broken(events),
            _ => WatchFault::Expired(events),
        })
    }

    /// Reports whether an event is lost for good.
    pub fn loses_event(&self, random: &mut StdRng) -> bool {
        self.lost_events > 0 && random.random_range(0..1_000) < self.lost_events
    }
}

/// Draws a time up to `most`.
pub fn up_to(random: &mut StdRng, most: Duration) -> Duration {
    Duration::from_micros(random.random_range(0..=most.as_micros() as u64))
}

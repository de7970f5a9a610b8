//! Reports long-running guests: each once, with its stack, long before its deadline.
//!
//! Only running counts. While a guest waits in a host call, such as one to the API server, no epoch
//! ends it and nothing is counted.

use std::time::{Duration, Instant};

use rustc_demangle::demangle;
use wasmtime::{AsContext, WasmBacktrace};

use crate::cut;

/// A guest is reported after it has run for this long.
pub(crate) const LONG: Duration = Duration::from_secs(2);

/// The most that counts between two epochs: the tick of a busy engine, and as much again for a late
/// thread. If more time has passed, the guest has waited.
const MAX_SLICE: Duration = Duration::from_millis(2);

/// The maximum number of frames in a report.
const FRAMES: usize = 12;

/// The maximum length of a function's name in a report, in bytes.
const MAX_NAME: usize = 160;

/// The maximum length of a name before demangling, in bytes.
const MAX_MANGLED: usize = 1024;

/// The maximum length of the stack in a report, in bytes.
const MAX_STACK: usize = 900;

/// How long the guest of one call has run.
#[derive(Debug)]
pub(crate) struct RunTime {
    ran: Duration,
    /// The end of the last epoch it ran in.
    last: Instant,
    is_reported: bool,
}

impl RunTime {
    pub(crate) fn start(now: Instant) -> Self {
        Self {
            ran: Duration::ZERO,
            last: now,
            is_reported: false,
        }
    }

    /// Called when an epoch ends while the guest runs. Returns true once, when it has run for
    /// [`LONG`].
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        self.ran += now.saturating_duration_since(self.last).min(MAX_SLICE);
        self.last = now;
        let is_long = self.ran >= LONG && !self.is_reported;
        self.is_reported |= is_long;
        is_long
    }

    /// How long it has run.
    pub(crate) fn ran(&self) -> Duration {
        self.ran
    }
}

/// Returns the functions on the stack of a guest, innermost first.
pub(crate) fn stack(store: impl AsContext) -> String {
    functions(&WasmBacktrace::force_capture(store))
}

/// Returns the functions of a backtrace, innermost first.
pub(crate) fn functions(trace: &WasmBacktrace) -> String {
    let mut names = Vec::new();
    let mut is_named = false;

    for frame in trace.frames().iter().take(FRAMES) {
        is_named |= frame.func_name().is_some();
        let name = match frame.func_name() {
            Some(name) => readable(name),
            None => format!("function {}", frame.func_index()),
        };
        names.push(name);
    }

    if trace.frames().len() > FRAMES {
        names.push("...".to_owned());
    }

    let hint = if is_named {
        ""
    } else {
        " (operetta build --debug keeps the names of functions)"
    };

    cut(names.join(" < "), MAX_STACK) + hint
}

/// Returns a function's name without Rust's mangling and hash: short and printable, because the
/// guest chooses it.
fn readable(name: &str) -> String {
    let name = &name[..name.floor_char_boundary(MAX_MANGLED)];
    let readable = format!("{:#}", demangle(name));
    let printable = |c: char| {
        if c.is_ascii_graphic() || c == ' ' {
            c
        } else {
            '?'
        }
    };

    cut(
        readable.chars().take(MAX_NAME).map(printable).collect(),
        MAX_NAME,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_short_and_printable() {
        assert_eq!(
            readable("_ZN5guest9reconcile17h0123456789abcdefE"),
            "guest::reconcile"
        );
        assert_eq!(
            readable("main.(*Reconciler).Reconcile"),
            "main.(*Reconciler).Reconcile"
        );
        assert_eq!(readable("a\nb\u{202e}c"), "a?b?c");
        assert!(readable(&"x".repeat(1 << 20)).len() <= MAX_NAME);
    }

    const TICK: Duration = Duration::from_millis(1);

    #[test]
    fn running_guest_is_reported_once() {
        let start = Instant::now();
        let mut time = RunTime::start(start);
        let reported: Vec<u32> = (1..10_000)
            .filter(|tick| time.tick(start + TICK * *tick))
            .collect();
        assert_eq!(reported, [2000]);
    }

    #[test]
    fn waiting_does_not_count() {
        let start = Instant::now();
        let mut time = RunTime::start(start);
        let seconds = Duration::from_secs(5);
        assert!(
            (1..100).all(|call| !time.tick(start + seconds * call)),
            "99 calls of five seconds each"
        );
    }
}

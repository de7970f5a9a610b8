//! What the host knows of a running process: the data of its wasmtime store. The functions of
//! `preview1.rs`, `own.rs` and `poll.rs` work on it.

use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use operetta_core::{
    gate::{bytes::Bytes, throttle::Meter},
    ports::{LogLevel, LogRecord, LogSink},
};
use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::{Caller, Extern, Memory};

use super::{
    Shared,
    descriptor::{Descriptor, Descriptors},
    errno::Errno,
    files::{Directory, Files},
    guest::Guest,
    network::Network,
    time::nanos,
};
use crate::store::{limiter::MemoryLimiter, long_run::RunTime, output::Lines};

/// What the monotonic clock shows at the start: Go's runtime takes zero for a broken clock.
const CLOCK_START: Duration = Duration::from_secs(1);

/// The most bytes of one read or write.
pub(super) const MAX_TRANSFER: u32 = 256 << 10;

/// What the host knows of every process, however it enters.
pub(crate) struct Life {
    pub limiter: MemoryLimiter,
    /// Shared with the standard streams of a command.
    pub output: Arc<Mutex<Output>>,
    pub shared: Arc<Shared>,
    /// How long it has run since it last waited.
    pub run_time: RunTime,
    /// Gets the peak of its memory.
    meter: Option<Arc<Meter>>,
}

impl Life {
    pub fn new(
        memory_bytes: usize,
        memory: Option<Bytes>,
        meter: Option<Arc<Meter>>,
        shared: Arc<Shared>,
        logs: Arc<dyn LogSink>,
    ) -> Self {
        Self {
            limiter: MemoryLimiter::new(memory_bytes, memory).for_process(),
            output: Arc::new(Mutex::new(Output {
                lines: Lines::default(),
                logs,
                last: String::new(),
            })),
            shared,
            run_time: RunTime::start(std::time::Instant::now()),
            meter,
        }
    }

    /// Updates what the host sees of the process from outside.
    pub fn publish(&self, descriptors: usize) {
        let memory_bytes = self.limiter.used_bytes();
        if let Some(meter) = &self.meter {
            meter
                .peak_memory_bytes
                .fetch_max(memory_bytes as u64, Ordering::Relaxed);
        }
        self.shared.publish(memory_bytes, descriptors);
    }

    /// Called when the process stops waiting.
    pub fn waited(&mut self) {
        self.run_time = RunTime::start(std::time::Instant::now());
        self.shared.polled();
    }
}

/// The data of a process's store. There are two kinds: [`State`], of a core module, and
/// [`Command`](super::command::Command), of a component.
pub(crate) trait Door: Send + 'static {
    /// The call in which such a process waits.
    const WAITS: &'static str;

    fn life(&mut self) -> &mut Life;

    /// Updates what the host sees of the process from outside.
    fn publish(&self);
}

pub(crate) struct State {
    /// The guest's memory; None before its first host call.
    memory: Option<Memory>,
    pub(super) life: Life,
    pub(super) descriptors: Descriptors,
    pub(super) files: Files,
    /// Each without a zero byte.
    pub(super) args: Vec<Vec<u8>>,
    /// The same, as `name=value`.
    pub(super) env: Vec<Vec<u8>>,
    pub(super) network: Arc<dyn Network>,
    pub(super) address: IpAddr,
    started: Instant,
}

impl State {
    pub(super) fn new(
        config: super::ProcessConfig,
        shared: Arc<Shared>,
        network: Arc<dyn Network>,
        logs: Arc<dyn LogSink>,
    ) -> Self {
        let mut descriptors = Descriptors::new(config.max_descriptors);
        for standard in [
            Descriptor::Stdin,
            Descriptor::Stdout,
            Descriptor::Stderr,
            Descriptor::Directory(Directory::root()),
        ] {
            // With a limit below four the process lacks some of them.
            let _added = descriptors.add(standard);
        }

        let until_zero = |text: String| {
            let mut bytes = text.into_bytes();
            let end = bytes.iter().position(|byte| *byte == 0);
            bytes.truncate(end.unwrap_or(bytes.len()));
            bytes
        };
        let env = config.env.into_iter();
        let env = env.map(|(name, value)| until_zero(format!("{name}={value}")));

        Self {
            memory: None,
            life: Life::new(
                config.memory_bytes,
                config.memory,
                config.meter,
                shared,
                logs,
            ),
            descriptors,
            files: config.files,
            args: config.args.into_iter().map(until_zero).collect(),
            env: env.collect(),
            network,
            address: config.address,
            started: Instant::now(),
        }
    }

    /// In nanoseconds, on the guest's monotonic clock.
    pub(super) fn monotonic(&self) -> u64 {
        nanos(self.started.elapsed() + CLOCK_START)
    }

    /// The moment at which the guest's monotonic clock shows a time. None if that is never.
    pub(super) fn at_monotonic(&self, nanos: u64) -> Option<Instant> {
        let since_start = Duration::from_nanos(nanos).saturating_sub(CLOCK_START);
        self.started.checked_add(since_start)
    }
}

impl Door for State {
    const WAITS: &'static str = "poll_oneoff";

    fn life(&mut self) -> &mut Life {
        &mut self.life
    }

    fn publish(&self) {
        self.life.publish(self.descriptors.count());
    }
}

/// Splits a host call's borrow of the store into the guest's memory and the state.
///
/// # Errors
/// [`Errno::FAULT`] if the guest exports no memory.
pub(super) fn enter<'a>(
    caller: &'a mut Caller<'_, State>,
) -> Result<(Guest<'a>, &'a mut State), Errno> {
    let memory = match caller.data().memory {
        Some(memory) => memory,
        None => {
            // A start function may call the host before its instance is known.
            let memory = caller.get_export("memory").and_then(Extern::into_memory);
            let memory = memory.ok_or(Errno::FAULT)?;
            caller.data_mut().memory = Some(memory);
            memory
        }
    };
    let (bytes, state) = memory.data_and_store_mut(caller);
    Ok((Guest::new(bytes), state))
}

/// The lines that a process prints, on their way to its log.
pub(crate) struct Output {
    pub lines: Lines,
    pub logs: Arc<dyn LogSink>,
    /// The last line on stdout.
    pub last: String,
}

impl Output {
    /// The level of each stream. `Lines` tells them apart by it.
    pub const STDOUT: LogLevel = LogLevel::Info;
    pub const STDERR: LogLevel = LogLevel::Warn;

    pub fn write(&mut self, stream: LogLevel, bytes: &[u8]) {
        self.lines.write(stream, bytes);
        self.drain();
    }

    /// Ends the lines that have no end yet.
    pub fn end(&mut self) {
        for stream in [Self::STDOUT, Self::STDERR] {
            self.lines.end_line(stream);
        }
        self.drain();
    }

    /// Both streams are logged as Info: Go programs print all of their log to stderr.
    fn drain(&mut self) {
        for (stream, line) in self.lines.take_complete() {
            let stream = if stream == Self::STDERR {
                "stderr"
            } else {
                self.last.clone_from(&line);
                "stdout"
            };
            self.log(LogLevel::Info, line, stream);
        }
    }

    /// Logs a line, of a stream or of the host.
    pub fn log(&self, level: LogLevel, message: String, stream: &str) {
        if self.logs.enabled(level) {
            self.logs.write(LogRecord {
                level,
                message,
                fields: vec![("stream".to_owned(), stream.to_owned())],
                reconcile: None,
            });
        }
    }
}

/// What a process printed before it was killed must not be lost.
impl Drop for Output {
    fn drop(&mut self) {
        self.end();
    }
}

//! Processes: programs that run for days in one instance, instead of being called.
//!
//! An operator keeps its `main`: it starts, builds its caches, and waits. There is one call in which
//! it waits, whatever for. So a process is a future: it can be polled by whoever schedules guests, it
//! yields at each tick of the epoch, and dropping it ends it. While it waits it costs memory, but no
//! time.
//!
//! There are two ways in, and one house behind them: network, files, signals, limits and exits.
//!
//! - Go's programs come as a component that exports one core module as `process` and does nothing
//!   else. The module is a WASI preview 1 command, with the functions of `operetta_process` for
//!   connections, listeners, names and signals. Whatever it waits for is a descriptor, and it waits
//!   in `poll_oneoff`. docs/decisions/0047-operators-are-processes.md has the reasons.
//! - Rust's programs come as a command of WASI 0.2, a component that exports `wasi:cli/run`
//!   (`command/`). It waits in `wasi:io/poll`. Its reasons are in
//!   docs/decisions/0051-commands-are-processes.md.
//!
//! Whatever its code does, a process cannot
//!
//! - wait anywhere else, hold a thread for longer than an epoch tick, or run for ever without
//!   waiting;
//! - grow beyond its memory limit, open more descriptors than its limit, or make the host buffer
//!   without bound;
//! - panic or trap the host, open a file of the host, or connect to anything but its [`Network`].
//!
//! ```
//! # use std::{io, net::IpAddr, sync::Arc};
//! # use operetta_core::ports::{LogLevel, LogRecord, LogSink};
//! # use operetta_wasm::{Engine, EngineConfig, LoadLimits};
//! # use operetta_wasm::process::{Destination, Network, Stream};
//! # struct NoLog;
//! # impl LogSink for NoLog {
//! #     fn enabled(&self, _: LogLevel) -> bool { false }
//! #     fn write(&self, _: LogRecord) {}
//! # }
//! # struct NoNetwork;
//! # #[async_trait::async_trait]
//! # impl Network for NoNetwork {
//! #     async fn connect(&self, _: &Destination) -> io::Result<Box<dyn Stream>> {
//! #         Err(io::ErrorKind::PermissionDenied.into())
//! #     }
//! #     async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
//! #         Err(io::ErrorKind::NotFound.into())
//! #     }
//! # }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let bytes = wat::parse_str(r#"(component
//! #     (core module $m (memory (export "memory") 1) (func (export "_start")))
//! #     (export "process" (core module $m)))"#)?;
//! # let (network, logs) = (Arc::new(NoNetwork), Arc::new(NoLog));
//! use operetta_wasm::process::{ExitReason, Process, ProcessConfig, ProcessProgram};
//!
//! let engine = Engine::new(&EngineConfig::default())?;
//! let program = ProcessProgram::load(&engine, bytes, &LoadLimits::default()).await?;
//! let config = ProcessConfig {
//!     args: vec!["/manager".to_owned(), "--leader-elect".to_owned()],
//!     ..ProcessConfig::default()
//! };
//! let (process, running) = Process::start(&Arc::new(program), config, network, logs);
//! tokio::spawn(running);
//! process.signal(15);
//! assert_eq!(process.exited().await.reason, ExitReason::Completed);
//! # Ok(())
//! # }
//! ```

mod command;
mod descriptor;
mod errno;
mod exit;
mod files;
mod guest;
mod linker;
mod load;
mod network;
mod own;
mod pipe;
mod poll;
mod preview1;
mod signals;
mod socket;
mod state;
mod time;
mod wake;

use std::{
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use operetta_core::{
    gate::{bytes::Bytes, throttle::Meter},
    ports::{LogLevel, LogSink},
};
use tokio::sync::watch;
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::I32Exit;

pub(crate) use self::{
    command::{Command, is_run, linker as command_linker},
    linker::{is_offered, linker, offered_by_module},
    state::State,
};
use self::{
    exit::Unresponsive, load::Linkable, signals::Signals, socket::Ports, state::Door,
    wake::ProcessWaker,
};
pub use self::{
    exit::{Exit, ExitReason},
    files::{EmptyDir, FileError, Files, Projected},
    linker::IMPORTS,
    load::ProcessProgram,
    network::{Destination, Host, Network, Stream},
    pipe::{CAPACITY, Pipe, pipe},
};
use crate::{
    call,
    slots::Tenant,
    store::long_run::{self, LONG},
    ticker::Clock,
};

/// SIGTERM, with which a process is asked to end.
pub const SIGTERM: u8 = 15;

/// What a process gets, as a container does.
#[derive(Debug)]
pub struct ProcessConfig {
    /// The program's name and its arguments.
    pub args: Vec<String>,
    /// The environment, by name and value.
    pub env: Vec<(String, String)>,
    /// The files.
    pub files: Files,
    /// The maximum size of its linear memory, in bytes.
    pub memory_bytes: usize,
    /// Charges its memory to its namespace and the host; None if nobody counts.
    pub memory: Option<Bytes>,
    /// Records the peak of its memory; None if nobody asks.
    pub meter: Option<Arc<Meter>>,
    /// The most descriptors open at once. Four are open at the start.
    pub max_descriptors: u32,
    /// How long it may run without waiting. Only time in which it runs counts.
    pub unresponsive_after: Duration,
    /// Its own address, as that of a Pod.
    pub address: IpAddr,
    /// Whose share of the instance pool it takes: a namespace.
    pub tenant: String,
}

impl Default for ProcessConfig {
    fn default() -> Self {
        Self {
            args: Vec::new(),
            env: Vec::new(),
            files: Files::default(),
            memory_bytes: 256 << 20,
            memory: None,
            meter: None,
            max_descriptors: 4096,
            unresponsive_after: Duration::from_secs(30),
            address: Ipv4Addr::LOCALHOST.into(),
            tenant: String::new(),
        }
    }
}

/// A running process. Clones are the same process; dropping all of them does not end it.
#[derive(Clone, Debug)]
pub struct Process {
    shared: Arc<Shared>,
}

/// The life of a process, to be polled until it ends. Dropping it ends the process.
pub type Running = Pin<Box<dyn Future<Output = Exit> + Send>>;

/// What is known of a process from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStats {
    /// The size of its linear memory in bytes, when it last polled.
    pub memory_bytes: u64,
    /// The number of open descriptors, when it last polled.
    pub descriptors: u64,
    /// How often it has polled.
    pub polls: u64,
    /// The time since it last began or ended a poll. It may be long: a process that waits isn't
    /// ill.
    pub since_poll: Duration,
    /// The addresses on which it listens.
    pub listening: Vec<SocketAddr>,
}

/// What a process and those who hold it share.
#[derive(Debug)]
pub(crate) struct Shared {
    waker: Arc<ProcessWaker>,
    signals: Arc<Signals>,
    ports: Arc<Ports>,
    killed: watch::Sender<bool>,
    exit: watch::Sender<Option<Exit>>,
    started: Instant,
    memory_bytes: AtomicU64,
    descriptors: AtomicU64,
    polls: AtomicU64,
    /// In nanoseconds since `started`.
    polled: AtomicU64,
}

impl Shared {
    fn new() -> Arc<Self> {
        let waker = Arc::default();
        Arc::new(Self {
            signals: Signals::new(&waker),
            ports: Ports::new(&waker),
            waker,
            killed: watch::Sender::new(false),
            exit: watch::Sender::new(None),
            started: Instant::now(),
            memory_bytes: AtomicU64::new(0),
            descriptors: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            polled: AtomicU64::new(0),
        })
    }

    fn publish(&self, memory_bytes: usize, descriptors: usize) {
        self.memory_bytes
            .store(memory_bytes as u64, Ordering::Relaxed);
        self.descriptors
            .store(descriptors as u64, Ordering::Relaxed);
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// Called at both ends of a poll.
    fn polled(&self) {
        self.polled
            .store(time::nanos(self.started.elapsed()), Ordering::Relaxed);
    }
}

impl Process {
    /// Starts a program. Nothing happens until the second value is polled, which may be by a
    /// scheduler. The connections that the program makes are polled with it.
    pub fn start(
        program: &Arc<ProcessProgram>,
        config: ProcessConfig,
        network: Arc<dyn Network>,
        logs: Arc<dyn LogSink>,
    ) -> (Self, Running) {
        let shared = Shared::new();
        let end = End(shared.clone());
        let program = program.clone();
        let running = Box::pin(async move {
            let exit = run(&program, config, &end.0, network, logs).await;
            end.0.exit.send_replace(Some(exit.clone()));
            exit
        });
        (Self { shared }, running)
    }

    /// Sends a signal, such as [`SIGTERM`]. Returns false if the process does not handle signals, at
    /// least not yet: outside of WebAssembly, the signal would have ended it.
    pub fn signal(&self, signal: u8) -> bool {
        self.shared.signals.send(signal)
    }

    /// Ends the process at once, as SIGKILL does.
    pub fn kill(&self) {
        self.shared.killed.send_replace(true);
    }

    /// Connects to a port on which the process listens, and returns the other end.
    ///
    /// # Errors
    /// `ConnectionRefused` says whether the process does not listen there, listens on loopback only,
    /// or does not accept its connections.
    pub fn connect(&self, port: u16) -> io::Result<Pipe> {
        self.connect_from(port, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))
    }

    /// Connects as a peer with this address, which the process sees.
    ///
    /// # Errors
    /// Fails as [`Process::connect`] does.
    pub fn connect_from(&self, port: u16, from: SocketAddr) -> io::Result<Pipe> {
        self.shared.ports.connect(port, from, false)
    }

    /// Waits for the end of the process.
    pub async fn exited(&self) -> Exit {
        let mut exit = self.shared.exit.subscribe();
        let ended = exit.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|exit| exit.clone());
        // Never happens: `self` holds the sender.
        ended.unwrap_or_else(|| Exit::killed(ABANDONED))
    }

    /// How the process ended; None while it runs.
    pub fn exit(&self) -> Option<Exit> {
        self.shared.exit.borrow().clone()
    }

    /// What is known of it from outside.
    pub fn stats(&self) -> ProcessStats {
        let shared = &self.shared;
        let polled = Duration::from_nanos(shared.polled.load(Ordering::Relaxed));
        ProcessStats {
            memory_bytes: shared.memory_bytes.load(Ordering::Relaxed),
            descriptors: shared.descriptors.load(Ordering::Relaxed),
            polls: shared.polls.load(Ordering::Relaxed),
            since_poll: shared.started.elapsed().saturating_sub(polled),
            listening: shared.ports.listening(),
        }
    }
}

const ABANDONED: &str = "the host stopped the process";

/// Publishes the end of a process, even if its future is dropped.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.exit.send_if_modified(|exit| {
            let is_new = exit.is_none();
            exit.get_or_insert_with(|| Exit::killed(ABANDONED));
            is_new
        });
    }
}

/// Runs a program until it ends or is killed.
async fn run(
    program: &ProcessProgram,
    config: ProcessConfig,
    shared: &Arc<Shared>,
    network: Arc<dyn Network>,
    logs: Arc<dyn LogSink>,
) -> Exit {
    let mut killed = shared.killed.subscribe();
    let killed = async {
        // Never fails: `shared` holds the sender.
        let _killed = killed.wait_for(|killed| *killed).await;
    };

    tokio::select! {
        biased;
        () = killed => Exit::killed("the process was killed"),
        exit = live(program, config, shared, network, logs) => exit,
    }
}

async fn live(
    program: &ProcessProgram,
    config: ProcessConfig,
    shared: &Arc<Shared>,
    network: Arc<dyn Network>,
    logs: Arc<dyn LogSink>,
) -> Exit {
    let engine = program.engine();
    // Held until the end, because running code must not be unmapped.
    let linked = match program.linked().await {
        Ok(linked) => linked,
        Err(error) => return Exit::not_started(error.to_string()),
    };
    // Declared before the store to be dropped after it.
    let tenant = Tenant::from(config.tenant.as_str());
    // It waits once, before it starts: nothing that it does is slow because of that.
    let _slots = call::slots(engine, &tenant, linked.slots, None).await;

    let limit = config.unresponsive_after;
    let clock = engine.clock();
    match &linked.program {
        Linkable::Module(pre) => {
            let state = State::new(config, shared.clone(), network, logs);
            let mut store = guarded(engine.wasmtime(), state, clock, limit);
            let guest = async {
                let instance = pre.instantiate_async(&mut store).await?;
                let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
                start.call_async(&mut store, ()).await
            };
            let outcome = clock.run(guest).await;
            ended(&mut store, outcome)
        }
        Linkable::Command(pre) => {
            let command = Command::new(config, shared.clone(), network, logs);
            let mut store = guarded(engine.wasmtime(), command, clock, limit);
            Command::limit(&mut store);
            let guest = async {
                let command = pre.instantiate_async(&mut store).await?;
                let main = command.wasi_cli_run().call_run(&mut store).await?;
                main.map_err(|()| wasmtime::Error::from(I32Exit(1)))
            };
            let outcome = clock.run(guest).await;
            ended(&mut store, outcome)
        }
    }
}

/// Returns a store whose guest has limited memory, yields at each tick of the epoch, and ends if it
/// does not wait for too long.
fn guarded<D: Door>(
    engine: &wasmtime::Engine,
    door: D,
    clock: &Arc<Clock>,
    limit: Duration,
) -> Store<D> {
    let mut store = Store::new(engine, door);
    store.limiter(|door| &mut door.life().limiter);
    store.set_epoch_deadline(1);

    let clock = clock.clone();
    // Not called while the guest waits: only WebAssembly code looks at the epoch.
    store.epoch_deadline_callback(move |mut context| {
        let now = Instant::now();
        clock.ticked(now);
        let run_time = &mut context.data_mut().life().run_time;
        let is_long = run_time.tick(now);
        let is_too_long = run_time.ran() >= limit;

        if is_too_long {
            let (waits, stack) = (D::WAITS, long_run::stack(&context));
            return Err(Unresponsive {
                limit,
                waits,
                stack,
            }
            .into());
        }
        if is_long {
            let message = format!(
                "the process has run for {} s without waiting; stack: {}",
                LONG.as_secs(),
                long_run::stack(&context)
            );
            let output = &context.data_mut().life().output;
            output.lock().log(LogLevel::Warn, message, "host");
        }
        Ok(UpdateDeadline::Yield(1))
    });
    store
}

fn ended<D: Door>(store: &mut Store<D>, outcome: wasmtime::Result<()>) -> Exit {
    let exit = Exit::of(store.data_mut().life(), outcome);
    store.data().publish();
    exit
}

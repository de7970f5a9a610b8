//! Tests of processes from the outside: guests in WebAssembly text, one for each behaviour.
//!
//! A guest checks the host itself: `(call $check GOT WANT NUMBER)` exits with the code
//! `NUMBER * 1000 + GOT` if the two differ. So a guest that completes has seen what it expected.

mod command;
mod files;
mod life;
mod load;
mod memory;
mod network;
mod poll;
mod random;

use std::{
    fmt::Write,
    sync::{Arc, OnceLock},
    time::Duration,
};

use operetta_core::ports::{LogLevel, LogRecord, LogSink};
use operetta_wasm::{
    Engine, EngineConfig, LoadLimits, ProcessProgram,
    process::{Exit, ExitReason, Process, ProcessConfig},
};
use parking_lot::Mutex;

use crate::network::World;

/// Returns the one engine of the tests.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&EngineConfig::default()).expect("an engine"))
}

/// All imports of a process, with their parameters: i for i32, l for i64.
const IMPORTS: &[(&str, &[(&str, &str)])] = &[
    (
        "wasi_snapshot_preview1",
        &[
            ("args_get", "ii"),
            ("args_sizes_get", "ii"),
            ("environ_get", "ii"),
            ("environ_sizes_get", "ii"),
            ("clock_res_get", "ii"),
            ("clock_time_get", "ili"),
            ("fd_advise", "illi"),
            ("fd_allocate", "ill"),
            ("fd_close", "i"),
            ("fd_datasync", "i"),
            ("fd_fdstat_get", "ii"),
            ("fd_fdstat_set_flags", "ii"),
            ("fd_fdstat_set_rights", "ill"),
            ("fd_filestat_get", "ii"),
            ("fd_filestat_set_size", "il"),
            ("fd_filestat_set_times", "illi"),
            ("fd_pread", "iiili"),
            ("fd_prestat_dir_name", "iii"),
            ("fd_prestat_get", "ii"),
            ("fd_pwrite", "iiili"),
            ("fd_read", "iiii"),
            ("fd_readdir", "iiili"),
            ("fd_renumber", "ii"),
            ("fd_seek", "ilii"),
            ("fd_sync", "i"),
            ("fd_tell", "ii"),
            ("fd_write", "iiii"),
            ("path_create_directory", "iii"),
            ("path_filestat_get", "iiiii"),
            ("path_filestat_set_times", "iiiilli"),
            ("path_link", "iiiiiii"),
            ("path_open", "iiiiillii"),
            ("path_readlink", "iiiiii"),
            ("path_remove_directory", "iii"),
            ("path_rename", "iiiiii"),
            ("path_symlink", "iiiii"),
            ("path_unlink_file", "iii"),
            ("poll_oneoff", "iiii"),
            ("proc_raise", "i"),
            ("random_get", "ii"),
            ("sched_yield", ""),
            ("sock_accept", "iii"),
            ("sock_recv", "iiiiii"),
            ("sock_send", "iiiii"),
            ("sock_shutdown", "ii"),
        ],
    ),
    (
        "operetta_process",
        &[
            ("dial", "ii"),
            ("dialled", "ii"),
            ("listen", "iii"),
            ("addresses", "iii"),
            ("resolve", "ii"),
            ("signals", ""),
        ],
    ),
];

/// The functions of a guest: it has a memory of two pages, whose first 4 KiB are theirs.
const PRELUDE: &str = r#"
(func $check (param $got i32) (param $want i32) (param $number i32)
    (if (i32.ne (local.get $got) (local.get $want))
        (then (call $exit (i32.add (i32.mul (local.get $number) (i32.const 1000)) (local.get $got))))))

(func $buffer (param $at i32) (param $length i32)
    (i32.store (i32.const 16) (local.get $at))
    (i32.store (i32.const 20) (local.get $length)))

;; Reads or writes once: the number of bytes, or an error number below 0.
(func $read (param $fd i32) (param $at i32) (param $length i32) (result i32) (local $errno i32)
    (call $buffer (local.get $at) (local.get $length))
    (local.set $errno (call $fd_read (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 32)))
    (if (result i32) (local.get $errno)
        (then (i32.sub (i32.const 0) (local.get $errno)))
        (else (i32.load (i32.const 32)))))
(func $write (param $fd i32) (param $at i32) (param $length i32) (result i32) (local $errno i32)
    (call $buffer (local.get $at) (local.get $length))
    (local.set $errno (call $fd_write (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 32)))
    (if (result i32) (local.get $errno)
        (then (i32.sub (i32.const 0) (local.get $errno)))
        (else (i32.load (i32.const 32)))))

(func $clock_subscription (param $at i32) (param $user i64) (param $clock i32) (param $timeout i64) (param $flags i32)
    (i64.store (local.get $at) (local.get $user))
    (i32.store8 offset=8 (local.get $at) (i32.const 0))
    (i32.store offset=16 (local.get $at) (local.get $clock))
    (i64.store offset=24 (local.get $at) (local.get $timeout))
    (i64.store offset=32 (local.get $at) (i64.const 0))
    (i32.store16 offset=40 (local.get $at) (local.get $flags)))
(func $fd_subscription (param $at i32) (param $user i64) (param $kind i32) (param $fd i32)
    (i64.store (local.get $at) (local.get $user))
    (i32.store8 offset=8 (local.get $at) (local.get $kind))
    (i32.store offset=16 (local.get $at) (local.get $fd)))

;; Waits for one descriptor, 1 to read and 2 to write: the error of its event.
(func $wait (param $kind i32) (param $fd i32) (result i32)
    (call $fd_subscription (i32.const 64) (i64.const 7) (local.get $kind) (local.get $fd))
    (call $check (call $poll_oneoff (i32.const 64) (i32.const 256) (i32.const 1) (i32.const 36)) (i32.const 0) (i32.const 901))
    (call $check (i32.load (i32.const 36)) (i32.const 1) (i32.const 902))
    (i32.load16_u (i32.const 264)))
;; The same for some milliseconds: 1 if it is ready, 0 if not.
(func $wait_for (param $kind i32) (param $fd i32) (param $millis i64) (result i32)
    (call $fd_subscription (i32.const 64) (i64.const 7) (local.get $kind) (local.get $fd))
    (call $clock_subscription (i32.const 112) (i64.const 8) (i32.const 1)
        (i64.mul (local.get $millis) (i64.const 1000000)) (i32.const 0))
    (call $check (call $poll_oneoff (i32.const 64) (i32.const 256) (i32.const 2) (i32.const 36)) (i32.const 0) (i32.const 903))
    (i64.eq (i64.load (i32.const 256)) (i64.const 7)))
(func $sleep (param $millis i64)
    (call $clock_subscription (i32.const 64) (i64.const 9) (i32.const 1)
        (i64.mul (local.get $millis) (i64.const 1000000)) (i32.const 0))
    (call $check (call $poll_oneoff (i32.const 64) (i32.const 256) (i32.const 1) (i32.const 36)) (i32.const 0) (i32.const 904)))
(func $now (result i64)
    (drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 40)))
    (i64.load (i32.const 40)))
(func $print (param $at i32) (param $length i32)
    (drop (call $write (i32.const 2) (local.get $at) (local.get $length))))
"#;

/// A guest to be written.
#[derive(Clone, Debug, Default)]
struct Guest {
    data: String,
    functions: String,
    start: Option<String>,
    body: String,
}

impl Guest {
    /// A guest whose `_start` has this body.
    fn new(body: &str) -> Self {
        Self {
            body: body.to_owned(),
            ..Self::default()
        }
    }

    /// Puts a text into its memory.
    fn text(mut self, at: u32, text: &str) -> Self {
        let bytes = text.bytes().fold(String::new(), |mut bytes, byte| {
            write!(bytes, "\\{byte:02x}").expect("a string");
            bytes
        });
        write!(self.data, "(data (i32.const {at}) \"{bytes}\")").expect("a string");
        self
    }

    /// Adds functions and other fields.
    fn with(mut self, fields: &str) -> Self {
        self.functions += fields;
        self
    }

    /// Adds a start function, which runs before `_start`.
    fn starting(mut self, body: &str) -> Self {
        self.start = Some(body.to_owned());
        self
    }

    fn module(&self) -> String {
        let mut imports = String::new();
        for (module, functions) in IMPORTS {
            for (name, parameters) in *functions {
                let parameters: Vec<&str> = parameters
                    .chars()
                    .map(|kind| if kind == 'l' { "i64" } else { "i32" })
                    .collect();
                let parameters = parameters.join(" ");
                writeln!(
                    imports,
                    "(import \"{module}\" \"{name}\" (func ${name} (param {parameters}) (result i32)))"
                )
                .expect("a string");
            }
        }
        let start = self.start.as_ref().map_or(String::new(), |body| {
            format!("(func $before {body}) (start $before)")
        });
        let Self {
            data,
            functions,
            body,
            ..
        } = self;
        format!(
            "{imports}
             (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
             {PRELUDE} {functions} {start} {data}
             (memory (export \"memory\") 2)
             (func $main (export \"_start\") {body})"
        )
    }

    fn build(&self) -> Vec<u8> {
        component(&self.module())
    }
}

/// Wraps the fields of a module as a process.
fn component(module: &str) -> Vec<u8> {
    let text = format!(
        "(component (core module $process {module}) (export \"process\" (core module $process)))"
    );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Keeps the lines of a process.
#[derive(Default)]
struct Logs(Mutex<Vec<LogRecord>>);

impl LogSink for Logs {
    fn enabled(&self, _: LogLevel) -> bool {
        true
    }

    fn write(&self, record: LogRecord) {
        self.0.lock().push(record);
    }
}

impl Logs {
    fn lines(&self) -> Vec<String> {
        let lines = self.0.lock();
        lines.iter().map(|line| line.message.clone()).collect()
    }
}

async fn load(guest: &Guest) -> Arc<ProcessProgram> {
    let program = ProcessProgram::load(engine(), guest.build(), &LoadLimits::default()).await;
    Arc::new(program.unwrap_or_else(|error| panic!("{error}")))
}

/// A process that was started, on a task of its own.
struct Started {
    process: Process,
    logs: Arc<Logs>,
    task: tokio::task::JoinHandle<Exit>,
}

async fn start(guest: &Guest, config: ProcessConfig) -> Started {
    let logs = Arc::new(Logs::default());
    let (process, running) =
        Process::start(&load(guest).await, config, Arc::new(World), logs.clone());
    Started {
        process,
        logs,
        task: tokio::spawn(running),
    }
}

impl Started {
    /// Waits for its end, for at most 20 seconds.
    async fn exit(self) -> Exit {
        self.ended().await.0
    }

    /// The same, with what it logged.
    async fn ended(self) -> (Exit, Vec<String>) {
        let ended = tokio::time::timeout(Duration::from_secs(20), self.task).await;
        let exit = ended.expect("it ends in time").expect("no panic");
        assert_eq!(self.process.exit().as_ref(), Some(&exit));
        (exit, self.logs.lines())
    }
}

/// Runs a guest to its end.
async fn run(guest: Guest) -> (Exit, Vec<String>) {
    start(&guest, ProcessConfig::default()).await.ended().await
}

/// Runs a guest that checks everything itself.
async fn completes(guest: Guest) {
    completes_with(guest, ProcessConfig::default()).await;
}

async fn completes_with(guest: Guest, config: ProcessConfig) {
    let (exit, logs) = start(&guest, config).await.ended().await;
    assert_eq!(exit.reason, ExitReason::Completed, "{exit:?} {logs:?}");
}

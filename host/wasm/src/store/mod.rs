//! The data of a call's wasmtime [`Store`](wasmtime::Store): the session, the limits and the WASI
//! state. The functions of `imports/` work on it.

pub(crate) mod limiter;
pub(crate) mod long_run;
pub(crate) mod nondeterminism;
pub(crate) mod output;
pub(crate) mod trap_message;
mod wasi;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use operetta_core::gate::Session;
use wasmtime_wasi::{WasiCtxView, WasiView};

use self::{limiter::MemoryLimiter, long_run::RunTime, wasi::Wasi};

/// The maximum length of the last logged error, in bytes.
pub(crate) const MAX_LOGGED: usize = 2048;

/// The maximum number of live handles of one call, such as streams and pollables. Each takes host
/// memory.
pub(crate) const MAX_HANDLES: usize = 1024;

/// The source of a call, and its interpreter's report.
pub(crate) struct Evaluated {
    pub source: Arc<str>,
    /// Why the source cannot be evaluated.
    pub problem: Option<String>,
}

pub(crate) struct StoreData {
    pub(crate) session: Session,
    pub(crate) memory: MemoryLimiter,
    /// None before the first WASI call. Most reconciles make none.
    pub(crate) wasi: Option<Box<Wasi>>,
    /// The last line logged as an error: guests without a stderr log their panics.
    pub(crate) last_error: Option<String>,
    /// None for a plugin with its own code.
    pub(crate) evaluated: Option<Evaluated>,
    pub(crate) started: Instant,
    pub(crate) run_time: RunTime,
    pub(crate) timeout: Duration,
}

impl StoreData {
    /// Returns the session, after logging what the guest has printed.
    pub(crate) fn session(&mut self) -> &mut Session {
        if let Some(wasi) = &self.wasi {
            wasi.output().drain(&mut self.session);
        }
        &mut self.session
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.used_bytes()
    }

    pub(crate) fn memory_limit(&self) -> usize {
        self.memory.limit_bytes()
    }

    /// `message` has at most [`MAX_LOGGED`] bytes.
    pub(crate) fn logged_error(&mut self, message: String) {
        self.last_error = Some(message);
    }

    /// Returns the WASI state of this call, created if necessary.
    pub(crate) fn wasi(&mut self) -> &mut Wasi {
        let wasi = self.wasi.get_or_insert_with(|| {
            let source = self
                .session
                .nondeterminism()
                .cloned()
                .unwrap_or_else(operetta_core::nondeterminism::source);
            Box::new(Wasi::new(MAX_HANDLES, &source))
        });
        wasi.output().drain(&mut self.session);
        wasi
    }
}

impl WasiView for StoreData {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.wasi().view()
    }
}

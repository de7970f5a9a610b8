//! The data of a call's store: the session, the limits and the WASI state.

use std::time::{Duration, Instant};

use operetta_core::gate::Session;
use wasmtime_wasi::{WasiCtxView, WasiView};

use crate::{
    call::limiter::MemoryLimiter,
    imports::{nondeterminism, wasi::Wasi},
};

/// The bytes kept of the last error that a guest logged.
pub(crate) const MAX_LOGGED: usize = 2048;

/// The live handles of one call, such as streams and pollables: each takes host memory.
pub(crate) const MAX_HANDLES: usize = 1024;

/// The data of a call's store.
pub(crate) struct Call {
    pub(crate) session: Session,
    pub(crate) memory: MemoryLimiter,
    /// Created by the first WASI call: most reconciles make none.
    pub(crate) wasi: Option<Box<Wasi>>,
    /// The last line that the guest logged as an error: guests without a stderr log their panics.
    pub(crate) last_error: Option<String>,
    pub(crate) started: Instant,
    pub(crate) timeout: Duration,
}

impl Call {
    /// Returns the session. The lines that the guest has written to stdout and stderr are logged first.
    pub(crate) fn session(&mut self) -> &mut Session {
        if let Some(wasi) = &self.wasi {
            wasi.output().drain(&mut self.session);
        }
        &mut self.session
    }

    /// Returns the instance's linear memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.used_bytes()
    }

    /// Returns the limit of the instance's linear memory, in bytes.
    pub(crate) fn memory_limit(&self) -> usize {
        self.memory.limit_bytes()
    }

    /// Keeps an error that the guest logged, at most [`MAX_LOGGED`] bytes.
    pub(crate) fn logged_error(&mut self, message: String) {
        self.last_error = Some(message);
    }

    /// Returns the empty WASI of this call.
    pub(crate) fn wasi(&mut self) -> &mut Wasi {
        let wasi = self.wasi.get_or_insert_with(|| {
            let nondeterminism = self.session.nondeterminism().unwrap_or_else(|| nondeterminism::machine());
            Box::new(Wasi::new(MAX_HANDLES, nondeterminism))
        });
        wasi.output().drain(&mut self.session);
        wasi
    }
}

impl WasiView for Call {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.wasi().view()
    }
}

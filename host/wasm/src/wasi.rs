//! WASI 0.2, linked broadly but empty: every interface a language's runtime may import is there, and behind it nothing.
//!
//! No files, no sockets, no name lookup, no environment; one argument, because some runtimes read the zeroth without
//! looking; stdin at its end; stdout and stderr lead to the plugin's log; the clocks and randomness are real.

use operetta_core::ports::LogLevel;
use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView, WasiView};

use crate::{call::Call, output::Output};

/// Bytes of randomness in one call: a guest that wants more asks again.
const MAX_RANDOM: u64 = 1 << 20;

/// The WASI state of one call.
pub(crate) struct Wasi {
    context: WasiCtx,
    table: ResourceTable,
    output: Output,
}

impl Wasi {
    /// An empty world with at most this many open handles.
    pub(crate) fn new(max_handles: usize) -> Self {
        let output = Output::default();
        let mut table = ResourceTable::new();
        table.set_max_capacity(max_handles);
        let context = WasiCtx::builder()
            .arg("plugin")
            .stdout(output.stream(LogLevel::Info))
            .stderr(output.stream(LogLevel::Warn))
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(MAX_RANDOM)
            .build();
        Self { context, table, output }
    }

    pub(crate) fn output(&self) -> &Output {
        &self.output
    }
}

impl WasiView for Call {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.wasi();
        WasiCtxView { ctx: &mut wasi.context, table: &mut wasi.table }
    }
}

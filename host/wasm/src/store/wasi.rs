//! An empty WASI 0.2: every interface a language's runtime may import is linked, and gives access
//! to nothing.
//!
//! There are no files, sockets, name lookups or environment variables. There is one argument,
//! because some runtimes read the zeroth unconditionally. stdin is at its end. stdout and stderr go
//! to the plugin's log. Clocks and randomness come from the session, see [`super::nondeterminism`].

use std::sync::Arc;

use operetta_core::ports::{LogLevel, Nondeterminism};
use wasmtime_wasi::{ResourceTable, WasiCtx, WasiCtxView};

use super::{
    nondeterminism::{MonotonicClock, Random, WallClock},
    output::Output,
};

/// The maximum number of random bytes per host call. For more, a guest calls again.
const MAX_RANDOM: u64 = 1 << 20;

/// The WASI state of one call.
pub(crate) struct Wasi {
    context: WasiCtx,
    table: ResourceTable,
    output: Output,
}

impl Wasi {
    pub(crate) fn new(max_handles: usize, nondeterminism: &Arc<dyn Nondeterminism>) -> Self {
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
            .wall_clock(WallClock(nondeterminism.clone()))
            .monotonic_clock(MonotonicClock(nondeterminism.clone()))
            .secure_random(Random(nondeterminism.clone()))
            .insecure_random(Random(nondeterminism.clone()))
            .insecure_random_seed(Random(nondeterminism.clone()).seed())
            .build();

        Self {
            context,
            table,
            output,
        }
    }

    pub(crate) fn view(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.context,
            table: &mut self.table,
        }
    }

    pub(crate) fn output(&self) -> &Output {
        &self.output
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use operetta_core::{
        gate::{Gate, GateLimits, Shared},
        ports::{LogRecord, LogSink},
    };
    use wasmtime::Store;
    use wasmtime_wasi::{
        clocks::WasiClocksView,
        p2::bindings::{
            clocks::{monotonic_clock, wall_clock},
            random::{insecure, insecure_seed, random},
        },
        random::WasiRandomView,
    };

    use super::*;
    use crate::{CallLimits, Engine, EngineConfig, call, store::StoreData};

    /// Recorded clocks and randomness.
    struct Recorded;

    impl Nondeterminism for Recorded {
        fn wall_clock(&self) -> Duration {
            Duration::new(1_000_000_000, 5)
        }

        fn monotonic_clock(&self) -> Duration {
            Duration::from_nanos(7)
        }

        fn random(&self, bytes: &mut [u8]) {
            bytes.fill(9);
        }
    }

    struct DiscardLogs;

    impl LogSink for DiscardLogs {
        fn enabled(&self, _: LogLevel) -> bool {
            false
        }

        fn write(&self, _: LogRecord) {}
    }

    fn store(nondeterminism: Option<Arc<dyn Nondeterminism>>) -> Store<StoreData> {
        let engine = Engine::new(&EngineConfig {
            concurrent_calls: 1,
            ..EngineConfig::default()
        })
        .expect("an engine");
        let shared = Shared {
            nondeterminism,
            ..Shared::default()
        };
        let gate = Gate::mapping(
            Arc::new(DiscardLogs),
            "{}".into(),
            GateLimits::default(),
            shared,
        );
        call::store(&engine, gate.session(None), &CallLimits::default().budget())
    }

    #[test]
    fn clocks_and_randomness_come_from_the_session() {
        let mut store = store(Some(Arc::new(Recorded)));
        let call = store.data_mut();
        let time = wall_clock::Host::now(&mut call.clocks()).expect("a time");
        assert_eq!((time.seconds, time.nanoseconds), (1_000_000_000, 5));
        assert_eq!(
            monotonic_clock::Host::now(&mut call.clocks()).expect("a time"),
            7
        );
        let random = WasiRandomView::random(call);
        assert_eq!(
            random::Host::get_random_bytes(random, 3).expect("bytes"),
            [9; 3]
        );
        let nines = u64::from_le_bytes([9; 8]);
        assert_eq!(
            random::Host::get_random_u64(random).expect("a number"),
            nines
        );
        assert_eq!(
            insecure::Host::get_insecure_random_u64(random).expect("a number"),
            nines
        );
        assert_eq!(
            insecure_seed::Host::insecure_seed(random).expect("a seed"),
            (nines, nines)
        );
    }

    #[test]
    fn clocks_and_randomness_default_to_the_machine() {
        let mut store = store(None);
        let call = store.data_mut();
        let time = wall_clock::Host::now(&mut call.clocks()).expect("a time");
        assert!(time.seconds > 1_700_000_000, "after 2023: {}", time.seconds);
        let first = monotonic_clock::Host::now(&mut call.clocks()).expect("a time");
        assert!(monotonic_clock::Host::now(&mut call.clocks()).expect("a time") >= first);
        let random = WasiRandomView::random(call);
        let [one, other] =
            [(); 2].map(|()| random::Host::get_random_bytes(random, 16).expect("bytes"));
        assert_ne!(one, other);
    }
}

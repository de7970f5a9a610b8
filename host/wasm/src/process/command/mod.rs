//! A process that is a command of WASI 0.2: a component that exports `wasi:cli/run`, as Rust's
//! compiler makes it from a program with a `main`.
//!
//! wasmtime-wasi has the clocks, the randomness, the arguments, the streams and the polling. What
//! leads out of the sandbox there leads into the house here, as it does for core modules:
//! connections, listeners and names ([`sockets`]), and files ([`filesystem`]). They are put in the
//! place of wasmtime-wasi's own in the linker, under the same resource types. What isn't replaced,
//! UDP for example, keeps wasmtime-wasi's rule that everything is forbidden.
//!
//! The guest's handles stand for entries of one table. An entry of ours is found under the resource
//! type of wasmtime-wasi by its number ([`entry`]); the table checks that it is of the type asked
//! for.

mod filesystem;
mod poll;
mod sockets;
mod stdio;
mod tcp;

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use operetta_core::{nondeterminism, ports::LogSink};
use wasmtime::{
    Engine, Result,
    component::{HasSelf, Linker, Resource, ResourceTable},
};
use wasmtime_wasi::{
    WasiCtx, WasiCtxView, WasiView,
    p2::bindings::{
        filesystem::{preopens, types},
        sockets::{ip_name_lookup, tcp as tcp_interface, tcp_create_socket, udp_create_socket},
    },
};
use wasmtime_wasi_io::bindings::wasi::io::poll as poll_interface;

use self::{stdio::Printed, tcp::Unsent};
use super::{
    ProcessConfig, Shared,
    errno::Errno,
    files::Files,
    network::Network,
    state::{Door, Life, Output},
};
use crate::{
    imports::InterfaceName,
    store::nondeterminism::{MonotonicClock, Random, WallClock},
};

/// The most random bytes of one call. For more, a guest calls again.
const MAX_RANDOM: u64 = 1 << 20;

/// The most bytes that one call can make the host hold, such as those of a write.
const MAX_CALL_BYTES: usize = 16 << 20;

/// The handles of one descriptor: its own, two streams, and a pollable of each.
const HANDLES_PER_DESCRIPTOR: usize = 6;

/// The handles of everything else, such as the standard streams, timers and lookups.
const OTHER_HANDLES: usize = 256;

/// The data of a command's store.
pub(crate) struct Command {
    context: WasiCtx,
    table: ResourceTable,
    life: Life,
    files: Files,
    network: Arc<dyn Network>,
    address: IpAddr,
    open: Open,
    unsent: Unsent,
}

impl Command {
    pub(super) fn new(
        config: ProcessConfig,
        shared: Arc<Shared>,
        network: Arc<dyn Network>,
        logs: Arc<dyn LogSink>,
    ) -> Self {
        let life = Life::new(
            config.memory_bytes,
            config.memory,
            config.meter,
            shared,
            logs,
        );
        let open = Open {
            count: Arc::default(),
            limit: config.max_descriptors as usize,
        };
        let mut table = ResourceTable::new();
        let handles = open.limit.saturating_mul(HANDLES_PER_DESCRIPTOR);
        table.set_max_capacity(handles.saturating_add(OTHER_HANDLES));

        let source = nondeterminism::source();
        let mut context = WasiCtx::builder();
        context
            .args(&config.args)
            .envs(&config.env)
            .stdout(Printed::new(&life.output, Output::STDOUT))
            .stderr(Printed::new(&life.output, Output::STDERR))
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(MAX_RANDOM)
            .wall_clock(WallClock(source.clone()))
            .monotonic_clock(MonotonicClock(source.clone()))
            .secure_random(Random(source.clone()))
            .insecure_random(Random(source.clone()))
            .insecure_random_seed(Random(source).seed());

        Self {
            context: context.build(),
            table,
            life,
            files: config.files,
            network,
            address: config.address,
            open,
            unsent: Unsent::default(),
        }
    }

    /// Limits on what wasmtime holds for the guest of a store.
    pub(super) fn limit(store: &mut wasmtime::Store<Self>) {
        let handles = store.data().table.max_capacity();
        store.set_hostcall_fuel(MAX_CALL_BYTES);
        store.set_max_component_handles(handles);
    }
}

impl Door for Command {
    const WAITS: &'static str = "wasi:io/poll";

    fn life(&mut self) -> &mut Life {
        &mut self.life
    }

    fn publish(&self) {
        self.life.publish(self.open.count.load(Ordering::Relaxed));
    }
}

impl WasiView for Command {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.context,
            table: &mut self.table,
        }
    }
}

/// The open sockets and files of a process, against their limit.
struct Open {
    count: Arc<AtomicUsize>,
    limit: usize,
}

/// One of them.
struct Counted(Arc<AtomicUsize>);

impl Open {
    /// Counts one more.
    ///
    /// # Errors
    /// [`Errno::MFILE`] at the limit.
    fn one_more(&self) -> std::result::Result<Counted, Errno> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let counted = Counted(self.count.clone());
        if count > self.limit {
            return Err(Errno::MFILE);
        }
        Ok(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The entry of ours that a resource of wasmtime-wasi stands for.
fn entry<T: 'static, R: 'static>(resource: &Resource<R>) -> Resource<T> {
    Resource::new_borrow(resource.rep())
}

/// The same, to take it out of the table.
fn owned_entry<T: 'static, R: 'static>(resource: &Resource<R>) -> Resource<T> {
    Resource::new_own(resource.rep())
}

/// The resource of wasmtime-wasi that stands for an entry of ours.
fn resource<R: 'static, T: 'static>(entry: &Resource<T>) -> Resource<R> {
    Resource::new_own(entry.rep())
}

/// The interface by which a component says that it is a command.
const RUN: (&str, &str, &str) = ("wasi:cli", "run", "0.2");

/// Reports whether an export is the main function of a command.
pub(crate) fn is_run(export: &str) -> bool {
    let (package, interface, version) = RUN;
    InterfaceName::parse(export).is_some_and(|name| {
        name.package == package && name.interface == interface && name.agrees_with(version)
    })
}

/// Returns a linker with all interfaces that a command may import: those of WASI that plugins have.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<Command>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;

    type House = HasSelf<Command>;
    linker.allow_shadowing(true);
    poll_interface::add_to_linker::<_, House>(&mut linker, |command| command)?;
    types::add_to_linker::<_, House>(&mut linker, |command| command)?;
    preopens::add_to_linker::<_, House>(&mut linker, |command| command)?;
    tcp_interface::add_to_linker::<_, House>(&mut linker, |command| command)?;
    tcp_create_socket::add_to_linker::<_, House>(&mut linker, |command| command)?;
    udp_create_socket::add_to_linker::<_, House>(&mut linker, |command| command)?;
    ip_name_lookup::add_to_linker::<_, House>(&mut linker, |command| command)?;
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_recognised_by_their_main_function() {
        for (export, is_command) in [
            ("wasi:cli/run@0.2.0", true),
            ("wasi:cli/run@0.2.12", true),
            ("wasi:cli/run@0.3.0", false),
            ("wasi:cli/exit@0.2.0", false),
            ("other:cli/run@0.2.0", false),
            ("run", false),
        ] {
            assert_eq!(is_run(export), is_command, "{export}");
        }
    }

    #[test]
    fn descriptors_are_counted_up_to_their_limit() {
        let open = Open {
            count: Arc::default(),
            limit: 2,
        };
        let (one, two) = (open.one_more(), open.one_more());
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(open.one_more().err(), Some(Errno::MFILE));
        drop(one);
        assert!(open.one_more().is_ok(), "the refused one is not counted");
    }
}

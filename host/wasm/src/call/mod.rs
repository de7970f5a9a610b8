//! One call into a guest: a fresh store, a deadline, a memory limit, and the outcome.
//!
//! The deadline is enforced twice: a timer ends guests waiting in a host call, and the epoch ends
//! spinning guests, even on a runtime too busy to fire timers. At each tick a spinning guest yields
//! its thread and wakes itself, so other guests, timers and sockets get their turn. A guest running
//! for two seconds is reported with its stack (`store/long_run.rs`).

pub(crate) mod mapper;
pub(crate) mod reconciler;
pub(crate) mod warm;

use std::time::{Duration, Instant};

use operetta_core::{
    controller::request::Fault,
    gate::{Session, wait_time::WaitTime},
};
use tokio::time::error::Elapsed;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::{
    cut,
    engine::Engine,
    slots::{SlotPermit, Tenant},
    store::{
        MAX_HANDLES, StoreData,
        limiter::MemoryLimiter,
        long_run::{self, LONG, RunTime},
        trap_message::TrapMessage,
    },
};

/// The maximum length of a trap's description in bytes, including a panic's message.
const MAX_TRAP_MESSAGE: usize = 2304;

/// The sandbox limits of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    pub memory_bytes: usize,
    pub transfer_bytes: usize,
    pub timeout: Duration,
}

/// Why a call did not return.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The guest caused it.
    Fault(Fault),
    /// The host lacked a slot, memory or mapped code. The caller retries.
    Busy(String),
}

/// The epoch reached the call's deadline.
#[derive(Debug, thiserror::Error)]
#[error("deadline")]
struct DeadlineReached;

/// Waits for this many slots of the pool. This time does not count against the guest's deadline, but
/// is counted in `waits`.
pub(crate) async fn slots(
    engine: &Engine,
    tenant: &Tenant,
    count: u32,
    waits: Option<&WaitTime>,
) -> SlotPermit {
    if let Some(free) = engine.free_slots() {
        free.record_call();
    }
    if let Some(permit) = engine.slots().try_acquire(tenant, count) {
        return permit;
    }

    let _waiting = waits.map(WaitTime::begin);
    // Calls come before idle warm instances.
    engine.warm().make_room(count);
    engine.slots().acquire(tenant, count).await
}

/// Creates the store of one call. Its deadline starts now.
pub(crate) fn store(engine: &Engine, session: Session, budget: &Budget) -> Store<StoreData> {
    let memory = MemoryLimiter::new(budget.memory_bytes, session.memory());
    let started = Instant::now();
    let run_time = RunTime::start(started);
    let timeout = budget.timeout;

    let call = StoreData {
        session,
        memory,
        wasi: None,
        last_error: None,
        evaluated: None,
        started,
        run_time,
        timeout,
    };

    let mut store = Store::new(engine.wasmtime(), call);
    store.limiter(|call| &mut call.memory);
    store.set_hostcall_fuel(budget.transfer_bytes);
    store.set_max_component_handles(MAX_HANDLES);
    store.set_epoch_deadline(1);

    let clock = engine.clock().clone();
    store.epoch_deadline_callback(move |mut context| {
        let call = context.data_mut();
        let now = Instant::now();
        clock.ticked(now);
        if now.saturating_duration_since(call.started) >= call.timeout {
            return Err(DeadlineReached.into());
        }

        if call.run_time.tick(now) {
            let stack = long_run::stack(&context);
            context.data().session.long_run(LONG, &stack);
        }

        // The guest wakes itself at once, so it is back in the run queue before another guest gets
        // its turn.
        Ok(UpdateDeadline::Yield(1))
    });

    store
}

/// Runs a guest for at most the budget's time.
pub(crate) async fn run<T>(
    engine: &Engine,
    budget: &Budget,
    guest: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    tokio::time::timeout(budget.timeout, engine.clock().run(guest)).await
}

/// Prepares a store for another call of its instance, with a new session and a new deadline. The
/// instance keeps its memory and handles, still counted against their limits.
pub(crate) fn renew(store: &mut Store<StoreData>, session: Session) {
    let call = store.data_mut();
    call.session = session;
    call.memory.forget_refusal();
    call.last_error = None;
    call.started = Instant::now();
    call.run_time = RunTime::start(call.started);
    store.set_epoch_deadline(1);
}

/// Logs the rest of the guest's output, and returns the outcome of the call.
pub(crate) fn finish<T>(
    store: &mut Store<StoreData>,
    outcome: Result<wasmtime::Result<T>, Elapsed>,
    budget: &Budget,
) -> Result<T, CallError> {
    let call = store.data_mut();
    call.session.used_memory(call.memory.used_bytes());
    let printed = call
        .wasi
        .as_ref()
        .and_then(|wasi| wasi.output().finish(&mut call.session));

    let error = match outcome {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) if !error.is::<DeadlineReached>() => error,
        Ok(Err(_)) | Err(_) => {
            return Err(CallError::Fault(Fault::DeadlineExceeded {
                limit: budget.timeout,
            }));
        }
    };

    if error.is::<PoolConcurrencyLimitError>() {
        return Err(CallError::Busy(format!(
            "the host has no free instance slot: {error:#}"
        )));
    }

    if let Some(no_room) = call.memory.no_room() {
        return Err(CallError::Busy(no_room.to_string()));
    }

    if call.memory.refused() {
        return Err(CallError::Fault(Fault::MemoryExceeded {
            limit_bytes: call.memory.limit_bytes(),
        }));
    }

    let logged = call.last_error.take().map(TrapMessage::LastLine);
    Err(CallError::Fault(Fault::Trap(describe(
        &error,
        printed.or(logged),
    ))))
}

/// Describes a trap in one sentence. The guest's message comes first, because the trap itself is
/// usually just `unreachable`.
fn describe(error: &wasmtime::Error, message: Option<TrapMessage>) -> String {
    let description = if let Some(I32Exit(status)) = error.downcast_ref() {
        match message {
            Some(TrapMessage::Reason(message) | TrapMessage::LastLine(message)) => {
                format!("the guest called exit({status}): {message}")
            }
            None => format!("the guest called exit({status}), but a plugin must return"),
        }
    } else {
        let trap = match error.downcast_ref::<Trap>() {
            Some(trap @ Trap::StackOverflow) => format!("stack overflow: {}", trap_text(*trap)),
            Some(trap) => trap_text(*trap),
            None => without_backtrace(error),
        };
        match message {
            Some(TrapMessage::Reason(message)) => format!("{message} ({trap})"),
            Some(TrapMessage::LastLine(message)) => {
                format!("{trap}; the guest's last output: {message}")
            }
            None if error.downcast_ref() == Some(&Trap::UnreachableCodeReached) => {
                format!("{trap}: a panic or an abort without a message")
            }
            None => trap,
        }
    };

    cut(description, MAX_TRAP_MESSAGE)
}

/// Describes an error without the frames that wasmtime adds to it: guests are stripped, so frames
/// have no names.
fn without_backtrace(error: &wasmtime::Error) -> String {
    let frames = error
        .downcast_ref::<WasmBacktrace>()
        .map(ToString::to_string);
    let causes = error.chain().map(ToString::to_string);
    let causes: Vec<String> = causes
        .filter(|cause| frames.as_ref() != Some(cause))
        .collect();
    causes.join(": ")
}

/// What trapped, without wasmtime's prefix.
pub(crate) fn trap_text(trap: Trap) -> String {
    trap.to_string()
        .trim_start_matches("wasm trap: ")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use wasmtime::{Instance, Module};

    use super::*;
    use crate::EngineConfig;

    #[test]
    fn next_call_gets_slot_of_last_one() {
        // More than the slots that wasmtime keeps by default, and fewer than those of one shard on
        // a machine with 16 processors.
        const PLUGINS: u32 = 110;
        let engine = Engine::new(&EngineConfig::default()).expect("an engine");
        let module = |number| format!("(module (memory 1) (data (i32.const 0) \"{number}\"))");
        let compile = |number| {
            Module::new(
                engine.wasmtime(),
                wat::parse_str(module(number)).expect("text"),
            )
        };
        let modules: Vec<_> = (0..PLUGINS)
            .map(|number| compile(number).expect("compiles"))
            .collect();
        for round in 0..2 {
            for module in &modules {
                let mut store = Store::new(engine.wasmtime(), ());
                Instance::new(&mut store, module, &[]).expect("an instance");
            }
            let metrics = engine
                .wasmtime()
                .pooling_allocator_metrics()
                .expect("a pool");
            assert_eq!(metrics.unused_warm_memories(), PLUGINS, "round {round}");
        }
    }
}

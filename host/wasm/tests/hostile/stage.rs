//! Runs one hostile guest at a time and checks its response, the host's memory, and that the host
//! still serves others.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use operetta_core::{
    controller::request::{Action, Failure, Fault},
    handler::{
        event::Event,
        mapping::{KeyRules, MapReconciler},
        unmapped_events::UnmappedEvents,
    },
    manifest::Predicate,
    object::kind::GroupVersionKind,
    ports::Reconciler,
    queue::{Priority, budget::QueueBudget},
};
use operetta_testkit::{
    hostile::{Fixture, is_answer},
    wat_guest::Guest,
};
use operetta_wasm::{
    CallLimits, Engine, EngineConfig, LoadLimits, Plugin, PluginMapper, PluginReconciler,
    WarmLimits,
};
use tokio::sync::Mutex;

use crate::{
    HEAP,
    ports::{Ports, all_done, pod, request},
};

/// The number of concurrent calls of the engine. Each guest is called this often: one that leaked
/// its slot would leave none.
const SLOTS: u32 = 2;
/// The deadline of guests that never return.
const DEADLINE: &str = "0.3 s";
/// The limit on linear memory, in bytes.
const MEMORY: usize = 16 << 20;
/// The bytes of the host's own heap that a reconcile may take, without the guest's memory.
const HEAP_OF_CALL: usize = 64 << 20;
/// The same for loading; nearly all of it is compilation.
const HEAP_OF_LOAD: usize = 512 << 20;
/// The number of reconciles of a guest whose instances are kept.
const WARM_CALLS: usize = 4;
/// The maximum length of the host's answer about a guest, in bytes.
const ANSWER_BYTES: usize = 5000;

/// Serializes the tests, so that each measures only its own heap.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Runs a guest and asserts the response that its file states.
pub async fn run(name: &str) -> Arc<Ports> {
    run_with(name, Ports::default()).await
}

/// Runs a guest with these ports, which it returns.
pub async fn run_with(name: &str, ports: Ports) -> Arc<Ports> {
    let _alone = ALONE.lock().await;
    let fixture = Fixture::of(name);
    let ports = Arc::new(ports);
    let component = fixture.build();
    let expected = fixture.expected();
    let engine = engine();
    let mut kept = Vec::new();
    for _ in 0..SLOTS {
        let started = Instant::now();
        let Answer {
            text: answer,
            load,
            call,
            reconciler,
        } = answer(&engine, &component, &ports, fixture).await;
        let millis = started.elapsed().as_millis();
        let shown = answer.escape_debug().to_string();
        println!(
            "{name}: {} -> {shown:.200} ({millis} ms, {} + {} KiB)",
            fixture.does(),
            load >> 10,
            call >> 10
        );
        assert!(
            is_answer(&expected, &answer),
            "{name}: {shown:.1000}\nexpected: {expected}"
        );
        assert!(
            answer.len() <= ANSWER_BYTES,
            "{name}: the answer has {} bytes",
            answer.len()
        );
        assert!(
            load <= HEAP_OF_LOAD && call <= HEAP_OF_CALL,
            "{name}: {load} and {call} bytes of the host's heap"
        );
        kept.extend(reconciler);
    }
    // Its warm instances are still there.
    assert_others_continue(&engine).await;
    drop(kept);
    ports
}

/// Returns the predicates of the first controller in a guest's manifest.
pub async fn predicates(name: &str) -> Vec<Predicate> {
    let limits = LoadLimits::default();
    let plugin = Plugin::load(
        &engine(),
        Fixture::of(name).build(),
        &limits,
        Arc::new(Ports::default()),
    )
    .await;
    plugin.expect("loads").manifest().controllers[0]
        .for_
        .predicates
        .clone()
}

fn engine() -> Engine {
    let config = EngineConfig {
        concurrent_calls: SLOTS,
        optimize: false,
        ..EngineConfig::default()
    };
    Engine::new(&config).expect("an engine")
}

/// The host's answer to a guest.
struct Answer {
    text: String,
    /// The peak heap of loading and of calling, in bytes.
    load: usize,
    call: usize,
    /// None if the guest was refused.
    reconciler: Option<Box<dyn Reconciler>>,
}

/// Loads a guest and calls it: once, or several times if its instances are kept.
async fn answer(engine: &Engine, component: &[u8], ports: &Arc<Ports>, fixture: Fixture) -> Answer {
    let timeout = if fixture.expected().contains(DEADLINE) {
        Duration::from_millis(300)
    } else {
        Duration::from_secs(60)
    };
    let limits = LoadLimits {
        memory_bytes: MEMORY,
        timeout,
        ..LoadLimits::default()
    };
    let (loaded, load) = heap_of(Plugin::load(
        engine,
        component.to_vec(),
        &limits,
        ports.clone(),
    ))
    .await;
    let plugin = match loaded {
        Ok(plugin) => Arc::new(plugin),
        Err(error) => {
            return Answer {
                text: format!("refused {}: {error}", error.reason()),
                load,
                call: 0,
                reconciler: None,
            };
        }
    };
    let limits = CallLimits {
        memory_bytes: MEMORY,
        timeout,
        ..CallLimits::default()
    };
    let reconciler: Box<dyn Reconciler> =
        match PluginMapper::new(plugin.clone(), ports.mapping_gate(), &limits) {
            Some(mapper) => Box::new(mapping(mapper)),
            None => {
                let reconciler = PluginReconciler::new(plugin, ports.gate(), limits);
                Box::new(match fixture.is_warm() {
                    true => reconciler.keep_warm(WarmLimits::default()),
                    false => reconciler,
                })
            }
        };

    let calls = if fixture.is_warm() { WARM_CALLS } else { 1 };
    let reconciles = async {
        let mut answers = Vec::new();
        for _ in 0..calls {
            answers.push(text_of(reconciler.reconcile(&request("a")).await));
        }
        answers.join(", ")
    };
    let (text, call) = heap_of(reconciles).await;
    Answer {
        text,
        load,
        call,
        reconciler: Some(reconciler),
    }
}

fn text_of(outcome: Result<Action, Failure>) -> String {
    match outcome {
        Ok(Action::Done) => "done".to_owned(),
        Ok(Action::Requeue) => "again".to_owned(),
        Ok(Action::RequeueAfter(delay)) => format!("again after {} ms", delay.as_millis()),
        Err(Failure::Retry(message)) => format!("retry: {message}"),
        Err(Failure::RetryAfter(message, delay)) => {
            format!("retry after {} ms: {message}", delay.as_millis())
        }
        Err(Failure::Terminal(message)) => format!("terminal: {message}"),
        Err(Failure::Fault(Fault::Trap(message))) => format!("trap: {message}"),
        Err(Failure::Fault(Fault::DeadlineExceeded { limit })) => {
            format!("deadline of {} s", limit.as_secs_f32())
        }
        Err(Failure::Fault(Fault::MemoryExceeded { limit_bytes })) => {
            format!("memory over {limit_bytes} bytes")
        }
    }
}

/// Returns a mapper as the host runs it, with an event of the Pod `a`.
fn mapping(mapper: PluginMapper) -> MapReconciler {
    let kind = GroupVersionKind::new("v1", "Pod");
    let events = UnmappedEvents::new(QueueBudget::new(usize::MAX, usize::MAX));
    events.add(
        &Event::Added {
            object: Arc::new(pod("a")),
            initial: false,
        },
        Priority::Normal,
    );
    let rules = KeyRules {
        kind: kind.clone(),
        cluster_scoped: false,
        namespace: None,
    };
    MapReconciler::new(
        kind,
        events,
        Arc::new(mapper),
        rules,
        Arc::new(|_, _, _| true),
    )
}

async fn heap_of<T>(work: impl Future<Output = T>) -> (T, usize) {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let done = work.await;
    (done, HEAP.peak_usage().saturating_sub(before))
}

/// Asserts that all slots of the engine serve a well-behaved guest at once.
async fn assert_others_continue(engine: &Engine) {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    let good = GOOD.get_or_init(|| {
        let read =
            "(call $get_own (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len))";
        Guest::default().reconcile(&format!("{read} i32.const 16")).build()
    });
    let ports = Arc::new(Ports::slow(Some(Duration::from_millis(20))));
    let calls = async {
        let plugin = Plugin::load(engine, good.clone(), &LoadLimits::default(), ports.clone())
            .await
            .expect("loads");
        let reconciler = Arc::new(PluginReconciler::new(
            Arc::new(plugin),
            ports.gate(),
            CallLimits::default(),
        ));
        all_done(&reconciler, SLOTS).await;
    };
    tokio::time::timeout(Duration::from_secs(60), calls)
        .await
        .expect("a slot is left for others");
    assert_eq!(
        ports.most.load(std::sync::atomic::Ordering::SeqCst),
        SLOTS,
        "all slots at once"
    );
}

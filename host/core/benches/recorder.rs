//! Costs of the flight recorder and of the explanations from it: `make bench-recorder`.
//!
//! `recorder.reconcile` is the processor time that one recorded reconcile takes, in microseconds: a
//! trigger, a change that a watch sees, three calls and the encoding; the peer is the same with a
//! recorder that keeps nothing. `recorder.why` is the explanation of the last 20 changes of one
//! object in milliseconds, after an hour of [`RATE`] reconciles a second of 1,000 objects by 10
//! plugins, within the default of 16 MiB; `_whole_hour` with room for all of them, `_hot` if all of
//! them write one object.

#[path = "../../../tests/testkit/src/bench.rs"]
mod bench;

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use bench::{Report, Row, Samples, number, only_starts};
use operetta_core::{
    controller::request::ReconcileRequest,
    gate::{
        call::{Call, Resource},
        operation::Verb,
    },
    handler::event::Event,
    object::{ManagedFields, Object, ObjectKey, kind::GroupVersionKind},
    recorder::{
        Facts, Limits, Outcome, PluginRecorder, Recorder, Triggers,
        explain::{FactSource, Question, explain},
        record::{ObjectRef, Source, Trigger},
    },
};
use tokio::runtime::Runtime;

/// Reconciles a second.
const RATE: u64 = 100;
const PLUGINS: usize = 10;
const OBJECTS: usize = 1_000;
const HOUR: Duration = Duration::from_secs(3600);
const ROUNDS: usize = 15;

/// A recorder and the plugins that it records.
struct Host {
    recorder: Arc<Recorder>,
    plugins: Vec<Arc<PluginRecorder>>,
}

#[async_trait::async_trait]
impl FactSource for Host {
    async fn facts(&self, object: &ObjectRef) -> Option<Facts> {
        Some(self.recorder.facts(object))
    }
}

fn main() -> std::io::Result<()> {
    if only_starts() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let rounds = number("ROUNDS", ROUNDS);
    let mut report = Report::new("recorder");
    let (on, off) = (Host::new(16 << 20), Host::new(0));
    let mut with = || runtime.block_on(async { on.per_reconcile() });
    let mut without = || runtime.block_on(async { off.per_reconcile() });
    let mut samples = Samples::interleaved(rounds, &mut [&mut with, &mut without]);
    if let (Some(without), Some(with)) = (samples.pop(), samples.pop()) {
        report.row(Row::new("recorder.reconcile", "us", with).peer("off", &without));
    }
    for (metric, bytes, objects) in [
        ("recorder.why", 16 << 20, OBJECTS),
        ("recorder.why_whole_hour", 1 << 30, OBJECTS),
        ("recorder.why_hot", 16 << 20, 1),
    ] {
        let host = Host::new(bytes);
        host.live_for_an_hour(&runtime, objects);
        let samples = Samples::of(rounds, || host.why(&runtime, objects));
        report.row(Row::new(metric, "ms", samples).target(200.0));
        let counts = host.recorder.counts();
        println!(
            "{metric}: {} records, {} MiB, {} lost",
            counts.records,
            counts.bytes >> 20,
            counts.lost
        );
    }
    println!("{}", report.finish()?.display());
    Ok(())
}

/// Returns an object in a version; each has 20 fields.
fn object(kind: &str, name: &str, version: u64) -> Arc<Object> {
    let fields: Vec<String> = (0..20)
        .map(|at| format!(r#""field{at}":"{}""#, version * (at % 2)))
        .collect();
    let text = format!(
        r#"{{"apiVersion":"apps/v1","kind":"{kind}","metadata":{{"name":"{name}","namespace":"team","resourceVersion":"{version}"}},"spec":{{{}}}}}"#,
        fields.join(",")
    );
    let kind = GroupVersionKind::new("apps/v1", kind);
    Arc::new(
        Object::from_json(&text, &kind, ManagedFields::Keep)
            .unwrap_or_else(|error| panic!("{text}: {error}")),
    )
}

impl Host {
    fn new(bytes: usize) -> Self {
        let recorder = Recorder::new(
            Limits {
                bytes,
                window: HOUR,
            },
            None,
        );
        let source = Source {
            digest: "sha256:1".to_owned(),
            service_account: "team/p".to_owned(),
        };
        let plugin = |at| {
            recorder.of_plugin(
                &ObjectKey::namespaced("team", format!("plugin-{at}")),
                source.clone(),
            )
        };
        let plugins = (0..PLUGINS).map(plugin).collect();
        Self { recorder, plugins }
    }

    /// Records a change of an object by a person, and the reconcile that it triggers, which writes
    /// its Deployment.
    fn reconcile(&self, plugin: usize, name: &str, event: &Event, version: u64) {
        let managers =
            r#"[{"manager":"kubectl","time":"2026-01-01T00:00:00Z","fieldsV1":{"f:spec":{}}}]"#;
        self.recorder.change(event, Some(managers));
        let request = ReconcileRequest {
            controller: "foos".to_owned(),
            key: ObjectKey::namespaced("team", name),
            retries: 0,
            reconcile_id: format!("0123456789abcdef-{version:015}"),
            record: None,
        };
        let triggers = Triggers {
            first: vec![Trigger::of_event(event)],
            more: 0,
        };
        let kind = GroupVersionKind::new("apps/v1", "Foo");
        let plugin = self.plugins[plugin].clone();
        let open = request.begin_record(plugin, &kind, triggers, None, None);
        for (verb, resource, cached) in [
            (Verb::Get, "Foo", true),
            (Verb::Get, "Deployment", true),
            (Verb::Update, "Deployment", false),
        ] {
            let call = Call {
                verb,
                resource: Resource::Kind(GroupVersionKind::new("apps/v1", resource)),
                subresource: None,
                namespace: Some("team".to_owned()),
                name: Some(name.to_owned()),
                field_selector: None,
                field_manager: None,
                is_cached: cached,
                is_dry_run: false,
            };
            let Some(call) = open.begin_call(&call) else {
                continue;
            };
            call.change(|call| {
                call.resource_version = (version + u64::from(verb == Verb::Update)).to_string();
                call.paths = (verb == Verb::Update).then(|| vec![".spec.replicas".to_owned()]);
            });
            call.end(None);
        }
        open.end(&Outcome {
            result: "success",
            requeue_after: None,
            error: None,
        });
    }

    /// Returns the microseconds of a reconcile.
    fn per_reconcile(&self) -> f64 {
        const TIMES: u64 = 10_000;
        let event = Event::Modified {
            old: object("Foo", "web", 1),
            object: object("Foo", "web", 2),
        };
        let start = Instant::now();
        (0..TIMES).for_each(|version| self.reconcile(0, "web", &event, version));
        start.elapsed().as_secs_f64() * 1e6 / TIMES as f64
    }

    /// Records an hour of reconciles in turn of this many objects.
    fn live_for_an_hour(&self, runtime: &Runtime, objects: usize) {
        runtime.block_on(async {
            let mut all: Vec<(String, Arc<Object>)> = (0..objects)
                .map(|at| format!("web-{at:04}"))
                .map(|name| (name.clone(), object("Foo", &name, 0)))
                .collect();
            for number in 1..=RATE * HOUR.as_secs() {
                tokio::time::advance(Duration::from_secs(1) / u32::try_from(RATE).unwrap_or(1))
                    .await;
                let at = usize::try_from(number).unwrap_or_default();
                let (name, old) = &mut all[at % objects];
                let new = object("Foo", name, 2 * number);
                let event = Event::Modified {
                    old: std::mem::replace(old, new.clone()),
                    object: new,
                };
                self.reconcile(at % objects % PLUGINS, &name.clone(), &event, 2 * number);
            }
        });
    }

    /// Returns the milliseconds of the explanation of an object's last changes.
    fn why(&self, runtime: &Runtime, objects: usize) -> f64 {
        let kind = GroupVersionKind::new("apps/v1", "Deployment");
        let object = ObjectRef::new(
            &kind,
            &ObjectKey::namespaced("team", format!("web-{:04}", objects / 2)),
        );
        let question = Question {
            object,
            field: None,
            limit: 20,
        };
        let start = Instant::now();
        let explained = runtime.block_on(explain(self, &question));
        let took = start.elapsed().as_secs_f64() * 1e3;
        let changes = black_box(explained)
            .map(|explanation| explanation.changes.len())
            .unwrap_or_default();
        assert!(changes > 0, "nothing is explained");
        took
    }
}

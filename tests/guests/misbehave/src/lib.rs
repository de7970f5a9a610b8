//! Misbehaves with each ConfigMap labelled `operetta-fixture=true` in its namespace. The Plugin's
//! config names the behaviour: `{"do": "trap"}`. Each behaviour is an attack or a mistake that the
//! host must survive.

use std::hint::black_box;
use std::time::Duration;

use fixture_touch::{maps, touch};
use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{
    Action, Context, Controller, DynamicObject, Error, EventType, GroupVersionKind, Object, Patch,
    Plugin, RawRequest, tracing,
};
use serde::Deserialize;
use serde_json::json;

operetta_sdk::plugin!(plugin);

/// The behaviours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// Set `data.touched` to the config's `word`, by default `yes`: a well-behaved plugin.
    #[default]
    Touch,
    /// Raise `data.count` by one, up to 20: a well-behaved plugin.
    Count,
    /// Raise `data.count` by one in each reconcile of a ConfigMap whose `data.loop` is `write`. If
    /// it is `requeue`, requeue the key after 1 ms. Otherwise do the same as `touch`.
    HotLoop,
    /// Panic, which traps.
    Trap,
    /// End the process.
    Exit,
    /// Never return, and call nothing.
    Loop,
    /// Set `data.seen` to `data.tick` and `data.touched` to `slow`, 300 ms after the read: a
    /// well-behaved plugin.
    Slow,
    /// Use up the stack.
    Recurse,
    /// Use up the memory.
    Allocate,
    /// Wait for an hour in the host's clock.
    SleepHost,
    /// Read from the API server without end.
    CallFlood,
    /// Send 10,000 different Events.
    EventFlood,
    /// Log 100,000 lines of 1 KiB.
    LogFlood,
    /// Update with a stale resourceVersion and return the error.
    Conflict,
    /// Create a Deployment that the API server rejects, and return the error.
    Invalid,
    /// Send the config's `requests` as they are, and log each answer.
    Send,
    /// Record an Event about the ConfigMap of the same name in the config's `namespace`.
    EventElsewhere,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    #[serde(rename = "do")]
    behaviour: Behaviour,
    /// The value of [`Behaviour::Touch`].
    word: Option<String>,
    /// The requests of [`Behaviour::Send`].
    requests: Vec<Request>,
    /// The namespace of [`Behaviour::EventElsewhere`].
    namespace: String,
}

/// A raw request.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Request {
    method: String,
    path: String,
    query: String,
    content_type: Option<String>,
    accept: Option<String>,
    body: Option<String>,
    cached: bool,
}

/// Returns one controller, `misbehave`.
pub fn plugin() -> Plugin {
    Plugin::new().controller(Controller::new("misbehave", reconcile).for_source(maps()))
}

fn reconcile(ctx: &Context, map: ConfigMap) -> Result<Action, Error> {
    let Config {
        behaviour,
        word,
        requests,
        namespace,
    } = ctx.config()?;

    match behaviour {
        Behaviour::Touch => return touch(ctx, map, word.as_deref().unwrap_or("yes")),
        Behaviour::Count => count(ctx, map)?,
        Behaviour::HotLoop => match map
            .data
            .as_ref()
            .and_then(|data| data.get("loop"))
            .map(String::as_str)
        {
            Some("requeue") => return Ok(Action::requeue_after(Duration::from_millis(1))),
            Some("write") => raise(ctx, map)?,
            _ => return touch(ctx, map, "yes"),
        },
        Behaviour::Trap => panic!("a fixture that traps"),
        Behaviour::Exit => std::process::exit(3),
        Behaviour::Loop => loop {
            black_box(());
        },
        Behaviour::Slow => slow(ctx, &map)?,
        Behaviour::Recurse => {
            black_box(recurse(1));
        }
        Behaviour::Allocate => allocate(),
        Behaviour::SleepHost => std::thread::sleep(Duration::from_secs(3_600)),
        Behaviour::CallFlood => loop {
            black_box(ctx.get_live::<ConfigMap>(map.key())?);
        },
        Behaviour::EventFlood => {
            for n in 0..10_000 {
                ctx.event(
                    &map,
                    EventType::Normal,
                    &format!("Flood{n}"),
                    "a fixture that floods",
                );
            }
        }
        Behaviour::LogFlood => {
            let line = "x".repeat(1_024);
            for n in 0..100_000 {
                tracing::info!(n, "{line}");
            }
        }
        Behaviour::Conflict => update_twice(ctx, map)?,
        Behaviour::Invalid => create_invalid(ctx, &map)?,
        Behaviour::Send => send(ctx, requests),
        Behaviour::EventElsewhere => {
            let mut elsewhere = map.clone();
            elsewhere.metadata.namespace = Some(namespace);
            ctx.event(
                &elsewhere,
                EventType::Warning,
                "Elsewhere",
                "about another namespace's object",
            );
            ctx.event(
                &map,
                EventType::Normal,
                "Here",
                "about an object of one's own",
            );
        }
    }

    Ok(Action::done())
}

fn count(ctx: &Context, map: ConfigMap) -> Result<(), Error> {
    let count = map
        .data
        .as_ref()
        .and_then(|data| data.get("count")?.parse().ok())
        .unwrap_or(0_u32);
    if count < 20 { raise(ctx, map) } else { Ok(()) }
}

fn slow(ctx: &Context, map: &ConfigMap) -> Result<(), Error> {
    let read = |key: &str| {
        map.data
            .as_ref()
            .and_then(|data| data.get(key))
            .map_or("", String::as_str)
    };

    if read("seen") != read("tick") || read("touched") != "slow" {
        std::thread::sleep(Duration::from_millis(300));
        let patch = Patch::merge(&json!({"data": {"seen": read("tick"), "touched": "slow"}}));
        ctx.patch::<ConfigMap>(map.key(), patch)?;
    }

    Ok(())
}

fn raise(ctx: &Context, mut map: ConfigMap) -> Result<(), Error> {
    let data = map.data.get_or_insert_default();
    let count = data
        .get("count")
        .and_then(|count| count.parse().ok())
        .unwrap_or(0_u32);

    data.insert("count".to_owned(), (count + 1).to_string());
    ctx.update(&map)?;
    Ok(())
}

fn send(ctx: &Context, requests: Vec<Request>) {
    for (at, request) in requests.into_iter().enumerate() {
        let mut sent = RawRequest::new(request.method, request.path).query(request.query);
        sent.content_type = request.content_type;
        sent.accept = request.accept;
        sent.body = request.body;
        sent.cached = request.cached;
        let answer = ctx.raw(&sent);
        tracing::info!(at, status = answer.status, "{}", answer.body);
    }
    tracing::info!("sent");
}

fn recurse(depth: u64) -> u64 {
    if depth == black_box(u64::MAX) {
        return 0;
    }
    let frame = black_box([depth; 64]);
    black_box(recurse(depth + 1)) + frame[0]
}

fn allocate() {
    let mut all = Vec::new();
    loop {
        all.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Updates twice; the second update has the resourceVersion from before the first.
fn update_twice(ctx: &Context, mut map: ConfigMap) -> Result<(), Error> {
    let count = map
        .annotation("count")
        .and_then(|count| count.parse().ok())
        .unwrap_or(0_u32);
    map.annotations_mut()
        .insert("count".to_owned(), (count + 1).to_string());

    ctx.update(&map)?;
    map.annotations_mut()
        .insert("count".to_owned(), (count + 2).to_string());
    ctx.update(&map)?;
    Ok(())
}

/// Creates a Deployment without a selector and with a negative number of replicas: two causes.
fn create_invalid(ctx: &Context, map: &ConfigMap) -> Result<(), Error> {
    let kind = GroupVersionKind::new("apps/v1", "Deployment");
    let mut deployment = DynamicObject::new(
        &kind,
        ctx.request().key.beside(format!("{}-invalid", map.name())),
    );
    let spec: serde_json::Value = serde_json::from_str(r#"{"replicas": -1, "template": {}}"#)?;
    deployment.data.insert("spec".to_owned(), spec);
    ctx.create(&deployment)?;
    Ok(())
}

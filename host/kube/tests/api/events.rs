//! Events that wait to be written: for the quota of their plugin, and when it loses its consent.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use operetta_core::{
    gate::{
        permit::RequestPermit,
        throttle::{CallRate, Throttle},
    },
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventNote, EventSink, EventType},
};
use operetta_kube::{
    client::api_client::{ApiClient, Identity},
    events::recorder::EventRecorder,
};
use operetta_testkit::{eventually, kinds};

use crate::Stage;

/// The queued Events, fewer than the recorder's queue holds.
const EVENTS: usize = 900;

/// Returns an Event about the object of this number.
fn note(stage: &Stage, number: usize) -> EventNote {
    EventNote {
        regarding: GroupVersionKind::new("v1", "ConfigMap"),
        key: ObjectKey::namespaced(stage.namespace.name(), format!("object-{number}")),
        uid: None,
        event_type: EventType::Normal,
        reason: "Queued".to_owned(),
        action: String::new(),
        note: "a test".to_owned(),
    }
}

#[tokio::test]
async fn events_count_in_the_quota_of_requests() {
    const BURST: u32 = 5;
    const QPS: u32 = 10;
    const EVENTS: u32 = 35;
    let stage = Stage::new("events-throttled").await;
    let throttle = Throttle {
        rates: vec![Arc::new(CallRate::new(QPS, BURST))],
        ..Throttle::default()
    };
    let api_client = ApiClient::new(stage.client.clone(), &Identity::Host)
        .expect("a client")
        .throttled_by(throttle);
    let recorder = EventRecorder::start(api_client, "test".to_owned());
    let began = Instant::now();
    for number in 0..EVENTS as usize {
        recorder.emit(note(&stage, number));
    }
    eventually("all are written", async || {
        match stage.namespace.list(kinds::EVENT).await.len() {
            count if count == EVENTS as usize => Ok(()),
            count => Err(format!("{count} Events")),
        }
    })
    .await;
    let took = began.elapsed();
    println!("{EVENTS} Events at {QPS} per second took {took:?}");
    assert!(
        took >= Duration::from_secs(1) * (EVENTS - BURST - 1) / QPS,
        "{took:?}"
    );
}

#[tokio::test]
async fn queued_events_are_dropped_once_consent_is_revoked() {
    let stage = Stage::new("events-revoked").await;
    let permit = RequestPermit::new();
    let api_client = ApiClient::new(stage.client.clone(), &Identity::Host)
        .expect("a client")
        .permitted_by(permit.clone());
    let recorder = EventRecorder::start(api_client, "test".to_owned());
    // Each is about another object, so that none is merged or dropped as a flood.
    for number in 0..EVENTS {
        recorder.emit(note(&stage, number));
    }
    let written = async || stage.namespace.list(kinds::EVENT).await.len();
    eventually("some are written", async || match written().await {
        count if count > 20 => Ok(()),
        count => Err(format!("{count} Events")),
    })
    .await;
    permit.revoke("consent is withdrawn");
    let then = written().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let late = written().await - then;
    println!(
        "of {EVENTS} queued Events {then} were written before the revocation, {late} after it"
    );
    // One may have been on its way.
    assert!(
        then < EVENTS && late <= 1,
        "{then} Events before the revocation, {late} after it"
    );
}

//! Events that wait to be written when their plugin loses its consent.

use std::time::Duration;

use operetta_core::{
    gate::revocation::Revocation,
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventNote, EventSink, EventType},
};
use operetta_kube::{
    client::wire::{Identity, Wire},
    events::recorder::EventRecorder,
};
use operetta_testkit::{eventually, kinds};

use crate::Stage;

/// The queued Events, fewer than the recorder's queue holds.
const EVENTS: usize = 900;

#[tokio::test]
async fn queued_events_are_dropped_once_consent_is_revoked() {
    let stage = Stage::new("events-revoked").await;
    let revocation = Revocation::new();
    let wire = Wire::new(stage.client.clone(), &Identity::Host).expect("a wire").permitted_by(revocation.clone());
    let recorder = EventRecorder::start(wire, "test".to_owned());
    // Each is about another object, so that none is merged or dropped as a flood.
    for number in 0..EVENTS {
        recorder.emit(EventNote {
            regarding: GroupVersionKind::new("v1", "ConfigMap"),
            key: ObjectKey::namespaced(stage.namespace.name(), format!("object-{number}")),
            uid: None,
            event_type: EventType::Normal,
            reason: "Queued".to_owned(),
            action: String::new(),
            note: "a test".to_owned(),
        });
    }
    let written = async || stage.namespace.list(kinds::EVENT).await.len();
    eventually("some are written", async || match written().await {
        count if count > 20 => Ok(()),
        count => Err(format!("{count} Events")),
    })
    .await;
    revocation.revoke("consent is withdrawn");
    let then = written().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let late = written().await - then;
    println!("of {EVENTS} queued Events {then} were written before the revocation, {late} after it");
    // One may have been on its way.
    assert!(then < EVENTS && late <= 1, "{then} Events before the revocation, {late} after it");
}

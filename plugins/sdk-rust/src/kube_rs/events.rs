//! kube-rs's Events, with its names (`kube::runtime::events`), written by the host: aggregated, rate limited, and without
//! a right of the plugin's own to write Events.

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;

// Natively the calls are a trait object's own.
#[cfg(target_arch = "wasm32")]
use crate::backend::Backend;
use crate::backend::EventRequest;
use crate::context::Served;
use crate::{Context, GroupVersionKind, ObjectKey};

pub use crate::EventType;

/// What is to be recorded.
#[derive(Clone, Debug)]
pub struct Event {
    /// Normal or Warning.
    pub type_: EventType,
    /// Why: a short CamelCase word.
    pub reason: String,
    /// The message for people.
    pub note: Option<String>,
    /// What was done: a short CamelCase word.
    pub action: String,
    /// The other object of an action. The host's Events have none: it is named at the end of the note.
    pub secondary: Option<ObjectReference>,
}

/// Records Events about objects.
#[derive(Clone)]
pub struct Recorder {
    backend: Served,
}

impl Context {
    /// A recorder of Events, in place of `kube::runtime::events::Recorder::new`.
    pub fn kube_recorder(&self) -> Recorder {
        Recorder { backend: self.backend.clone() }
    }
}

impl Recorder {
    /// Records an Event about an object, as `object.object_ref(&())` names it. The host writes it in the background.
    ///
    /// # Errors
    /// None; it has the form that kube-rs's has.
    pub async fn publish(&self, event: &Event, reference: &ObjectReference) -> Result<(), kube::Error> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let mut note = text(&event.note);
        if let Some(other) = &event.secondary {
            note = format!("{note} ({} {})", text(&other.kind), text(&other.name)).trim_start().to_owned();
        }
        let namespace = reference.namespace.clone().filter(|namespace| !namespace.is_empty());
        self.backend.event(&EventRequest {
            regarding: &GroupVersionKind::new(text(&reference.api_version), text(&reference.kind)),
            key: &ObjectKey { namespace, name: text(&reference.name) },
            uid: reference.uid.as_deref(),
            kind: event.type_,
            reason: &event.reason,
            action: &event.action,
            note: &note,
        });
        Ok(())
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

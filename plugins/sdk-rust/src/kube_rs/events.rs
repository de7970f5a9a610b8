//! Events with kube-rs's names (`kube::runtime::events`). The host writes them, aggregated and rate
//! limited: the plugin needs no permission for Events.

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;

// A native build calls a trait object, which does not need the trait in scope.
#[cfg(target_arch = "wasm32")]
use crate::backend::Backend;
use crate::backend::EventRequest;
use crate::context::Served;
use crate::{Context, GroupVersionKind, ObjectKey};

pub use crate::EventType;

/// An Event to record.
#[derive(Clone, Debug)]
pub struct Event {
    /// The type: Normal or Warning.
    pub type_: EventType,
    /// The reason, a short CamelCase word.
    pub reason: String,
    /// The human-readable message.
    pub note: Option<String>,
    /// The action, a short CamelCase word.
    pub action: String,
    /// The other object of an action. The host's Events have no such field, so its name is appended
    /// to the note.
    pub secondary: Option<ObjectReference>,
}

/// Records Events about objects.
#[derive(Clone)]
pub struct Recorder {
    backend: Served,
}

impl Context {
    /// Returns a recorder of Events, in place of `kube::runtime::events::Recorder::new`.
    pub fn kube_recorder(&self) -> Recorder {
        Recorder {
            backend: self.backend.clone(),
        }
    }
}

impl Recorder {
    /// Records an Event about an object, as `object.object_ref(&())` names it. The host writes it
    /// in the background.
    ///
    /// # Errors
    /// Never returns an error; the signature is kube-rs's.
    pub async fn publish(
        &self,
        event: &Event,
        reference: &ObjectReference,
    ) -> Result<(), kube::Error> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let mut note = text(&event.note);

        if let Some(other) = &event.secondary {
            note = format!("{note} ({} {})", text(&other.kind), text(&other.name))
                .trim_start()
                .to_owned();
        }

        let namespace = reference
            .namespace
            .clone()
            .filter(|namespace| !namespace.is_empty());

        self.backend.event(&EventRequest {
            regarding: &GroupVersionKind::new(text(&reference.api_version), text(&reference.kind)),
            key: &ObjectKey {
                namespace,
                name: text(&reference.name),
            },
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

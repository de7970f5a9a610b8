//! The host's own Events.

use operetta_api::reasons::Reason;
use operetta_core::{
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventNote, EventType},
};

/// The object that an Event is about.
#[derive(Clone, Debug)]
pub struct Regarding {
    /// The object's kind.
    pub kind: GroupVersionKind,
    /// The object's key.
    pub key: ObjectKey,
    /// The object's uid, if known.
    pub uid: Option<String>,
}

impl Regarding {
    /// Creates a Warning Event about this object.
    pub fn warning(self, reason: Reason, message: String) -> EventNote {
        self.event(EventType::Warning, reason, message)
    }

    /// Creates an Event about this object.
    pub fn event(self, event_type: EventType, reason: Reason, message: String) -> EventNote {
        EventNote {
            regarding: self.kind,
            key: self.key,
            uid: self.uid,
            event_type,
            reason: reason.into(),
            action: String::new(),
            note: message,
        }
    }
}

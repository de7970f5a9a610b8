//! `operetta:controller/events`: records Events about objects. They are written in the background.

use operetta_core::{
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventNote, EventType},
};

use super::{HostFunctions, non_empty};
use crate::{
    bindings::operetta::controller::{events as generated, types},
    cut,
};

/// The API server's limit on the reason and the action of an Event, in bytes, as in
/// <https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/core/validation/events.go>.
const MAX_REASON: usize = 128;

/// The maximum length of each name of the regarding object, in bytes. No object has a longer name,
/// and many Events may be pending.
const MAX_NAME: usize = 512;

/// The API server's limit on the note of an Event, in bytes.
const MAX_NOTE: usize = 1024;

impl generated::Host for HostFunctions<'_> {
    fn emit(
        &mut self,
        regarding: types::GroupVersionKind,
        key: types::ObjectKey,
        uid: Option<String>,
        kind: generated::Kind,
        reason: String,
        action: String,
        note: String,
    ) {
        self.session().event(EventNote {
            regarding: GroupVersionKind {
                api_version: cut(regarding.api_version, MAX_NAME),
                kind: cut(regarding.kind, MAX_NAME),
            },
            key: ObjectKey {
                namespace: non_empty(key.namespace).map(|namespace| cut(namespace, MAX_NAME)),
                name: cut(key.name, MAX_NAME),
            },
            uid: non_empty(uid).map(|uid| cut(uid, MAX_NAME)),
            event_type: match kind {
                generated::Kind::Normal => EventType::Normal,
                generated::Kind::Warning => EventType::Warning,
            },
            reason: cut(reason, MAX_REASON),
            action: cut(action, MAX_REASON),
            note: cut(note, MAX_NOTE),
        });
    }
}

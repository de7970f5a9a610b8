//! The end of a list, and the writes of the host that it does not show.
//!
//! A list shows no object that was created and deleted before it. If the host created it while the watch was interrupted, its
//! deletion is reported from the overlay.

use std::sync::Arc;

use operetta_core::{handler::event::Event, object::Object};
use tokio::time::Instant;

use super::{Informer, change};
use crate::store::{Relist, Relisted};

impl Informer {
    /// Adds the response to a write to the overlay. A list may have been faster than the response: if the object was deleted
    /// before it, its deletion is reported here, because no event of the watch will.
    pub fn wrote(&self, object: &Arc<Object>) {
        let store = &self.cache.store;
        let Some(revision) = object.revision() else { return };
        if !self.cache.wrote(object) || revision > store.revision() || store.has(object) {
            return;
        }
        let mut dispatch = self.dispatch.lock();
        if revision <= dispatch.listed && !store.has(object) {
            dispatch.tell(&Event::Deleted { object: store.pruned(object.clone()) });
        }
    }

    /// Completes a list that began at `began`: the store becomes its content.
    pub(super) fn relisted(&self, began: Instant, found: Relist, resource_version: &str) {
        let mut dispatch = self.dispatch.lock();
        let first = !self.state.borrow().synced;
        let Relisted { changed, gone } = dispatch.writer.finish(found);
        let revision = dispatch.hear(resource_version);
        dispatch.listed = revision;
        let unseen = self.cache.overlay.relisted(began, revision, &self.cache.store);
        // Deletions of others are reported below.
        let unseen = unseen.into_iter().filter(|written| {
            let key = written.key();
            let in_gone = gone.binary_search_by(|object| object.key().cmp(key)).ok().map(|at| &gone[at]);
            let in_changed = changed.binary_search_by(|(_, object)| object.key().cmp(key)).ok();
            let replaced = in_changed.and_then(|at| changed[at].0.as_ref());
            in_gone.or(replaced).is_none_or(|known| known.uid() != written.uid())
        });
        for object in unseen {
            dispatch.tell(&Event::Deleted { object });
        }
        for object in gone {
            dispatch.tell(&Event::Deleted { object });
        }
        for (old, object) in changed {
            match old {
                Some(old) if old.uid() != object.uid() => dispatch.replaced(old, object, first),
                old => dispatch.tell(&change(old, object, first)),
            }
        }
        self.state.send_modify(|state| state.synced = true);
    }
}

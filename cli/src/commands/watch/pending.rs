//! The queue of events to print, so that the informer never waits for the reader of the output.
//!
//! Events are delivered one by one, in order. If the reader lags far behind, changes of the same
//! object are merged, so the number of objects bounds the queue.

use std::collections::HashMap;

use operetta_core::{handler::event::Event, object::ObjectKey};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Changes of the same object are merged once the queue has this many events.
const MANY: usize = 1000;

/// A queue with any number of writers and one reader.
#[derive(Default)]
pub struct Pending {
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Default)]
struct Waiting {
    events: Vec<Event>,
    /// The position of each object's last event in `events`.
    last: HashMap<ObjectKey, usize>,
}

impl Pending {
    /// Adds an event.
    pub fn push(&self, event: &Event) {
        let mut waiting = self.waiting.lock();
        if !waiting.merge(event) {
            let at = waiting.events.len();
            waiting.last.insert(event.object().key().clone(), at);
            waiting.events.push(event.clone());
        }

        drop(waiting);
        self.more.notify_one();
    }

    /// Takes all events; waits for the first.
    pub async fn take(&self) -> Vec<Event> {
        loop {
            let taken = self.take_now();
            if !taken.is_empty() {
                return taken;
            }
            self.more.notified().await;
        }
    }

    /// Takes all events that are in the queue.
    pub fn take_now(&self) -> Vec<Event> {
        std::mem::take(&mut *self.waiting.lock()).events
    }
}

impl Waiting {
    /// Merges a later event. Reports whether this event now covers it.
    fn merge(&mut self, event: &Event) -> bool {
        let Event::Modified { object, .. } = event else {
            return false;
        };
        if self.events.len() < MANY {
            return false;
        }

        let last = self
            .last
            .get(object.key())
            .and_then(|at| self.events.get_mut(*at));

        match last {
            Some(Event::Added { object: kept, .. } | Event::Modified { object: kept, .. }) => {
                *kept = object.clone();
                true
            }
            Some(Event::Deleted { .. }) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use operetta_core::object::{ManagedFields, Object};

    use super::*;

    fn object(name: &str, revision: usize) -> Arc<Object> {
        let text = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{revision}"}}}}"#);
        Arc::new(Object::untyped(&text, ManagedFields::Drop).expect("an object"))
    }

    fn modified(name: &str, revision: usize) -> Event {
        Event::Modified {
            old: object(name, revision - 1),
            object: object(name, revision),
        }
    }

    #[test]
    fn slow_reader_gets_the_last_changes() {
        let pending = Pending::default();
        pending.push(&Event::Added {
            object: object("a", 1),
            initial: false,
        });

        (2..10).for_each(|revision| pending.push(&modified("a", revision)));
        assert_eq!(pending.take_now().len(), 9);

        pending.push(&Event::Added {
            object: object("a", 1),
            initial: false,
        });

        (2..100_000).for_each(|revision| pending.push(&modified("a", revision)));
        pending.push(&Event::deleted(object("a", 99_999)));
        pending.push(&Event::Added {
            object: object("a", 100_001),
            initial: false,
        });

        pending.push(&modified("a", 100_002));
        let left = pending.take_now();
        assert_eq!(left.len(), MANY + 2);
        assert_eq!(left[MANY - 1].object().resource_version(), "99999");
        assert!(matches!(left[MANY], Event::Deleted { .. }));

        assert!(
            matches!(&left[MANY + 1], Event::Added { object, .. } if object.resource_version() == "100002")
        );
    }
}

//! Limits the responses that users read from this replica at the same time, since a followed log
//! stays open for hours. One owner gets only a share: the users of one namespace, or one user of
//! the page, can't take them all.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// The maximum number of responses about the Plugins of one namespace.
const PER_NAMESPACE: usize = 32;
const IN_ALL: usize = 256;

/// Counts open responses.
#[derive(Clone, Debug)]
pub struct Streams {
    open: Arc<Mutex<Open>>,
    /// The maximum number for one owner.
    per_owner: usize,
}

#[derive(Debug, Default)]
struct Open {
    /// The sum of `by_owner`.
    in_all: usize,
    /// No zeros: the last response of an owner removes the entry.
    by_owner: HashMap<String, usize>,
}

/// Uses the limit for a namespace.
impl Default for Streams {
    fn default() -> Self {
        Self::new(PER_NAMESPACE)
    }
}

/// An open response. Dropping it makes room.
#[derive(Debug)]
pub struct OpenStream {
    streams: Streams,
    owner: String,
}

impl Streams {
    /// Creates a counter with a limit per owner.
    pub fn new(per_owner: usize) -> Self {
        Self {
            open: Arc::default(),
            per_owner,
        }
    }

    /// Opens a response for an owner (a namespace or a user), unless there are too many.
    pub fn open(&self, owner: &str) -> Option<OpenStream> {
        let mut open = self.open.lock();
        let of_owner = open.by_owner.get(owner).copied().unwrap_or_default();
        if open.in_all >= IN_ALL || of_owner >= self.per_owner {
            return None;
        }
        open.in_all += 1;
        open.by_owner.insert(owner.to_owned(), of_owner + 1);

        Some(OpenStream {
            streams: self.clone(),
            owner: owner.to_owned(),
        })
    }

    /// Returns the number of open responses.
    pub fn count(&self) -> usize {
        self.open.lock().in_all
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock();
        open.in_all -= 1;
        if let Some(number) = open.by_owner.get_mut(&self.owner) {
            *number -= 1;
            if *number == 0 {
                open.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_namespace_cannot_take_all_streams() {
        let streams = Streams::default();
        let mut open: Vec<_> = (0..PER_NAMESPACE)
            .map(|_| streams.open("greedy").expect("room"))
            .collect();
        assert!(streams.open("greedy").is_none());

        open.push(streams.open("other").expect("room"));
        for number in PER_NAMESPACE + 1..IN_ALL {
            open.push(
                streams
                    .open(&format!("team-{}", number / PER_NAMESPACE))
                    .expect("room"),
            );
        }

        assert!(streams.open("late").is_none(), "{}", streams.count());

        open.clear();
        assert_eq!(streams.count(), 0);
        assert!(streams.open.lock().by_owner.is_empty() && streams.open("greedy").is_some());
    }
}

//! The responses that users read from this replica at once. A log that is followed is open for hours, so their number is
//! bounded, and a namespace's share of it as well: the users of one cannot take all.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// The maximum number of responses for the Plugins of one namespace.
const PER_NAMESPACE: usize = 32;
/// The maximum number of all responses.
const IN_ALL: usize = 256;

/// The numbers of open responses.
#[derive(Clone, Debug, Default)]
pub struct Streams(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    /// The sum of all in `by_namespace`.
    in_all: usize,
    /// No number is zero.
    by_namespace: HashMap<String, usize>,
}

/// An open response. Dropping it makes room.
#[derive(Debug)]
pub struct OpenStream {
    streams: Streams,
    namespace: String,
}

impl Streams {
    /// Opens a response about a namespace; None if there are too many.
    pub fn open(&self, namespace: &str) -> Option<OpenStream> {
        let mut open = self.0.lock();
        let of_namespace = open.by_namespace.get(namespace).copied().unwrap_or_default();
        if open.in_all >= IN_ALL || of_namespace >= PER_NAMESPACE {
            return None;
        }
        open.in_all += 1;
        open.by_namespace.insert(namespace.to_owned(), of_namespace + 1);
        Some(OpenStream { streams: self.clone(), namespace: namespace.to_owned() })
    }

    /// Returns the number of open responses.
    pub fn count(&self) -> usize {
        self.0.lock().in_all
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut open = self.streams.0.lock();
        open.in_all -= 1;
        if let Some(number) = open.by_namespace.get_mut(&self.namespace) {
            *number -= 1;
            if *number == 0 {
                open.by_namespace.remove(&self.namespace);
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
        let mut open: Vec<_> = (0..PER_NAMESPACE).map(|_| streams.open("greedy").expect("room")).collect();
        assert!(streams.open("greedy").is_none());
        open.push(streams.open("other").expect("room"));
        for number in PER_NAMESPACE + 1..IN_ALL {
            open.push(streams.open(&format!("team-{}", number / PER_NAMESPACE)).expect("room"));
        }
        assert!(streams.open("late").is_none(), "{}", streams.count());
        open.clear();
        assert_eq!(streams.count(), 0);
        assert!(streams.0.lock().by_namespace.is_empty() && streams.open("greedy").is_some());
    }
}

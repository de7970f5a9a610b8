//! Plugins' code and identities, referred to by number in records.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::record::Source;

/// The sources that records may refer to.
pub(super) struct Sources {
    /// How long to keep a source after its plugin has stopped using it: no record is older.
    window: Duration,
    next: u64,
    known: HashMap<u64, Known>,
}

struct Known {
    source: Arc<Source>,
    /// When the last plugin stopped using it; None while it is in use.
    ended: Option<Instant>,
}

impl Sources {
    /// Creates an empty collection for records of up to this age.
    pub fn new(window: Duration) -> Self {
        Self {
            window,
            next: 0,
            known: HashMap::new(),
        }
    }

    /// Adds a source a plugin is starting to use, and returns its number.
    pub fn begin(&mut self, source: Source, now: Instant) -> u64 {
        let is_needed = |known: &Known| {
            known
                .ended
                .is_none_or(|ended| now.duration_since(ended) <= self.window)
        };
        self.known.retain(|_, known| is_needed(known));
        self.next += 1;

        self.known.insert(
            self.next,
            Known {
                source: Arc::new(source),
                ended: None,
            },
        );

        self.next
    }

    /// Notes that a source is no longer used.
    pub fn end(&mut self, number: u64, now: Instant) {
        if let Some(known) = self.known.get_mut(&number) {
            known.ended = Some(now);
        }
    }

    /// Returns a source; an empty one if it was forgotten.
    pub fn find(&self, number: u64) -> Arc<Source> {
        self.known
            .get(&number)
            .map(|known| known.source.clone())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn source_is_forgotten_a_window_after_its_last_use() {
        let window = Duration::from_secs(60);
        let mut sources = Sources::new(window);
        let source = |digest: &str| Source {
            digest: digest.to_owned(),
            ..Source::default()
        };
        let start = Instant::now();
        let [first, second] = ["a", "b"].map(|digest| sources.begin(source(digest), start));
        sources.end(first, start);
        sources.begin(source("c"), start + window);
        assert_eq!(sources.find(first).digest, "a", "a record may refer to it");
        sources.begin(source("d"), start + 2 * window);
        assert_eq!(
            (&*sources.find(first).digest, &*sources.find(second).digest),
            ("", "b")
        );
        assert_eq!(sources.known.len(), 3);
    }
}

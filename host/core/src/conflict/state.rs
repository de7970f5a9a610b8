//! The last writer of each field, and the reverted writers: a pure state machine. Fields and values
//! are hashes.
//!
//! Fields not written for [`WINDOW`] are forgotten. The number of fields is bounded in total, and
//! per plugin so that a busy plugin evicts only its own.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::conflict::rivals::{Author, REPORT_INTERVAL, Rival, Stage};
use crate::object::ObjectKey;

/// How many reversals between two writers make a conflict.
pub const FLIPS: usize = 5;
/// How close together these reversals have to be. A conflict ends after this long without one.
pub const WINDOW: Duration = Duration::from_secs(600);
/// How many reversals it takes before we look up an unknown writer.
const SUSPICIOUS: usize = 2;
/// How many writers of a field, and pairs of writers, are remembered.
pub(super) const AUTHORS: usize = 4;
pub(super) const RIVALRIES: usize = 4;
/// Candidates for a lookup, at most.
const SUSPECTS: usize = 1_024;

/// How many fields to remember, at about 300 bytes each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub fields: usize,
    pub fields_of_plugin: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            fields: 65_536,
            fields_of_plugin: 4_096,
        }
    }
}

pub(super) struct FieldChange<'a> {
    /// Hash of the object and the path in it.
    pub field: u64,
    /// Hash of the value before the write.
    pub before: u64,
    /// Hash of the value after the write.
    pub after: u64,
    /// Hash of the author and the object.
    pub candidate: u64,
    /// The field's previous owner among the other field managers, if it was looked up.
    pub manager: Option<&'a str>,
}

/// The fields changed recently.
#[derive(Default)]
pub(super) struct State {
    bounds: Bounds,
    fields: HashMap<u64, Field>,
    /// The fields by the tick of their last change.
    order: BTreeMap<u64, u64>,
    /// The ticks of each plugin's fields; no set is empty. A field counts for the first plugin that
    /// changed it.
    held: HashMap<ObjectKey, BTreeSet<u64>>,
    /// All authors in `fields`, and some former ones.
    authors: HashSet<Arc<Author>>,
    /// At this size, unused entries of `authors` are dropped.
    authors_limit: usize,
    candidates: HashMap<u64, Instant>,
    /// Number of changes so far.
    tick: u64,
}

struct Field {
    /// Key in `order` and `held`.
    tick: u64,
    at: Instant,
    holder: Arc<Author>,
    /// Each author's last value, in the order of their last changes.
    set: Vec<(Arc<Author>, u64)>,
    /// The pairs of writers, in the order of their last reversals.
    rivalries: Vec<Rivalry>,
}

/// Two writers, at least one of them reverting the other.
struct Rivalry {
    one: Arc<Author>,
    /// None for a writer outside this host.
    other: Option<Arc<Author>>,
    /// When the last [`FLIPS`] reversals happened.
    flips: VecDeque<Instant>,
    reported: Option<Instant>,
    /// The field manager of a writer outside this host.
    manager: Option<Box<str>>,
}

impl State {
    /// Records an author's change of a field. Returns the conflict it belongs to, if any.
    pub(super) fn changed(
        &mut self,
        now: Instant,
        author: &Author,
        change: &FieldChange<'_>,
    ) -> Option<(Rival, Stage)> {
        self.forget_quiet(now);
        let author = self.intern(author);
        self.touch(now, change.field, &author);
        let rivalry = self
            .fields
            .get_mut(&change.field)
            .and_then(|field| field.changed(now, &author, change));

        let conflict = rivalry.and_then(|rivalry| {
            let stage = rivalry.flip(now, change.manager);
            let unknown = rivalry.other.is_none() && rivalry.manager.is_none();
            if stage.is_none()
                && unknown
                && rivalry.flips.len() >= SUSPICIOUS
                && self.candidates.len() < SUSPECTS
            {
                self.candidates.insert(change.candidate, now);
            }
            stage.map(|stage| (rivalry.rival(&author), stage))
        });

        self.bound(&author.plugin);
        conflict
    }

    /// Whether any author's next write must be examined.
    pub(super) fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    pub(super) fn candidate(&mut self, now: Instant, candidate: u64) {
        if self.candidates.len() < SUSPECTS {
            self.candidates.insert(candidate, now);
        }
    }

    /// Removes this author and object from the candidates. Reports whether they were among them.
    pub(super) fn take_candidate(&mut self, candidate: u64) -> bool {
        self.candidates.remove(&candidate).is_some()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.fields.len(), self.order.len());
        assert_eq!(
            self.fields.len(),
            self.held.values().map(BTreeSet::len).sum::<usize>()
        );
        assert!(self.held.values().all(|ticks| !ticks.is_empty()));
        self.fields.len()
    }

    #[cfg(test)]
    pub(super) fn bounded(bounds: Bounds) -> Self {
        Self {
            bounds,
            ..Self::default()
        }
    }

    #[cfg(test)]
    pub(super) fn authors(&self) -> usize {
        self.authors.len()
    }

    fn forget_quiet(&mut self, now: Instant) {
        while let Some(oldest) = self.order.first_key_value().map(|(_, field)| *field) {
            if self
                .fields
                .get(&oldest)
                .is_some_and(|field| now.duration_since(field.at) <= WINDOW)
            {
                break;
            }
            self.remove(oldest);
        }

        if self.candidates.len() >= SUSPECTS {
            self.candidates
                .retain(|_, since| now.duration_since(*since) <= WINDOW);
        }
    }

    /// Moves a field to the end of the eviction order, or starts to remember it.
    fn touch(&mut self, now: Instant, id: u64, author: &Arc<Author>) {
        self.tick += 1;
        let tick = self.tick;
        let begin = || Field {
            tick,
            at: now,
            holder: author.clone(),
            set: Vec::new(),
            rivalries: Vec::new(),
        };

        let field = self.fields.entry(id).or_insert_with(begin);
        self.order.remove(&field.tick);
        self.order.insert(tick, id);
        let ticks = self.held.entry(field.holder.plugin.clone()).or_default();
        ticks.remove(&field.tick);
        ticks.insert(tick);

        (field.tick, field.at) = (tick, now);
    }

    /// Evicts the oldest fields beyond the limits.
    fn bound(&mut self, plugin: &ObjectKey) {
        let Bounds {
            fields,
            fields_of_plugin,
        } = self.bounds;
        let ticks = self
            .held
            .get(plugin)
            .filter(|ticks| ticks.len() > fields_of_plugin);
        let own = ticks
            .and_then(|ticks| ticks.first())
            .and_then(|tick| self.order.get(tick))
            .copied();
        own.into_iter().for_each(|id| self.remove(id));
        let all = self
            .order
            .first_key_value()
            .filter(|_| self.fields.len() > fields)
            .map(|(_, id)| *id);

        all.into_iter().for_each(|id| self.remove(id));
    }

    fn remove(&mut self, id: u64) {
        let Some(field) = self.fields.remove(&id) else {
            return;
        };
        self.order.remove(&field.tick);
        if let Some(ticks) = self.held.get_mut(&field.holder.plugin) {
            ticks.remove(&field.tick);
            if ticks.is_empty() {
                self.held.remove(&field.holder.plugin);
            }
        }
    }

    fn intern(&mut self, author: &Author) -> Arc<Author> {
        if let Some(known) = self.authors.get(author) {
            return known.clone();
        }
        if self.authors.len() >= self.authors_limit {
            self.authors.retain(|author| Arc::strong_count(author) > 1);
            self.authors_limit = self.authors.len() * 2 + 16;
        }
        let author = Arc::new(author.clone());
        self.authors.insert(author.clone());
        author
    }
}

impl Field {
    /// Records a change. If the author restored its own value, returns the pair of writers
    /// concerned.
    fn changed(
        &mut self,
        now: Instant,
        author: &Arc<Author>,
        change: &FieldChange<'_>,
    ) -> Option<&mut Rivalry> {
        // The last writer is the other one, unless an unseen writer has changed its value since.
        let left = |(who, value): &&(Arc<Author>, u64)| who != author && *value == change.before;
        let other = self.set.last().filter(left).map(|(who, _)| who.clone());
        let own = self
            .set
            .iter()
            .position(|(who, _)| who == author)
            .map(|at| self.set.remove(at).1);

        if self.set.len() == AUTHORS {
            self.set.remove(0);
        }

        self.set.push((author.clone(), change.after));
        if own != Some(change.after) {
            return None;
        }

        let known = self
            .rivalries
            .iter()
            .position(|rivalry| rivalry.is_of(author, other.as_ref()));

        let rivalry = match known.map(|at| self.rivalries.remove(at)) {
            Some(rivalry)
                if rivalry
                    .flips
                    .back()
                    .is_some_and(|last| now.duration_since(*last) <= WINDOW) =>
            {
                rivalry
            }
            _ => Rivalry {
                one: author.clone(),
                other,
                flips: VecDeque::new(),
                reported: None,
                manager: None,
            },
        };

        if self.rivalries.len() == RIVALRIES {
            self.rivalries.remove(0);
        }

        self.rivalries.push(rivalry);
        self.rivalries.last_mut()
    }
}

impl Rivalry {
    fn is_of(&self, author: &Arc<Author>, other: Option<&Arc<Author>>) -> bool {
        let same = self.one == *author && self.other.as_ref() == other;
        same || (Some(&self.one) == other && self.other.as_ref() == Some(author))
    }

    /// Counts a reversal. If there is a conflict, returns its stage.
    fn flip(&mut self, now: Instant, manager: Option<&str>) -> Option<Stage> {
        self.flips.push_back(now);
        if self.flips.len() > FLIPS {
            self.flips.pop_front();
        }

        if let (None, Some(manager)) = (&self.other, manager) {
            self.manager = Some(manager.into());
        }

        let often = self.flips.len() == FLIPS && now.duration_since(self.flips[0]) <= WINDOW;
        let stage = match self.reported {
            None if often => Stage::Begins,
            None => return None,
            Some(reported) if now.duration_since(reported) >= REPORT_INTERVAL => Stage::StillOn,
            Some(_) => return Some(Stage::Lasts),
        };

        self.reported = Some(now);
        Some(stage)
    }

    fn rival(&self, author: &Arc<Author>) -> Rival {
        match &self.other {
            None => Rival::Outside {
                manager: self.manager.as_deref().map(str::to_owned),
            },
            Some(other) if self.one == *author => Rival::Author(other.as_ref().clone()),
            Some(_) => Rival::Author(self.one.as_ref().clone()),
        }
    }
}

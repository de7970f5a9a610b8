//! The caches of informers under their host's own writes, against a model that knows every write:
//! random histories of writers, late watches, lists under way, answers and questions in any order,
//! restarts of the host, and views in several versions of the API that come and go.
//!
//! The invariants, checked after each step:
//!
//! - A read of a key is a state that the object had at or after the last answered write of it, in
//!   the view of that informer; or it is unknown, and then what the API server says when it is asked
//!   makes it known. A write that names no object counts for all that it changed.
//! - In a view that starts later, or after a restart, a read is no older than the list that the view
//!   started with. So restarts need no memory of the writes answered before them.
//! - A list shows the same as a read of each key.
//! - In the end, when the watch has brought everything and the questions are answered, reads show
//!   the objects as they are.
//!
//! The seed is printed; `OPERETTA_SEED` repeats a run, and `OPERETTA_HISTORIES` says how many there
//! are.

use std::{collections::BTreeMap, sync::Arc};

use operetta_core::{
    gate::operation::Item,
    object::{
        ManagedFields, Object, ObjectKey,
        kind::GroupVersionKind,
        prune::Prune,
        selector::{LabelSelector, MetadataFieldSelector},
    },
};
use operetta_kube::store::{
    Lookup, Store, Writer,
    cache::{Cache, Query, Unknown},
    overlay::{Author, Overlay, Seen, Until},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tokio::time::Instant;

const KEYS: [&str; 3] = ["a", "b", "c"];

/// The most views at a time.
const MOST_VIEWS: usize = 4;

/// An object's state: what a view shows, and a read returns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    uid: u64,
    revision: u64,
    /// The label that a view may select by.
    app: bool,
    /// Whether it has a finalizer.
    is_held: bool,
    is_deleting: bool,
}

/// A change of a key, as etcd has it.
#[derive(Clone, Debug)]
struct Change {
    revision: u64,
    key: usize,
    before: Option<State>,
    after: Option<State>,
}

/// What the answer to a write says.
#[derive(Clone, Debug)]
enum Answer {
    /// The object, in a version of the API.
    Stored(State, Version),
    Deleted {
        uid: u64,
        existed: Option<u64>,
    },
    Changed(Until),
    /// Which objects of a collection were deleted.
    EachChanged(Vec<(usize, Until)>),
    /// Nothing: neither the request nor the answer names an object.
    NoNames {
        certain: bool,
    },
}

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// A write that is stored and not yet answered.
struct Unanswered {
    /// The keys it changed, with the resourceVersions.
    changed: Vec<(usize, u64)>,
    answer: Answer,
    sent: Instant,
}

/// A question to the API server, and its answer on the way back.
struct Question {
    /// The view's number.
    view: u64,
    began: Instant,
    at: u64,
    found: Found,
}

/// What a question is about, and what the view had then.
#[derive(Debug)]
enum Found {
    Object(usize, Option<State>),
    Namespace(Vec<(usize, State)>),
}

/// An informer: what it selects, and how far its watch is.
struct View {
    number: u64,
    /// Whether it selects the objects with the label.
    selects: bool,
    version: Version,
    cache: Cache,
    writer: Writer,
    /// The changes that its watch has brought.
    watched: usize,
    /// The resourceVersion of the list it started with; None until that has arrived.
    started: Option<u64>,
    listing: Option<Listing>,
}

/// A list under way.
struct Listing {
    began: Instant,
    /// The number of changes that the list has; None until the API server reads them.
    taken: Option<usize>,
}

struct World {
    random: StdRng,
    author: Author,
    revision: u64,
    uids: u64,
    /// All changes, in order.
    changes: Vec<Change>,
    unanswered: Vec<Unanswered>,
    questions: Vec<Question>,
    /// The resourceVersion of the last answered write of each key.
    answered: [u64; KEYS.len()],
    /// The version of the API that the host writes in.
    version: Version,
    views: Vec<View>,
    /// The number of views so far.
    numbers: u64,
    steps: Vec<String>,
}

fn key(at: usize) -> ObjectKey {
    ObjectKey::namespaced("n", KEYS[at])
}

fn object(at: usize, state: &State) -> Arc<Object> {
    let State {
        uid,
        revision,
        app,
        is_held,
        is_deleting,
    } = state;
    let app = if *app { r#","labels":{"app":"x"}"# } else { "" };
    let held = if *is_held {
        r#","finalizers":["f"]"#
    } else {
        ""
    };
    let deleting = if *is_deleting {
        r#","deletionTimestamp":"2026-01-01T00:00:00Z""#
    } else {
        ""
    };
    let name = KEYS[at];
    let text = format!(
        r#"{{"metadata":{{"namespace":"n","name":"{name}","uid":"u-{uid}","resourceVersion":"{revision}"{app}{held}{deleting}}}}}"#
    );
    let kind = GroupVersionKind::new("v1", "Pod");
    Arc::new(Object::from_json(&text, &kind, ManagedFields::Drop).expect("an object"))
}

fn version(object: &Object) -> (String, u64) {
    (
        object.uid().to_owned(),
        object.revision().expect("a revision"),
    )
}

impl View {
    /// An informer that has not listed yet.
    fn new(number: u64, selects: bool, version: Version) -> Self {
        let (store, writer) = Store::new();
        let selector = if selects { "app=x" } else { "" };
        let cache = Cache {
            store,
            overlay: Overlay::of(selects),
            namespace: None,
            selects: LabelSelector::parse(selector).expect("a selector"),
            metadata_only: false,
            prune: Prune::managed_fields(),
        };
        Self {
            number,
            selects,
            version,
            cache,
            writer,
            watched: 0,
            started: None,
            listing: None,
        }
    }

    /// What this view has of a state.
    fn of(&self, state: Option<&State>) -> Option<State> {
        state.filter(|state| !self.selects || state.app).cloned()
    }

    /// Receives the next change, as an informer does.
    fn watch(&mut self, change: &Change) {
        self.watched += 1;
        let (before, after) = (
            self.of(change.before.as_ref()),
            self.of(change.after.as_ref()),
        );
        match (before, after) {
            (None, None) => {}
            (_, Some(after)) => {
                let object = object(change.key, &after);
                if self.cache.store.is_past(&object) {
                    return;
                }
                self.writer.apply(object.clone());
                self.cache.overlay.watched(
                    object.key(),
                    object.uid(),
                    after.revision,
                    Seen::of(&object),
                );
            }
            // The last event of an object that leaves the view has the resourceVersion of the change.
            (Some(before), None) => {
                let last = object(
                    change.key,
                    &State {
                        revision: change.revision,
                        ..before
                    },
                );
                if self.cache.store.is_of_another(&last) {
                    return;
                }
                self.writer.remove(&last);
                self.cache
                    .overlay
                    .watched(last.key(), last.uid(), change.revision, Seen::Gone);
            }
        }
    }

    /// Receives a list that has these changes.
    fn relist(&mut self, began: Instant, changes: &[Change]) {
        let mut relist = self.writer.begin_relist();
        for key in 0..KEYS.len() {
            let last = changes.iter().rev().find(|change| change.key == key);
            let state = last.and_then(|change| self.of(change.after.as_ref()));
            if let Some(state) = state {
                relist.add(object(key, &state));
            }
        }

        let at = changes.last().map_or(1, |change| change.revision);
        self.writer.finish(relist);
        self.writer.reached(at);
        self.watched = changes.len();
        self.started.get_or_insert(at);
        let Cache { overlay, store, .. } = &self.cache;
        overlay.relisted(began, at, store);
    }

    /// Notes an answer, as an informer does. `at` is the key that the write names.
    fn note(&self, at: Option<usize>, answer: &Answer, sent: Instant, author: Author) {
        let Cache { overlay, store, .. } = &self.cache;
        let changed = |at: usize, until: &Until| {
            overlay.changed(&key(at), until.clone(), author, store);
        };
        match (answer, at) {
            (Answer::Stored(state, version), Some(at)) if *version == self.version => {
                self.cache.wrote(&object(at, state), author);
            }
            (Answer::Stored(state, _), Some(at)) => {
                changed(at, &Until::Reached(state.revision));
            }
            (Answer::Deleted { uid, existed }, Some(at)) => {
                overlay.deleted(&key(at), &format!("u-{uid}"), *existed, sent, author, store);
            }
            (Answer::Changed(until), Some(at)) => changed(at, until),
            (Answer::EachChanged(left), _) => left.iter().for_each(|(at, left)| changed(*at, left)),
            (Answer::NoNames { certain }, _) => {
                overlay.changed_some(Some("n"), *certain, author);
            }
            (answer, None) => panic!("{answer:?} is of one object"),
        }
    }

    /// What this view doesn't know of a key.
    fn unknown(&self, author: Author, at: usize) -> Unknown {
        self.cache.unknown(author, Some("n"), Some(KEYS[at]))
    }

    /// What a list shows.
    fn listed(&self) -> Vec<(String, u64)> {
        let query = Query {
            lookup: Lookup::All,
            namespace: Some("n"),
            labels: LabelSelector::default(),
            fields: MetadataFieldSelector::default(),
            limit: None,
            after: None,
            projection: &[],
            visible: None,
        };
        let page = self.cache.list(&query).expect("room");
        let versions = page.items.iter().map(|item| match item {
            Item::Whole(object) => version(object),
            Item::Projected(_) => panic!("a projection: {}", item.json()),
        });
        versions.collect()
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            random: StdRng::seed_from_u64(seed),
            author: Author::unique(),
            revision: 1,
            uids: 0,
            changes: Vec::new(),
            unanswered: Vec::new(),
            questions: Vec::new(),
            answered: [0; KEYS.len()],
            version: Version::V1,
            views: Vec::new(),
            numbers: 0,
            steps: Vec::new(),
        };
        for (selects, version) in [
            (false, Version::V1),
            (true, Version::V1),
            (false, Version::V2),
        ] {
            world.start(selects, version);
            let view = world.views.last_mut().expect("a view");
            view.relist(Instant::now(), &[]);
        }
        world
    }

    /// Starts an informer.
    fn start(&mut self, selects: bool, version: Version) {
        self.numbers += 1;
        self.views.push(View::new(self.numbers, selects, version));
    }

    /// The host's process ends, and another begins: the overlays are gone with the stores, and so
    /// is whatever was under way. The API server may have stored it all the same.
    fn restart(&mut self) {
        self.steps.push("the host restarts".to_owned());
        self.author = Author::unique();
        self.unanswered.clear();
        self.questions.clear();
        for View {
            selects, version, ..
        } in std::mem::take(&mut self.views)
        {
            self.start(selects, version);
        }
    }

    /// Another version of the API is written, or watched.
    fn switch(&mut self) {
        match self.random.random_range(0..3) {
            0 => {
                self.version = match self.version {
                    Version::V1 => Version::V2,
                    Version::V2 => Version::V1,
                };
                self.steps
                    .push(format!("the host writes in {:?}", self.version));
            }
            1 if self.views.len() < MOST_VIEWS => {
                let selects = self.random.random_bool(0.3);
                let versions = [Version::V1, Version::V2];
                let version = *versions.choose(&mut self.random).expect("one of them");
                self.start(selects, version);
                self.steps
                    .push(format!("view {} of {version:?} starts", self.numbers));
            }
            2 if self.views.len() > 1 => {
                let at = self.random.random_range(0..self.views.len());
                let view = self.views.remove(at);
                self.steps.push(format!("view {} ends", view.number));
            }
            _ => {}
        }
    }

    fn now(&self, at: usize) -> Option<State> {
        let of_key = self.changes.iter().rev().find(|change| change.key == at);
        of_key.and_then(|change| change.after.clone())
    }

    /// Stores a change, and returns its resourceVersion.
    fn store(&mut self, at: usize, after: Option<State>) -> u64 {
        self.revision += self.random.random_range(1..=2);
        let revision = self.revision;
        let before = self.now(at);
        let after = after.map(|state| State { revision, ..state });
        self.changes.push(Change {
            revision,
            key: at,
            before,
            after,
        });
        revision
    }

    /// Writes a key in a random way. An own write is answered later.
    fn write(&mut self, is_own: bool) {
        let at = self.random.random_range(0..KEYS.len());
        let Some(state) = self.now(at) else {
            self.uids += 1;
            let made = State {
                uid: self.uids,
                revision: 0,
                app: self.random.random_bool(0.7),
                is_held: self.random.random_bool(0.2),
                is_deleting: false,
            };
            let revision = self.store(at, Some(made.clone()));
            // With `generateName`, and without an answer.
            let answer = if self.random.random_bool(0.1) {
                Answer::NoNames { certain: false }
            } else {
                Answer::Stored(State { revision, ..made }, self.version)
            };
            self.wrote(is_own, at, revision, answer);
            return;
        };

        match self.random.random_range(0..9) {
            // A deletion, answered by a Status, or by the object as it was.
            0..=1 if !state.is_held => {
                let revision = self.store(at, None);
                let existed = self.random.random_bool(0.3).then_some(state.revision);
                let uid = state.uid;
                self.wrote(is_own, at, revision, Answer::Deleted { uid, existed });
            }
            // It waits for a finalizer.
            0..=1 if !state.is_deleting => {
                let deleting = State {
                    is_deleting: true,
                    ..state
                };
                let revision = self.store(at, Some(deleting.clone()));
                let deleting = State {
                    revision,
                    ..deleting
                };
                let answer = Answer::Stored(deleting, self.version);
                self.wrote(is_own, at, revision, answer);
            }
            // The last finalizer is removed, which the answer does not show.
            2 if state.is_held && state.is_deleting => {
                let revision = self.store(at, None);
                let left = Until::Left {
                    uid: format!("u-{}", state.uid),
                    revision: state.revision,
                };
                self.wrote(is_own, at, revision, Answer::Changed(left));
            }
            // The deletion of a collection has this object as it was; others may have changed it in
            // between.
            3 => {
                let states = self
                    .changes
                    .iter()
                    .filter_map(|change| change.after.as_ref());
                let same: Vec<u64> = states
                    .filter(|other| other.uid == state.uid)
                    .map(|other| other.revision)
                    .collect();
                let left = Until::Left {
                    uid: format!("u-{}", state.uid),
                    revision: *same.choose(&mut self.random).expect("its states"),
                };
                let after = state.is_held.then(|| State {
                    is_deleting: true,
                    ..state.clone()
                });
                if after.as_ref() == Some(&state) {
                    return;
                }
                let revision = self.store(at, after);
                self.wrote(is_own, at, revision, Answer::Changed(left));
            }
            // A subresource, whose answer has the resourceVersion or nothing.
            4 => {
                let revision = self.store(at, Some(state));
                self.wrote(
                    is_own,
                    at,
                    revision,
                    Answer::Changed(Until::Reached(revision)),
                );
            }
            5 => {
                let after = (!self.random.random_bool(0.3)).then_some(state);
                let revision = self.store(at, after);
                let asked = Until::Asked { certain: true };
                self.wrote(is_own, at, revision, Answer::Changed(asked));
            }
            6 => self.delete_all(is_own),
            _ => {
                let changed = State {
                    app: self.random.random_bool(0.7),
                    is_held: state.is_held,
                    ..state
                };
                let revision = self.store(at, Some(changed.clone()));
                let changed = State {
                    revision,
                    ..changed
                };
                let answer = Answer::Stored(changed, self.version);
                self.wrote(is_own, at, revision, answer);
            }
        }
    }

    /// Deletes a collection, of all objects or of those with the label. The answer has the objects
    /// as they were, or nothing but cells of a table.
    fn delete_all(&mut self, is_own: bool) {
        let by_label = self.random.random_bool(0.5);
        let mut changed = Vec::new();
        let mut left = Vec::new();
        for at in 0..KEYS.len() {
            let selected = self.now(at).filter(|state| state.app || !by_label);
            let Some(state) = selected.filter(|state| !state.is_deleting) else {
                continue;
            };

            let after = state.is_held.then(|| State {
                is_deleting: true,
                ..state.clone()
            });
            changed.push((at, self.store(at, after)));
            let until = Until::Left {
                uid: format!("u-{}", state.uid),
                revision: state.revision,
            };
            left.push((at, until));
        }

        let answer = match self.random.random_range(0..4) {
            0 => Answer::EachChanged(left),
            1 => Answer::NoNames { certain: false },
            _ => Answer::NoNames { certain: true },
        };
        self.wrote_all(is_own, changed, answer);
    }

    fn wrote(&mut self, is_own: bool, key: usize, revision: u64, answer: Answer) {
        self.wrote_all(is_own, vec![(key, revision)], answer);
    }

    fn wrote_all(&mut self, is_own: bool, changed: Vec<(usize, u64)>, answer: Answer) {
        let whose = if is_own { "own" } else { "another's" };
        self.steps
            .push(format!("{whose} write of {changed:?}: {answer:?}"));
        if is_own {
            self.unanswered.push(Unanswered {
                changed,
                answer,
                sent: Instant::now(),
            });
        }
    }

    /// An answer arrives; not always the first one.
    fn answer(&mut self) {
        if self.unanswered.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.unanswered.len());
        let Unanswered {
            changed,
            answer,
            sent,
        } = self.unanswered.remove(at);
        self.steps
            .push(format!("answer to the write of {changed:?}"));
        for (key, revision) in &changed {
            self.answered[*key] = self.answered[*key].max(*revision);
        }
        for view in &self.views {
            let named = changed.first().map(|(key, _)| *key);
            view.note(named, &answer, sent, self.author);
        }
    }

    /// A watch brings the next change or a bookmark, or a list goes on.
    fn watch(&mut self) {
        let at = self.random.random_range(0..self.views.len());
        let view = &mut self.views[at];
        let number = view.number;
        match view.listing.take() {
            Some(Listing { began, taken: None }) => {
                self.steps
                    .push(format!("the list of view {number} is read"));
                view.listing = Some(Listing {
                    began,
                    taken: Some(self.changes.len()),
                });
                return;
            }
            Some(Listing {
                began,
                taken: Some(taken),
            }) => {
                self.steps.push(format!("view {number} gets its list"));
                view.relist(began, &self.changes[..taken]);
                return;
            }
            None => {}
        }

        let next = self.changes.get(view.watched).cloned();
        match (self.random.random_range(0..12), next) {
            (chance, _) if chance == 0 || view.started.is_none() => {
                self.steps.push(format!("view {number} begins a list"));
                view.listing = Some(Listing {
                    began: Instant::now(),
                    taken: None,
                });
            }
            (1, None) => {
                self.steps.push(format!("view {number} gets a bookmark"));
                view.writer.reached(self.revision);
                view.cache.overlay.passed(self.revision);
            }
            (_, Some(change)) => {
                let revision = change.revision;
                self.steps
                    .push(format!("view {number} gets the change at {revision}"));
                view.watch(&change);
            }
            (_, None) => {}
        }
    }

    /// Asks the API server about a key of a view that is unknown, or takes an answer.
    fn ask(&mut self) {
        if !self.questions.is_empty() && self.random.random_bool(0.5) {
            let at = self.random.random_range(0..self.questions.len());
            let question = self.questions.remove(at);
            self.steps.push(format!(
                "view {} learns that at {} it was {:?}",
                question.view, question.at, question.found
            ));
            self.learn(question);
            return;
        }

        let unknown: Vec<(usize, usize)> = (0..self.views.len())
            .flat_map(|view| (0..KEYS.len()).map(move |key| (view, key)))
            // A read waits for the first list.
            .filter(|(view, _)| self.views[*view].started.is_some())
            .filter(|(view, key)| self.is_unknown(*view, *key))
            .collect();
        if let Some((view, key)) = unknown.choose(&mut self.random).copied() {
            let question = self.question(view, key);
            self.steps
                .push(format!("view {} asks for {}", question.view, KEYS[key]));
            self.questions.push(question);
        }
    }

    /// What a view that doesn't know a key asks, as the API server answers it now.
    fn question(&self, view: usize, key: usize) -> Question {
        let view = &self.views[view];
        let now = |key: usize| view.of(self.now(key).as_ref());
        let found = if view.unknown(self.author, key).by_list.is_empty() {
            Found::Object(key, now(key))
        } else {
            let states = (0..KEYS.len()).filter_map(|key| Some((key, now(key)?)));
            Found::Namespace(states.collect())
        };
        Question {
            view: view.number,
            began: Instant::now(),
            at: self.revision,
            found,
        }
    }

    fn learn(&self, question: Question) {
        let mut views = self.views.iter();
        let Some(view) = views.find(|view| view.number == question.view) else {
            return;
        };

        let Question {
            began, at, found, ..
        } = question;
        let Cache { overlay, store, .. } = &view.cache;
        match found {
            Found::Object(asked, state) => {
                let state = state.map(|state| object(asked, &state));
                overlay.asked(&key(asked), began, at, state, store);
            }
            Found::Namespace(states) => {
                let states: BTreeMap<ObjectKey, u64> = states
                    .into_iter()
                    .map(|(at, state)| (key(at), state.revision))
                    .collect();
                overlay.listed(self.author, Some("n"), began, at, &states, store);
            }
        }
    }

    fn is_unknown(&self, view: usize, at: usize) -> bool {
        !self.views[view].unknown(self.author, at).is_empty()
    }

    /// Reads every key of every view that has started.
    fn check(&self) {
        for (number, view) in self.views.iter().enumerate() {
            let Some(started) = view.started else {
                continue;
            };

            let mut reads = Vec::new();
            for (at, name) in KEYS.iter().enumerate() {
                if self.is_unknown(number, at) {
                    continue;
                }

                let read = view.cache.get(&key(at)).map(|object| version(&object));
                // The states that the key has had since its last answered write, or since the list.
                let since = self.answered[at].max(started);
                let of_key = self.changes.iter().filter(|change| change.key == at);
                let mut states: Vec<(u64, Option<State>)> = vec![(0, None)];
                states
                    .extend(of_key.map(|change| (change.revision, view.of(change.after.as_ref()))));
                let first = states
                    .iter()
                    .rposition(|(revision, _)| *revision <= since)
                    .expect("the state before all");
                let allowed = states[first..].iter().any(|(_, state)| {
                    let state = state
                        .as_ref()
                        .map(|state| (format!("u-{}", state.uid), state.revision));
                    state == read
                });
                assert!(
                    allowed,
                    "view {} reads {read:?} of {name} after the write or the list at {since}; {:#?}\nafter {:#?}",
                    view.number,
                    &states[first..],
                    self.steps
                );
                reads.push(read);
            }

            // A list costs as much as all other reads.
            if reads.len() == KEYS.len() && self.steps.len().is_multiple_of(4) {
                let reads: Vec<_> = reads.into_iter().flatten().collect();
                assert_eq!(
                    view.listed(),
                    reads,
                    "the list of view {} after {:#?}",
                    view.number,
                    self.steps
                );
            }
        }
    }

    fn run(mut self) {
        for _ in 0..self.random.random_range(10..60) {
            match self.random.random_range(0..60) {
                0..=11 => self.write(true),
                12..=17 => self.write(false),
                18..=34 => self.answer(),
                35..=46 => self.watch(),
                47..=57 => self.ask(),
                58 => self.restart(),
                _ => self.switch(),
            }
            self.check();
        }

        // Everything arrives, and whatever is still unknown is asked for.
        while !self.unanswered.is_empty() {
            self.answer();
            self.check();
        }
        for view in 0..self.views.len() {
            let listing = self.views[view].listing.take();
            if listing.is_some() || self.views[view].started.is_none() {
                let began = listing.map_or_else(Instant::now, |listing| listing.began);
                self.views[view].relist(began, &self.changes);
                self.check();
            }
            while let Some(change) = self.changes.get(self.views[view].watched).cloned() {
                self.views[view].watch(&change);
                self.check();
            }
            for at in 0..KEYS.len() {
                // After a list, an object may have to be asked for.
                for _ in 0..2 {
                    if self.is_unknown(view, at) {
                        self.learn(self.question(view, at));
                    }
                }
                assert!(!self.is_unknown(view, at), "after {:#?}", self.steps);
            }
        }
        self.check();

        for view in &self.views {
            for at in 0..KEYS.len() {
                let read = view.cache.get(&key(at)).map(|object| version(&object));
                let now = view
                    .of(self.now(at).as_ref())
                    .map(|state| (format!("u-{}", state.uid), state.revision));
                assert_eq!(read, now, "in the end, after {:#?}", self.steps);
            }
        }
    }
}

#[test]
fn reads_are_never_older_than_answered_writes() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (first, histories) = match number("OPERETTA_SEED") {
        Some(seed) => (seed, 1),
        None => (
            rand::rng().random_range(0..u64::MAX / 2),
            number("OPERETTA_HISTORIES").unwrap_or(5_000),
        ),
    };

    for seed in first..first + histories {
        let history = std::panic::catch_unwind(|| World::new(seed).run());
        if let Err(panic) = history {
            eprintln!("OPERETTA_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

//! The cache of an informer under its host's own writes, against a model that knows every write:
//! random histories of writers, late watches, relists, and answers in any order.
//!
//! After each step, a read of each key is a state that the object had at or after the last answered
//! write of it, in the view of that informer; or it is unknown, and then what the API server says
//! when it is asked makes it known. In the end, when the watch has brought everything, the overlay
//! is empty but for what only time ends. The seed is printed; `OPERETTA_SEED` repeats a run, and
//! `OPERETTA_HISTORIES` says how many there are.

use std::sync::Arc;

use operetta_core::object::{
    ManagedFields, Object, ObjectKey, kind::GroupVersionKind, prune::Prune, selector::LabelSelector,
};
use operetta_kube::store::{
    Store, Writer,
    cache::Cache,
    overlay::{Author, Overlay, Seen, Until},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tokio::time::Instant;

const KEYS: [&str; 3] = ["a", "b", "c"];

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
    Stored(State),
    Deleted { uid: u64, existed: Option<u64> },
    Changed(Until),
}

/// A write that is stored and not yet answered.
struct Unanswered {
    key: usize,
    revision: u64,
    answer: Answer,
    sent: Instant,
}

/// A question to the API server about a key of a view, on its way back.
struct Question {
    view: usize,
    key: usize,
    began: Instant,
    at: u64,
    found: Option<State>,
}

/// An informer: what it selects, and how far its watch is.
struct View {
    /// Whether it selects the objects with the label.
    selects: bool,
    /// Whether it watches another version of the API than the writes are in.
    is_other_version: bool,
    cache: Cache,
    writer: Writer,
    /// The changes that its watch has brought.
    watched: usize,
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
    views: Vec<View>,
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
    fn new(selects: bool, is_other_version: bool) -> Self {
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
            selects,
            is_other_version,
            cache,
            writer,
            watched: 0,
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

    /// Notes an answer, as an informer does.
    fn note(&self, at: usize, answer: &Answer, sent: Instant, author: Author) {
        let Cache { overlay, store, .. } = &self.cache;
        match answer {
            Answer::Stored(state) if self.is_other_version => {
                overlay.changed(&key(at), Until::Reached(state.revision), author, store);
            }
            Answer::Stored(state) => {
                self.cache.wrote(&object(at, state), author);
            }
            Answer::Deleted { uid, existed } => {
                overlay.deleted(&key(at), &format!("u-{uid}"), *existed, sent, author, store);
            }
            Answer::Changed(until) => overlay.changed(&key(at), until.clone(), author, store),
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let views = vec![
            View::new(false, false),
            View::new(true, false),
            View::new(false, true),
        ];
        Self {
            random: StdRng::seed_from_u64(seed),
            author: Author::unique(),
            revision: 1,
            uids: 0,
            changes: Vec::new(),
            unanswered: Vec::new(),
            questions: Vec::new(),
            answered: [0; KEYS.len()],
            views,
            steps: Vec::new(),
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
            self.wrote(
                is_own,
                at,
                revision,
                Answer::Stored(State { revision, ..made }),
            );
            return;
        };

        match self.random.random_range(0..8) {
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
                let answer = Answer::Stored(State {
                    revision,
                    ..deleting
                });
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
            _ => {
                let changed = State {
                    app: self.random.random_bool(0.7),
                    is_held: state.is_held,
                    ..state
                };
                let revision = self.store(at, Some(changed.clone()));
                let answer = Answer::Stored(State {
                    revision,
                    ..changed
                });
                self.wrote(is_own, at, revision, answer);
            }
        }
    }

    fn wrote(&mut self, is_own: bool, key: usize, revision: u64, answer: Answer) {
        let whose = if is_own { "own" } else { "another's" };
        self.steps.push(format!(
            "{whose} write of {} at {revision}: {answer:?}",
            KEYS[key]
        ));
        if is_own {
            self.unanswered.push(Unanswered {
                key,
                revision,
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
            key,
            revision,
            answer,
            sent,
        } = self.unanswered.remove(at);
        self.steps.push(format!(
            "answer to the write of {} at {revision}",
            KEYS[key]
        ));
        self.answered[key] = self.answered[key].max(revision);
        for view in &self.views {
            view.note(key, &answer, sent, self.author);
        }
    }

    /// A watch brings the next change, a bookmark, or a list.
    fn watch(&mut self) {
        let at = self.random.random_range(0..self.views.len());
        let view = &mut self.views[at];
        let next = self.changes.get(view.watched).cloned();
        match (self.random.random_range(0..12), next) {
            (0, _) => {
                let began = Instant::now();
                self.steps.push(format!("view {at} relists"));
                let mut relist = view.writer.begin_relist();
                for key in 0..KEYS.len() {
                    let last = self.changes.iter().rev().find(|change| change.key == key);
                    let state = last.and_then(|change| view.of(change.after.as_ref()));
                    if let Some(state) = state {
                        relist.add(object(key, &state));
                    }
                }
                view.writer.finish(relist);
                view.writer.reached(self.revision);
                view.watched = self.changes.len();
                view.cache
                    .overlay
                    .relisted(began, self.revision, &view.cache.store);
            }
            (1, None) => {
                self.steps.push(format!("view {at} gets a bookmark"));
                view.writer.reached(self.revision);
                view.cache.overlay.passed(self.revision);
            }
            (_, Some(change)) => {
                self.steps
                    .push(format!("view {at} gets the change at {}", change.revision));
                view.watch(&change);
            }
            (_, None) => {}
        }
    }

    /// Asks the API server for a key of a view that is unknown, or takes an answer.
    fn ask(&mut self) {
        if !self.questions.is_empty() && self.random.random_bool(0.5) {
            let at = self.random.random_range(0..self.questions.len());
            let question = self.questions.remove(at);
            self.steps.push(format!(
                "view {} learns that {} was {:?} at {}",
                question.view, KEYS[question.key], question.found, question.at
            ));
            self.learn(question);
            return;
        }

        let unknown: Vec<(usize, usize)> = (0..self.views.len())
            .flat_map(|view| (0..KEYS.len()).map(move |key| (view, key)))
            .filter(|(view, key)| self.is_unknown(*view, *key))
            .collect();
        if let Some((view, key)) = unknown.choose(&mut self.random).copied() {
            self.steps
                .push(format!("view {view} asks for {}", KEYS[key]));
            let question = self.question(view, key);
            self.questions.push(question);
        }
    }

    fn question(&self, view: usize, key: usize) -> Question {
        Question {
            view,
            key,
            began: Instant::now(),
            at: self.revision,
            found: self.views[view].of(self.now(key).as_ref()),
        }
    }

    fn learn(&self, question: Question) {
        let Cache { overlay, store, .. } = &self.views[question.view].cache;
        let found = question.found.map(|state| object(question.key, &state));
        overlay.asked(
            &key(question.key),
            question.began,
            question.at,
            found,
            store,
        );
    }

    fn is_unknown(&self, view: usize, at: usize) -> bool {
        let unknown = self.views[view]
            .cache
            .unknown(self.author, Some("n"), Some(KEYS[at]));
        !unknown.is_empty()
    }

    /// Reads every key of every view.
    fn check(&self) {
        for (number, view) in self.views.iter().enumerate() {
            for (at, name) in KEYS.iter().enumerate() {
                if self.is_unknown(number, at) {
                    continue;
                }

                let read = view.cache.get(&key(at)).map(|object| version(&object));
                // The states that the key has had since its last answered write.
                let of_key = self.changes.iter().filter(|change| change.key == at);
                let mut states: Vec<(u64, Option<State>)> = vec![(0, None)];
                states
                    .extend(of_key.map(|change| (change.revision, view.of(change.after.as_ref()))));
                let first = states
                    .iter()
                    .rposition(|(revision, _)| *revision <= self.answered[at])
                    .expect("the state before all");
                let allowed = states[first..].iter().any(|(_, state)| {
                    let state = state
                        .as_ref()
                        .map(|state| (format!("u-{}", state.uid), state.revision));
                    state == read
                });
                assert!(
                    allowed,
                    "view {number} reads {read:?} of {name} after the answered write at {}; {:#?}\nafter {:#?}",
                    self.answered[at],
                    &states[first..],
                    self.steps
                );
            }
        }
    }

    fn run(mut self) {
        for _ in 0..self.random.random_range(10..60) {
            match self.random.random_range(0..10) {
                0..=1 => self.write(true),
                2 => self.write(false),
                3..=5 => self.answer(),
                6..=7 => self.watch(),
                _ => self.ask(),
            }
            self.check();
        }

        // Everything arrives, and whatever is still unknown is asked for.
        while !self.unanswered.is_empty() {
            self.answer();
            self.check();
        }
        for view in 0..self.views.len() {
            while let Some(change) = self.changes.get(self.views[view].watched).cloned() {
                self.views[view].watch(&change);
                self.check();
            }
            for at in 0..KEYS.len() {
                if self.is_unknown(view, at) {
                    self.learn(self.question(view, at));
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

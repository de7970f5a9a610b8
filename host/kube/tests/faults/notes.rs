//! The events that a handler received, and whether they can be true.
//!
//! The rules, for each object's name:
//!
//! - added, then any number of changes, then deleted, and so on; nothing twice, nothing before its
//!   time;
//! - a change names as its old state the one that was delivered before, and of the same object: a
//!   new one of the same name is delivered as deleted and added;
//! - resourceVersions never go back;
//! - each state that is delivered is one that the writer made, in the writer's order, and one that
//!   the selector selects;
//! - a deletion is delivered only if the object was deleted, or left the selector, after the state
//!   that was delivered before;
//! - the store knows of it already;
//! - what is delivered as initial comes before everything else.

use std::{collections::BTreeMap, sync::Arc};

use operetta_core::handler::event::Event;
use operetta_kube::informer::{Handler, Informer};
use parking_lot::Mutex;

use crate::truth::{State, Truth};

/// What one event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Added { initial: bool },
    Modified,
    Deleted,
}

/// One state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub uid: String,
    pub revision: u64,
}

/// One event as it was delivered.
#[derive(Clone, Debug)]
pub struct Note {
    pub what: What,
    pub name: String,
    pub seen: Seen,
    pub old: Option<Seen>,
    /// Whether the store had it, or something later, when it was delivered.
    pub stored: bool,
}

/// A handler that writes everything down.
#[derive(Clone, Default)]
pub struct Recorder {
    pub notes: Arc<Mutex<Vec<Note>>>,
    /// Loses each such event: a broken informer, to show that it is found out.
    pub swallow_every: Option<usize>,
}

impl Recorder {
    pub fn handler(&self, informer: &Arc<Informer>) -> Handler {
        let notes = self.notes.clone();
        let store = informer.cache.store.clone();
        let swallow = self.swallow_every;
        let count = Mutex::new(0_usize);
        Arc::new(move |event| {
            let object = event.object();
            let seen = |object: &operetta_core::object::Object| Seen {
                uid: object.uid().to_owned(),
                revision: object.revision().unwrap_or_default(),
            };
            let now = seen(object);
            let stored = store.get(object.key()).map(|object| seen(&object));
            let (what, stored) = match event {
                Event::Deleted { .. } => (What::Deleted, stored.is_none_or(|stored| stored != now)),
                Event::Added { initial, .. } => {
                    let later = store.revision() > now.revision;
                    (
                        What::Added { initial: *initial },
                        later || stored.is_some_and(|it| it.revision >= now.revision),
                    )
                }
                Event::Modified { .. } => {
                    let later = store.revision() > now.revision;
                    (
                        What::Modified,
                        later || stored.is_some_and(|it| it.revision >= now.revision),
                    )
                }
            };
            let mut count = count.lock();
            *count += 1;
            if swallow.is_none_or(|every| !count.is_multiple_of(every)) {
                let old = event.old().map(|old| seen(old));
                notes.lock().push(Note {
                    what,
                    name: object.key().name.clone(),
                    seen: now,
                    old,
                    stored,
                });
            }
        })
    }

    pub fn all(&self) -> Vec<Note> {
        self.notes.lock().clone()
    }
}

/// What was known of one name at some point of a history.
#[derive(Default)]
struct Known {
    /// None while it is delivered to be absent.
    now: Option<Seen>,
    /// The highest resourceVersion that was delivered.
    highest: u64,
    /// Where in the truth this is: the first step that may come next.
    step: usize,
}

/// Whether a history can be true; every way in which it cannot, and what it ends with.
pub fn judge(
    notes: &[Note],
    truth: Option<&Truth>,
    selects: &dyn Fn(&str) -> bool,
) -> (Vec<String>, BTreeMap<String, Seen>) {
    let mut wrong = Vec::new();
    let mut all: BTreeMap<&str, Known> = BTreeMap::new();
    let mut initial_is_over = false;
    for (at, note) in notes.iter().enumerate() {
        let known = all.entry(&note.name).or_default();
        let is_initial = note.what == What::Added { initial: true };
        let mut complaints: Vec<String> = broken_rules(note, known);
        if is_initial && initial_is_over {
            complaints.push("initial, after what was not".to_owned());
        }
        // The bad objects of the proxy were made by nobody.
        if let Some(truth) = truth.filter(|_| !note.seen.uid.starts_with("uid-of-bad-")) {
            complaints.extend(untrue(note, known, truth, selects));
        }
        initial_is_over |= !is_initial;
        known.highest = known.highest.max(note.seen.revision);
        known.now = (note.what != What::Deleted).then(|| note.seen.clone());
        wrong.extend(
            complaints
                .into_iter()
                .map(|complaint| format!("event {at}, {note:?}: {complaint}")),
        );
    }
    let end = all
        .into_iter()
        .filter_map(|(name, known)| Some((name.to_owned(), known.now?)));
    (wrong, end.collect())
}

fn broken_rules(note: &Note, known: &Known) -> Vec<String> {
    let mut broken = Vec::new();
    match (note.what, &known.now) {
        (What::Added { .. }, Some(now)) => broken.push(format!("it was there: {now:?}")),
        (What::Modified | What::Deleted, None) => broken.push("it was not there".to_owned()),
        (What::Modified | What::Deleted, Some(now)) if now.uid != note.seen.uid => {
            broken.push(format!("it was another object: {now:?}"));
        }
        (What::Modified, Some(_)) if note.old != known.now => {
            broken.push(format!("the state before was {:?}", known.now));
        }
        _ => {}
    }
    if note.seen.revision < known.highest {
        broken.push(format!("goes back from resourceVersion {}", known.highest));
    }
    if !note.stored {
        broken.push("delivered before the store has it".to_owned());
    }
    broken
}

fn untrue(
    note: &Note,
    known: &mut Known,
    truth: &Truth,
    selects: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let steps = truth.of(&note.name).iter().enumerate().skip(known.step);
    let mut steps = steps;
    let found = match note.what {
        What::Deleted => steps.find(|(_, state)| match state {
            State::Absent => true,
            State::Present { uid, app, .. } => *uid != note.seen.uid || !selects(app),
        }),
        _ => steps.find(|(_, state)| match state {
            State::Absent => false,
            State::Present { uid, revision, app } => {
                *uid == note.seen.uid && *revision == note.seen.revision && selects(app)
            }
        }),
    };
    match found {
        Some((at, _)) => known.step = at,
        None if note.what == What::Deleted => {
            return Some("it was not deleted after that".to_owned());
        }
        None => return Some("it was never so, or not any more".to_owned()),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(what: What, uid: &str, revision: u64, old: Option<u64>) -> Note {
        let seen = |revision| Seen {
            uid: uid.to_owned(),
            revision,
        };
        Note {
            what,
            name: "a".to_owned(),
            seen: seen(revision),
            old: old.map(seen),
            stored: true,
        }
    }

    const ADDED: What = What::Added { initial: false };

    fn truth() -> Truth {
        let mut truth = Truth::default();
        let present = |uid: &str, revision, app: &str| State::Present {
            uid: uid.into(),
            revision,
            app: app.into(),
        };
        for state in [
            present("u", 1, "x"),
            present("u", 3, "x"),
            present("u", 5, "y"),
            State::Absent,
            present("v", 9, "x"),
        ] {
            truth.push("a", state);
        }
        truth
    }

    #[test]
    fn accepts_possible_histories_only() {
        use What::{Deleted, Modified};
        let good: [&[Note]; 4] = [
            &[
                note(ADDED, "u", 1, None),
                note(Modified, "u", 3, Some(1)),
                note(Deleted, "u", 5, None),
            ],
            // Compressed: what was in between is not delivered.
            &[
                note(ADDED, "u", 1, None),
                note(Deleted, "u", 1, None),
                note(ADDED, "v", 9, None),
            ],
            &[note(ADDED, "v", 9, None)],
            &[note(ADDED, "u", 3, None), note(Modified, "u", 3, Some(3))],
        ];
        for history in good {
            let (wrong, _) = judge(history, Some(&truth()), &|app| app == "x");
            assert_eq!(wrong, Vec::<String>::new());
        }
        let unstored = Note {
            stored: false,
            ..note(ADDED, "u", 1, None)
        };
        let bad: [(&str, &[Note]); 11] = [
            (
                "it was there",
                &[note(ADDED, "u", 1, None), note(ADDED, "u", 3, None)],
            ),
            ("it was not there", &[note(Modified, "u", 3, Some(1))]),
            (
                "it was not there",
                &[
                    note(ADDED, "u", 1, None),
                    note(Deleted, "u", 5, None),
                    note(Deleted, "u", 5, None),
                ],
            ),
            (
                "it was another object",
                &[note(ADDED, "u", 1, None), note(Modified, "v", 9, Some(1))],
            ),
            (
                "the state before",
                &[note(ADDED, "u", 1, None), note(Modified, "u", 3, Some(2))],
            ),
            (
                "goes back",
                &[note(ADDED, "u", 3, None), note(Modified, "u", 1, Some(3))],
            ),
            (
                "goes back",
                &[
                    note(ADDED, "v", 9, None),
                    note(Deleted, "v", 9, None),
                    note(ADDED, "u", 3, None),
                ],
            ),
            ("before the store", &[unstored]),
            ("never so", &[note(ADDED, "u", 2, None)]),
            ("never so", &[note(ADDED, "u", 5, None)]),
            (
                "not deleted after that",
                &[note(ADDED, "v", 9, None), note(Deleted, "v", 9, None)],
            ),
        ];
        for (complaint, history) in bad {
            let (wrong, _) = judge(history, Some(&truth()), &|app| app == "x");
            assert!(
                wrong.iter().any(|wrong| wrong.contains(complaint)),
                "{complaint}: {wrong:?}"
            );
        }
        let late = [
            note(ADDED, "u", 1, None),
            Note {
                name: "b".into(),
                ..note(What::Added { initial: true }, "u", 1, None)
            },
        ];
        assert!(judge(&late, None, &|_| true).0[0].contains("initial, after"));
    }
}

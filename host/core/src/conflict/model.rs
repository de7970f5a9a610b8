//! The state against a naive model, on random writes.
//!
//! The model keeps every change and scans all of them for each new one. After every change both
//! must agree: whether it is part of a conflict, with which rival and at which stage, and whether
//! an outside writer is to be looked up; and they must remember the same number of fields. Fields,
//! values and writers are few, so that most writes are part of a conflict, and the limits are
//! small.
//!
//! A failing run prints its seed; `OPERETTA_SEED` repeats it.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::conflict::{
    Author, FLIPS, REPORT_INTERVAL, Rival, Stage, WINDOW,
    state::{AUTHORS, Bounds, FieldChange, RIVALRIES, State},
};
use crate::object::ObjectKey;

/// A change as the model keeps it.
struct Was {
    at: Instant,
    field: u64,
    author: Author,
    after: u64,
    /// The writer that was reverted, None being outside, and whether that was reported.
    flip: Option<(Option<Author>, bool)>,
    manager: Option<String>,
}

struct Model {
    bounds: Bounds,
    /// All changes, oldest first.
    history: Vec<Was>,
    /// The remembered fields: the field, the start of its history and its holder; the least
    /// recently changed first.
    remembered: Vec<(u64, usize, ObjectKey)>,
    candidates: BTreeSet<u64>,
}

impl Model {
    fn changed(
        &mut self,
        now: Instant,
        author: &Author,
        change: &FieldChange<'_>,
    ) -> Option<(Rival, Stage)> {
        let last = |field: u64| {
            self.history
                .iter()
                .rfind(|was| was.field == field)
                .map(|was| was.at)
        };
        self.remembered
            .retain(|(field, ..)| last(*field).is_some_and(|at| now - at <= WINDOW));
        let index = self
            .remembered
            .iter()
            .position(|(field, ..)| *field == change.field);
        let entry = match index {
            Some(at) => self.remembered.remove(at),
            None => (change.field, self.history.len(), author.plugin.clone()),
        };
        let conflict = self.look(now, author, change, entry.1);
        self.remembered.push(entry);
        let own = |entry: &(u64, usize, ObjectKey)| entry.2 == author.plugin;
        if self.remembered.iter().filter(|entry| own(entry)).count() > self.bounds.fields_of_plugin
        {
            let oldest = self
                .remembered
                .iter()
                .position(own)
                .expect("more than none");
            self.remembered.remove(oldest);
        }
        if self.remembered.len() > self.bounds.fields {
            self.remembered.remove(0);
        }
        conflict
    }

    /// Judges a change by the remembered history of its field, and adds it to the history.
    fn look(
        &mut self,
        now: Instant,
        author: &Author,
        change: &FieldChange<'_>,
        since: usize,
    ) -> Option<(Rival, Stage)> {
        let all: Vec<&Was> = self.history[since..]
            .iter()
            .filter(|was| was.field == change.field)
            .collect();
        let mut writers: Vec<&Author> = Vec::new();
        for was in all.iter().rev() {
            if !writers.contains(&&was.author) && writers.len() < AUTHORS {
                writers.push(&was.author);
            }
        }
        let own = all
            .iter()
            .rfind(|was| was.author == *author && writers.contains(&author))
            .map(|was| was.after);
        let other = all
            .last()
            .filter(|was| was.author != *author && was.after == change.before);
        let other = other.map(|was| was.author.clone());
        let mut conflict = None;
        let mut flip = None;
        if own == Some(change.after) {
            // Both directions count, but only without an interruption by time or by too many other
            // pairs.
            let pair = |one: &Author, other: &Option<Author>| {
                let mut two = vec![Some(one.clone()), other.clone()];
                two.sort();
                two
            };
            let this = pair(author, &other);
            let mut others: Vec<Vec<Option<Author>>> = Vec::new();
            let mut flips: Vec<&Was> = Vec::new();
            for was in all.iter().rev() {
                let Some((against, _)) = &was.flip else {
                    continue;
                };
                let of = pair(&was.author, against);
                if of == this {
                    let next = flips.last().map_or(now, |next| next.at);
                    if next - was.at > WINDOW {
                        break;
                    }
                    flips.push(was);
                    others.clear();
                } else if !others.contains(&of) {
                    others.push(of);
                    if others.len() == RIVALRIES {
                        break;
                    }
                }
            }
            let count = flips.len() + 1;
            let often = count >= FLIPS
                && flips
                    .get(FLIPS - 2)
                    .is_some_and(|first| now - first.at <= WINDOW);
            let reported = flips
                .iter()
                .find(|was| was.flip.as_ref().is_some_and(|(_, reported)| *reported))
                .map(|was| was.at);
            let stage = match reported {
                None => often.then_some(Stage::Begins),
                Some(reported) if now - reported >= REPORT_INTERVAL => Some(Stage::StillOn),
                Some(_) => Some(Stage::Lasts),
            };
            let manager = change.manager.map(str::to_owned);
            let manager = manager.or_else(|| flips.iter().find_map(|was| was.manager.clone()));
            if stage.is_none() && other.is_none() && manager.is_none() && count >= 2 {
                self.candidates.insert(change.candidate);
            }
            flip = Some((
                other.clone(),
                stage.is_some_and(|stage| stage != Stage::Lasts),
            ));
            conflict = stage.map(|stage| {
                (
                    other.map_or(Rival::Outside { manager }, Rival::Author),
                    stage,
                )
            });
        }
        self.history.push(Was {
            at: now,
            field: change.field,
            author: author.clone(),
            after: change.after,
            flip,
            manager: change.manager.map(str::to_owned),
        });
        conflict
    }
}

fn run(seed: u64, seen: &mut BTreeSet<String>) {
    let mut random = StdRng::seed_from_u64(seed);
    let bounds = Bounds {
        fields: random.random_range(1..6),
        fields_of_plugin: random.random_range(1..4),
    };
    let mut model = Model {
        bounds,
        history: Vec::new(),
        remembered: Vec::new(),
        candidates: BTreeSet::new(),
    };
    let mut state = State::bounded(bounds);
    let writers = random.random_range(1..7);
    let fields = random.random_range(1..4);
    let values = random.random_range(2..4);
    // One of five writes.
    let unseen = random.random_range(0..4);
    let named = random.random_range(0..2) == 0;
    let mut now = Instant::now();
    let mut stored = vec![0; fields];
    for _ in 0..random.random_range(1..600) {
        now += match random.random_range(0..1_000) {
            0..920 => Duration::from_secs(random.random_range(0..20)),
            920..995 => Duration::from_secs(random.random_range(0..400)),
            _ => Duration::from_secs(random.random_range(0..2_000)),
        };
        let field = random.random_range(0..fields);
        let after = random.random_range(0..values);
        if after == stored[field] {
            continue;
        }
        let before = std::mem::replace(&mut stored[field], after);
        // Some writes are not seen.
        if random.random_range(0..5) < unseen {
            continue;
        }
        let writer: u8 = random.random_range(0..writers);
        let author = Author {
            plugin: ObjectKey::namespaced("n", format!("plugin-{}", writer / 2)),
            controller: format!("controller-{writer}"),
        };
        let candidate = field as u64 * 100 + u64::from(writer);
        let asked = state.take_candidate(candidate);
        assert_eq!(asked, model.candidates.remove(&candidate));
        let manager = (asked && named).then_some("helm");
        let change = FieldChange {
            field: field as u64,
            before,
            after,
            candidate,
            manager,
        };
        let found = state.changed(now, &author, &change);
        let expected = model.changed(now, &author, &change);
        assert_eq!(found, expected);
        assert_eq!(
            (state.len(), state.has_candidates()),
            (model.remembered.len(), !model.candidates.is_empty())
        );
        if let Some((rival, stage)) = found {
            let rival = if matches!(rival, Rival::Author(_)) {
                "inside"
            } else {
                "outside"
            };
            seen.insert(format!("{rival} {stage:?}"));
        }
    }
}

#[test]
fn random_writes_match_naive_model() {
    let seed = std::env::var("OPERETTA_SEED")
        .ok()
        .map(|text| text.parse().expect("OPERETTA_SEED is a number"));
    let (first, runs) = seed.map_or_else(|| (rand::random::<u32>().into(), 400), |seed| (seed, 1));
    let mut seen = BTreeSet::new();
    for seed in first..first + runs {
        println!("OPERETTA_SEED={seed}");
        run(seed, &mut seen);
    }
    assert!(
        runs == 1 || seen.len() >= 5,
        "not everything came up: {seen:?}"
    );
}

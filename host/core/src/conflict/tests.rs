use std::time::{Duration, Instant};

use crate::conflict::{
    state::{AUTHORS, Bounds, FieldChange},
    *,
};

fn author(plugin: &str, controller: &str) -> Author {
    Author {
        plugin: ObjectKey::namespaced("n", plugin),
        controller: controller.to_owned(),
    }
}

/// The state of a field, and the time.
struct Contested {
    state: State,
    now: Instant,
    value: u64,
}

impl Contested {
    fn new() -> Self {
        Self {
            state: State::default(),
            now: Instant::now(),
            value: 0,
        }
    }

    /// Writes by a controller, one second later.
    fn write(&mut self, author: &Author, value: u64) -> Option<(Rival, Stage)> {
        self.look_and_write(author, value, None)
    }

    fn look_and_write(
        &mut self,
        author: &Author,
        value: u64,
        manager: Option<&str>,
    ) -> Option<(Rival, Stage)> {
        self.after(1);
        let change = FieldChange {
            field: 1,
            before: self.value,
            after: value,
            candidate: 7,
            manager,
        };
        self.value = value;
        self.state.changed(self.now, author, &change)
    }

    /// Writes by a writer that is not seen.
    fn outside(&mut self, value: u64) {
        self.value = value;
    }

    fn after(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

#[test]
fn reports_both_writers_after_five_reversals() {
    let a = author("a", "c");
    let b = author("b", "c");
    let mut field = Contested::new();
    let mut reported = Vec::new();
    for _ in 0..4 {
        reported.push(field.write(&a, 1));
        reported.push(field.write(&b, 2));
    }
    // The first write of each controller only sets its value.
    let lasts = |rival: &Author| Some((Rival::Author(rival.clone()), Stage::Lasts));
    let begins = Some((Rival::Author(b.clone()), Stage::Begins));
    assert_eq!(
        reported,
        [None, None, None, None, None, None, begins, lasts(&a)]
    );
    assert_eq!(FLIPS, 5, "the list above");
}

#[test]
fn repeats_lasting_conflicts_and_restarts_quiet_ones() {
    let a = author("a", "c");
    let b = author("b", "c");
    let mut field = Contested::new();
    let mut reported = Vec::new();
    // One write per second.
    for second in 0..2_400 {
        let (author, value) = if second % 2 == 0 { (&a, 1) } else { (&b, 2) };
        if let Some((_, stage)) = field
            .write(author, value)
            .filter(|(_, stage)| *stage != Stage::Lasts)
        {
            reported.push((stage, second));
        }
    }
    let again = [0, 600, 1_200, 1_800].map(|seconds| seconds + 6);
    let stages = [
        Stage::Begins,
        Stage::StillOn,
        Stage::StillOn,
        Stage::StillOn,
    ];
    assert_eq!(reported, stages.into_iter().zip(again).collect::<Vec<_>>());
    field.after(WINDOW.as_secs() + 1);
    let anew: Vec<_> = (0..8)
        .map(|at| field.write(if at % 2 == 0 { &a } else { &b }, 1 + at % 2))
        .collect();
    let stages: Vec<_> = anew
        .into_iter()
        .map(|conflict| conflict.map(|(_, stage)| stage))
        .collect();
    assert_eq!(stages[..6], [None; 6]);
    assert_eq!(stages[6..], [Some(Stage::Begins), Some(Stage::Lasts)]);
}

#[test]
fn names_outside_writer_after_one_lookup() {
    let a = author("a", "c");
    let mut field = Contested::new();
    assert_eq!(field.write(&a, 1), None);
    let mut looks = 0;
    for at in 1..=FLIPS {
        field.outside(2);
        let manager = field.state.take_candidate(7).then_some("helm");
        looks += usize::from(manager.is_some());
        let conflict = field.look_and_write(&a, 1, manager);
        let named = Rival::Outside {
            manager: Some("helm".into()),
        };
        assert_eq!(
            conflict,
            (at == FLIPS).then_some((named, Stage::Begins)),
            "at {at}"
        );
    }
    assert_eq!(looks, 1, "one that tells is enough");
}

#[test]
fn stops_looking_up_an_unreadable_outside_writer() {
    let a = author("a", "c");
    let mut field = Contested::new();
    let mut looks = 0;
    let mut reported = None;
    for _ in 0..100 {
        field.outside(2);
        looks += usize::from(field.state.take_candidate(7));
        reported = reported.or(field.write(&a, 1));
    }
    assert_eq!(
        (looks, reported),
        (3, Some((Rival::Outside { manager: None }, Stage::Begins)))
    );
}

#[test]
fn reports_controllers_of_one_plugin_but_none_with_itself() {
    let one = author("a", "one");
    let two = author("a", "two");
    let mut field = Contested::new();
    let mut conflict = None;
    for _ in 0..4 {
        conflict = conflict.or(field.write(&one, 1)).or(field.write(&two, 2));
    }
    assert_eq!(conflict, Some((Rival::Author(two), Stage::Begins)));
    let mut field = Contested::new();
    for _ in 0..100 {
        assert_eq!(field.write(&one, 1), None);
        assert_eq!(field.write(&one, 2), None);
    }
}

#[test]
fn rival_is_the_latest_writer() {
    let a = author("a", "c");
    let b = author("b", "c");
    let mut field = Contested::new();
    let mut conflict = None;
    // b writes once; then an outside writer writes the same value again and again.
    field.write(&b, 2);
    for _ in 0..10 {
        conflict = conflict.or(field.write(&a, 1));
        field.outside(2);
    }
    assert!(
        matches!(conflict, Some((Rival::Outside { .. }, _))),
        "{conflict:?}"
    );
}

#[test]
fn ignores_occasional_repair_of_drift() {
    let a = author("a", "c");
    let mut field = Contested::new();
    field.write(&a, 1);
    for drift in 0..1_000 {
        field.outside(2 + drift);
        assert_eq!(field.write(&a, 1), None);
        // Four reversals within any ten minutes.
        field.after(WINDOW.as_secs() / 4);
    }
}

#[test]
fn ignores_values_that_never_return() {
    let a = author("a", "c");
    let b = author("b", "c");
    let mut field = Contested::new();
    for count in 0..1_000 {
        assert_eq!(
            field.write(if count % 2 == 0 { &a } else { &b }, 1 + count),
            None
        );
    }
}

#[test]
fn busy_plugin_evicts_only_its_own_fields() {
    let quiet = author("quiet", "c");
    let noisy = author("noisy", "c");
    let mut state = State::bounded(Bounds {
        fields: 100,
        fields_of_plugin: 10,
    });
    let mut now = Instant::now();
    let change = |field, before, after| FieldChange {
        field,
        before,
        after,
        candidate: 0,
        manager: None,
    };
    let mut conflicts = 0;
    state.changed(now, &quiet, &change(1, 0, 1));
    for field in 2..1_000 {
        state.changed(now, &noisy, &change(field, 0, 1));
        assert!(state.len() <= 11, "{}", state.len());
        // An outside writer conflicts with the quiet plugin meanwhile.
        conflicts += usize::from(state.changed(now, &quiet, &change(1, 2, 1)).is_some());
    }
    assert!(conflicts > 900, "{conflicts}");
    for plugin in 0..1_000 {
        let one = author(&format!("plugin-{plugin}"), "c");
        (0..10).for_each(|at| {
            drop(state.changed(now, &one, &change(10_000 + plugin * 10 + at, 0, 1)));
        });
        assert!(state.len() <= 100, "{}", state.len());
        assert!(state.authors() <= 64, "{}", state.authors());
    }
    now += WINDOW + Duration::from_secs(1);
    state.changed(now, &quiet, &change(1, 0, 1));
    assert_eq!(state.len(), 1);
}

#[test]
fn field_written_by_all_has_bounded_memory() {
    let mut field = Contested::new();
    for at in 0..1_000 {
        field.write(&author(&format!("plugin-{at}"), "c"), at + 1);
    }
    // The writers of the field, its holder, and former ones that are not dropped yet.
    assert!(
        field.state.authors() <= 2 * (AUTHORS + 1) + 17,
        "{}",
        field.state.authors()
    );
}

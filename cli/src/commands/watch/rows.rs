//! The rows of events: decides which row an event is printed as, and which event needs none. No
//! I/O.
//!
//! The API server renders objects in their state at the request, not at the event. If a printed row
//! already shows an event's change, the event is therefore not printed again. An object that was
//! deleted, or is gone before it is rendered, is printed with its last row, or with just its name
//! and age if it has none. The status of Pods and volumes that are being deleted is replaced by
//! `Terminating`, as the API server does.

use std::collections::{HashMap, HashSet};

use k8s_openapi::jiff::Timestamp;
use operetta_core::{
    handler::event::Event,
    object::{Object, ObjectKey, kind::GroupVersionKind},
};
use operetta_kube::client::table::{Column, Row};

use super::{Change, age};

/// The kinds whose column `Status` shows `Terminating` once they have a deletionTimestamp:
/// <https://github.com/kubernetes/kubernetes/blob/master/pkg/printers/internalversion/printers.go>,
/// printPod, printPersistentVolume and printPersistentVolumeClaim.
const TERMINATING: [&str; 3] = ["Pod", "PersistentVolume", "PersistentVolumeClaim"];

/// A line of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The change.
    pub change: Change,
    /// The object's key.
    pub key: ObjectKey,
    /// The cells, in the order of the columns.
    pub cells: Vec<String>,
    /// The object's metadata.creationTimestamp in RFC 3339; empty if there is none.
    pub created: String,
}

/// The rows that were printed.
#[derive(Default)]
pub struct Rows {
    /// True if the kind is one of [`TERMINATING`].
    terminating: bool,
    columns: Vec<Column>,
    /// The objects that were printed and are not deleted.
    shown: HashMap<ObjectKey, Shown>,
}

struct Shown {
    row: Row,
    /// When the API server rendered it.
    at: Timestamp,
}

impl Rows {
    /// Creates the state of a kind.
    pub fn new(kind: &GroupVersionKind) -> Self {
        let terminating = kind.api_version == "v1" && TERMINATING.contains(&kind.kind.as_str());
        Self {
            terminating,
            ..Self::default()
        }
    }

    /// Sets the columns of the next rows.
    pub fn set_columns(&mut self, columns: &[Column]) {
        if !columns.is_empty() {
            self.columns = columns.to_vec();
        }
    }

    /// The number of objects shown.
    pub fn len(&self) -> usize {
        self.shown.len()
    }

    /// The objects to render for these events, each once.
    pub fn wanted(&self, events: &[Event]) -> Vec<ObjectKey> {
        let mut wanted = Vec::new();
        let mut seen = HashSet::new();

        for event in events {
            let object = event.object();
            let deleted = matches!(event, Event::Deleted { .. });
            if !deleted && !self.shows(object) && seen.insert(object.key()) {
                wanted.push(object.key().clone());
            }
        }

        wanted
    }

    /// Adds an object that exists at the start.
    pub fn begin(&mut self, row: Row, now: Timestamp) -> Line {
        let line = row_line(Change::Added, &row);
        self.shown.insert(row.key.clone(), Shown { row, at: now });
        line
    }

    /// The line of an event; None if an earlier line already shows it. `rendered` is the object's
    /// current row, if it has one.
    pub fn tell(&mut self, event: &Event, rendered: Option<&Row>, now: Timestamp) -> Option<Line> {
        let object = event.object();
        let key = object.key();
        let uid = object.uid();

        let change = match event {
            Event::Deleted { .. } => {
                // An object that was never printed, or its predecessor of the same name, was
                // already gone at the start.
                self.shown.get(key).filter(|shown| shown.row.uid == *uid)?;

                let shown = self.shown.remove(key)?;
                let cells = self.last(&shown, object, now);
                return Some(row_line(Change::Deleted, &Row { cells, ..shown.row }));
            }
            _ if self.shows(object) => return None,
            Event::Added { .. } => Change::Added,
            Event::Modified { .. } => Change::Modified,
        };

        let before = self.shown.get(key).filter(|shown| shown.row.uid == *uid);

        let mut row = match (rendered.filter(|row| row.uid == *uid), before, event) {
            (Some(row), _, _) => row.clone(),
            // The object was gone before anything was printed.
            (None, None, Event::Added { initial: true, .. }) => return None,
            (None, Some(before), _) => Row {
                cells: self.last(before, object, now),
                ..before.row.clone()
            },
            (None, None, _) => self.unrendered(object, now),
        };

        row.revision = row.revision.max(object.revision());

        let line = row_line(change, &row);
        self.shown.insert(key.clone(), Shown { row, at: now });
        Some(line)
    }

    /// A line for each shown object, as deleted.
    pub fn end(&mut self, now: Timestamp) -> Vec<Line> {
        let columns = &self.columns;

        let gone = self.shown.drain().map(|(_, shown)| {
            let cells = shown.aged(columns, now);
            row_line(Change::Deleted, &Row { cells, ..shown.row })
        });

        let mut gone: Vec<_> = gone.collect();
        gone.sort_by(|one, other| one.key.cmp(&other.key));
        gone
    }

    fn shows(&self, object: &Object) -> bool {
        self.shown.get(object.key()).is_some_and(|shown| {
            let revision = object.revision();
            shown.row.uid == object.uid() && revision.is_some() && shown.row.revision >= revision
        })
    }

    /// The last cells of a deleted object.
    fn last(&self, shown: &Shown, object: &Object, now: Timestamp) -> Vec<String> {
        let mut cells = shown.aged(&self.columns, now);

        if object.deleting() && self.terminating {
            for (_, cell) in self
                .columns
                .iter()
                .zip(&mut cells)
                .filter(|(column, _)| column.name == "Status")
            {
                "Terminating".clone_into(cell);
            }
        }

        cells
    }

    fn unrendered(&self, object: &Object, now: Timestamp) -> Row {
        let created = object
            .scalar_at(".metadata.creationTimestamp")
            .unwrap_or_default();
        let key = object.key().clone();

        let cell = |column: &Column| match column.name.to_lowercase().as_str() {
            "name" => key.name.clone(),
            "age" => age_of(&created, now).map(age::human).unwrap_or_default(),
            _ => String::new(),
        };

        let cells = self.columns.iter().map(cell).collect();
        Row {
            uid: object.uid().to_owned(),
            revision: None,
            created,
            cells,
            key,
        }
    }
}

impl Shown {
    /// The cells with the current age.
    fn aged(&self, columns: &[Column], now: Timestamp) -> Vec<String> {
        let mut cells = self.row.cells.clone();

        for (_, cell) in columns
            .iter()
            .zip(&mut cells)
            .filter(|(column, _)| column.name == "Age")
        {
            let current =
                age_of(&self.row.created, now).filter(|_| is_age(cell, &self.row.created, self.at));
            if let Some(seconds) = current {
                *cell = age::human(seconds);
            }
        }

        cells
    }
}

fn row_line(change: Change, row: &Row) -> Line {
    Line {
        change,
        key: row.key.clone(),
        cells: row.cells.clone(),
        created: row.created.clone(),
    }
}

/// Reports whether a cell of the column `Age` is the object's age when it was rendered: a column of
/// that name may hold anything.
pub fn is_age(cell: &str, created: &str, at: Timestamp) -> bool {
    age_of(created, at)
        .is_some_and(|then| (then - 2..=then + 1).any(|seconds| age::human(seconds) == cell))
}

/// The seconds between two times.
fn age_of(created: &str, at: Timestamp) -> Option<i64> {
    let created: Timestamp = created.parse().ok()?;
    Some(at.as_second() - created.as_second())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use operetta_core::object::ManagedFields;

    use super::*;

    const CREATED: &str = "2026-11-22T10:00:00Z";

    fn at(seconds: i64) -> Timestamp {
        let created: Timestamp = CREATED.parse().expect("a time");
        Timestamp::from_second(created.as_second() + seconds).expect("a time")
    }

    fn object(uid: &str, revision: u64) -> Arc<Object> {
        let text = format!(
            r#"{{"metadata":{{"name":"a","namespace":"n","uid":"{uid}","resourceVersion":"{revision}","creationTimestamp":"{CREATED}"}}}}"#
        );
        Arc::new(Object::untyped(&text, ManagedFields::Drop).expect("an object"))
    }

    fn added(uid: &str, revision: u64) -> Event {
        Event::Added {
            object: object(uid, revision),
            initial: false,
        }
    }

    fn modified(uid: &str, revision: u64) -> Event {
        Event::Modified {
            old: object(uid, revision),
            object: object(uid, revision),
        }
    }

    fn deleted(uid: &str, revision: u64) -> Event {
        Event::deleted(object(uid, revision))
    }

    fn row(uid: &str, revision: u64, ready: &str, age: &str) -> Row {
        Row {
            key: ObjectKey::namespaced("n", "a"),
            uid: uid.to_owned(),
            revision: Some(revision),
            created: CREATED.to_owned(),
            cells: ["a", ready, age].map(str::to_owned).to_vec(),
        }
    }

    fn rows() -> Rows {
        let mut rows = Rows::default();

        rows.set_columns(&["Name", "Ready", "Age"].map(|name| Column {
            name: name.to_owned(),
            priority: 0,
        }));

        rows
    }

    fn changed_row(
        rows: &mut Rows,
        event: &Event,
        rendered: Option<&Row>,
        seconds: i64,
    ) -> Option<(Change, String)> {
        rows.tell(event, rendered, at(seconds))
            .map(|line| (line.change, line.cells.join(" ")))
    }

    #[test]
    fn unchanged_row_is_not_printed_again() {
        let mut rows = rows();

        rows.begin(row("1", 7, "0/1", "5s"), at(5));

        let events = [
            added("1", 5),
            modified("1", 7),
            modified("1", 8),
            modified("1", 9),
        ];

        assert_eq!(rows.wanted(&events[..2]), []);
        assert_eq!(rows.wanted(&events), [ObjectKey::namespaced("n", "a")]);

        let now = row("1", 9, "1/1", "6s");
        let lines: Vec<_> = events
            .iter()
            .filter_map(|event| changed_row(&mut rows, event, Some(&now), 6))
            .collect();

        assert_eq!(lines, [(Change::Modified, "a 1/1 6s".to_owned())]);
    }

    #[test]
    fn deleted_object_is_printed_with_final_age() {
        let mut rows = rows();
        rows.begin(row("1", 7, "1/1", "5s"), at(5));
        assert_eq!(
            changed_row(&mut rows, &deleted("1", 8), None, 200),
            Some((Change::Deleted, "a 1/1 3m20s".to_owned()))
        );

        assert_eq!(changed_row(&mut rows, &deleted("1", 8), None, 200), None);

        // The column "Age" may hold something else.
        rows.begin(row("1", 7, "1/1", "old"), at(5));
        assert_eq!(
            changed_row(&mut rows, &deleted("1", 8), None, 9),
            Some((Change::Deleted, "a 1/1 old".to_owned()))
        );
    }

    #[test]
    fn deleted_pod_shows_terminating() {
        let text = format!(
            r#"{{"metadata":{{"name":"a","namespace":"n","uid":"1","resourceVersion":"8","deletionTimestamp":"{CREATED}"}}}}"#
        );

        let object = Arc::new(Object::untyped(&text, ManagedFields::Drop).expect("an object"));
        for (kind, status) in [("Pod", "Terminating"), ("Job", "Running")] {
            let mut rows = Rows::new(&GroupVersionKind::new("v1", kind));
            rows.set_columns(&["Name", "Status", "Age"].map(|name| Column {
                name: name.to_owned(),
                priority: 0,
            }));

            rows.begin(row("1", 7, "Running", "5s"), at(5));

            let event = Event::deleted(object.clone());

            assert_eq!(
                changed_row(&mut rows, &event, None, 6),
                Some((Change::Deleted, format!("a {status} 6s")))
            );
        }
    }

    #[test]
    fn object_gone_before_rendering_is_still_printed() {
        let mut rows = rows();
        assert_eq!(
            changed_row(&mut rows, &added("1", 7), None, 9),
            Some((Change::Added, "a  9s".to_owned()))
        );
        assert_eq!(
            changed_row(&mut rows, &deleted("1", 8), None, 9),
            Some((Change::Deleted, "a  9s".to_owned()))
        );

        // Its successor has the row.
        rows.begin(row("1", 7, "1/1", "5s"), at(5));

        let next = row("2", 12, "0/1", "0s");
        let events = [modified("1", 9), deleted("1", 10), added("2", 12)];
        let lines: Vec<_> = events
            .iter()
            .filter_map(|event| changed_row(&mut rows, event, Some(&next), 6))
            .collect();

        let wanted = [
            (Change::Modified, "a 1/1 6s"),
            (Change::Deleted, "a 1/1 6s"),
            (Change::Added, "a 0/1 0s"),
        ];

        assert_eq!(
            lines,
            wanted.map(|(change, text)| (change, text.to_owned()))
        );
    }

    #[test]
    fn what_was_gone_at_the_beginning_is_never_printed() {
        let mut rows = rows();
        let initial = Event::Added {
            object: object("1", 7),
            initial: true,
        };

        assert_eq!(changed_row(&mut rows, &initial, None, 9), None);
        assert_eq!(changed_row(&mut rows, &deleted("1", 8), None, 9), None);

        // Its successor was there.
        rows.begin(row("2", 12, "1/1", "5s"), at(5));
        assert_eq!(changed_row(&mut rows, &deleted("1", 8), None, 9), None);
        assert_eq!(rows.len(), 1);
    }

    #[test]
    fn when_the_kind_goes_all_that_is_shown_goes() {
        let mut rows = rows();
        rows.begin(row("1", 7, "1/1", "5s"), at(5));
        let lines = rows.end(at(7));
        assert_eq!(lines[0].cells, ["a", "1/1", "7s"]);
        assert_eq!((lines[0].change, rows.len()), (Change::Deleted, 0));
    }
}

//! A table that is sorted, filtered and scrolled. No I/O.
//!
//! The selection stays on its object when the order changes. The order is computed once per
//! drawing, not per change, so that a change costs the same with 100,000 rows as with ten.

use std::{borrow::Cow, cmp::Ordering, collections::HashMap};

use operetta_core::object::ObjectKey;
use operetta_host::terminal;

use super::{super::watch::human_age, filter::Filter};

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// The title in capitals.
    pub title: String,
    /// True if cells are aligned at the right, as numbers are.
    pub is_right: bool,
    /// The width that it is never narrowed below.
    pub min: usize,
    /// If there is no room, columns with the highest rank above 0 are left out first.
    pub rank: u8,
    /// True if it is shown only if all others have their full width.
    pub is_extra: bool,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The text, escaped for a terminal; empty for an age.
    pub text: String,
    /// The value to sort by.
    pub value: Value,
}

/// The value of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Value {
    /// The text itself.
    #[default]
    Text,
    /// A number.
    Number(f64),
    /// The time since this second after the Unix epoch.
    Since(i64),
}

impl Cell {
    /// Creates a cell that is sorted by its text.
    pub fn text(text: &str) -> Self {
        Self {
            text: terminal::line(text),
            value: Value::Text,
        }
    }

    /// Creates a cell that is sorted by a number.
    pub fn number(text: &str, number: f64) -> Self {
        Self {
            text: terminal::line(text),
            value: Value::Number(number),
        }
    }

    /// Creates a cell with the age of something created at this second after the Unix epoch.
    pub fn since(second: i64) -> Self {
        Self {
            text: String::new(),
            value: Value::Since(second),
        }
    }

    /// The text at a second after the Unix epoch.
    pub fn shown(&self, now: i64) -> Cow<'_, str> {
        match self.value {
            Value::Since(second) => human_age(now - second).into(),
            _ => (&self.text).into(),
        }
    }

    /// The number to sort by, if it is one.
    pub fn sort_number(&self) -> Option<f64> {
        match self.value {
            Value::Text => None,
            Value::Number(number) => Some(number),
            // A f64 represents these seconds exactly.
            Value::Since(second) => Some(-(second as f64)),
        }
    }
}

/// The health of an object, which its row's color shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Health {
    /// Its condition Ready is True.
    Ready,
    /// It is ready and its condition Degraded is True.
    Degraded,
    /// Its condition Ready is False.
    NotReady,
    /// It has no condition Ready, or one that is Unknown.
    #[default]
    Unknown,
}

impl Health {
    /// The health according to the conditions Ready and Degraded.
    pub fn of(ready: Option<&str>, degraded: Option<&str>) -> Self {
        match (ready, degraded) {
            (Some("True"), Some("True")) => Self::Degraded,
            (Some("True"), _) => Self::Ready,
            (Some("False"), _) => Self::NotReady,
            _ => Self::Unknown,
        }
    }
}

/// The row of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The object's key.
    pub key: ObjectKey,
    /// The cells, one for each column.
    pub cells: Vec<Cell>,
    /// The health.
    pub health: Health,
}

/// The rows of a view.
#[derive(Default)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    rows: Vec<Row>,
    /// The position of each object in `rows`.
    at: HashMap<ObjectKey, usize>,
    /// The positions in `rows` of the rows that pass the filter, sorted.
    order: Vec<usize>,
    /// True if `order` is out of date.
    is_stale: bool,
    sort: Sort,
    filter: Filter,
    selected: Option<ObjectKey>,
    /// The position of the selection in `order`.
    cursor: usize,
    /// The position in `order` of the first row that is drawn.
    first: usize,
}

/// The order of the rows.
#[derive(Default)]
struct Sort {
    /// The title of the column that the rows are sorted by; None to sort by key.
    title: Option<String>,
    /// True if the largest is first.
    is_descending: bool,
}

impl Table {
    /// Creates a table that is sorted by a column.
    pub fn sorted_by(title: &str, is_descending: bool) -> Self {
        Self {
            sort: Sort {
                title: Some(title.to_owned()),
                is_descending,
            },
            ..Self::default()
        }
    }

    /// Adds a row, or replaces the one of the same object.
    pub fn put(&mut self, row: Row) {
        self.is_stale = true;
        match self.at.get(&row.key) {
            Some(at) => self.rows[*at] = row,
            None => {
                self.at.insert(row.key.clone(), self.rows.len());
                self.rows.push(row);
            }
        }
    }

    /// Removes the row of an object.
    pub fn remove(&mut self, key: &ObjectKey) {
        let Some(at) = self.at.remove(key) else {
            return;
        };

        self.is_stale = true;
        self.rows.swap_remove(at);

        if let Some(moved) = self.rows.get(at) {
            self.at.insert(moved.key.clone(), at);
        }
    }

    /// Replaces all rows.
    pub fn replace(&mut self, rows: Vec<Row>) {
        self.at = rows
            .iter()
            .enumerate()
            .map(|(at, row)| (row.key.clone(), at))
            .collect();
        self.rows = rows;
        self.is_stale = true;
    }

    /// All rows, in no particular order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// A row, to change it.
    pub fn row_mut(&mut self, key: &ObjectKey) -> Option<&mut Row> {
        self.at.get(key).map(|at| &mut self.rows[*at])
    }

    /// The rows that pass the filter, sorted.
    pub fn shown(&self) -> impl Iterator<Item = &Row> {
        self.order.iter().map(|at| &self.rows[*at])
    }

    /// How many rows pass the filter.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// The rows to draw in a window of `height` lines, and the position of the selection among
    /// them. The window moves as little as it can to contain the selection.
    pub fn window(&mut self, height: usize) -> (Vec<&Row>, usize) {
        self.arrange();

        let height = height.max(1);
        self.first = self
            .first
            .min(self.cursor)
            .max((self.cursor + 1).saturating_sub(height));
        self.first = self.first.min(self.order.len().saturating_sub(height));

        let rows = self
            .order
            .iter()
            .skip(self.first)
            .take(height)
            .map(|at| &self.rows[*at])
            .collect();

        (rows, self.cursor - self.first)
    }

    /// Filters and sorts the rows, if anything has changed.
    pub fn arrange(&mut self) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }

        let Self { rows, filter, .. } = &*self;
        let accepts =
            |row: &Row| filter.accepts(&row.key, row.cells.iter().map(|cell| cell.text.as_str()));
        let mut order: Vec<usize> = (0..rows.len()).filter(|at| accepts(&rows[*at])).collect();

        let column = self.sort_column();
        let compare = |one: &usize, other: &usize| {
            let (one, other) = (&rows[*one], &rows[*other]);
            let by_cell = column.map_or(Ordering::Equal, |at| {
                compare(one.cells.get(at), other.cells.get(at))
            });
            let by_cell = if self.sort.is_descending {
                by_cell.reverse()
            } else {
                by_cell
            };
            by_cell.then_with(|| one.key.cmp(&other.key))
        };

        order.sort_unstable_by(compare);
        self.order = order;

        let at = self.selected.as_ref().and_then(|key| self.at.get(key));
        let found = at.and_then(|at| self.order.iter().position(|other| other == at));
        self.cursor = found.unwrap_or(self.cursor.min(self.order.len().saturating_sub(1)));
    }

    /// Moves the selection down by a number of rows, or up.
    pub fn move_by(&mut self, rows: isize) {
        self.arrange();

        self.cursor = self
            .cursor
            .saturating_add_signed(rows)
            .min(self.order.len().saturating_sub(1));

        self.selected = self
            .order
            .get(self.cursor)
            .map(|at| self.rows[*at].key.clone());
    }

    /// The object of the selected row.
    pub fn selected(&mut self) -> Option<ObjectKey> {
        self.arrange();
        self.order
            .get(self.cursor)
            .map(|at| self.rows[*at].key.clone())
    }

    /// Sorts by the column with this title, if there is one.
    pub fn sort_by(&mut self, title: &str, is_descending: bool) {
        if self.columns.iter().any(|column| column.title == title) {
            self.sort.title = Some(title.to_owned());
            self.sort.is_descending = is_descending;
            self.is_stale = true;
        }
    }

    /// Sorts by the next column on the right, or on the left.
    pub fn sort_by_neighbor(&mut self, step: isize) {
        let count = self.columns.len().cast_signed();
        if count > 0 {
            let now = self.sort_column().map_or(-1, usize::cast_signed);
            let next = (now + step).rem_euclid(count).cast_unsigned();
            self.sort.title = Some(self.columns[next].title.clone());
            self.is_stale = true;
        }
    }

    /// Reverses the order.
    pub fn invert(&mut self) {
        self.sort.is_descending = !self.sort.is_descending;
        self.is_stale = true;
    }

    /// The column that the rows are sorted by, and whether the largest is first.
    pub fn sort(&self) -> (Option<usize>, bool) {
        (self.sort_column(), self.sort.is_descending)
    }

    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Sets the filter.
    pub fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
        self.is_stale = true;
    }

    fn sort_column(&self) -> Option<usize> {
        let title = self.sort.title.as_ref()?;
        self.columns
            .iter()
            .position(|column| column.title == *title)
    }
}

/// Compares cells: no number is below any number.
fn compare(one: Option<&Cell>, other: Option<&Cell>) -> Ordering {
    let (Some(one), Some(other)) = (one, other) else {
        return one.is_some().cmp(&other.is_some());
    };

    match (one.sort_number(), other.sort_number()) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        (None, None) => one.text.cmp(&other.text),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, number: f64) -> Row {
        let cells = vec![Cell::text(name), Cell::number(&number.to_string(), number)];
        Row {
            key: ObjectKey::namespaced("n", name),
            cells,
            health: Health::Ready,
        }
    }

    fn table(rows: &[(&str, f64)]) -> Table {
        let mut table = Table::sorted_by("CPU", true);
        table.columns = ["NAME", "CPU"]
            .map(|title| Column {
                title: title.to_owned(),
                ..Column::default()
            })
            .to_vec();

        table.replace(
            rows.iter()
                .map(|(name, number)| row(name, *number))
                .collect(),
        );

        table
    }

    fn names(table: &mut Table) -> String {
        table.arrange();
        table
            .shown()
            .map(|row| row.key.name.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn rows_are_sorted_by_number_then_by_key() {
        let mut table = table(&[("b", 2.0), ("c", 10.0), ("a", 2.0)]);
        assert_eq!(names(&mut table), "c a b");

        table.invert();
        assert_eq!(names(&mut table), "a b c");

        table.sort_by_neighbor(1);
        assert_eq!(
            (names(&mut table).as_str(), table.sort()),
            ("a b c", (Some(0), false))
        );

        table.sort_by_neighbor(-1);
        assert_eq!(table.sort(), (Some(1), false));

        table.sort_by("NONE", true);
        assert_eq!(table.sort(), (Some(1), false));
    }

    #[test]
    fn selection_stays_on_its_object_and_the_window_follows() {
        let mut table = table(&[("a", 5.0), ("b", 4.0), ("c", 3.0), ("d", 2.0), ("e", 1.0)]);

        table.move_by(1);
        assert_eq!(table.selected().map(|key| key.name).as_deref(), Some("b"));

        table.put(row("b", 0.0));
        let (rows, at) = table.window(2);
        assert_eq!((rows[at].key.name.as_str(), rows.len()), ("b", 2));

        table.remove(&ObjectKey::namespaced("n", "b"));
        let (rows, at) = table.window(2);
        assert_eq!(rows[at].key.name, "e");

        table.move_by(-100);
        assert_eq!(table.window(2).1, 0);

        table.replace(vec![]);
        assert_eq!((table.window(2).0.len(), table.selected()), (0, None));
        table.move_by(1);
    }

    #[test]
    fn filter_hides_rows() {
        let mut table = table(&[("web", 5.0), ("db", 4.0)]);
        table.set_filter(Filter::new("WE"));
        assert_eq!((names(&mut table).as_str(), table.rows().len()), ("web", 2));

        table.put(row("web-2", 1.0));
        table.remove(&ObjectKey::namespaced("n", "web"));
        assert_eq!(names(&mut table), "web-2");
    }

    #[test]
    fn hundred_thousand_rows_are_arranged_at_once() {
        let mut table = table(&[]);
        table.replace(
            (0..100_000)
                .map(|at| row(&format!("object-{at}"), f64::from(at % 1000)))
                .collect(),
        );

        let began = std::time::Instant::now();
        assert_eq!(table.window(50).0.len(), 50);
        for at in 0..1000 {
            table.put(row(&format!("object-{at}"), 1e9));
        }
        assert_eq!(table.window(50).0[0].cells[1].sort_number(), Some(1e9));

        println!(
            "100,000 rows twice, and 1,000 changes: {:?}",
            began.elapsed()
        );
        // A limit that only a quadratic algorithm exceeds, also in a debug build.
        assert!(began.elapsed() < std::time::Duration::from_secs(20));
    }
}

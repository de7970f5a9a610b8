//! The rows of the objects of any kind, as the API server renders them. No I/O.

use k8s_openapi::jiff::Timestamp;
use operetta_core::object::Object;
use operetta_host::terminal;
use operetta_kube::client::table::Column as ApiColumn;
use serde::Deserialize;

use super::{
    super::watch::{Line, rows::is_age},
    plugins::second,
    table::{Cell, Column, Health, Row},
};

/// The fields of an object that are not kept: the rows come from the API server, and the health
/// from the conditions.
pub const LEFT_OUT: [&str; 6] = [
    ".spec",
    ".data",
    ".binaryData",
    ".stringData",
    ".metadata.annotations",
    ".rules",
];

/// The columns of a table.
pub fn columns(columns: &[ApiColumn], has_namespaces: bool) -> Vec<Column> {
    let column = |(at, column): (usize, &ApiColumn)| Column {
        title: terminal::line(&column.name.to_uppercase()),
        // An extra column is shown whole or not at all.
        min: match at {
            _ if column.priority > 0 => usize::MAX,
            0 => 20,
            _ => 6,
        },
        rank: u8::from(at > 0) * u8::try_from(at).unwrap_or(u8::MAX),
        is_extra: column.priority > 0,
        ..Column::default()
    };

    let namespace = Column {
        title: "NAMESPACE".to_owned(),
        min: 9,
        ..Column::default()
    };

    let namespace = has_namespaces.then_some(namespace);
    namespace
        .into_iter()
        .chain(columns.iter().enumerate().map(column))
        .collect()
}

/// The row of an object that was rendered at `at`.
pub fn row(
    line: &Line,
    columns: &[ApiColumn],
    has_namespaces: bool,
    health: Health,
    at: Timestamp,
) -> Row {
    let cell = |(column, cell): (&ApiColumn, &String)| match second(&line.created) {
        Some(created) if column.name == "Age" && is_age(cell, &line.created, at) => {
            Cell::since(created)
        }
        _ => cell
            .parse::<f64>()
            .map_or_else(|_| Cell::text(cell), |number| Cell::number(cell, number)),
    };

    let namespace = line.key.namespace.as_deref().unwrap_or_default();
    let namespace = has_namespaces.then_some(Cell::text(namespace));
    let cells = namespace
        .into_iter()
        .chain(columns.iter().zip(&line.cells).map(cell))
        .collect();

    Row {
        key: line.key.clone(),
        cells,
        health,
    }
}

/// The health according to the conditions in an object's status.
pub fn health(object: &Object) -> Health {
    #[derive(Deserialize)]
    struct Condition {
        #[serde(rename = "type")]
        type_: String,
        status: String,
    }

    let conditions = object
        .at(".status.conditions")
        .and_then(|text| serde_json::from_str(text).ok());
    let conditions: Vec<Condition> = conditions.unwrap_or_default();

    let status = |name: &str| {
        conditions
            .iter()
            .find(|one| one.type_ == name)
            .map(|one| one.status.as_str())
    };

    Health::of(status("Ready"), status("Degraded"))
}

#[cfg(test)]
mod tests {
    use operetta_core::object::{ManagedFields, ObjectKey};

    use super::*;
    use crate::commands::watch::Change;

    #[test]
    fn age_is_counted_on_and_numbers_are_sorted_as_numbers() {
        let columns = ["Name", "Size", "Age"].map(|name| ApiColumn {
            name: name.to_owned(),
            priority: 0,
        });

        let line = Line {
            change: Change::Added,
            key: ObjectKey::namespaced("n", "a"),
            cells: ["a", "12", "5s"].map(str::to_owned).to_vec(),
            created: "2026-11-22T10:00:00Z".to_owned(),
        };

        let at = "2026-11-22T10:00:05Z".parse().expect("a time");
        let row = row(&line, &columns, true, Health::Ready, at);

        let shown: Vec<_> = row
            .cells
            .iter()
            .map(|cell| cell.shown(at.as_second() + 60))
            .collect();
        assert_eq!(shown, ["n", "a", "12", "65s"]);
        assert_eq!(row.cells[2].sort_number(), Some(12.0));
    }

    #[test]
    fn health_is_that_of_the_conditions() {
        for (status, expected) in [
            (
                r#"{"conditions":[{"type":"Ready","status":"True"}]}"#,
                Health::Ready,
            ),
            (
                r#"{"conditions":[{"type":"Ready","status":"False"}]}"#,
                Health::NotReady,
            ),
            (
                r#"{"conditions":[{"type":"Ready","status":"Unknown"}]}"#,
                Health::Unknown,
            ),
            (r#"{"conditions":"no"}"#, Health::Unknown),
            ("{}", Health::Unknown),
        ] {
            let text = format!(r#"{{"metadata":{{"name":"a"}},"status":{status}}}"#);
            let object = Object::untyped(&text, ManagedFields::Drop).expect("an object");
            assert_eq!(health(&object), expected, "{status}");
        }
    }
}

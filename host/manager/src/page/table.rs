//! The API server's tables: printer columns and rows, with each object's health and conditions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    failing::Failing,
    health::{Health, conditions, health},
};

/// Requests a table, or JSON from API servers that render none.
pub(super) const ACCEPT: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// The longest text of a cell, in bytes.
const MAX_CELL: usize = 2_000;

/// A printer column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Column {
    pub name: String,
    #[serde(rename = "type")]
    pub type_: String,
    /// Columns above 0 are only for wide tables.
    pub priority: i32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub cells: Vec<Value>,
    pub created: String,
    pub health: Health,
    pub conditions: BTreeMap<String, String>,
    #[serde(skip)]
    pub revision: String,
}

/// A page of a list, or the object of an event.
#[derive(Debug, PartialEq)]
pub(super) struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// The list's resourceVersion.
    pub revision: String,
    /// Empty at the end of the list.
    pub continue_token: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireTable {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    column_definitions: Option<Vec<Column>>,
    #[serde(default)]
    rows: Option<Vec<WireRow>>,
    /// The items, if the API server renders no tables.
    #[serde(default)]
    items: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct WireRow {
    #[serde(default)]
    cells: Vec<Value>,
    #[serde(default)]
    object: Value,
}

impl Table {
    /// Parses a list.
    ///
    /// # Errors
    /// When it is neither a table nor a list.
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let list: WireTable = serde_json::from_str(text)?;
        let meta = |name: &str| list.metadata[name].as_str().unwrap_or_default().to_owned();
        let revision = meta("resourceVersion");
        let continue_token = meta("continue");

        if list.kind == "Table" {
            let rows = list
                .rows
                .unwrap_or_default()
                .into_iter()
                .map(|row| Row::new(&row.object, row.cells))
                .collect();
            return Ok(Self {
                columns: list.column_definitions.unwrap_or_default(),
                rows,
                revision,
                continue_token,
            });
        }

        let name = Column {
            name: "Name".to_owned(),
            type_: "string".to_owned(),
            priority: 0,
        };
        let rows = list
            .items
            .unwrap_or_default()
            .iter()
            .map(Row::named)
            .collect();

        Ok(Self {
            columns: vec![name],
            rows,
            revision,
            continue_token,
        })
    }

    /// Makes the objects unhealthy whose reconciles fail.
    pub(super) fn mark(&mut self, failing: &Failing) {
        for row in &mut self.rows {
            if failing.has(&row.namespace, &row.name) {
                row.health = Health::Bad;
            }
        }
    }

    /// Parses the object of a watch event.
    ///
    /// # Errors
    /// When it isn't an object.
    pub(super) fn read_event(text: &str) -> Result<Self, serde_json::Error> {
        let object: Value = serde_json::from_str(text)?;
        if object["kind"] == "Table" {
            return Self::read(text);
        }

        let revision = object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let rows = vec![Row::named(&object)];

        Ok(Self {
            columns: Vec::new(),
            rows,
            revision,
            continue_token: String::new(),
        })
    }

    /// Returns the resourceVersion this event takes the watch to.
    pub(super) fn reached(&self) -> &str {
        self.rows
            .last()
            .map(|row| row.revision.as_str())
            .filter(|revision| !revision.is_empty())
            .unwrap_or(&self.revision)
    }
}

impl Row {
    fn named(object: &Value) -> Self {
        Self::new(object, vec![object["metadata"]["name"].clone()])
    }

    fn new(object: &Value, cells: Vec<Value>) -> Self {
        let meta = |name: &str| {
            object["metadata"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            uid: meta("uid"),
            namespace: meta("namespace"),
            name: meta("name"),
            cells: cells.into_iter().map(bounded).collect(),
            created: meta("creationTimestamp"),
            health: health(object),
            conditions: conditions(object),
            revision: meta("resourceVersion"),
        }
    }
}

/// Turns a cell into a short text, a number or a boolean.
fn bounded(cell: Value) -> Value {
    let text = match cell {
        Value::Null => return Value::String(String::new()),
        Value::Bool(_) | Value::Number(_) => return cell,
        Value::String(text) => text,
        other => other.to_string(),
    };
    match text.len() > MAX_CELL {
        true => Value::String(format!("{}…", &text[..text.floor_char_boundary(MAX_CELL)])),
        false => Value::String(text),
    }
}

pub(super) fn shown(cell: &Value) -> String {
    cell.as_str()
        .map_or_else(|| cell.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use operetta_core::object::ObjectKey;

    use super::*;

    #[test]
    fn table_has_columns_rows_and_where_to_continue() {
        let text = r#"{"kind":"Table","metadata":{"resourceVersion":"9","continue":"t"},
            "columnDefinitions":[{"name":"Name","type":"string","format":"name","priority":0}],
            "rows":[{"cells":["a",3,null,{"x":1}],"object":{"metadata":{"name":"a","uid":"u","resourceVersion":"7"},
            "status":{"conditions":[{"type":"Ready","status":"True"}]}}}]}"#;
        let table = Table::read(text).expect("a table");
        assert_eq!(
            (
                table.revision.as_str(),
                table.continue_token.as_str(),
                table.reached()
            ),
            ("9", "t", "7")
        );

        let row = &table.rows[0];
        assert_eq!(
            (
                row.cells[1].clone(),
                row.cells[2].as_str(),
                row.cells[3].as_str()
            ),
            (3.into(), Some(""), Some("{\"x\":1}"))
        );
        assert_eq!(
            (row.health, row.conditions["Ready"].as_str()),
            (Health::Ok, "True")
        );
    }

    #[test]
    fn object_whose_reconcile_fails_is_unhealthy() {
        let list = r#"{"kind":"FooList","metadata":{},"items":[{"metadata":{"name":"a","namespace":"n"}},
            {"metadata":{"name":"a","namespace":"m"}}]}"#;
        let mut table = Table::read(list).expect("a list");
        let failing: Failing = [ObjectKey::namespaced("n", "a")].into_iter().collect();
        table.mark(&failing);
        assert_eq!(
            (table.rows[0].health, table.rows[1].health),
            (Health::Bad, Health::Unknown)
        );
    }

    #[test]
    fn server_without_tables_gives_names() {
        let list =
            Table::read(r#"{"kind":"FooList","metadata":{},"items":[{"metadata":{"name":"a"}}]}"#)
                .expect("a list");
        assert_eq!(
            (list.columns.len(), list.rows[0].cells[0].as_str()),
            (1, Some("a"))
        );

        let event =
            Table::read_event(r#"{"kind":"Foo","metadata":{"name":"a","resourceVersion":"3"}}"#)
                .expect("an event");
        assert_eq!((event.rows.len(), event.reached()), (1, "3"));

        let bookmark = r#"{"kind":"Table","metadata":{"resourceVersion":"8"},"rows":[]}"#;
        assert_eq!(
            Table::read_event(bookmark).expect("a bookmark").reached(),
            "8"
        );
    }

    #[test]
    fn long_cell_is_cut() {
        let cell = bounded(Value::String("é".repeat(MAX_CELL)));
        assert!(
            cell.as_str()
                .is_some_and(|text| text.len() < MAX_CELL + 10 && text.ends_with('…'))
        );
    }
}

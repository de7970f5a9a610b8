//! The columns of tables that kinds have in common.

use jiff::Timestamp;
use serde_json::Value;

use crate::apimachinery::duration;

/// A column of a kind's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// The title.
    pub name: String,
    /// The type, such as `string`, `integer` or `date`.
    pub kind: String,
    /// The format, such as `name`, or `""`.
    pub format: String,
    /// The description.
    pub description: String,
    /// 0 is shown always, more only in wide tables.
    pub priority: i32,
}

impl Column {
    /// Reads a column as tables have it.
    #[must_use]
    pub fn from_value(column: &Value) -> Self {
        let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: column["priority"]
                .as_i64()
                .and_then(|priority| i32::try_from(priority).ok())
                .unwrap_or_default(),
        }
    }
}

/// Returns the column of the object's name.
#[must_use]
pub fn name_column() -> Column {
    let description = "Name must be unique within a namespace. Is required when creating resources, although some \
        resources may allow a client to request the generation of an appropriate name automatically. Name is primarily \
        intended for creation idempotence and configuration definition. Cannot be updated. More info: \
        https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
    Column {
        name: "Name".into(),
        kind: "string".into(),
        format: "name".into(),
        description: description.into(),
        priority: 0,
    }
}

/// Returns the column of the object's age: a `string` of built-in kinds, a `date` of custom ones.
#[must_use]
pub fn age_column(kind: &str) -> Column {
    let description = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
        not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It \
        is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
        https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
    Column {
        name: "Age".into(),
        kind: kind.into(),
        description: description.into(),
        ..Column::default()
    }
}

/// Returns the age of an object, as tables show it.
#[must_use]
pub fn age(object: &Value, now: Timestamp) -> String {
    let created = object["metadata"]["creationTimestamp"]
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok());
    created.map_or_else(
        || "<unknown>".into(),
        |created| duration::human(now.duration_since(created)),
    )
}

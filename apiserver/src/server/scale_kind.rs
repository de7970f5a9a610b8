//! The kind `Scale`, as tables show it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    columns::{Column, age, age_column, name_column},
    resource::{Flavor, TableConvertor},
};

/// The scale of objects of built-in or of custom resources, whose columns differ.
pub(super) struct ScaleKind(pub Flavor);

fn number_column(name: &str, description: &str) -> Column {
    Column {
        name: name.into(),
        kind: "integer".into(),
        description: description.into(),
        ..Column::default()
    }
}

impl TableConvertor for ScaleKind {
    fn columns(&self) -> Vec<Column> {
        match self.0 {
            Flavor::BuiltIn => vec![
                Column {
                    format: String::new(),
                    ..name_column()
                },
                number_column(
                    "Desired",
                    "replicas is the desired number of instances for the scaled object.",
                ),
                number_column(
                    "Available",
                    "replicas is the actual number of observed instances of the scaled object.",
                ),
                age_column("string"),
            ],
            Flavor::Custom => vec![
                name_column(),
                number_column("Desired", "Number of desired replicas"),
                number_column("Available", "Number of actual replicas"),
                age_column("date"),
            ],
        }
    }

    fn cells(&self, scale: &Value, now: Timestamp) -> Vec<Value> {
        let number = |value: &Value| json!(value.as_i64().unwrap_or_default());
        let (desired, available) = (
            number(&scale["spec"]["replicas"]),
            number(&scale["status"]["replicas"]),
        );

        vec![
            scale["metadata"]["name"].clone(),
            desired,
            available,
            json!(age(scale, now)),
        ]
    }
}

//! The columns of tables, as the API server prints them for `kubectl get`. Those of `-o wide` have
//! priority 1. See
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/printers/internalversion/printers.go>.

mod config;
mod format;
mod network;
mod pod;
mod storage;
mod workload;

use serde_json::{Value, json};

use super::{
    codec::Instant,
    data::DATA,
    object::{at, text},
    resources::Resource,
};
use crate::apimachinery::duration;

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// A value for each column.
    pub cells: Vec<Value>,
    /// The row's conditions: whether a Pod has completed.
    pub conditions: Vec<Value>,
}

/// Returns the columnDefinitions of a resource's table; empty if it cannot be listed.
pub fn table_columns(resource: &Resource) -> Value {
    let key = format!("{} {}", resource.api_version(), resource.plural);
    DATA.columns.get(&key).cloned().unwrap_or_else(|| json!([]))
}

/// Returns an object's row. Kinds without columns of their own show the name and the creation time.
pub fn table_row(api_version: &str, kind: &str, object: &Value, now: Instant) -> TableRow {
    let printer = Printer { object, now };
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);

    let cells = match group {
        "" => core(kind, &printer),
        "apps" | "batch" | "policy" | "autoscaling" => workload::cells(kind, &printer),
        "networking.k8s.io" | "discovery.k8s.io" => network::cells(kind, &printer),
        "storage.k8s.io" => storage::cells(kind, &printer),
        "events.k8s.io" => config::cells(kind, &printer),
        _ => config::cells(kind, &printer),
    };

    let conditions = if group.is_empty() && kind == "Pod" {
        pod::conditions(object)
    } else {
        Vec::new()
    };

    TableRow {
        cells: cells.unwrap_or_else(|| vec![printer.name(), printer.created()]),
        conditions,
    }
}

fn core(kind: &str, printer: &Printer<'_>) -> Option<Vec<Value>> {
    match kind {
        "Pod" => Some(pod::cells(printer)),
        "PodTemplate" | "ReplicationController" => workload::cells(kind, printer),
        "Service" | "Endpoints" => network::cells(kind, printer),
        "PersistentVolume" | "PersistentVolumeClaim" => storage::cells(kind, printer),
        _ => config::cells(kind, printer),
    }
}

/// An object, and the current time for its ages.
struct Printer<'a> {
    object: &'a Value,
    now: Instant,
}

impl Printer<'_> {
    fn at(&self, path: &str) -> &Value {
        at(self.object, path)
    }

    fn text(&self, path: &str) -> &str {
        text(self.object, path)
    }

    /// The number at a path, or 0.
    fn number(&self, path: &str) -> i64 {
        self.at(path).as_i64().unwrap_or(0)
    }

    fn name(&self) -> Value {
        self.text("metadata.name").into()
    }

    fn created(&self) -> Value {
        self.at("metadata.creationTimestamp").clone()
    }

    fn age(&self) -> Value {
        self.since("metadata.creationTimestamp").into()
    }

    /// How long ago the time at a path was.
    fn since(&self, path: &str) -> String {
        self.since_text(self.text(path))
    }

    /// How long ago a time was.
    fn since_text(&self, time: &str) -> String {
        match Instant::parse(time) {
            Ok(time) => duration::human(self.now.since(time)),
            Err(_) => "<unknown>".to_owned(),
        }
    }

    /// The text at a path, or a default.
    fn text_or(&self, path: &str, default: &str) -> Value {
        match self.text(path) {
            "" => default.into(),
            text => text.into(),
        }
    }
}

//! Prints objects as kubectl does: as a table, JSON, YAML or names.

use std::io::{self, Write};

use operetta_core::object::Object;
use operetta_kube::{client::table::Column, discovery::ApiResource};
use serde::Serialize;
use serde_json::{Value, json, ser::PrettyFormatter};

use super::{Change, rows::Line, source::qualified};
use crate::{args::WatchOutput, commands::tab_writer::TabWriter};

/// The printer of tables.
pub struct TablePrinter {
    /// True to print the columns of `-o wide`.
    pub wide: bool,
    /// True to print the namespace first.
    pub namespaces: bool,
    /// True to print the type of the event first.
    pub events: bool,
    writer: TabWriter,
    /// The header of the lines printed last; None before the first line.
    columns: Option<Vec<Column>>,
}

impl TablePrinter {
    /// Creates a printer.
    pub fn new(wide: bool, namespaces: bool, events: bool) -> Self {
        Self {
            wide,
            namespaces,
            events,
            writer: TabWriter::default(),
            columns: None,
        }
    }

    /// Prints lines, with a header if the columns have changed.
    ///
    /// # Errors
    /// Returns an error if stdout cannot be written.
    pub fn print(&mut self, columns: &[Column], lines: &[Line]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }

        let mut text = Vec::new();

        if self.columns.as_deref() != Some(columns) {
            let names = columns
                .iter()
                .map(|column| column.name.to_uppercase())
                .collect();
            text.push(self.cells("EVENT", "NAMESPACE", names, columns));
            self.columns = Some(columns.to_vec());
        }

        for line in lines {
            let namespace = line.key.namespace.as_deref().unwrap_or_default();
            text.push(self.cells(line.change.padded(), namespace, line.cells.clone(), columns));
        }

        write(&self.writer.lines(&text))
    }

    fn cells(
        &self,
        event: &str,
        namespace: &str,
        cells: Vec<String>,
        columns: &[Column],
    ) -> Vec<String> {
        let event = self.events.then(|| event.to_owned());
        let namespace = self.namespaces.then(|| namespace.to_owned());

        let shown = cells
            .into_iter()
            .zip(columns)
            .filter(|(_, column)| self.wide || column.priority == 0);

        event
            .into_iter()
            .chain(namespace)
            .chain(shown.map(|(cell, _)| cell))
            .collect()
    }
}

/// The printer of single objects.
pub struct ObjectPrinter {
    output: WatchOutput,
    /// True to print the type of the event with each object.
    events: bool,
    printed: bool,
}

impl ObjectPrinter {
    /// Creates a printer.
    pub fn new(output: WatchOutput, events: bool) -> Self {
        Self {
            output,
            events,
            printed: false,
        }
    }

    /// Prints an object.
    ///
    /// # Errors
    /// Returns an error if stdout cannot be written.
    pub fn print(
        &mut self,
        change: Change,
        object: &Object,
        resource: &ApiResource,
    ) -> io::Result<()> {
        let value: Value = serde_json::from_str(object.json())?;

        let text = match (self.output, self.events) {
            (WatchOutput::Name, _) => format!("{}\n", name(object, resource)),
            (WatchOutput::Yaml, events) => {
                let value = if events {
                    json!({"type": change.name(), "object": value})
                } else {
                    value
                };

                let separator = if self.printed { "---\n" } else { "" };
                let yaml = serde_yaml_ng::to_string(&value).map_err(io::Error::other)?;
                format!("{separator}{yaml}")
            }
            (_, true) => format!("{{\"type\":\"{}\",\"object\":{value}}}\n", change.name()),
            (_, false) => {
                let mut text = Vec::new();
                let formatter = PrettyFormatter::with_indent(b"    ");
                value.serialize(&mut serde_json::Serializer::with_formatter(
                    &mut text, formatter,
                ))?;
                String::from_utf8(text).map_err(io::Error::other)? + "\n"
            }
        };

        self.printed = true;
        write(&text)
    }
}

/// Formats an object's name: `pod/a`, `deployment.apps/a`.
fn name(object: &Object, resource: &ApiResource) -> String {
    format!(
        "{}/{}",
        qualified(&resource.kind.kind.to_lowercase(), &resource.kind),
        object.key().name
    )
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

impl Change {
    /// The type in a metav1.WatchEvent.
    fn name(self) -> &'static str {
        self.padded().trim_end()
    }

    /// The word as kubectl pads it in a table.
    fn padded(self) -> &'static str {
        match self {
            Self::Added => "ADDED   ",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED ",
        }
    }
}

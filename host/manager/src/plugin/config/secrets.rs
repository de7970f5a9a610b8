//! Configuration values that may come from Secrets. Their texts are overwritten before the memory
//! is reused.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use operetta_api::reasons;
use operetta_core::gate::PluginConfig;
use serde_json::{Map, Value};
use zeroize::Zeroize;

use super::references::Content;
use crate::problem::Problem;

/// The largest configuration as JSON, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// An object whose texts are overwritten on drop.
#[derive(Clone, Default)]
pub(super) struct Secrets(pub(super) Map<String, Value>);

impl Secrets {
    /// Merges two objects recursively. Where they conflict, `over` takes precedence.
    pub(super) fn merge(mut self, mut over: Self) -> Self {
        merge_into(&mut self.0, std::mem::take(&mut over.0));
        self
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        self.0.values_mut().for_each(erase);
    }
}

/// The texts of a ConfigMap or Secret by key.
pub(super) type Texts<'a> = BTreeMap<String, &'a str>;

/// Returns the values in `data` that are text.
pub(super) fn texts(content: &Content) -> Texts<'_> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    content
        .data
        .iter()
        .filter_map(|(key, bytes)| Some((key.clone(), text(bytes)?)))
        .collect()
}

fn merge_into(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (field, value) in over {
        let Some(known) = under.get_mut(&field) else {
            under.insert(field, value);
            continue;
        };
        match (known, value) {
            (Value::Object(known), Value::Object(over)) => merge_into(known, over),
            (known, value) => erase(&mut std::mem::replace(known, value)),
        }
    }
}

/// Overwrites the texts in a value.
fn erase(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(values) => values.iter_mut().for_each(erase),
        Value::Object(fields) => fields.values_mut().for_each(erase),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(super) fn text(config: &Secrets) -> Result<PluginConfig, Problem> {
    // Measure first: text that grows while it is being written leaves copies behind.
    let mut size = Size(0);
    let written = serde_json::to_writer(&mut size, &config.0);
    if written.is_err() || size.0 > MAX_BYTES {
        let message = format!(
            "the configuration has {} bytes; {MAX_BYTES} are the most",
            size.0
        );
        return Err(Problem::new(reasons::CONFIG_TOO_LARGE, message));
    }

    let mut text = Vec::with_capacity(size.0);
    let written = serde_json::to_writer(&mut text, &config.0);
    let text = written
        .map_err(|error| error.to_string())
        .and_then(|()| String::from_utf8(text).map_err(|error| error.utf8_error().to_string()));
    let broken = |error| {
        Problem::new(
            reasons::INVALID_CONFIG,
            format!("failed to write the configuration: {error}"),
        )
    };
    Ok(text.map_err(broken)?.into())
}

/// Counts the bytes written to it.
struct Size(usize);

impl Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! The description of a cluster for a failed test: its objects and its calls.

use std::fmt::Write as _;

use operetta_apiserver::store::{GroupResource, StoredObject};
use serde_json::Value;

use super::cluster::{Cluster, definitions};

/// How many calls are kept; the oldest are dropped.
const CALLS: usize = 500;

/// The calls of a connection.
#[derive(Default)]
pub struct Calls {
    lines: std::collections::VecDeque<String>,
    dropped: usize,
}

impl Calls {
    /// Adds a call with its outcome.
    pub fn push(&mut self, line: String) {
        if self.lines.len() == CALLS {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line);
    }
}

/// Describes the objects that a test or its plugin has created or changed, and the calls in order.
pub fn describe(cluster: &Cluster, calls: &Calls) -> String {
    let mut text = "objects of the cluster:\n".to_owned();

    let (objects, _) = cluster.server.store().follow();
    let mut shown = 0;

    for (resource, object) in &objects {
        let is_own = object.revision() <= cluster.first_revision || *resource == definitions();
        if is_own || cluster.has_made(resource, object) {
            continue;
        }

        let Some(value) = shown_value(cluster, resource, object) else {
            continue;
        };

        let _infallible = write!(
            text,
            "---\n{}",
            serde_yaml_ng::to_string(&value).unwrap_or_default()
        );
        shown += 1;
    }

    if shown == 0 {
        text.push_str("(none)\n");
    }

    text.push_str("calls:\n");
    if calls.dropped > 0 {
        let _infallible = writeln!(text, "  ({} earlier calls)", calls.dropped);
    }

    for line in &calls.lines {
        let _infallible = writeln!(text, "  {line}");
    }

    text
}

/// The object without managedFields and the values of Secrets; None if its kind is no longer
/// served.
fn shown_value(
    cluster: &Cluster,
    resource: &GroupResource,
    object: &StoredObject,
) -> Option<Value> {
    let served = cluster
        .server
        .resources()
        .preferred(resource.group(), resource.resource())?;

    let mut value = object.to_value().ok()?;
    value["apiVersion"] = served.api_version().into();
    value["kind"] = served.names.kind.as_str().into();

    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }

    if served.names.kind == "Secret" && served.group.is_empty() {
        for (_, secret) in value
            .get_mut("data")
            .and_then(Value::as_object_mut)
            .into_iter()
            .flatten()
        {
            *secret = "(left out)".into();
        }

        // kubectl keeps a copy of the values there.
        if let Some(annotations) = value
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }

    Some(value)
}

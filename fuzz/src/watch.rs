//! The bytes of a watch, sent by an API server or by a proxy in front of it. The lines and events
//! do not depend on chunk boundaries. An event has the object that serde_json finds in its line. No
//! line ends the watch.
//!
//! The input: a seed byte for the chunks, and the lines.

use std::{convert::Infallible, sync::OnceLock, time::Duration};

use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use operetta_core::object::{kind::GroupVersionKind, prune::Prune};
use operetta_kube::informer::frames::{Lines, WatchEvent};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::chunkings;

/// Checks the module's invariants on one input.
pub fn watch(data: &[u8]) {
    let Some((seed, data)) = data.split_first() else {
        return;
    };
    let whole = lines(&[data]);
    for chunks in chunkings(data, *seed) {
        assert_eq!(
            lines(&chunks),
            whole,
            "the lines depend on chunk boundaries"
        );
    }
    let mut expected: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    // A last line without a line end is not complete.
    expected.pop();
    expected.retain(|line| !line.iter().all(u8::is_ascii_whitespace));
    assert_eq!(whole, expected);
    whole.iter().for_each(|line| event(line));
}

fn lines(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime")
    });
    let frames: Vec<_> = chunks
        .iter()
        .map(|chunk| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(chunk))))
        .collect();
    runtime.block_on(async {
        let mut lines = Lines::new(StreamBody::new(stream::iter(frames)));
        let mut found = Vec::new();
        while lines
            .fill(Duration::from_secs(60))
            .await
            .expect("the stream has no errors")
        {
            while let Some(line) = lines.next_line() {
                found.push(line.to_vec());
            }
        }
        found
    })
}

fn event(line: &[u8]) {
    let event = WatchEvent::parse(
        line,
        &GroupVersionKind::new("v1", "ConfigMap"),
        &Prune::managed_fields(),
    );
    // Serde also deserialises a struct from an array of its fields.
    let objects = |tree: &Value| {
        tree.is_object() && tree["object"].is_object() && tree["object"]["metadata"].is_object()
    };
    let tree = serde_json::from_slice::<Value>(line).ok().filter(objects);
    match (&event, &tree) {
        (WatchEvent::Applied(object) | WatchEvent::Deleted(object), tree) => {
            assert!(!object.resource_version().is_empty() && !object.key().name.is_empty());
            if let Some(tree) = tree {
                let deleted = matches!(event, WatchEvent::Deleted(_));
                assert_eq!(deleted, tree["type"] == "DELETED", "{tree}");
                assert!(
                    deleted || tree["type"] == "ADDED" || tree["type"] == "MODIFIED",
                    "{tree}"
                );
                let meta = &tree["object"]["metadata"];
                assert_eq!(meta["name"], object.key().name.as_str());
                assert_eq!(meta["resourceVersion"], object.resource_version());
                assert_eq!(
                    meta["namespace"].as_str().unwrap_or_default(),
                    object.key().namespace.as_deref().unwrap_or_default()
                );
            }
        }
        (
            WatchEvent::Bookmark {
                resource_version, ..
            },
            Some(tree),
        ) => {
            assert_eq!(
                (
                    &tree["type"],
                    &tree["object"]["metadata"]["resourceVersion"]
                ),
                (&"BOOKMARK".into(), &resource_version.as_str().into())
            );
        }
        (WatchEvent::Error(error), Some(tree)) => {
            assert_eq!(tree["type"], "ERROR");
            assert!(!error.to_string().is_empty());
        }
        (WatchEvent::Unreadable(what), _) => assert!(!what.why.is_empty()),
        (WatchEvent::Bookmark { .. } | WatchEvent::Error(_), None) => {}
    }
}

//! Watches with a function from an object to the keys that its events enqueue.

use std::collections::HashSet;

use crate::json::decode;
use crate::manifest::Source;
use crate::{Error, GroupVersionKind, Kind, ObjectKey};

/// Maps one state of an object, as JSON text.
type MapFn = Box<dyn Fn(&str) -> Result<Vec<ObjectKey>, Error>>;

/// A watch with a function.
pub(crate) struct MappedWatch {
    pub(crate) source: Source,
    map: MapFn,
}

impl MappedWatch {
    pub(crate) fn new<T: Kind, K: Into<ObjectKey>>(
        source: Source,
        map: impl Fn(T) -> Vec<K> + 'static,
    ) -> Self {
        let kind = T::gvk();

        let map = move |text: &str| {
            let object = decode(&kind, text).map_err(Error::from)?;
            Ok(map(object).into_iter().map(Into::into).collect())
        };

        Self {
            source,
            map: Box::new(map),
        }
    }
}

/// An event of a watched object to map: from the host, or from a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapEvent {
    /// The controller that watches it.
    pub controller: String,
    /// The object's kind.
    pub kind: GroupVersionKind,
    /// The object as JSON text, in its current state, or in the last one if it is deleted.
    pub object: String,
    /// The state of the object at the last mapping, if it has changed since.
    pub old: Option<String>,
}

/// The keys of the new and the old state, without repeats, from all watches of the kind.
pub(crate) fn keys(watches: &[MappedWatch], event: &MapEvent) -> Result<Vec<ObjectKey>, Error> {
    let mut keys = Vec::new();
    let mut seen = HashSet::new();

    for watch in watches
        .iter()
        .filter(|watch| watch.source.group_version_kind() == event.kind)
    {
        for state in std::iter::once(&event.object).chain(&event.old) {
            for key in (watch.map)(state)? {
                if seen.insert(key.clone()) {
                    keys.push(key);
                }
            }
        }
    }

    Ok(keys)
}

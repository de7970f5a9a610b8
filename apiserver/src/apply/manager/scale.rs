//! The managers of the subresource `scale`.
//!
//! Scale and its parent share one field, the replicas. Both objects show its managers, each under
//! its own path and version. See
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go>.

use std::collections::BTreeMap;

use serde_json::Value;

use super::entries::{DecodeError, Managed, decode_managed_fields, encode_managed_fields};
use crate::apply::{
    fieldpath::{FieldPath, FieldSet},
    merge::VersionedSet,
};

const SCALE_VERSION: &str = "autoscaling/v1";

/// The path of the replicas in each version of the parent: `None` for versions without a
/// scale subresource.
pub type ReplicasPaths = BTreeMap<String, Option<FieldPath>>;

/// The managed fields of a parent whose scale is read or written.
pub struct ScaleEntries<'a> {
    /// The entries of the parent.
    pub parent: &'a [Value],
    /// The version of the parent in the request.
    pub api_version: &'a str,
    /// The paths of the replicas.
    pub paths: &'a ReplicasPaths,
}

impl ScaleEntries<'_> {
    /// Returns the entries of the scale: those of managers of the replicas.
    ///
    /// # Errors
    /// Returns which entry of the parent is not valid.
    pub fn to_scale(&self) -> Result<Vec<Value>, DecodeError> {
        let parent = decode_managed_fields(self.parent)?;

        let mut scale = Managed::default();
        for (manager, fields) in parent.sets {
            let path = self.paths.get(&fields.api_version).and_then(Option::as_ref);
            if path.is_some_and(|path| fields.set.contains(&path.0)) {
                let set = FieldSet::from_iter([scale_path()]);
                scale.times.extend(
                    parent
                        .times
                        .get(&manager)
                        .map(|time| (manager.clone(), *time)),
                );

                scale.sets.insert(
                    manager,
                    VersionedSet {
                        set,
                        api_version: SCALE_VERSION.into(),
                        ..fields
                    },
                );
            }
        }

        Ok(encode_managed_fields(&scale))
    }

    /// Returns the entries of the parent after its scale was written.
    ///
    /// # Errors
    /// Returns which entry is not valid.
    pub fn to_parent(&self, scale: &[Value]) -> Result<Vec<Value>, DecodeError> {
        let parent = decode_managed_fields(self.parent)?;
        let mut scale = decode_managed_fields(scale)?.sets;

        let mut merged = Managed {
            times: parent.times,
            ..Managed::default()
        };

        for (manager, mut fields) in parent.sets {
            let Some(path) = self.paths.get(&fields.api_version) else {
                continue;
            };

            let replicas = path.iter().find(|path| fields.set.contains(&path.0));
            if let Some(replicas) = replicas
                && scale.remove(&manager).is_none()
            {
                // Another manager took the replicas.
                fields.set = fields
                    .set
                    .difference(&FieldSet::from_iter([replicas.clone()]));
            }

            if !fields.set.is_empty() {
                merged.sets.insert(manager, fields);
            }
        }

        let replicas = self.paths.get(self.api_version).cloned().flatten();
        for (manager, fields) in scale
            .into_iter()
            .filter(|(_, fields)| fields.set.contains(&scale_path().0))
        {
            let set = replicas.iter().cloned().collect();
            merged.sets.insert(
                manager,
                VersionedSet {
                    set,
                    api_version: self.api_version.into(),
                    ..fields
                },
            );
        }

        Ok(encode_managed_fields(&merged))
    }
}

fn scale_path() -> FieldPath {
    FieldPath::fields(["spec", "replicas"])
}

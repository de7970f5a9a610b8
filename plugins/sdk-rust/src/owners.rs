//! Owner references (controller-runtime's `controllerutil`).

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::{Error, Object};

/// The error of [`set_controller_reference`] for a child that another object controls.
#[derive(Clone, Debug, PartialEq)]
pub struct AlreadyOwned {
    /// The child, in the form `KIND NAMESPACE/NAME`.
    pub child: String,
    /// The owner that controls the child.
    pub owner: OwnerReference,
}

impl fmt::Display for AlreadyOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OwnerReference { kind, name, .. } = &self.owner;
        write!(f, "{} is already controlled by {kind} {name}", self.child)
    }
}

impl std::error::Error for AlreadyOwned {}

/// Returns the reference by which `owner` controls a child: deleting the owner deletes the child.
pub fn owner_reference(owner: &impl Object) -> OwnerReference {
    let kind = owner.group_version_kind();
    OwnerReference {
        api_version: kind.api_version,
        kind: kind.kind,
        name: owner.name().to_owned(),
        uid: owner.uid().unwrap_or_default().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns the owner that controls an object, if there is one.
pub fn controller_of(object: &impl Object) -> Option<&OwnerReference> {
    object
        .meta()
        .owner_references
        .iter()
        .flatten()
        .find(|reference| reference.controller == Some(true))
}

/// Reports whether `owner` controls `child`, by its uid.
pub fn is_controlled_by(child: &impl Object, owner: &impl Object) -> bool {
    controller_of(child)
        .is_some_and(|reference| owner.uid().is_some_and(|uid| uid == reference.uid))
}

/// Makes `owner` the controlling owner of `child`: the child's events enqueue the owner, and
/// deleting the owner deletes the child. An existing reference to `owner` is updated.
///
/// # Errors
/// Returns [`AlreadyOwned`] if another object controls the child, and a message if the owner was
/// not read from the API server or is in another namespace, where the garbage collector would
/// delete the child.
pub fn set_controller_reference(owner: &impl Object, child: &mut impl Object) -> Result<(), Error> {
    let reference = owner_reference(owner);

    if reference.uid.is_empty() {
        return Err(Error::msg(format!(
            "{} {} has no uid: an owner must be read from the API server",
            reference.kind,
            owner.key()
        )));
    }

    if owner.namespace().is_some() && owner.namespace() != child.namespace() {
        let message = format!(
            "{} {} cannot own {}: it is in another namespace",
            reference.kind,
            owner.key(),
            child.key()
        );
        return Err(Error::msg(message));
    }

    if let Some(other) = controller_of(child).filter(|other| !same_object(other, &reference)) {
        let child = format!("{} {}", child.group_version_kind().kind, child.key());
        return Err(AlreadyOwned {
            child,
            owner: other.clone(),
        }
        .into());
    }

    let references = child.meta_mut().owner_references.get_or_insert_default();

    match references
        .iter_mut()
        .find(|other| same_object(other, &reference))
    {
        Some(other) => *other = reference,
        None => references.push(reference),
    }

    Ok(())
}

/// Reports whether two references name the same object, in any version of its group.
fn same_object(a: &OwnerReference, b: &OwnerReference) -> bool {
    group(a) == group(b) && a.kind == b.kind && a.name == b.name
}

/// The API group of the owner's kind; empty for the core group.
fn group(reference: &OwnerReference) -> &str {
    reference
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;
    use crate::ObjectMeta;

    fn metadata(namespace: &str, name: &str, uid: &str) -> ObjectMeta {
        let uid = (!uid.is_empty()).then(|| uid.to_owned());
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            uid,
            ..ObjectMeta::default()
        }
    }

    fn owner(name: &str, uid: &str) -> ConfigMap {
        ConfigMap {
            metadata: metadata("ns", name, uid),
            ..ConfigMap::default()
        }
    }

    fn child(namespace: &str) -> Secret {
        Secret {
            metadata: metadata(namespace, "child", ""),
            ..Secret::default()
        }
    }

    #[test]
    fn repeated_calls_set_one_controlling_owner() {
        let owner = owner("a", "1");
        let mut child = child("ns");

        for _ in 0..2 {
            set_controller_reference(&owner, &mut child).expect("sets");
        }

        assert_eq!(
            child.metadata.owner_references,
            Some(vec![owner_reference(&owner)])
        );
        assert!(is_controlled_by(&child, &owner));
    }

    #[test]
    fn refuses_child_of_other_controller() {
        let mut child = child("ns");
        set_controller_reference(&owner("a", "1"), &mut child).expect("sets");

        let error = set_controller_reference(&owner("b", "2"), &mut child).expect_err("owned");
        assert_eq!(
            error.to_string(),
            "Secret ns/child is already controlled by ConfigMap a"
        );
        assert!(error.downcast_ref::<AlreadyOwned>().is_some());
    }

    #[test]
    fn successor_of_same_name_does_not_control_child() {
        let mut child = child("ns");
        set_controller_reference(&owner("a", "1"), &mut child).expect("sets");
        assert!(!is_controlled_by(&child, &owner("a", "2")));
        assert!(!is_controlled_by(&child, &owner("a", "")));
    }

    #[test]
    fn refuses_owner_without_uid_or_in_other_namespace() {
        assert!(set_controller_reference(&owner("a", ""), &mut child("ns")).is_err());
        assert!(set_controller_reference(&owner("a", "1"), &mut child("other")).is_err());
    }
}

//! Objects in the API server's responses.

use std::sync::Arc;

use operetta_core::{
    object::{ManagedFields, Object, ObjectError, ObjectKey, kind::GroupVersionKind},
    status::{ApiError, ErrorKind},
};

use crate::discovery::ApiResource;

/// Whether the response to a write is the written object; a create's key has no name. The response
/// to a patch of `scale`, for example, is another kind of object. All plugins share the caches, so
/// no response may replace another object in them.
pub(super) fn is_written(answer: &Object, kind: &GroupVersionKind, written: &ObjectKey) -> bool {
    let key = answer.key();
    key.namespace == written.namespace
        && (written.name.is_empty() || key.name == written.name)
        && answer.scalar_at("kind").as_deref() == Some(&kind.kind)
}

/// Decodes the object in a response.
///
/// # Errors
/// `Other` if the response is not an object.
pub(crate) fn object(text: &str, resource: &ApiResource) -> Result<Arc<Object>, ApiError> {
    let object = Object::from_json(text, &resource.kind, ManagedFields::Keep);
    object.map(Arc::new).map_err(|error| unreadable(&error))
}

pub(super) fn unreadable(error: &ObjectError) -> ApiError {
    ApiError::new(
        ErrorKind::Other,
        format!("the API server's response is {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_answer_with_another_object() {
        let pod = GroupVersionKind::new("v1", "Pod");
        let answer = |kind: &str, namespace: &str, name: &str| {
            let text = format!(
                r#"{{"kind":"{kind}","metadata":{{"name":"{name}","namespace":"{namespace}"}}}}"#
            );
            Object::from_json(&text, &pod, ManagedFields::Drop).expect("an object")
        };
        let written = ObjectKey::namespaced("n", "a");
        assert!(is_written(&answer("Pod", "n", "a"), &pod, &written));
        assert!(
            is_written(
                &answer("Pod", "n", "b"),
                &pod,
                &ObjectKey::namespaced("n", "")
            ),
            "a create"
        );
        for other in [
            answer("Pod", "victim", "a"),
            answer("Pod", "n", "b"),
            answer("Scale", "n", "a"),
        ] {
            assert!(!is_written(&other, &pod, &written), "{other:?}");
        }
        assert!(!is_written(
            &answer("Pod", "victim", "b"),
            &pod,
            &ObjectKey::namespaced("n", "")
        ));
        assert!(!is_written(
            &answer("Pod", "n", "a"),
            &pod,
            &ObjectKey::cluster_scoped("a")
        ));
    }
}

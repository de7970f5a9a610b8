//! Which events count: controller-runtime's predicates, by name.

use crate::{event::Event, manifest::PredicateName};

/// Whether an event passes all of the predicates. Creations and deletions always pass, as in controller-runtime.
pub fn passes(predicates: &[PredicateName], event: &Event) -> bool {
    let Event::Modified { old, object } = event else { return true };
    predicates.iter().all(|predicate| match predicate {
        PredicateName::GenerationChanged => old.header.generation != object.header.generation,
        PredicateName::LabelsChanged => old.header.labels != object.header.labels,
        PredicateName::AnnotationsChanged => old.at(".metadata.annotations") != object.at(".metadata.annotations"),
        PredicateName::ResourceVersionChanged => old.header.resource_version != object.header.resource_version,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        kind::GroupVersionKind,
        object::{ManagedFields, Object},
    };

    fn object(metadata: &str) -> Arc<Object> {
        let text = format!(r#"{{"metadata":{{"name":"a",{metadata}}}}}"#);
        let kind = GroupVersionKind::new("v1", "Pod");
        Arc::new(Object::from_json(&text, &kind, ManagedFields::Drop).expect("object"))
    }

    #[test]
    fn each_predicate_passes_the_updates_of_its_name_and_no_other() {
        use PredicateName::{AnnotationsChanged, GenerationChanged, LabelsChanged, ResourceVersionChanged};
        let old = r#""resourceVersion":"1","generation":1,"labels":{"a":"1"},"annotations":{"a":"1"}"#;
        let all = [GenerationChanged, LabelsChanged, AnnotationsChanged, ResourceVersionChanged];
        for (new, passing) in [
            (old.to_owned(), vec![]),
            (old.replace("\"1\",\"gen", "\"2\",\"gen"), vec![ResourceVersionChanged]),
            (old.replace("generation\":1", "generation\":2"), vec![GenerationChanged]),
            (old.replace("labels\":{\"a\":\"1\"", "labels\":{\"a\":\"2\""), vec![LabelsChanged]),
            (old.replace("annotations\":{\"a\":\"1\"", "annotations\":{\"b\":\"1\""), vec![AnnotationsChanged]),
        ] {
            let event = Event::Modified { old: object(old), object: object(&new) };
            let passed: Vec<_> = all.into_iter().filter(|&name| passes(&[name], &event)).collect();
            assert_eq!(passed, passing, "{new}");
        }
        let added = Event::Added { object: object(old), initial: true };
        assert!(passes(&all, &added));
        assert!(passes(&all, &Event::Deleted { object: object(old) }));
    }
}

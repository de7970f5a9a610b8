//! Predicates filter events: controller-runtime's predicates by name, and conditions on objects by
//! JSONPath.
//!
//! | predicate | a creation | an update | a deletion |
//! |---|---|---|---|
//! | a name, `changed` | says nothing | whether old and new differ in that; nothing of a resync | says nothing |
//! | `matches` | of the object | of the new object | of the last state |
//! | `any` | one of its predicates holds, or says nothing | the same | the same |
//! | `not` | the opposite, or nothing of what says nothing | the same | the same |
//!
//! An event passes unless a predicate rejects it. So creations and deletions pass predicates about
//! changes, negated or not; controller-runtime's [`Not`] would reject both. Kinds without
//! metadata.generation (ConfigMap, Secret and others) have 0 before and after, and none of their
//! updates passes `GenerationChanged`, as in controller-runtime.
//!
//! A resync is a safety net for changes no event reports, so predicates about changes don't judge
//! it either. controller-runtime's `GenerationChangedPredicate` drops it, and with it the resync
//! period the author asked for ([issue
//! 2355](https://github.com/kubernetes-sigs/controller-runtime/issues/2355)). Only
//! `ResourceVersionChanged` rejects a resync: that is its purpose.
//!
//! Predicates run on the informer's task, shared by all tenants, so `expression.rs` bounds their
//! cost.
//!
//! [`Not`]: https://github.com/kubernetes-sigs/controller-runtime/blob/v0.24.1/pkg/predicate/predicate.go#L383

mod bounds;
mod expression;

use serde_json::Value;

use self::expression::Look;
pub use self::expression::{Expression, ExpressionError};
use crate::handler::event::Event;

/// JSONPaths per source.
const MAX_EXPRESSIONS: usize = 8;
/// Predicates per source, including those within `any` and `not`.
const MAX_PREDICATES: usize = 32;
/// Nesting depth of `any` and `not`.
const MAX_DEPTH: usize = 4;

/// An event filter with parsed JSONPaths.
pub type Predicate = operetta_api::manifest::Predicate<Expression>;

/// Whether an event passes all of the predicates.
pub fn passes(predicates: &[Predicate], event: &Event) -> bool {
    let now = Look::at(event.object());
    let change = match event.old() {
        _ if event.is_resync() => Change::Resync,
        Some(old) => Change::From(Look::at(old)),
        None => Change::None,
    };
    predicates
        .iter()
        .all(|predicate| says(predicate, &now, &change) != Some(false))
}

/// Parses the predicates of one source from untrusted JSON.
///
/// # Errors
/// Returns the first error and its path.
pub fn parse(list: &[Value]) -> Result<Vec<Predicate>, String> {
    let predicates: Vec<Predicate> = serde_path_to_error::deserialize(Value::from(list))
        .map_err(|error| format!("invalid value at {}: {}", error.path(), error.inner()))?;
    check(&predicates).map(|()| predicates)
}

/// Checks that these predicates are within the limits of one source.
///
/// # Errors
/// Returns a message for the author, naming the limit.
pub fn check(predicates: &[Predicate]) -> Result<(), String> {
    let mut count = Count::default();
    predicates
        .iter()
        .try_for_each(|predicate| count.add(predicate, 0))?;

    if count.predicates > MAX_PREDICATES {
        return Err(format!(
            "{} predicates, over the limit of {MAX_PREDICATES}",
            count.predicates
        ));
    }

    if count.expressions > MAX_EXPRESSIONS {
        return Err(format!(
            "{} JSONPaths, over the limit of {MAX_EXPRESSIONS}",
            count.expressions
        ));
    }

    Ok(())
}

/// The fields read by the predicates, except those every cached object has: paths such as
/// `.status`; `.` for all.
pub fn fields(predicates: &[Predicate]) -> Vec<String> {
    let of = |predicate: &Predicate| match predicate {
        Predicate::AnnotationsChanged => vec![".metadata.annotations".to_owned()],
        Predicate::Changed(expression) | Predicate::Matches(expression) => vec![expression.field()],
        Predicate::Any(any) => fields(any),
        Predicate::Not(not) => fields(std::slice::from_ref(not)),
        Predicate::GenerationChanged
        | Predicate::LabelsChanged
        | Predicate::ResourceVersionChanged => Vec::new(),
    };
    predicates.iter().flat_map(of).collect()
}

/// What an event tells about a change of its object.
enum Change<'e> {
    /// The object is new, or deleted.
    None,
    /// The same object is delivered again.
    Resync,
    /// The object's previous state.
    From(Look<'e>),
}

#[derive(Default)]
struct Count {
    predicates: usize,
    expressions: usize,
}

impl Count {
    fn add(&mut self, predicate: &Predicate, depth: usize) -> Result<(), String> {
        self.predicates += 1;
        if depth > MAX_DEPTH {
            return Err(format!(
                "`any` and `not` are nested more than {MAX_DEPTH} deep"
            ));
        }

        match predicate {
            Predicate::Changed(_) | Predicate::Matches(_) => self.expressions += 1,
            Predicate::Any(any) if any.is_empty() => {
                return Err("`any` needs at least one predicate".to_owned());
            }
            Predicate::Any(any) => any.iter().try_for_each(|one| self.add(one, depth + 1))?,
            Predicate::Not(not) => self.add(not, depth + 1)?,
            _ => {}
        }

        Ok(())
    }
}

/// Whether a predicate holds; `None` if it ignores such an event, or the object is too large to
/// search.
fn says<'e>(predicate: &'e Predicate, now: &Look<'e>, change: &Change<'e>) -> Option<bool> {
    let old = match change {
        Change::From(old) => Some(old),
        Change::None | Change::Resync => None,
    };
    let both = || Some((old?.object(), now.object()));
    match predicate {
        Predicate::GenerationChanged => {
            both().map(|(old, now)| old.generation() != now.generation())
        }
        Predicate::LabelsChanged => both().map(|(old, now)| !old.labels().eq(now.labels())),
        Predicate::AnnotationsChanged => {
            let annotations = |look: &Look<'e>| look.object().at(".metadata.annotations");
            Some(annotations(old?) != annotations(now))
        }
        Predicate::ResourceVersionChanged if matches!(change, Change::Resync) => Some(false),
        Predicate::ResourceVersionChanged => {
            both().map(|(old, now)| old.resource_version() != now.resource_version())
        }
        Predicate::Changed(expression) => expression.differs(old?, now),
        Predicate::Matches(expression) => expression.selects(now),
        Predicate::Any(any) => {
            let mut sure = true;
            for one in any {
                match says(one, now, change) {
                    Some(true) => return Some(true),
                    Some(false) => {}
                    None => sure = false,
                }
            }
            sure.then_some(false)
        }
        Predicate::Not(not) => says(not, now, change).map(|holds| !holds),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::object::{ManagedFields, Object, kind::GroupVersionKind};

    fn object(value: &Value) -> Arc<Object> {
        let kind = GroupVersionKind::new("v1", "Pod");
        Arc::new(Object::from_json(&value.to_string(), &kind, ManagedFields::Drop).expect("object"))
    }

    fn with_metadata(metadata: &str) -> Arc<Object> {
        object(
            &serde_json::from_str(&format!(r#"{{"metadata":{{"name":"a",{metadata}}}}}"#))
                .expect("JSON"),
        )
    }

    fn predicate(text: &str) -> Predicate {
        serde_json::from_str(text).expect(text)
    }

    #[test]
    fn each_named_predicate_passes_its_updates_only() {
        use operetta_api::manifest::Predicate::{
            AnnotationsChanged, GenerationChanged, LabelsChanged, ResourceVersionChanged,
        };
        let old =
            r#""resourceVersion":"1","generation":1,"labels":{"a":"1"},"annotations":{"a":"1"}"#;
        let all = [
            GenerationChanged,
            LabelsChanged,
            AnnotationsChanged,
            ResourceVersionChanged,
        ];
        for (new, passing) in [
            (old.to_owned(), vec![]),
            (
                old.replace("\"1\",\"gen", "\"2\",\"gen"),
                vec![ResourceVersionChanged],
            ),
            (
                old.replace("generation\":1", "generation\":2"),
                vec![GenerationChanged],
            ),
            (
                old.replace("\"generation\":1,", ""),
                vec![GenerationChanged],
            ),
            (
                old.replace("labels\":{\"a\":\"1\"", "labels\":{\"a\":\"2\""),
                vec![LabelsChanged],
            ),
            (
                old.replace("annotations\":{\"a\":\"1\"", "annotations\":{\"b\":\"1\""),
                vec![AnnotationsChanged],
            ),
        ] {
            let event = Event::Modified {
                old: with_metadata(old),
                object: with_metadata(&new),
            };
            let passed: Vec<_> = all
                .iter()
                .filter(|name| passes(&[(*name).clone()], &event))
                .cloned()
                .collect();
            assert_eq!(passed, passing, "{new}");
        }
        let added = Event::Added {
            object: with_metadata(old),
            initial: true,
        };
        assert!(passes(&all, &added));
        assert!(passes(&all, &Event::deleted(with_metadata(old))));
    }

    #[test]
    fn resync_passes_every_filter_about_changes() {
        let object = with_metadata(r#""resourceVersion":"1","generation":1"#);
        let resync = Event::Modified {
            old: object.clone(),
            object,
        };
        for text in [
            r#""GenerationChanged""#,
            r#""LabelsChanged""#,
            r#""AnnotationsChanged""#,
            r#"{"changed":"$.spec"}"#,
            r#"{"any":["LabelsChanged",{"changed":"$.spec"}]}"#,
            r#"{"not":{"changed":"$.spec"}}"#,
            r#"{"not":{"not":"GenerationChanged"}}"#,
        ] {
            assert!(passes(&[predicate(text)], &resync), "{text}");
        }

        // It is the named way to exempt a source from the controller's resync.
        assert!(!passes(&[Predicate::ResourceVersionChanged], &resync));
    }

    #[test]
    fn kind_without_generation_never_passes_generation_changed() {
        let of = |value: &str| object(&json!({"metadata": {"name": "a"}, "data": {"a": value}}));
        let event = Event::Modified {
            old: of("1"),
            object: of("2"),
        };
        assert!(!passes(&[Predicate::GenerationChanged], &event));
        assert!(passes(&[predicate(r#"{"changed":"$.data"}"#)], &event));
    }

    /// Returns the events of an object with these replicas and readiness.
    fn events() -> [(&'static str, Event); 6] {
        let of = |replicas: u32, ready: &str| {
            let conditions =
                json!([{"type": "Synced", "status": "True"}, {"type": "Ready", "status": ready}]);
            object(&json!({
                "metadata": {"name": "a"}, "spec": {"replicas": replicas}, "status": {"conditions": conditions},
            }))
        };
        let same = of(1, "False");
        [
            (
                "made",
                Event::Added {
                    object: of(1, "False"),
                    initial: false,
                },
            ),
            (
                "resync",
                Event::Modified {
                    old: same.clone(),
                    object: same,
                },
            ),
            (
                "scaled",
                Event::Modified {
                    old: of(1, "False"),
                    object: of(2, "False"),
                },
            ),
            (
                "ready",
                Event::Modified {
                    old: of(1, "False"),
                    object: of(1, "True"),
                },
            ),
            (
                "unready",
                Event::Modified {
                    old: of(1, "True"),
                    object: of(1, "False"),
                },
            ),
            ("gone", Event::deleted(of(1, "True"))),
        ]
    }

    #[test]
    fn conditions_pass_matching_objects_only() {
        const READY: &str =
            r#"{"matches":"$.status.conditions[?@.type=='Ready' && @.status=='True']"}"#;
        const SCALED: &str = r#"{"changed":"$.spec.replicas"}"#;
        let table = [
            (SCALED.to_owned(), vec!["made", "resync", "scaled", "gone"]),
            (READY.to_owned(), vec!["ready", "gone"]),
            (
                r#"{"changed":"$.status.conditions[?@.type=='Ready'].status"}"#.to_owned(),
                vec!["made", "resync", "ready", "unready", "gone"],
            ),
            (
                format!(r#"{{"not":{SCALED}}}"#),
                vec!["made", "resync", "ready", "unready", "gone"],
            ),
            (
                format!(r#"{{"not":{READY}}}"#),
                vec!["made", "resync", "scaled", "unready"],
            ),
            (
                format!(r#"{{"any":[{SCALED},{READY}]}}"#),
                vec!["made", "resync", "scaled", "ready", "gone"],
            ),
            (
                format!(r#"{{"not":{{"any":[{SCALED},{READY}]}}}}"#),
                vec!["made", "resync", "unready"],
            ),
            (
                r#"{"any":["GenerationChanged"]}"#.to_owned(),
                vec!["made", "resync", "gone"],
            ),
            (
                r#""ResourceVersionChanged""#.to_owned(),
                vec!["made", "gone"],
            ),
            (
                r#"{"not":"ResourceVersionChanged"}"#.to_owned(),
                vec!["made", "resync", "scaled", "ready", "unready", "gone"],
            ),
            (
                r#"{"matches":"$.spec.nowhere.at[3].all"}"#.to_owned(),
                vec![],
            ),
            (
                r#"{"changed":"$.spec.nowhere.at[3].all"}"#.to_owned(),
                vec!["made", "resync", "gone"],
            ),
            (
                r#"{"changed":"$"}"#.to_owned(),
                vec!["made", "resync", "scaled", "ready", "unready", "gone"],
            ),
        ];
        for (text, passing) in table {
            let predicate = [predicate(&text)];
            let passed: Vec<_> = events()
                .into_iter()
                .filter(|(_, event)| passes(&predicate, event))
                .map(|(name, _)| name)
                .collect();
            assert_eq!(passed, passing, "{text}");
        }
    }

    #[test]
    fn rejects_more_predicates_than_a_source_allows() {
        let error = |text: &str| {
            let list: Vec<Predicate> = serde_json::from_str(text).expect(text);
            check(&list).expect_err(text)
        };
        let many = |one: &str, times: usize| format!("[{}]", vec![one; times].join(","));
        assert!(error(&many(r#""LabelsChanged""#, 33)).contains("33 predicates"));
        assert!(error(&many(r#"{"changed":"$.a"}"#, 9)).contains("9 JSONPaths"));
        assert!(
            error(&many(
                r#"{"any":[{"changed":"$.a"},{"not":{"matches":"$.b"}}]}"#,
                5
            ))
            .contains("10 JSONPaths")
        );
        assert!(error(r#"[{"any":[]}]"#).contains("at least one predicate"));
        let deep = format!(
            "[{}\"LabelsChanged\"{}]",
            r#"{"not":"#.repeat(5),
            "}".repeat(5)
        );
        assert!(error(&deep).contains("4 deep"));
        assert!(
            check(
                &serde_json::from_str::<Vec<Predicate>>(&many(r#"{"changed":"$.a"}"#, 8))
                    .expect("JSON")
            )
            .is_ok()
        );
    }
}

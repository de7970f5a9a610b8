//! The selectors in reviews of access. RBAC does not look at them; a malformed one is reported and
//! ignored.

use serde_json::Value;

use crate::{
    apimachinery::{
        names,
        selector::{FieldSelector, LabelSelector},
    },
    authz::objects::{text, texts},
};

/// Returns the error for the selectors of `resourceAttributes` that are ignored as a whole or in
/// part; None if all can be parsed.
pub(super) fn evaluation_error(attributes: &Value) -> Option<String> {
    let mut errors = Vec::new();
    for (field, parts) in [
        ("fieldSelector", field_parts(&attributes["fieldSelector"])),
        ("labelSelector", label_parts(&attributes["labelSelector"])),
    ] {
        let what = match parts {
            Parts { bad: false, .. } => continue,
            Parts { good: true, .. } => "partially ignored",
            Parts { good: false, .. } => "ignored",
        };
        errors.push(format!(
            "spec.resourceAttributes.{field} {what} due to parse error"
        ));
    }

    (!errors.is_empty()).then(|| errors.join("; "))
}

/// The presence of valid and of invalid requirements in a selector.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    good: bool,
    bad: bool,
}

fn parts(selector: &Value, is_good: fn(&Value) -> bool, parses: fn(&str) -> bool) -> Parts {
    let requirements = selector["requirements"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if requirements.is_empty() {
        let raw = text(selector, &["rawSelector"]);
        return Parts {
            good: false,
            bad: !raw.is_empty() && !parses(raw),
        };
    }

    let good = requirements
        .iter()
        .filter(|requirement| is_good(requirement))
        .count();
    Parts {
        good: good > 0,
        bad: good < requirements.len(),
    }
}

fn field_parts(selector: &Value) -> Parts {
    let is_good = |requirement: &Value| {
        let values = texts(&requirement["values"]).count();
        matches!(text(requirement, &["operator"]), "In" | "NotIn") && values == 1
    };
    parts(selector, is_good, |text| FieldSelector::parse(text).is_ok())
}

fn label_parts(selector: &Value) -> Parts {
    let is_good = |requirement: &Value| {
        let mut values = texts(&requirement["values"]);
        names::qualified_name(text(requirement, &["key"])).is_empty()
            && match text(requirement, &["operator"]) {
                "In" | "NotIn" => {
                    let values: Vec<&str> = values.collect();
                    !values.is_empty()
                        && values
                            .iter()
                            .all(|value| names::label_value(value).is_empty())
                }
                "Exists" | "DoesNotExist" => values.next().is_none(),
                _ => false,
            }
    };

    parts(selector, is_good, |text| LabelSelector::parse(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selector_parses_as_kubernetes_does() {
        for (text, valid) in [
            ("", true),
            ("a", true),
            ("a=b,c!=d", true),
            ("a in (b, c),!d", true),
            ("a=", true),
            ("a=,b", true),
            ("a > 5", true),
            ("a > b", false),
            ("a in b", false),
            ("a in (b", false),
            ("a,", false),
            ("=b", false),
            ("a=b c", false),
            ("a==b", true),
            ("a=b/c", false),
            ("a b", false),
        ] {
            assert_eq!(LabelSelector::parse(text).is_ok(), valid, "{text:?}");
        }
    }

    #[test]
    fn field_selector_parses_as_kubernetes_does() {
        for (text, valid) in [
            ("", true),
            ("a=b", true),
            ("a==b,c!=d", true),
            ("a", false),
            ("a=b=c", false),
            ("a=b\\,c", true),
            ("a=b\\c", false),
        ] {
            assert_eq!(FieldSelector::parse(text).is_ok(), valid, "{text:?}");
        }
    }
}

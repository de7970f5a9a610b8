//! Label and field selectors in the API server's syntax, for reads answered from the host's cache.
//!
//! The grammar is that of apimachinery's [`labels.Parse`]: requirements joined by commas, each one
//! of `key`, `!key`, `key=value`, `key==value`, `key!=value`, `key in (a,b)`, `key notin (a,b)`,
//! `key>1`, `key<1`; all must hold.
//!
//! [`labels.Parse`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/labels/selector.go#L907

use operetta_api::names::{is_label_value, is_qualified_name};

use crate::object::{Metadata, Object};

/// An object with the fields used by selectors.
pub trait Selectable {
    /// metadata.name.
    fn name(&self) -> &str;
    /// metadata.namespace.
    fn namespace(&self) -> Option<&str>;
    /// The value of a label.
    fn label(&self, name: &str) -> Option<&str>;
}

impl Selectable for Object {
    fn name(&self) -> &str {
        self.raw().metadata().name()
    }

    fn namespace(&self) -> Option<&str> {
        self.raw().metadata().namespace()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.label(name)
    }
}

impl Selectable for Metadata<'_> {
    fn name(&self) -> &str {
        Metadata::name(self)
    }

    fn namespace(&self) -> Option<&str> {
        Metadata::namespace(self)
    }

    fn label(&self, name: &str) -> Option<&str> {
        Metadata::label(self, name)
    }
}

/// A parsed label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    /// Matches missing labels too, as in apimachinery:
    /// <https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/labels/selector.go#L247>
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

/// A selector that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to parse label selector {selector:?} at {at:?}: {expected}")]
pub struct SelectorError {
    selector: String,
    at: String,
    expected: &'static str,
}

impl LabelSelector {
    /// Parses a selector; the empty text selects everything.
    ///
    /// # Errors
    /// Returns an error naming the invalid part.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for part in split_requirements(text) {
            let fail = |expected| SelectorError {
                selector: text.to_owned(),
                at: part.trim().to_owned(),
                expected,
            };
            requirements.push(requirement(part.trim()).map_err(fail)?);
        }
        Ok(Self(requirements))
    }

    /// The labels required to have a single value, with these values.
    pub fn equalities(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter_map(|requirement| match &requirement.test {
                Test::In(values) if values.len() == 1 => {
                    Some((requirement.key.as_str(), values[0].as_str()))
                }
                _ => None,
            })
    }

    /// Whether an object's labels meet every requirement.
    pub fn matches(&self, header: &impl Selectable) -> bool {
        self.0.iter().all(|requirement| {
            let value = header.label(&requirement.key);
            match &requirement.test {
                Test::Exists => value.is_some(),
                Test::Missing => value.is_none(),
                Test::In(values) => {
                    value.is_some_and(|value| values.iter().any(|one| one == value))
                }
                Test::NotIn(values) => {
                    value.is_none_or(|value| values.iter().all(|one| one != value))
                }
                Test::GreaterThan(bound) => number(value).is_some_and(|value| value > *bound),
                Test::LessThan(bound) => number(value).is_some_and(|value| value < *bound),
            }
        })
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

/// Splits at commas outside parentheses.
fn split_requirements(text: &str) -> Vec<&str> {
    if text.trim().is_empty() {
        return Vec::new();
    }

    let mut depth = 0i32;
    text.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth <= 0
    })
    .collect()
}

fn requirement(part: &str) -> Result<Requirement, &'static str> {
    let made = |key: &str, test: Test| {
        if !is_qualified_name(key) {
            return Err("expected a label's name");
        }
        Ok(Requirement {
            key: key.to_owned(),
            test,
        })
    };

    let value = |text: &str| {
        if is_label_value(text) {
            Ok(text.to_owned())
        } else {
            Err("expected a label's value")
        }
    };

    let bound = |text: &str| {
        text.trim()
            .parse::<i64>()
            .map_err(|_| "expected a whole number")
    };
    if let Some(key) = part.strip_prefix('!') {
        return made(key.trim(), Test::Missing);
    }
    if let Some((key, text)) = part.split_once("!=") {
        return made(key.trim(), Test::NotIn(vec![value(text.trim())?]));
    }

    if let Some((key, text)) = part.split_once('=') {
        return made(
            key.trim(),
            Test::In(vec![value(text.strip_prefix('=').unwrap_or(text).trim())?]),
        );
    }

    if let Some((key, text)) = part.split_once('>') {
        return made(key.trim(), Test::GreaterThan(bound(text)?));
    }
    if let Some((key, text)) = part.split_once('<') {
        return made(key.trim(), Test::LessThan(bound(text)?));
    }
    let Some((key, rest)) = part.split_once(char::is_whitespace) else {
        return made(part, Test::Exists);
    };

    let rest = rest.trim();
    let (negated, list) = match (rest.strip_prefix("notin"), rest.strip_prefix("in")) {
        (Some(list), _) => (true, list),
        (None, Some(list)) => (false, list),
        (None, None) => return Err("expected `in` or `notin`"),
    };
    let list = list.trim();
    let list = list
        .strip_prefix('(')
        .and_then(|list| list.strip_suffix(')'))
        .ok_or("expected values in parentheses")?;
    let values = list
        .split(',')
        .map(|text| value(text.trim()))
        .collect::<Result<Vec<_>, _>>()?;

    made(
        key.trim(),
        if negated {
            Test::NotIn(values)
        } else {
            Test::In(values)
        },
    )
}

/// The field selector for one object by name. A name may contain characters that need escaping
/// (apimachinery's [`fields.EscapeValue`]).
///
/// ```
/// use operetta_core::object::selector::of_name;
///
/// assert_eq!(of_name("web"), "metadata.name=web");
/// assert_eq!(of_name("a=b,c"), r"metadata.name=a\=b\,c");
/// ```
///
/// [`fields.EscapeValue`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/fields/selector.go#L285
pub fn of_name(name: &str) -> String {
    let mut selector = "metadata.name=".to_owned();
    for letter in name.chars() {
        if matches!(letter, '\\' | ',' | '=') {
            selector.push('\\');
        }
        selector.push(letter);
    }
    selector
}

/// Splits a field selector at unescaped commas.
fn split_terms(text: &str) -> Vec<&str> {
    let mut is_escaped = false;
    text.split(move |letter| {
        let is_end = letter == ',' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        is_end
    })
    .collect()
}

/// Removes the escapes from a field selector's value.
fn unescaped(value: &str) -> String {
    let mut letters = value.chars();
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => text.extend(letters.next()),
            _ => text.push(letter),
        }
    }
    text
}

/// The name required by a field selector. The API server authorizes such a list or watch for that
/// name.
pub fn required_name(fields: &str) -> Option<String> {
    let value = split_terms(fields)
        .into_iter()
        .find_map(|term| term.strip_prefix("metadata.name="))?;
    Some(unescaped(value.strip_prefix('=').unwrap_or(value)))
}

/// The field selectors supported by every kind: metadata.name and metadata.namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataFieldSelector(Vec<(bool, bool, String)>);

impl MetadataFieldSelector {
    /// Parses `metadata.name=a,metadata.namespace!=b`.
    ///
    /// # Errors
    /// Returns an error naming the part that does not parse, or the field a cache cannot select by.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tests = Vec::new();
        let parts = split_terms(text).into_iter().map(str::trim_start);
        for part in parts.filter(|part| !part.is_empty()) {
            let (field, equal, value) = match (part.split_once("!="), part.split_once('=')) {
                (Some((field, value)), _) => (field, false, value),
                (None, Some((field, value))) => {
                    (field, true, value.strip_prefix('=').unwrap_or(value))
                }
                (None, None) => {
                    return Err(format!(
                        "failed to parse field selector {text:?} at {part:?}"
                    ));
                }
            };

            match field.trim() {
                "metadata.name" => tests.push((true, equal, unescaped(value))),
                "metadata.namespace" => tests.push((false, equal, unescaped(value))),
                other => {
                    return Err(format!(
                        "cached reads select by metadata.name and metadata.namespace only, not by {other:?}: declare an index in the manifest, or read live"
                    ));
                }
            }
        }

        Ok(Self(tests))
    }

    /// Whether an object's name and namespace meet every requirement.
    pub fn matches(&self, header: &impl Selectable) -> bool {
        self.0.iter().all(|(name, equal, value)| {
            let found = if *name {
                header.name()
            } else {
                header.namespace().unwrap_or_default()
            };
            (found == value) == *equal
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{ManagedFields, Object, kind::GroupVersionKind};

    fn header(labels: &str) -> Object {
        let text =
            format!(r#"{{"metadata":{{"name":"a","namespace":"n","labels":{{{labels}}}}}}}"#);
        let kind = GroupVersionKind::new("v1", "Pod");
        Object::from_json(&text, &kind, ManagedFields::Drop).expect("object")
    }

    #[test]
    fn selects_as_apimachinery_for_each_form() {
        let object = header(r#""app":"db","tier":"5","x.io/y":"""#);
        for (selector, selected) in [
            ("", true),
            ("app", true),
            ("none", false),
            ("!none", true),
            ("!app", false),
            ("app=db", true),
            ("app==db", true),
            (" app = db ", true),
            ("app=web", false),
            ("app!=web", true),
            ("none!=web", true),
            ("app in (web, db)", true),
            ("app in (web)", false),
            ("app notin (web)", true),
            ("none notin (web)", true),
            ("tier>4", true),
            ("tier<5", false),
            ("x.io/y=", true),
            ("app=db,tier in (5,6),!z", true),
            ("app=db,tier in (6,7)", false),
        ] {
            let parsed = LabelSelector::parse(selector).expect(selector);
            assert_eq!(parsed.matches(&object), selected, "{selector}");
        }
    }

    #[test]
    fn names_part_that_does_not_parse() {
        for selector in [
            "app in web",
            "app inin (a)",
            "app notinnotin (a)",
            "a b c",
            "app=a b",
            "=a",
            "tier>x",
            "a,,b",
            "app in (a",
        ] {
            let error = LabelSelector::parse(selector)
                .expect_err(selector)
                .to_string();
            assert!(error.contains("failed to parse"), "{error}");
        }
    }

    struct Named(&'static str);

    impl Selectable for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn namespace(&self) -> Option<&str> {
            None
        }

        fn label(&self, _: &str) -> Option<&str> {
            None
        }
    }

    #[test]
    fn selector_of_a_name_selects_that_name_whatever_its_characters() {
        for name in [
            "web",
            "hello world",
            "a=b",
            "a,b",
            r"a\b",
            r"\",
            "a!=b,c==d",
            " a ",
        ] {
            let selector = of_name(name);
            let parsed = MetadataFieldSelector::parse(&selector).expect("parses");
            assert!(parsed.matches(&Named(name)), "{selector}");
            assert!(!parsed.matches(&Named("other")), "{selector}");

            let among = format!("metadata.namespace=n,{selector},spec.x=y");
            assert_eq!(required_name(&among).as_deref(), Some(name), "{among}");
        }
        assert_eq!(required_name("spec.nodeName=a"), None);
    }

    #[test]
    fn selects_by_name_and_namespace_only() {
        let object = header("");
        assert!(
            MetadataFieldSelector::parse("metadata.name=a,metadata.namespace!=m")
                .expect("parses")
                .matches(&object)
        );
        assert!(
            !MetadataFieldSelector::parse("metadata.name==b")
                .expect("parses")
                .matches(&object)
        );
        assert!(
            MetadataFieldSelector::parse("spec.nodeName=a")
                .expect_err("refused")
                .contains("read live")
        );
    }
}

//! The selectors in reviews of access. RBAC does not look at them; a malformed one is reported and ignored.

use serde_json::Value;

use crate::authz::{
    names,
    objects::{text, texts},
};

/// Returns the error for the selectors of `resourceAttributes` that are ignored as a whole or in part; None if all
/// can be parsed.
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
        errors.push(format!("spec.resourceAttributes.{field} {what} due to parse error"));
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
    let requirements = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    if requirements.is_empty() {
        let raw = text(selector, &["rawSelector"]);
        return Parts { good: false, bad: !raw.is_empty() && !parses(raw) };
    }
    let good = requirements.iter().filter(|requirement| is_good(requirement)).count();
    Parts { good: good > 0, bad: good < requirements.len() }
}

fn field_parts(selector: &Value) -> Parts {
    let is_good = |requirement: &Value| {
        let values = texts(&requirement["values"]).count();
        matches!(text(requirement, &["operator"]), "In" | "NotIn") && values == 1
    };
    parts(selector, is_good, parses_as_field_selector)
}

fn label_parts(selector: &Value) -> Parts {
    let is_good = |requirement: &Value| {
        let mut values = texts(&requirement["values"]);
        names::qualified_name_errors(text(requirement, &["key"])).is_empty()
            && match text(requirement, &["operator"]) {
                "In" | "NotIn" => {
                    let values: Vec<&str> = values.collect();
                    !values.is_empty() && values.iter().all(|value| names::label_value_errors(value).is_empty())
                }
                "Exists" | "DoesNotExist" => values.next().is_none(),
                _ => false,
            }
    };
    parts(selector, is_good, parses_as_label_selector)
}

/// Reports whether text is a field selector: terms `key=value`, `key==value` and `key!=value`, separated by commas.
fn parses_as_field_selector(text: &str) -> bool {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for char in text.chars() {
        match char {
            ',' if !escaped => terms.push(String::new()),
            char => {
                if let Some(term) = terms.last_mut() {
                    term.push(char);
                }
            }
        }
        escaped = char == '\\' && !escaped;
    }
    terms.iter().filter(|term| !term.is_empty()).all(|term| {
        let Some(at) = term.find('=') else { return false };
        let value = &term[at + 1..];
        let value = value.strip_prefix('=').unwrap_or(value);
        is_escaped_value(value)
    })
}

/// Reports whether all special characters of the value of a field selector are escaped.
fn is_escaped_value(value: &str) -> bool {
    let mut chars = value.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' if !matches!(chars.next(), Some('\\' | ',' | '=')) => return false,
            ',' | '=' => return false,
            _ => {}
        }
    }
    true
}

/// Reports whether text is a label selector.
fn parses_as_label_selector(text: &str) -> bool {
    let tokens = tokens(text);
    let mut rest = tokens.as_slice();
    if rest.is_empty() {
        return true;
    }
    loop {
        let Some(after) = requirement(rest) else { return false };
        match after {
            [] => return true,
            [",", more @ ..] if !more.is_empty() => rest = more,
            _ => return false,
        }
    }
}

fn requirement<'t, 's>(tokens: &'t [&'s str]) -> Option<&'t [&'s str]> {
    let is_key = |key: &str| names::qualified_name_errors(key).is_empty();
    let is_value = |value: &str| names::label_value_errors(value).is_empty();
    match tokens {
        ["!", key, rest @ ..] if is_key(key) => Some(rest),
        [key, "in" | "notin", "(", rest @ ..] if is_key(key) => {
            let end = rest.iter().position(|token| *token == ")")?;
            let values = rest[..end].split(|token| *token == ",");
            values
                .into_iter()
                .all(|value| matches!(value, []) || matches!(value, [value] if is_value(value)))
                .then(|| &rest[end + 1..])
        }
        [key, "=" | "==" | "!=", value, rest @ ..] if is_key(key) && *value != "," && is_value(value) => Some(rest),
        [key, "=" | "==" | "!=", rest @ ..] if is_key(key) && matches!(rest, [] | [",", ..]) => Some(rest),
        [key, ">" | "<", value, rest @ ..] if is_key(key) && value.parse::<i64>().is_ok() => Some(rest),
        [key, rest @ ..] if is_key(key) && matches!(rest, [] | [",", ..]) => Some(rest),
        _ => None,
    }
}

fn tokens(text: &str) -> Vec<&str> {
    const SYMBOLS: &str = "=!(),<>";
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if SYMBOLS.contains(first) {
            1
        } else {
            rest.find(|char: char| char.is_whitespace() || SYMBOLS.contains(char)).unwrap_or(rest.len())
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
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
            assert_eq!(parses_as_label_selector(text), valid, "{text:?}");
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
            assert_eq!(parses_as_field_selector(text), valid, "{text:?}");
        }
    }
}

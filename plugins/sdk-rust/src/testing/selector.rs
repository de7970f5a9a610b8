//! Label selectors in the API server's syntax: `app=db,tier in (a, b),!old`.

use serde_json::{Map, Value};

/// One part of a selector.
struct Requirement<'a> {
    key: &'a str,
    /// The accepted values; `None` for any.
    values: Option<Vec<&'a str>>,
    /// The requirement holds for objects that do not have the label or such a value.
    negated: bool,
}

/// Reports whether a selector matches an object with these labels.
///
/// # Errors
/// Returns a message if the selector does not parse.
pub(super) fn matches(selector: &str, labels: &Map<String, Value>) -> Result<bool, String> {
    let parts: Vec<_> = split(selector)?.into_iter().map(|part| parse(part.trim())).collect::<Result<_, _>>()?;
    Ok(parts.into_iter().all(|Requirement { key, values, negated }| {
        let value = labels.get(key).and_then(Value::as_str);
        value.is_some_and(|value| values.is_none_or(|values| values.contains(&value))) != negated
    }))
}

/// Splits a selector at the commas outside parentheses.
///
/// # Errors
/// Returns a message if the parentheses do not match.
fn split(selector: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let mut from = 0;
    let mut depth = 0_i32;
    for (at, character) in selector.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&selector[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if depth != 0 {
        return Err(format!("{selector:?}: the parentheses do not match"));
    }
    if !selector.trim().is_empty() {
        parts.push(&selector[from..]);
    }
    Ok(parts)
}

fn parse(part: &str) -> Result<Requirement<'_>, String> {
    let requirement = if let Some(key) = part.strip_prefix('!') {
        Requirement { key: key.trim(), values: None, negated: true }
    } else if let Some((key, value)) = part.split_once("!=") {
        Requirement { key: key.trim(), values: Some(vec![value.trim()]), negated: true }
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        Requirement { key: key.trim(), values: Some(vec![value.trim()]), negated: false }
    } else if let Some(list) = part.strip_suffix(')') {
        let (head, list) = list.split_once('(').ok_or_else(|| format!("{part:?}: a '(' is missing"))?;
        let values = Some(list.split(',').map(str::trim).collect());
        match head.split_whitespace().collect::<Vec<_>>()[..] {
            [key, "in"] => Requirement { key, values, negated: false },
            [key, "notin"] => Requirement { key, values, negated: true },
            _ => return Err(format!("{part:?}: neither `in` nor `notin`")),
        }
    } else {
        Requirement { key: part, values: None, negated: false }
    };
    let label = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let values = requirement.values.iter().flatten().copied();
    if requirement.key.is_empty() || !values.chain([requirement.key]).all(|text| text.bytes().all(label)) {
        return Err(format!("{part:?} is not a label requirement that the test kit supports"));
    }
    Ok(requirement)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn matches_labels_as_the_api_server_does() {
        let labels = json!({"app": "db", "tier": "a", "e.dev/x": ""});
        let labels = labels.as_object().expect("an object");
        for (selector, matched) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("none", false),
            ("!none", true),
            ("app=db", true),
            ("app == db, tier=a", true),
            ("app!=db", false),
            ("none!=x", true),
            ("tier in (a, b)", true),
            ("tier in (b,c),app=db", false),
            ("tier notin (b)", true),
            ("none notin (b)", true),
            ("e.dev/x=", true),
        ] {
            assert_eq!(matches(selector, labels), Ok(matched), "{selector}");
        }
        for wrong in ["tier in (a", "tier into (a)", "=x", "a,,b", "size > 3", "a)"] {
            assert!(matches(wrong, labels).is_err(), "{wrong}");
        }
    }
}

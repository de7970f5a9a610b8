//! Removes from answers what differs between runs: UIDs, revisions, times, random names, ages.

use serde_json::Value;

/// The built-in resources that the tests know.
const KNOWN: [&str; 3] = ["configmaps", "namespaces", "secrets"];

pub fn normalize(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("managedFields");
            for (name, member) in members.iter_mut() {
                normalize_member(name, member);
            }
            drop_foreign_description(members);
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::String(text) => *text = normalize_text(text),
        _ => {}
    }
}

fn normalize_member(name: &str, member: &mut Value) {
    match (name, &*member) {
        ("resourceVersion", Value::String(text)) if !text.is_empty() => *member = "<rv>".into(),
        ("creationTimestamp" | "deletionTimestamp", Value::String(_)) => *member = "<time>".into(),
        ("continue", Value::String(text)) if !text.is_empty() => *member = "<continue>".into(),
        ("serverAddress", _) => *member = "<address>".into(),
        ("cells", Value::Array(cells)) => {
            let ages = cells.iter().map(|cell| {
                if is_age(cell) {
                    "<age>".into()
                } else {
                    cell.clone()
                }
            });
            *member = ages.collect();
        }
        ("message", Value::String(text)) => *member = normalize_message(text).into(),
        ("resources" | "items", Value::Array(_)) => {
            keep_known(member);
            normalize(member);
        }
        _ => normalize(member),
    }
}

/// Reduces discovery to what the tests know, sorted by name.
fn keep_known(list: &mut Value) {
    let Some(items) = list.as_array_mut() else {
        return;
    };

    let name_of = |item: &Value| {
        let name = item["name"].as_str().or(item["resource"].as_str());
        name.map(|name| name.split('/').next().unwrap_or_default().to_owned())
    };

    let is_discovery = items.iter().any(|item| item["verbs"].is_array());
    if is_discovery
        && items
            .iter()
            .filter_map(name_of)
            .any(|name| KNOWN.contains(&name.as_str()))
    {
        items.retain(|item| name_of(item).is_some_and(|name| KNOWN.contains(&name.as_str())));
    }

    if is_discovery {
        items.sort_by_key(name_of);
    }

    if items
        .iter()
        .any(|item| item["versions"].is_array() && item["metadata"]["name"].is_string())
    {
        items.retain(|item| item["metadata"]["name"] == "example.com");
    }
}

/// Drops descriptions of columns that only one kind has.
fn drop_foreign_description(members: &mut serde_json::Map<String, Value>) {
    let is_common = matches!(
        members.get("name").and_then(Value::as_str),
        Some("Name" | "Age")
    );
    if members.contains_key("priority") && !is_common {
        members.remove("description");
        members.remove("type");
    }
}

fn is_age(cell: &Value) -> bool {
    let Some(text) = cell.as_str() else {
        return false;
    };
    text.len() < 8
        && text.starts_with(|character: char| character.is_ascii_digit())
        && text.ends_with(['s', 'm', 'h'])
}

/// Replaces UIDs and the random ends of generated names.
fn normalize_text(text: &str) -> String {
    let mut out = replace_uids(text);
    for prefix in ["gen-", "Gen_", "gggggggggg"] {
        out = replace_suffix(&out, prefix);
    }
    out
}

/// Also replaces numbers that may be revisions.
fn normalize_message(text: &str) -> String {
    let mut text = normalize_text(text);
    let patched = "Invalid value: \"{";

    if let (Some(start), Some(end)) = (text.find(patched), text.rfind("}\": ")) {
        text.replace_range(start + patched.len() - 1..=end, "<json>");
    }

    let mut out = String::new();
    let mut digits = String::new();
    for character in text.chars().chain(['\0']) {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }

        out.push_str(if digits.len() > 2 { "<n>" } else { &digits });
        digits.clear();
        out.push(character);
    }

    out.trim_end_matches('\0').to_owned()
}

fn replace_uids(text: &str) -> String {
    let lengths = [8, 4, 4, 4, 12];
    let is_uid = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        parts.len() == 5
            && parts.iter().zip(lengths).all(|(part, length)| {
                part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
    };

    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match rest.get(..36).filter(|candidate| is_uid(candidate)) {
            Some(_) => {
                out.push_str("<uid>");
                rest = &rest[36..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// Replaces the five random characters at the end of words with a prefix.
fn replace_suffix(text: &str, prefix: &str) -> String {
    let is_word = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    let mut out = String::new();

    for part in text.split_inclusive(|character| !is_word(character)) {
        let word = part.trim_end_matches(|character| !is_word(character));

        let is_generated =
            word.starts_with(prefix) && word.len() >= prefix.len() + 5 && word.len() <= 63;
        if is_generated {
            out.push_str(&word[..word.len() - 5]);
            out.push_str("<random>");
            out.push_str(&part[word.len()..]);
        } else {
            out.push_str(part);
        }
    }

    out
}

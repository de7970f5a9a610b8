//! Fields that field selectors can use, and paths to fields of a schema.

use super::{model::SelectableField, options::MAX_SELECTABLE_FIELDS, schema::Schema, structural};
use crate::apimachinery::field::{FieldError, Path, Shown};

/// Validates the selectable fields of a version, below the path of the version.
pub fn check(
    fields: &[SelectableField],
    schema: Option<&Schema>,
    allow_many: bool,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if let Some(detail) = schema.and_then(structural::unsupported) {
        errors.push(FieldError::invalid_text(
            path.child("schema.openAPIV3Schema"),
            "",
            detail,
        ));
        return;
    }

    let path = path.child("selectableFields");
    let empty = Schema::default();
    let schema = schema.unwrap_or(&empty);
    let mut seen = std::collections::BTreeSet::new();

    for (at, field) in fields.iter().enumerate() {
        let path = path.index(at).child("jsonPath");
        let place = &field.json_path;
        if place.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }

        let (normal, found) = match resolve(place, schema, false) {
            Ok(resolved) => resolved,
            Err(detail) => {
                errors.push(FieldError::invalid_text(
                    &path,
                    place,
                    format!("is an invalid path: {detail}"),
                ));
                continue;
            }
        };

        if normal.as_str() == "metadata" || normal.as_str().starts_with("metadata.") {
            errors.push(FieldError::invalid_text(
                &path,
                place,
                "must not point to fields in metadata",
            ));
        }

        if !matches!(found.kind.as_str(), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.push(FieldError::invalid_text(&path, place, detail));
        }

        if !seen.insert(normal.to_string()) {
            errors.push(FieldError::duplicate(&path, Shown::text(place)));
        }
    }

    if seen.len() > MAX_SELECTABLE_FIELDS && !allow_many {
        let max = i64::try_from(MAX_SELECTABLE_FIELDS).unwrap_or(i64::MAX);
        errors.push(FieldError::too_many(&path, seen.len(), max));
    }
}

/// Splits a path into dots, brackets, and the texts between them.
fn tokens(path: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = rest.as_bytes();
                let close =
                    (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\');
                close.map_or(rest.len(), |at| at + 1)
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };

        let (token, after) = rest.split_at(end);
        found.push(token);
        rest = after;
    }

    found
}

/// Follows a path of fields and map keys through a schema. Returns the path in its normal form, and
/// the schema there.
///
/// # Errors
/// Returns the real server's message if the path is malformed or leaves the schema.
pub fn resolve<'s>(
    path: &str,
    schema: &'s Schema,
    brackets: bool,
) -> Result<(Path, &'s Schema), String> {
    let end = || "unexpected end of JSON path".to_owned();
    let mut found = (Path::root(), schema);
    let mut tokens = tokens(path).into_iter();
    while let Some(token) = tokens.next() {
        match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted
                    .strip_prefix('\'')
                    .and_then(|rest| rest.strip_suffix('\''));
                let inner = inner
                    .ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;

                found = step(found, &unescape(inner)?)?;
                match tokens.next().ok_or_else(end)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => found = step(found, tokens.next().ok_or_else(end)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }

    Ok(found)
}

fn step<'s>((path, schema): (Path, &'s Schema), name: &str) -> Result<(Path, &'s Schema), String> {
    let missing = || "does not refer to a valid field".to_owned();
    if !schema.properties.is_empty() {
        return Ok((
            path.child(name),
            schema.properties.get(name).ok_or_else(missing)?,
        ));
    }

    Ok((path.key(name), schema.additional().ok_or_else(missing)?))
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }

        match chars.next() {
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\u{b}'),
            Some(c @ ('\'' | '\\')) => out.push(c),
            Some(c) => return Err(format!("invalid string literal: invalid escape char \\{c}")),
            None => out.push('\\'),
        }
    }

    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn resolves_fields_and_map_keys() {
        let schema = json!({"properties": {"spec": {"properties": {"a-b": {"type": "string"}}},
            "map": {"additionalProperties": {"type": "string"}}}});
        let schema: Schema = serde_json::from_value(schema).expect("schema");
        let normal = |path: &str| resolve(path, &schema, true).map(|(path, _)| path.to_string());
        assert_eq!(normal(".spec['a-b']"), Ok("spec.a-b".to_owned()));
        assert_eq!(normal(".map['x\\'y']"), Ok("map[x'y]".to_owned()));
        assert_eq!(normal(".map.x"), Ok("map[x]".to_owned()));
        assert_eq!(
            normal("spec"),
            Err("expected [ or . but got: spec".to_owned())
        );
        assert_eq!(
            normal(".spec."),
            Err("unexpected end of JSON path".to_owned())
        );
        assert_eq!(
            normal(".spec.c"),
            Err("does not refer to a valid field".to_owned())
        );
        assert_eq!(
            normal(".spec[0]"),
            Err("expected single quoted string but got 0".to_owned())
        );
        assert_eq!(
            resolve(".spec['a-b']", &schema, false).err(),
            Some("array notation is not allowed".to_owned())
        );
    }
}

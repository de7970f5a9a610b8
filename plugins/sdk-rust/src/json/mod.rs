//! Objects as JSON text. Every object that is sent has apiVersion and kind, even if its type has no
//! such fields.

mod cast;
mod de;
mod fault;
mod float;
mod key;
mod name;
mod read;
mod ser;
mod string;
mod time;
mod value;
mod variant;
mod write;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::fault::Fault;
pub(crate) use self::float::decimal;
use self::read::Reader;
use self::write::Writer;
pub(crate) use self::write::float;
use crate::{ApiError, GroupVersionKind, Object, ObjectKey};

/// Writes a value as JSON.
///
/// # Errors
/// Returns an error if its type refuses to be written, or a key is not a string, number or boolean.
pub(crate) fn to_string(value: &(impl Serialize + ?Sized)) -> Result<String, Fault> {
    let mut writer = Writer::new();
    writer.value(value)?;
    Ok(writer.into_text())
}

/// Reads a value from JSON.
///
/// # Errors
/// Returns an error with a position if the text is not JSON, or not such a value.
pub(crate) fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Fault> {
    let mut reader = Reader::new(text);
    match T::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(fault) => Err(reader.locate(fault)),
    }
}

/// Writes an object as the API server expects it.
///
/// # Errors
/// Returns a malformed error if the object cannot be written as a JSON object.
pub(crate) fn encode(object: &impl Object) -> Result<String, ApiError> {
    let kind = object.group_version_kind();
    let text = to_string(object).map_err(|error| unwritable(&kind, &error))?;
    with_type(text, &kind)
}

#[cold]
#[inline(never)]
fn unwritable(kind: &GroupVersionKind, error: &Fault) -> ApiError {
    ApiError::malformed(format!("this {kind} cannot be written as JSON: {error}"))
}

/// Adds apiVersion and kind to an object's text if they are missing.
///
/// # Errors
/// Returns a malformed error if the text is not a JSON object.
pub(crate) fn with_type(text: String, kind: &GroupVersionKind) -> Result<String, ApiError> {
    // k8s-openapi's types begin like this, so their text need not be parsed.
    if text.starts_with("{\"apiVersion\":\"")
        && text.get(15..).and_then(after_string) == Some(",\"kind\":\"")
    {
        return Ok(text);
    }

    let (has_api_version, has_kind) = type_members(&text).map_err(|error| {
        ApiError::malformed(format!("this {kind} is not a JSON object: {error}"))
    })?;

    let mut members = String::new();
    if !has_api_version {
        members.push_str(&member("apiVersion", &kind.api_version));
    }
    if !has_kind {
        members.push_str(&member("kind", &kind.kind));
    }

    let rest = text.trim_start().get(1..).unwrap_or_default();
    if rest.trim_start().starts_with('}') {
        members.pop();
    }

    Ok(format!("{{{members}{rest}"))
}

/// Reports whether an object has an apiVersion and a kind.
fn type_members(text: &str) -> Result<(bool, bool), Fault> {
    let mut reader = Reader::new(text);
    let mut has = (false, false);

    reader.open(b'{', &"an object")?;
    while let Some((key, _)) = reader.key()? {
        has.0 |= key == "apiVersion";
        has.1 |= key == "kind";
        reader.skip()?;
    }

    reader.close(b'}');
    reader.end().map(|()| has)
}

/// The nine bytes after the string literal whose content begins here.
fn after_string(text: &str) -> Option<&str> {
    let end = text.find('"')?;
    text.get(end + 1..end + 10)
}

fn member(name: &str, value: &str) -> String {
    let mut writer = Writer::new();
    writer.member(name);
    writer.string(value);
    writer.raw(",");
    writer.into_text()
}

/// Reads an object of a kind as a `T`.
///
/// # Errors
/// Returns a malformed error if the object does not fit the type.
pub(crate) fn decode<T: DeserializeOwned>(
    kind: &GroupVersionKind,
    text: &str,
) -> Result<T, ApiError> {
    from_str(text).map_err(|error| misfit(kind, std::any::type_name::<T>(), text, &error))
}

/// Names the object and the field, because a list may have one such object among many.
#[cold]
#[inline(never)]
fn misfit(kind: &GroupVersionKind, name: &str, text: &str, error: &Fault) -> ApiError {
    let name = name
        .rfind(':')
        .and_then(|at| name.get(at + 1..))
        .unwrap_or(name);
    let field = error.position().map(|at| path_at(text, at));
    let field = match field.as_deref() {
        None | Some("") => String::new(),
        Some(path) => format!(" at {path}"),
    };
    let object = key(text);
    ApiError::malformed(format!(
        "{kind} {object} does not fit the type {name}{field}: {error}"
    ))
}

/// Returns the key of an object, as far as the text has it.
#[cold]
#[inline(never)]
pub(crate) fn key(text: &str) -> ObjectKey {
    let object: Value = from_str(text).unwrap_or_default();
    let field = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
    ObjectKey {
        namespace: field("namespace"),
        name: field("name").unwrap_or_default(),
    }
}

/// Returns the path of the value that ends at a position or has it inside, such as
/// `.spec.ports[0].port`; as much of it as can be read.
#[cold]
#[inline(never)]
fn path_at(text: &str, at: usize) -> String {
    let mut path = String::new();
    let (mut text, mut at) = (text, at);
    while let Ok(Some((step, value, end))) = child_at(text, at) {
        path.push_str(&step);
        at = at.saturating_sub(end - value.len());
        text = value;
    }
    path
}

/// Finds the member or item that has a position: its step in the path, its text and its end.
fn child_at(text: &str, at: usize) -> Result<Option<(String, &str, usize)>, Fault> {
    let mut reader = Reader::new(text);
    match reader.peek() {
        b'{' => {
            reader.open(b'{', &"an object")?;
            while let Some((key, _)) = reader.key()? {
                let step = format!(".{key}");
                let value = reader.skip()?;
                if at <= reader.at {
                    return Ok(Some((step, value, reader.at)));
                }
            }
        }
        b'[' => {
            reader.open(b'[', &"an array")?;
            let mut index = 0;
            while reader.item(b']')? {
                let value = reader.skip()?;
                if at <= reader.at {
                    return Ok(Some((format!("[{index}]"), value, reader.at)));
                }
                index += 1;
            }
        }
        _ => {}
    }
    Ok(None)
}

/// Reports whether two objects are semantically equal: an absent field, `null`, `[]` and `{}` do
/// not differ (apimachinery's `equality.Semantic`).
///
/// # Errors
/// Returns a malformed error if one of them is not JSON.
pub(crate) fn semantically_equal(a: &impl Serialize, b: &str) -> Result<bool, ApiError> {
    let failed = |error: Fault| ApiError::malformed(format!("not JSON: {error}"));
    let a = to_string(a).map_err(failed)?;
    if a == b {
        return Ok(true);
    }

    Ok(same(
        &from_str(&a).map_err(failed)?,
        &from_str(b).map_err(failed)?,
    ))
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let one_way = |a: &serde_json::Map<String, Value>,
                           b: &serde_json::Map<String, Value>| {
                a.iter()
                    .all(|(name, a)| b.get(name).map_or_else(|| is_empty(a), |b| same(a, b)))
            };
            one_way(a, b) && one_way(b, a)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => a == b || (is_empty(a) && is_empty(b)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests;

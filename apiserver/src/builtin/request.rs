//! The way of an object through a write: decode, default, prepare, validate.

use super::{
    codec::{
        Instant,
        decode::{decode, quote, zero},
        types::TYPES,
    },
    defaults,
    resources::{Resource, resource_of_kind},
    strategy, validation,
};
use crate::apimachinery::{
    json::{Node, parse},
    options::FieldValidation,
    status::Status,
};
use serde_json::Value;

/// A decoded object.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedObject {
    /// The object with defaults, in the form in which it is stored.
    pub object: Value,
    /// A warning for each unknown or duplicate field.
    pub warnings: Vec<String>,
}

/// Decodes a body as an object of a resource and sets its defaults.
///
/// # Errors
/// Returns the real server's 400 for a body that is no JSON, of another kind, of wrong types, or
/// with unknown fields.
pub fn decode_body(
    resource: &Resource,
    body: &[u8],
    validation: FieldValidation,
) -> Result<DecodedObject, Status> {
    let node = parse(body)
        .map_err(|error| unrecognized(&resource.kind, &unparsed(&error.to_string()), body))?;
    decode_node(&resource.api_version(), &resource.kind, &node, validation).map_err(|error| {
        match error.strip_prefix(UNRECOGNIZED) {
            Some(cause) => unrecognized(&resource.kind, cause, body),
            None => bad_request(error),
        }
    })
}

/// Decodes the result of a patch as an object of a resource and sets its defaults. The warnings are
/// the unknown and duplicate fields.
///
/// # Errors
/// Returns the message of Go's decoder, without the words around it that a body gets.
pub fn decode_patched(resource: &Resource, text: &[u8]) -> Result<DecodedObject, String> {
    let node = parse(text).map_err(|error| error.to_string())?;
    let (object, warnings) = typed(&resource.api_version(), &resource.kind, &node)?;
    Ok(DecodedObject { object, warnings })
}

/// Decodes a value as an object of a kind and sets its defaults. The kind need not be that of a
/// resource.
///
/// # Errors
/// Returns the real server's 400 for wrong types or unknown fields.
pub fn decode_value(
    api_version: &str,
    kind: &str,
    value: &Value,
    validation: FieldValidation,
) -> Result<DecodedObject, Status> {
    decode_node(api_version, kind, &Node::from_value(value), validation).map_err(bad_request)
}

fn bad_request(message: String) -> Status {
    Status::bad_request(message)
}

/// Marks the error for a value whose kind cannot be read.
const UNRECOGNIZED: &str = "\0";

/// Returns why the kind of a value cannot be read.
fn unreadable_kind(node: &Node) -> Option<String> {
    const TYPE: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let kind_of = |node: &Node| match node {
        Node::Bool(_) => Some("bool"),
        Node::Number(_) => Some("number"),
        Node::String(_) => Some("string"),
        Node::Array(_) => Some("array"),
        Node::Object(_) => Some("object"),
        Node::Null => None,
    };
    let Node::Object(fields) = node else {
        return kind_of(node)
            .map(|kind| format!("json: cannot unmarshal {kind} into Go value of type {TYPE}"));
    };
    let wrong = fields.iter().find(|(key, value)| {
        matches!(key.as_str(), "apiVersion" | "kind")
            && !matches!(value, Node::String(_) | Node::Null)
    });
    wrong.and_then(|(key, value)| {
        let kind = kind_of(value)?;
        Some(format!(
            "json: cannot unmarshal {kind} into Go struct field .{key} of type string"
        ))
    })
}

fn unparsed(error: &str) -> String {
    format!("couldn't get version/kind; json parse error: {error}")
}

/// Returns the error for a body whose kind cannot be read.
fn unrecognized(kind: &str, cause: &str, body: &[u8]) -> Status {
    const SHOWN: usize = 30;
    let printable = body
        .iter()
        .all(|byte| matches!(byte, 0x20..=0x7e | b'\n' | b'\r' | b'\t'));
    let shown = match std::str::from_utf8(body) {
        _ if body.is_empty() => "<empty>".to_owned(),
        Ok(text) if printable && text.trim_start().starts_with('{') => {
            match text.char_indices().nth(SHOWN) {
                Some((end, _)) => format!("{} ...", &text[..end]),
                None => text.to_owned(),
            }
        }
        _ => {
            let hex: String = body
                .iter()
                .take(SHOWN)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            if body.len() > SHOWN {
                format!("{hex} ...")
            } else {
                hex
            }
        }
    };
    bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {cause} ({shown})"
    ))
}

fn typed(api_version: &str, kind: &str, node: &Node) -> Result<(Value, Vec<String>), String> {
    let Some(id) = TYPES.of_kind(api_version, kind) else {
        return Err(format!(
            "no kind {} is registered for version {}",
            quote(kind),
            quote(api_version)
        ));
    };
    let decoded = decode(id, node)?;
    let mut complete = decoded.value;
    let is_changed = changes(&mut complete, |object| {
        super::object::set(object, "kind", kind);
        super::object::set(object, "apiVersion", api_version);
        if (api_version, kind) == ("v1", "Secret") {
            strategy::string_data(object);
        }
        if (api_version, kind) == ("apps/v1", "DaemonSet") {
            strategy::template_generation(object, 0);
        }
        defaults::apply_first(api_version, kind, object);
    });
    if is_changed {
        complete = decode(id, &Node::from_value(&complete))?.value;
    }
    if is_empty_list(node, &["metadata", "managedFields"]) {
        complete["metadata"]["managedFields"] = Value::Array(Vec::new());
    }
    if api_version == "rbac.authorization.k8s.io/v1" && is_empty_list(node, &["rules"]) {
        // Until it is stored, an empty list is another value than none: it has a manager.
        complete["rules"] = Value::Array(Vec::new());
    }
    Ok((complete, decoded.strict))
}

/// Reports whether an object has an empty list at a path.
fn is_empty_list(node: &Node, path: &[&str]) -> bool {
    match (path.split_first(), node) {
        (None, node) => *node == Node::Array(Vec::new()),
        (Some((name, rest)), Node::Object(fields)) => fields
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .is_some_and(|(_, value)| is_empty_list(value, rest)),
        _ => false,
    }
}

fn decode_node(
    api_version: &str,
    kind: &str,
    node: &Node,
    validation: FieldValidation,
) -> Result<DecodedObject, String> {
    let field = |name: &str| match node {
        Node::Object(fields) => fields
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value),
        _ => None,
    };
    let text = |name: &str, default: &str| match field(name) {
        Some(Node::String(text)) if !text.is_empty() => text.clone(),
        _ => default.to_owned(),
    };
    if let Some(cause) = unreadable_kind(node) {
        return Err(format!("{UNRECOGNIZED}{}", unparsed(&cause)));
    }
    let own_version = text("apiVersion", api_version);
    if own_version.matches('/').count() > 1 {
        return Err(format!(
            "{UNRECOGNIZED}unexpected GroupVersion string: {own_version}"
        ));
    }
    let own_kind = text("kind", kind);
    let version = own_version
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let wrap = |error: String| {
        format!(
            "{own_kind} in version {} cannot be handled as a {kind}: {error}",
            quote(&version)
        )
    };
    if own_version != api_version || own_kind != kind {
        return Err(wrap(mismatch(
            (api_version, kind),
            (&own_version, &own_kind),
        )));
    }
    let (object, strict) = typed(api_version, kind, node).map_err(&wrap)?;
    if validation == FieldValidation::Strict && !strict.is_empty() {
        return Err(wrap(format!(
            "strict decoding error: {}",
            strict.join(", ")
        )));
    }
    let warnings = if validation == FieldValidation::Warn {
        strict
    } else {
        Vec::new()
    };
    Ok(DecodedObject { object, warnings })
}

/// Returns why an object of one kind cannot be one of another.
fn mismatch(expected: (&str, &str), (api_version, kind): (&str, &str)) -> String {
    if TYPES.of_kind(api_version, kind).is_none() {
        return format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            quote(kind),
            quote(api_version)
        );
    }
    let package = |api_version: &str| match api_version.split_once('/') {
        Some((group, _)) => group.split('.').next().unwrap_or_default().to_owned(),
        None => "core".to_owned(),
    };
    let version = api_version.rsplit('/').next().unwrap_or_default();
    format!(
        "converting ({version}.{kind}) to ({}.{}): unknown conversion",
        package(expected.0),
        expected.1
    )
}

/// Prepares and validates a new object. The namespace, the name, the uid and the creation time are
/// set already.
///
/// # Errors
/// Returns the real server's 422 with all causes.
pub fn prepare_create(
    api_version: &str,
    kind: &str,
    object: Value,
    now: Instant,
) -> Result<Value, Status> {
    let mut object = object;
    strategy::prepare_for_create(api_version, kind, &mut object, now);
    let object = complete(api_version, kind, object);
    let errors = validation::create(api_version, kind, &object);
    invalid(api_version, kind, &object, errors)?;
    Ok(stored(api_version, kind, object))
}

/// Prepares and validates an update of a resource, or of its subresource `status` or `finalize`.
///
/// # Errors
/// Returns the real server's 422 with all causes.
pub fn prepare_update(
    (api_version, kind): (&str, &str),
    subresource: Option<&str>,
    old: &Value,
    new: Value,
    now: Instant,
) -> Result<Value, Status> {
    let mut new = new;
    strategy::prepare_for_update(api_version, kind, subresource, old, &mut new, now);
    let new = complete(api_version, kind, new);
    let errors = validation::update(api_version, kind, subresource, old, &new);
    invalid(api_version, kind, &new, errors)?;
    Ok(stored(api_version, kind, new))
}

/// Returns an object as it is read back from storage, where defaulting sees it once more.
fn stored(api_version: &str, kind: &str, mut object: Value) -> Value {
    // Most objects are as defaulting leaves them, and decoding is the largest cost of a write.
    if changes(&mut object, |object| {
        defaults::apply_stored(api_version, kind, object);
    }) {
        object = complete(api_version, kind, object);
    }
    object
}

/// Changes an object, and reports whether it is another one now.
fn changes(object: &mut Value, change: impl FnOnce(&mut Value)) -> bool {
    let before = object.clone();
    change(object);
    *object != before
}

/// Adds the zero values that encoding prints.
fn complete(api_version: &str, kind: &str, object: Value) -> Value {
    let Some(id) = TYPES.of_kind(api_version, kind) else {
        return object;
    };
    match decode(id, &Node::from_value(&object)) {
        Ok(decoded) if decoded.value != zero(id) => decoded.value,
        _ => object,
    }
}

fn invalid(
    api_version: &str,
    kind: &str,
    object: &Value,
    errors: validation::ErrorList,
) -> Result<(), Status> {
    let errors = errors.into_list();
    if errors.is_empty() {
        return Ok(());
    }
    let group = match resource_of_kind(api_version, kind) {
        Some(resource) => resource.group.clone(),
        None => api_version
            .split_once('/')
            .map(|(group, _)| group.to_owned())
            .unwrap_or_default(),
    };
    let name = super::object::text(object, "metadata.name");
    Err(Status::invalid(&group, kind, name, errors))
}

//! Reads the object in a request's body.

use serde_json::Value;

use super::{
    call::{Call, remove_type},
    field_error::FieldError,
    json, metadata,
    negotiate::{self, Encoding},
    protobuf::{self, ProtobufError},
    query::FieldValidation,
    resource::Flavor,
    status::ApiError,
};

/// Reads the object of a create or update: checks its type, its fields and its namespace.
///
/// # Errors
///
/// 415 for other encodings, 400 and 422 for objects that are not of the resource's kind.
pub(super) fn read_object(call: &Call<'_>, validation: FieldValidation) -> Result<Value, ApiError> {
    let text = read_json(call)?;
    let resource = &call.view.resource;
    let mut object = match resource.strategy.read(resource, &text, validation).transpose()? {
        Some(decoded) => {
            decoded.problems.into_iter().for_each(|warning| call.warn(warning));
            decoded.object
        }
        None => read_generic(call, &text, validation)?,
    };
    remove_type(&mut object);
    check_namespace(call, &mut object)?;
    Ok(object)
}

/// Reads an object by the generic rules and sets its defaults.
fn read_generic(call: &Call<'_>, text: &[u8], validation: FieldValidation) -> Result<Value, ApiError> {
    let resource = &call.view.resource;
    let head = json::parse(text).map_err(|error| {
        unrecognized(&resource.names.kind, text, &format!("couldn't get version/kind; json parse error: {error}"))
    })?;
    check_type(call, &head.value, text, validation)?;
    let refuse = |message: String| cannot_be_handled(call, &resource.version, &message);
    let decoded = resource.strategy.decode(resource, text).map_err(refuse)?;
    call.check_problems(decoded.problems, validation, refuse)?;
    let mut object = decoded.object;
    resource.strategy.default(&mut object);
    Ok(object)
}

/// Returns the body of a create or update as JSON.
fn read_json(call: &Call<'_>) -> Result<Vec<u8>, ApiError> {
    body_as_json(call, |message| unrecognized(&call.view.resource.names.kind, call.body, &message))
}

/// Returns a body as JSON, from the encoding that its media type names. `refuse` makes the error for a malformed one.
///
/// # Errors
///
/// 415 for other encodings, and what `refuse` returns.
pub(super) fn body_as_json(call: &Call<'_>, refuse: impl FnOnce(String) -> ApiError) -> Result<Vec<u8>, ApiError> {
    match negotiate::content_encoding(call.headers)? {
        Encoding::Json => Ok(call.body.to_vec()),
        Encoding::Yaml => yaml_to_json(call.body).map_err(|error| refuse(format!("yaml: {error}"))),
        Encoding::Protobuf => protobuf::to_json(call.body).map_err(|error| match error {
            ProtobufError::UnknownKind => ApiError::not_implemented("this kind in protobuf"),
            error => refuse(error.to_string()),
        }),
    }
}

/// Converts YAML to JSON.
///
/// # Errors
///
/// The message of the parser.
pub(super) fn yaml_to_json(text: &[u8]) -> Result<Vec<u8>, String> {
    let value: Value = serde_yaml_ng::from_slice(text).map_err(|error| error.to_string())?;
    serde_json::to_vec(&value).map_err(|error| error.to_string())
}

/// Returns the message about a body that is no object.
pub(super) fn no_object(body: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ \
         APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        json::type_name(body)
    )
}

fn check_type(call: &Call<'_>, object: &Value, text: &[u8], validation: FieldValidation) -> Result<(), ApiError> {
    if !object.is_object() && !object.is_null() {
        return Err(unrecognized(&call.view.resource.names.kind, text, &no_object(object)));
    }
    let member = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, api_version) = (member("kind"), member("apiVersion"));
    if api_version.matches('/').count() > 1 {
        let message = format!("unexpected GroupVersion string: {api_version}");
        return Err(unrecognized(&call.view.resource.names.kind, text, &message));
    }
    match call.view.resource.flavor {
        Flavor::BuiltIn => check_built_in_type(call, kind, api_version),
        Flavor::Custom => check_custom_type(call, object, (kind, api_version), text, validation),
    }
}

fn check_built_in_type(call: &Call<'_>, kind: &str, api_version: &str) -> Result<(), ApiError> {
    let resource = &call.view.resource;
    let expected = resource.api_version();
    let api_version = if api_version.is_empty() { &expected } else { api_version };
    if kind.is_empty() || (kind == resource.names.kind && api_version == expected) {
        return Ok(());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let known = call.state.resources.in_version(group, version).unwrap_or_default();
    let message = if known.iter().any(|other| other.names.kind == kind) {
        let internal = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or_default() };
        format!("converting ({version}.{kind}) to ({internal}.{}): unknown conversion", resource.names.kind)
    } else {
        format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )
    };
    Err(ApiError::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {}: {message}",
        resource.names.kind
    )))
}

fn check_custom_type(
    call: &Call<'_>,
    object: &Value,
    (kind, api_version): (&str, &str),
    text: &[u8],
    validation: FieldValidation,
) -> Result<(), ApiError> {
    let resource = &call.view.resource;
    let expected = resource.api_version();
    if kind.is_empty() {
        let shown = String::from_utf8_lossy(text);
        let message = format!("Object 'Kind' is missing in '{shown}'");
        if validation == FieldValidation::Ignore {
            return Err(cannot_be_handled(call, &resource.version, &message));
        }
        return Err(unrecognized(&resource.names.kind, text, &message));
    }
    if api_version != expected {
        let message =
            format!("the API version in the data ({api_version}) does not match the expected API version ({expected})");
        return Err(ApiError::bad_request(message));
    }
    if kind != resource.names.kind {
        let error = FieldError::invalid("kind", kind, &format!("must be {}", resource.names.kind));
        return Err(ApiError::invalid(&resource.group, kind, metadata::text(object, "name"), &[error]));
    }
    Ok(())
}

fn check_namespace(call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    let found = metadata::text(object, "namespace");
    match call.namespace() {
        None => metadata::set(object, "namespace", Value::Null),
        Some(namespace) if found.is_empty() => metadata::set(object, "namespace", namespace),
        Some(namespace) if found == namespace => {}
        Some(_) => {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(message));
        }
    }
    Ok(())
}

/// Checks the namespace of an object that a patch has changed.
///
/// # Errors
///
/// 400 when it is not the one of the request.
pub(super) fn check_patched_namespace(call: &Call<'_>, object: &mut Value) -> Result<(), ApiError> {
    check_namespace(call, object)
}

fn cannot_be_handled(call: &Call<'_>, version: &str, message: &str) -> ApiError {
    let kind = &call.view.resource.names.kind;
    ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {message}"))
}

fn unrecognized(kind: &str, text: &[u8], message: &str) -> ApiError {
    let excerpt = excerpt(text);
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {message} ({excerpt})"
    ))
}

/// Returns the beginning of a body, as the API server shows it: as text when it looks like JSON, else in hexadecimal.
fn excerpt(text: &[u8]) -> String {
    const LIMIT: usize = 30;
    if text.is_empty() {
        return "<empty>".into();
    }
    let is_json = text.trim_ascii_start().starts_with(b"{") && std::str::from_utf8(text).is_ok();
    let start = &text[..text.len().min(LIMIT)];
    let mut out = if is_json {
        String::from_utf8_lossy(start).into_owned()
    } else {
        start.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    if text.len() > LIMIT {
        out.push_str(" ...");
    }
    out
}

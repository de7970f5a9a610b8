//! Reads the object in a request's body.

use serde_json::Value;

use super::{
    call::{Call, remove_type},
    decode::Decoded,
    negotiate::{self, Encoding},
    protobuf::{self, ProtobufError},
    registry::Resources,
    resource::{Flavor, Resource},
};
use crate::apimachinery::{
    field::FieldError, json, metadata, options::FieldValidation, status::Status, yaml,
};

/// What errors of strict validation begin with.
const STRICT_ERROR: &str = "strict decoding error: ";

/// The body of a create or update, as JSON.
pub struct RequestBody<'a> {
    /// The resource of the request.
    pub resource: &'a Resource,
    /// The JSON text.
    pub text: &'a [u8],
    /// The treatment of unknown and duplicate fields.
    pub validation: FieldValidation,
    /// All resources: a body of another kind is refused in other words than one of none.
    pub resources: &'a Resources,
}

/// Reads the object of a create or update: checks its type, its fields and its namespace.
///
/// # Errors
///
/// 415 for other encodings, 400 and 422 for objects that are not of the resource's kind.
pub(super) fn read_object(call: &Call<'_>, validation: FieldValidation) -> Result<Value, Status> {
    let read = read_json(call)?;
    let body = RequestBody {
        resource: &call.view.resource,
        text: &read.text,
        validation,
        resources: &call.state.resources,
    };
    let decoded = call.view.resource.strategy.read(&body);
    let decoded = body.check_yaml(read.yaml_problem, decoded)?;

    let warnings = decoded.problems.into_iter();
    warnings.for_each(|warning| call.warn(warning));
    let mut object = decoded.object;
    remove_type(&mut object);
    check_namespace(call, &mut object)?;

    Ok(object)
}

impl RequestBody<'_> {
    /// Reads the object with the decoder of a kind whose type is not checked by that decoder.
    ///
    /// # Errors
    ///
    /// 400 and 422, as `Strategy::read`.
    pub fn decode(
        &self,
        decode: impl FnOnce(&[u8]) -> Result<Decoded, String>,
    ) -> Result<Decoded, Status> {
        // Numbers that are too large are refused by `decode`, with other words.
        let head = json::parse(self.text).map_err(|error| {
            self.unrecognized(&format!(
                "couldn't get version/kind; json parse error: {error}"
            ))
        })?;
        self.check_type(&head.to_value())?;

        let refuse = |message: String| self.cannot_be_handled(&message);
        let decoded = decode(self.text).map_err(refuse)?;
        let problems = check_problems(decoded.problems, self.validation).map_err(refuse)?;

        Ok(Decoded {
            object: decoded.object,
            problems,
        })
    }

    /// Adds what strict validation says about the YAML of a body to what it says about the fields.
    ///
    /// # Errors
    ///
    /// 400 if the client wants strict validation.
    fn check_yaml(
        &self,
        problem: Option<String>,
        decoded: Result<Decoded, Status>,
    ) -> Result<Decoded, Status> {
        let Some(problem) = problem else {
            return decoded;
        };

        match (self.validation, decoded) {
            (FieldValidation::Strict, Ok(_)) => {
                Err(self.cannot_be_handled(&format!("{STRICT_ERROR}{problem}")))
            }
            (FieldValidation::Strict, Err(mut error)) => {
                let both = format!("{STRICT_ERROR}{problem}, ");
                error.message = error.message.replacen(STRICT_ERROR, &both, 1);
                Err(error)
            }
            (FieldValidation::Warn, Ok(mut decoded)) => {
                // Go has one error for all lines, and makes a warning of each.
                let lines = problem.lines().skip(1).map(|line| line.trim().to_owned());
                decoded.problems.splice(..0, lines);
                Ok(decoded)
            }
            (_, decoded) => decoded,
        }
    }

    fn check_type(&self, object: &Value) -> Result<(), Status> {
        if !object.is_object() && !object.is_null() {
            return Err(self.unrecognized(&no_object(object)));
        }

        let member = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let (kind, api_version) = (member("kind"), member("apiVersion"));
        if api_version.matches('/').count() > 1 {
            let message = format!("unexpected GroupVersion string: {api_version}");
            return Err(self.unrecognized(&message));
        }

        match self.resource.flavor {
            Flavor::BuiltIn => self.check_built_in_type(kind, api_version),
            Flavor::Custom => self.check_custom_type(object, kind, api_version),
        }
    }

    fn check_built_in_type(&self, kind: &str, api_version: &str) -> Result<(), Status> {
        let own_kind = &self.resource.names.kind;
        let expected = self.resource.api_version();
        let api_version = if api_version.is_empty() {
            &expected
        } else {
            api_version
        };
        if kind.is_empty() || (kind == own_kind && api_version == expected) {
            return Ok(());
        }

        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let known = self.resources.in_version(group, version);
        let is_known = known
            .unwrap_or_default()
            .iter()
            .any(|other| other.names.kind == kind);
        let message = if is_known {
            let internal = if group.is_empty() {
                "core"
            } else {
                group.split('.').next().unwrap_or_default()
            };
            format!("converting ({version}.{kind}) to ({internal}.{own_kind}): unknown conversion")
        } else {
            format!(
                "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
            )
        };

        Err(Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {own_kind}: {message}"
        )))
    }

    fn check_custom_type(
        &self,
        object: &Value,
        kind: &str,
        api_version: &str,
    ) -> Result<(), Status> {
        if kind.is_empty() {
            let shown = String::from_utf8_lossy(self.text);
            let message = format!("Object 'Kind' is missing in '{shown}'");
            return Err(if self.validation == FieldValidation::Ignore {
                self.cannot_be_handled(&message)
            } else {
                self.unrecognized(&message)
            });
        }

        let expected = self.resource.api_version();
        if api_version != expected {
            let message = format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected})"
            );
            return Err(Status::bad_request(message));
        }

        let own_kind = &self.resource.names.kind;
        if kind != own_kind {
            let error = FieldError::invalid("kind", kind, format!("must be {own_kind}"));
            return Err(Status::invalid(
                &self.resource.group,
                kind,
                metadata::text(object, "name"),
                &[error],
            ));
        }

        Ok(())
    }

    fn cannot_be_handled(&self, message: &str) -> Status {
        let (kind, version) = (&self.resource.names.kind, &self.resource.version);
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {message}"
        ))
    }

    fn unrecognized(&self, message: &str) -> Status {
        unrecognized(&self.resource.names.kind, self.text, message)
    }
}

/// Returns the warnings about unknown and duplicate fields.
///
/// # Errors
///
/// The message of the refusal, if the client wants strict validation.
pub(super) fn check_problems(
    problems: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Strict if !problems.is_empty() => {
            Err(format!("{STRICT_ERROR}{}", problems.join(", ")))
        }
        FieldValidation::Warn => Ok(problems),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
    }
}

/// A body as JSON.
#[derive(Debug)]
pub(super) struct JsonBody {
    pub text: Vec<u8>,
    /// What strict validation says about its YAML.
    yaml_problem: Option<String>,
}

/// Returns the body of a create or update as JSON.
fn read_json(call: &Call<'_>) -> Result<JsonBody, Status> {
    body_as_json(call, |message| {
        unrecognized(&call.view.resource.names.kind, call.body, &message)
    })
}

/// Returns a body as JSON, from the encoding that its media type names. `refuse` makes the error
/// for a malformed one.
///
/// # Errors
///
/// 415 for other encodings, and what `refuse` returns.
pub(super) fn body_as_json(
    call: &Call<'_>,
    refuse: impl FnOnce(String) -> Status,
) -> Result<JsonBody, Status> {
    let mut yaml_problem = None;
    let text = match negotiate::content_encoding(call.headers)? {
        Encoding::Json => call.body.to_vec(),
        Encoding::Yaml => {
            let converted = yaml::to_json(call.body).map_err(|error| refuse(error.to_string()))?;
            yaml_problem = converted.strict_error();
            converted.json
        }
        Encoding::Protobuf => protobuf::to_json(call.body).map_err(|error| match error {
            ProtobufError::UnknownKind => Status::not_implemented("this kind in protobuf"),
            error => refuse(error.to_string()),
        })?,
    };

    Ok(JsonBody { text, yaml_problem })
}

/// Returns the message for a body that isn't an object.
pub(super) fn no_object(body: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ \
         APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        json::type_name(body)
    )
}

/// Gives an object the namespace of the request.
///
/// # Errors
///
/// 400 when the object names another one.
pub(super) fn check_namespace(call: &Call<'_>, object: &mut Value) -> Result<(), Status> {
    let found = metadata::text(object, "namespace");
    match call.namespace() {
        None => metadata::set(object, "namespace", Value::Null),
        Some(namespace) if found.is_empty() => metadata::set(object, "namespace", namespace),
        Some(namespace) if found == namespace => {}
        Some(_) => return Err(Status::other_namespace()),
    }

    Ok(())
}

fn unrecognized(kind: &str, text: &[u8], message: &str) -> Status {
    let excerpt = excerpt(text);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {message} ({excerpt})"
    ))
}

/// Returns the beginning of a body, as the API server shows it: as text when it looks like JSON,
/// else in hexadecimal.
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

//! The verb `patch`.

use serde_json::{Map, Value};

use super::{
    call::{Answer, Call, remove_type},
    negotiate::{PatchKind, patch_kind},
    query::WriteOptions,
    read_object::{check_namespace, check_problems},
    resource::Part,
    update::{Change, check_name, commit, store_absent},
};
use crate::{
    apimachinery::{
        field::FieldError,
        json::{self, SyntaxError},
        metadata,
        options::FieldValidation,
        status::Status,
        yaml,
    },
    golang,
};

/// The type of an object, as the API server names it in errors.
const OBJECT: &str = "map[string]interface {}";
/// The operations that a JSON patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// Changes an object, or its status, by a patch.
pub(super) fn patch(call: &Call<'_>, part: Part) -> Result<Answer, Status> {
    let name = call.name()?;
    let kind = patch_kind(call.headers, call.view.resource.flavor)?;
    let options = WriteOptions::read(call.query, "PatchOptions", kind == PatchKind::Apply)?;
    if kind == PatchKind::Apply {
        return apply(call, name, &options, part);
    }

    // A patch of an object that does not exist is not looked at.
    let patch = Patch::read(kind, call.body);
    let options_kind = "PatchOptions";
    let change = Change {
        options: &options,
        options_kind,
        part,
        uid_is_precondition: false,
        is_tracked: false,
    };

    commit(call, name, &change, |old| {
        let mut current = old.clone();
        call.add_type(&mut current);

        let patched = patch
            .as_ref()
            .map_err(Status::clone)?
            .apply(call, current)?;
        let shown = patch
            .as_ref()
            .map_or_else(|_| String::new(), |patch| patch.shown(&patched));

        finish(call, name, decode(call, &patched, &shown, &options)?)
    })
}

/// Decodes a patched object as if a client had sent it. Errors show `shown` in its place.
fn decode(
    call: &Call<'_>,
    patched: &Value,
    shown: &str,
    options: &WriteOptions,
) -> Result<Value, Status> {
    let refuse = |message: String| {
        Status::invalid("", "", "", &[FieldError::invalid("patch", shown, &message)])
    };
    let resource = &call.view.resource;
    let member = |name: &str| {
        patched
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };

    let (kind, api_version) = (member("kind"), member("apiVersion"));
    if kind != resource.names.kind || api_version != resource.api_version() {
        return Err(refuse(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }

    let text = json::to_vec(patched);
    let decoded = resource.strategy.decode(&text).map_err(refuse)?;
    let warnings = check_problems(decoded.problems, options.field_validation).map_err(refuse)?;
    warnings.into_iter().for_each(|warning| call.warn(warning));

    Ok(decoded.object)
}

/// Completes a patched object and checks its name and namespace.
fn finish(call: &Call<'_>, name: &str, mut object: Value) -> Result<Value, Status> {
    remove_type(&mut object);
    check_name(&object, name)?;
    check_namespace(call, &mut object)?;
    Ok(object)
}

/// A patch that was parsed.
enum Patch {
    Json(json_patch::Patch),
    /// A JSON patch that is valid JSON, but has an unknown operation or lacks a member.
    Unusable,
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    fn read(kind: PatchKind, body: &[u8]) -> Result<Self, Status> {
        let value = json::read(body).map_err(|error| match (kind, error) {
            // Go decodes the operations of a JSON patch into structs, and only syntax errors of a
            // strategic merge patch say that they are about a patch.
            (PatchKind::Json, error @ SyntaxError::Number(_)) => malformed(
                &error
                    .to_string()
                    .replace("Go value", "Go struct field jsonPatchOp.value"),
            ),
            (PatchKind::Strategic, error @ SyntaxError::Number(_)) => {
                Status::bad_request(error.to_string())
            }
            (_, error) => malformed(&error.to_string()),
        })?;

        match kind {
            // Go decodes null as an empty list or object.
            PatchKind::Json if value.is_null() => Ok(Self::Json(json_patch::Patch(Vec::new()))),
            PatchKind::Strategic if value.is_null() => {
                Ok(Self::Strategic(Value::Object(Map::new())))
            }
            _ if value.is_null() => Err(Status::bad_request("Invalid JSON Patch")),
            PatchKind::Json => {
                let Some(operations) = value.as_array() else {
                    return Err(malformed(&mismatch(&value, "[]handlers.jsonPatchOp")));
                };
                if operations.len() > MAX_OPERATIONS {
                    return Err(too_many_operations(operations.len()));
                }
                Ok(serde_json::from_value(value).map_or(Self::Unusable, Self::Json))
            }
            PatchKind::Strategic if !value.is_object() => {
                Err(Status::bad_request(mismatch(&value, OBJECT)))
            }
            _ if !value.is_object() => Err(malformed(&mismatch(&value, OBJECT))),
            PatchKind::Strategic => Ok(Self::Strategic(value)),
            PatchKind::Merge | PatchKind::Apply => Ok(Self::Merge(value)),
        }
    }

    /// Returns what errors show of a patched object. For a strategic merge that is the patch: the
    /// API server never writes the result as JSON.
    fn shown(&self, patched: &Value) -> String {
        match self {
            Self::Strategic(patch) => golang::plain(patch),
            _ => json::to_string(patched),
        }
    }

    fn apply(&self, call: &Call<'_>, mut object: Value) -> Result<Value, Status> {
        match self {
            Self::Unusable => Err(Status::unprocessable()),
            Self::Json(patch) => {
                for operation in &patch.0 {
                    apply_operation(&mut object, operation)?;
                }
                Ok(object)
            }
            Self::Merge(patch) => {
                json_patch::merge(&mut object, patch);
                Ok(object)
            }
            Self::Strategic(patch) => {
                remove_type(&mut object);
                let mut patched =
                    call.state
                        .fields
                        .strategic(&call.view.resource, &object, patch)?;

                let Some(members) = patched.as_object_mut() else {
                    return Err(Status::unprocessable());
                };

                members
                    .entry("kind")
                    .or_insert_with(|| call.view.resource.names.kind.as_str().into());
                members
                    .entry("apiVersion")
                    .or_insert_with(|| call.view.resource.api_version().into());

                Ok(patched)
            }
        }
    }
}

/// Applies one operation. As in the API server, `replace` of a missing member of an object adds it,
/// and `test` takes a missing member for null.
fn apply_operation(
    object: &mut Value,
    operation: &json_patch::PatchOperation,
) -> Result<(), Status> {
    if let json_patch::PatchOperation::Test(test) = operation
        && test.value.is_null()
        && object.pointer(test.path.as_str()).is_none()
        && test
            .path
            .parent()
            .and_then(|parent| object.pointer(parent.as_str()))
            .is_some_and(Value::is_object)
    {
        return Ok(());
    }

    let added = match operation {
        json_patch::PatchOperation::Replace(replace)
            if object.pointer(replace.path.as_str()).is_none() =>
        {
            let parent = replace
                .path
                .parent()
                .and_then(|parent| object.pointer(parent.as_str()));
            let add = json_patch::AddOperation {
                path: replace.path.clone(),
                value: replace.value.clone(),
            };

            parent
                .filter(|parent| parent.is_object())
                .map(|_| json_patch::PatchOperation::Add(add))
        }
        _ => None,
    };

    let operation = added.as_ref().unwrap_or(operation);
    json_patch::patch(object, std::slice::from_ref(operation)).map_err(|_| Status::unprocessable())
}

fn malformed(message: &str) -> Status {
    Status::bad_request(format!("error decoding patch: {message}"))
}

fn mismatch(value: &Value, wanted: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type {wanted}",
        json::type_name(value)
    )
}

fn too_many_operations(found: usize) -> Status {
    let mut error = Status::request_entity_too_large(0);
    error.message =
        format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {found}");
    error
}

/// Applies a server-side apply patch. It creates an object that doesn't exist.
fn apply(
    call: &Call<'_>,
    name: &str,
    options: &WriteOptions,
    part: Part,
) -> Result<Answer, Status> {
    let is_new = call
        .state
        .store
        .get(&call.storage(), &call.key(name))
        .is_none();

    // What can't be created has to exist before anybody looks at the patch.
    if is_new && part != Part::Main && !call.view.resource.rules.create_on_update {
        call.find(name)?;
    }

    let configuration = applied_configuration(call.body)?;
    let patch = &configuration.object;
    let write = call.field_write(options);
    if is_new {
        let applied = call.state.fields.apply(&write, None, patch)?;
        configuration.check_strict(call, options)?;
        let object = finish_applied(call, name, applied, patch)?;
        if let Some(answer) = store_absent(call, name, object, options, "PatchOptions")? {
            return Ok(answer);
        }
    }

    let options_kind = "PatchOptions";
    let change = Change {
        options,
        options_kind,
        part,
        uid_is_precondition: true,
        is_tracked: true,
    };

    commit(call, name, &change, |old| {
        let mut current = old.clone();
        call.add_type(&mut current);
        let applied = call.state.fields.apply(&write, Some(&current), patch)?;
        configuration.check_strict(call, options)?;
        finish_applied(call, name, applied, patch)
    })
}

/// The configuration in the body of a server-side apply.
#[derive(Debug)]
pub(super) struct AppliedConfiguration {
    pub object: Value,
    /// What strict validation says about its YAML.
    problem: Option<String>,
}

impl AppliedConfiguration {
    /// Warns of what strict validation says.
    ///
    /// # Errors
    ///
    /// 400 if the client wants strict validation.
    fn check_strict(&self, call: &Call<'_>, options: &WriteOptions) -> Result<(), Status> {
        let Some(problem) = &self.problem else {
            return Ok(());
        };

        match options.field_validation {
            FieldValidation::Strict => Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {problem}"
            ))),
            FieldValidation::Warn => {
                let lines = problem.lines().skip(1);
                lines.for_each(|line| call.warn(line.trim()));
                Ok(())
            }
            FieldValidation::Ignore => Ok(()),
        }
    }
}

/// Parses the configuration in the body of a server-side apply.
///
/// # Errors
///
/// 400 for what is no object.
pub(super) fn applied_configuration(body: &[u8]) -> Result<AppliedConfiguration, Status> {
    let converted = yaml::to_json(body).map_err(|error| {
        Status::bad_request(format!(
            "error decoding YAML: error converting YAML to JSON: {error}"
        ))
    })?;
    let patch = json::read(&converted.json).map_err(|error| malformed(&error.to_string()))?;
    match patch {
        Value::Null => Err(Status::bad_request("invalid object type: /, Kind=")),
        Value::Object(_) => Ok(AppliedConfiguration {
            problem: converted.strict_error(),
            object: patch,
        }),
        _ => {
            let message = format!(
                "error unmarshaling JSON: while decoding JSON: {}",
                mismatch(&patch, OBJECT)
            );
            Err(Status::bad_request(format!(
                "error decoding YAML: {message}"
            )))
        }
    }
}

fn finish_applied(
    call: &Call<'_>,
    name: &str,
    mut applied: Value,
    patch: &Value,
) -> Result<Value, Status> {
    call.add_type(&mut applied);
    if !applied["metadata"].is_object() {
        applied["metadata"] = Value::Object(Map::new());
    }

    let resource = &call.view.resource;
    let completed = resource.strategy.complete_applied(&applied);
    finish(
        call,
        name,
        completed.map_err(|error| unconvertible(call, patch, &error))?,
    )
}

/// Returns the error for a configuration that fits the schema but has invalid values.
fn unconvertible(call: &Call<'_>, patch: &Value, error: &str) -> Status {
    let resource = &call.view.resource;
    let kind = format!(
        "{}/{}, Kind={}",
        resource.group, resource.version, resource.names.kind
    );
    let name = format!(
        "{}/{}",
        metadata::text(patch, "namespace"),
        metadata::text(patch, "name")
    );

    let decoder = if error.contains("base64") {
        "error decoding from json: "
    } else {
        ""
    };

    Status::plain(format!(
        "failed to convert new object ({name}; {kind}) to proper version: unable to convert unstructured object to \
         {kind}: {decoder}{error}"
    ))
}

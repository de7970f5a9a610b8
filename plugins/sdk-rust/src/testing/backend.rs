//! The contract's imports, as a test cluster serves them.

use serde_json::{Map, Value};

use super::apply::Manager;
use super::errors::unsupported;
use super::store::Store;
use super::{RecordedEvent, State, Verb, Write, locked, selector};
use crate::backend::{Backend, CreateRequest, EventRequest, Part, PatchRequest, UpdateRequest};
use crate::options::{DeleteOptions, ListOptions, Page, PatchType, Read, Selection, WriteOptions};
use crate::{ApiError, ErrorKind, GroupVersionKind, ObjectKey, RawRequest, RawResponse};

impl State {
    /// Returns the error that the test has planned for this call.
    ///
    /// # Errors
    /// Returns that error.
    fn fault(&self, verb: Verb) -> Result<(), ApiError> {
        let mut faults = locked(&self.faults);
        let at = faults.iter().position(|(of, _)| *of == verb);
        at.and_then(|at| faults.remove(at)).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Runs a write on the store, or on a copy of it for a dry run. The manager owns the changed fields afterwards; an
    /// apply, which has no manager here, records its fields itself.
    ///
    /// # Errors
    /// Returns the planned error, or that of the write.
    fn write<T>(
        &self,
        verb: Verb,
        options: Writer,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        write: impl FnOnce(&mut Store) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        self.fault(verb)?;
        let Writer { dry_run, manager } = options;
        if dry_run {
            return write(&mut locked(&self.store).clone());
        }
        let mut store = locked(&self.store);
        let old = store.get(kind, key).ok().cloned();
        let written = write(&mut store)?;
        if let Some(manager) = manager {
            store.record_manager(kind, key, manager, old.as_ref());
        }
        drop(store);
        locked(&self.writes).push(Write { verb, kind: kind.clone(), key: key.clone() });
        Ok(written)
    }

    /// Reports whether the options select an object.
    ///
    /// # Errors
    /// Returns bad-request if a selector does not parse, or an index is not declared.
    fn selects(&self, key: &ObjectKey, object: &Value, options: &ListOptions) -> Result<bool, ApiError> {
        if options.namespace.is_some() && options.namespace != key.namespace {
            return Ok(false);
        }
        if let Some(labels) = &options.labels {
            let none = Map::new();
            let present = object["metadata"]["labels"].as_object().unwrap_or(&none);
            if !selector::matches(labels, present).map_err(bad_request)? {
                return Ok(false);
            }
        }
        for field in options.fields.iter().flat_map(|fields| fields.split(',')) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let actual = match name.trim() {
                "metadata.name" => &key.name,
                "metadata.namespace" => key.namespace.as_deref().unwrap_or_default(),
                _ => return Err(bad_request(format!("{name:?} is not a field that cached reads know"))),
            };
            if value.trim_start_matches('=').trim() != actual {
                return Ok(false);
            }
        }
        Ok(match &options.selection {
            Selection::All => true,
            Selection::Owner(uid) => controller(object).is_some_and(|owner| owner["uid"] == **uid),
            Selection::Index { name, value } => {
                let indexed = self.indexed(object, name)?;
                indexed.as_ref() == Some(value)
            }
        })
    }

    /// Returns the value of an object in a declared index.
    ///
    /// # Errors
    /// Returns bad-request if the index is not declared.
    fn indexed(&self, object: &Value, name: &str) -> Result<Option<String>, ApiError> {
        let indexes = locked(&self.indexes);
        let declared = indexes.iter().find(|index| {
            index.name == name && object["apiVersion"] == *index.api_version && object["kind"] == *index.kind
        });
        let index = declared.ok_or_else(|| undeclared(name))?;
        if let Some(owner) = &index.controller {
            let matching = controller(object).filter(|reference| {
                let api_version = reference["apiVersion"].as_str().unwrap_or_default();
                let found = GroupVersionKind::new(api_version, &owner.kind);
                let indexed = GroupVersionKind::new(&owner.api_version, &owner.kind);
                found.group() == indexed.group() && reference["kind"] == *owner.kind
            });
            return Ok(matching.and_then(|reference| reference["name"].as_str().map(str::to_owned)));
        }
        if let Some(label) = &index.label {
            return Ok(object["metadata"]["labels"][label].as_str().map(str::to_owned));
        }
        Ok(match at_path(object, index.path.as_deref().unwrap_or_default()) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(scalar @ (Value::Number(_) | Value::Bool(_))) => Some(scalar.to_string()),
            _ => None,
        })
    }
}

impl Backend for State {
    fn get(&self, kind: &GroupVersionKind, key: &ObjectKey, _: Read) -> Result<String, ApiError> {
        self.fault(Verb::Get)?;
        Ok(locked(&self.store).get(kind, key)?.to_string())
    }

    fn list(&self, kind: &GroupVersionKind, options: &ListOptions) -> Result<Page<String>, ApiError> {
        self.fault(Verb::List)?;
        if options.read == Read::Live && options.selection != Selection::All {
            return Err(bad_request("owners and indexes need a cached read"));
        }
        if let Selection::Index { name, .. } = &options.selection
            && !locked(&self.indexes).iter().any(|index| index.name == **name && index.kind == kind.kind)
        {
            return Err(undeclared(name));
        }
        let skip: usize = match &options.continue_token {
            Some(token) => token.parse().map_err(|_| bad_request(format!("{token:?} is not a continue token")))?,
            None => 0,
        };
        let store = locked(&self.store);
        let mut selected = Vec::new();
        for (key, object) in store.objects(kind) {
            if self.selects(key, object, options)? {
                selected.push(projected(object, &options.projection).to_string());
            }
        }
        let total = selected.len();
        let end = options.page_size.filter(|size| *size > 0).map_or(total, |size| total.min(skip + size as usize));
        let items = selected.drain(skip.min(end)..end).collect();
        let continue_token = (end < total).then(|| end.to_string());
        Ok(Page { items, resource_version: store.version(), continue_token })
    }

    fn create(&self, kind: &GroupVersionKind, create: &CreateRequest<'_>) -> Result<String, ApiError> {
        let CreateRequest { namespace, object, options } = *create;
        check(options)?;
        let name = serde_json::from_str::<Value>(object).ok();
        let name = name.and_then(|object| object["metadata"]["name"].as_str().map(str::to_owned)).unwrap_or_default();
        let key = ObjectKey { namespace: namespace.map(str::to_owned), name };
        let create = |store: &mut Store| store.create(kind, namespace, object);
        Ok(self.write(Verb::Create, by(options), kind, &key, create)?.to_string())
    }

    fn update(&self, kind: &GroupVersionKind, key: &ObjectKey, update: &UpdateRequest<'_>) -> Result<String, ApiError> {
        let UpdateRequest { object, part, options } = *update;
        check(options)?;
        let verb = match part {
            Part::Main => Verb::Update,
            Part::Status => Verb::UpdateStatus,
        };
        let replace = |store: &mut Store| store.update(kind, key, object, part);
        Ok(self.write(verb, by(options), kind, key, replace)?.to_string())
    }

    fn patch(&self, kind: &GroupVersionKind, key: &ObjectKey, patch: &PatchRequest<'_>) -> Result<String, ApiError> {
        check(patch.options)?;
        let part = match patch.subresource {
            None => Part::Main,
            Some("status") => Part::Status,
            Some(other) => return Err(unsupported(&format!("the subresource {other}"))),
        };
        if patch.kind == PatchType::Apply {
            let manager = Manager { name: manager_of(patch.options), applies: true };
            let apply = |store: &mut Store| store.apply(kind, key, patch, part, &manager);
            return Ok(self
                .write(Verb::Patch, Writer { dry_run: patch.options.dry_run, manager: None }, kind, key, apply)?
                .to_string());
        }
        let write = |store: &mut Store| {
            let mut object = store.get(kind, key)?.clone();
            apply_patch(&mut object, patch)?;
            store.update(kind, key, &object.to_string(), part)
        };
        Ok(self.write(Verb::Patch, by(patch.options), kind, key, write)?.to_string())
    }

    fn delete(&self, kind: &GroupVersionKind, key: &ObjectKey, options: &DeleteOptions) -> Result<(), ApiError> {
        let delete = |store: &mut Store| store.delete(kind, key, options);
        self.write(Verb::Delete, Writer { dry_run: options.dry_run, manager: None }, kind, key, delete)
    }

    fn raw(&self, request: &RawRequest) -> RawResponse {
        self.answer(request)
    }

    fn event(&self, event: &EventRequest<'_>) {
        locked(&self.events).push(RecordedEvent {
            regarding: event.regarding.clone(),
            key: event.key.clone(),
            uid: event.uid.map(str::to_owned),
            kind: event.kind,
            reason: event.reason.to_owned(),
            action: event.action.to_owned(),
            note: event.note.to_owned(),
        });
    }

    fn config(&self) -> String {
        locked(&self.config).clone().unwrap_or_else(|| "{}".to_owned())
    }

    #[cfg(feature = "kube")]
    fn fail(&self, message: &str) {
        locked(&self.failures).push(message.to_owned());
    }
}

/// The context of a write.
struct Writer {
    dry_run: bool,
    /// The manager that owns the changed fields; an apply has none here.
    manager: Option<Manager>,
}

/// Returns the writer of any write except an apply.
fn by(options: &WriteOptions) -> Writer {
    Writer { dry_run: options.dry_run, manager: Some(Manager { name: manager_of(options), applies: false }) }
}

fn manager_of(options: &WriteOptions) -> String {
    options.field_manager.clone().unwrap_or_else(|| "operetta:test".to_owned())
}

fn check(options: &WriteOptions) -> Result<(), ApiError> {
    if options.strict { Err(unsupported("strict field validation")) } else { Ok(()) }
}

fn apply_patch(object: &mut Value, patch: &PatchRequest<'_>) -> Result<(), ApiError> {
    let bad = |error: serde_json::Error| bad_request(error.to_string());
    if patch.kind == PatchType::Merge {
        json_patch::merge(object, &serde_json::from_str(patch.body).map_err(bad)?);
        return Ok(());
    }
    let operations: json_patch::Patch = serde_json::from_str(patch.body).map_err(bad)?;
    for operation in operations.0 {
        // The API server's JSON patch reads a missing field as null.
        if let json_patch::PatchOperation::Test(test) = &operation
            && test.value.is_null()
            && object.pointer(test.path.as_str()).is_none()
        {
            continue;
        }
        let failed = |error: json_patch::PatchError| ApiError::new(ErrorKind::Invalid, error.to_string());
        json_patch::patch(object, &[operation]).map_err(failed)?;
    }
    Ok(())
}

fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}

fn undeclared(index: &str) -> ApiError {
    bad_request(format!("the index {index:?} is not declared; `Plugin::index` does that"))
}

fn controller(object: &Value) -> Option<&Value> {
    object["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

/// Returns the value at a path like `.spec.nodeName`.
fn at_path<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.trim_start_matches('.').split('.').try_fold(object, |value, step| value.get(step))
}

/// Returns the object with the fields that are always kept and those of the projection.
fn projected(object: &Value, projection: &[String]) -> Value {
    if projection.is_empty() {
        return object.clone();
    }
    let always = [".apiVersion", ".kind", ".metadata.name", ".metadata.namespace", ".metadata.uid"];
    let always = always.into_iter().chain([".metadata.resourceVersion"]);
    let mut kept = Value::Object(Map::new());
    for path in always.chain(projection.iter().map(String::as_str)) {
        if let Some(value) = at_path(object, path) {
            let field = path.trim_start_matches('.').split('.').fold(&mut kept, |parent, step| {
                if !parent.is_object() {
                    *parent = Value::Object(Map::new());
                }
                &mut parent[step]
            });
            *field = value.clone();
        }
    }
    kept
}

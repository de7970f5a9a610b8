//! Field management of a request.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    ancient::cap_update_managers,
    entries::{Managed, decode_managed_fields, encode_managed_fields, manager_id},
    last_applied::{KUBECTL, last_applied, unexplained_conflicts, update_annotation},
    metadata::{
        UNMANAGED, describe, group_version_kind, managed_fields, set_managed_fields,
        without_managed_fields,
    },
    types::TypeConverter,
};
use crate::{
    apimachinery::status::Status,
    apply::{
        fieldpath::FieldFilter,
        merge::{
            Conflict, ConvertError, ManagedSets, ManagerId, Operation, UpdateError, Updater,
            VersionConverter, VersionedSet,
        },
        typed::{Duplicates, TypedValue},
    },
};

/// The manager of what an untracked object had before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager of an update while it is being computed.
const CURRENT_OPERATION: &str = "current-operation";

/// Manages the fields of an endpoint's objects: of a kind in a version, or of its subresource.
pub struct FieldManager<'a> {
    /// The types of the API.
    pub types: &'a dyn TypeConverter,
    /// The version of the requests and of the objects passed in.
    pub api_version: &'a str,
    /// The kind of the objects.
    pub kind: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The fields that the endpoint writes, by version. It resets the others, so their managers do
    /// not change.
    pub filters: &'a BTreeMap<String, FieldFilter>,
}

/// An object and its managers.
type Outcome = (Option<Value>, Managed);

impl FieldManager<'_> {
    /// Applies a configuration to an object, or creates it. Returns the object with its managers.
    ///
    /// Defaults are not set yet: the caller sets them, and resets the fields that the endpoint does
    /// not write. A new object has the empty fields that Go would write, such as `rules: null` of a
    /// Role. Afterwards call `keep_timestamps_of_unchanged`, as the API server does.
    ///
    /// # Errors
    /// Returns the conflicts, unless `force` is set, or why the configuration is not valid.
    pub fn apply(
        &self,
        live: Option<&Value>,
        applied: &Value,
        (manager, force): (&str, bool),
        now: Timestamp,
    ) -> Result<Value, Status> {
        let empty = live.is_none().then(|| self.empty_object());
        let live = live.or(empty.as_ref()).unwrap_or(&Value::Null);
        let entries = managed_fields(live).map(Vec::as_slice).unwrap_or_default();
        let managed = decode_managed_fields(entries)
            .map_err(|error| Status::plain(format!("failed to decode managed fields: {error}")))?;
        self.check_kind(applied)?;

        let (object, managed) =
            self.apply_over_client_side(live, applied, managed, (manager, force), now)?;

        let mut object = object.unwrap_or_else(|| without_managed_fields(live));
        if manager == KUBECTL {
            update_annotation(&mut object, applied);
        }

        set_managed_fields(&mut object, encode_managed_fields(&managed));
        Ok(object)
    }

    /// Sets the managers of an object that was created, updated or patched.
    ///
    /// It starts from the managers in the request, or else those of the live object. If they cannot
    /// be computed because an object is not of its type, the API server drops them all, and so does
    /// this.
    pub fn update(&self, live: Option<&Value>, new: Value, manager: &str, now: Timestamp) -> Value {
        match self.try_update(live, new, manager, now) {
            Ok(object) => object,
            Err((mut object, _)) => {
                set_managed_fields(&mut object, Vec::new());
                object
            }
        }
    }

    /// Like `update`, but returns the error with the object instead of dropping its managers
    /// silently.
    ///
    /// # Errors
    /// Returns the object, whose entries were removed, and why its managers are not known.
    pub fn try_update(
        &self,
        live: Option<&Value>,
        mut new: Value,
        manager: &str,
        now: Timestamp,
    ) -> Result<Value, (Value, Status)> {
        let empty = live.is_none().then(|| self.empty_object());
        let live = live.or(empty.as_ref()).unwrap_or(&Value::Null);

        let managed = self.managers_of_update(live, &new);
        set_managed_fields(&mut new, Vec::new());

        let is_create = live["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .is_empty();

        if managed.sets.is_empty() && !is_create {
            // An object whose fields have never been tracked stays untracked.
            return Ok(new);
        }

        let new = Arc::new(new);
        let result = self.update_managers(live, new.clone(), managed, manager, now);
        let mut new = Arc::unwrap_or_clone(new);

        match result {
            Ok(managed) => {
                set_managed_fields(&mut new, encode_managed_fields(&managed));
                Ok(new)
            }
            Err(error) => Err((new, error)),
        }
    }

    fn empty_object(&self) -> Value {
        self.types.empty_object(self.api_version, self.kind)
    }

    fn check_kind(&self, applied: &Value) -> Result<(), Status> {
        if applied["apiVersion"] == self.api_version && applied["kind"] == self.kind {
            return Ok(());
        }
        Err(Status::bad_request(format!(
            "invalid object type: {}",
            group_version_kind(applied)
        )))
    }

    /// The managers before an update: those in the request if it has valid ones, else those of the
    /// live object.
    fn managers_of_update(&self, live: &Value, new: &Value) -> Managed {
        let of_live = || {
            let entries = managed_fields(live).map(Vec::as_slice).unwrap_or_default();
            decode_managed_fields(entries).unwrap_or_default()
        };

        if !self.subresource.is_empty() {
            return of_live();
        }

        let entries = managed_fields(new);
        if entries.is_some_and(|entries| is_reset(entries)) {
            return Managed::default();
        }

        match decode_managed_fields(entries.map(Vec::as_slice).unwrap_or_default()) {
            Ok(managed) if !managed.sets.is_empty() => managed,
            _ => of_live(),
        }
    }

    /// Applies a configuration. The manager `kubectl` may take over fields of its own client-side
    /// applies.
    fn apply_over_client_side(
        &self,
        live: &Value,
        applied: &Value,
        managed: Managed,
        (manager, force): (&str, bool),
        now: Timestamp,
    ) -> Result<Outcome, Status> {
        let result = self.apply_tracked(live, applied, managed.clone(), (manager, force), now);

        let conflicts = match result {
            Err(Failure::Conflicts(conflicts)) if manager == KUBECTL => conflicts,
            result => return result.map_err(Status::from),
        };

        let unexplained = last_applied(live, self.api_version).and_then(|last_applied| {
            let live = self.typed(live, Duplicates::Allow).ok()?;
            let last_applied = self
                .typed_value(last_applied.into(), Duplicates::Deny)
                .ok()?;
            unexplained_conflicts(&live, &last_applied, &conflicts)
        });

        match unexplained {
            Some(none) if none.is_empty() => self
                .apply_tracked(live, applied, managed, (manager, true), now)
                .map_err(Status::from),
            unexplained => Err(Failure::Conflicts(unexplained.unwrap_or(conflicts)).into()),
        }
    }

    /// Applies to an object, after giving a manager to the fields of an untracked one.
    fn apply_tracked(
        &self,
        live: &Value,
        applied: &Value,
        mut managed: Managed,
        (manager, force): (&str, bool),
        now: Timestamp,
    ) -> Result<Outcome, Failure> {
        if managed.sets.is_empty() {
            let empty = self.empty_object();
            let object = Arc::new(without_managed_fields(live));
            managed = self
                .update_managers(&empty, object, managed, BEFORE_FIRST_APPLY, now)
                .map_err(|error| {
                    Failure::Other(Status::plain(format!(
                        "failed to create manager for existing fields: {error}"
                    )))
                })?;
        }

        let id = self.manager_id(manager, Operation::Apply);
        let (object, sets) = self.merge(live, applied, &managed, (&id, force))?;
        managed.sets = sets;
        strip(&mut managed, &id);

        if object.is_some() {
            managed.times.insert(id, now);
        }

        Ok((object, managed))
    }

    fn merge(
        &self,
        live: &Value,
        applied: &Value,
        managed: &Managed,
        by: (&ManagerId, bool),
    ) -> Result<(Option<Value>, ManagedSets), Failure> {
        if applied["metadata"]
            .get("managedFields")
            .is_some_and(Value::is_array)
        {
            return Err(Failure::Other(Status::bad_request(
                "metadata.managedFields must be nil",
            )));
        }

        let invalid = |what: &'static str, object: &Value, error: String| {
            let object = describe(object);
            Failure::Other(Status::plain(format!(
                "failed to create typed {what} object ({object}): {error}"
            )))
        };

        let applied_typed = self
            .typed(applied, Duplicates::Deny)
            .map_err(|error| invalid("patch", applied, error))?;
        let live_typed = self
            .typed(live, Duplicates::Allow)
            .map_err(|error| invalid("live", live, error))?;

        let converter = Converter {
            types: self.types,
            kind: self.kind,
        };
        let updater = Updater {
            converter: &converter,
            filters: self.filters,
        };

        let (object, sets) = updater.apply(
            &live_typed,
            &applied_typed,
            self.api_version,
            managed.sets.clone(),
            by,
        )?;

        Ok((object.map(|object| (**object.value()).clone()), sets))
    }

    /// The managers after `manager` changed `live` into `new`.
    fn update_managers(
        &self,
        live: &Value,
        new: Arc<Value>,
        mut managed: Managed,
        manager: &str,
        now: Timestamp,
    ) -> Result<Managed, Status> {
        let invalid = |what: &str, object: &Value, error: String| {
            let object = describe(object);
            Status::plain(format!(
                "failed to convert {what} object ({object}) to smd typed: {error}"
            ))
        };

        let new_typed = self
            .typed_value(new.clone(), Duplicates::Allow)
            .map_err(|error| invalid("new", &new, error))?;
        let live_typed = self
            .typed(live, Duplicates::Allow)
            .map_err(|error| invalid("live", live, error))?;

        let current = current_operation();
        let converter = Converter {
            types: self.types,
            kind: self.kind,
        };
        let updater = Updater {
            converter: &converter,
            filters: self.filters,
        };

        managed.sets = updater
            .update(
                &live_typed,
                &new_typed,
                self.api_version,
                managed.sets,
                &current,
            )
            .map_err(|error| {
                Status::plain(format!(
                    "failed to update ManagedFields ({}): {error}",
                    describe(&new)
                ))
            })?;

        strip(&mut managed, &current);
        if let Some(mut fields) = managed.sets.remove(&current) {
            let id = self.manager_id(manager, Operation::Update);
            if let Some(previous) = managed.sets.get(&id) {
                fields.set.extend(&previous.set);
            }

            managed.sets.insert(id.clone(), fields);
            managed.times.insert(id, now);
        }

        cap_update_managers(&mut managed);
        Ok(managed)
    }

    fn manager_id(&self, name: &str, operation: Operation) -> ManagerId {
        let name = if name.is_empty() { "unknown" } else { name };
        manager_id(
            name.into(),
            operation,
            self.api_version,
            self.subresource.into(),
        )
    }

    fn typed(&self, object: &Value, duplicates: Duplicates) -> Result<TypedValue, String> {
        self.typed_value(Arc::new(without_managed_fields(object)), duplicates)
    }

    /// Pairs an object of this endpoint with its type.
    fn typed_value(
        &self,
        object: Arc<Value>,
        duplicates: Duplicates,
    ) -> Result<TypedValue, String> {
        let object_type = self
            .types
            .object_type(self.api_version, self.kind)
            .ok_or_else(|| {
                format!(
                    "no corresponding type for {}",
                    group_version_kind(&self.empty_object())
                )
            })?;

        TypedValue::new(object, object_type, duplicates).map_err(|error| error.to_string())
    }
}

/// An error of an apply whose conflicts client-side apply may still explain.
enum Failure {
    Conflicts(Vec<Conflict>),
    Other(Status),
}

impl From<UpdateError> for Failure {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Conflicts(conflicts) => Self::Conflicts(conflicts),
            other => Self::Other(other.into()),
        }
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Conflicts(conflicts) => UpdateError::Conflicts(conflicts).into(),
            Failure::Other(error) => error,
        }
    }
}

/// Reports whether a request resets the managers, by an empty list or a list of one empty entry.
///
/// See `isResetManagedFields` in
/// <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go>.
fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [only] => only.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

fn current_operation() -> ManagerId {
    ManagerId {
        name: CURRENT_OPERATION.into(),
        operation: Operation::Update,
        api_version: String::new(),
        subresource: String::new(),
    }
}

/// Removes the unmanaged fields, such as the name, from a manager's set.
fn strip(managed: &mut Managed, manager: &ManagerId) {
    let Some(fields) = managed.sets.remove(manager) else {
        return;
    };

    let set = fields.set.difference(&UNMANAGED);
    if !set.is_empty() {
        managed
            .sets
            .insert(manager.clone(), VersionedSet { set, ..fields });
    }
}

/// Converts the objects of a kind.
struct Converter<'a> {
    types: &'a dyn TypeConverter,
    kind: &'a str,
}

impl VersionConverter for Converter<'_> {
    fn convert(&self, object: &TypedValue, api_version: &str) -> Result<TypedValue, ConvertError> {
        if object.value()["apiVersion"] == api_version {
            return Ok(object.clone());
        }

        let converted = self
            .types
            .convert((**object.value()).clone(), api_version)?;

        let object_type = self
            .types
            .object_type(api_version, self.kind)
            .ok_or_else(|| {
                ConvertError::MissingVersion(format!(
                    "no corresponding type for {}",
                    group_version_kind(&converted)
                ))
            })?;

        TypedValue::new(Arc::new(converted), object_type, Duplicates::Deny)
            .map_err(|error| ConvertError::Failed(error.to_string()))
    }
}

//! The verb `update`, and what updates and patches have in common.

use serde_json::Value;

use super::{
    call::{Answer, Call, remove_type},
    create::store_new,
    delete::is_deletion_complete,
    namespaces,
    owners::{self, Stage},
    query::WriteOptions,
    read_object::read_object,
    resource::Part,
};
use crate::{
    admission::request::Operation,
    apimachinery::{metadata, status::Status},
    apply::manager::keep_timestamps_of_unchanged,
    golang::quote,
    store::{ObjectKey, StoreError, StoredObject},
};

/// The number of attempts of a write that names no revision, when other writes come first.
const ATTEMPTS: usize = 100;

/// A change of a stored object.
pub(super) struct Change<'a> {
    pub options: &'a WriteOptions,
    /// The kind of the options, such as `UpdateOptions`.
    pub options_kind: &'a str,
    pub part: Part,
    /// Reports whether a wrong UID is a failed precondition, as in updates.
    pub uid_is_precondition: bool,
    /// Reports whether the new object has its managed fields already.
    pub is_tracked: bool,
}

/// Replaces an object, or its status.
pub(super) fn update(call: &Call<'_>, part: Part) -> Result<Answer, Status> {
    let name = call.name()?;
    let options = WriteOptions::read(call.query, "UpdateOptions", false)?;
    let mut object = read_object(call, options.field_validation)?;
    check_name(&object, name)?;
    owners::remove_duplicates(call, &mut object, Stage::Request);

    let exists = call
        .state
        .store
        .get(&call.storage(), &call.key(name))
        .is_some();
    if !exists && call.view.resource.rules.create_on_update && part == Part::Main {
        check_uid(call, &object, &call.key(name), "", &options)?;
        if let Some(answer) = store_absent(call, name, object.clone(), &options, "UpdateOptions")? {
            return Ok(answer);
        }
    }

    let options_kind = "UpdateOptions";
    let change = Change {
        options: &options,
        options_kind,
        part,
        uid_is_precondition: true,
        is_tracked: false,
    };

    commit(call, name, &change, |_| Ok(object.clone()))
}

/// Creates an object that was missing when the write began. Returns None if somebody else has
/// created it since: then the caller changes that one.
pub(super) fn store_absent(
    call: &Call<'_>,
    name: &str,
    object: Value,
    options: &WriteOptions,
    options_kind: &str,
) -> Result<Option<Answer>, Status> {
    match store_new(call, object, options, options_kind) {
        Err(error)
            if error.reason == "AlreadyExists"
                && call
                    .state
                    .store
                    .get(&call.storage(), &call.key(name))
                    .is_some() =>
        {
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// Checks that an object has the name of the path.
///
/// # Errors
///
/// 400 for another name, or none.
pub(super) fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    match metadata::text(object, "name") {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        found if found != name => Err(name_mismatch(found, name)),
        _ => Ok(()),
    }
}

/// Returns the error for an object whose name is not the one of the path.
pub(super) fn name_mismatch(found: &str, name: &str) -> Status {
    Status::bad_request(format!(
        "the name of the object ({found}) does not match the name on the URL ({name})"
    ))
}

/// Changes a stored object: `build` makes the new object from the stored one. If another write
/// comes first, it tries again, unless the new object names a revision.
pub(super) fn commit(
    call: &Call<'_>,
    name: &str,
    change: &Change<'_>,
    mut build: impl FnMut(&Value) -> Result<Value, Status>,
) -> Result<Answer, Status> {
    for _ in 0..ATTEMPTS {
        let live = call.find(name)?;
        let old = call.open(&live)?;
        let mut object = build(&old)?;
        check_preconditions(call, &live, &mut object, change)?;
        if let Some(answer) = try_commit(call, &live, &old, object, change)? {
            return Ok(answer);
        }
    }

    Err(Status::modified(&call.group_resource(), name))
}

fn check_preconditions(
    call: &Call<'_>,
    live: &StoredObject,
    object: &mut Value,
    change: &Change<'_>,
) -> Result<(), Status> {
    let (resource, name) = (call.group_resource(), live.key().name());
    if change.uid_is_precondition {
        check_uid(call, object, live.key(), live.uid(), change.options)?;
    }

    let text = metadata::text(object, "resourceVersion");
    let wanted = if text.is_empty() {
        Ok(0)
    } else {
        text.parse::<u64>()
    };
    let wanted = wanted.map_err(|_| {
        Status::plain(format!(
            "strconv.ParseUint: parsing {}: invalid syntax",
            quote(text)
        ))
    })?;

    if wanted == 0 && !call.view.resource.rules.unconditional_update {
        return Err(Status::invalid(
            resource.group(),
            resource.resource(),
            name,
            &[metadata::version_required()],
        ));
    }

    if wanted != 0 && wanted != live.revision() {
        return Err(Status::modified(&resource, name));
    }

    metadata::set(object, "resourceVersion", live.revision().to_string());

    Ok(())
}

/// Checks that an object names no UID, or that of the stored one; `stored` is empty if there is
/// none.
fn check_uid(
    call: &Call<'_>,
    object: &Value,
    key: &ObjectKey,
    stored: &str,
    options: &WriteOptions,
) -> Result<(), Status> {
    let uid = metadata::text(object, "uid");
    if uid.is_empty() || uid == stored {
        return Ok(());
    }

    let cause = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         UID in precondition: {uid}, UID in object meta: {stored}",
        storage_key(call, key, options.dry_run),
    );

    Err(Status::conflict(&call.group_resource(), key.name(), &cause))
}

/// Returns the key of an object in etcd, which errors show. The prefix comes late, so a dry run has
/// none.
fn storage_key(call: &Call<'_>, key: &ObjectKey, dry_run: bool) -> String {
    let resource = &call.view.resource;
    let plural = resource.names.plural.as_str();
    let prefix = match (resource.group.as_str(), plural) {
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        (group, _) if !group.contains('.') || group.ends_with(".k8s.io") => plural.to_owned(),
        (group, _) => format!("{group}/{plural}"),
    };

    let root = if dry_run { "" } else { "/registry" };
    format!("{root}/{prefix}/{}", key.as_str())
}

/// Writes a changed object. Returns None if another write came first.
fn try_commit(
    call: &Call<'_>,
    live: &StoredObject,
    old: &Value,
    mut object: Value,
    change: &Change<'_>,
) -> Result<Option<Answer>, Status> {
    let dry_run = change.options.dry_run;
    if !change.is_tracked {
        call.state
            .fields
            .track(&call.field_write(change.options), Some(old), &mut object);
    }

    let options = change.options.to_value(change.options_kind);
    let mut typed_old = old.clone();
    call.add_type(&mut typed_old);

    let request = call.admission_request(Operation::Update, Some(&typed_old), &options);
    call.mutate(&request, &mut object)?;
    owners::remove_duplicates(call, &mut object, Stage::Admitted);
    keep_timestamps_of_unchanged(&mut object, old);

    let warnings = complete(call, &typed_old, &mut object, change.part)?;
    call.admit(&request, Some(&mut object))?;
    warnings.into_iter().for_each(|warning| call.warn(warning));

    let resource = call.storage();
    let is_empty_namespace = namespaces::is_namespaces(call)
        && metadata::is_terminating(&object)
        && namespaces::is_empty(&object);
    let is_deleted = if namespaces::is_namespaces(call) {
        is_empty_namespace
    } else {
        is_deletion_complete(&object)
    };

    if dry_run {
        return Ok(Some(Answer::Object(200, object)));
    }

    let written = if is_deleted {
        call.state
            .store
            .delete(&resource, live.key(), live.revision())
            .map(|_| Answer::Object(200, object))
    } else {
        let draft = call.draft(&object)?;
        if live.is_same(&draft) {
            return Ok(Some(Answer::Object(200, object)));
        }

        call.state
            .store
            .update(&resource, live.key(), draft, live.revision())
            .map(|stored| Answer::Stored(200, stored))
    };

    match written {
        Ok(answer) => Ok(Some(answer)),
        Err(StoreError::Conflict { .. } | StoreError::NotFound) => Ok(None),
        Err(error) => Err(call.store_error(error, live.key().name())),
    }
}

/// Completes and validates an updated object by the rules of its kind. `old` has its type. Returns
/// warnings.
fn complete(
    call: &Call<'_>,
    old: &Value,
    object: &mut Value,
    part: Part,
) -> Result<Vec<String>, Status> {
    call.add_type(object);
    let admitted = call
        .view
        .resource
        .strategy
        .admit_update(old, object, part, call.view.now)?;
    *object = admitted.object;
    remove_type(object);

    Ok(admitted.warnings)
}

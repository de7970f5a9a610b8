//! The verb `create`.

use serde_json::Value;

use super::{
    call::{Answer, Call, remove_type},
    environment::format_time,
    namespaces,
    owners::{self, Stage},
    query::WriteOptions,
    read_object::read_object,
};
use crate::{
    admission::request::Operation,
    apimachinery::{metadata, status::Status},
    golang::quote,
    store::StoreError,
};

/// The kind of the options of a create. An update or an apply that creates an object may name a
/// revision.
const CREATE: &str = "CreateOptions";
/// The kind of the options of a patch. An apply that creates an object has set its managed fields.
const APPLY: &str = "PatchOptions";
/// The number of names that are generated before a create is refused.
const NAME_ATTEMPTS: usize = 8;

/// Creates the object in the body.
pub(super) fn create(call: &Call<'_>) -> Result<Answer, Status> {
    let options = WriteOptions::read(call.query, CREATE, false)?;
    let mut object = read_object(call, options.field_validation)?;
    owners::remove_duplicates(call, &mut object, Stage::Request);
    store_new(call, object, &options, CREATE)
}

/// Reads the object of a create that stores nothing, and sets its managed fields.
pub(super) fn read(call: &Call<'_>) -> Result<Value, Status> {
    let options = WriteOptions::read(call.query, CREATE, false)?;
    let mut object = read_object(call, options.field_validation)?;
    owners::remove_duplicates(call, &mut object, Stage::Request);
    metadata::clear_system_fields(&mut object);
    call.state
        .fields
        .track(&call.field_write(&options), None, &mut object);
    call.add_type(&mut object);

    Ok(object)
}

/// Stores a new object. Updates and applies of missing objects end up here as well.
pub(super) fn store_new(
    call: &Call<'_>,
    object: Value,
    options: &WriteOptions,
    options_kind: &str,
) -> Result<Answer, Status> {
    let attempts = if metadata::text(&object, "name").is_empty() {
        NAME_ATTEMPTS
    } else {
        1
    };
    for _ in 1..attempts {
        match try_store(call, object.clone(), options, options_kind) {
            Err(Attempt::NameTaken(_)) => {}
            Err(Attempt::Refused(error)) => return Err(error),
            Ok(answer) => return Ok(answer),
        }
    }

    try_store(call, object, options, options_kind).map_err(|attempt| match attempt {
        Attempt::NameTaken(name) => Status::generated_name_exists(&call.group_resource(), &name),
        Attempt::Refused(error) => error,
    })
}

/// A create that did not succeed.
enum Attempt {
    /// The generated name is taken: another one may be free.
    NameTaken(String),
    /// The client gets this error.
    Refused(Status),
}

impl From<Status> for Attempt {
    fn from(error: Status) -> Self {
        Self::Refused(error)
    }
}

fn try_store(
    call: &Call<'_>,
    mut object: Value,
    options: &WriteOptions,
    options_kind: &str,
) -> Result<Answer, Attempt> {
    let is_generated = metadata::text(&object, "name").is_empty()
        && !metadata::text(&object, "generateName").is_empty();

    // The name is generated after the object was changed by admission, and before it is validated.
    let first_name = metadata::text(&object, if is_generated { "generateName" } else { "name" });
    namespaces::check_namespace(call, first_name)?;
    metadata::clear_system_fields(&mut object);

    if options_kind != APPLY {
        call.state
            .fields
            .track(&call.field_write(options), None, &mut object);
    }

    let options_value = options.to_value(options_kind);
    let request = call.admission_request(Operation::Create, None, &options_value);
    call.mutate(&request, &mut object)?;
    owners::remove_duplicates(call, &mut object, Stage::Admitted);

    if is_generated {
        let name = call
            .state
            .environment
            .generate_name(metadata::text(&object, "generateName"));
        metadata::set(&mut object, "name", name);
    }

    let environment = &call.state.environment;
    metadata::set(
        &mut object,
        "creationTimestamp",
        format_time(environment.now()),
    );

    metadata::set(&mut object, "uid", environment.uid());
    if !options.dry_run {
        call.view.resource.strategy.reserve(&object)?;
    }

    let warnings = complete(call, &mut object)?;
    if options_kind != CREATE {
        call.authorize_create()?;
    }

    call.admit(&request, Some(&mut object))?;
    let revision = metadata::text(&object, "resourceVersion");
    if revision.parse::<u64>().is_err() && !revision.is_empty() {
        return Err(Status::plain(format!(
            "strconv.ParseUint: parsing {}: invalid syntax",
            quote(revision)
        ))
        .into());
    }

    if !options.dry_run && !revision.is_empty() && options_kind == CREATE {
        return Err(
            Status::plain("resourceVersion should not be set on objects to be created").into(),
        );
    }

    let name = metadata::text(&object, "name").to_owned();
    let answer = insert(call, object, &name, options.dry_run).map_err(|error| match error {
        StoreError::AlreadyExists if is_generated => Attempt::NameTaken(name.clone()),
        StoreError::AlreadyExists => already_exists(call, &name).into(),
        error => call.store_error(error, &name).into(),
    })?;

    warnings.into_iter().for_each(|warning| call.warn(warning));
    answer.map_err(Attempt::from)
}

fn already_exists(call: &Call<'_>, name: &str) -> Status {
    let mut error = call.store_error(StoreError::AlreadyExists, name);
    let existing = call
        .state
        .store
        .get(&call.storage(), &call.key(name))
        .and_then(|stored| stored.to_value().ok());
    if existing.is_some_and(|existing| metadata::is_terminating(&existing)) {
        error.message = format!("object is being deleted: {}", error.message);
    }

    error
}

/// Completes and validates a new object by the rules of its kind. Returns warnings.
fn complete(call: &Call<'_>, object: &mut Value) -> Result<Vec<String>, Status> {
    call.add_type(object);
    let admitted = call
        .view
        .resource
        .strategy
        .admit_create(object, call.view.now)?;
    *object = admitted.object;
    remove_type(object);

    Ok(admitted.warnings)
}

fn insert(
    call: &Call<'_>,
    object: Value,
    name: &str,
    dry_run: bool,
) -> Result<Result<Answer, Status>, StoreError> {
    let (store, resource, key) = (&call.state.store, call.storage(), call.key(name));
    if dry_run {
        let exists = store.get(&resource, &key).is_some();
        return if exists {
            Err(StoreError::AlreadyExists)
        } else {
            Ok(Ok(Answer::Object(201, object)))
        };
    }

    match call.draft(&object) {
        Ok(draft) => store
            .create(&resource, &key, draft)
            .map(|stored| Ok(Answer::Stored(201, stored))),
        Err(error) => Ok(Err(error)),
    }
}

//! The verbs `delete` and `deletecollection`.

use serde_json::{Map, Value, json};

use super::{
    call::{Answer, Call},
    environment::format_time,
    list, namespaces,
    query::{Query, check_dry_run, check_dry_run_values},
    read_object::{body_as_json, no_object},
};
use crate::{
    admission::request::Operation,
    apimachinery::{field::FieldError, json, metadata, status::Status},
    store::{GroupResource, StoreError, StoredObject},
};

/// The number of attempts of a deletion, when other writes come first.
const ATTEMPTS: usize = 100;

/// The warning about the Pods of a deleted Job.
const ORPHANS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
    remove them or set propagationPolicy=Orphan to suppress this warning";

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
struct DeleteOptions {
    dry_run: bool,
    grace_period_seconds: Option<i64>,
    uid: Option<String>,
    resource_version: Option<String>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
}

/// Deletes an object, or marks it when it has finalizers.
pub(super) fn delete(call: &Call<'_>) -> Result<Answer, Status> {
    let name = call.name()?;
    let options = DeleteOptions::read(call)?;
    if namespaces::is_namespaces(call) {
        namespaces::check_deletion(name)?;
    }

    options.warn_of_orphans(call);
    delete_object(call, name, &options)
}

/// Deletes all selected objects.
pub(super) fn delete_collection(call: &Call<'_>) -> Result<list::Page, Status> {
    let options = DeleteOptions::read(call)?;
    let page = list::page(call)?;
    options.warn_of_orphans(call);

    for object in &page.listing.items {
        match delete_object(call, object.key().name(), &options) {
            Err(error) if error.code != 404 => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }

    Ok(page)
}

fn delete_object(call: &Call<'_>, name: &str, options: &DeleteOptions) -> Result<Answer, Status> {
    for _ in 0..ATTEMPTS {
        let live = call.find(name)?;
        let mut object = call.open(&live)?;
        call.add_type(&mut object);

        let is_namespace = namespaces::is_namespaces(call);
        options.check_preconditions(call, &live, is_namespace)?;

        let request = call.admission_request(Operation::Delete, Some(&object), &Value::Null);
        call.admit(&request, None)?;

        let changed = if is_namespace {
            options.terminate_namespace(&object, call)
        } else {
            options.mark(&object, call)
        };
        if let Some(answer) = finish(call, &live, &object, changed, options)? {
            return Ok(answer);
        }
    }

    Err(Status::modified(&call.group_resource(), name))
}

/// Stores the marked object, or removes it. Returns None if another write came first.
fn finish(
    call: &Call<'_>,
    live: &StoredObject,
    object: &Value,
    changed: Option<Value>,
    options: &DeleteOptions,
) -> Result<Option<Answer>, Status> {
    let (store, resource) = (&call.state.store, call.storage());
    let accepted = if options.orphan_dependents == Some(false) {
        202
    } else {
        200
    };

    let written = match changed {
        Some(changed) if options.dry_run => return Ok(Some(Answer::Object(accepted, changed))),
        Some(changed) => {
            let draft = call.draft(&changed)?;
            if live.is_same(&draft) {
                return Ok(Some(Answer::Object(accepted, changed)));
            }

            let updated = store.update(&resource, live.key(), draft, live.revision());
            // A Pod that does not run is marked, so that its watchers see it, and goes at once.
            let is_over = !namespaces::is_namespaces(call) && is_deletion_complete(&changed);

            match updated {
                Ok(stored) if is_over => {
                    let gone = store.delete(&resource, stored.key(), stored.revision());
                    gone.map(|gone| Answer::Stored(accepted, gone))
                }
                updated => updated.map(|stored| Answer::Stored(accepted, stored)),
            }
        }
        None if options.dry_run => {
            return Ok(Some(deleted(call, live, || {
                Answer::Object(200, object.clone())
            })));
        }
        None => store
            .delete(&resource, live.key(), live.revision())
            .map(|gone| deleted(call, live, || Answer::Stored(200, gone))),
    };

    match written {
        Ok(answer) => Ok(Some(answer)),
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(call.store_error(error, live.key().name())),
    }
}

/// Returns the answer to a finished deletion: the object for some kinds, a Status for the others.
fn deleted(call: &Call<'_>, live: &StoredObject, object: impl FnOnce() -> Answer) -> Answer {
    if call.view.resource.rules.returns_deleted {
        return object();
    }

    let mut details = Map::new();
    details.insert("name".into(), live.key().name().into());
    if !call.view.resource.group.is_empty() {
        details.insert("group".into(), call.view.resource.group.as_str().into());
    }

    details.insert(
        "kind".into(),
        call.view.resource.names.plural.as_str().into(),
    );
    details.insert("uid".into(), live.uid().into());

    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    Answer::Plain(200, status)
}

impl DeleteOptions {
    /// Reads the options from the body, or from the query when there is none.
    fn read(call: &Call<'_>) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let options = if call.body.is_empty() {
            Self::from_query(call.query, &mut errors)?
        } else {
            let body = body_as_json(call, Status::bad_request)?;
            let parsed = json::parse_value(&body.text).map_err(|error| {
                Status::bad_request(format!(
                    "couldn't get version/kind; json parse error: {error}"
                ))
            })?;

            check_type(&parsed.value)?;
            Self::from_body(&parsed.value, &mut errors)?
        };

        options.check(&mut errors);
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
        }
    }

    fn from_query(query: &Query, errors: &mut Vec<FieldError>) -> Result<Self, Status> {
        Ok(Self {
            dry_run: check_dry_run(query, errors),
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            orphan_dependents: query.flag("orphanDependents"),
            propagation_policy: query
                .get("propagationPolicy")
                .filter(|policy| !policy.is_empty())
                .map(str::to_owned),
            ..Self::default()
        })
    }

    fn from_body(body: &Value, errors: &mut Vec<FieldError>) -> Result<Self, Status> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Self {
            dry_run: check_dry_run_values(&texts(body, "dryRun")?, errors),
            grace_period_seconds: body["gracePeriodSeconds"].as_i64(),
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            orphan_dependents: body["orphanDependents"].as_bool(),
            propagation_policy: text(&body["propagationPolicy"]),
        })
    }

    fn check(&self, errors: &mut Vec<FieldError>) {
        let Some(policy) = &self.propagation_policy else {
            return;
        };

        if self.orphan_dependents.is_some() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(
                "propagationPolicy",
                policy.as_str(),
                detail,
            ));
        }

        if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(
                "propagationPolicy",
                policy.as_str(),
                &supported,
            ));
        }
    }

    /// Warns that the Pods of a Job stay, unless the client says what it wants.
    fn warn_of_orphans(&self, call: &Call<'_>) {
        if call.view.resource.rules.orphans_by_default && self.orphan_wish().is_none() {
            call.warn(ORPHANS.to_owned());
        }
    }

    fn check_preconditions(
        &self,
        call: &Call<'_>,
        live: &StoredObject,
        is_namespace: bool,
    ) -> Result<(), Status> {
        let revision = live.revision().to_string();
        let checks = [
            (
                "UID",
                &self.uid,
                live.uid(),
                "The object might have been deleted and then recreated",
            ),
            (
                "ResourceVersion",
                &self.resource_version,
                revision.as_str(),
                "The object might have been modified",
            ),
        ];

        for (field, wanted, found, hint) in checks {
            let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) else {
                continue;
            };
            let name = live.key().name();

            if is_namespace {
                let message = format!(
                    "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
                );
                return Err(Status::conflict(&call.group_resource(), name, &message));
            }

            let message = format!(
                "the {field} in the precondition ({wanted}) does not match the {field} in record ({found}). {hint}"
            );
            let kind =
                GroupResource::new(&call.view.resource.group, &call.view.resource.names.kind);

            return Err(Status::conflict(&kind, name, &message));
        }

        Ok(())
    }

    /// Returns the object marked as deleted, or None if it goes at once.
    fn mark(&self, object: &Value, call: &Call<'_>) -> Option<Value> {
        let mut prepared = object.clone();
        if !metadata::is_terminating(object) {
            call.view
                .resource
                .strategy
                .prepare_for_delete(&mut prepared, call.view.now);
            if metadata::is_terminating(&prepared) {
                return Some(prepared);
            }
        }

        let object = &prepared;
        let old: Vec<&str> = metadata::finalizers(object);
        let finalizers = self.finalizers(&old, call.view.resource.rules.orphans_by_default);
        let requested = self
            .grace_period_seconds
            .map(|seconds| if seconds < 0 { 1 } else { seconds });
        let grace = call.view.resource.strategy.grace_period(object, requested);
        if finalizers.is_empty() && grace.is_none() {
            return None;
        }

        let mut changed = object.clone();
        if finalizers != old {
            metadata::set(&mut changed, "finalizers", json!(finalizers));
        }

        mark_deleted(&mut changed, call.view.now, grace.unwrap_or_default());
        Some(changed)
    }

    /// Returns the finalizers after the garbage collector's are set: they say what happens to
    /// dependents.
    fn finalizers<'a>(&self, old: &[&'a str], orphans_by_default: bool) -> Vec<&'a str> {
        let by_default = orphans_by_default && !old.contains(&"foregroundDeletion");
        let orphan = self
            .orphan_wish()
            .unwrap_or(by_default || old.contains(&"orphan"));
        let foreground = match (self.orphan_dependents, self.propagation_policy.as_deref()) {
            (Some(_), _) => false,
            (None, Some(policy)) => policy == "Foreground",
            (None, None) => old.contains(&"foregroundDeletion"),
        };

        let is_collectors =
            |finalizer: &&str| matches!(*finalizer, "orphan" | "foregroundDeletion");
        let is_wanted = |name: &str| {
            (name == "orphan" && orphan) || (name == "foregroundDeletion" && foreground)
        };

        if ["orphan", "foregroundDeletion"]
            .iter()
            .all(|name| old.contains(name) == is_wanted(name))
        {
            return old.to_vec();
        }

        let mut finalizers: Vec<&str> = old
            .iter()
            .copied()
            .filter(|finalizer| !is_collectors(finalizer))
            .collect();

        finalizers.extend(
            ["orphan", "foregroundDeletion"]
                .into_iter()
                .filter(|name| is_wanted(name)),
        );

        finalizers
    }

    /// Returns whether the client wants dependents to stay, if it says so.
    fn orphan_wish(&self) -> Option<bool> {
        self.orphan_dependents.or_else(|| {
            self.propagation_policy
                .as_deref()
                .map(|policy| policy == "Orphan")
        })
    }

    /// Returns the terminating namespace, or None if it goes at once.
    fn terminate_namespace(&self, object: &Value, call: &Call<'_>) -> Option<Value> {
        if metadata::is_terminating(object) && namespaces::is_empty(object) {
            return None;
        }

        let changed = namespaces::terminating(object, call.view.now, self.orphan_wish());
        if namespaces::is_empty(&changed) {
            None
        } else {
            Some(changed)
        }
    }
}

/// Returns a list of texts in a body; none if it is missing.
fn texts<'a>(body: &'a Value, field: &str) -> Result<Vec<&'a str>, Status> {
    let refused = |value: &Value, wanted: &str| {
        let found = json::type_name(value);
        let message = format!(
            "json: cannot unmarshal {found} into Go struct field DeleteOptions.{field} of type {wanted}"
        );
        Status::bad_request(message)
    };

    match &body[field] {
        Value::Null => Ok(Vec::new()),
        Value::Array(members) => members
            .iter()
            .map(|member| member.as_str().ok_or_else(|| refused(member, "string")))
            .collect(),
        other => Err(refused(other, "[]string")),
    }
}

/// Checks that the body of a deletion is `DeleteOptions`.
fn check_type(body: &Value) -> Result<(), Status> {
    if !body.is_object() && !body.is_null() {
        return Err(Status::bad_request(no_object(body)));
    }

    let member = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = member("kind");
    if kind.is_empty() || kind == "DeleteOptions" {
        return Ok(());
    }

    let api_version = member("apiVersion");
    Err(Status::bad_request(format!(
        "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"pkg/runtime/scheme.go:111\""
    )))
}

/// Sets the time of the deletion, unless it is set, and the grace period.
fn mark_deleted(object: &mut Value, now: jiff::Timestamp, grace_seconds: i64) {
    if !metadata::is_terminating(object) {
        metadata::set(object, "deletionTimestamp", format_time(now));
        if let Some(generation) =
            metadata::integer(object, "generation").filter(|generation| *generation > 0)
        {
            metadata::set(object, "generation", generation + 1);
        }
    }

    metadata::set(object, "deletionGracePeriodSeconds", grace_seconds);
}

/// Reports whether a changed object can go now: it was waiting for its last finalizer.
pub(super) fn is_deletion_complete(object: &Value) -> bool {
    metadata::is_terminating(object)
        && metadata::finalizers(object).is_empty()
        && metadata::integer(object, "deletionGracePeriodSeconds").unwrap_or_default() == 0
}

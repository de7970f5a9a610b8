//! The contract's imports, as the cluster of a test serves them.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::raw::Route;
use super::{RecordedEvent, State, Verb, Write, locked};
use crate::backend::{Backend, CreateRequest, EventRequest, Part, PatchRequest, UpdateRequest};
use crate::options::{
    DeleteOptions, ListOptions, Page, PatchType, Propagation, Read, Selection, WriteOptions,
};
use crate::{ApiError, GroupVersionKind, ObjectKey, RawRequest, RawResponse};

impl State {
    /// Fails as the test has planned for this call.
    ///
    /// # Errors
    /// Returns the planned error.
    fn fault(&self, verb: Verb) -> Result<(), ApiError> {
        let mut faults = locked(&self.faults);
        let at = faults.iter().position(|(of, _)| *of == verb);
        at.and_then(|at| faults.remove(at))
            .map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Performs a write, and records it unless it is a dry run.
    ///
    /// # Errors
    /// Returns the planned error, or that of the API server.
    fn write(
        &self,
        verb: Verb,
        kind: &GroupVersionKind,
        key: ObjectKey,
        is_dry_run: bool,
        request: &Value,
    ) -> Result<String, ApiError> {
        self.fault(verb)?;

        let object = self.client().call(request)?;

        if !is_dry_run {
            let key = if key.name.is_empty() {
                ObjectKey {
                    name: name_of(&object),
                    ..key
                }
            } else {
                key
            };

            locked(&self.writes).push(Write {
                verb,
                kind: kind.clone(),
                key,
            });
        }

        Ok(object)
    }

    /// Reads an object without the errors that the test has planned.
    ///
    /// # Errors
    /// Returns the API server's error.
    pub(super) fn read(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        read: Read,
    ) -> Result<String, ApiError> {
        let request = json!({"call": "get", "kind": kind_value(kind), "key": key_value(key), "read": read_name(read)});
        self.client().call(&request)
    }
}

impl Backend for State {
    fn get(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        read: Read,
    ) -> Result<String, ApiError> {
        self.fault(Verb::Get)?;
        self.read(kind, key, read)
    }

    fn list(
        &self,
        kind: &GroupVersionKind,
        options: &ListOptions,
    ) -> Result<Page<String>, ApiError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct List {
            items: Vec<Box<RawValue>>,
            resource_version: String,
            continue_token: Option<String>,
        }
        self.fault(Verb::List)?;

        let selection = match &options.selection {
            Selection::All => json!({"type": "all"}),
            Selection::Index { name, value } => {
                json!({"type": "by-index", "index": name, "value": value})
            }
            Selection::Owner(uid) => json!({"type": "by-owner", "uid": uid}),
        };

        let options = json!({
            "namespace": options.namespace, "labels": options.labels, "fields": options.fields,
            "selection": selection, "limit": options.page_size, "continueToken": options.continue_token,
            "read": read_name(options.read), "projection": options.projection,
        });

        let page = self
            .client()
            .call(&json!({"call": "list", "kind": kind_value(kind), "options": options}))?;
        let page: List =
            serde_json::from_str(&page).map_err(|error| ApiError::malformed(error.to_string()))?;

        Ok(Page {
            items: page
                .items
                .iter()
                .map(|item| item.get().to_owned())
                .collect(),
            resource_version: page.resource_version,
            continue_token: page.continue_token,
        })
    }

    fn create(
        &self,
        kind: &GroupVersionKind,
        create: &CreateRequest<'_>,
    ) -> Result<String, ApiError> {
        let CreateRequest {
            namespace,
            object,
            options,
        } = *create;

        let key = ObjectKey {
            namespace: namespace.map(str::to_owned),
            name: String::new(),
        };

        let request = json!({
            "call": "create", "kind": kind_value(kind), "namespace": namespace, "text": object,
            "options": options_value(options),
        });
        self.write(Verb::Create, kind, key, options.dry_run, &request)
    }

    fn update(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        update: &UpdateRequest<'_>,
    ) -> Result<String, ApiError> {
        let UpdateRequest {
            object,
            part,
            options,
        } = *update;
        let (verb, call) = match part {
            Part::Main => (Verb::Update, "update"),
            Part::Status => (Verb::UpdateStatus, "updateStatus"),
        };

        let request = json!({
            "call": call, "kind": kind_value(kind), "key": key_value(key), "text": object,
            "options": options_value(options),
        });
        self.write(verb, kind, key.clone(), options.dry_run, &request)
    }

    fn patch(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch: &PatchRequest<'_>,
    ) -> Result<String, ApiError> {
        let patch_type = match patch.kind {
            PatchType::Merge => "merge",
            PatchType::Json => "json",
            PatchType::Apply => "apply",
        };

        let request = json!({
            "call": "patch", "kind": kind_value(kind), "key": key_value(key), "subresource": patch.subresource,
            "type": patch_type, "text": patch.body, "force": patch.force, "options": options_value(patch.options),
        });

        self.write(
            Verb::Patch,
            kind,
            key.clone(),
            patch.options.dry_run,
            &request,
        )
    }

    fn delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let propagation = options.propagation.map(|propagation| match propagation {
            Propagation::Background => "background",
            Propagation::Foreground => "foreground",
            Propagation::Orphan => "orphan",
        });

        let given = json!({
            "uid": options.uid, "resourceVersion": options.resource_version,
            "gracePeriodSeconds": options.grace_period_seconds, "propagation": propagation, "dryRun": options.dry_run,
        });
        let request = json!({"call": "delete", "kind": kind_value(kind), "key": key_value(key), "options": given});

        self.write(Verb::Delete, kind, key.clone(), options.dry_run, &request)
            .map(drop)
    }

    fn raw(&self, request: &RawRequest) -> RawResponse {
        let route = Route::of(request);
        if let Some(Err(error)) = route.as_ref().map(|route| self.fault(route.verb)) {
            return RawResponse::of_error(&error);
        }

        let response = self.send(request);

        if let Some(route) =
            route.filter(|route| route.is_recorded_write(request) && response.status < 300)
            && let Some(kind) = self.kind_at(&route)
        {
            let name = route
                .name
                .clone()
                .unwrap_or_else(|| name_of(&response.body));

            let key = ObjectKey {
                namespace: route.namespace.clone(),
                name,
            };
            locked(&self.writes).push(Write {
                verb: route.verb,
                kind,
                key,
            });
        }

        response
    }

    fn take_warnings(&self) -> Vec<String> {
        self.client().take_warnings()
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
        locked(&self.config)
            .clone()
            .unwrap_or_else(|| "{}".to_owned())
    }

    #[cfg(feature = "kube")]
    fn fail(&self, message: &str) {
        locked(&self.failures).push(message.to_owned());
    }
}

pub(super) fn kind_value(kind: &GroupVersionKind) -> Value {
    json!({"apiVersion": kind.api_version, "kind": kind.kind})
}

fn key_value(key: &ObjectKey) -> Value {
    json!({"namespace": key.namespace, "name": key.name})
}

fn read_name(read: Read) -> &'static str {
    match read {
        Read::Cached => "cached",
        Read::Live => "live",
    }
}

fn options_value(options: &WriteOptions) -> Value {
    json!({"dryRun": options.dry_run, "fieldManager": options.field_manager, "strict": options.strict})
}

/// The name of an object, which the API server may have generated.
fn name_of(object: &str) -> String {
    let object: Value = serde_json::from_str(object).unwrap_or_default();
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

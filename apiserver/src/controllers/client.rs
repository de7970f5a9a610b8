//! The API as a controller uses it: requests of its own user, answered at once.

use futures::FutureExt;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{object, world::Key};
use crate::{
    apimachinery::json,
    authn::user::User,
    server::{ApiServer, Body, Resource, format_time},
};

/// A request that the API refused.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Refused {
    /// The HTTP status code.
    pub code: u16,
    /// The message of the API.
    pub message: String,
}

impl Refused {
    fn local(message: impl ToString) -> Self {
        Self {
            code: 500,
            message: message.to_string(),
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    pub fn is_conflict(&self) -> bool {
        self.code == 409
    }
}

pub(super) type Answer = Result<Value, Refused>;

/// Ignores that an object is gone.
pub(super) fn if_found(answer: Answer) -> Result<(), Refused> {
    match answer {
        Err(refused) if !refused.is_not_found() => Err(refused),
        _ => Ok(()),
    }
}

pub(super) struct Client {
    api: ApiServer,
    agent: &'static str,
    /// The component that Events name.
    component: &'static str,
}

impl Client {
    /// Creates a client of a user. `agent` is the manager of the fields that it writes.
    pub fn new(api: &ApiServer, user: User, agent: &'static str, component: &'static str) -> Self {
        Self {
            api: api.acting_as(user),
            agent,
            component,
        }
    }

    /// Sends a request. The server waits for nothing when it answers, except in watches.
    pub fn send(&self, method: Method, path: &str, media: &str, body: &Value) -> Answer {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };

        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::USER_AGENT, self.agent)
            .header(header::CONTENT_TYPE, media)
            .body(Body::full(body))
            .map_err(Refused::local)?;

        let answer = async {
            let response = match self.api.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let (parts, body) = response.into_parts();
            match body.collect().await {
                Ok(body) => (parts.status.as_u16(), body.to_bytes()),
                Err(never) => match never {},
            }
        };

        let (code, bytes) = answer
            .now_or_never()
            .ok_or_else(|| Refused::local("the request would have to wait"))?;

        let value = json::read(&bytes).map_err(Refused::local)?;
        if code < 300 {
            return Ok(value);
        }

        Err(Refused {
            code,
            message: object::text(&value, &["message"]).to_owned(),
        })
    }

    fn json(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.send(method, path, "application/json", body)
    }

    pub fn create(&self, resource: &Resource, namespace: Option<&str>, object: &Value) -> Answer {
        self.json(Method::POST, &path(resource, namespace, "", ""), object)
    }

    /// Replaces an object or its subresource, unless it has a newer revision.
    pub fn update(&self, resource: &Resource, object: &Value, subresource: &str) -> Answer {
        self.json(Method::PUT, &path_of(resource, object, subresource), object)
    }

    /// Applies a merge patch, which a `resourceVersion` in it makes conditional.
    pub fn patch(
        &self,
        resource: &Resource,
        object: &Value,
        subresource: &str,
        patch: &Value,
    ) -> Answer {
        let media = "application/merge-patch+json";
        self.send(
            Method::PATCH,
            &path_of(resource, object, subresource),
            media,
            patch,
        )
    }

    /// Deletes an object, unless its UID has changed. `policy` decides about its dependents.
    pub fn delete(&self, resource: &Resource, object: &Value, policy: &str) -> Result<(), Refused> {
        let mut options = json!({"preconditions": {"uid": object::uid(object)}});
        if !policy.is_empty() {
            options["propagationPolicy"] = policy.into();
        }
        if_found(self.json(Method::DELETE, &path_of(resource, object, ""), &options))
    }

    /// Records an Event about an object. A failure is only logged, since Events are best effort.
    pub fn event(&self, about: &Value, kind: &str, reason: &str, message: &str) {
        let namespace = Some(object::namespace(about))
            .filter(|name| !name.is_empty())
            .unwrap_or("default");

        let now = format_time(self.api.environment().now());
        let id = self.api.environment().uid().replace('-', "");

        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{}.{}", object::name(about), &id[..16]), "namespace": namespace},
            "involvedObject": {
                "apiVersion": about["apiVersion"], "kind": about["kind"], "name": object::name(about),
                "namespace": about["metadata"]["namespace"], "uid": object::uid(about),
                "resourceVersion": about["metadata"]["resourceVersion"],
            },
            "reason": reason, "message": message, "type": kind, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": self.component}, "reportingComponent": self.component, "reportingInstance": "",
        });

        if let Err(error) = self.json(
            Method::POST,
            &format!("/api/v1/namespaces/{namespace}/events"),
            &event,
        ) && error.code != 403
        {
            // 403 means that the namespace is being deleted.
            tracing::warn!(
                "failed to record the Event {reason} of {}: {error}",
                object::name(about)
            );
        }
    }
}

pub(super) fn path_of(resource: &Resource, object: &Value, subresource: &str) -> String {
    let namespace = resource.namespaced.then_some(object::namespace(object));
    path(resource, namespace, object::name(object), subresource)
}

pub(super) fn path_of_key(resource: &Resource, key: &Key) -> String {
    path(resource, key.object.namespace(), key.object.name(), "")
}

fn path(resource: &Resource, namespace: Option<&str>, name: &str, subresource: &str) -> String {
    let mut path = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };

    if let Some(namespace) = namespace {
        path = format!("{path}/namespaces/{namespace}");
    }

    for part in [resource.names.plural.as_str(), name, subresource] {
        if !part.is_empty() {
            path = format!("{path}/{part}");
        }
    }

    path
}

//! The audit log: who requested what, and the code of the answer, at kube-apiserver's level
//! `Metadata`.

use std::sync::Arc;

use http::{Method, header::USER_AGENT, request::Parts};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{environment::Environment, hooks::Requester};
use crate::{
    apimachinery::{attributes::Attributes, json},
    authn::user::User,
};

/// Keeps audit events.
pub trait AuditSink: Send + Sync {
    /// Keeps an event (`audit.k8s.io/v1`, kind `Event`), before the request is answered.
    fn write(&self, event: &Value);
}

/// The events of one request.
#[derive(Clone)]
pub(super) struct Trail {
    sink: Arc<dyn AuditSink>,
    environment: Environment,
    event: Value,
}

impl Trail {
    /// Writes that a request was received.
    pub fn begin(
        sink: &Arc<dyn AuditSink>,
        environment: &Environment,
        (parts, attributes): (&Parts, &Attributes),
        requester: &Requester,
    ) -> Self {
        let agent = parts
            .headers
            .get(USER_AGENT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();

        let uri = parts
            .uri
            .path_and_query()
            .map_or_else(|| parts.uri.to_string(), ToString::to_string);
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": environment.uid(),
            "requestURI": uri, "verb": attributes.verb, "userAgent": agent, "sourceIPs": ["127.0.0.1"],
            "user": user(requester.sender.as_ref().unwrap_or(&requester.user)),
            "requestReceivedTimestamp": micros(environment.now()),
        });

        if attributes.is_resource {
            event["objectRef"] = object_of(attributes);
        }

        let mut trail = Self {
            sink: Arc::clone(sink),
            environment: environment.clone(),
            event,
        };

        trail.write("RequestReceived", None);
        if requester.sender.is_some() {
            trail.event["impersonatedUser"] = user(&requester.user);
        }

        if !requester.constraint.is_empty() {
            trail.event["authenticationMetadata"] =
                json!({"impersonationConstraint": requester.constraint});
        }

        trail
    }

    /// Completes the events with the name of the object in the body of a create.
    pub fn name(&mut self, method: &Method, body: &[u8]) {
        let has_name = self.event["objectRef"].get("name").is_some();
        if method != Method::POST || has_name || !self.event["objectRef"].is_object() {
            return;
        }

        let name = json::read(body)
            .ok()
            .map(|mut body| body["metadata"]["name"].take());
        if let Some(name) = name.filter(Value::is_string) {
            self.event["objectRef"]["name"] = name;
        }
    }

    /// Writes that the answer to a watch has begun. When the result is dropped, it writes that it
    /// has ended.
    pub fn started(&mut self) -> Ending {
        self.write("ResponseStarted", Some(200));
        Ending(self.clone())
    }

    /// Writes that the request is answered.
    pub fn complete(&mut self, code: u16) {
        self.write("ResponseComplete", Some(code));
    }

    fn write(&mut self, stage: &str, code: Option<u16>) {
        self.event["stage"] = stage.into();
        self.event["stageTimestamp"] = micros(self.environment.now()).into();
        if let Some(code) = code {
            self.event["responseStatus"] = json!({"metadata": {}, "code": code});
        }

        self.sink.write(&self.event);
    }
}

/// Writes the end of a watch when it is dropped.
pub(super) struct Ending(Trail);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.complete(200);
    }
}

fn user(user: &User) -> Value {
    let mut found = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        found["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        found["extra"] = json!(user.extra);
    }
    found
}

fn object_of(attributes: &Attributes) -> Value {
    let members = [
        ("resource", &attributes.resource),
        ("namespace", &attributes.namespace),
        ("name", &attributes.name),
        ("apiGroup", &attributes.group),
        ("apiVersion", &attributes.version),
        ("subresource", &attributes.subresource),
    ];
    let filled = members.into_iter().filter(|(_, text)| !text.is_empty());

    filled
        .map(|(name, text)| (name.to_owned(), Value::from(text.as_str())))
        .collect()
}

fn micros(time: Timestamp) -> String {
    format!("{time:.6}")
}

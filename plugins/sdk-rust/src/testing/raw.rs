//! Raw requests to a test's cluster. Requests for objects count as the matching call of the
//! contract, for planned errors and recorded writes.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{State, Verb};
use crate::{GroupVersionKind, RawRequest, RawResponse};

/// The contract's call that a request corresponds to.
pub(super) struct Route {
    pub(super) verb: Verb,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    /// The path of the group and version: `/api/v1` or `/apis/apps/v1`.
    root: String,
    api_version: String,
    plural: String,
}

impl Route {
    /// The call of a request; None if it is not about objects.
    pub(super) fn of(request: &RawRequest) -> Option<Self> {
        let parts: Vec<&str> = request
            .path
            .split('/')
            .filter(|part| !part.is_empty())
            .collect();

        let (root, api_version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => (format!("/api/{version}"), (*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (
                format!("/apis/{group}/{version}"),
                format!("{group}/{version}"),
                rest,
            ),
            _ => return None,
        };

        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..]
                if !rest.is_empty() && rest[0] != "status" && rest[0] != "finalize" =>
            {
                (Some((*namespace).to_owned()), rest)
            }
            rest => (None, rest),
        };

        let [plural, rest @ ..] = rest else {
            return None;
        };

        let verb = match (request.method.as_str(), rest) {
            ("GET", []) => Verb::List,
            ("GET", [_] | [_, "status"]) => Verb::Get,
            ("POST", []) => Verb::Create,
            ("PUT", [_]) => Verb::Update,
            ("PUT", [_, "status"]) => Verb::UpdateStatus,
            ("PATCH", [_] | [_, _]) => Verb::Patch,
            ("DELETE", [_]) => Verb::Delete,
            _ => return None,
        };

        let name = rest.first().map(|name| (*name).to_owned());
        Some(Self {
            verb,
            namespace,
            name,
            root,
            api_version,
            plural: (*plural).to_owned(),
        })
    }

    /// Reports whether the request is a write that changes something if it succeeds.
    pub(super) fn is_recorded_write(&self, request: &RawRequest) -> bool {
        let dry_run = request
            .query
            .split('&')
            .any(|pair| pair.starts_with("dryRun="));

        let in_body = || {
            let body: Value = request
                .body
                .as_deref()
                .and_then(|body| serde_json::from_str(body).ok())
                .unwrap_or_default();
            body["dryRun"].as_array().is_some_and(|all| !all.is_empty())
        };

        match self.verb {
            Verb::Get | Verb::List => false,
            Verb::Delete => !dry_run && !in_body(),
            _ => !dry_run,
        }
    }
}

impl State {
    /// Sends a request to the API server.
    pub(super) fn send(&self, request: &RawRequest) -> RawResponse {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Sent {
            status: u16,
            content_type: String,
            retry_after_seconds: Option<u32>,
            body: String,
        }

        let sent = json!({
            "method": request.method, "path": request.path, "query": request.query,
            "contentType": request.content_type, "accept": request.accept, "body": request.body,
            "cached": request.cached,
        });

        let answer = self
            .client()
            .call(&json!({"call": "send", "request": sent}));

        match answer.map(|text| serde_json::from_str::<Sent>(&text)) {
            Ok(Ok(Sent {
                status,
                content_type,
                retry_after_seconds,
                body,
            })) => RawResponse {
                status,
                content_type,
                retry_after_seconds,
                body,
            },
            Ok(Err(error)) => panic!("a response of the test server: {error}"),
            Err(error) => RawResponse::of_error(&error),
        }
    }

    /// The kind of a resource, according to discovery.
    pub(super) fn kind_at(&self, route: &Route) -> Option<GroupVersionKind> {
        let discovery = self.send(&RawRequest::get(route.root.clone()));
        let found: Value = serde_json::from_str(&discovery.body).ok()?;

        let resource = found["resources"]
            .as_array()?
            .iter()
            .find(|resource| resource["name"] == *route.plural)?;

        Some(GroupVersionKind::new(
            route.api_version.clone(),
            resource["kind"].as_str()?,
        ))
    }
}

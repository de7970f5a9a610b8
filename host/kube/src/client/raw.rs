//! A plugin's raw requests, under its identity like every other call. A cacheable GET is answered
//! like the same read through `objects`, and the response to a write is added to the overlay.
//! Required permissions and denials are recorded like for other calls.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use http::{Request, StatusCode};
use operetta_core::{
    authz::recorded_permissions::Need,
    gate::{
        bytes::charge,
        call::Call,
        operation::{ListOptions, Page, Read, Verb},
        raw_request::{RawRequest, RawResponse, ResourcePath, Target},
    },
    status::{ApiError, ErrorKind, Status},
};

use crate::{
    authz::required_permissions::{RequiredPermission, of_call},
    client::{
        api_client::{from_body, query},
        object_api::PluginApi,
        own_writes::Sent,
    },
    discovery::ApiResource,
};

const JSON: &str = "application/json";

/// The query parameters supported by cached reads.
const CACHED: &[&str] = &["labelSelector", "fieldSelector", "limit", "continue"];

impl PluginApi {
    pub(crate) async fn send_raw(
        &self,
        request: RawRequest,
        target: Target,
    ) -> Result<RawResponse, ApiError> {
        let parameters = request.parameters()?;
        let call = Call::of_raw(&request, &target);
        let Target::Resource(path) = target else {
            self.note(&(Need::path(&request.path), None));
            return self.forward(request, &parameters, &call, None).await;
        };

        let resource = self
            .discovery
            .resolve_plural(&path.api_version, &path.plural)
            .await?;
        let Some(resource) = resource else {
            // Let the API server word the error.
            return self.forward(request, &parameters, &call, None).await;
        };

        if path.subresource.is_none() && answers(&request, &parameters) {
            match self.read_cached(&resource, &path, &parameters).await {
                // For example, the cache may not support the selector's fields.
                Err(error) if error.kind == ErrorKind::BadRequest => {}
                answer => {
                    let permission = of_call(&resource, &call, true);
                    return self.with_permission(&permission, async { answer }).await;
                }
            }
        }

        let permission = of_call(&resource, &call, false);
        self.note(&permission);
        let answer = self
            .forward(request, &parameters, &call, Some(&resource))
            .await?;
        self.note_response(&permission, call.verb, answer.status, || {
            from_body(answer.status, answer.body.as_bytes(), None)
        });
        Ok(answer)
    }

    /// Records what the response to a request tells about the permission that it needed. `error` is
    /// what a response of status 403 says.
    pub(crate) fn note_response(
        &self,
        permission: &RequiredPermission,
        verb: Verb,
        status: u16,
        error: impl FnOnce() -> ApiError,
    ) {
        match status {
            201 if matches!(verb, Verb::Update | Verb::Patch) => self.note_created(permission),
            403 => self.note_refusal(permission, &error()),
            _ => {}
        }
    }

    async fn read_cached(
        &self,
        resource: &Arc<ApiResource>,
        path: &ResourcePath,
        parameters: &HashMap<String, String>,
    ) -> Result<RawResponse, ApiError> {
        let text = |name: &str| {
            parameters
                .get(name)
                .filter(|text| !text.is_empty())
                .cloned()
        };

        let body = match path.key() {
            Some(key) => {
                resource.check_namespace(key.namespace.as_deref())?;
                let object = self.read_object(resource, key, Read::Cached).await?;
                charge(object.json().len())?;
                object.json().to_owned()
            }
            None => {
                path.namespace.as_deref().map_or(Ok(()), |namespace| {
                    resource.check_namespace(Some(namespace))
                })?;
                let limit = text("limit").map(|limit| limit.parse::<u32>()).transpose();
                let limit = limit
                    .map_err(|_| ApiError::new(ErrorKind::BadRequest, "limit is not a number"))?;
                let options = ListOptions {
                    labels: text("labelSelector"),
                    fields: text("fieldSelector"),
                    limit: limit.filter(|limit| *limit > 0),
                    continue_token: text("continue"),
                    ..ListOptions::all(path.namespace.clone(), Read::Cached)
                };
                let page = self.read_page(resource, &options).await?;
                charge(page.items.iter().map(|item| item.json().len()).sum())?;
                list(resource, &page)
            }
        };

        Ok(RawResponse {
            status: 200,
            content_type: JSON.to_owned(),
            retry_after_seconds: None,
            body,
        })
    }

    /// Sends a request to the API server. `resource` is the one in its path, if the host knows it.
    async fn forward(
        &self,
        request: RawRequest,
        parameters: &HashMap<String, String>,
        call: &Call,
        resource: Option<&ApiResource>,
    ) -> Result<RawResponse, ApiError> {
        if request.is_cached() {
            self.throttle().await;
        }

        let stores = matches!(call.verb, Verb::Create | Verb::Update | Verb::Patch);
        let mut uri = request.path;
        if !request.query.is_empty() {
            uri = format!("{uri}?{}", request.query);
        }
        if stores && resource.is_some() && !parameters.contains_key("fieldManager") {
            let manager = query(&[("fieldManager", self.field_manager())]);
            uri = if request.query.is_empty() {
                uri + &manager
            } else {
                format!("{uri}&{}", &manager[1..])
            };
        }
        let accept = request.accept.as_deref().unwrap_or(JSON);
        let mut builder = Request::builder()
            .method(request.method.as_str())
            .uri(uri)
            .header("accept", accept);
        if request.body.is_some() {
            builder = builder.header(
                "content-type",
                request.content_type.as_deref().unwrap_or(JSON),
            );
        }
        let sent = builder.body(request.body.unwrap_or_default().into_bytes());
        let sent = sent.map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))?;
        let note = resource
            .map(|resource| Sent::new(&self.registry, resource, call, sent.body(), self.author));
        let answer = self.api_client.exchange(sent).await.and_then(|answer| {
            let content_type = answer.content_type();
            let retry_after_seconds = answer.retry_after();
            let status = answer.status;
            Ok((status, content_type, retry_after_seconds, answer.text()?))
        });
        let (status, content_type, retry_after_seconds, mut body) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                note.into_iter().for_each(|note| note.failed(&error));
                return Err(error);
            }
        };

        let missing = call.subresource.as_deref().zip(resource);
        if let Some((subresource, resource)) = missing
            && status == StatusCode::NOT_FOUND
            && !resource.has_subresource(subresource)
        {
            // Clients of raw requests expect the code of a path that is not served.
            let Status { message, .. } = resource.no_subresource(subresource).status;
            body = RawResponse::of_error(&ApiError::new(ErrorKind::NotFound, message)).body;
        }

        match note {
            Some(note) if status.is_success() => note.answered(&body),
            Some(note) => note.failed(&from_body(status.as_u16(), body.as_bytes(), None)),
            None => {}
        }
        Ok(RawResponse {
            status: status.as_u16(),
            content_type,
            retry_after_seconds,
            body,
        })
    }
}

/// Whether the request allows a cached answer and the cache can give one.
fn answers(request: &RawRequest, parameters: &HashMap<String, String>) -> bool {
    let accepts_json = |accept: &String| {
        accept
            .split(',')
            .any(|one| [JSON, "*/*", ""].contains(&one.trim()))
    };
    request.is_cached()
        && request.accept.as_ref().is_none_or(accepts_json)
        && parameters
            .keys()
            .all(|name| CACHED.contains(&name.as_str()))
}

/// Formats a list in the API server's form.
fn list(resource: &ApiResource, page: &Page) -> String {
    let kind = &resource.kind;
    let meta = serde_json::json!({
        "resourceVersion": page.resource_version, "continue": page.continue_token.as_deref().unwrap_or_default(),
    });
    let mut text = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{meta},\"items\":[",
        serde_json::json!(format!("{}List", kind.kind)),
        serde_json::json!(kind.api_version),
    );

    for (at, item) in page.items.iter().enumerate() {
        let _infallible = write!(text, "{}{}", if at == 0 { "" } else { "," }, item.json());
    }

    text + "]}"
}

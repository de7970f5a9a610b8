//! Raw requests of a plugin, under its identity like every other call. A GET that may be cached is answered like the
//! same read of `objects`, and the response to a write is added to the overlay. Required permissions and denials are
//! recorded as for other calls.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use http::Request;
use operetta_core::{
    authz::recorded_permissions::Need,
    gate::{
        bytes::charge,
        operation::{ListOptions, Page, Read},
        raw_request::{RawRequest, RawResponse, ResourcePath, Target},
    },
    object::ObjectKey,
    status::{ApiError, ErrorKind},
};

use crate::{
    authz::required_permissions,
    client::{
        object_api::PluginApi,
        wire::{from_body, query},
    },
    discovery::ApiResource,
};

const JSON: &str = "application/json";

/// The query parameters that a cached read supports.
const CACHED: &[&str] = &["labelSelector", "fieldSelector", "limit", "continue"];

impl PluginApi {
    /// Sends a parsed request.
    pub(crate) async fn send_raw(&self, request: RawRequest, target: Target) -> Result<RawResponse, ApiError> {
        let parameters = request.parameters()?;
        let Target::Resource(path) = target else {
            self.note(&(Need::path(&request.path), None));
            return self.forward(request, &parameters, None).await;
        };
        let Some(resource) = self.discovery.resolve_plural(&path.api_version, &path.plural).await? else {
            // The API server words the error.
            return self.forward(request, &parameters, None).await;
        };
        if path.subresource.is_none() && answers(&request, &parameters) {
            match self.read_cached(&resource, &path, &parameters).await {
                // The cache does not support the selector's fields, for example.
                Err(error) if error.kind == ErrorKind::BadRequest => {}
                answer => {
                    let call = required_permissions::of_raw(&resource, &path, &request, true);
                    return self.noted(&call, async { answer }).await;
                }
            }
        }
        let call = required_permissions::of_raw(&resource, &path, &request, false);
        self.note(&call);
        let replaces = matches!(request.method.as_str(), "PUT" | "PATCH");
        let answer = self.forward(request, &parameters, Some((&resource, &path))).await?;
        match answer.status {
            201 if replaces => self.note_created(&call),
            403 => self.note_refusal(&call, &from_body(answer.status, answer.body.as_bytes(), None)),
            _ => {}
        }
        Ok(answer)
    }

    async fn read_cached(
        &self,
        resource: &Arc<ApiResource>,
        path: &ResourcePath,
        parameters: &HashMap<String, String>,
    ) -> Result<RawResponse, ApiError> {
        let text = |name: &str| parameters.get(name).filter(|text| !text.is_empty()).cloned();
        let body = match path.key() {
            Some(key) => {
                resource.check_namespace(key.namespace.as_deref())?;
                let object = self.read_object(resource, key, Read::Cached).await?;
                charge(object.json().len())?;
                object.json().to_owned()
            }
            None => {
                path.namespace.as_deref().map_or(Ok(()), |namespace| resource.check_namespace(Some(namespace)))?;
                let limit = text("limit").map(|limit| limit.parse::<u32>()).transpose();
                let limit = limit.map_err(|_| ApiError::new(ErrorKind::BadRequest, "limit is not a number"))?;
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
        Ok(RawResponse { status: 200, content_type: JSON.to_owned(), retry_after_seconds: None, body })
    }

    async fn forward(
        &self,
        request: RawRequest,
        parameters: &HashMap<String, String>,
        about: Option<(&Arc<ApiResource>, &ResourcePath)>,
    ) -> Result<RawResponse, ApiError> {
        if request.is_cached() {
            self.throttle().await;
        }
        let dry_run = request.is_dry_run(parameters);
        let writes = matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") && about.is_some();
        let mut uri = request.path;
        if !request.query.is_empty() {
            uri = format!("{uri}?{}", request.query);
        }
        if writes && !parameters.contains_key("fieldManager") {
            let manager = query(&[("fieldManager", self.field_manager())]);
            uri = if request.query.is_empty() { uri + &manager } else { format!("{uri}&{}", &manager[1..]) };
        }
        let accept = request.accept.as_deref().unwrap_or(JSON);
        let mut builder = Request::builder().method(request.method.as_str()).uri(uri).header("accept", accept);
        if request.body.is_some() {
            builder = builder.header("content-type", request.content_type.as_deref().unwrap_or(JSON));
        }
        let sent = builder.body(request.body.unwrap_or_default().into_bytes());
        let sent = sent.map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))?;
        let answer = self.wire.exchange(sent).await?;
        let status = answer.status;
        let content_type = answer.content_type();
        let retry_after_seconds = answer.retry_after();
        let body = answer.text()?;
        if let Some((resource, path)) = about.filter(|_| status.is_success() && !dry_run) {
            match path.key() {
                key if writes => {
                    let namespace = path.namespace.clone();
                    let written = key.unwrap_or(ObjectKey { namespace, name: String::new() });
                    self.note_write(&body, resource, &written);
                }
                Some(key) if request.method == "DELETE" && path.subresource.is_none() => {
                    self.note_delete(&body, resource, &key);
                }
                _ => {}
            }
        }
        Ok(RawResponse { status: status.as_u16(), content_type, retry_after_seconds, body })
    }
}

/// Reports whether the request allows a cached answer and the cache can give one.
fn answers(request: &RawRequest, parameters: &HashMap<String, String>) -> bool {
    let whole = |accept: &String| accept.split(',').any(|one| [JSON, "*/*", ""].contains(&one.trim()));
    request.is_cached()
        && request.accept.as_ref().is_none_or(whole)
        && parameters.keys().all(|name| CACHED.contains(&name.as_str()))
}

/// Formats a list as the API server does.
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

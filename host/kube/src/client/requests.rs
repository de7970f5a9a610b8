//! HTTP requests for operations, and responses other than plain objects. Callers have checked keys,
//! namespaces and subresources.

use std::sync::Arc;

use http::Request;
use operetta_core::{
    gate::operation::{
        DeleteOptions, Item, ListOptions, Page, PatchBody, Propagation, WriteOptions,
    },
    object::{ManagedFields, Object, ObjectKey, projection::project},
    status::{ApiError, ErrorKind},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::{client::api_client::query, discovery::ApiResource, informer::Scope};

const JSON: &str = "application/json";

/// Builds the GET of an object.
pub fn get(resource: &ApiResource, key: &ObjectKey) -> Result<Request<Vec<u8>>, ApiError> {
    build(Request::get(resource.object_path(key)), Vec::new())
}

/// Builds the GET of a collection.
pub fn list(resource: &ApiResource, options: &ListOptions) -> Result<Request<Vec<u8>>, ApiError> {
    let limit = options.limit.map(|limit| limit.max(1).to_string());
    let pairs = [
        ("labelSelector", options.labels.as_deref()),
        ("fieldSelector", options.fields.as_deref()),
        ("limit", limit.as_deref()),
        ("continue", options.continue_token.as_deref()),
    ];

    let pairs: Vec<_> = pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let path = resource.collection_path(options.namespace.as_deref());

    build(Request::get(path + &query(&pairs)), Vec::new())
}

/// Builds the GET of a scope's collection in the media type `accept`. Pairs without a value are
/// omitted.
pub fn collection(
    resource: &ApiResource,
    scope: &Scope,
    pairs: &[(&str, &str)],
    accept: &'static str,
) -> Result<Request<Vec<u8>>, ApiError> {
    let selectors = [
        ("labelSelector", scope.labels.as_str()),
        ("fieldSelector", &scope.fields),
    ];

    let pairs: Vec<_> = selectors
        .iter()
        .chain(pairs)
        .copied()
        .filter(|(_, value)| !value.is_empty())
        .collect();

    let path = resource.collection_path(scope.namespace.as_deref());
    build(
        Request::get(path + &query(&pairs)).header(http::header::ACCEPT, accept),
        Vec::new(),
    )
}

/// Builds the POST to a collection.
pub fn create(
    resource: &ApiResource,
    namespace: Option<&str>,
    object: String,
    options: &WriteOptions,
    manager: &str,
) -> Result<Request<Vec<u8>>, ApiError> {
    let path = resource.collection_path(namespace) + &write_query(options, manager, false);
    build(
        Request::post(path).header(http::header::CONTENT_TYPE, JSON),
        object.into_bytes(),
    )
}

/// Builds the PUT of an object or of its status.
pub fn update(
    resource: &ApiResource,
    key: &ObjectKey,
    status: bool,
    object: String,
    options: &WriteOptions,
    manager: &str,
) -> Result<Request<Vec<u8>>, ApiError> {
    let subresource = if status { "/status" } else { "" };
    let path = resource.object_path(key) + subresource + &write_query(options, manager, false);
    build(
        Request::put(path).header(http::header::CONTENT_TYPE, JSON),
        object.into_bytes(),
    )
}

/// The parameters of a PATCH.
pub struct Patch<'a> {
    pub key: &'a ObjectKey,
    pub subresource: Option<&'a str>,
    pub body: PatchBody,
    /// Whether to take over fields from other managers (server-side apply only).
    pub force: bool,
    pub options: &'a WriteOptions,
}

/// Builds the PATCH of an object or of a subresource.
pub fn patch(
    resource: &ApiResource,
    patch: Patch<'_>,
    manager: &str,
) -> Result<Request<Vec<u8>>, ApiError> {
    let Patch {
        key,
        subresource,
        body,
        force,
        options,
    } = patch;

    let mut path = resource.object_path(key);
    if let Some(subresource) = subresource.filter(|name| !name.is_empty()) {
        path = format!("{path}/{subresource}");
    }

    let (content_type, text, force) = match body {
        PatchBody::Merge(text) => ("application/merge-patch+json", text, false),
        PatchBody::Json(text) => ("application/json-patch+json", text, false),
        PatchBody::Apply(text) => ("application/apply-patch+yaml", text, force),
    };
    let path = path + &write_query(options, manager, force);

    build(
        Request::patch(path).header(http::header::CONTENT_TYPE, content_type),
        text.into_bytes(),
    )
}

/// Builds the DELETE of an object.
pub fn delete(
    resource: &ApiResource,
    key: &ObjectKey,
    options: &DeleteOptions,
) -> Result<Request<Vec<u8>>, ApiError> {
    let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if options.uid.is_some() || options.resource_version.is_some() {
        body["preconditions"] =
            json!({"uid": options.uid, "resourceVersion": options.resource_version});
    }

    if let Some(seconds) = options.grace_period_seconds {
        body["gracePeriodSeconds"] = seconds.into();
    }

    if let Some(propagation) = options.propagation {
        body["propagationPolicy"] = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
        .into();
    }

    if options.dry_run {
        body["dryRun"] = json!(["All"]);
    }

    let request =
        Request::delete(resource.object_path(key)).header(http::header::CONTENT_TYPE, JSON);
    build(request, body.to_string().into_bytes())
}

fn write_query(options: &WriteOptions, manager: &str, force: bool) -> String {
    let mut pairs = vec![(
        "fieldManager",
        options.field_manager.as_deref().unwrap_or(manager),
    )];

    if options.dry_run {
        pairs.push(("dryRun", "All"));
    }

    if options.strict {
        pairs.push(("fieldValidation", "Strict"));
    }

    if force {
        pairs.push(("force", "true"));
    }

    query(&pairs)
}

fn build(request: http::request::Builder, body: Vec<u8>) -> Result<Request<Vec<u8>>, ApiError> {
    request
        .body(body)
        .map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))
}

/// Parses a list as sent by the API server.
///
/// # Errors
/// `Other` if the response is not a list of objects.
pub fn page(text: &str, resource: &ApiResource, projection: &[String]) -> Result<Page, ApiError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        #[serde(default)]
        metadata: ListMeta,
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct ListMeta {
        resource_version: String,
        #[serde(rename = "continue")]
        continue_token: String,
    }

    let unreadable = |error: String| {
        ApiError::new(
            ErrorKind::Other,
            format!("list of {}: {error}", resource.kind),
        )
    };

    let list: List<'_> =
        serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    let item = |raw: &&RawValue| {
        let object = Object::from_json(raw.get(), &resource.kind, ManagedFields::Keep);
        let object = object.map_err(|error| unreadable(error.to_string()))?;
        Ok(if projection.is_empty() {
            Item::Whole(Arc::new(object))
        } else {
            Item::Projected(project(object.json(), projection))
        })
    };

    Ok(Page {
        items: list
            .items
            .iter()
            .map(item)
            .collect::<Result<_, ApiError>>()?,
        resource_version: list.metadata.resource_version,
        continue_token: Some(list.metadata.continue_token).filter(|token| !token.is_empty()),
    })
}

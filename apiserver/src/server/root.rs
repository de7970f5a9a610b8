//! Paths that are no resources: health, version, discovery, documents.

use http::{HeaderMap, Method, Response};
use serde_json::{Value, json};

use super::{
    body::Body,
    discovery,
    negotiate::{MediaType, accept_list, check_routable, negotiate},
    openapi_v2::Representation,
    path::Path,
    query::Query,
    resource::Flavor,
    respond::{self, Wishes},
    state::State,
};
use crate::apimachinery::{json, status::Status};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The answer to a request for such a path.
pub(super) enum Root {
    /// JSON, with its media type.
    Json(Value, &'static str),
    /// JSON that is written already.
    Document(Vec<u8>),
    /// Text, with its status code.
    Text(u16, String),
    /// Bytes of a media type.
    Bytes(Vec<u8>, &'static str),
    /// No representation that the client accepts.
    NotAcceptable,
}

impl Root {
    /// Returns the response to a client.
    pub fn response(self, wishes: &Wishes<'_>) -> Response<Body> {
        match self {
            Self::Json(value, "application/json") => {
                respond::json(wishes, 200, json::to_vec(&value), &[])
            }
            Self::Document(text) => respond::json(wishes, 200, text, &[]),
            Self::Json(value, media) => {
                respond::with_type(wishes, 200, json::to_vec(&value), media)
            }
            Self::Text(code, text) => respond::text(wishes, code, text),
            Self::Bytes(bytes, media) => respond::with_type(wishes, 200, bytes, media),
            Self::NotAcceptable => respond::empty(406),
        }
    }
}

pub(super) fn answer(
    state: &State,
    method: &Method,
    path: &Path,
    headers: &HeaderMap,
    query: &Query,
) -> Result<Root, Status> {
    let resources = &state.resources;
    match path {
        Path::CoreVersions => discover(method, headers, true, state),
        Path::Groups => discover(method, headers, false, state),
        Path::Group(group) => {
            let Some(value) = discovery::group(resources, group) else {
                return Ok(not_found());
            };

            let is_custom = resources
                .versions(group)
                .iter()
                .all(|version| is_custom(state, group, version));
            discovered(
                if is_custom { &Method::GET } else { method },
                headers,
                value,
            )
        }
        Path::Version(group, version) => {
            match discovery::resource_list(resources, group, version) {
                // Custom resources have their own discovery, which does not look at the method.
                Some(value) if is_custom(state, group, version) => {
                    discovered(&Method::GET, headers, value)
                }
                Some(value) => discovered(method, headers, value),
                None if group.is_empty() => Err(Status::no_such_path()),
                None => Ok(not_found()),
            }
        }
        Path::Other(path) if path == "/openapi/v2" => version_2(state, headers),
        Path::Other(path) => other(state, method, path.trim_end_matches('/'), query),
        Path::Resource(_) => Err(Status::no_such_path()),
    }
}

/// Reports whether a group version has custom resources only.
fn is_custom(state: &State, group: &str, version: &str) -> bool {
    let resources = state
        .resources
        .in_version(group, version)
        .unwrap_or_default();
    resources
        .iter()
        .all(|resource| resource.flavor == Flavor::Custom)
}

fn discover(
    method: &Method,
    headers: &HeaderMap,
    is_core: bool,
    state: &State,
) -> Result<Root, Status> {
    if method == Method::GET && accept_list(headers).first().is_some_and(wants_aggregated) {
        return Ok(Root::Json(
            discovery::aggregated(&state.resources, is_core),
            AGGREGATED,
        ));
    }

    let value = if is_core {
        discovery::core_versions(&state.resources, &state.about.address)
    } else {
        discovery::group_list(&state.resources)
    };

    discovered(method, headers, value)
}

fn wants_aggregated(media: &MediaType) -> bool {
    media.parameter("g") == Some("apidiscovery.k8s.io")
        && media.parameter("v") == Some("v2")
        && media.parameter("as") == Some("APIGroupDiscoveryList")
}

fn discovered(method: &Method, headers: &HeaderMap, value: Value) -> Result<Root, Status> {
    if method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    // Clients send the aggregated type first and plain JSON after it.
    negotiate(headers).map(|_| Root::Json(value, "application/json"))
}

fn other(state: &State, method: &Method, path: &str, query: &Query) -> Result<Root, Status> {
    match path {
        "/healthz" | "/readyz" | "/livez" if query.get("verbose").is_some() => {
            let name = path.trim_start_matches('/');
            Ok(Root::Text(
                200,
                format!("[+]ping ok\n{name} check passed\n"),
            ))
        }
        "/healthz" | "/readyz" | "/livez" | "/healthz/ping" | "/readyz/ping" | "/livez/ping" => {
            Ok(Root::Text(200, "ok".into()))
        }
        "/version" if method != Method::GET => Err(Status::method_not_allowed()),
        "/version" => Ok(Root::Json(version(state), "application/json")),
        "" => Ok(Root::Json(
            json!({"paths": root_paths(state)}),
            "application/json",
        )),
        // The API server leaves the media type to Go, which takes JSON for a text.
        "/openapi/v3" => Ok(Root::Json(
            state.documents.index(),
            "text/plain; charset=utf-8",
        )),
        "/metrics" | "/metrics/slis" | "/.well-known/openid-configuration" | "/openid/v1/jwks" => {
            Err(Status::not_implemented(path))
        }
        path => match path
            .strip_prefix("/openapi/v3/")
            .and_then(|path| state.documents.document(path))
        {
            Some(text) => Ok(Root::Document(text)),
            None => Ok(not_found()),
        },
    }
}

/// Answers a request for the OpenAPI document of version 2.
fn version_2(state: &State, headers: &HeaderMap) -> Result<Root, Status> {
    let Some(representation) = Representation::accepted(headers) else {
        return Ok(Root::NotAcceptable);
    };
    let (bytes, media) = state.documents.version_2().bytes(representation);
    Ok(Root::Bytes(bytes, media))
}

fn root_paths(state: &State) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();

    for group in state.resources.groups() {
        let base = if group.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{group}")
        };

        paths.extend(
            state
                .resources
                .versions(&group)
                .iter()
                .map(|version| format!("{base}/{version}")),
        );

        paths.push(base);
    }

    paths.sort();
    paths.dedup();
    paths
}

fn version(state: &State) -> Value {
    let version = &state.about.version;
    json!({
        "major": version.major, "minor": version.minor, "gitVersion": version.git_version, "gitCommit": "unknown",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "go1.26.8", "compiler": "gc",
        "platform": "linux/amd64", "emulationMajor": version.major, "emulationMinor": version.minor,
        "minCompatibilityMajor": version.major, "minCompatibilityMinor": "35",
    })
}

/// Returns the answer for a path that nothing serves.
pub(super) fn not_found() -> Root {
    Root::Text(404, "404 page not found\n".into())
}

/// Checks that a client accepts any representation of a built-in resource.
///
/// # Errors
///
/// 406.
pub(super) fn check_accept(headers: &HeaderMap, is_stream: bool) -> Result<(), Status> {
    check_routable(headers, is_stream)
}

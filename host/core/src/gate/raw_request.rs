//! Raw HTTP requests, parsed as far as the gate needs: method and path give the verb and the
//! resource, as in the API server's [RequestInfo].
//!
//! [`RawRequest::target`] rejects paths outside the API and requests with a stream as response
//! (watches, `exec` and the like) before anything is sent.
//!
//! [RequestInfo]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/request/requestinfo.go#L129

use std::{collections::HashMap, fmt};

use serde::Deserialize;
use serde_json::json;

pub(super) use crate::gate::target::IMPOSSIBLE_NAME;
pub use crate::gate::target::{ResourcePath, Target};
use crate::{
    gate::{
        path::{check_subresource, needs_stream},
        target::{NoTarget, bad, check_length, check_lengths, pairs, parameters, parse, shown},
        verb::Verb,
    },
    status::{ApiError, Status},
};

/// The maximum length of a header value, in bytes.
const MAX_HEADER: usize = 4096;

/// The methods of requests for resources.
pub(super) const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// Content types of textual bodies; the first is the default.
const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/yaml",
];

/// A raw HTTP request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawRequest {
    /// The HTTP method, e.g. `GET`.
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// The query, percent-encoded and without `?`.
    pub query: String,
    /// The content type of the body.
    pub content_type: Option<String>,
    /// The accepted content type of the response.
    pub accept: Option<String>,
    /// The body.
    pub body: Option<String>,
    /// Whether an informer may answer a GET.
    pub cached: bool,
}

/// The response to a raw request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawResponse {
    /// The HTTP status code.
    pub status: u16,
    /// The content type of the body.
    pub content_type: String,
    /// The Retry-After header, in seconds.
    pub retry_after_seconds: Option<u32>,
    /// The body.
    pub body: String,
}

/// The fields of metav1.DeleteOptions the host needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions {
    #[serde(default)]
    dry_run: Option<Vec<String>>,
}

impl DeleteOptions {
    fn is_dry_run(&self) -> bool {
        self.dry_run
            .as_ref()
            .is_some_and(|stages| !stages.is_empty())
    }
}

impl RawRequest {
    /// Parses the request's target.
    ///
    /// # Errors
    /// `BadRequest` for an invalid path, query or header; code 405 for an unknown method or a
    /// request for a stream; 406 and 415 for responses and bodies that are not text.
    pub fn target(&self) -> Result<Target, ApiError> {
        check_method(&self.method)?;
        self.check_lengths()?;
        self.check_headers()?;
        self.delete_options()?;
        let target = parse(&self.path).map_err(|error| match error {
            NoTarget::Invalid(error) => error,
            NoTarget::Verb("watch") => needs_stream("a watch"),
            NoTarget::Verb(verb) => needs_stream(verb),
        })?;
        let query = pairs(&self.query)?;

        // Check all occurrences of a parameter, because the API server may use any of them.
        let asked = |name: &str| {
            query
                .iter()
                .any(|(given, value)| given == name && !matches!(value.as_str(), "0" | "false"))
        };
        if asked("watch") {
            return Err(needs_stream("a watch"));
        }
        if asked("follow") {
            return Err(needs_stream("follow=true"));
        }

        match &target {
            Target::Discovery if self.verb() != Verb::Get => Err(get_only(&self.path)),
            Target::Resource(ResourcePath {
                subresource: Some(subresource),
                ..
            }) => {
                check_subresource(subresource)?;
                Ok(target)
            }
            _ => Ok(target),
        }
    }

    /// The verb RBAC would check, except that a list is also a `get`.
    pub fn verb(&self) -> Verb {
        verb_of(&self.method)
    }

    /// Whether the cache may answer the request, so that it normally does not reach the API server.
    pub fn is_cached(&self) -> bool {
        self.cached && self.method == "GET"
    }

    /// Whether the request cannot change anything, given its [`parameters`](Self::parameters).
    /// Options in the body of a DELETE, where kube-rs and client-go put them, replace those in the
    /// query, [as in the API server].
    ///
    /// [as in the API server]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/handlers/delete.go#L95
    pub fn is_dry_run(&self, parameters: &HashMap<String, String>) -> bool {
        match self.delete_options() {
            Ok(Some(options)) => options.is_dry_run(),
            Ok(None) => parameters.contains_key("dryRun"),
            // Such a request is refused before it is sent.
            Err(_) => false,
        }
    }

    /// Decodes the body of a DELETE; None without a body and for other methods.
    fn delete_options(&self) -> Result<Option<DeleteOptions>, ApiError> {
        let Some(body) = self
            .body
            .as_deref()
            .filter(|body| self.method == "DELETE" && !body.is_empty())
        else {
            return Ok(None);
        };

        let options = serde_json::from_str(body);
        options.map(Some).map_err(|error| {
            bad(format!(
                "the body of a DELETE is not DeleteOptions in JSON: {error}"
            ))
        })
    }

    /// How many bytes the guest passed.
    pub fn payload_bytes(&self) -> usize {
        self.body.as_ref().map_or(0, String::len) + self.path.len() + self.query.len()
    }

    /// The decoded query parameters. As in the API server, only the first value of a repeated
    /// parameter counts.
    ///
    /// # Errors
    /// `BadRequest` if the query contains unencoded characters.
    pub fn parameters(&self) -> Result<HashMap<String, String>, ApiError> {
        parameters(&self.query)
    }

    /// Checks the lengths of the path, the query and the headers.
    fn check_lengths(&self) -> Result<(), ApiError> {
        let headers = self
            .content_type
            .iter()
            .chain(&self.accept)
            .map(String::len)
            .max()
            .unwrap_or_default();

        check_lengths(&self.path, &self.query)?;
        check_length("header", headers, MAX_HEADER)
    }

    fn check_headers(&self) -> Result<(), ApiError> {
        if let Some(given) = &self.content_type {
            let essence = given.split(';').next().unwrap_or_default().trim();
            if !CONTENT_TYPES.contains(&essence) || !printable(given) {
                let message = format!(
                    "content type {:?} is not supported: use one of {}",
                    shown(given),
                    CONTENT_TYPES.join(", ")
                );
                return Err(refused(415, "UnsupportedMediaType", message));
            }
        }

        if let Some(accept) = &self.accept {
            let json = |one: &str| {
                let essence = one.split(';').next().unwrap_or_default().trim();
                ["application/json", "*/*", "text/plain", ""].contains(&essence)
            };
            if !accept.split(',').any(json) || !printable(accept) {
                let message = format!(
                    "accept {:?} is not supported: use application/json",
                    shown(accept)
                );
                return Err(refused(406, "NotAcceptable", message));
            }
        }

        Ok(())
    }
}

impl RawResponse {
    /// The error as a metav1.Status, as the API server would send it.
    pub fn of_error(error: &ApiError) -> Self {
        let Status {
            code,
            reason,
            message,
            causes,
            retry_after_seconds,
        } = &error.status;

        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "code": code,
            "details": {"causes": causes, "retryAfterSeconds": retry_after_seconds.unwrap_or_default()},
        });

        Self {
            status: *code,
            content_type: "application/json".to_owned(),
            retry_after_seconds: *retry_after_seconds,
            body: body.to_string(),
        }
    }
}

impl fmt::Display for RawRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", shown(&self.method), shown(&self.path))
    }
}

fn printable(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// The verb of a method, except that a list and a watch are also a `get`.
pub(super) fn verb_of(method: &str) -> Verb {
    match method {
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "PATCH" => Verb::Patch,
        "DELETE" => Verb::Delete,
        _ => Verb::Get,
    }
}

/// Checks that the API server knows the method.
///
/// # Errors
/// Code 405.
pub(super) fn check_method(method: &str) -> Result<(), ApiError> {
    if METHODS.contains(&method) {
        return Ok(());
    }
    let message = format!(
        "method {:?} is not GET, POST, PUT, PATCH or DELETE",
        shown(method)
    );
    Err(refused(405, "MethodNotAllowed", message))
}

/// The error of a path outside of resources with another method than GET.
pub(super) fn get_only(path: &str) -> ApiError {
    let message = format!("{} takes GET only", shown(path));
    refused(405, "MethodNotAllowed", message)
}

/// Whether DeleteOptions in JSON ask for a dry run; None if they cannot be read.
pub(super) fn delete_body_is_dry_run(body: &[u8]) -> Option<bool> {
    let options: DeleteOptions = serde_json::from_slice(body).ok()?;
    Some(options.is_dry_run())
}

pub(super) fn refused(code: u16, reason: &str, message: String) -> ApiError {
    ApiError::from_status(Status {
        code,
        reason: reason.to_owned(),
        message,
        ..Status::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{object::ObjectKey, status::ErrorKind};

    fn request(method: &str, path: &str, query: &str) -> RawRequest {
        RawRequest {
            method: method.into(),
            path: path.into(),
            query: query.into(),
            ..RawRequest::default()
        }
    }

    #[test]
    fn only_the_name_of_an_object_may_have_escapes() {
        let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles";
        for (segment, name) in [("hello%20world", "hello world"), ("%C3%A9", "\u{e9}")] {
            let target = request("GET", &format!("{path}/{segment}"), "").target();
            let Target::Resource(resource) = target.expect("a resource") else {
                panic!("{segment} is a name");
            };
            assert_eq!(resource.key(), Some(ObjectKey::namespaced("n", name)));
        }

        let too_long = format!("{path}/{}", "a".repeat(513));
        for wrong in [
            "/api/v1/namespaces/n/pods/a%2Fexec",
            "/api/v1/namespaces/n/pods/%2e%2e",
            "/api/v1/namespaces/n/pods/a%25b",
            "/api/v1/namespaces/n/pods/a%",
            "/api/v1/namespaces/n/pods/a b",
            "/api/v1/namespaces/n/pods/a/%65xec",
            "/api/v1/namespaces/%6e/pods/a",
            "/api/v1/namespaces/n/%70ods/a",
            "/api/v%31/namespaces/n/pods/a",
            "/apis/app%73/v1",
            "/openapi/v3%20",
            too_long.as_str(),
        ] {
            let error = request("GET", wrong, "").target().expect_err(wrong);
            assert_eq!(error.kind, ErrorKind::BadRequest, "{wrong}");
        }
    }

    #[test]
    fn delete_body_may_request_dry_run() {
        let is_dry_run = |method: &str, query: &str, body: &str| {
            let request = RawRequest {
                body: Some(body.into()),
                ..request(method, "/api/v1/nodes/a", query)
            };
            request.is_dry_run(&request.parameters().expect("parameters"))
        };
        assert!(is_dry_run("DELETE", "dryRun=All", ""));
        assert!(is_dry_run(
            "DELETE",
            "",
            r#"{"kind":"DeleteOptions","dryRun":["All"]}"#
        ));
        assert!(
            !is_dry_run("DELETE", "dryRun=All", "{}"),
            "the API server ignores the query if there is a body"
        );
        assert!(!is_dry_run(
            "DELETE",
            "",
            r#"{"kind":"DeleteOptions","dryRun":[]}"#
        ));
        assert!(!is_dry_run("DELETE", "", ""));
        assert!(
            !is_dry_run("PUT", "", r#"{"dryRun":["All"]}"#),
            "it is a field of the object"
        );
    }

    #[test]
    fn rejects_delete_options_that_are_ambiguous() {
        for body in [
            "apiVersion: v1\ndryRun: [All]",
            r#"{"dryRun":["All"],"dryRun":[]}"#,
            r#"{"dryRun":"All"}"#,
            " ",
        ] {
            let request = RawRequest {
                body: Some(body.into()),
                ..request("DELETE", "/api/v1/nodes/a", "")
            };
            let error = request.target().expect_err(body);
            assert!(
                error.kind == ErrorKind::BadRequest
                    && error.status.message.contains("not DeleteOptions"),
                "{error}"
            );
        }
    }

    #[test]
    fn parses_paths_as_request_info_does() {
        for (path, api_version, plural, namespace, name, subresource) in [
            ("/api/v1/pods", "v1", "pods", None, None, None),
            ("/api/v1/nodes/a", "v1", "nodes", None, Some("a"), None),
            ("/api/v1/namespaces", "v1", "namespaces", None, None, None),
            (
                "/api/v1/namespaces/n",
                "v1",
                "namespaces",
                None,
                Some("n"),
                None,
            ),
            (
                "/api/v1/namespaces/n/finalize",
                "v1",
                "namespaces",
                None,
                Some("n"),
                Some("finalize"),
            ),
            (
                "/api/v1/namespaces/n/status/pods",
                "v1",
                "namespaces",
                None,
                Some("n"),
                Some("status/pods"),
            ),
            (
                "/api/v1/namespaces/n/pods",
                "v1",
                "pods",
                Some("n"),
                None,
                None,
            ),
            (
                "/api/v1/namespaces/n/pods/a/log",
                "v1",
                "pods",
                Some("n"),
                Some("a"),
                Some("log"),
            ),
            (
                "/apis/apps/v1/namespaces/n/deployments/d",
                "apps/v1",
                "deployments",
                Some("n"),
                Some("d"),
                None,
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
                "rbac.authorization.k8s.io/v1",
                "clusterroles",
                None,
                Some("system:node"),
                None,
            ),
        ] {
            let expected = ResourcePath {
                api_version: api_version.into(),
                plural: plural.into(),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                subresource: subresource.map(str::to_owned),
            };
            assert_eq!(
                request("GET", path, "").target(),
                Ok(Target::Resource(expected)),
                "{path}"
            );
        }
        for path in [
            "/api",
            "/apis",
            "/apis/apps",
            "/apis/apps/v1",
            "/api/v1",
            "/version",
            "/openapi/v3/api/v1",
        ] {
            assert_eq!(
                request("GET", path, "").target(),
                Ok(Target::Discovery),
                "{path}"
            );
        }
    }

    #[test]
    fn rejects_requests_that_need_a_stream() {
        for (path, query) in [
            ("/api/v1/pods", "watch=true"),
            ("/api/v1/pods", "limit=1&watch=1"),
            ("/api/v1/pods", "watch"),
            ("/api/v1/pods", "%77atch=true"),
            ("/api/v1/watch/pods", ""),
            ("/api/v1/proxy/nodes/a", ""),
            ("/api/v1/namespaces/n/pods/a/log", "follow=true"),
            ("/api/v1/namespaces/n/pods/a/exec", "command=sh"),
            ("/api/v1/namespaces/n/pods/a/attach", ""),
            ("/api/v1/namespaces/n/pods/a/portforward", ""),
            ("/api/v1/namespaces/n/services/a/proxy/x/y", ""),
            ("/api/v1/nodes/a/proxy/run", ""),
        ] {
            for method in ["GET", "POST"] {
                let error = request(method, path, query).target().expect_err(path);
                assert_eq!(
                    (error.status.code, error.status.reason.as_str()),
                    (405, "MethodNotAllowed"),
                    "{path}"
                );
            }
        }
        for query in [
            "watch=true&watch=false",
            "watch=false&watch=true",
            "watch=false&watch",
        ] {
            let error = request("GET", "/api/v1/pods", query)
                .target()
                .expect_err(query);
            assert_eq!(error.status.code, 405, "{query}");
        }
        for query in ["watch=false", "watch=0", "allowWatchBookmarks=true", ""] {
            request("GET", "/api/v1/pods", query).target().expect(query);
        }
    }

    #[test]
    fn refuses_paths_outside_the_api() {
        for long in [
            request("GET", &format!("/api/v1/{}", "x".repeat(5000)), ""),
            request("GET", "/api", &"x".repeat(20_000)),
        ] {
            let error = long.target().expect_err("too long");
            assert!(
                error.kind == ErrorKind::BadRequest
                    && error.status.message.contains("over the limit"),
                "{error}"
            );
        }
        for path in [
            "",
            "api/v1/pods",
            "/",
            "//api/v1/pods",
            "/api/v1/pods/",
            "/api/v1/namespaces/../secrets",
            "/api/v1/namespaces/n/pods/a%2fb",
            "/api/v1/pods?watch=true",
            "/api/v1/pods#x",
            "/api/v1/pods\r\nHost: x",
            "/metrics",
            "/logs/x",
            "/debug/pprof",
        ] {
            let error = request("GET", path, "").target().expect_err(path);
            assert_eq!(error.kind, ErrorKind::BadRequest, "{path:?}");
        }
        for query in [
            "a b",
            "a\r\nb",
            "x=é",
            "a#b",
            "dryRun=All;",
            "a;b=c",
            "dryRun=%zz",
            "a=%",
            "a=%4",
            "%2=b",
        ] {
            let error = request("GET", "/api/v1/pods", query)
                .target()
                .expect_err(query);
            assert_eq!(error.kind, ErrorKind::BadRequest, "{query:?}");
        }
    }

    #[test]
    fn refuses_unknown_methods_and_media_types() {
        for method in ["", "get", "HEAD", "CONNECT", "GET /x HTTP/1.1\r\n"] {
            assert_eq!(
                request(method, "/api/v1/pods", "")
                    .target()
                    .expect_err(method)
                    .status
                    .code,
                405
            );
        }
        assert_eq!(
            request("POST", "/apis", "")
                .target()
                .expect_err("discovery")
                .status
                .code,
            405
        );
        let body = |content_type: &str| RawRequest {
            content_type: Some(content_type.into()),
            ..request("POST", "/api/v1/pods", "")
        };
        body("application/json; charset=utf-8")
            .target()
            .expect("json");
        for wrong in [
            "application/vnd.kubernetes.protobuf",
            "application/json;\r\nX: y",
            "",
        ] {
            assert_eq!(
                body(wrong).target().expect_err(wrong).status.code,
                415,
                "{wrong:?}"
            );
        }
        let accept = |accept: &str| RawRequest {
            accept: Some(accept.into()),
            ..request("GET", "/api/v1/pods", "")
        };
        accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
            .target()
            .expect("json");
        accept("application/vnd.kubernetes.protobuf,application/json")
            .target()
            .expect("or json");
        assert_eq!(
            accept("application/vnd.kubernetes.protobuf")
                .target()
                .expect_err("protobuf")
                .status
                .code,
            406
        );
    }

    #[test]
    fn error_becomes_status_of_api_server() {
        let answer = RawResponse::of_error(&ApiError::new(ErrorKind::TimedOut, "too slow"));
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("json");
        assert_eq!(answer.status, 504);
        assert_eq!(
            (&body["kind"], &body["reason"], &body["code"]),
            (&"Status".into(), &"Timeout".into(), &504.into())
        );
        assert_eq!(body["message"], "too slow");
    }

    #[test]
    fn decodes_parameters() {
        let parameters = request(
            "GET",
            "/api/v1/pods",
            "labelSelector=a%3Db%2Cc+in+(d)&limit=5",
        )
        .parameters();
        let expected = [("labelSelector", "a=b,c in (d)"), ("limit", "5")];
        assert_eq!(
            parameters,
            Ok(expected
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into())
        );
        let twice = request("GET", "/api/v1/pods", "labelSelector=a&labelSelector=b")
            .parameters()
            .expect("parsed");
        assert_eq!(twice["labelSelector"], "a");
    }
}

//! Requests at the API server as HTTP has them, for what the typed calls do not cover: discovery, subresources of any
//! name, tables. [`Context::raw`] sends one. The same identity and limits apply as for every other call.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

// Natively the calls are a trait object's own.
#[cfg(target_arch = "wasm32")]
use crate::backend::Backend;
use crate::{ApiError, Cause, Context, Status};

/// One request.
///
/// ```
/// # use operetta_sdk::RawRequest;
/// let version = RawRequest::get("/version");
/// let pods = RawRequest::get("/api/v1/namespaces/shop/pods").query("limit=10&labelSelector=app%3Ddb").cached();
/// let eviction = RawRequest::post("/api/v1/namespaces/shop/pods/db-0/eviction")
///     .json(&serde_json::json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "db-0"}}));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct RawRequest {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The path without a query.
    pub path: String,
    /// The query, percent-encoded, without its `?`.
    pub query: String,
    /// The body's content type; `application/json` if not said.
    pub content_type: Option<String>,
    /// What to answer with, a form of JSON; `application/json` if not said.
    pub accept: Option<String>,
    /// The body.
    pub body: Option<String>,
    /// Whether a GET may be answered from the cache. Where the cache cannot answer, the API server does.
    pub cached: bool,
    /// Why the body could not be written as JSON; told in the place of an answer.
    pub(crate) unwritten: Option<String>,
}

impl RawRequest {
    /// A request of any method.
    pub fn new(method: impl Into<String>, path: impl Into<String>) -> Self {
        Self { method: method.into(), path: path.into(), ..Self::default() }
    }

    /// A GET.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    /// A POST.
    pub fn post(path: impl Into<String>) -> Self {
        Self::new("POST", path)
    }

    /// A PUT.
    pub fn put(path: impl Into<String>) -> Self {
        Self::new("PUT", path)
    }

    /// A PATCH. Its content type is the kind of patch, e.g. `application/merge-patch+json`.
    pub fn patch(path: impl Into<String>, content_type: impl Into<String>) -> Self {
        Self { content_type: Some(content_type.into()), ..Self::new("PATCH", path) }
    }

    /// A DELETE.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new("DELETE", path)
    }

    /// The query, percent-encoded, without its `?`.
    pub fn query(self, query: impl Into<String>) -> Self {
        Self { query: query.into(), ..self }
    }

    /// What to answer with, e.g. `application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io`.
    pub fn accept(self, form: impl Into<String>) -> Self {
        Self { accept: Some(form.into()), ..self }
    }

    /// The body, written as JSON.
    pub fn json(self, body: &impl Serialize) -> Self {
        match serde_json::to_string(body) {
            Ok(body) => Self { body: Some(body), unwritten: None, ..self },
            Err(error) => Self { unwritten: Some(error.to_string()), ..self },
        }
    }

    /// The body, as it is.
    pub fn text(self, body: impl Into<String>) -> Self {
        Self { body: Some(body.into()), unwritten: None, ..self }
    }

    /// From the cache, where it can answer: objects and lists of them, with the plugin's own writes.
    pub fn cached(self) -> Self {
        Self { cached: true, ..self }
    }
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawResponse {
    /// The HTTP status code.
    pub status: u16,
    /// The body's content type.
    pub content_type: String,
    /// The Retry-After header.
    pub retry_after_seconds: Option<u32>,
    /// The body.
    pub body: String,
}

impl RawResponse {
    /// The body as a `T`, if the status code is one of success.
    ///
    /// # Errors
    /// [`ApiError`]: the API server's, or one that says that the body is no `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        if !(200..300).contains(&self.status) {
            return Err(self.error());
        }
        serde_json::from_str(&self.body).map_err(|error| {
            let name = std::any::type_name::<T>();
            ApiError::malformed(format!("the answer does not fit the type {name}: {error}"))
        })
    }

    /// The answer as an error, typed as those of other calls are.
    fn error(&self) -> ApiError {
        #[derive(serde::Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Details {
            causes: Vec<StatusCause>,
            retry_after_seconds: Option<u32>,
        }
        #[derive(serde::Deserialize, Default)]
        #[serde(default)]
        struct StatusCause {
            reason: String,
            message: String,
            field: String,
        }
        #[derive(serde::Deserialize, Default)]
        #[serde(default)]
        struct Body {
            reason: String,
            message: String,
            details: Option<Details>,
        }
        // A proxy in between answers with a page of its own.
        let body = serde_json::from_str(&self.body);
        let Body { reason, message, details } =
            body.unwrap_or_else(|_| Body { message: self.body.chars().take(500).collect(), ..Body::default() });
        let Details { causes, retry_after_seconds } = details.unwrap_or_default();
        let causes = causes.into_iter().map(|StatusCause { reason, message, field }| Cause { reason, message, field });
        ApiError::from_status(Status {
            code: self.status,
            reason,
            message,
            causes: causes.collect(),
            retry_after_seconds: self.retry_after_seconds.or(retry_after_seconds),
        })
    }

    /// A metav1.Status, as the API server would have sent it.
    pub(crate) fn of_error(error: &ApiError) -> Self {
        let Status { code, reason, message, causes, retry_after_seconds } = error.status();
        let causes: Vec<_> = causes
            .iter()
            .map(|Cause { reason, message, field }| json!({"reason": reason, "message": message, "field": field}))
            .collect();
        let code = if *code == 0 { 400 } else { *code };
        let details = json!({"causes": causes, "retryAfterSeconds": retry_after_seconds.unwrap_or(0)});
        let body = json!({
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": code,
        });
        Self {
            status: code,
            content_type: "application/json".to_owned(),
            retry_after_seconds: *retry_after_seconds,
            body: body.to_string(),
        }
    }
}

impl Context {
    /// Sends one request as HTTP has it. It never fails: a refusal is an answer with a metav1.Status. Watches, `exec` and
    /// other streams are refused with 405.
    pub fn raw(&self, request: &RawRequest) -> RawResponse {
        if let Some(error) = &request.unwritten {
            let error = ApiError::malformed(format!("the body cannot be written as JSON: {error}"));
            return RawResponse::of_error(&error);
        }
        self.backend.raw(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiErrorKind;

    #[test]
    fn a_refusal_is_typed_as_that_of_any_other_call() {
        let cause = Cause { reason: "FieldValueInvalid".into(), message: "too big".into(), field: "spec.size".into() };
        let status = Status {
            code: 422,
            reason: "Invalid".into(),
            message: "no".into(),
            causes: vec![cause],
            retry_after_seconds: Some(3),
        };
        let error = ApiError::from_status(status);
        assert_eq!(RawResponse::of_error(&error).json::<serde_json::Value>(), Err(error));
    }

    #[test]
    fn a_page_that_is_no_status_is_told_as_it_came() {
        let answer = RawResponse { status: 502, body: "<h1>Bad Gateway</h1>".into(), ..RawResponse::default() };
        let error = answer.json::<serde_json::Value>().expect_err("refused");
        assert_eq!((error.kind(), error.to_string().as_str()), (ApiErrorKind::Unavailable, "<h1>Bad Gateway</h1>"));
    }

    #[test]
    fn a_body_that_is_no_json_is_an_answer_too() {
        let wrong = std::collections::BTreeMap::from([((1, 2), 3)]);
        let answer = crate::testing::Cluster::new().context().raw(&RawRequest::post("/api/v1/pods").json(&wrong));
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains("cannot be written as JSON"), "{}", answer.body);
    }
}

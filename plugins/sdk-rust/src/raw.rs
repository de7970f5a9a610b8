//! Raw HTTP requests to the API server, for everything that the typed calls do not cover:
//! discovery, arbitrary subresources, tables. [`Context::raw`] sends one, with the identity and the
//! limits of every other call.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

// A native build calls a trait object, which does not need the trait in scope.
#[cfg(target_arch = "wasm32")]
use crate::backend::Backend;
use crate::{ApiError, Cause, Context, Status};

/// An HTTP request.
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
    /// The body's content type; `application/json` by default.
    pub content_type: Option<String>,
    /// The accepted content type, a form of JSON; `application/json` by default.
    pub accept: Option<String>,
    /// The body.
    pub body: Option<String>,
    /// Allows an answer of a GET from the cache. If the cache cannot answer, the API server does.
    pub cached: bool,
    /// The error of writing the body as JSON; returned instead of an answer.
    pub(crate) body_error: Option<String>,
}

impl RawRequest {
    /// Returns a request of any method.
    pub fn new(method: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            path: path.into(),
            ..Self::default()
        }
    }

    /// Returns a GET.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    /// Returns a POST.
    pub fn post(path: impl Into<String>) -> Self {
        Self::new("POST", path)
    }

    /// Returns a PUT.
    pub fn put(path: impl Into<String>) -> Self {
        Self::new("PUT", path)
    }

    /// Returns a PATCH. Its content type is the kind of patch, e.g. `application/merge-patch+json`.
    pub fn patch(path: impl Into<String>, content_type: impl Into<String>) -> Self {
        Self {
            content_type: Some(content_type.into()),
            ..Self::new("PATCH", path)
        }
    }

    /// Returns a DELETE.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new("DELETE", path)
    }

    /// Sets the query, percent-encoded, without its `?`.
    pub fn query(self, query: impl Into<String>) -> Self {
        Self {
            query: query.into(),
            ..self
        }
    }

    /// Sets the accepted content type, e.g.
    /// `application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io`.
    pub fn accept(self, form: impl Into<String>) -> Self {
        Self {
            accept: Some(form.into()),
            ..self
        }
    }

    /// Sets the body to a value as JSON.
    pub fn json(self, body: &impl Serialize) -> Self {
        match crate::json::to_string(body) {
            Ok(body) => Self {
                body: Some(body),
                body_error: None,
                ..self
            },
            Err(error) => Self {
                body_error: Some(error.to_string()),
                ..self
            },
        }
    }

    /// Sets the body to a text.
    pub fn text(self, body: impl Into<String>) -> Self {
        Self {
            body: Some(body.into()),
            body_error: None,
            ..self
        }
    }

    /// Reads from the cache where it can answer: objects and lists of them, with the plugin's own
    /// writes.
    pub fn cached(self) -> Self {
        Self {
            cached: true,
            ..self
        }
    }
}

/// The answer to a [`RawRequest`].
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
    /// Reads the body as a `T`, if the status code is a success.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: the API server's, or a malformed error if the body is not a `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        if !(200..300).contains(&self.status) {
            return Err(self.error());
        }

        crate::json::from_str(&self.body).map_err(|error| {
            let name = std::any::type_name::<T>();
            ApiError::malformed(format!(
                "failed to decode the response into {name}: {error}"
            ))
        })
    }

    /// The answer as an error, classified like those of other calls.
    fn error(&self) -> ApiError {
        #[derive(serde::Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Details {
            causes: Vec<Cause>,
            retry_after_seconds: Option<u32>,
        }

        #[derive(serde::Deserialize, Default)]
        #[serde(default)]
        struct Body {
            reason: String,
            message: String,
            details: Option<Details>,
        }

        // The body may not be a Status: a proxy answers with a page of its own.
        let body = crate::json::from_str(&self.body);
        let Body {
            reason,
            message,
            details,
        } = body.unwrap_or_else(|_| Body {
            message: self.body.chars().take(500).collect(),
            ..Body::default()
        });

        let Details {
            causes,
            retry_after_seconds,
        } = details.unwrap_or_default();

        ApiError::from_status(Status {
            code: self.status,
            reason,
            message,
            causes,
            retry_after_seconds: self.retry_after_seconds.or(retry_after_seconds),
        })
    }

    /// An answer with a `metav1.Status`, as the API server would have sent it.
    pub(crate) fn of_error(error: &ApiError) -> Self {
        let Status {
            code,
            reason,
            message,
            causes,
            retry_after_seconds,
        } = error.status();

        let code = if *code == 0 { 400 } else { *code };
        let details =
            json!({"causes": causes, "retryAfterSeconds": retry_after_seconds.unwrap_or(0)});

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
    /// Sends an HTTP request. It never fails: a rejected request has a response with a
    /// `metav1.Status`. Watches, `exec` and other streams are refused with 405.
    pub fn raw(&self, request: &RawRequest) -> RawResponse {
        if let Some(error) = &request.body_error {
            let error = ApiError::malformed(format!("the body cannot be written as JSON: {error}"));
            return RawResponse::of_error(&error);
        }
        self.backend.raw(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn classifies_status_of_refusal() {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: "too big".into(),
            field: "spec.size".into(),
        };

        let status = Status {
            code: 422,
            reason: "Invalid".into(),
            message: "no".into(),
            causes: vec![cause],
            retry_after_seconds: Some(3),
        };

        let error = ApiError::from_status(status);
        assert_eq!(
            RawResponse::of_error(&error).json::<serde_json::Value>(),
            Err(error)
        );
    }

    #[test]
    fn keeps_text_of_answer_without_status() {
        let answer = RawResponse {
            status: 502,
            body: "<h1>Bad Gateway</h1>".into(),
            ..RawResponse::default()
        };

        let error = answer.json::<serde_json::Value>().expect_err("refused");
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::Unavailable, "<h1>Bad Gateway</h1>")
        );
    }

    #[test]
    fn unwritable_body_is_answered_with_400() {
        let wrong = std::collections::BTreeMap::from([((1, 2), 3)]);
        let answer = crate::testing::Cluster::new()
            .context()
            .raw(&RawRequest::post("/api/v1/pods").json(&wrong));

        assert_eq!(answer.status, 400);
        assert!(
            answer.body.contains("cannot be written as JSON"),
            "{}",
            answer.body
        );
    }
}

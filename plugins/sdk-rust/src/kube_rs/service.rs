//! The tower service of a `kube::Client`: it sends each HTTP request as a raw request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, RETRY_AFTER, WARNING};
use http::{Request, Response};
use kube::client::Body;
use tower_service::Service;

use super::executor;
// A native build calls a trait object, which does not need the trait in scope.
#[cfg(target_arch = "wasm32")]
use crate::backend::Backend;
use crate::context::Served;
use crate::{RawRequest, RawResponse};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The service, which uses the same backend as the plugin's other calls.
#[derive(Clone)]
pub(super) struct RawService {
    backend: Served,
    cached: bool,
}

impl RawService {
    pub(super) fn new(backend: &Served, cached: bool) -> Self {
        Self {
            backend: backend.clone(),
            cached,
        }
    }
}

impl Service<Request<Body>> for RawService {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { backend, cached } = self.clone();
        Box::pin(async move {
            let request = raw_request(request, cached).await?;
            let answer = backend.raw(&request);
            executor::record_progress();
            response(answer, &backend.take_warnings())
        })
    }
}

async fn raw_request(request: Request<Body>, cached: bool) -> Result<RawRequest, BoxError> {
    let (parts, body) = request.into_parts();
    let header = |name: HeaderName| -> Result<Option<String>, BoxError> {
        Ok(parts
            .headers
            .get(name)
            .map(|value| value.to_str().map(str::to_owned))
            .transpose()?)
    };

    let content_type = header(CONTENT_TYPE)?;
    let accept = header(ACCEPT)?;

    let raw = RawRequest::new(parts.method.as_str(), parts.uri.path())
        .query(parts.uri.query().unwrap_or_default());

    let bytes = body.collect_bytes().await?;
    let text = (!bytes.is_empty())
        .then(|| String::from_utf8(bytes.to_vec()))
        .transpose();
    let body = text.map_err(|_| format!("the body of {} {} is not UTF-8", raw.method, raw.path))?;

    Ok(RawRequest {
        content_type,
        accept,
        body,
        cached,
        ..raw
    })
}

/// The response, with the warnings as an API server would have sent them. kube-rs does not read
/// them; a layer around the client may.
fn response(answer: RawResponse, warnings: &[String]) -> Result<Response<Body>, BoxError> {
    let mut response = Response::builder()
        .status(answer.status)
        .header(CONTENT_TYPE, answer.content_type);

    if let Some(seconds) = answer.retry_after_seconds {
        response = response.header(RETRY_AFTER, seconds);
    }

    for text in warnings {
        let quoted = text.replace('\\', r"\\").replace('"', r#"\""#);
        response = response.header(WARNING, format!(r#"299 - "{quoted}""#));
    }

    Ok(response.body(Body::from(answer.body.into_bytes()))?)
}

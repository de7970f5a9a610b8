//! Observes requests to the API server, like client-go's [`tools/metrics`].
//!
//! [`tools/metrics`]: https://github.com/kubernetes/client-go/blob/v0.36.2/tools/metrics/metrics.go#L55

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{Method, Request, Response, StatusCode};
use tower::{Layer, Service};

/// Observes requests to the API server.
pub trait RequestObserver: Send + Sync {
    /// Called when a response's headers have arrived, or when there was no response. `took` is the
    /// time since the request was sent. Must not block.
    fn responded(&self, host: &str, method: &Method, status: Option<StatusCode>, took: Duration);
}

/// A client layer that reports each request to an observer.
#[derive(Clone)]
pub(crate) struct Observed {
    /// The API server's host and port, used as label in metrics.
    pub(crate) host: Arc<str>,
    pub(crate) observer: Arc<dyn RequestObserver>,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for Observed {
    type Service = ObservedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ObservedService {
            inner,
            observed: self.clone(),
        }
    }
}

/// A service with observed requests.
#[derive(Clone, Debug)]
pub(crate) struct ObservedService<S> {
    inner: S,
    observed: Observed,
}

impl<S, A, B> Service<Request<A>> for ObservedService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let Observed { host, observer } = self.observed.clone();
        let method = request.method().clone();
        let start = Instant::now();
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await;
            let status = response.as_ref().ok().map(Response::status);
            observer.responded(&host, &method, status, start.elapsed());
            response
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use parking_lot::Mutex;
    use tower::{ServiceExt, service_fn};

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(String, Option<u16>)>>);

    impl RequestObserver for Seen {
        fn responded(&self, host: &str, method: &Method, status: Option<StatusCode>, _: Duration) {
            self.0.lock().push((
                format!("{method} {host}"),
                status.map(|status| status.as_u16()),
            ));
        }
    }

    #[tokio::test]
    async fn reports_responses_and_failures() {
        let seen = Arc::new(Seen::default());
        let layer = Observed {
            host: "api:6443".into(),
            observer: seen.clone(),
        };
        let answers = layer.layer(service_fn(async |_: Request<()>| {
            Ok::<_, Infallible>(
                Response::builder()
                    .status(429)
                    .body(())
                    .expect("a response"),
            )
        }));
        let fails = layer.layer(service_fn(async |_: Request<()>| {
            Err::<Response<()>, _>("refused")
        }));
        let request = |method| {
            Request::builder()
                .method(method)
                .body(())
                .expect("a request")
        };
        assert!(answers.oneshot(request("GET")).await.is_ok());
        assert!(fails.oneshot(request("POST")).await.is_err());
        let expected = [
            ("GET api:6443".to_owned(), Some(429)),
            ("POST api:6443".to_owned(), None),
        ];
        assert_eq!(*seen.0.lock(), expected);
    }
}

//! A server of each test, and requests to it.

use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::BodyExt;
use operetta_apiserver::{
    embedded::{EmbeddedServer, Options},
    http::{ApiServer, Body, Environment},
};
use serde_json::Value;
use tower::ServiceExt;

/// The administrator of a server.
pub struct Client {
    api: ApiServer,
}

impl Client {
    /// Starts a server whose clock advances by a second with each look at it.
    pub fn new() -> Self {
        let seconds = AtomicU64::new(1_790_000_000);
        let now = move || {
            let seconds = i64::try_from(seconds.fetch_add(1, Ordering::Relaxed)).expect("a time");
            jiff::Timestamp::from_second(seconds).expect("a time")
        };
        let mut state = 7_u64;
        let environment = Environment::new(now, move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state
        });
        let server = EmbeddedServer::start(Options::in_memory(environment)).expect("a server");
        let running = server.clone();
        tokio::spawn(async move { running.run().await });
        let api = server.administrator();
        Self { api }
    }

    /// Sends a request with headers, as `NAME: VALUE`, and returns the code and the body.
    pub async fn send(&self, method: &str, path: &str, headers: &[&str], body: &Value) -> (u16, Value) {
        let mut request = http::Request::builder().method(method).uri(path);
        for header in headers {
            let (name, value) = header.split_once(": ").expect("a header");
            request = request.header(name, value);
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.body(Body::full(body)).expect("a request");
        let response = self.api.clone().oneshot(request).await.expect("an answer");
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into()))
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, &[], &Value::Null).await
    }

    /// Creates an object, which must succeed, and returns it.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        let (code, created) = self.send("POST", path, &[], object).await;
        assert_eq!(code, 201, "{path}: {created}");
        created
    }

    /// Gets a path until its answer has a value at a JSON pointer.
    pub async fn wait(&self, path: &str, pointer: &str, value: &Value) -> Value {
        for _ in 0..1000 {
            let (_, found) = self.get(path).await;
            if found.pointer(pointer) == Some(value) {
                return found;
            }
            tokio::task::yield_now().await;
        }
        panic!("{path} never had {value} at {pointer}: {}", self.get(path).await.1);
    }
}

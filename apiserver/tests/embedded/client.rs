//! A server for each test, and requests to it.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::BodyExt;
use operetta_apiserver::{
    ControllerName, Controllers, EmbeddedServer, Options,
    server::{ApiServer, Body, Environment},
    store::{GroupResource, ListQuery, Window},
};
use serde_json::Value;
use tower::ServiceExt;

/// The administrator of a test's server.
pub struct Client {
    server: EmbeddedServer,
    api: ApiServer,
}

/// An answer, as it is sent.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    /// The headers with warnings.
    pub warnings: Vec<String>,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).expect("UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

impl Client {
    /// Starts a server without controllers. Its clock advances by a second with each reading.
    pub fn new() -> Self {
        let seconds = AtomicU64::new(1_790_000_000);
        let now = move || {
            let seconds = i64::try_from(seconds.fetch_add(1, Ordering::Relaxed)).expect("a time");
            jiff::Timestamp::from_second(seconds).expect("a time")
        };

        Self::start(Options {
            controllers: Controllers::none(),
            ..Options::in_memory(environment(now))
        })
    }

    /// Starts a server with controllers and the runtime's clock, which should be paused.
    pub fn with_controllers(names: impl IntoIterator<Item = ControllerName>) -> Self {
        Self::with(Controllers::only(names))
    }

    /// Like [`Client::with_controllers`], with all of the controllers' options.
    pub fn with(controllers: Controllers) -> Self {
        Self::with_window(controllers, Window::default())
    }

    /// Like [`Client::with`], with the given window of past changes.
    pub fn with_window(controllers: Controllers, window: Window) -> Self {
        let begun = tokio::time::Instant::now();
        let now = move || {
            let elapsed = begun.elapsed();
            jiff::Timestamp::from_second(1_790_000_000).expect("a time") + elapsed
        };

        Self::start(Options {
            controllers,
            window,
            ..Options::in_memory(environment(now))
        })
    }

    fn start(options: Options) -> Self {
        Self::of(EmbeddedServer::start(options).expect("a server"))
    }

    /// Starts a copy without controllers.
    pub fn copy(&self) -> Self {
        let options = Options::in_memory(Environment::system());
        Self::of(self.server.copy(Options {
            controllers: Controllers::none(),
            ..options
        }))
    }

    /// Runs the task that follows the definitions.
    pub fn serve_definitions(&self) {
        self.server.serve_definitions();
    }

    fn of(server: EmbeddedServer) -> Self {
        let running = server.clone();
        tokio::spawn(async move { running.run().await });
        let api = server.administrator();
        Self { server, api }
    }

    /// Sends a request with headers, each as `NAME: VALUE`, and returns the code and the body.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &Value,
    ) -> (u16, Value) {
        let (code, bytes) = self.exchange(method, path, headers, body).await;
        (
            code,
            serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into()),
        )
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &Value,
    ) -> (u16, Bytes) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = self.send_bytes(method, path, headers, body).await;
        (answer.code, answer.body)
    }

    /// Sends a request whose body need not be JSON.
    pub async fn send_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = http::Request::builder().method(method).uri(path);
        for header in headers {
            let (name, value) = header.split_once(": ").expect("a header");
            request = request.header(name, value);
        }

        let request = request.body(Body::full(body)).expect("a request");
        let response = self.api.clone().oneshot(request).await.expect("an answer");

        let (parts, body) = response.into_parts();
        let warnings = parts.headers.get_all("warning").iter();
        Answer {
            code: parts.status.as_u16(),
            warnings: warnings
                .map(|warning| warning.to_str().expect("text").to_owned())
                .collect(),
            body: body.collect().await.expect("a body").to_bytes(),
        }
    }

    /// Gets a path in a media type, which must succeed.
    pub async fn bytes(&self, path: &str, media: &str) -> Bytes {
        let (code, bytes) = self
            .exchange("GET", path, &[&format!("accept: {media}")], &Value::Null)
            .await;
        assert_eq!(code, 200, "{path}");
        bytes
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, &[], &Value::Null).await
    }

    /// Waits until the controllers are idle: paused time only advances then.
    pub async fn settle(&self) {
        self.pass(1).await;
    }

    /// Lets time pass.
    pub async fn pass(&self, milliseconds: u64) {
        tokio::time::sleep(std::time::Duration::from_millis(milliseconds)).await;
    }

    /// Applies a merge patch, which must succeed, and returns the object.
    pub async fn patch(&self, path: &str, patch: &Value) -> Value {
        let (code, patched) = self
            .send(
                "PATCH",
                path,
                &["content-type: application/merge-patch+json"],
                patch,
            )
            .await;

        assert_eq!(code, 200, "{path}: {patched}");
        patched
    }

    /// Deletes an object with a policy for its dependents, which must succeed.
    pub async fn delete(&self, path: &str, policy: &str) {
        let options = if policy.is_empty() {
            Value::Null
        } else {
            serde_json::json!({"propagationPolicy": policy})
        };
        let (code, answer) = self.send("DELETE", path, &[], &options).await;
        assert!(code < 300, "{path}: {answer}");
    }

    /// Returns the items of a list.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let (code, list) = self.get(path).await;
        assert_eq!(code, 200, "{path}: {list}");
        list["items"].as_array().cloned().expect("a list")
    }

    /// Returns the names of a list's items.
    pub async fn names(&self, path: &str) -> Vec<String> {
        let items = self.list(path).await;

        items
            .iter()
            .map(|item| {
                item["metadata"]["name"]
                    .as_str()
                    .expect("a name")
                    .to_owned()
            })
            .collect()
    }

    /// Creates an object, which must succeed, and returns it.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        let (code, created) = self.send("POST", path, &[], object).await;
        assert_eq!(code, 201, "{path}: {created}");
        created
    }

    /// Returns the revision of the last change.
    pub fn revision(&self) -> u64 {
        self.api.store().revision()
    }

    /// Returns a resource's objects after each of its changes since a revision.
    pub fn history(&self, group: &str, resource: &str, since: u64) -> Vec<Vec<Value>> {
        let resource = GroupResource::new(group, resource);
        let store = self.api.store();
        let mut watcher = store.watch(&resource, since).expect("the window has it");

        let mut revisions = Vec::new();
        loop {
            let batch = watcher.poll().expect("the window has it");
            if batch.events.is_empty() {
                break;
            }
            revisions.extend(batch.events.iter().map(|event| event.revision()));
        }

        let at = |revision: &u64| {
            let query = ListQuery {
                revision: Some(*revision),
                ..ListQuery::default()
            };
            let listing = store.list(&resource, &query).expect("the window has it");
            listing
                .items
                .iter()
                .map(|object| object.to_value().expect("JSON"))
                .collect()
        };

        revisions.iter().map(at).collect()
    }

    /// Polls a path until its answer has a value at a JSON pointer.
    pub async fn wait(&self, path: &str, pointer: &str, value: &Value) -> Value {
        for _ in 0..1000 {
            let (_, found) = self.get(path).await;
            if found.pointer(pointer) == Some(value) {
                return found;
            }
            tokio::task::yield_now().await;
        }

        panic!(
            "{path} never had {value} at {pointer}: {}",
            self.get(path).await.1
        );
    }
}

fn environment(now: impl Fn() -> jiff::Timestamp + Send + Sync + 'static) -> Environment {
    let mut state = 7_u64;
    Environment::new(now, move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state
    })
}

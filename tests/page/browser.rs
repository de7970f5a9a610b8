//! A browser's side of the page, without a browser: requests with a token in a header, and
//! server-sent events.

use std::time::Duration;

use http::{Request, header};
use http_body_util::BodyExt;
use kube::{Client, Config, client::Body};
use serde_json::Value;
use tokio::time::timeout;

/// The longest time until an event arrives.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of one host with the token of one user.
#[derive(Clone)]
pub struct Browser {
    client: Client,
    address: String,
    authorization: Option<String>,
}

/// A whole response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: String,
}

/// The events of a stream.
pub struct Events {
    pub status: u16,
    body: Body,
    buffer: Vec<u8>,
}

impl Response {
    /// Returns a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.status, self.body))
    }
}

impl Browser {
    pub fn new(address: &str, token: Option<&str>) -> Self {
        let mut config = Config::new(format!("http://{address}").parse().expect("a URL"));
        // A refusal with 429 is a response.
        config.default_retry = false;
        let client = Client::try_from(config).expect("a client");

        let authorization = token.map(|token| format!("Bearer {token}"));
        Self {
            client,
            address: address.to_owned(),
            authorization,
        }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> http::Response<Body> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.address);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }

        for (name, value) in headers {
            request = request.header(*name, *value);
        }

        let request = request
            .body(Body::from(body.as_bytes().to_vec()))
            .expect("a request");
        self.client.send(request).await.expect("a response")
    }

    pub async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let (head, body) = self.send(method, path, headers, body).await.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        Response {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into(),
        }
    }

    pub async fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], "").await
    }

    pub async fn events(&self, path: &str) -> Events {
        let response = self
            .send("GET", path, &[("accept", "text/event-stream")], "")
            .await;

        Events {
            status: response.status().as_u16(),
            body: response.into_body(),
            buffer: Vec::new(),
        }
    }
}

impl Events {
    /// Returns the next event with its data.
    pub async fn next(&mut self) -> (String, Value) {
        timeout(PATIENCE, self.read())
            .await
            .expect("an event")
            .expect("an open stream")
    }

    /// Skips events until there is one of this name that `wanted` accepts. Returns its data.
    pub async fn until(&mut self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Vec::new();
        let found = timeout(PATIENCE, async {
            loop {
                let (event, data) = self.read().await.expect("an open stream");
                if event == name && wanted(&data) {
                    return data;
                }
                seen.push(format!("{event} {data:.300}"));
            }
        });

        let found = found.await;
        found.unwrap_or_else(|_| panic!("no event {name:?}, but {seen:#?}"))
    }

    /// Waits until the stream has ended.
    pub async fn end(&mut self) {
        timeout(PATIENCE, async { while self.read().await.is_some() {} })
            .await
            .expect("the end of the stream");
    }

    async fn read(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let event = String::from_utf8(event).expect("text");
                let field = |name: &str| {
                    event
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .map(str::trim)
                };
                if let Some(data) = field("data:") {
                    let data = serde_json::from_str(data)
                        .unwrap_or_else(|error| panic!("{data}: {error}"));
                    return Some((field("event:").unwrap_or_default().to_owned(), data));
                }
                continue;
            }

            let frame = self.body.frame().await?.ok()?;
            if let Ok(bytes) = frame.into_data() {
                self.buffer.extend_from_slice(&bytes);
            }
        }
    }
}

//! Requests and answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The first bytes of an object in protobuf.
const PROTOBUF: &[u8] = b"k8s\0";

/// Characters that a path may not contain.
const ODD: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A request, with the real server's UIDs and revisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The method.
    #[serde(rename = "m")]
    pub method: String,
    /// The path with the query.
    #[serde(rename = "p")]
    pub path: String,
    /// The headers, without the administrator's credentials.
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The body. If it is protobuf, each character stands for a byte.
    #[serde(rename = "b", default, skip_serializing_if = "String::is_empty")]
    pub body: String,
}

impl Request {
    pub fn new(method: &str, path: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            path: path.into(),
            ..Self::default()
        }
    }

    pub fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    pub fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new("POST", path).body(body)
    }

    pub fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new("PUT", path).body(body)
    }

    pub fn delete(path: impl Into<String>) -> Self {
        Self::new("DELETE", path)
    }

    /// A patch of a type: `merge`, `json`, `strategic` or `apply`.
    pub fn patch(path: impl Into<String>, kind: &str, body: &Value) -> Self {
        let media = match kind {
            "merge" => "application/merge-patch+json",
            "json" => "application/json-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            _ => "application/apply-patch+yaml",
        };

        Self::new("PATCH", path)
            .body(body)
            .header("Content-Type", media)
    }

    #[must_use]
    pub fn body(self, body: &Value) -> Self {
        self.text(&body.to_string())
    }

    #[must_use]
    pub fn text(mut self, body: &str) -> Self {
        self.body = body.into();
        self
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets a body from bytes: text if it is JSON or YAML, else protobuf.
    #[must_use]
    pub fn bytes(mut self, body: &[u8]) -> Self {
        let text = if body.starts_with(PROTOBUF) {
            None
        } else {
            std::str::from_utf8(body).ok()
        };

        self.body = text.map_or_else(
            || body.iter().map(|byte| char::from(*byte)).collect(),
            str::to_owned,
        );

        self
    }

    fn body_bytes(&self) -> Vec<u8> {
        if self.body.as_bytes().starts_with(PROTOBUF) {
            return self
                .body
                .chars()
                .map(|character| u8::try_from(character).expect("a byte"))
                .collect();
        }
        self.body.clone().into_bytes()
    }

    pub fn has_header(&self, name: &str) -> bool {
        self.headers
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    /// Reports whether the answer is a stream of events.
    pub fn is_watch(&self) -> bool {
        self.method == "GET"
            && (self.path.contains("watch=1")
                || self.path.contains("watch=true")
                || self.path.contains("/watch/"))
    }

    /// Builds the request, adding the headers that every client sends.
    pub fn build(&self, token: &str) -> http::Request<Vec<u8>> {
        // Python's client, which recorded some tables, does not encode these.
        let path: String = percent_encoding::utf8_percent_encode(&self.path, ODD).collect();
        let mut builder = http::Request::builder()
            .method(self.method.as_str())
            .uri(path)
            .header("Host", "localhost");

        for (name, value) in [
            ("User-Agent", "test"),
            ("Accept", "application/json"),
            ("Authorization", token),
        ] {
            if !self.has_header(name) {
                builder = builder.header(name, value);
            }
        }

        if !self.body.is_empty() && !self.has_header("Content-Type") {
            builder = builder.header("Content-Type", "application/json");
        }

        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }

        builder.body(self.body_bytes()).expect("a request")
    }
}

/// An answer. The body of a stream is a list of events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    #[serde(rename = "s")]
    pub code: u16,
    #[serde(rename = "t", default, skip_serializing_if = "String::is_empty")]
    pub media: String,
    #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(rename = "r", default)]
    pub body: Value,
}

impl Answer {
    /// Reads an answer whose body is JSON, YAML, a stream of events or a text.
    pub fn new(code: u16, headers: &http::HeaderMap, body: &[u8], is_watch: bool) -> Self {
        let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let media = headers.get("content-type").map(text).unwrap_or_default();

        let whole = serde_json::from_slice::<Value>(body)
            .ok()
            .filter(|value| !is_watch || value["type"].is_null());

        let event = |line: &str| serde_json::from_str::<Value>(line).ok();
        let lines = || {
            String::from_utf8_lossy(body)
                .lines()
                .filter_map(event)
                .collect()
        };

        let body = match whole {
            Some(value) => value,
            None if is_watch => lines(),
            None if media.contains("yaml") => serde_yaml_ng::from_slice(body).unwrap_or_default(),
            None => Value::String(String::from_utf8_lossy(body).into_owned()),
        };

        Self {
            code,
            media,
            warnings: headers.get_all("warning").iter().map(text).collect(),
            body,
        }
    }
}

/// A step of a run. `at` is the time in milliseconds since 1970.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Step {
    /// A request whose answers are compared.
    Exchange {
        source: String,
        at: i64,
        q: Request,
        a: Answer,
    },
    /// A stream begins. Its events are compared when it ends.
    Begin { begin: usize, at: i64, q: Request },
    /// A stream ends.
    End {
        source: String,
        end: usize,
        a: Answer,
    },
    /// Both servers are polled until the answer has a code and, at a JSON pointer, a value.
    Wait {
        wait: String,
        code: u16,
        pointer: String,
        value: Value,
    },
}

//! Requests and answers.

use std::{borrow::Cow, collections::BTreeMap};

use operetta_golang::yaml;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

/// The first bytes of an object in protobuf.
const PROTOBUF: &[u8] = b"k8s\0";

/// The limits of an answer in YAML.
const YAML: yaml::Limits = yaml::Limits {
    depth: 100,
    nodes: 10_000,
    aliases: false,
};

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

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestBody {
    /// JSON or YAML. If it is protobuf, each character stands for a byte.
    Text(String),
    /// What is no Unicode, such as JSON with the byte 0xff in a string.
    Bytes(Vec<u8>),
}

impl RequestBody {
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }

    /// Returns the text, as far as it is one.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) if text.as_bytes().starts_with(PROTOBUF) => text
                .chars()
                .map(|character| u8::try_from(character).expect("a byte"))
                .collect(),
            Self::Text(text) => text.clone().into_bytes(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

impl Default for RequestBody {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

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
    /// The body.
    #[serde(rename = "b", default, skip_serializing_if = "RequestBody::is_empty")]
    pub body: RequestBody,
    /// Whether the answer is compared as it is written: `1e+20` is not `100000000000000000000`, and
    /// in YAML `yes` is not `"yes"`.
    #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_literal: bool,
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
        self.body = RequestBody::Text(body.into());
        self
    }

    /// Compares the answer as it is written.
    #[must_use]
    pub fn literal(mut self) -> Self {
        self.is_literal = true;
        self
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets a body from bytes: JSON, YAML, protobuf, or what is malformed.
    #[must_use]
    pub fn bytes(mut self, body: &[u8]) -> Self {
        self.body = if body.starts_with(PROTOBUF) {
            RequestBody::Text(body.iter().map(|byte| char::from(*byte)).collect())
        } else {
            match std::str::from_utf8(body) {
                Ok(text) => RequestBody::Text(text.to_owned()),
                Err(_) => RequestBody::Bytes(body.to_vec()),
            }
        };

        self
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

        builder.body(self.body.bytes()).expect("a request")
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
    /// Reads the answer to a request, whose body is JSON, YAML, a stream of events or a text.
    pub fn new(code: u16, headers: &http::HeaderMap, body: &[u8], request: &Request) -> Self {
        let is_watch = request.is_watch();
        let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let media = headers.get("content-type").map(text).unwrap_or_default();

        let whole = if request.is_literal {
            literal(body, media.contains("yaml"))
        } else {
            serde_json::from_slice::<Value>(body).ok()
        };
        let whole = whole.filter(|value| !is_watch || value["type"].is_null());

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

/// Reads JSON, or YAML as Go reads it, with literal numbers. None if it is neither.
fn literal(body: &[u8], is_yaml: bool) -> Option<Value> {
    let converted = if is_yaml {
        Some(yaml::to_json(body, &YAML).ok()?.json)
    } else {
        None
    };
    let raw: &RawValue = serde_json::from_slice(converted.as_deref().unwrap_or(body)).ok()?;
    with_literal_numbers(raw).ok()
}

/// Reads a value. A number becomes a text unless it is a plain integer, because readers of JSON
/// take `1.0` and `1`, or `1e+20` and `100000000000000000000`, for the same.
fn with_literal_numbers(raw: &RawValue) -> Result<Value, serde_json::Error> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text)?;
            let mut read = Map::new();
            for (key, member) in members {
                read.insert(key, with_literal_numbers(&member)?);
            }
            Ok(Value::Object(read))
        }
        Some(b'[') => {
            let items: Vec<Box<RawValue>> = serde_json::from_str(text)?;
            let mut read = Vec::new();
            for item in items {
                read.push(with_literal_numbers(&item)?);
            }
            Ok(Value::Array(read))
        }
        Some(b'-' | b'0'..=b'9') => match text.parse::<i64>() {
            Ok(number) if number.to_string() == text => Ok(number.into()),
            _ => Ok(text.into()),
        },
        _ => serde_json::from_str(text),
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

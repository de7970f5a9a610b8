//! Responses: their encoding and their headers.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::{
    body::Body,
    negotiate::{Encoding, negotiate},
    query::Query,
};
use crate::apimachinery::{json, status::Status, yaml};

/// The size from which responses are compressed, as in the API server.
const GZIP_THRESHOLD: usize = 128 << 10;

/// The wishes that a request has for its response.
pub(super) struct Wishes<'a> {
    pub headers: &'a HeaderMap,
    pub query: &'a Query,
    /// Reports whether the answer may be compressed: only reads are.
    pub is_read: bool,
}

/// Returns a response with a JSON text, encoded as the client wants it.
pub(super) fn json(
    wishes: &Wishes<'_>,
    code: u16,
    text: Vec<u8>,
    warnings: &[String],
) -> Response<Body> {
    let encoding = negotiate(wishes.headers).map_or(Encoding::Json, |accepted| accepted.encoding);
    let (text, media) = match encoding {
        Encoding::Yaml => (to_yaml(text), "application/yaml"),
        Encoding::Json | Encoding::Protobuf if is_pretty(wishes) => {
            (to_pretty(&text), "application/json")
        }
        Encoding::Json | Encoding::Protobuf => (text, "application/json"),
    };
    let mut response = with_type(wishes, code, text, media);

    for warning in warnings {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(warning))) {
            response.headers_mut().append(header::WARNING, value);
        }
    }

    response
}

/// Returns a response with bytes of a media type.
pub(super) fn with_type(
    wishes: &Wishes<'_>,
    code: u16,
    bytes: Vec<u8>,
    media: &'static str,
) -> Response<Body> {
    let compressed =
        if wishes.is_read && bytes.len() >= GZIP_THRESHOLD && accepts_gzip(wishes.headers) {
            gzip(&bytes)
        } else {
            None
        };

    let is_compressed = compressed.is_some();
    let mut response = Response::new(Body::full(compressed.unwrap_or(bytes)));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);

    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );

    if is_compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }

    response
}

pub(super) fn empty(code: u16) -> Response<Body> {
    let mut response = Response::new(Body::full(Vec::new()));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );

    response
}

pub(super) fn text(wishes: &Wishes<'_>, code: u16, text: String) -> Response<Body> {
    let mut response = with_type(wishes, code, text.into_bytes(), "text/plain; charset=utf-8");
    response.headers_mut().insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );

    response
}

/// Returns a response with the `Status` of an error.
pub(super) fn error(wishes: &Wishes<'_>, error: &Status, warnings: &[String]) -> Response<Body> {
    let mut response = json(
        wishes,
        error.code,
        json::to_vec(&error.to_value()),
        warnings,
    );

    if let Some(seconds) = error
        .details
        .as_ref()
        .map(|details| details.retry_after_seconds)
        .filter(|seconds| *seconds > 0)
    {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }

    response
}

fn is_pretty(wishes: &Wishes<'_>) -> bool {
    if let Some(pretty) = wishes.query.flag("pretty") {
        return pretty;
    }

    let agent = wishes
        .headers
        .get(header::USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();

    ["curl", "Wget", "Mozilla/"]
        .iter()
        .any(|name| agent.starts_with(name))
}

fn to_pretty(text: &[u8]) -> Vec<u8> {
    let mut pretty = json::indent(text);
    pretty.push(b'\n');
    pretty
}

fn to_yaml(text: Vec<u8>) -> Vec<u8> {
    json::read(&text).map_or(text, |value| yaml::from_value(&value).into_bytes())
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let text = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    text.split(',').any(|part| {
        part.split(';')
            .next()
            .is_some_and(|name| name.trim() == "gzip")
    })
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// Quotes a warning for its header.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    let printable: String = escaped
        .chars()
        .filter(|character| !character.is_control())
        .collect();

    format!("\"{printable}\"")
}

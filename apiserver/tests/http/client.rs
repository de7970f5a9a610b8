//! Sends requests to a server in this process, or to an address.

use std::collections::HashMap;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use operetta_apiserver::server::ApiServer;
use tower::ServiceExt;

/// A complete response.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Sends a request to a server in this process.
pub async fn send(server: &ApiServer, request: Request<Full<Bytes>>) -> Answer {
    let response = server
        .clone()
        .oneshot(request)
        .await
        .expect("the service does not fail");

    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();

    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
    }
}

/// Sends a request to an address.
pub async fn send_to(address: &str, request: Request<Full<Bytes>>) -> Answer {
    let stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("a connection");

    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .expect("a handshake");
    let connection = tokio::spawn(connection);

    let response = sender.send_request(request).await.expect("a response");
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    connection.abort();

    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
    }
}

/// Builds a request. Both media types default to JSON.
pub fn request(
    method: &str,
    path: &str,
    headers: &HashMap<String, String>,
    body: Option<&str>,
) -> Request<Full<Bytes>> {
    let mut builder = Request::builder()
        .method(method)
        .uri(path)
        .header("Host", "localhost");

    builder = builder.header("User-Agent", "test");
    if !headers.contains_key("Accept") {
        builder = builder.header("Accept", "application/json");
    }
    if body.is_some() && !headers.contains_key("Content-Type") {
        builder = builder.header("Content-Type", "application/json");
    }

    for (name, value) in headers {
        builder = builder.header(name, value);
    }

    builder
        .body(Full::from(body.unwrap_or_default().to_owned()))
        .expect("a request")
}

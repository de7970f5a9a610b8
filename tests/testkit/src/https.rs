//! Requests that do not check the server's certificate.

use http::{Request, Uri};
use kube::{Client, Config, client::Body};

/// Sends a GET with these headers over TLS. Returns the status and the body.
///
/// # Panics
/// Panics if the server cannot be reached.
pub async fn get(address: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    send(&format!("https://{address}"), path, headers).await
}

/// Sends a GET without TLS. Returns the status and the body.
///
/// # Panics
/// Panics if the server cannot be reached.
pub async fn get_plain(address: &str, path: &str) -> (u16, String) {
    send(&format!("http://{address}"), path, &[]).await
}

async fn send(server: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut config = Config::new(server.parse::<Uri>().expect("a URL"));
    config.accept_invalid_certs = true;
    let client = Client::try_from(config).expect("a client");

    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }

    let response = client
        .send(request.body(Body::empty()).expect("a request"))
        .await
        .expect("a response");

    let status = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.expect("a body");
    (status, String::from_utf8_lossy(&body).into_owned())
}

//! The page's script and style, embedded from `page/dist` by the build. They contain no data and
//! need no sign-in.

use axum::{
    extract::Path,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};

struct Asset {
    /// Its name without the hash of its content.
    name: &'static str,
    /// Its name with the hash.
    file: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/page_assets.rs"));

/// Returns a file's name with the hash of its content, or `name` itself if there is no such file.
pub(super) fn hashed(name: &'static str) -> &'static str {
    FILES
        .iter()
        .find(|asset| asset.name == name)
        .map_or(name, |asset| asset.file)
}

/// Serves a file. Browsers may cache it forever: its name changes with its content.
pub(super) async fn serve(Path(file): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = FILES.iter().find(|asset| asset.file == file) else {
        return (StatusCode::NOT_FOUND, "the page has no such file").into_response();
    };
    let content_type = match file.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "application/octet-stream",
    };
    let kept = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::VARY, "accept-encoding"),
    ];
    if accepts_gzip(&headers) {
        return (kept, [(header::CONTENT_ENCODING, "gzip")], asset.gzip).into_response();
    }

    (kept, asset.plain).into_response()
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && !parts.any(|part| part == "q=0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_names_script_and_style() {
        for name in ["app.js", "app.css"] {
            assert!(
                FILES.iter().any(|asset| asset.name == name),
                "{name} is not in page/dist/manifest.json"
            );
        }
    }

    #[tokio::test]
    async fn file_is_compressed_for_clients_that_accept_it() {
        let file = hashed("app.js").to_owned();
        let mut headers = HeaderMap::new();
        let plain = serve(Path(file.clone()), headers.clone()).await;
        assert!(
            plain.status() == StatusCode::OK
                && !plain.headers().contains_key(header::CONTENT_ENCODING)
        );

        headers.insert(
            header::ACCEPT_ENCODING,
            header::HeaderValue::from_static("br, gzip;q=0.5"),
        );
        let zipped = serve(Path(file.clone()), headers.clone()).await;
        assert_eq!(zipped.headers()[header::CONTENT_ENCODING], "gzip");

        headers.insert(
            header::ACCEPT_ENCODING,
            header::HeaderValue::from_static("gzip;q=0"),
        );
        assert!(
            !serve(Path(file), headers.clone())
                .await
                .headers()
                .contains_key(header::CONTENT_ENCODING)
        );
        assert_eq!(
            serve(Path("../Cargo.toml".to_owned()), headers)
                .await
                .status(),
            StatusCode::NOT_FOUND
        );
    }
}

//! Warnings in the API server's answers: dropped unknown fields, deprecated versions, remarks of
//! webhooks and policies.

use std::{
    collections::HashSet,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderMap, Request, Response, header::WARNING};
use parking_lot::Mutex;
use tower::{Layer, Service};

/// The code of a warning about the request itself, and the only one Kubernetes sends.
const MISCELLANEOUS: &str = "299";

/// The maximum number of warnings that are read of one response.
const MAX_WARNINGS: usize = 64;

/// The maximum length of a text in bytes. Longer ones are cut. kube-apiserver itself cuts the
/// warnings of a response to some 4 KiB together, but an aggregated API server may send anything.
const MAX_TEXT: usize = 4 << 10;

/// A client layer that passes each warning in responses on once, as kubectl prints it.
#[derive(Clone, Debug)]
pub(crate) struct Warned {
    pass_on: fn(&str),
    seen: Arc<Mutex<HashSet<String>>>,
}

impl Warned {
    pub(crate) fn new(pass_on: fn(&str)) -> Self {
        Self {
            pass_on,
            seen: Arc::default(),
        }
    }

    fn read(&self, headers: &HeaderMap) {
        for text in warnings(headers) {
            if self.seen.lock().insert(text.clone()) {
                (self.pass_on)(&text);
            }
        }
    }
}

impl<S> Layer<S> for Warned {
    type Service = WarnedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WarnedService {
            inner,
            warned: self.clone(),
        }
    }
}

/// A service whose responses are searched for warnings.
#[derive(Clone, Debug)]
pub(crate) struct WarnedService<S> {
    inner: S,
    warned: Warned,
}

impl<S, A, B> Service<Request<A>> for WarnedService<S>
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
        let warned = self.warned.clone();
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await?;
            warned.read(response.headers());
            Ok(response)
        })
    }
}

/// The texts of a response's `Warning` headers, read like apimachinery's [`ParseWarningHeaders`]:
/// `299 AGENT "TEXT"`, possibly several in one header, separated by commas. Anything else ends the
/// header.
///
/// [`ParseWarningHeaders`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/util/net/http.go#L492
pub(crate) fn warnings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(WARNING).iter();
    let values = values.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    let mut texts = Vec::new();
    for mut rest in values {
        while let Some((code, mut text, after)) = first(rest) {
            if texts.len() == MAX_WARNINGS {
                return texts;
            }
            if code == MISCELLANEOUS && !text.is_empty() {
                text.truncate(text.floor_char_boundary(MAX_TEXT));
                texts.push(text);
            }
            rest = after;
        }
    }
    texts
}

/// Splits a header at its first warning: its code, its text, and what follows. As in Go, None for a
/// text with control characters, which could break the lines of a log.
fn first(header: &str) -> Option<(&str, String, &str)> {
    let header = header.trim_start();
    let (code, rest) = header.split_once(' ')?;
    let (_agent, rest) = rest.split_once(' ')?;
    let quoted = rest.trim_start().strip_prefix('"')?;

    let mut text = String::new();
    let mut characters = quoted.char_indices();
    let end = loop {
        match characters.next()? {
            (at, '"') => break at + 1,
            (_, '\\') => text.push(characters.next()?.1),
            (_, other) => text.push(other),
        }
    };
    if text.contains(char::is_control) {
        return None;
    }

    // A date may follow in quotation marks; there are no commas outside of them.
    let after = quoted[end..].trim_start();
    let after = match after
        .strip_prefix('"')
        .and_then(|date| date.split_once('"'))
    {
        Some((_date, after)) => after.trim_start(),
        None => after,
    };
    Some((code, text, after.strip_prefix(',').unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::HeaderValue;
    use tower::{ServiceExt, service_fn};

    use super::*;

    fn of(values: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            headers.append(WARNING, value);
        }
        warnings(&headers)
    }

    #[test]
    fn reads_the_texts_of_warning_headers() {
        assert_eq!(
            of(&[
                r#"299 - "unknown field \"spec.a\"""#,
                r#"299 k "two", 299 - "three""#
            ]),
            [r#"unknown field "spec.a""#, "two", "three"]
        );
        assert_eq!(
            of(&[r#"299 - "dated" "Wed, 21 Oct 2026 07:28:00 GMT", 299 - "next""#]),
            ["dated", "next"]
        );
    }

    static PASSED_ON: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[tokio::test]
    async fn client_passes_each_warning_on_once() {
        let answers = service_fn(async |request: Request<&'static str>| {
            let response = Response::builder().header(WARNING, *request.body());
            Ok::<_, Infallible>(response.body(()).expect("a response"))
        });
        let client = Warned::new(|text| PASSED_ON.lock().push(text.to_owned())).layer(answers);
        for warning in [r#"299 - "a""#, r#"299 - "b", 299 - "a""#] {
            let answer = client.clone().oneshot(Request::new(warning)).await;
            answer.expect("an answer");
        }
        assert_eq!(*PASSED_ON.lock(), ["a", "b"]);
    }

    #[test]
    fn leaves_out_what_is_no_warning_about_the_request() {
        for value in [
            r#"110 - "stale""#,
            "299",
            "299 -",
            "299 - text",
            r#"299 - "open"#,
            r#"299 - "ends in \"#,
            r#"299 - """#,
            "299 - \"a\ttab\"",
            "299 - \"a next line\u{85}\"",
            "",
        ] {
            assert_eq!(of(&[value]), Vec::<String>::new(), "{value}");
        }
    }

    #[test]
    fn bounds_the_number_of_texts_and_their_length() {
        let many: Vec<String> = (0..100).map(|at| format!("299 - \"{at}\"")).collect();
        let texts = of(&[&many.join(", "), "299 - \"in another header\""]);
        assert_eq!((texts.len(), texts[63].as_str()), (MAX_WARNINGS, "63"));

        let long = of(&[&format!("299 - \"x{}\"", "é".repeat(MAX_TEXT))]);
        assert_eq!(long[0].len(), MAX_TEXT - 1, "cut between characters");
    }
}

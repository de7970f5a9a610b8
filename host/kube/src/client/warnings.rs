//! Warnings in the API server's answers: dropped unknown fields, deprecated versions, remarks of
//! webhooks and policies.

use http::{HeaderMap, header::WARNING};

/// The code of a warning about the request itself, and the only one Kubernetes sends.
const MISCELLANEOUS: &str = "299";

/// The maximum number of warnings that are read of one response.
const MAX_WARNINGS: usize = 64;

/// The maximum length of a text in bytes. Longer ones are cut. kube-apiserver itself cuts the
/// warnings of a response to some 4 KiB together, but an aggregated API server may send anything.
const MAX_TEXT: usize = 4 << 10;

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
    use http::HeaderValue;

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

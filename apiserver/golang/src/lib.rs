//! JSON and YAML as Go reads and writes them. Kubernetes is written in Go, and its clients and
//! servers mean by a text what Go's libraries make of it, be it by accident.
//!
//! The embedded API server and the host share this crate: a tenant's configuration and the body of
//! a request have the value that `kubectl` and kube-apiserver see in them.

pub mod json;
pub mod yaml;

/// Quotes a string like Go's `strconv.Quote`.
#[must_use]
pub fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// Quotes bytes like Go's `strconv.Quote`, for which any bytes are a string.
pub(crate) fn quote_bytes(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');

    for chunk in text.utf8_chunks() {
        quote_chars(chunk.valid(), &mut out);
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }

    out.push('"');
    out
}

fn quote_chars(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if is_printable(c) => out.push(c),
            c if (c as u32) < 0x80 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
}

/// Reports whether Go's `unicode.IsPrint` accepts a character: a letter, mark, number, punctuation,
/// symbol or the space.
#[must_use]
pub fn is_printable(c: char) -> bool {
    // Behind another character `escape_debug` leaves marks alone, and only Rust escapes the
    // apostrophe.
    c == '\'' || String::from_iter(['a', c]).escape_debug().nth(1) != Some('\\')
}

/// Formats a number like `%v` of a float64: with an exponent below 1e-4 and from 1e21 on.
#[must_use]
pub fn float(value: f64) -> String {
    exponent_form(value, 1e-4, 1e21, 2)
}

/// Formats a number like `strconv.FormatFloat` with the format `g` and all the digits that a
/// float32 needs: with an exponent below 1e-4 and from 1e6 on.
pub(crate) fn general(value: f32) -> String {
    let text = nearest(
        &format!("{value:e}"),
        |digits| format!("{value:.digits$e}"),
        |text| text.parse() == Ok(value),
    );
    match exponent(&text) {
        Some(exponent) if !(-4..6).contains(&exponent) => with_exponent(&text, 2),
        _ => without_exponent(&text),
    }
}

fn exponent_form(value: f64, low: f64, high: f64, digits: usize) -> String {
    let size = value.abs();
    let text = nearest(
        &format!("{value:e}"),
        |digits| format!("{value:.digits$e}"),
        |text| text.parse() == Ok(value),
    );
    if size == 0.0 || (size >= low && size < high) {
        without_exponent(&text)
    } else {
        with_exponent(&text, digits)
    }
}

/// Returns a number with as few digits as identify it. Rust has as many as Go, but if the number is
/// in the middle between two such texts, Go takes the even one. `round` formats it with so many
/// digits after the first.
fn nearest(text: &str, round: impl Fn(usize) -> String, is_same: impl Fn(&str) -> bool) -> String {
    let mantissa = text.split('e').next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let even = round(digits.saturating_sub(1));
    if is_same(&even) {
        even
    } else {
        text.to_owned()
    }
}

fn exponent(text: &str) -> Option<i32> {
    let (_, exponent) = text.split_once('e')?;
    exponent.parse().ok()
}

/// Writes a number in full.
fn without_exponent(text: &str) -> String {
    let (Some((mantissa, _)), Some(exponent)) = (text.split_once('e'), exponent(text)) else {
        return text.to_owned();
    };
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");

    // How many digits are before the point.
    let whole = usize::try_from(exponent + 1).unwrap_or_default();
    if whole == 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        format!("{sign}0.{zeros}{digits}")
    } else if whole >= digits.len() {
        format!("{sign}{digits:0<whole$}")
    } else {
        format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
    }
}

/// Writes the exponent of a number as Go does: with a sign and at least so many digits.
fn with_exponent(text: &str, digits: usize) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text.to_owned();
    };

    let (sign, exponent) = exponent
        .strip_prefix('-')
        .map_or(('+', exponent), |rest| ('-', rest));

    format!("{mantissa}e{sign}{exponent:0>digits$}")
}

/// Parses an integer like `strconv.ParseInt` with the base 0: with a sign, and in base 2, 8 or 16
/// after `0b`, `0o` or `0`, and `0x`.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (sign, magnitude) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    i64::try_from(sign * i128::from(parse_uint(magnitude)?)).ok()
}

/// Parses an integer like `strconv.ParseUint` with the base 0.
pub(crate) fn parse_uint(text: &str) -> Option<u64> {
    let prefixed = |prefixes: [&str; 2]| {
        let mut found = prefixes
            .iter()
            .filter_map(|prefix| text.strip_prefix(prefix));
        found.next().filter(|digits| !digits.is_empty())
    };

    let (base, digits) = if let Some(digits) = prefixed(["0b", "0B"]) {
        (2, digits)
    } else if let Some(digits) = prefixed(["0o", "0O"]) {
        (8, digits)
    } else if let Some(digits) = prefixed(["0x", "0X"]) {
        (16, digits)
    } else if let Some(digits) = prefixed(["0", "0"]) {
        (8, digits)
    } else {
        (10, text)
    };

    // Rust takes a sign here, Go doesn't.
    let is_signed = digits.starts_with(['+', '-']);
    (!is_signed).then(|| u64::from_str_radix(digits, base).ok())?
}

/// Converts bytes to a string as Go does where it needs UTF-8: each byte that belongs to no
/// character becomes U+FFFD.
///
/// `String::from_utf8_lossy` has a single U+FFFD for the bytes of a character that is cut off.
#[must_use]
pub fn string(bytes: Vec<u8>) -> String {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return text,
        Err(error) => error.into_bytes(),
    };

    let mut out = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_control_and_hidden_characters_as_go_does() {
        assert_eq!(
            quote("a\"b\\\n\u{1}é\u{200b}😀\u{7f}"),
            r#""a\"b\\\n\x01é\u200b😀\x7f""#
        );
        assert_eq!(quote_bytes(b"a\xe2\x82b\xc3\xa9"), r#""a\xe2\x82bé""#);
    }

    #[test]
    fn writes_floats_as_go_does() {
        let cases = [
            (1.0, "1"),
            (0.5, "0.5"),
            (1e21, "1e+21"),
            (1e-5, "1e-05"),
            (123456789.0, "123456789"),
            (-0.00012, "-0.00012"),
            (-0.0, "-0"),
            (100.0, "100"),
            // In the middle between two texts of so many digits.
            (818_018_151_981_957.0 + 0.25, "818018151981957.2"),
            (888_808_080_985_887.0 + 0.75, "888808080985887.8"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ];

        for (value, text) in cases {
            assert_eq!(float(value), text);
        }

        assert_eq!(json::float(1e-7), "1e-7");
        assert_eq!(json::float(1e-5), "0.00001");
    }
}

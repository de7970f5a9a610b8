//! Parts of a JSON text, as Go's `encoding/json` writes them.

/// Formats a number like `encoding/json` a float64: with an exponent below 1e-6 and from 1e21 on.
#[must_use]
pub fn float(value: f64) -> String {
    crate::exponent_form(value, 1e-6, 1e21, 1)
}

/// Appends a string as Go's `encoding/json` writes it, with escapes for `<`, `>` and `&`.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(text, out);
    out.push(b'"');
}

/// Appends a string that may have any bytes. Each byte that belongs to no character becomes an escape.
pub fn write_bytes(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        write_escaped(chunk.valid(), out);
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.push(b'"');
}

/// Appends the characters of a string, with escapes where Go has them.
fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let is_escaped = |c: char| {
        matches!(
            c,
            '"' | '\\' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}'
        )
    };

    let mut rest = text;
    while let Some(at) = rest.find(is_escaped) {
        out.extend_from_slice(&rest.as_bytes()[..at]);

        let mut chars = rest[at..].chars();
        match chars.next().unwrap_or_default() {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            c => out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes()),
        }
        rest = chars.as_str();
    }

    out.extend_from_slice(rest.as_bytes());
}

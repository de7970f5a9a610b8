//! Reads fields of an object from its text.

use std::borrow::Cow;

use crate::object::scanner::Scanner;

/// Iterates over an object's fields and the texts of their values. Ends early if the text is not
/// JSON.
pub(crate) struct Fields<'a> {
    text: &'a str,
    /// None after the end.
    scanner: Option<Scanner<'a>>,
    first: bool,
}

impl<'a> Fields<'a> {
    /// None if the text is not an object.
    #[inline]
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        let mut scanner = Scanner::new(text);
        if scanner.peek() != Some(b'{') {
            return None;
        }
        scanner.at += 1;
        Some(Self {
            text,
            scanner: Some(scanner),
            first: true,
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Cow<'a, str>, &'a str);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let mut scanner = self.scanner.take()?;
        let name = scanner.field(&mut self.first).ok()??;
        let value = scanner.value(0).ok()?;
        self.scanner = Some(scanner);
        Some((scanner.text_of(&name), &self.text[value]))
    }
}

/// The text of an object's field; None if it is missing or the text is not an object.
pub(crate) fn field<'a>(object: &'a str, wanted: &str) -> Option<&'a str> {
    Fields::of(object)?
        .find(|(name, _)| name == wanted)
        .map(|(_, value)| value)
}

/// Moves to the value at these fields, and no further; None if it is missing or any step is not an
/// object.
pub(crate) fn seek<'a>(object: &'a str, steps: &[&str]) -> Option<Scanner<'a>> {
    let mut scanner = Scanner::new(object);
    for step in steps {
        if scanner.peek() != Some(b'{') {
            return None;
        }

        scanner.at += 1;
        let mut first = true;
        loop {
            let name = scanner.field(&mut first).ok()??;
            if scanner.text_of(&name) == *step {
                break;
            }
            scanner.value(0).ok()?;
        }
    }

    Some(scanner)
}

/// Decodes a text consisting of a single string; None if it is anything else.
pub(crate) fn string(text: &str) -> Option<Cow<'_, str>> {
    let mut scanner = Scanner::new(text);
    let quoted = if scanner.peek()? == b'"' {
        scanner.string().ok()?
    } else {
        return None;
    };
    Some(scanner.text_of(&quoted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_fields_in_order_with_decoded_names() {
        let fields: Vec<_> = Fields::of(r#" {"a": [1] , "\u0062":{"x":"}"}}"#)
            .expect("an object")
            .collect();
        assert_eq!(fields, [("a".into(), "[1]"), ("b".into(), r#"{"x":"}"}"#)]);
        assert!(Fields::of("[]").is_none());
    }

    #[test]
    fn seeks_value_without_reading_on() {
        let at = |steps: &[&str]| {
            seek(r#" {"x":[{}],"a":{"\u0062":"\u0063","d":1},"e" no"#, steps)?
                .value_text(0)
                .ok()
        };
        assert_eq!(at(&["a", "b"]), Some(r#""\u0063""#));
        assert_eq!(
            (
                at(&["a", "d"]),
                at(&["a", "z"]),
                at(&["x", "b"]),
                at(&["e"])
            ),
            (Some("1"), None, None, None)
        );
        assert_eq!(at(&["a", "b"]).and_then(string).as_deref(), Some("c"));
        assert_eq!(
            (string("1"), string(r#""a"#), string("")),
            (None, None, None)
        );
    }
}

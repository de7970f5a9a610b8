//! A scanner that checks in one pass that a text is JSON, and finds the positions of its values. It
//! copies nothing and builds no tree.
//!
//! Accepts RFC 8259, like serde_json, nested at most [`MAX_DEPTH`] deep. A position is a byte
//! offset.

use std::{borrow::Cow, ops::Range};

/// The deepest nesting of arrays and objects. serde_json has the same limit when a plugin or the
/// host builds a tree.
pub const MAX_DEPTH: usize = 127;

/// A text is not valid JSON, or nested too deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// An unexpected byte, or the end of the text.
    #[error("expected {expected} at byte {at}")]
    Expected {
        /// The expected token.
        expected: &'static str,
        /// The offset.
        at: usize,
    },
    /// The text is nested too deeply.
    #[error("nested more than {MAX_DEPTH} deep at byte {at}")]
    TooDeep {
        /// The offset of the first level too deep.
        at: usize,
    },
}

/// A string in the text, in quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    /// The range between the quotes.
    pub(crate) inside: Range<usize>,
    pub(crate) escaped: bool,
}

/// A moving position in a text.
#[derive(Clone, Copy)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Scanner<'a> {
    #[inline]
    pub(crate) fn new(text: &'a str) -> Self {
        Self::at(text, 0)
    }

    /// Starts at the beginning of a value or a field.
    #[inline]
    pub(crate) fn at(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// Skips whitespace and returns the next byte.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Checks that only whitespace is left.
    #[inline]
    pub(crate) fn end(&mut self) -> Result<(), ScanError> {
        if self.peek().is_none() {
            Ok(())
        } else {
            self.fail("the end of the text")
        }
    }

    /// Skips `{` or `[`, opening nesting level `depth`, counted from 1.
    #[inline]
    pub(crate) fn open(&mut self, depth: usize) -> Result<(), ScanError> {
        if depth > MAX_DEPTH {
            return Err(ScanError::TooDeep { at: self.at });
        }
        self.at += 1;
        Ok(())
    }

    /// Reads an object's next field up to its value. At the end of the object, skips the brace and
    /// returns None. `first` is true before the object's first field, and is cleared.
    #[inline]
    pub(crate) fn field(&mut self, first: &mut bool) -> Result<Option<Quoted>, ScanError> {
        match (self.peek(), std::mem::take(first)) {
            (Some(b'}'), _) => {
                self.at += 1;
                Ok(None)
            }
            (Some(b','), false) => {
                self.at += 1;
                self.name().map(Some)
            }
            (_, true) => self.name().map(Some),
            (_, false) => self.fail("`,` or `}`"),
        }
    }

    /// Reads an array up to its next value and returns true. At the end of the array, skips the
    /// bracket and returns false. `first` is true before the array's first value, and is cleared.
    #[inline]
    pub(crate) fn item(&mut self, first: &mut bool) -> Result<bool, ScanError> {
        match (self.peek(), std::mem::take(first)) {
            (Some(b']'), _) => {
                self.at += 1;
                Ok(false)
            }
            (Some(b','), false) => {
                self.at += 1;
                Ok(true)
            }
            (_, true) => Ok(true),
            (_, false) => self.fail("`,` or `]`"),
        }
    }

    /// Reads a field's name and the colon after it.
    #[inline]
    fn name(&mut self) -> Result<Quoted, ScanError> {
        if self.peek() != Some(b'"') {
            return self.fail("a field's name in quotes");
        }
        let name = self.string()?;
        if self.peek() != Some(b':') {
            return self.fail("`:`");
        }
        self.at += 1;
        Ok(name)
    }

    /// Skips a string starting here.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Quoted, ScanError> {
        self.at += 1;
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut escaped = false;

        loop {
            self.at += plain(&bytes[self.at..]);
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Quoted {
                        inside: start..self.at - 1,
                        escaped,
                    });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.fail("no control character in a string"),
                None => return self.fail("the end of a string"),
            }
        }
    }

    #[inline]
    fn escape(&mut self) -> Result<(), ScanError> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        match bytes.get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let digits = bytes.get(self.at + 1..self.at + 5);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return self.fail("four hexadecimal digits");
                }
                self.at += 5;
            }
            _ => return self.fail("an escape"),
        }

        Ok(())
    }

    /// Skips a value inside of `depth` levels, and returns its range.
    #[inline]
    pub(crate) fn value(&mut self, depth: usize) -> Result<Range<usize>, ScanError> {
        self.peek();
        let start = self.at;
        // One bit per open level, innermost lowest: set for an object.
        let mut objects = 0u128;
        let mut open = 0;

        loop {
            match self.peek() {
                Some(byte @ (b'{' | b'[')) => {
                    open += 1;
                    self.open(depth + open)?;
                    let object = byte == b'{';
                    objects = (objects << 1) | u128::from(object);
                    let end = if object { b'}' } else { b']' };
                    if self.peek() != Some(end) {
                        if object {
                            self.name()?;
                        }
                        continue;
                    }
                    self.at += 1;
                    (objects, open) = (objects >> 1, open - 1);
                }
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal("true")?,
                Some(b'f') => self.literal("false")?,
                Some(b'n') => self.literal("null")?,
                _ => return self.fail("a value"),
            }

            // After a value: close all levels ending here, then advance to the next value.
            loop {
                if open == 0 {
                    return Ok(start..self.at);
                }

                let object = objects & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        if object {
                            self.name()?;
                        }
                        break;
                    }
                    Some(byte) if byte == if object { b'}' } else { b']' } => {
                        self.at += 1;
                        (objects, open) = (objects >> 1, open - 1);
                    }
                    _ => return self.fail(if object { "`,` or `}`" } else { "`,` or `]`" }),
                }
            }
        }
    }

    /// Skips a value inside of `depth` levels, and returns its text.
    #[inline]
    pub(crate) fn value_text(&mut self, depth: usize) -> Result<&'a str, ScanError> {
        let range = self.value(depth)?;
        Ok(&self.text[range])
    }

    /// Skips a value if it has this text, itself a value at the same depth. If the text differs,
    /// returns false and stays at the start of the value.
    #[inline]
    pub(crate) fn skip_same(&mut self, value: &str) -> bool {
        self.peek();
        let bytes = self.text.as_bytes();
        if !bytes[self.at..].starts_with(value.as_bytes()) {
            return false;
        }

        let end = self.at + value.len();
        // A number may go on with more digits.
        let is_longer = matches!(
            bytes.get(end),
            Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')
        );

        if !is_longer {
            self.at = end;
        }

        !is_longer
    }

    #[inline]
    fn literal(&mut self, literal: &'static str) -> Result<(), ScanError> {
        if !self.text.as_bytes()[self.at..].starts_with(literal.as_bytes()) {
            return self.fail("a value");
        }
        self.at += literal.len();
        Ok(())
    }

    #[inline]
    fn number(&mut self) -> Result<(), ScanError> {
        let bytes = self.text.as_bytes();
        let at = |at: usize| bytes.get(at).copied();
        if at(self.at) == Some(b'-') {
            self.at += 1;
        }

        // A leading zero is a number by itself.
        if at(self.at) == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }

        if at(self.at) == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }

        if let Some(b'e' | b'E') = at(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = at(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }

        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> Result<(), ScanError> {
        let count = self.text.as_bytes()[self.at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count == 0 {
            return self.fail("a digit");
        }
        self.at += count;
        Ok(())
    }

    #[inline]
    pub(crate) fn fail<T>(&self, expected: &'static str) -> Result<T, ScanError> {
        Err(ScanError::Expected {
            expected,
            at: self.at,
        })
    }

    /// The decoded value of a string.
    #[inline]
    pub(crate) fn text_of(&self, quoted: &Quoted) -> Cow<'a, str> {
        let Range { start, end } = quoted.inside;
        if !quoted.escaped {
            return Cow::Borrowed(&self.text[start..end]);
        }
        // Half a surrogate pair is valid JSON but not valid text, so it stays escaped.
        let decoded = serde_json::from_str(&self.text[start - 1..=end]);
        decoded.map_or_else(|_| Cow::Borrowed(&self.text[start..end]), Cow::Owned)
    }
}

/// Counts the bytes before the next quote, backslash or control character, eight at a time.
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;

    // Sets the highest bit of each byte below `bound`. Bytes above the first match may be wrong.
    let less = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGH;
    let mut at = 0;

    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * u64::from(b'"'));
        let backslash = word ^ (ONES * u64::from(b'\\'));
        let found = less(word, 0x20) | less(quote, 1) | less(backslash, 1);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }

    let ends = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    at + bytes[at..]
        .iter()
        .position(ends)
        .unwrap_or(bytes.len() - at)
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use serde::de::IgnoredAny;

    use super::*;

    fn whole(text: &str) -> Result<(), ScanError> {
        let mut scanner = Scanner::new(text);
        scanner.value(0)?;
        scanner.end()
    }

    const TEXT: &str = r#" { "a" : [1, -0.5e+7, 0, {"b\"\\\u00e9": "é, long enough for words"}, [], {}], "c": [true, false, null] } "#;

    #[test]
    fn accepts_and_refuses_as_serde_json() {
        let seed: u64 = std::env::var("OPERETTA_SEED")
            .map_or_else(|_| rand::random(), |seed| seed.parse().expect("seed"));
        println!("OPERETTA_SEED={seed}");
        let mut chance = StdRng::seed_from_u64(seed);
        whole(TEXT).expect("JSON");
        let mut good = 0;
        let mut bad = 0;
        for _ in 0..30_000 {
            let mut text = TEXT.as_bytes().to_vec();
            for _ in 0..chance.random_range(1..3) {
                let at = chance.random_range(0..text.len());
                let with = *b"\"\\{}[],:0123456789-+.eEtfn \n\x01u/"
                    .get(chance.random_range(0..33))
                    .unwrap_or(&b'x');
                match chance.random_range(0..3) {
                    0 => text[at] = with,
                    1 => text.insert(at, with),
                    _ => drop(text.remove(at)),
                }
            }
            let Ok(text) = String::from_utf8(text) else {
                continue;
            };
            let read = serde_json::from_str::<IgnoredAny>(&text).is_ok();
            assert_eq!(whole(&text).is_ok(), read, "{text}");
            *if read { &mut good } else { &mut bad } += 1;
        }
        assert!(good > 1_000 && bad > 1_000, "both happen: {good} {bad}");
    }

    #[test]
    fn refuses_nesting_beyond_serde_jsons_limit() {
        let nest = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        whole(&nest(MAX_DEPTH)).expect("deep enough");
        serde_json::from_str::<serde_json::Value>(&nest(MAX_DEPTH)).expect("for a tree as well");
        assert_eq!(
            whole(&nest(MAX_DEPTH + 1)),
            Err(ScanError::TooDeep { at: MAX_DEPTH })
        );
        let objects = r#"{"a":"#.repeat(100_000);
        assert_eq!(
            whole(&objects),
            Err(ScanError::TooDeep { at: MAX_DEPTH * 5 })
        );
    }

    #[test]
    fn names_error_with_its_position() {
        for (text, message) in [
            ("", "expected a value at byte 0"),
            (r#"{"a" 1}"#, "expected `:` at byte 5"),
            (r#"{"a":1,}"#, "expected a field's name in quotes at byte 7"),
            (r#"{"a":1 "b"}"#, "expected `,` or `}` at byte 7"),
            ("[1}", "expected `,` or `]` at byte 2"),
            ("\"a", "expected the end of a string at byte 2"),
            (
                "\"a\nb\"",
                "expected no control character in a string at byte 2",
            ),
            ("1.", "expected a digit at byte 2"),
            ("1 2", "expected the end of the text at byte 2"),
        ] {
            assert_eq!(whole(text).expect_err(text).to_string(), message);
        }
    }
}

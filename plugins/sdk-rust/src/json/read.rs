//! Reads JSON text token by token. Nothing here depends on a type that is read, so a plugin
//! contains it once.

use serde::de::{Error as _, Expected, Unexpected};

use super::fault::Fault;

type Result<T> = std::result::Result<T, Fault>;

/// The levels of arrays and objects that a value may have, as in serde_json.
const DEPTH: u8 = 128;

/// A position in a text.
pub(super) struct Reader<'de> {
    pub(super) text: &'de str,
    pub(super) at: usize,
    /// How many further levels are allowed.
    depth: u8,
    /// True if an array or an object was opened and none of its items read yet.
    first: bool,
    /// The last string with an escape.
    pub(super) unescaped: String,
    /// The error of an array or an object that its visitor has not read whole. No later item is
    /// read.
    unread: Option<Fault>,
}

/// A number without a fraction if it has none and fits.
pub(super) enum Number {
    Natural(u64),
    Negative(i64),
    Float(f64),
}

/// Parses a number with a fraction, or one that is too large for an integer.
#[cold]
#[inline(never)]
fn float(token: &str) -> Result<Number> {
    let number = super::float::parse(token);

    if number.is_finite() {
        Ok(Number::Float(number))
    } else {
        Err(Fault::text("number out of range"))
    }
}

impl<'de> Reader<'de> {
    pub(super) fn new(text: &'de str) -> Self {
        Self {
            text,
            at: 0,
            depth: DEPTH,
            first: false,
            unescaped: String::new(),
            unread: None,
        }
    }

    /// Adds the position to an error.
    pub(super) fn locate(&self, fault: Fault) -> Fault {
        fault.at(self.text, self.at)
    }

    pub(super) fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and returns the byte behind it; 0 at the end of the text.
    #[inline(never)]
    pub(super) fn peek(&mut self) -> u8 {
        loop {
            match self.byte() {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                Some(byte) => return byte,
                None => return 0,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wrong(&self, expected: &str) -> Fault {
        Fault::new(match self.byte() {
            None => format!("EOF while parsing, expected {expected}"),
            Some(_) => format!("expected {expected}"),
        })
    }

    /// Returns an error unless only white space is left.
    pub(super) fn end(&mut self) -> Result<()> {
        if let Some(fault) = self.unread.take() {
            return Err(fault);
        }

        self.peek();
        if self.at < self.text.len() {
            Err(Fault::text("trailing characters"))
        } else {
            Ok(())
        }
    }

    #[inline(never)]
    fn word(&mut self, word: &str) -> Result<()> {
        if self
            .text
            .as_bytes()
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(word.as_bytes()))
        {
            self.at += word.len();
            return Ok(());
        }

        Err(self.wrong("a value"))
    }

    /// Reads a `null`, if there is one.
    #[inline(never)]
    pub(super) fn null(&mut self) -> Result<bool> {
        if self.peek() != b'n' {
            return Ok(false);
        }
        self.word("null").map(|()| true)
    }

    /// Returns the error about a value of another type than was expected.
    #[cold]
    #[inline(never)]
    pub(super) fn unexpected(&mut self, expected: &dyn Expected) -> Fault {
        self.mismatch(expected).unwrap_or_else(|fault| fault)
    }

    fn mismatch(&mut self, expected: &dyn Expected) -> Result<Fault> {
        let found = match self.peek() {
            b'n' => self.word("null").map(|()| Unexpected::Unit)?,
            b't' | b'f' => Unexpected::Bool(self.boolean(expected)?),
            b'"' => Unexpected::Str(self.string(expected)?),
            b'[' => Unexpected::Seq,
            b'{' => Unexpected::Map,
            _ => match self.number(expected)? {
                Number::Natural(number) => Unexpected::Unsigned(number),
                Number::Negative(number) => Unexpected::Signed(number),
                Number::Float(number) => Unexpected::Float(number),
            },
        };

        Ok(Fault::invalid_type(found, expected))
    }

    #[inline(never)]
    pub(super) fn unit(&mut self, expected: &dyn Expected) -> Result<()> {
        if self.null()? {
            Ok(())
        } else {
            Err(self.unexpected(expected))
        }
    }

    #[inline(never)]
    pub(super) fn boolean(&mut self, expected: &dyn Expected) -> Result<bool> {
        match self.peek() {
            b't' => self.word("true").map(|()| true),
            b'f' => self.word("false").map(|()| false),
            _ => Err(self.unexpected(expected)),
        }
    }

    #[inline(never)]
    pub(super) fn number(&mut self, expected: &dyn Expected) -> Result<Number> {
        let (token, value) = self.digits_of_number(expected)?;
        match value {
            Some(value) if !token.starts_with('-') => Ok(Number::Natural(value)),
            Some(value) if value != 0 && value <= i64::MIN.unsigned_abs() => {
                Ok(Number::Negative(0_i64.wrapping_sub_unsigned(value)))
            }
            _ => float(token),
        }
    }

    /// Reads the text of a number.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub(super) fn number_text(&mut self, expected: &dyn Expected) -> Result<&'de str> {
        self.digits_of_number(expected).map(|(token, _)| token)
    }

    fn digits_of_number(&mut self, expected: &dyn Expected) -> Result<(&'de str, Option<u64>)> {
        if !matches!(self.peek(), b'-' | b'0'..=b'9') {
            let is_value = matches!(self.byte(), Some(b'n' | b't' | b'f' | b'"' | b'[' | b'{'));
            return Err(if is_value {
                self.unexpected(expected)
            } else {
                self.wrong("a value")
            });
        }

        let start = self.at;
        let value = self.number_token()?;
        Ok((self.text.get(start..self.at).unwrap_or_default(), value))
    }

    /// Skips a number. Returns its digits if it is an integer that fits.
    fn number_token(&mut self) -> Result<Option<u64>> {
        if self.byte() == Some(b'-') {
            self.at += 1;
        }

        let start = self.at;
        let mut value = Some(0_u64);
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            value =
                value.and_then(|value| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
            self.at += 1;
        }

        let zero = self.text.as_bytes().get(start) == Some(&b'0');
        if self.at == start || (zero && self.at > start + 1) {
            return Err(Fault::text("invalid number"));
        }

        if self.byte() == Some(b'.') {
            self.at += 1;
            value = None;
            self.digits()?;
        }

        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            value = None;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.digits()?;
        }

        Ok(value)
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }

        if self.at == start {
            Err(Fault::text("invalid number"))
        } else {
            Ok(())
        }
    }

    /// Reads a string, or a number as its text.
    #[inline(never)]
    pub(super) fn quantity(&mut self) -> Result<String> {
        let expected = &"Quantity";
        let text = if self.peek() == b'"' {
            self.string(expected)?
        } else {
            self.number_text(expected)?
        };

        Ok(text.to_owned())
    }

    /// Opens an array (`[`) or an object (`{`).
    #[inline(never)]
    pub(super) fn open(&mut self, bracket: u8, expected: &dyn Expected) -> Result<()> {
        if self.peek() != bracket {
            return Err(self.unexpected(expected));
        }

        self.depth -= 1;
        if self.depth == 0 {
            return Err(Fault::text("recursion limit exceeded"));
        }

        self.at += 1;
        self.first = true;
        Ok(())
    }

    /// Closes an array or an object whose last item was read. If it is not closed here, the error
    /// is kept for the next item, so that no type has to handle one here.
    #[inline(never)]
    pub(super) fn close(&mut self, bracket: u8) {
        if self.peek() != bracket {
            self.unread = Some(self.wrong(if bracket == b']' { "`]`" } else { "`}`" }));
            return;
        }

        self.depth += 1;
        self.at += 1;
        self.first = false;
    }

    /// Moves to the next item; returns false at the closing bracket, without skipping it.
    #[inline(never)]
    pub(super) fn item(&mut self, close: u8) -> Result<bool> {
        if self.unread.is_some() {
            return self.end().map(|()| false);
        }

        let next = self.peek();
        if next == close {
            return Ok(false);
        }

        if std::mem::take(&mut self.first) {
            return Ok(true);
        }

        if next != b',' {
            return Err(self.wrong(if close == b']' {
                "`,` or `]`"
            } else {
                "`,` or `}`"
            }));
        }

        self.at += 1;
        if self.peek() == close {
            return Err(Fault::text("trailing comma"));
        }

        Ok(true)
    }

    /// Reads the next key of an object and its colon; `None` at the end of the object. The second
    /// text borrows from the input; it is `None` for a key with escapes.
    #[inline(never)]
    pub(super) fn key(&mut self) -> Result<Option<(&str, Option<&'de str>)>> {
        if !self.item(b'}')? {
            return Ok(None);
        }

        if self.peek() != b'"' {
            return Err(self.wrong("a key, which must be a string"));
        }

        let borrowed = self.string_token()?;
        if self.peek() != b':' {
            return Err(self.wrong("`:`"));
        }

        self.at += 1;
        Ok(Some((borrowed.unwrap_or(&self.unescaped), borrowed)))
    }

    /// Skips a value and returns its text.
    #[inline(never)]
    pub(super) fn skip(&mut self) -> Result<&'de str> {
        self.peek();
        let start = self.at;
        let mut open = Vec::new();
        loop {
            match self.peek() {
                b'[' => open.push(b']'),
                b'{' => open.push(b'}'),
                _ => {}
            }

            match self.peek() {
                b'[' | b'{' => {
                    self.at += 1;
                    self.first = true;
                }
                b'"' => self.string_token().map(|_| ())?,
                b'-' | b'0'..=b'9' => self.number_token().map(|_| ())?,
                b'n' => self.word("null")?,
                b't' => self.word("true")?,
                _ => self.word("false")?,
            }

            if !self.next_skipped(&mut open)? {
                return Ok(self.text.get(start..self.at).unwrap_or_default());
            }
        }
    }

    /// Moves to the next value within the open arrays and objects; returns false after the last
    /// one.
    fn next_skipped(&mut self, open: &mut Vec<u8>) -> Result<bool> {
        while let Some(&close) = open.last() {
            if close == b'}' {
                if self.key()?.is_some() {
                    return Ok(true);
                }
            } else if self.item(close)? {
                return Ok(true);
            }

            self.at += 1;
            self.first = false;
            open.pop();
        }

        Ok(false)
    }
}

//! Reads the strings of JSON: eight bytes at a time, and borrowed from the text if they have no
//! escapes.

use serde::de::Expected;

use super::fault::Fault;
use super::read::Reader;

type Result<T> = std::result::Result<T, Fault>;

impl<'de> Reader<'de> {
    /// Reads a string.
    #[inline(never)]
    pub(super) fn string(&mut self, expected: &dyn Expected) -> Result<&str> {
        if self.peek() != b'"' {
            return Err(self.unexpected(expected));
        }

        Ok(match self.string_token()? {
            Some(text) => text,
            None => &self.unescaped,
        })
    }

    /// Reads a string; `None` if it has escapes: [`Self::unescaped`] then has it.
    #[inline(never)]
    pub(super) fn borrowed(&mut self, expected: &dyn Expected) -> Result<Option<&'de str>> {
        if self.peek() != b'"' {
            return Err(self.unexpected(expected));
        }
        self.string_token()
    }

    /// The last string that had escapes.
    pub(super) fn unescaped(&self) -> &str {
        &self.unescaped
    }

    /// Moves to the next byte that ends a part of a string: a quote, a backslash, or one that is
    /// not allowed.
    fn plain(&mut self) -> Option<u8> {
        const ONES: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = 0x8080_8080_8080_8080;
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;

        let bytes = self.text.as_bytes();

        // Eight bytes at a time. The lowest set bit is exact; those above it may come from a carry.
        while let Some(chunk) = bytes.get(self.at..).and_then(<[u8]>::first_chunk::<8>) {
            let word = u64::from_le_bytes(*chunk);
            let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
            let found = control
                | zeros(word ^ (ONES * u64::from(b'"')))
                | zeros(word ^ (ONES * u64::from(b'\\')));

            if found != 0 {
                self.at += (found.trailing_zeros() / 8) as usize;
                return self.byte();
            }

            self.at += 8;
        }

        while let Some(byte) = self.byte() {
            if byte < 0x20 || byte == b'"' || byte == b'\\' {
                return Some(byte);
            }
            self.at += 1;
        }

        None
    }

    /// Reads a string whose quote is next.
    #[inline(never)]
    pub(super) fn string_token(&mut self) -> Result<Option<&'de str>> {
        self.at += 1;
        let start = self.at;
        if self.plain() == Some(b'"') {
            self.at += 1;
            return Ok(self.text.get(start..self.at - 1));
        }

        self.unescaped.clear();
        self.escaped(start).map(|()| None)
    }

    #[cold]
    fn escaped(&mut self, mut start: usize) -> Result<()> {
        loop {
            let end = self.plain();
            let text = self.text;
            self.unescaped
                .push_str(text.get(start..self.at).unwrap_or_default());
            self.at += 1;

            match end {
                Some(b'"') => return Ok(()),
                Some(b'\\') => {
                    let character = self.escape()?;
                    self.unescaped.push(character);
                    start = self.at;
                }
                Some(_) => {
                    return Err(Fault::text(
                        "control character (\\u0000-\\u001F) found while parsing a string",
                    ));
                }
                None => {
                    self.at = self.text.len();
                    return Err(Fault::text("EOF while parsing a string"));
                }
            }
        }
    }

    /// Reads an escape behind its backslash.
    fn escape(&mut self) -> Result<char> {
        let escape = self
            .byte()
            .ok_or_else(|| Fault::text("EOF while parsing a string"))?;
        self.at += 1;

        Ok(match escape {
            b'"' | b'\\' | b'/' => char::from(escape),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => return Err(Fault::text("invalid escape")),
        })
    }

    fn code_point(&mut self) -> Result<char> {
        let lone = || Fault::text("lone surrogate in hex escape");
        let unit = self.code_unit()?;

        if !(0xd800..0xdc00).contains(&unit) {
            return char::from_u32(unit).ok_or_else(lone);
        }

        if !self
            .text
            .as_bytes()
            .get(self.at..)
            .is_some_and(|rest| rest.starts_with(b"\\u"))
        {
            return Err(lone());
        }

        self.at += 2;
        let low = self.code_unit()?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(lone());
        }

        char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)).ok_or_else(lone)
    }

    fn code_unit(&mut self) -> Result<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.byte().and_then(|byte| char::from(byte).to_digit(16));
            unit = unit * 16 + digit.ok_or_else(|| Fault::text("invalid escape"))?;
            self.at += 1;
        }

        Ok(unit)
    }
}

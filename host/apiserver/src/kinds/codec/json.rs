//! A JSON parser that keeps the order of fields, duplicate fields and the text of numbers.

use thiserror::Error;

/// The deepest nesting of arrays and objects. The real server allows 10,000.
const MAX_DEPTH: usize = 128;

/// A parsed JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    /// The literal as it was written.
    Number(String),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// A syntax error in Go's words.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SyntaxError {
    /// A character that cannot stand where it stands.
    #[error("invalid character {character} {context}")]
    Character {
        /// The character, quoted.
        character: String,
        /// The place, as in "looking for beginning of value".
        context: String,
    },
    /// The text ends within a value.
    #[error("unexpected end of JSON input")]
    End,
    /// Arrays and objects are nested too deeply.
    #[error("exceeded max depth")]
    Depth,
}

/// Parses a JSON document.
///
/// # Errors
/// Returns a [`SyntaxError`] if the text is no JSON document.
pub(crate) fn parse(text: &[u8]) -> Result<Node, SyntaxError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let node = parser.value()?;
    parser.skip_space();
    match parser.peek() {
        Some(_) => Err(parser.unexpected("after top-level value")),
        None => Ok(node),
    }
}

impl Node {
    /// Converts a value. Objects keep the order of the map.
    pub(crate) fn from_value(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => Self::Number(number.to_string()),
            serde_json::Value::String(text) => Self::String(text.clone()),
            serde_json::Value::Array(items) => Self::Array(items.iter().map(Self::from_value).collect()),
            serde_json::Value::Object(map) => {
                Self::Object(map.iter().map(|(key, value)| (key.clone(), Self::from_value(value))).collect())
            }
        }
    }

    /// Converts to a value: the last of duplicate fields wins.
    pub(crate) fn to_value(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Number(text) => number(text),
            Self::String(text) => text.as_str().into(),
            Self::Array(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), value.to_value())).collect(),
        }
    }
}

/// Returns the number of a literal: an integer if it is one of 64 bits, else a float.
pub(crate) fn number(text: &str) -> serde_json::Value {
    if let Ok(value) = text.parse::<i64>() {
        return value.into();
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => value.into(),
        _ => serde_json::Value::Null,
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Returns the error for the character here, or for the end.
    fn unexpected(&self, context: &str) -> SyntaxError {
        let Some(byte) = self.peek() else { return SyntaxError::End };
        let character = match byte {
            b'\'' => r"'\''".to_owned(),
            b'"' => "'\"'".to_owned(),
            b'\n' => r"'\n'".to_owned(),
            b'\t' => r"'\t'".to_owned(),
            b'\r' => r"'\r'".to_owned(),
            0..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
            // Go converts the byte, not the character that it begins.
            _ => format!("'{}'", char::from(byte)),
        };
        SyntaxError::Character { character, context: context.to_owned() }
    }

    fn value(&mut self) -> Result<Node, SyntaxError> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Node::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Node::Bool(true)),
            Some(b'f') => self.literal("false", Node::Bool(false)),
            Some(b'n') => self.literal("null", Node::Null),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, parse: fn(&mut Self) -> Result<Node, SyntaxError>) -> Result<Node, SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SyntaxError::Depth);
        }
        self.at += 1;
        let node = parse(self);
        self.depth -= 1;
        node
    }

    fn object(&mut self) -> Result<Node, SyntaxError> {
        let mut fields = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Node::Object(fields));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            fields.push((key, self.value()?));
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Node::Object(fields));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array(&mut self) -> Result<Node, SyntaxError> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value()?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Node::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn literal(&mut self, word: &str, node: Node) -> Result<Node, SyntaxError> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.unexpected(&context));
            }
            self.at += 1;
        }
        Ok(node)
    }

    fn number(&mut self) -> Result<Node, SyntaxError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.need_digit("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.need_digit("in exponent of numeric literal")?;
        }
        Ok(Node::Number(String::from_utf8_lossy(&self.text[start..self.at]).into_owned()))
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn need_digit(&mut self, context: &str) -> Result<(), SyntaxError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected(context));
        }
        self.digits();
        Ok(())
    }

    /// Reads a string. Bytes that are no UTF-8 become U+FFFD, as in Go.
    fn string(&mut self) -> Result<String, SyntaxError> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                None => return Err(SyntaxError::End),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
                Some(b'\\') => self.escape(&mut bytes)?,
                Some(0..=0x1f) => return Err(self.unexpected("in string literal")),
                Some(byte) => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), SyntaxError> {
        self.at += 1;
        let byte = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode(bytes),
            _ => return Err(self.unexpected("in string escape code")),
        };
        bytes.push(byte);
        self.at += 1;
        Ok(())
    }

    fn unicode(&mut self, bytes: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let high = self.hex()?;
        let mut code = high;
        if (0xd800..0xdc00).contains(&high) && self.text[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 1;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            } else {
                self.at = before;
            }
        }
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// Reads the `u` here and four hexadecimal digits.
    fn hex(&mut self) -> Result<u32, SyntaxError> {
        self.at += 1;
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return Err(self.unexpected(r"in \u hexadecimal character escape")) };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

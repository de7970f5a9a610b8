//! The tokens of a text in YAML 1.1.
//!
//! The rules are those of libyaml, with the limits and omissions of its translation to Go,
//! <https://github.com/yaml/go-yaml/blob/v2.4.3/scannerc.go>: where a simple key ends, what a tab
//! or a `:` in a flow collection means, and which characters break a line.

use std::collections::{HashMap, VecDeque};

use super::{YamlError, text::Text};

/// The longest simple key, in characters.
const MAX_KEY: usize = 1024;
/// The longest number in the version of a `%YAML` directive, in digits.
const MAX_VERSION_DIGITS: usize = 2;

/// A token, and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub mark: Mark,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    StreamEnd,
    /// A `%YAML` directive with the parts of its version.
    Version(u8, u8),
    TagDirective {
        handle: String,
        prefix: String,
    },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    /// The handle of a verbatim tag is empty.
    Tag {
        handle: String,
        suffix: String,
    },
    Scalar {
        value: String,
        is_plain: bool,
    },
}

/// A place in the text, counted from zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// The number of characters before it.
    index: usize,
    pub line: usize,
    column: usize,
}

impl Mark {
    /// Returns the error of a problem here. `line` is the line that Go shows for it, unless that is
    /// zero.
    pub fn error(self, line: usize, problem: &str) -> YamlError {
        let message = match line {
            0 => format!("yaml: {problem}"),
            line => format!("yaml: line {line}: {problem}"),
        };
        YamlError::Refused {
            message,
            place: Some((self.line + 1, self.column + 1)),
        }
    }
}

/// A place where a key may begin that has no `?` before it.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    is_possible: bool,
    /// Whether nothing else than a key can begin there.
    is_required: bool,
    /// The number of the token that comes next there.
    token: usize,
    mark: Mark,
}

/// The line breaks between two parts of a scalar: the first, and those after it.
#[derive(Default)]
struct Breaks {
    first: String,
    others: String,
}

impl Breaks {
    /// Appends the breaks as a scalar that is folded has them: a single one becomes a space.
    fn fold_into(&mut self, value: &mut String) {
        if !self.first.starts_with('\n') {
            value.push_str(&self.first);
        } else if self.others.is_empty() {
            value.push(' ');
        }
        value.push_str(&self.others);
        self.first.clear();
        self.others.clear();
    }
}

pub(super) struct Scanner<'t> {
    text: &'t str,
    /// Why the text ends here, if that isn't its end.
    problem: Option<&'static str>,
    at: usize,
    mark: Mark,

    tokens: VecDeque<Token>,
    /// How many tokens were taken.
    taken: usize,
    /// Whether it is known that no token comes before the first in the queue.
    is_ready: bool,

    /// How many flow collections are open.
    flow_level: usize,
    /// One more than the column of the block collection. Zero outside of all.
    indent: usize,
    /// The indents of the collections around it.
    indents: Vec<usize>,

    is_key_allowed: bool,
    /// The possible key of each flow collection that is open, after that of the block.
    keys: Vec<SimpleKey>,
    /// The places in `keys` by the tokens' numbers.
    keys_by_token: HashMap<usize, usize>,
}

impl<'t> Scanner<'t> {
    pub fn new(text: &'t Text<'t>) -> Self {
        Self {
            text: &text.readable,
            problem: text.problem,
            at: 0,
            mark: Mark::default(),
            tokens: VecDeque::new(),
            taken: 0,
            is_ready: false,
            flow_level: 0,
            indent: 0,
            indents: Vec::new(),
            is_key_allowed: true,
            keys: vec![SimpleKey::default()],
            keys_by_token: HashMap::new(),
        }
    }

    /// Returns the next token. The last one is the end of the stream.
    ///
    /// # Errors
    ///
    /// Characters that begin no token, or a token that isn't complete.
    pub fn peek(&mut self) -> Result<&Token, YamlError> {
        while !self.is_ready {
            self.is_ready = !self.tokens.is_empty() && !self.may_get_key()?;
            if !self.is_ready {
                self.fetch()?;
            }
        }
        Ok(&self.tokens[0])
    }

    /// Removes the next token, which was looked at before.
    pub fn take(&mut self) -> Option<Token> {
        self.is_ready = false;
        self.keys_by_token.remove(&self.taken);
        self.taken += 1;
        self.tokens.pop_front()
    }

    /// Reports whether a `:` further on may make a key of the next token.
    fn may_get_key(&mut self) -> Result<bool, YamlError> {
        match self.keys_by_token.get(&self.taken) {
            Some(key) if *key < self.keys.len() => self.is_key(*key),
            _ => Ok(false),
        }
    }

    /// Reads a token. If the text can't be read to its end, an error there has that cause.
    fn fetch(&mut self) -> Result<(), YamlError> {
        let fetched = self.fetch_token();
        match self.problem {
            Some(problem) if self.is_end() => Err(YamlError::new(problem)),
            _ => fetched,
        }
    }

    /// Looks so many characters ahead, as Go does at places where it needs fewer. That is an error if
    /// the text can't be read so far.
    fn look_ahead(&self, characters: usize) -> Result<(), YamlError> {
        match self.problem {
            Some(problem) if self.text[self.at..].chars().nth(characters - 1).is_none() => {
                Err(YamlError::new(problem))
            }
            _ => Ok(()),
        }
    }

    fn fetch_token(&mut self) -> Result<(), YamlError> {
        self.skip_to_token()?;
        self.unroll(self.mark.column + 1);
        self.look_ahead(4)?;

        if self.is_end() {
            return self.stream_end();
        }
        if self.mark.column == 0 {
            if self.byte(0) == b'%' {
                return self.directive();
            }
            if self.is_document_indicator("---") {
                return self.document_indicator(TokenKind::DocumentStart);
            }
            if self.is_document_indicator("...") {
                return self.document_indicator(TokenKind::DocumentEnd);
            }
        }

        let is_in_flow = self.flow_level > 0;
        let ends_word = self.is_blank_or_end(1);
        match self.byte(0) {
            b'[' => self.flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.flow_start(TokenKind::FlowMappingStart),
            b']' => self.flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.flow_end(TokenKind::FlowMappingEnd),
            b',' => self.flow_entry(),
            b'-' if ends_word => self.block_entry(),
            b'?' if is_in_flow || ends_word => self.key(),
            b':' if is_in_flow || ends_word => self.value(),
            b'*' => self.anchor(true),
            b'&' => self.anchor(false),
            b'!' => self.tag(),
            b'|' if !is_in_flow => self.block_scalar(true),
            b'>' if !is_in_flow => self.block_scalar(false),
            b'\'' => self.quoted_scalar(true),
            b'"' => self.quoted_scalar(false),
            b'\t' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => {
                Err(self.error("found character that cannot start any token"))
            }
            _ => self.plain_scalar(),
        }
    }

    // --- Characters -----------------------------------------------------------------------------

    /// The byte so many bytes ahead. Zero at the end, which no text contains.
    fn byte(&self, ahead: usize) -> u8 {
        let byte = self.text.as_bytes().get(self.at + ahead);
        byte.copied().unwrap_or_default()
    }

    fn is_end(&self) -> bool {
        self.at == self.text.len()
    }

    fn is_blank(&self) -> bool {
        matches!(self.byte(0), b' ' | b'\t')
    }

    fn is_break(&self, ahead: usize) -> bool {
        match self.byte(ahead) {
            b'\r' | b'\n' => true,
            0xc2 => self.byte(ahead + 1) == 0x85,
            0xe2 => self.byte(ahead + 1) == 0x80 && matches!(self.byte(ahead + 2), 0xa8 | 0xa9),
            _ => false,
        }
    }

    fn is_break_or_end(&self) -> bool {
        self.is_end() || self.is_break(0)
    }

    fn is_blank_or_end(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t' | 0) || self.is_break(ahead)
    }

    /// Reports whether a character may be in an anchor, or in the handle of a tag.
    fn is_word(&self) -> bool {
        matches!(self.byte(0), b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'-')
    }

    fn is_document_indicator(&self, indicator: &str) -> bool {
        self.mark.column == 0
            && self.text[self.at..].starts_with(indicator)
            && self.is_blank_or_end(3)
    }

    fn next_char(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// Goes behind a character that is no line break.
    fn skip(&mut self) {
        self.at += self.next_char().map_or(0, char::len_utf8);
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Goes behind a character, and adds it to a value.
    fn read(&mut self, value: &mut String) {
        value.extend(self.next_char());
        self.skip();
    }

    /// Goes behind a line break, and adds it to a value.
    fn read_break(&mut self, value: &mut String) {
        let (width, characters, kept) = match self.byte(0) {
            b'\r' if self.byte(1) == b'\n' => (2, 2, '\n'),
            b'\r' | b'\n' => (1, 1, '\n'),
            0xc2 => (2, 1, '\n'),
            // The separators of lines and paragraphs stay what they are.
            _ => (3, 1, self.next_char().unwrap_or('\n')),
        };

        value.push(kept);
        self.at += width;
        self.mark.index += characters;
        self.mark.line += 1;
        self.mark.column = 0;
    }

    fn skip_break(&mut self) {
        self.read_break(&mut String::new());
    }

    fn skip_blanks(&mut self) {
        while self.is_blank() {
            self.skip();
        }
    }

    fn skip_comment(&mut self) {
        if self.byte(0) == b'#' {
            while !self.is_break_or_end() {
                self.skip();
            }
        }
    }

    /// Goes behind the end of a line, before which only a comment may stand.
    fn skip_rest_of_line(&mut self) -> Result<(), YamlError> {
        self.skip_blanks();
        self.skip_comment();
        if !self.is_break_or_end() {
            return Err(self.error("did not find expected comment or line break"));
        }
        if self.is_break(0) {
            self.skip_break();
        }
        Ok(())
    }

    /// Goes to the beginning of the next token.
    fn skip_to_token(&mut self) -> Result<(), YamlError> {
        if self.at == 0 && self.next_char() == Some('\u{feff}') {
            self.skip();
        }

        loop {
            // Where a key may begin, a tab would be an indent.
            let may_be_tab = self.flow_level > 0 || !self.is_key_allowed;
            while self.byte(0) == b' ' || (may_be_tab && self.byte(0) == b'\t') {
                self.skip();
            }
            self.skip_comment();
            if !self.is_break(0) {
                return Ok(());
            }

            self.look_ahead(2)?;
            self.skip_break();
            if self.flow_level == 0 {
                self.is_key_allowed = true;
            }
        }
    }

    /// The error for what is here. Go doesn't show the first line.
    fn error(&self, problem: &str) -> YamlError {
        let line = self.mark.line;
        let shown = if line > 0 { line + 1 } else { 0 };
        self.mark.error(shown, problem)
    }

    // --- Keys and indents -----------------------------------------------------------------------

    fn push(&mut self, kind: TokenKind, mark: Mark) {
        self.tokens.push_back(Token { kind, mark });
    }

    /// Adds a token of one character.
    fn push_indicator(&mut self, kind: TokenKind) {
        self.push(kind, self.mark);
        self.skip();
    }

    /// Reports whether a possible key still is one. It has to be on one line and can't be long.
    fn is_key(&mut self, at: usize) -> Result<bool, YamlError> {
        let key = self.keys[at];
        if !key.is_possible {
            return Ok(false);
        }

        if key.mark.line < self.mark.line || key.mark.index + MAX_KEY < self.mark.index {
            if key.is_required {
                return Err(self.error("could not find expected ':'"));
            }
            self.keys[at].is_possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    /// Remembers that a key may begin here.
    fn save_key(&mut self) -> Result<(), YamlError> {
        if self.is_key_allowed {
            self.remove_key()?;

            let last = self.keys.len() - 1;
            let key = SimpleKey {
                is_possible: true,
                is_required: self.flow_level == 0 && self.indent == self.mark.column + 1,
                token: self.taken + self.tokens.len(),
                mark: self.mark,
            };
            self.keys[last] = key;
            self.keys_by_token.insert(key.token, last);
        }
        Ok(())
    }

    /// Forgets the possible key, which can't be one any more.
    fn remove_key(&mut self) -> Result<(), YamlError> {
        let last = self.keys.len() - 1;
        let key = self.keys[last];
        if key.is_possible {
            if key.is_required {
                return Err(self.error("could not find expected ':'"));
            }
            self.keys[last].is_possible = false;
            self.keys_by_token.remove(&key.token);
        }
        Ok(())
    }

    /// Begins a block collection at a place, if that is further right than the indent. `before` is
    /// the number of the token that follows its beginning, if there is one already.
    fn roll(&mut self, kind: TokenKind, at: Mark, before: Option<usize>) {
        if self.flow_level == 0 && self.indent < at.column + 1 {
            self.indents.push(self.indent);
            self.indent = at.column + 1;
            self.insert(kind, at, before);
        }
    }

    /// Begins a block collection here.
    fn roll_here(&mut self, kind: TokenKind) {
        self.roll(kind, self.mark, None);
    }

    /// Adds a token before the one of a number. Go adds it at the end if that was taken: a list
    /// that is empty, as in `[]: a`, is no key.
    fn insert(&mut self, kind: TokenKind, mark: Mark, before: Option<usize>) {
        let end = self.tokens.len();
        let place = before.and_then(|number| number.checked_sub(self.taken));
        self.tokens
            .insert(place.unwrap_or(end).min(end), Token { kind, mark });
    }

    /// Ends the block collections that are further right than an indent.
    fn unroll(&mut self, indent: usize) {
        while self.flow_level == 0 && self.indent > indent {
            self.push(TokenKind::BlockEnd, self.mark);
            self.indent = self.indents.pop().unwrap_or_default();
        }
    }

    // --- Tokens ---------------------------------------------------------------------------------

    fn stream_end(&mut self) -> Result<(), YamlError> {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
        self.unroll(0);
        self.remove_key()?;

        self.is_key_allowed = false;
        self.push(TokenKind::StreamEnd, self.mark);
        Ok(())
    }

    fn document_indicator(&mut self, kind: TokenKind) -> Result<(), YamlError> {
        self.unroll(0);
        self.remove_key()?;

        self.is_key_allowed = false;
        self.push_indicator(kind);
        self.skip();
        self.skip();
        Ok(())
    }

    fn flow_start(&mut self, kind: TokenKind) -> Result<(), YamlError> {
        self.save_key()?;
        self.keys.push(SimpleKey {
            token: self.taken + self.tokens.len(),
            ..SimpleKey::default()
        });
        self.flow_level += 1;

        self.is_key_allowed = true;
        self.push_indicator(kind);
        Ok(())
    }

    fn flow_end(&mut self, kind: TokenKind) -> Result<(), YamlError> {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            if let Some(key) = self.keys.pop() {
                self.keys_by_token.remove(&key.token);
            }
        }

        self.is_key_allowed = false;
        self.push_indicator(kind);
        Ok(())
    }

    fn flow_entry(&mut self) -> Result<(), YamlError> {
        self.remove_key()?;
        self.is_key_allowed = true;
        self.push_indicator(TokenKind::FlowEntry);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<(), YamlError> {
        self.begin_in_block(
            TokenKind::BlockSequenceStart,
            "block sequence entries are not allowed in this context",
        )?;

        self.remove_key()?;
        self.is_key_allowed = true;
        self.push_indicator(TokenKind::BlockEntry);
        Ok(())
    }

    /// Begins a collection in the block style, unless one of this indentation has begun.
    fn begin_in_block(&mut self, kind: TokenKind, refused: &str) -> Result<(), YamlError> {
        if self.flow_level == 0 {
            if !self.is_key_allowed {
                return Err(self.error(refused));
            }
            self.roll_here(kind);
        }
        Ok(())
    }

    fn key(&mut self) -> Result<(), YamlError> {
        self.begin_in_block(
            TokenKind::BlockMappingStart,
            "mapping keys are not allowed in this context",
        )?;

        self.remove_key()?;
        self.is_key_allowed = self.flow_level == 0;
        self.push_indicator(TokenKind::Key);
        Ok(())
    }

    fn value(&mut self) -> Result<(), YamlError> {
        let last = self.keys.len() - 1;
        if self.is_key(last)? {
            let SimpleKey { token, mark, .. } = self.keys[last];
            self.insert(TokenKind::Key, mark, Some(token));
            self.roll(TokenKind::BlockMappingStart, mark, Some(token));

            self.keys[last].is_possible = false;
            self.keys_by_token.remove(&token);
            self.is_key_allowed = false;
        } else {
            self.begin_in_block(
                TokenKind::BlockMappingStart,
                "mapping values are not allowed in this context",
            )?;
            self.is_key_allowed = self.flow_level == 0;
        }

        self.push_indicator(TokenKind::Value);
        Ok(())
    }

    fn anchor(&mut self, is_alias: bool) -> Result<(), YamlError> {
        self.save_key()?;
        self.is_key_allowed = false;

        let mark = self.mark;
        self.skip();
        let mut name = String::new();
        while self.is_word() {
            self.read(&mut name);
        }

        let is_followed = self.is_blank_or_end(0)
            || matches!(
                self.byte(0),
                b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`'
            );
        if name.is_empty() || !is_followed {
            return Err(self.error("did not find expected alphabetic or numeric character"));
        }

        let kind = if is_alias {
            TokenKind::Alias(name)
        } else {
            TokenKind::Anchor(name)
        };
        self.push(kind, mark);
        Ok(())
    }

    // --- Directives and tags --------------------------------------------------------------------

    fn directive(&mut self) -> Result<(), YamlError> {
        self.unroll(0);
        self.remove_key()?;
        self.is_key_allowed = false;

        let mark = self.mark;
        self.skip();
        let mut name = String::new();
        while self.is_word() {
            self.read(&mut name);
        }
        if name.is_empty() {
            return Err(self.error("could not find expected directive name"));
        }
        if !self.is_blank_or_end(0) {
            return Err(self.error("found unexpected non-alphabetical character"));
        }

        let kind = match name.as_str() {
            "YAML" => self.version()?,
            "TAG" => self.tag_directive()?,
            _ => return Err(self.error("found unknown directive name")),
        };
        self.skip_rest_of_line()?;
        self.push(kind, mark);
        Ok(())
    }

    fn version(&mut self) -> Result<TokenKind, YamlError> {
        self.skip_blanks();
        let major = self.version_number()?;
        if self.byte(0) != b'.' {
            return Err(self.error("did not find expected digit or '.' character"));
        }
        self.skip();
        Ok(TokenKind::Version(major, self.version_number()?))
    }

    fn version_number(&mut self) -> Result<u8, YamlError> {
        let mut digits = String::new();
        while self.byte(0).is_ascii_digit() {
            if digits.len() == MAX_VERSION_DIGITS {
                return Err(self.error("found extremely long version number"));
            }
            self.read(&mut digits);
        }

        let number = digits.parse();
        number.map_err(|_| self.error("did not find expected version number"))
    }

    fn tag_directive(&mut self) -> Result<TokenKind, YamlError> {
        self.skip_blanks();
        let handle = self.tag_handle()?;
        if !handle.ends_with('!') {
            return Err(self.error("did not find expected '!'"));
        }
        if !self.is_blank() {
            return Err(self.error("did not find expected whitespace"));
        }

        self.skip_blanks();
        let prefix = self.tag_uri("")?;
        if !self.is_blank_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        Ok(TokenKind::TagDirective { handle, prefix })
    }

    fn tag(&mut self) -> Result<(), YamlError> {
        self.save_key()?;
        self.is_key_allowed = false;

        let mark = self.mark;
        let (handle, suffix) = if self.byte(1) == b'<' {
            self.skip();
            self.skip();
            let tag = self.tag_uri("")?;
            if self.byte(0) != b'>' {
                return Err(self.error("did not find the expected '>'"));
            }
            self.skip();
            (String::new(), tag)
        } else {
            let handle = self.tag_handle()?;
            if handle.len() > 1 && handle.ends_with('!') {
                let suffix = self.tag_uri("")?;
                (handle, suffix)
            } else {
                // No handle after all: its name is the beginning of the suffix.
                match self.tag_uri(&handle)? {
                    suffix if suffix.is_empty() => (String::new(), "!".to_owned()),
                    suffix => ("!".to_owned(), suffix),
                }
            }
        };

        if !self.is_blank_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        self.push(TokenKind::Tag { handle, suffix }, mark);
        Ok(())
    }

    /// Reads `!`, `!!`, `!name!`, or `!name`, which is the beginning of a tag and no handle.
    fn tag_handle(&mut self) -> Result<String, YamlError> {
        if self.byte(0) != b'!' {
            return Err(self.error("did not find expected '!'"));
        }

        let mut handle = String::new();
        self.read(&mut handle);
        while self.is_word() {
            self.read(&mut handle);
        }
        if self.byte(0) == b'!' {
            self.read(&mut handle);
        }
        Ok(handle)
    }

    /// Reads the rest of a tag. `head` is its beginning, with a `!` that doesn't belong to it.
    fn tag_uri(&mut self, head: &str) -> Result<String, YamlError> {
        let begin = self.at;
        let mut uri: Vec<u8> = head.bytes().skip(1).collect();

        loop {
            match self.byte(0) {
                b'%' => self.uri_escape(&mut uri)?,
                byte if self.is_word() || b";/?:@&=+$,.!~*'()[]".contains(&byte) => {
                    uri.push(byte);
                    self.skip();
                }
                _ => break,
            }
        }

        if head.is_empty() && self.at == begin {
            return Err(self.error("did not find expected tag URI"));
        }
        Ok(crate::string(uri))
    }

    /// Reads a character as the escapes of its bytes.
    fn uri_escape(&mut self, uri: &mut Vec<u8>) -> Result<(), YamlError> {
        let mut remaining = 0;
        loop {
            self.look_ahead(3)?;
            let digits = self.text.as_bytes().get(self.at + 1..self.at + 3);
            let octet = digits
                .filter(|_| self.byte(0) == b'%')
                .and_then(hex)
                .and_then(|octet| u8::try_from(octet).ok());
            let Some(octet) = octet else {
                return Err(self.error("did not find URI escaped octet"));
            };

            if remaining == 0 {
                remaining = match octet {
                    0..0x80 => 1,
                    0xc0..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    0xf0..0xf8 => 4,
                    _ => return Err(self.error("found an incorrect leading UTF-8 octet")),
                };
            } else if octet & 0xc0 != 0x80 {
                return Err(self.error("found an incorrect trailing UTF-8 octet"));
            }

            uri.push(octet);
            for _ in 0..3 {
                self.skip();
            }
            remaining -= 1;
            if remaining == 0 {
                return Ok(());
            }
        }
    }

    // --- Scalars --------------------------------------------------------------------------------

    fn push_scalar(&mut self, value: String, is_plain: bool, mark: Mark) {
        self.push(TokenKind::Scalar { value, is_plain }, mark);
    }

    fn block_scalar(&mut self, is_literal: bool) -> Result<(), YamlError> {
        self.remove_key()?;
        self.is_key_allowed = true;

        let mark = self.mark;
        self.skip();
        let (chomping, increment) = self.block_header()?;
        self.skip_rest_of_line()?;

        let mut indent = increment.map(|increment| self.indent.saturating_sub(1) + increment);
        let mut value = String::new();
        let mut breaks = Breaks::default();
        let mut indent_of_lines = self.block_breaks(&mut indent, &mut breaks.others)?;
        // Whether the line before begins with a blank, which keeps its break as it is.
        let mut was_indented = false;

        while self.mark.column == indent_of_lines && !self.is_end() {
            let is_indented = self.is_blank();
            if is_literal || was_indented || is_indented || !breaks.first.starts_with('\n') {
                value.push_str(&breaks.first);
                value.push_str(&breaks.others);
            } else {
                breaks.fold_into(&mut value);
            }
            breaks = Breaks::default();
            was_indented = is_indented;

            while !self.is_break_or_end() {
                self.read(&mut value);
            }
            if self.is_break(0) {
                self.read_break(&mut breaks.first);
            }
            indent_of_lines = self.block_breaks(&mut indent, &mut breaks.others)?;
        }

        if chomping != Some(b'-') {
            value.push_str(&breaks.first);
        }
        if chomping == Some(b'+') {
            value.push_str(&breaks.others);
        }
        self.push_scalar(value, false, mark);
        Ok(())
    }

    /// Reads the indicators of chomping and indent, in either order.
    fn block_header(&mut self) -> Result<(Option<u8>, Option<usize>), YamlError> {
        let mut chomping = None;
        let mut increment = None;

        for _ in 0..2 {
            match self.byte(0) {
                sign @ (b'+' | b'-') if chomping.is_none() => chomping = Some(sign),
                b'0' if increment.is_none() => {
                    return Err(self.error("found an indentation indicator equal to 0"));
                }
                digit @ b'1'..=b'9' if increment.is_none() => {
                    increment = Some(usize::from(digit - b'0'));
                }
                _ => break,
            }
            self.skip();
        }
        Ok((chomping, increment))
    }

    /// Reads the indent of a line in a block scalar, and the empty lines before it. Determines the
    /// scalar's indent if it isn't known, and returns it.
    fn block_breaks(
        &mut self,
        indent: &mut Option<usize>,
        breaks: &mut String,
    ) -> Result<usize, YamlError> {
        let mut deepest = 0;
        loop {
            let may_be_indent = |column: usize| indent.is_none_or(|indent| column < indent);
            while may_be_indent(self.mark.column) && self.byte(0) == b' ' {
                self.skip();
            }
            deepest = deepest.max(self.mark.column);

            if may_be_indent(self.mark.column) && self.byte(0) == b'\t' {
                return Err(
                    self.error("found a tab character where an indentation space is expected")
                );
            }
            if !self.is_break(0) {
                break;
            }
            self.read_break(breaks);
        }

        Ok(*indent.get_or_insert(deepest.max(self.indent).max(1)))
    }

    fn quoted_scalar(&mut self, is_single: bool) -> Result<(), YamlError> {
        self.save_key()?;
        self.is_key_allowed = false;

        let mark = self.mark;
        let quote = if is_single { b'\'' } else { b'"' };
        self.skip();
        let mut value = String::new();

        loop {
            self.look_ahead(4)?;
            if self.is_document_indicator("---") || self.is_document_indicator("...") {
                return Err(self.error("found unexpected document indicator"));
            }
            if self.is_end() {
                return Err(self.error("found unexpected end of stream"));
            }

            // Whether the line ends here, be it behind a backslash.
            let mut is_folded = false;
            while !self.is_blank_or_end(0) {
                match self.byte(0) {
                    b'\'' if is_single && self.byte(1) == b'\'' => {
                        self.skip();
                        self.read(&mut value);
                    }
                    byte if byte == quote => break,
                    b'\\' if !is_single && self.is_break(1) => {
                        self.skip();
                        self.skip_break();
                        is_folded = true;
                        break;
                    }
                    b'\\' if !is_single => self.escape(&mut value)?,
                    _ => self.read(&mut value),
                }
                self.look_ahead(2)?;
            }
            if self.byte(0) == quote {
                break;
            }

            let mut blanks = String::new();
            let mut breaks = Breaks::default();
            while self.is_blank() || self.is_break(0) {
                if self.is_blank() {
                    if is_folded {
                        self.skip();
                    } else {
                        self.read(&mut blanks);
                    }
                } else if is_folded {
                    self.read_break(&mut breaks.others);
                } else {
                    self.read_break(&mut breaks.first);
                    is_folded = true;
                }
            }

            if is_folded {
                breaks.fold_into(&mut value);
            } else {
                value.push_str(&blanks);
            }
        }

        self.skip();
        self.push_scalar(value, false, mark);
        Ok(())
    }

    /// Reads an escape.
    fn escape(&mut self, value: &mut String) -> Result<(), YamlError> {
        let digits = match self.byte(1) {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            other => {
                let Some(character) = escaped(other) else {
                    return Err(self.error("found unknown escape character"));
                };
                value.push(character);
                self.skip();
                self.skip();
                return Ok(());
            }
        };

        self.skip();
        self.skip();
        self.look_ahead(digits)?;
        let code = self.text.as_bytes().get(self.at..self.at + digits);
        let Some(code) = code.and_then(hex) else {
            return Err(self.error("did not find expected hexdecimal number"));
        };
        let Some(character) = char::from_u32(code) else {
            return Err(self.error("found invalid Unicode character escape code"));
        };

        value.push(character);
        for _ in 0..digits {
            self.skip();
        }
        Ok(())
    }

    fn plain_scalar(&mut self) -> Result<(), YamlError> {
        self.save_key()?;
        self.is_key_allowed = false;

        let mark = self.mark;
        let mut value = String::new();
        let mut blanks = String::new();
        let mut breaks = Breaks::default();
        // Whether the last characters that were read begin a line.
        let mut is_folded = false;

        loop {
            self.look_ahead(4)?;
            if self.is_document_indicator("---")
                || self.is_document_indicator("...")
                || self.byte(0) == b'#'
            {
                break;
            }

            while !self.is_blank_or_end(0) {
                let is_flow_indicator =
                    matches!(self.byte(0), b',' | b'?' | b'[' | b']' | b'{' | b'}');
                if (self.byte(0) == b':' && self.is_blank_or_end(1))
                    || (self.flow_level > 0 && is_flow_indicator)
                {
                    break;
                }

                if is_folded {
                    breaks.fold_into(&mut value);
                    is_folded = false;
                } else {
                    value.push_str(&blanks);
                }
                blanks.clear();
                self.read(&mut value);
                self.look_ahead(2)?;
            }
            if !self.is_blank() && !self.is_break(0) {
                break;
            }

            while self.is_blank() || self.is_break(0) {
                if self.is_blank() {
                    if is_folded && self.mark.column < self.indent && self.byte(0) == b'\t' {
                        return Err(self.error("found a tab character that violates indentation"));
                    }
                    if is_folded {
                        self.skip();
                    } else {
                        self.read(&mut blanks);
                    }
                } else if is_folded {
                    self.read_break(&mut breaks.others);
                } else {
                    blanks.clear();
                    self.read_break(&mut breaks.first);
                    is_folded = true;
                }
            }
            if self.flow_level == 0 && self.mark.column < self.indent {
                break;
            }
        }

        self.push_scalar(value, true, mark);
        if is_folded {
            self.is_key_allowed = true;
        }
        Ok(())
    }
}

/// The character that one after a backslash stands for.
fn escaped(after: u8) -> Option<char> {
    Some(match after {
        b'0' => '\0',
        b'a' => '\u{7}',
        b'b' => '\u{8}',
        b't' | b'\t' => '\t',
        b'n' => '\n',
        b'v' => '\u{b}',
        b'f' => '\u{c}',
        b'r' => '\r',
        b'e' => '\u{1b}',
        b' ' | b'"' | b'\'' | b'\\' => char::from(after),
        b'N' => '\u{85}',
        b'_' => '\u{a0}',
        b'L' => '\u{2028}',
        b'P' => '\u{2029}',
        _ => return None,
    })
}

/// The value of hexadecimal digits, of which there are at most eight.
fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| {
        Some((value << 4) | char::from(*digit).to_digit(16)?)
    })
}

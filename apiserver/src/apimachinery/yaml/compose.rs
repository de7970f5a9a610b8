//! The nodes of a document, from the parser's events.

use std::{borrow::Cow, collections::HashMap};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, YamlVersion};

use super::YamlError;
use crate::apimachinery::json;

/// A document.
pub(super) struct Document {
    nodes: Vec<Node>,
}

/// The place of a node in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(usize);

pub(super) struct Node {
    pub kind: Kind,
    /// The line of its beginning, counted from one.
    pub line: usize,
}

pub(super) enum Kind {
    Scalar {
        /// The tag in its long form, such as `tag:yaml.org,2002:str`. Empty if the text has none.
        tag: String,
        value: String,
        /// Whether the scalar is plain, so that its value may stand for another type.
        is_implicit: bool,
    },
    Sequence(Vec<NodeId>),
    /// The keys with their values.
    Mapping(Vec<(NodeId, NodeId)>),
    Alias {
        of: NodeId,
        anchor: String,
    },
}

impl Document {
    /// The root, which is the first node that was read.
    pub fn root(&self) -> NodeId {
        NodeId(0)
    }

    pub fn get(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }
}

/// Reads the first document of a text. None if there is none.
///
/// # Errors
///
/// Malformed YAML, or an alias without an anchor.
pub(super) fn compose(text: &[u8]) -> Result<Option<Document>, YamlError> {
    let text = decode_text(text)?;
    let options = granit_parser::options! {
        emit_comments: false,
        emit_anchor_events: true,
        emit_unresolved_aliases: true,
        flow_nesting_limit: json::MAX_DEPTH + 1,
        block_nesting_limit: json::MAX_DEPTH + 1,
    };
    let mut composer = Composer {
        text: &text,
        parser: Parser::new_from_str_with_options(&text, options),
        nodes: Vec::new(),
        anchors: HashMap::new(),
        depth: 0,
    };

    // The beginning of the stream.
    composer.next()?;
    match composer.next()?.0 {
        Event::DocumentStart(_, Some(version)) if version != YamlVersion::new(1, 1) => {
            return Err(YamlError(
                "yaml: found incompatible YAML document".to_owned(),
            ));
        }
        Event::DocumentStart(..) => {}
        _ => return Ok(None),
    }

    let (first, span) = composer.next()?;
    composer.node(first, span)?;

    // The end of the document. It's an error if something else follows, as in `[a] b`.
    composer.next()?;

    Ok(Some(Document {
        nodes: composer.nodes,
    }))
}

struct Composer<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    nodes: Vec<Node>,
    /// The nodes with an anchor, and the names of the anchors, by the parser's numbers.
    anchors: HashMap<usize, (NodeId, String)>,
    depth: usize,
}

impl<'t> Composer<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), YamlError> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(syntax_error(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// Reads the node that begins with an event.
    fn node(&mut self, event: Event<'t>, span: Span) -> Result<NodeId, YamlError> {
        // An alias inside of a node may name the node itself, so its place is known first.
        let id = NodeId(self.nodes.len());
        self.nodes.push(Node {
            kind: Kind::Sequence(Vec::new()),
            line: span.start.line(),
        });

        let kind = match event {
            Event::Scalar(value, style, anchor, tag) => {
                if style == ScalarStyle::DoubleQuoted {
                    self.check_escapes(&span)?;
                }

                self.anchor(anchor, id)?;
                let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
                Kind::Scalar {
                    is_implicit: style == ScalarStyle::Plain && tag.is_none(),
                    // The tag `!` makes a string of a plain scalar.
                    tag: tag.filter(|tag| tag != "!").unwrap_or_default(),
                    value: value.into_owned(),
                }
            }
            Event::SequenceStart(_, anchor, _) => {
                self.anchor(anchor, id)?;
                self.enter()?;

                let mut items = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if event == Event::SequenceEnd {
                        break;
                    }
                    items.push(self.node(event, span)?);
                }

                self.depth -= 1;
                Kind::Sequence(items)
            }
            Event::MappingStart(_, anchor, _) => {
                self.anchor(anchor, id)?;
                self.enter()?;

                let mut fields = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if event == Event::MappingEnd {
                        break;
                    }
                    let key = self.node(event, span)?;
                    let (event, span) = self.next()?;
                    fields.push((key, self.node(event, span)?));
                }

                self.depth -= 1;
                Kind::Mapping(fields)
            }
            Event::Alias(number) => {
                let Some((of, anchor)) = self.anchors.get(&number).cloned() else {
                    return Err(YamlError(format!("yaml: unexpected alias {number}")));
                };
                Kind::Alias { of, anchor }
            }
            Event::UnresolvedAlias(anchor) => {
                return Err(YamlError(format!(
                    "yaml: unknown anchor '{anchor}' referenced"
                )));
            }
            // The parser has no other events inside of a document.
            other => return Err(YamlError(format!("yaml: unexpected event {other:?}"))),
        };

        self.nodes[id.0].kind = kind;
        Ok(id)
    }

    /// Reads the event with the name of a node's anchor, if the node has one.
    fn anchor(&mut self, number: usize, id: NodeId) -> Result<(), YamlError> {
        if number > 0
            && let (Event::Anchor(_, name), _) = self.next()?
        {
            self.anchors.insert(number, (id, name.into_owned()));
        }
        Ok(())
    }

    /// Refuses the escapes in a quoted scalar that YAML has only since 1.2: `\/`, and a character
    /// in two halves, as JSON has it.
    fn check_escapes(&self, span: &Span) -> Result<(), YamlError> {
        let mut line = span.start.line();
        let mut is_escaped = false;
        let mut rest = span.slice(self.text).unwrap_or_default().chars();
        while let Some(c) = rest.next() {
            match c {
                '/' if is_escaped => {
                    return Err(error_at(line, "found unknown escape character"));
                }
                'u' if is_escaped && is_surrogate(rest.as_str()) => {
                    return Err(error_at(
                        line,
                        "found invalid Unicode character escape code",
                    ));
                }
                '\n' => line += 1,
                _ => {}
            }
            is_escaped = c == '\\' && !is_escaped;
        }

        Ok(())
    }

    fn enter(&mut self) -> Result<(), YamlError> {
        self.depth += 1;
        if self.depth > json::MAX_DEPTH {
            return Err(YamlError::depth());
        }
        Ok(())
    }
}

/// Reports whether a text begins with the digits of a half of a character in UTF-16.
fn is_surrogate(text: &str) -> bool {
    let digits = text.get(..4).unwrap_or_default();
    u32::from_str_radix(digits, 16).is_ok_and(|code| (0xd800..0xe000).contains(&code))
}

fn syntax_error(error: &ScanError) -> YamlError {
    error_at(error.marker().line(), &error.info())
}

/// Returns an error in the form of `goyaml.v2`, which shows a line only if it isn't the first.
fn error_at(line: usize, problem: &str) -> YamlError {
    let place = if line > 1 {
        format!("line {line}: ")
    } else {
        String::new()
    };
    YamlError(format!("yaml: {place}{problem}"))
}

/// Returns a text as UTF-8 without characters that YAML doesn't allow.
///
/// The parser would do so itself, but other words than `goyaml.v2`, and it doesn't expect lone
/// surrogates in UTF-16.
fn decode_text(text: &[u8]) -> Result<Cow<'_, str>, YamlError> {
    let refuse = |problem: &str| YamlError(format!("yaml: {problem}"));

    let (text, problem) = match text {
        [0xff, 0xfe, rest @ ..] => (Cow::Owned(decode_utf16(rest, u16::from_le_bytes)?), None),
        [0xfe, 0xff, rest @ ..] => (Cow::Owned(decode_utf16(rest, u16::from_be_bytes)?), None),
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => match std::str::from_utf8(rest) {
            Ok(text) => (Cow::Borrowed(text), None),
            Err(error) => {
                let (valid, invalid) = rest.split_at(error.valid_up_to());
                (String::from_utf8_lossy(valid), Some(utf8_problem(invalid)))
            }
        },
    };

    let is_allowed = |c: char| match c {
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' => true,
        other => matches!(other, '\u{a0}'..='\u{fffd}' | '\u{10000}'..),
    };
    if !text.chars().all(is_allowed) {
        return Err(refuse("control characters are not allowed"));
    }

    match problem {
        Some(problem) => Err(refuse(problem)),
        None => Ok(text),
    }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, YamlError> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(YamlError("yaml: incomplete UTF-16 character".to_owned()));
    }

    char::decode_utf16(pairs.iter().map(|pair| unit(*pair)))
        .collect::<Result<_, _>>()
        .map_err(|error| {
            let problem = match error.unpaired_surrogate() {
                0xdc00.. => "unexpected low surrogate area",
                _ => "expected low surrogate area",
            };
            YamlError(format!("yaml: {problem}"))
        })
}

/// Returns what libyaml says about bytes that begin with something that is no UTF-8.
fn utf8_problem(bytes: &[u8]) -> &'static str {
    let width = match bytes[0] {
        0..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    if bytes.len() < width {
        return "incomplete UTF-8 octet sequence";
    }
    if bytes[1..width].iter().any(|byte| byte & 0xc0 != 0x80) {
        return "invalid trailing UTF-8 octet";
    }

    match (bytes[0], bytes.get(1)) {
        (0xc0 | 0xc1, _) | (0xe0, Some(0x80..0xa0)) | (0xf0, Some(0x80..0x90)) => {
            "invalid length of a UTF-8 sequence"
        }
        _ => "invalid Unicode character",
    }
}

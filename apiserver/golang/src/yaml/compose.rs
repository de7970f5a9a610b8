//! The nodes of a document, from its tokens, by the grammar of
//! <https://github.com/yaml/go-yaml/blob/v2.4.3/parserc.go>.

use std::collections::HashMap;

use super::{
    Limits, YamlError,
    scan::{Mark, Scanner, TokenKind},
    text,
};

/// A document.
pub(super) struct Document {
    nodes: Vec<Node>,
    /// Whether something follows, which wasn't read.
    pub has_more: bool,
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
        /// Whether the scalar is plain, so that its value may stand for another type. With the tag
        /// `!` it is also set, and has no effect but on the key `<<`.
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
/// Malformed YAML, an alias without an anchor, or what exceeds a limit.
pub(super) fn compose(text: &[u8], limits: &Limits) -> Result<Option<Document>, YamlError> {
    let text = text::decode(text);
    let mut composer = Composer {
        scanner: Scanner::new(&text),
        nodes: Vec::new(),
        anchors: HashMap::new(),
        tags: HashMap::new(),
        depth: 0,
        limits,
    };

    let found = composer.document()?;
    let has_more = found && composer.has_more();
    Ok(found.then_some(Document {
        nodes: composer.nodes,
        has_more,
    }))
}

/// Reads the content of a collection.
type ReadKind<C> = fn(&mut C) -> Result<Kind, YamlError>;

struct Composer<'t> {
    scanner: Scanner<'t>,
    nodes: Vec<Node>,
    /// The last node with each anchor.
    anchors: HashMap<String, NodeId>,
    /// The handles of tags, and what they stand for.
    tags: HashMap<String, String>,
    depth: usize,
    limits: &'t Limits,
}

/// What may stand before a node.
struct Properties {
    anchor: Option<String>,
    /// The tag in its long form. Empty if the node has none.
    tag: String,
}

impl Composer<'_> {
    /// Reads a document. Reports whether there is one.
    fn document(&mut self) -> Result<bool, YamlError> {
        use TokenKind::{DocumentEnd, DocumentStart, StreamEnd, TagDirective, Version};

        match self.peek()? {
            StreamEnd => return Ok(false),
            Version(..) | TagDirective { .. } | DocumentStart => {
                self.directives()?;
                if *self.peek()? != DocumentStart {
                    return Err(self.expected("<document start>"));
                }

                self.scanner.take();
                match self.peek()? {
                    Version(..) | TagDirective { .. } | DocumentStart | DocumentEnd | StreamEnd => {
                        self.empty()?;
                    }
                    _ => {
                        self.node(Place::Block)?;
                    }
                }
            }
            _ => {
                self.directives()?;
                self.node(Place::Block)?;
            }
        }

        // What follows is another document, but its first token has to be one.
        self.peek()?;
        Ok(true)
    }

    /// Reports whether something follows a document.
    fn has_more(&mut self) -> bool {
        let ended = self.take_if(&TokenKind::DocumentEnd);
        let is_end = ended.and_then(|_| Ok(*self.peek()? == TokenKind::StreamEnd));
        !is_end.unwrap_or(false)
    }

    /// Reads the directives, which the tags of the document depend on.
    fn directives(&mut self) -> Result<(), YamlError> {
        let mut has_version = false;
        loop {
            let token = self.scanner.peek()?;
            let mark = token.mark;
            match &token.kind {
                TokenKind::Version(..) if has_version => {
                    return Err(error_at(mark, "found duplicate %YAML directive"));
                }
                TokenKind::Version(1, 1) => has_version = true,
                TokenKind::Version(..) => {
                    return Err(error_at(mark, "found incompatible YAML document"));
                }
                TokenKind::TagDirective { handle, prefix } => {
                    if self.tags.contains_key(handle) {
                        return Err(error_at(mark, "found duplicate %TAG directive"));
                    }
                    self.tags.insert(handle.clone(), prefix.clone());
                }
                _ => break,
            }
            self.scanner.take();
        }

        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            let known = self.tags.entry(handle.to_owned());
            known.or_insert_with(|| prefix.to_owned());
        }
        Ok(())
    }

    fn peek(&mut self) -> Result<&TokenKind, YamlError> {
        self.scanner.peek().map(|token| &token.kind)
    }

    /// Takes the next token if it is of a kind. Reports whether it is.
    fn take_if(&mut self, kind: &TokenKind) -> Result<bool, YamlError> {
        let is_next = self.peek()? == kind;
        if is_next {
            self.scanner.take();
        }
        Ok(is_next)
    }

    /// The error for a next token which isn't what the grammar has at its place.
    fn expected(&mut self, what: &str) -> YamlError {
        match self.scanner.peek() {
            Ok(token) => error_at(token.mark, &format!("did not find expected {what}")),
            Err(error) => error,
        }
    }

    fn add(&mut self, kind: Kind, mark: Mark) -> Result<NodeId, YamlError> {
        if self.nodes.len() >= self.limits.nodes {
            return Err(YamlError::Nodes);
        }
        let id = NodeId(self.nodes.len());
        let line = mark.line + 1;
        self.nodes.push(Node { kind, line });
        Ok(id)
    }

    fn check_aliases(&self) -> Result<(), YamlError> {
        if self.limits.aliases {
            Ok(())
        } else {
            Err(YamlError::Alias)
        }
    }

    /// Enters a list or mapping.
    fn enter(&mut self) -> Result<(), YamlError> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(YamlError::Depth);
        }
        Ok(())
    }

    /// Adds a scalar that isn't written, before the next token.
    fn empty(&mut self) -> Result<NodeId, YamlError> {
        let mark = self.scanner.peek()?.mark;
        self.empty_at(mark)
    }

    /// Adds a scalar that isn't written.
    fn empty_at(&mut self, mark: Mark) -> Result<NodeId, YamlError> {
        let kind = Kind::Scalar {
            tag: String::new(),
            value: String::new(),
            is_implicit: true,
        };
        self.add(kind, mark)
    }

    /// Reads a node.
    fn node(&mut self, place: Place) -> Result<NodeId, YamlError> {
        let mark = self.scanner.peek()?.mark;
        // An alias inside of a node may name the node itself, so its place is known first.
        let id = self.add(Kind::Sequence(Vec::new()), mark)?;
        let kind = self.content(id, place)?;
        self.nodes[id.0].kind = kind;
        Ok(id)
    }

    fn content(&mut self, id: NodeId, place: Place) -> Result<Kind, YamlError> {
        if let TokenKind::Alias(anchor) = self.peek()? {
            let anchor = anchor.clone();
            self.check_aliases()?;
            let Some(of) = self.anchors.get(&anchor).copied() else {
                return Err(YamlError::new(&format!(
                    "unknown anchor '{anchor}' referenced"
                )));
            };
            self.scanner.take();
            return Ok(Kind::Alias { of, anchor });
        }

        let Properties { anchor, tag } = self.properties()?;
        let has_properties = anchor.is_some() || !tag.is_empty();
        let is_block = place != Place::Flow;

        let read: Option<ReadKind<Self>> = match self.peek()? {
            TokenKind::BlockEntry if place == Place::FieldOfBlock => Some(Self::indentless),
            TokenKind::FlowSequenceStart => Some(Self::flow_sequence),
            TokenKind::FlowMappingStart => Some(Self::flow_mapping),
            TokenKind::BlockSequenceStart if is_block => Some(Self::block_sequence),
            TokenKind::BlockMappingStart if is_block => Some(Self::block_mapping),
            TokenKind::Scalar { .. } => None,
            _ if has_properties => None,
            _ => return Err(self.expected("node content")),
        };
        if let Some(anchor) = anchor {
            self.check_aliases()?;
            self.anchors.insert(anchor, id);
        }

        if let Some(read) = read {
            self.enter()?;
            let kind = read(self)?;
            self.depth -= 1;
            return Ok(kind);
        }

        let TokenKind::Scalar { value, is_plain } = self.peek()? else {
            return Ok(Kind::Scalar {
                is_implicit: tag.is_empty(),
                tag,
                value: String::new(),
            });
        };
        let kind = Kind::Scalar {
            is_implicit: (tag.is_empty() && *is_plain) || tag == "!",
            tag,
            value: value.clone(),
        };
        self.scanner.take();
        Ok(kind)
    }

    /// Reads an anchor and a tag, in either order.
    fn properties(&mut self) -> Result<Properties, YamlError> {
        let mut anchor = None;
        let mut tag = None;
        loop {
            let token = self.scanner.peek()?;
            match &token.kind {
                TokenKind::Anchor(name) if anchor.is_none() => anchor = Some(name.clone()),
                TokenKind::Tag { handle, suffix } if tag.is_none() => {
                    tag = Some((handle.clone(), suffix.clone(), token.mark));
                }
                _ => break,
            }
            self.scanner.take();
        }

        let tag = match tag {
            None => String::new(),
            Some((handle, suffix, _)) if handle.is_empty() => suffix,
            Some((handle, suffix, mark)) => match self.tags.get(&handle) {
                Some(prefix) => format!("{prefix}{suffix}"),
                None => return Err(error_at(mark, "found undefined tag handle")),
            },
        };
        Ok(Properties { anchor, tag })
    }

    fn block_sequence(&mut self) -> Result<Kind, YamlError> {
        self.scanner.take();
        let mut items = Vec::new();

        loop {
            let mark = self.scanner.peek()?.mark;
            if self.take_if(&TokenKind::BlockEntry)? {
                items.push(match self.peek()? {
                    TokenKind::BlockEntry | TokenKind::BlockEnd => self.empty_at(mark)?,
                    _ => self.node(Place::Block)?,
                });
            } else if self.take_if(&TokenKind::BlockEnd)? {
                return Ok(Kind::Sequence(items));
            } else {
                return Err(self.expected("'-' indicator"));
            }
        }
    }

    /// Reads a sequence that is indented no further than the key before it.
    fn indentless(&mut self) -> Result<Kind, YamlError> {
        use TokenKind::{BlockEnd, BlockEntry, Key, Value};
        let mut items = Vec::new();

        loop {
            let mark = self.scanner.peek()?.mark;
            if !self.take_if(&BlockEntry)? {
                return Ok(Kind::Sequence(items));
            }
            items.push(match self.peek()? {
                BlockEntry | Key | Value | BlockEnd => self.empty_at(mark)?,
                _ => self.node(Place::Block)?,
            });
        }
    }

    fn block_mapping(&mut self) -> Result<Kind, YamlError> {
        self.scanner.take();
        let mut fields = Vec::new();

        loop {
            let mark = self.scanner.peek()?.mark;
            if self.take_if(&TokenKind::BlockEnd)? {
                return Ok(Kind::Mapping(fields));
            }
            if !self.take_if(&TokenKind::Key)? {
                return Err(self.expected("key"));
            }
            let key = self.block_field(mark)?;

            let mark = self.scanner.peek()?.mark;
            let value = if self.take_if(&TokenKind::Value)? {
                self.block_field(mark)?
            } else {
                self.empty_at(mark)?
            };
            fields.push((key, value));
        }
    }

    /// Reads the key or value after its indicator.
    fn block_field(&mut self, mark: Mark) -> Result<NodeId, YamlError> {
        match self.peek()? {
            TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd => self.empty_at(mark),
            _ => self.node(Place::FieldOfBlock),
        }
    }

    fn flow_sequence(&mut self) -> Result<Kind, YamlError> {
        self.scanner.take();
        let mut items = Vec::new();

        loop {
            if self.take_if(&TokenKind::FlowSequenceEnd)? {
                return Ok(Kind::Sequence(items));
            }
            if !items.is_empty() {
                if !self.take_if(&TokenKind::FlowEntry)? {
                    return Err(self.expected("',' or ']'"));
                }
                if self.take_if(&TokenKind::FlowSequenceEnd)? {
                    return Ok(Kind::Sequence(items));
                }
            }

            let mark = self.scanner.peek()?.mark;
            items.push(if self.take_if(&TokenKind::Key)? {
                let id = self.add(Kind::Sequence(Vec::new()), mark)?;
                self.nodes[id.0].kind = self.pair()?;
                id
            } else {
                self.node(Place::Flow)?
            });
        }
    }

    /// Reads the mapping of one field that an item of a flow sequence may be, without braces.
    fn pair(&mut self) -> Result<Kind, YamlError> {
        use TokenKind::{FlowEntry, FlowSequenceEnd, Value};

        self.enter()?;
        let key = match self.peek()? {
            // Go takes the token, so that `[? : a]` isn't accepted.
            Value | FlowEntry | FlowSequenceEnd => {
                let key = self.empty()?;
                self.scanner.take();
                key
            }
            _ => self.node(Place::Flow)?,
        };
        let value = if self.take_if(&Value)? {
            match self.peek()? {
                FlowEntry | FlowSequenceEnd => self.empty()?,
                _ => self.node(Place::Flow)?,
            }
        } else {
            self.empty()?
        };

        self.depth -= 1;
        Ok(Kind::Mapping(vec![(key, value)]))
    }

    fn flow_mapping(&mut self) -> Result<Kind, YamlError> {
        use TokenKind::{FlowEntry, FlowMappingEnd, Key, Value};

        self.scanner.take();
        let mut fields = Vec::new();

        loop {
            if self.take_if(&FlowMappingEnd)? {
                return Ok(Kind::Mapping(fields));
            }
            if !fields.is_empty() {
                if !self.take_if(&FlowEntry)? {
                    return Err(self.expected("',' or '}'"));
                }
                if self.take_if(&FlowMappingEnd)? {
                    return Ok(Kind::Mapping(fields));
                }
            }

            if !self.take_if(&Key)? {
                let key = self.node(Place::Flow)?;
                fields.push((key, self.empty()?));
                continue;
            }
            let key = match self.peek()? {
                Value | FlowEntry | FlowMappingEnd => self.empty()?,
                _ => self.node(Place::Flow)?,
            };
            let has_value = self.take_if(&Value)?;
            let value = match self.peek()? {
                FlowEntry | FlowMappingEnd => self.empty()?,
                _ if has_value => self.node(Place::Flow)?,
                _ => self.empty()?,
            };
            fields.push((key, value));
        }
    }
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a document or a block sequence.
    Block,
    /// In a block mapping, where a sequence needs no further indent.
    FieldOfBlock,
    /// In a flow collection.
    Flow,
}

/// Returns the error of a token. Go shows its line one too low.
fn error_at(mark: Mark, problem: &str) -> YamlError {
    mark.error(mark.line, problem)
}

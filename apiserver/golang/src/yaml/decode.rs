//! The values of a document's nodes, and their JSON.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashSet},
};

use super::{
    Limits, YamlError,
    compose::{Document, Kind, NodeId},
    resolve::{self, MERGE, Scalar},
};
use crate::json;

/// A value as Go has it before it becomes JSON. Strings may have any bytes: those of a `!!binary`.
#[derive(Clone, Debug)]
pub(super) enum Decoded {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    String(Vec<u8>),
    List(Vec<Self>),
    Map(BTreeMap<Key, Self>),
}

/// The key of a mapping. Keys of different types are different, even if JSON writes them alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(FloatKey),
    String(Vec<u8>),
}

/// A float64 as a key. Both zeros are the same one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloatKey(f64);

impl Ord for FloatKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let unsigned = |value: f64| if value == 0.0 { 0.0 } else { value };
        unsigned(self.0).total_cmp(&unsigned(other.0))
    }
}

impl PartialOrd for FloatKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FloatKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for FloatKey {}

/// Decodes a document. Also returns its duplicate keys.
///
/// # Errors
///
/// A tag that doesn't fit its value, a merge of something else than mappings, or too many aliases.
pub(super) fn decode(
    document: &Document,
    limits: &Limits,
) -> Result<(Decoded, Vec<String>), YamlError> {
    let mut decoder = Decoder {
        document,
        limits,
        aliases: HashSet::new(),
        duplicates: Vec::new(),
        depth: 0,
        // The document itself counts too.
        nodes: 1,
        aliased: 0,
    };

    let value = decoder.value(document.root())?;
    Ok((value, decoder.duplicates))
}

struct Decoder<'a> {
    document: &'a Document,
    limits: &'a Limits,
    /// The aliases that are being decoded.
    aliases: HashSet<NodeId>,
    duplicates: Vec<String>,
    depth: usize,
    /// How many nodes were decoded.
    nodes: u32,
    /// How many of them were in an alias.
    aliased: u32,
}

impl Decoder<'_> {
    fn value(&mut self, id: NodeId) -> Result<Decoded, YamlError> {
        self.count()?;
        Ok(match &self.document.get(id).kind {
            Kind::Scalar {
                tag,
                value,
                is_implicit,
            } => scalar(tag, value, *is_implicit)?,
            Kind::Sequence(items) => {
                self.enter()?;
                let items = items.iter().map(|item| self.value(*item));
                let items = items.collect::<Result<_, _>>()?;
                self.depth -= 1;
                Decoded::List(items)
            }
            Kind::Mapping(fields) => {
                let mut map = BTreeMap::new();
                self.enter()?;
                self.fields(fields, &mut map)?;
                self.depth -= 1;
                Decoded::Map(map)
            }
            Kind::Alias { of, anchor } => {
                self.begin_alias(id, anchor)?;
                let value = self.value(*of)?;
                self.aliases.remove(&id);
                value
            }
        })
    }

    /// Decodes the fields of a mapping into a map. A later field replaces an earlier one, whichever
    /// of them was merged.
    fn fields(
        &mut self,
        fields: &[(NodeId, NodeId)],
        map: &mut BTreeMap<Key, Decoded>,
    ) -> Result<(), YamlError> {
        for (key, value) in fields {
            if self.is_merge(*key) {
                if !self.limits.aliases {
                    return Err(YamlError::Alias);
                }
                self.merge(*value, map)?;
                continue;
            }

            let key = self.value(*key)?.into_key()?;
            let line = self.document.get(*value).line;
            let value = self.value(*value)?;
            // As in Go, the last one of equal keys is kept, which matters to zeros.
            if map.remove(&key).is_some() {
                let shown = key.go_syntax();
                self.duplicates
                    .push(format!("line {line}: key {shown} already set in map"));
            }
            map.insert(key, value);
        }

        Ok(())
    }

    fn is_merge(&self, key: NodeId) -> bool {
        match &self.document.get(key).kind {
            Kind::Scalar {
                tag,
                value,
                is_implicit,
            } => value == "<<" && (*is_implicit || tag == MERGE),
            _ => false,
        }
    }

    /// Adds the fields of a mapping, or of each of several, of which the first counts most.
    fn merge(&mut self, id: NodeId, map: &mut BTreeMap<Key, Decoded>) -> Result<(), YamlError> {
        match &self.document.get(id).kind {
            Kind::Sequence(items) => {
                for item in items.iter().rev() {
                    self.merge_one(*item, map)?;
                }
                Ok(())
            }
            _ => self.merge_one(id, map),
        }
    }

    fn merge_one(&mut self, id: NodeId, map: &mut BTreeMap<Key, Decoded>) -> Result<(), YamlError> {
        let wrong = || YamlError::new("map merge requires map or sequence of maps as the value");

        self.count()?;
        match &self.document.get(id).kind {
            Kind::Mapping(fields) => {
                self.enter()?;
                self.fields(fields, map)?;
                self.depth -= 1;
            }
            Kind::Alias { of, anchor } => {
                let Kind::Mapping(fields) = &self.document.get(*of).kind else {
                    return Err(wrong());
                };

                self.begin_alias(id, anchor)?;
                self.count()?;
                self.enter()?;
                self.fields(fields, map)?;
                self.depth -= 1;
                self.aliases.remove(&id);
            }
            Kind::Scalar { .. } | Kind::Sequence(_) => return Err(wrong()),
        }

        Ok(())
    }

    fn begin_alias(&mut self, id: NodeId, anchor: &str) -> Result<(), YamlError> {
        if !self.aliases.insert(id) {
            return Err(YamlError::new(&format!(
                "anchor '{anchor}' value contains itself"
            )));
        }
        Ok(())
    }

    /// Enters a list or mapping.
    fn enter(&mut self) -> Result<(), YamlError> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(YamlError::Depth);
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), YamlError> {
        self.nodes += 1;
        self.aliased += u32::from(!self.aliases.is_empty());

        let (count, aliased) = (f64::from(self.nodes), f64::from(self.aliased));
        if self.aliased > 100 && self.nodes > 1000 && aliased / count > allowed_alias_ratio(count) {
            return Err(YamlError::new("document contains excessive aliasing"));
        }

        Ok(())
    }
}

/// The share of nodes that may come from aliases: the more nodes, the fewer.
///
/// <https://github.com/yaml/go-yaml/blob/v2.4.3/decode.go> has the same numbers.
fn allowed_alias_ratio(count: f64) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;

    let share = ((count - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
    0.99 - 0.89 * share
}

fn scalar(tag: &str, text: &str, is_implicit: bool) -> Result<Decoded, YamlError> {
    if tag.is_empty() && !is_implicit {
        return Ok(Decoded::String(text.into()));
    }

    let value = if tag.is_empty() {
        resolve::resolve(text)
    } else {
        resolve::resolve_tagged(tag, text)?
    };

    Ok(match value {
        Scalar::Null => Decoded::Null,
        Scalar::Bool(value) => Decoded::Bool(value),
        Scalar::Int(value) => Decoded::Int(value),
        Scalar::Uint(value) => Decoded::Uint(value),
        Scalar::Float(value) => Decoded::Float(value),
        Scalar::Binary(bytes) => Decoded::String(bytes),
        Scalar::Timestamp | Scalar::String => Decoded::String(text.into()),
    })
}

impl Decoded {
    fn into_key(self) -> Result<Key, YamlError> {
        Ok(match self {
            Self::Null => Key::Null,
            Self::Bool(value) => Key::Bool(value),
            Self::Int(value) => Key::Int(value),
            Self::Uint(value) => Key::Uint(value),
            Self::Float(value) => Key::Float(FloatKey(value)),
            Self::String(text) => Key::String(text),
            Self::List(_) | Self::Map(_) => {
                return Err(YamlError::new("invalid map key"));
            }
        })
    }

    /// Appends the value as Go's `encoding/json` writes it. Sets `is_ambiguous` if a mapping has keys
    /// that are written alike.
    ///
    /// # Errors
    ///
    /// A number that isn't finite, or a key that can't be a string.
    pub fn write_json(&self, out: &mut Vec<u8>, is_ambiguous: &mut bool) -> Result<(), YamlError> {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Self::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
            // JSON keeps all digits; who reads it as a custom resource gets a float64.
            Self::Uint(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Self::Float(value) if !value.is_finite() => {
                let shown = match value {
                    value if value.is_nan() => "NaN",
                    value if *value > 0.0 => "+Inf",
                    _ => "-Inf",
                };
                return Err(YamlError::without_place(format!(
                    "json: unsupported value: {shown}"
                )));
            }
            Self::Float(value) => out.extend_from_slice(json::float(*value).as_bytes()),
            Self::String(text) => json::write_bytes(text, out),
            Self::List(items) => {
                out.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    item.write_json(out, is_ambiguous)?;
                }
                out.push(b']');
            }
            Self::Map(fields) => {
                let mut named: BTreeMap<_, &Self> = BTreeMap::new();
                for (key, value) in fields {
                    if let Some(replaced) = named.insert(key.to_json_key()?, value) {
                        *is_ambiguous = true;
                        // It has to be writable too.
                        replaced.write_json(&mut Vec::new(), is_ambiguous)?;
                    }
                }

                out.push(b'{');
                for (at, (name, value)) in named.into_iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    json::write_bytes(&name, out);
                    out.push(b':');
                    value.write_json(out, is_ambiguous)?;
                }
                out.push(b'}');
            }
        }

        Ok(())
    }
}

impl Key {
    /// The key as a field's name.
    fn to_json_key(&self) -> Result<Vec<u8>, YamlError> {
        let unsupported =
            |kind: &str| YamlError::without_place(format!("unsupported map key of type: {kind}"));

        match self {
            Self::Null => Err(unsupported("%!s(<nil>)")),
            Self::Uint(_) => Err(unsupported("uint64")),
            Self::Bool(value) => Ok(value.to_string().into()),
            Self::Int(value) => Ok(value.to_string().into()),
            Self::Float(FloatKey(value)) => Ok(float_key(*value).into()),
            Self::String(text) => Ok(text.clone()),
        }
    }

    /// The key as `%#v` shows it.
    fn go_syntax(&self) -> String {
        match self {
            Self::Null => "<nil>".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => format!("{value:#x}"),
            Self::Float(FloatKey(value)) => crate::float(*value),
            Self::String(text) => crate::quote_bytes(text),
        }
    }
}

/// A float as a field's name, which has the precision of a float32.
#[expect(clippy::cast_possible_truncation, reason = "Go converts the same way")]
fn float_key(value: f64) -> String {
    let value = value as f32;
    match value {
        value if value.is_nan() => ".nan".to_owned(),
        f32::INFINITY => ".inf".to_owned(),
        f32::NEG_INFINITY => "-.inf".to_owned(),
        value => crate::general(value),
    }
}

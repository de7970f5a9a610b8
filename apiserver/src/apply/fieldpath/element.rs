//! A step of a path.

use std::{cmp::Ordering, fmt};

use serde_json::Value;

use crate::apply::value::{compare, display};

/// A step from an object to one of its fields or items.
///
/// Elements are ordered by kind as listed here, then by content.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a map or struct.
    Field(String),
    /// The item of a list of maps with these keys, sorted by name.
    Key(Vec<(String, Value)>),
    /// The item of a set with this value.
    Value(Value),
    /// The item of an atomic list at this index.
    Index(i64),
}

impl PathElement {
    /// The element of a field.
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// The element of a list item with the given keys, in any order.
    pub fn key(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_by(|(left, _), (right, _)| left.cmp(right));
        Self::Key(fields)
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_keys(left, right),
            (Self::Value(left), Self::Value(right)) => compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn compare_keys(left: &[(String, Value)], right: &[(String, Value)]) -> Ordering {
    let pairs = left.iter().zip(right);

    let differing = pairs
        .map(|(left, right)| {
            left.0
                .cmp(&right.0)
                .then_with(|| compare(&left.1, &right.1))
        })
        .find(|order| order.is_ne());

    differing.unwrap_or_else(|| left.len().cmp(&right.len()))
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", display(value)))
                    .collect();
                write!(formatter, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(formatter, "[={}]", display(value)),
            Self::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

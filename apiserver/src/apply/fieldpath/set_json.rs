//! The encoding `FieldsV1` of sets of fields.
//!
//! A set is an object. Each key is a path element, and its value the object of what lies below. An
//! element that is a member itself, and has others below it, has the key `.` there.

use serde_json::{Map, Value};

use super::{element::PathElement, element_json::ElementError, set::FieldSet};
use crate::apply::value::string_text;

/// The key that makes the element above it a member.
const SELF: &str = ".";

/// Fields that are not in the format `FieldsV1`.
#[derive(Debug, thiserror::Error)]
pub enum FieldsV1Error {
    /// A key is not a path element.
    #[error("parsing key as path element: {0}")]
    Element(#[from] ElementError),
    /// A value is not an object.
    #[error("ReadMapCB: expect {{ or n, but found {0}")]
    NotAnObject(String),
}

impl FieldSet {
    /// Encodes the set as an object.
    ///
    /// The order of its keys depends on the features of serde_json; use `to_fields_text` for the order
    /// of the API server.
    pub fn to_fields(&self) -> Value {
        Value::Object(self.fields(false))
    }

    fn fields(&self, is_member: bool) -> Map<String, Value> {
        let mut fields = Map::new();
        if is_member {
            fields.insert(SELF.into(), Value::Object(Map::new()));
        }

        for (element, member, child) in self.entries() {
            let below = child.map(|child| child.fields(member)).unwrap_or_default();
            fields.insert(element.to_key(), Value::Object(below));
        }

        fields
    }

    /// Encodes the set as the text that the API server writes.
    pub fn to_fields_text(&self) -> String {
        let mut text = String::new();
        self.push_text(false, &mut text);
        text
    }

    fn push_text(&self, is_member: bool, text: &mut String) {
        text.push('{');
        let mut first = true;

        let mut push_key = |text: &mut String, key: &str| {
            if !std::mem::take(&mut first) {
                text.push(',');
            }
            text.push_str(&string_text(key));
            text.push(':');
        };

        if is_member {
            push_key(text, SELF);
            text.push_str("{}");
        }

        for (element, member, child) in self.entries() {
            push_key(text, &element.to_key());
            match child {
                Some(child) => child.push_text(member, text),
                None => text.push_str("{}"),
            }
        }

        text.push('}');
    }

    /// Merges members and children: each element once and in order, whether it is a member, and what
    /// is below it.
    fn entries(&self) -> Vec<(&PathElement, bool, Option<&FieldSet>)> {
        let mut members = self.members.iter().peekable();
        let mut children = self.children.iter().peekable();
        let mut entries = Vec::with_capacity(self.members.len() + self.children.len());

        loop {
            let order = match (members.peek(), children.peek()) {
                (None, None) => return entries,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(member), Some((element, _))) => (*member).cmp(element),
            };

            let member = if order.is_le() { members.next() } else { None };
            let child = if order.is_ge() { children.next() } else { None };

            let element = member.or(child.map(|(element, _)| element));
            entries.extend(
                element.map(|element| (element, member.is_some(), child.map(|(_, child)| child))),
            );
        }
    }

    /// Decodes the object `fieldsV1`, skipping elements of an unknown kind.
    ///
    /// # Errors
    /// Returns which key or value is invalid.
    pub fn from_fields(fields: &Value) -> Result<Self, FieldsV1Error> {
        Ok(decode(fields)?.0.unwrap_or_default())
    }
}

/// Decodes what is below an element, and whether the element is a member itself.
fn decode(fields: &Value) -> Result<(Option<FieldSet>, bool), FieldsV1Error> {
    let fields = match fields {
        Value::Object(fields) => fields,
        Value::Null => return Ok((None, true)),
        other => {
            return Err(FieldsV1Error::NotAnObject(
                other.to_string().chars().take(1).collect(),
            ));
        }
    };

    let mut below: Option<FieldSet> = None;
    let mut is_member = false;
    for (key, value) in fields {
        if key == SELF {
            is_member = true;
            continue;
        }

        let element = match PathElement::from_key(key) {
            Ok(element) => element,
            Err(ElementError::UnknownType) => continue,
            Err(error) => return Err(error.into()),
        };

        let (grandchildren, child_is_member) = decode(value)?;
        let set = below.get_or_insert_default();
        if child_is_member {
            set.members.insert(element.clone());
        }
        if let Some(grandchildren) = grandchildren {
            set.children.insert(element, grandchildren);
        }
    }

    is_member |= below.is_none();
    Ok((below, is_member))
}

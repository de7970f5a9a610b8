//! The greatest sizes of values by their schemas, and how often a value fits into a request.

use std::collections::BTreeMap;

use super::schema_types::{escape, with_metadata};
use crate::{apiextensions::schema::Schema, cel::cost};

/// The greatest size of a request in bytes.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// The size of values of a schema.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// The most characters, elements or entries; zero for values without such.
    greatest: u64,
    /// The fewest bytes of a value in a request.
    least_bytes: u64,
    inside: Inside,
}

/// The sizes of the values inside of a value.
#[derive(Clone, Debug, Default)]
enum Inside {
    #[default]
    None,
    Items(Box<Sizes>),
    Entries(Box<Sizes>),
    Fields(BTreeMap<String, Sizes>),
}

fn bound(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or(0)
}

impl Sizes {
    fn new(greatest: u64, least_bytes: u64) -> Self {
        Self {
            greatest,
            least_bytes,
            inside: Inside::None,
        }
    }

    /// Returns the sizes of values of a schema; none if rules cannot see them.
    pub fn of(schema: &Schema, is_resource: bool) -> Option<Self> {
        if schema.int_or_string {
            return Some(Self::new(text_size(schema), 1));
        }

        match schema.kind.as_str() {
            "array" => {
                let item = schema.item()?;
                let inner = Self::of(item, item.embedded_resource)?;
                let greatest = schema
                    .max_items
                    .map_or((MAX_REQUEST - 2) / (inner.least_bytes + 1), bound);

                Some(Self {
                    greatest,
                    least_bytes: 2,
                    inside: Inside::Items(Box::new(inner)),
                })
            }
            "object" => match schema.additional() {
                Some(value) => {
                    let inner = Self::of(value, value.embedded_resource)?;
                    // An entry has quotes, a colon and a comma, and a key.
                    let greatest = schema
                        .max_properties
                        .map_or((MAX_REQUEST - 2) / (inner.least_bytes + 6), bound);

                    Some(Self {
                        greatest,
                        least_bytes: 2,
                        inside: Inside::Entries(Box::new(inner)),
                    })
                }
                None => Some(Self::of_object(schema, is_resource)),
            },
            "string" => Some(match schema.format.as_str() {
                "byte" => Self::new(schema.max_length.map_or(MAX_REQUEST - 2, bound), 2),
                "duration" => Self::new(32, 3),
                "date" => Self::new(12, 12),
                "date-time" => Self::new(32, 21),
                _ => Self::new(text_size(schema), 2),
            }),
            "boolean" => Some(Self::new(0, 4)),
            "number" | "integer" => Some(Self::new(0, 1)),
            _ => None,
        }
    }

    fn of_object(schema: &Schema, is_resource: bool) -> Self {
        let extended = is_resource.then(|| with_metadata(schema));
        let mut least_bytes = 2;
        let mut fields = BTreeMap::new();

        for (name, property) in &extended.as_ref().unwrap_or(schema).properties {
            let Some(size) = Self::of(property, property.embedded_resource) else {
                continue;
            };

            if schema.required.contains(name) && property.default.is_none() {
                least_bytes += u64::try_from(name.len()).unwrap_or(0) + size.least_bytes + 4;
            }
            if let Some(escaped) = escape(name) {
                fields.insert(escaped, size);
            }
        }

        Self {
            greatest: 0,
            least_bytes,
            inside: Inside::Fields(fields),
        }
    }

    /// Returns how many such values fit into a request.
    pub fn most_in_request(&self) -> u64 {
        MAX_REQUEST / (self.least_bytes + 1)
    }
}

/// Returns the largest size of a string in bytes: a character has up to four.
fn text_size(schema: &Schema) -> u64 {
    let names = || {
        schema
            .allowed
            .iter()
            .filter_map(|value| value.as_str().map(str::len))
            .max()
            .unwrap_or(0)
    };

    match schema.max_length {
        Some(length) => bound(length).saturating_mul(4),
        None if !schema.int_or_string && !schema.allowed.is_empty() => {
            u64::try_from(names()).unwrap_or(0)
        }
        None => MAX_REQUEST - 2,
    }
}

impl cost::Sizes for Sizes {
    fn greatest(&self, path: &[String]) -> Option<u64> {
        let keys = Self::new(0, 2);
        let mut at = self;
        for part in path.iter().skip(1) {
            at = match (part.as_str(), &at.inside) {
                ("@items" | "@values", Inside::Items(inner) | Inside::Entries(inner)) => inner,
                ("@keys", Inside::Entries(_)) => &keys,
                (field, Inside::Fields(fields)) => fields.get(field)?,
                _ => return None,
            };
        }

        Some(at.greatest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::cost::Sizes as _;
    use serde_json::json;

    #[test]
    fn sizes_follow_the_limits_of_schemas() {
        let schema: Schema = serde_json::from_value(json!({"type": "object", "required": ["list"], "properties": {
            "list": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 5}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            "name": {"type": "string", "enum": ["a", "abc"]}
        }}))
        .expect("schema");
        let sizes = Sizes::of(&schema, false).expect("sizes");
        let greatest = |path: &[&str]| {
            sizes.greatest(&path.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(greatest(&["self", "list"]), Some(3));
        assert_eq!(greatest(&["self", "list", "@items"]), Some(20));
        assert_eq!(greatest(&["self", "map"]), Some((MAX_REQUEST - 2) / 7));
        assert_eq!(greatest(&["self", "map", "@keys"]), Some(0));
        assert_eq!(greatest(&["self", "name"]), Some(3));
        assert_eq!(greatest(&["self", "none"]), None);
        assert_eq!(sizes.most_in_request(), MAX_REQUEST / (2 + 4 + 2 + 4 + 1));
    }
}

//! The types of fields.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value;

/// The type of values without a schema whose maps merge by field and whose lists are atomic.
pub const DEDUCED_TYPE: &str = "__untyped_deduced_";

/// The type of values without a schema that are atomic at each level.
pub const UNTYPED_TYPE: &str = "__untyped_atomic_";

/// A kind of scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Integers and floats.
    Numeric,
    /// Strings.
    String,
    /// Booleans.
    Boolean,
    /// Any scalar.
    Untyped,
}

/// The relationship between the elements of a map or list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relationship {
    /// Each element has its own managers. The default of maps.
    #[default]
    Separable,
    /// Each item has its own managers: a set, or a map if the list has keys.
    Associative,
    /// The whole has one value, like a scalar.
    Atomic,
}

/// The shapes that a value may have: those that are set. Without any, no value is valid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Atom {
    /// The scalars that are valid.
    pub scalar: Option<Scalar>,
    /// The lists that are valid.
    pub list: Option<Arc<ListType>>,
    /// The maps and structs that are valid.
    pub map: Option<Arc<MapType>>,
}

impl Atom {
    /// Creates the atom of a scalar.
    pub fn scalar(scalar: Scalar) -> Self {
        Self {
            scalar: Some(scalar),
            ..Self::default()
        }
    }

    /// Narrows to the value's own shape. If the value is null or has none of the shapes, all remain.
    pub(crate) fn deduce(&self, value: Option<&Value>) -> Self {
        let narrowed = match value {
            None | Some(Value::Null) => None,
            Some(Value::Array(_)) => self.list.clone().map(|list| Self {
                list: Some(list),
                ..Self::default()
            }),
            Some(Value::Object(_)) => self.map.clone().map(|map| Self {
                map: Some(map),
                ..Self::default()
            }),
            Some(_) => self.scalar.map(Self::scalar),
        };

        narrowed.unwrap_or_else(|| self.clone())
    }

    /// Reports whether two atoms narrowed from the same one have the same shapes.
    pub(crate) fn same_shapes(&self, other: &Self) -> bool {
        self.scalar.is_some() == other.scalar.is_some()
            && self.list.is_some() == other.list.is_some()
            && self.map.is_some() == other.map.is_some()
    }
}

/// A list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListType {
    /// The type of the items.
    pub element: TypeRef,
    /// The relationship between the items.
    pub relationship: Relationship,
    /// The fields that identify an item of an associative list. Without any, it is a set of scalars.
    pub keys: Vec<String>,
}

/// A map or a struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapType {
    /// The known fields.
    pub fields: Arc<BTreeMap<String, StructField>>,
    /// The type of other fields. If it is empty, there may be none.
    pub element: TypeRef,
    /// The relationship between the fields.
    pub relationship: Relationship,
}

impl MapType {
    /// Returns the type of a field.
    pub(crate) fn field_type(&self, name: &str) -> &TypeRef {
        self.fields
            .get(name)
            .map_or(&self.element, |field| &field.type_ref)
    }
}

/// A field of a struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StructField {
    /// The field's type.
    pub type_ref: TypeRef,
    /// The field's default. It only matters for list keys.
    pub default: Option<Value>,
}

/// A reference to a named type, or a type in place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeRef {
    /// The name of the type.
    pub name: Option<Arc<str>>,
    /// The type, if there is no name.
    pub inline: Atom,
    /// Overrides the relationship of the type's elements.
    pub relationship: Option<Relationship>,
}

impl TypeRef {
    /// Refers to a named type.
    pub fn named(name: &str) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }

    /// Holds a type in place.
    pub fn inline(inline: Atom) -> Self {
        Self {
            inline,
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.name.is_none() && self.inline == Atom::default() && self.relationship.is_none()
    }

    /// The name, for messages.
    pub(crate) fn describe(&self) -> &str {
        self.name.as_deref().unwrap_or("inlined type")
    }
}

/// A collection of named types.
#[derive(Clone, Debug)]
pub struct Schema {
    types: HashMap<Arc<str>, Atom>,
}

impl Schema {
    /// Creates a schema of named types, besides the two types of values without a schema.
    pub fn new(types: impl IntoIterator<Item = (String, Atom)>) -> Self {
        let common = [
            (DEDUCED_TYPE, deduced_atom()),
            (UNTYPED_TYPE, untyped_atom()),
        ]
        .into_iter()
        .map(|(name, atom)| (Arc::from(name), atom));

        Self {
            types: common
                .chain(
                    types
                        .into_iter()
                        .map(|(name, atom)| (Arc::from(name), atom)),
                )
                .collect(),
        }
    }

    /// Returns the type behind a reference, or `None` if it is unknown.
    pub fn resolve(&self, type_ref: &TypeRef) -> Option<Atom> {
        let atom = match &type_ref.name {
            Some(name) => self.types.get(name)?.clone(),
            None => type_ref.inline.clone(),
        };

        let Some(relationship) = type_ref.relationship else {
            return Some(atom);
        };

        match (atom.map, atom.list) {
            (Some(map), list) => {
                let map = Arc::new(MapType {
                    relationship,
                    ..(*map).clone()
                });
                Some(Atom {
                    map: Some(map),
                    list,
                    scalar: atom.scalar,
                })
            }
            (None, Some(list)) => {
                let list = Arc::new(ListType {
                    relationship,
                    ..(*list).clone()
                });
                Some(Atom {
                    list: Some(list),
                    map: None,
                    scalar: atom.scalar,
                })
            }
            (None, None) => None,
        }
    }
}

/// The type of the objects of a kind.
#[derive(Clone, Debug)]
pub struct ObjectType {
    /// The types that the root refers to.
    pub schema: Arc<Schema>,
    /// The type of the whole object.
    pub root: TypeRef,
}

impl ObjectType {
    /// Returns the type of objects without a schema.
    pub fn deduced() -> Self {
        Self {
            schema: Arc::new(Schema::new([])),
            root: TypeRef::named(DEDUCED_TYPE),
        }
    }
}

fn deduced_atom() -> Atom {
    let map = MapType {
        element: TypeRef::named(DEDUCED_TYPE),
        ..MapType::default()
    };

    Atom {
        map: Some(Arc::new(map)),
        ..untyped_atom()
    }
}

/// The atom of values that are atomic at each level.
pub(super) fn untyped_atom() -> Atom {
    let element = TypeRef::named(UNTYPED_TYPE);

    let relationship = Relationship::Atomic;
    let map = MapType {
        element: element.clone(),
        relationship,
        ..MapType::default()
    };

    let list = ListType {
        element,
        relationship,
        keys: Vec::new(),
    };

    Atom {
        scalar: Some(Scalar::Untyped),
        list: Some(Arc::new(list)),
        map: Some(Arc::new(map)),
    }
}

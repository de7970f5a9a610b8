//! The Go types of the built-in kinds: the order of their fields, and what Go's JSON encoding
//! leaves out.

use std::{collections::HashMap, sync::LazyLock};

use super::super::data::DATA;

/// An index into [`Types`].
pub(crate) type TypeId = usize;

/// What a Go type consists of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Struct(Vec<Field>),
    Pointer(TypeId),
    Slice(TypeId),
    Map(TypeId),
    Bytes,
    String,
    Bool,
    /// A signed integer of this many bits.
    Int(u32),
    Float,
    /// A type with its own JSON encoding, by its name.
    Custom,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: Box<str>,
    pub(crate) of: TypeId,
    /// `omitempty`: leaves out false, 0, nil, and empty texts, lists and maps.
    pub(crate) omit_empty: bool,
    /// `omitzero`: leaves out zero values of structs.
    pub(crate) omit_zero: bool,
    /// The embedded structs that it comes from, such as `TypeMeta`; empty for most fields.
    pub(crate) embedded: Vec<Box<str>>,
}

/// A Go type.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    /// The name in Go's messages, as in `v1.PodSpec`.
    pub(crate) name: Box<str>,
    pub(crate) shape: Shape,
}

impl Type {
    /// The name without its package.
    pub(crate) fn bare_name(&self) -> &str {
        self.name
            .rsplit_once('.')
            .map_or(&self.name, |(_, bare)| bare)
    }
}

/// All types, by their names and by kind.
pub(crate) struct Types {
    types: Vec<Type>,
    by_name: HashMap<Box<str>, TypeId>,
    kinds: HashMap<Box<str>, TypeId>,
}

/// The types of the built-in kinds.
pub(crate) static TYPES: LazyLock<Types> = LazyLock::new(|| Types::parse(&DATA.types));

impl Types {
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<TypeId> {
        self.kinds
            .get(format!("{api_version} {kind}").as_str())
            .copied()
    }

    /// The type with a name such as `meta/v1.LabelSelector`.
    pub(crate) fn named(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, id: TypeId) -> &Type {
        &self.types[id]
    }

    /// The type behind all pointers.
    pub(crate) fn target(&self, mut id: TypeId) -> TypeId {
        while let Shape::Pointer(of) = self.types[id].shape {
            id = of;
        }
        id
    }

    fn parse(text: &str) -> Self {
        let mut types = Self {
            types: Vec::new(),
            by_name: HashMap::new(),
            kinds: HashMap::new(),
        };
        let mut current = None;

        for line in text.lines() {
            if let Some(kind) = line.strip_prefix('@') {
                if let Some((kind, name)) = kind.rsplit_once(' ') {
                    let id = types.intern(name);
                    types.kinds.insert(kind.into(), id);
                }
            } else if let Some((name, shape)) =
                line.strip_prefix('=').and_then(|rest| rest.split_once(' '))
            {
                let id = types.intern(name);
                types.types[id].shape = types.shape(shape);
                current = Some(id);
            } else if let Some(id) = current {
                types.add_field(id, line);
            }
        }

        types
    }

    fn add_field(&mut self, id: TypeId, line: &str) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let of = self.intern(words.next().unwrap_or_default());
        let flags = words.next().unwrap_or_default();
        let embedded = words.next().unwrap_or_default();

        let field = Field {
            name: name.into(),
            of,
            omit_empty: flags.contains('o'),
            omit_zero: flags.contains('z'),
            embedded: embedded
                .split('.')
                .filter(|part| !part.is_empty())
                .map(Into::into)
                .collect(),
        };

        if let Shape::Struct(fields) = &mut self.types[id].shape {
            fields.push(field);
        }
    }

    /// Returns the type of an expression, adding it if it is new.
    fn intern(&mut self, name: &str) -> TypeId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }

        let id = self.types.len();
        self.types.push(Type {
            name: display(name).into(),
            shape: Shape::Custom,
        });
        self.by_name.insert(name.into(), id);

        // A named type gets its shape later, from its own line.
        self.types[id].shape =
            if name.contains('.') && !name.starts_with(['*', '[']) && !name.starts_with("map[") {
                Shape::Custom
            } else {
                self.shape(name)
            };

        id
    }

    fn shape(&mut self, expression: &str) -> Shape {
        if let Some(of) = expression.strip_prefix('*') {
            return Shape::Pointer(self.intern(of));
        }
        if expression == "[]uint8" {
            return Shape::Bytes;
        }
        if let Some(of) = expression.strip_prefix("[]") {
            return Shape::Slice(self.intern(of));
        }
        if let Some((_, of)) = expression
            .strip_prefix("map[")
            .and_then(|rest| rest.split_once(']'))
        {
            return Shape::Map(self.intern(of));
        }

        match expression {
            "struct" => Shape::Struct(Vec::new()),
            "string" => Shape::String,
            "bool" => Shape::Bool,
            "int32" => Shape::Int(32),
            "int64" | "int" => Shape::Int(64),
            "float32" | "float64" => Shape::Float,
            _ => Shape::Custom,
        }
    }
}

/// A type's name as Go prints it, without the groups before packages.
fn display(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    let mut word = String::new();

    for character in name.chars() {
        match character {
            '/' => word.clear(),
            '*' | '[' | ']' => {
                shown.push_str(&word);
                word.clear();
                shown.push(character);
            }
            _ => word.push(character),
        }
    }

    shown + &word
}

//! The types of CEL values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Known only at evaluation.
    Dyn,
    /// The type of an expression that has a mistake.
    Error,
    /// `null`.
    Null,
    /// `bool`.
    Bool,
    /// `int`, of 64 bits.
    Int,
    /// `uint`, of 64 bits.
    Uint,
    /// `double`.
    Double,
    /// `string`.
    String,
    /// `bytes`.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A length of time.
    Duration,
    /// A list, by the type of its elements.
    List(Arc<Type>),
    /// A map, by the types of its keys and values.
    Map(Arc<Type>, Arc<Type>),
    /// An object with known fields.
    Object(Arc<Object>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// A type of a library, as in `net.IP`.
    Opaque(&'static str),
    /// The type of a type.
    Type(Arc<Type>),
    /// A numbered type parameter or type variable.
    Param(usize),
}

/// An object with known fields.
#[derive(Debug)]
pub struct Object {
    /// Objects with the same name have the same type.
    pub name: String,
    /// The field types, by their names in expressions.
    pub fields: BTreeMap<String, Type>,
}

impl Type {
    /// The type that an identifier such as `int` denotes.
    pub fn of_name(name: &str) -> Option<Self> {
        let dynamic = || Arc::new(Self::Dyn);

        Some(match name {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "list" => Self::List(dynamic()),
            "map" => Self::Map(dynamic(), dynamic()),
            "null_type" => Self::Null,
            "optional_type" => Self::Optional(dynamic()),
            "type" => Self::Type(dynamic()),
            "google.protobuf.Timestamp" => Self::Timestamp,
            "google.protobuf.Duration" => Self::Duration,
            "net.IP" => Self::Opaque("net.IP"),
            "net.CIDR" => Self::Opaque("net.CIDR"),
            "kubernetes.URL" => Self::Opaque("kubernetes.URL"),
            "kubernetes.Quantity" => Self::Opaque("kubernetes.Quantity"),
            "kubernetes.Semver" => Self::Opaque("kubernetes.Semver"),
            _ => return None,
        })
    }

    /// The name under which the type is declared; [`fmt::Display`] shows what messages about
    /// operators and functions say instead.
    pub fn declared_name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::List(element) => format!("list({})", element.declared_name()),
            Self::Map(key, value) => {
                format!("map({}, {})", key.declared_name(), value.declared_name())
            }
            Self::Optional(inner) => format!("optional_type({})", inner.declared_name()),
            Self::Type(inner) => format!("type({})", inner.declared_name()),
            other => other.to_string(),
        }
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Param(number) => write!(f, "_var{number}"),
        }
    }
}

/// What the type variables are bound to.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    bound: BTreeMap<usize, Type>,
    next: usize,
}

impl Bindings {
    /// Makes a new type variable.
    pub fn fresh(&mut self) -> Type {
        self.next += 1;
        Type::Param(self.next - 1)
    }

    /// Replaces a declaration's type parameters, which are numbered from 0, by fresh variables.
    pub fn instantiate(&mut self, types: &[&Type]) -> Vec<Type> {
        let mut fresh: BTreeMap<usize, Type> = BTreeMap::new();
        let mut replace = |number: usize, bindings: &mut Self| {
            fresh
                .entry(number)
                .or_insert_with(|| bindings.fresh())
                .clone()
        };

        types
            .iter()
            .map(|ty| map_params(ty, &mut |number| replace(number, self)))
            .collect()
    }

    /// Replaces type variables by what they are bound to. With `finish`, unbound ones become `dyn`.
    pub fn resolve(&self, ty: &Type, finish: bool) -> Type {
        map_params(ty, &mut |number| match self.bound.get(&number) {
            Some(bound) => self.resolve(bound, finish),
            None if finish => Type::Dyn,
            None => Type::Param(number),
        })
    }

    /// Reports whether a value of type `from` can be used as `to`, binding type variables so that
    /// it can. A failed attempt binds nothing.
    pub fn assign(&mut self, from: &Type, to: &Type) -> bool {
        let before = self.bound.clone();
        let fits = self.unify(from, to);
        if !fits {
            self.bound = before;
        }
        fits
    }

    fn unify(&mut self, from: &Type, to: &Type) -> bool {
        let from = self.resolve(from, false);
        let to = self.resolve(to, false);

        match (&from, &to) {
            (Type::Param(a), Type::Param(b)) if a == b => true,
            (_, Type::Param(number)) => self.bind(*number, &from),
            (Type::Param(number), _) => self.bind(*number, &to),
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Object(_)
                    | Type::Opaque(_)
                    | Type::Timestamp
                    | Type::Duration
                    | Type::Optional(_)
            ),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.unify(a, b)
            }
            (Type::Map(a, b), Type::Map(c, d)) => self.unify(a, c) && self.unify(b, d),
            (Type::Type(_), Type::Type(_)) => true,
            (from, to) => from == to,
        }
    }

    fn bind(&mut self, number: usize, ty: &Type) -> bool {
        if mentions(ty, number) {
            return false;
        }
        self.bound.insert(number, ty.clone());
        true
    }

    /// The common type of two types, `dyn` if they have none.
    pub fn join(&mut self, left: &Type, right: &Type) -> Type {
        let is_dynamic = |ty: &Type| matches!(self.resolve(ty, false), Type::Dyn);

        if is_dynamic(left) || is_dynamic(right) {
            return Type::Dyn;
        }

        if self.assign(right, left) {
            return self.resolve(left, false);
        }

        Type::Dyn
    }
}

fn mentions(ty: &Type, number: usize) -> bool {
    match ty {
        Type::Param(other) => *other == number,
        Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => mentions(inner, number),
        Type::Map(key, value) => mentions(key, number) || mentions(value, number),
        _ => false,
    }
}

fn map_params(ty: &Type, replace: &mut dyn FnMut(usize) -> Type) -> Type {
    match ty {
        Type::Param(number) => replace(*number),
        Type::List(inner) => Type::List(Arc::new(map_params(inner, replace))),
        Type::Optional(inner) => Type::Optional(Arc::new(map_params(inner, replace))),
        Type::Type(inner) => Type::Type(Arc::new(map_params(inner, replace))),
        Type::Map(key, value) => Type::Map(
            Arc::new(map_params(key, replace)),
            Arc::new(map_params(value, replace)),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binds_parameters_consistently() {
        let mut bindings = Bindings::default();
        let declared = [&Type::Param(0), &Type::List(Arc::new(Type::Param(0)))];
        let types = bindings.instantiate(&declared);

        assert!(bindings.assign(&Type::Int, &types[0]));
        assert!(!bindings.assign(&Type::List(Arc::new(Type::String)), &types[1]));
        assert!(bindings.assign(&Type::List(Arc::new(Type::Dyn)), &types[1]));

        assert_eq!(
            bindings.resolve(&types[1], true),
            Type::List(Arc::new(Type::Int))
        );
    }

    #[test]
    fn null_fits_objects_and_not_scalars() {
        let mut bindings = Bindings::default();
        assert!(bindings.assign(&Type::Null, &Type::Timestamp));
        assert!(!bindings.assign(&Type::Null, &Type::Int));
    }
}

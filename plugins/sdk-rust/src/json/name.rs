//! The key of an object's member as a `Deserializer`: it is a string, and can stand for a number or
//! a boolean.

use serde::de::{Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use super::fault::Fault;

type Result<T> = std::result::Result<T, Fault>;

/// A key of an object.
pub(super) struct Key<'a, 'de> {
    pub(super) text: &'a str,
    pub(super) borrowed: Option<&'de str>,
}

impl Key<'_, '_> {
    /// Reads the key as a JSON value other than a string.
    fn parse<T: for<'t> Deserialize<'t>>(&self) -> Result<T> {
        let wrong = || Fault::invalid_type(Unexpected::Str(self.text), &"a number or a boolean");
        if self.text.contains([' ', '\n', '\t', '\r']) {
            return Err(wrong());
        }
        super::from_str(self.text).map_err(|_| wrong())
    }
}

macro_rules! keys {
    ($($name:ident $visit:ident)*) => { $(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            visitor.$visit(self.parse()?)
        }
    )* };
}

impl<'de> Deserializer<'de> for Key<'_, 'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.borrowed {
            Some(text) => visitor.visit_borrowed_str(text),
            None => visitor.visit_str(self.text),
        }
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_str(self.text)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_str(self.text)
    }

    keys! {
        deserialize_bool visit_bool
        deserialize_i8 visit_i8 deserialize_i16 visit_i16 deserialize_i32 visit_i32 deserialize_i64 visit_i64
        deserialize_u8 visit_u8 deserialize_u16 visit_u16 deserialize_u32 visit_u32 deserialize_u64 visit_u64
        deserialize_f32 visit_f32 deserialize_f64 visit_f64 deserialize_i128 visit_i128 deserialize_u128 visit_u128
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(self.text.into_deserializer())
    }

    forward_to_deserialize_any! {
        char str bytes byte_buf unit unit_struct seq tuple tuple_struct map struct ignored_any
    }
}

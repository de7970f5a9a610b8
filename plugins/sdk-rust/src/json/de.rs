//! [`Reader`] as a `Deserializer`. Code that depends on a type is as small as possible, because a
//! plugin contains it once per type.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::cast::{same, upcast};
use super::fault::Fault;
use super::name::Key;
use super::read::{Number, Reader};
use super::time;
use super::variant::{UnitVariant, Variant};

type Result<T> = std::result::Result<T, Fault>;

/// The name of `serde_json::value::RawValue` in its protocol with serde_json.
pub(super) const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// The items of the array that is open.
struct Items<'a, 'de>(&'a mut Reader<'de>);

/// The members of the object that is open.
struct Members<'a, 'de>(&'a mut Reader<'de>);

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        if self.0.item(b']')? {
            seed.deserialize(&mut *self.0).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        match self.0.key()? {
            Some((text, borrowed)) => seed.deserialize(Key { text, borrowed }).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        self.0.member(seed)
    }
}

macro_rules! numbers {
    ($($name:ident)*) => { $(
        #[inline]
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            match self.number(&visitor)? {
                Number::Natural(number) => visitor.visit_u64(number),
                Number::Negative(number) => visitor.visit_i64(number),
                Number::Float(number) => visitor.visit_f64(number),
            }
        }
    )* };
}

impl<'de> Reader<'de> {
    /// Compiled once per member type, not once per member.
    #[inline(never)]
    fn member<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        seed.deserialize(self)
    }

    #[inline]
    fn members<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let value = visitor.visit_map(Members(self));

        // An error is reported at its own position.
        if value.is_ok() {
            self.close(b'}');
        }
        value
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if same::<V::Value, Value>() {
            return upcast(self.value()?).ok_or_else(|| self.unexpected(&visitor));
        }

        match self.peek() {
            b'n' => self.deserialize_unit(visitor),
            b't' | b'f' => self.deserialize_bool(visitor),
            b'"' => self.deserialize_str(visitor),
            b'[' => self.deserialize_seq(visitor),
            b'{' => self.deserialize_map(visitor),
            _ => self.deserialize_f64(visitor),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let value = self.boolean(&visitor)?;
        visitor.visit_bool(value)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.number_text(&visitor)?.parse() {
            Ok(value) => visitor.visit_i128(value),
            Err(_) => Err(Fault::text("number out of range")),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.number_text(&visitor)?.parse() {
            Ok(value) => visitor.visit_u128(value),
            Err(_) => Err(Fault::text("number out of range")),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.borrowed(&visitor)? {
            Some(text) => visitor.visit_borrowed_str(text),
            None => visitor.visit_str(self.unescaped()),
        }
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let text = self.string(&visitor)?;
        visitor.visit_str(text)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.peek() {
            b'[' => self.deserialize_seq(visitor),
            _ => match self.borrowed(&visitor)? {
                Some(text) => visitor.visit_borrowed_bytes(text.as_bytes()),
                None => visitor.visit_bytes(self.unescaped().as_bytes()),
            },
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.null()? {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.unit(&visitor)?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        if name == RAW_VALUE {
            return visitor.visit_map(Raw(Some(self.skip()?)));
        }

        if time::is_time::<V::Value>() {
            let parsed = time::parse(self.string(&visitor)?);
            return parsed
                .and_then(time::convert)
                .ok_or_else(|| Fault::text("not a time as in RFC 3339"));
        }

        if same::<V::Value, Quantity>() {
            return upcast(Quantity(self.quantity()?)).ok_or_else(|| self.unexpected(&visitor));
        }

        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.open(b'[', &visitor)?;
        let value = visitor.visit_seq(Items(self));
        if value.is_ok() {
            self.close(b']');
        }
        value
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.open(b'{', &visitor)?;
        self.members(visitor)
    }

    /// Reads objects only. serde_json accepts an array of the members as well, but no API sends
    /// that.
    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        // Not the visitor, whose description would be one more function per type.
        self.open(b'{', &name)?;
        self.members(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        if self.peek() == b'"' {
            return visitor.visit_enum(UnitVariant(self));
        }

        self.open(b'{', &"string or map")?;
        let value = visitor.visit_enum(Variant(self));

        // A second member would be another variant.
        self.close(b'}');
        value
    }

    #[inline]
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_string(visitor)
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.skip()?;
        visitor.visit_unit()
    }
}

/// The text of a value, for a `RawValue`.
struct Raw<'de>(Option<&'de str>);

impl<'de> MapAccess<'de> for Raw<'de> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        match self.0 {
            Some(_) => seed
                .deserialize(Key {
                    text: RAW_VALUE,
                    borrowed: None,
                })
                .map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        let text = self.0.take();
        seed.deserialize(Key {
            text: text.unwrap_or_default(),
            borrowed: text,
        })
    }
}

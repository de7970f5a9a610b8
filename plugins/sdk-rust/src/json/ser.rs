//! [`Writer`] as a `Serializer`. Code that depends on a type is as small as possible, because a
//! plugin contains it once per type.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::cast::downcast;
use super::de::RAW_VALUE;
use super::fault::Fault;
use super::key::Key;
use super::time;
use super::write::Writer;

type Result<T> = std::result::Result<T, Fault>;

impl Writer {
    /// Writes a value of any type.
    #[inline]
    pub(super) fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        if let Some(Time(time)) = downcast(value) {
            self.raw(&time::format(*time, false));
        } else if let Some(MicroTime(time)) = downcast(value) {
            self.raw(&time::format(*time, true));
        } else if let Some(value) = downcast(value) {
            self.json(value);
        } else {
            return value.serialize(self);
        }

        Ok(())
    }

    /// Compiled once per item type.
    #[inline(never)]
    fn typed_item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.item();
        self.value(value)
    }

    /// Compiled once per member type, not once per member.
    #[inline(never)]
    fn typed_member<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<()> {
        self.member(key);
        self.value(value)
    }
}

/// An open array or object, and what closes it.
pub(super) struct Open<'a> {
    writer: &'a mut Writer,
    close: &'static str,
}

impl<'a> Open<'a> {
    #[inline]
    fn new(writer: &'a mut Writer, open: &str, close: &'static str) -> Self {
        writer.raw(open);
        Self { writer, close }
    }

    /// Opens the object of a variant, and the value inside.
    fn variant(writer: &'a mut Writer, variant: &str, open: &str, close: &'static str) -> Self {
        writer.raw("{");
        writer.member(variant);
        Self::new(writer, open, close)
    }

    #[inline]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.writer.typed_item(value)
    }

    #[inline]
    fn member<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<()> {
        self.writer.typed_member(key, value)
    }

    #[inline]
    fn close(self) -> Result<()> {
        self.writer.raw(self.close);
        Ok(())
    }
}

macro_rules! write {
    ($($name:ident $type:ty, $write:ident $as:ty;)*) => { $(
        #[inline]
        fn $name(self, value: $type) -> Result<()> {
            self.$write(<$as>::from(value));
            Ok(())
        }
    )* };
}

impl<'a> Serializer for &'a mut Writer {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = Open<'a>;
    type SerializeTuple = Open<'a>;
    type SerializeTupleStruct = Open<'a>;
    type SerializeTupleVariant = Open<'a>;
    type SerializeMap = Open<'a>;
    type SerializeStruct = Open<'a>;
    type SerializeStructVariant = Open<'a>;

    write! {
        serialize_i8 i8, integer i64;
        serialize_i16 i16, integer i64;
        serialize_i32 i32, integer i64;
        serialize_i64 i64, integer i64;
        serialize_u8 u8, natural u64;
        serialize_u16 u16, natural u64;
        serialize_u32 u32, natural u64;
        serialize_u64 u64, natural u64;
    }

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<()> {
        self.raw(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<()> {
        self.raw(&value.to_string());
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<()> {
        self.raw(&value.to_string());
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<()> {
        self.raw(&serde_json::to_string(&value).unwrap_or_default());
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<()> {
        self.float(value);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.string(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<()> {
        self.string(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<()> {
        self.collect_seq(value)
    }

    #[inline]
    fn serialize_none(self) -> Result<()> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        self.value(value)
    }

    #[inline]
    fn serialize_unit(self) -> Result<()> {
        self.raw("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<()> {
        self.value(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<()> {
        let mut object = Open::new(self, "{", "}");
        object.member(variant, value)?;
        object.close()
    }

    #[inline]
    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'a>> {
        Ok(Open::new(self, "[", "]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'a>> {
        Ok(Open::new(self, "[", "]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'a>> {
        Ok(Open::new(self, "[", "]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'a>> {
        Ok(Open::variant(self, variant, "[", "]}"))
    }

    #[inline]
    fn serialize_map(self, _: Option<usize>) -> Result<Open<'a>> {
        Ok(Open::new(self, "{", "}"))
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Open<'a>> {
        // The one member of a `RawValue` is the text of any value.
        let (open, close) = if name == RAW_VALUE {
            ("", "")
        } else {
            ("{", "}")
        };

        Ok(Open::new(self, open, close))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'a>> {
        Ok(Open::variant(self, variant, "{", "}}"))
    }
}

impl SerializeSeq for Open<'_> {
    type Ok = ();
    type Error = Fault;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.item(value)
    }

    #[inline]
    fn end(self) -> Result<()> {
        self.close()
    }
}

impl SerializeMap for Open<'_> {
    type Ok = ();
    type Error = Fault;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.writer.item();
        key.serialize(Key {
            writer: &mut *self.writer,
            quotes: true,
        })?;
        self.writer.raw(":");
        Ok(())
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.writer.value(value)
    }

    #[inline]
    fn end(self) -> Result<()> {
        self.close()
    }
}

impl SerializeStruct for Open<'_> {
    type Ok = ();
    type Error = Fault;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<()> {
        if key == RAW_VALUE {
            return value.serialize(Key {
                writer: &mut *self.writer,
                quotes: false,
            });
        }

        self.member(key, value)
    }

    #[inline]
    fn end(self) -> Result<()> {
        self.close()
    }
}

macro_rules! ends {
    ($($trait:ident $add:ident)*) => { $(
        impl $trait for Open<'_> {
            type Ok = ();
            type Error = Fault;

            fn $add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.item(value)
            }

            fn end(self) -> Result<()> {
                self.close()
            }
        }
    )* };
}

ends! { SerializeTuple serialize_element SerializeTupleStruct serialize_field SerializeTupleVariant serialize_field }

impl SerializeStructVariant for Open<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<()> {
        self.member(key, value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

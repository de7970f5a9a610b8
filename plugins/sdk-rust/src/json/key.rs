//! Keys of JSON objects, which are strings: numbers and booleans are written in quotes.

use serde::ser::{Impossible, Serialize, Serializer};

use super::fault::Fault;
use super::write::Writer;

type Result<T> = std::result::Result<T, Fault>;
type No = Impossible<(), Fault>;

/// Writes a key; without quotes the text of a `RawValue`.
pub(super) struct Key<'a> {
    pub(super) writer: &'a mut Writer,
    pub(super) quotes: bool,
}

impl Key<'_> {
    /// Writes the text of a number or a boolean.
    fn plain(self, text: &str) -> Result<()> {
        self.serialize_str(text)
    }
}

#[cold]
#[inline(never)]
fn refused<T>() -> Result<T> {
    Err(Fault::text("key must be a string"))
}

macro_rules! plain {
    ($($name:ident $type:ty)*) => { $(
        fn $name(self, value: $type) -> Result<()> {
            self.plain(&value.to_string())
        }
    )* };
}

impl Serializer for Key<'_> {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = No;
    type SerializeTuple = No;
    type SerializeTupleStruct = No;
    type SerializeTupleVariant = No;
    type SerializeMap = No;
    type SerializeStruct = No;
    type SerializeStructVariant = No;

    #[inline]
    fn serialize_str(self, text: &str) -> Result<()> {
        if self.quotes {
            self.writer.string(text);
        } else {
            self.writer.raw(text);
        }

        Ok(())
    }

    plain! {
        serialize_bool bool serialize_char char
        serialize_i8 i8 serialize_i16 i16 serialize_i32 i32 serialize_i64 i64 serialize_i128 i128
        serialize_u8 u8 serialize_u16 u16 serialize_u32 u32 serialize_u64 u64 serialize_u128 u128
    }

    fn serialize_f32(self, value: f32) -> Result<()> {
        self.plain(&serde_json::to_string(&value).unwrap_or_default())
    }

    fn serialize_f64(self, value: f64) -> Result<()> {
        self.plain(&super::write::float(value))
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<()> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<()> {
        refused()
    }

    fn serialize_none(self) -> Result<()> {
        refused()
    }

    fn serialize_unit(self) -> Result<()> {
        refused()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<()> {
        refused()
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<()> {
        refused()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<No> {
        refused()
    }

    fn serialize_tuple(self, _: usize) -> Result<No> {
        refused()
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<No> {
        refused()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<No> {
        refused()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<No> {
        refused()
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<No> {
        refused()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<No> {
        refused()
    }
}

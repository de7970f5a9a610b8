//! The wire format: fields with numbers.

use super::ProtobufError;

/// The value of a field as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// An integer of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// Bytes, a text or a message.
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    /// Returns the bytes.
    ///
    /// # Errors
    ///
    /// [`ProtobufError::WrongType`] for numbers.
    pub fn bytes(self) -> Result<&'a [u8], ProtobufError> {
        if let Self::Bytes(bytes) = self {
            Ok(bytes)
        } else {
            Err(ProtobufError::WrongType)
        }
    }

    /// Returns the text.
    ///
    /// # Errors
    ///
    /// As [`Field::bytes`]; [`ProtobufError::Malformed`] when it is not UTF-8.
    pub fn text(self) -> Result<&'a str, ProtobufError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| ProtobufError::Malformed)
    }

    /// Returns the integer.
    ///
    /// # Errors
    ///
    /// [`ProtobufError::WrongType`] for others.
    pub fn varint(self) -> Result<u64, ProtobufError> {
        if let Self::Varint(value) = self {
            Ok(value)
        } else {
            Err(ProtobufError::WrongType)
        }
    }
}

/// Reads the fields of a message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the next field with its number; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ProtobufError`] when the bytes are no fields.
    pub fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }

        let tag = self.varint()?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.take_array()?)),
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.take_array()?)),
            _ => return Err(ProtobufError::WrongType),
        };

        Ok(Some((tag >> 3, field)))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take_array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }

        Err(ProtobufError::WrongType)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(ProtobufError::Truncated)?;
        self.rest = rest;

        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(ProtobufError::Truncated)?;
        self.rest = rest;

        Ok(*taken)
    }
}

/// Writes the fields of a message. Fields that have the default of their type are left out.
#[derive(Default)]
pub(super) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub fn text(&mut self, number: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(number, text.as_bytes());
        }
    }

    pub fn varint(&mut self, number: u64, value: u64) {
        if value != 0 {
            self.present_varint(number, value);
        }
    }

    /// Writes an integer of a field that tells its default from its absence.
    pub fn present_varint(&mut self, number: u64, value: u64) {
        self.raw_varint(number << 3);
        self.raw_varint(value);
    }

    pub fn double(&mut self, number: u64, value: f64) {
        if value != 0.0 {
            self.raw_varint(number << 3 | 1);
            self.out.extend(value.to_bits().to_le_bytes());
        }
    }

    /// Writes bytes, also if there are none.
    pub fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.raw_varint(number << 3 | 2);
        self.raw_varint(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    pub fn message(&mut self, number: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(number, &inner.out);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}

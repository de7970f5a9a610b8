//! Signs: control characters standing for metadata fields in a stripped object.

use crate::object::metadata::MARKS;

/// Offset of the first byte made by [`sign`]. Searches a cache line at a time, because most lines
/// contain none.
pub(super) fn next_sign(bytes: &[u8]) -> Option<usize> {
    const LINE: usize = 64;
    let is_sign = |byte: &u8| (1..=MARKS as u8).contains(byte);
    let none = bytes
        .chunks(LINE)
        .take_while(|line| !line.iter().fold(false, |any, byte| any | is_sign(byte)))
        .count();
    let from = (none * LINE).min(bytes.len());
    bytes[from..].iter().position(is_sign).map(|at| from + at)
}

/// The control character for a field's number.
pub(super) fn sign(number: usize) -> char {
    char::from(u8::try_from(number).unwrap_or_default())
}

//! The characters of a text.

use std::borrow::Cow;

/// How many bytes Go reads at a time.
const CHUNK: usize = 512;

const CONTROL: &str = "control characters are not allowed";

/// A text as far as it is readable.
pub(super) struct Text<'t> {
    pub readable: Cow<'t, str>,
    /// Why there are no further characters, unless this is the whole text.
    pub problem: Option<&'static str>,
}

/// Where a character begins, its number of bytes, and the character or what is wrong with it.
type Character = (usize, usize, Result<char, &'static str>);

/// Decodes UTF-8, or UTF-16 that begins with a byte order mark. Removes this mark.
///
/// Go reads a text in chunks and not beyond the first document. A character that isn't allowed so
/// only matters if the document reaches into its chunk, and [`Text::readable`] ends before it.
pub(super) fn decode(bytes: &[u8]) -> Text<'_> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => collect(utf16(rest, 2, u16::from_le_bytes), bytes.len()),
        [0xfe, 0xff, rest @ ..] => collect(utf16(rest, 2, u16::from_be_bytes), bytes.len()),
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(rest, 3),
        _ => utf8(bytes, 0),
    }
}

/// Decodes UTF-8 that begins at a position.
fn utf8(bytes: &[u8], begin: usize) -> Text<'_> {
    let (valid, problem) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let (valid, invalid) = bytes.split_at(error.valid_up_to());
            let problem = (
                begin + valid.len(),
                width(invalid[0]).max(1),
                Err(utf8_problem(invalid)),
            );
            (
                std::str::from_utf8(valid).unwrap_or_default(),
                Some(problem),
            )
        }
    };
    if problem.is_none() && valid.chars().all(is_allowed) {
        return Text {
            readable: Cow::Borrowed(valid),
            problem: None,
        };
    }

    let characters = valid
        .char_indices()
        .map(|(at, c)| (begin + at, c.len_utf8(), Ok(c)));
    collect(characters.chain(problem), begin + bytes.len())
}

/// Collects the characters up to the beginning of the chunk with the first that isn't allowed.
/// `end` is the length of the text in bytes.
fn collect(characters: impl Iterator<Item = Character>, end: usize) -> Text<'static> {
    let mut readable = String::with_capacity(end);
    // Where the chunk begins, in the text and in what is readable.
    let (mut chunk, mut before) = (0, 0);

    for (at, width, character) in characters {
        // A character that is cut off is read again with the next chunk.
        if at + width > (chunk + CHUNK).min(end) {
            chunk = at;
            before = readable.len();
        }

        let problem = match character {
            Ok(c) if is_allowed(c) => {
                readable.push(c);
                continue;
            }
            Ok(_) => CONTROL,
            Err(problem) => problem,
        };
        readable.truncate(before);
        return Text {
            readable: Cow::Owned(readable),
            problem: Some(problem),
        };
    }

    Text {
        readable: Cow::Owned(readable),
        problem: None,
    }
}

fn is_allowed(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' => true,
        other => matches!(other, '\u{a0}'..='\u{fffd}' | '\u{10000}'..),
    }
}

/// Decodes UTF-16 that begins at a position. Nothing follows an error.
fn utf16(
    bytes: &[u8],
    begin: usize,
    unit: fn([u8; 2]) -> u16,
) -> impl Iterator<Item = Character> + '_ {
    let unit_at = move |at: usize| {
        let pair = bytes.get(at..at + 2)?;
        Some(u32::from(unit([pair[0], pair[1]])))
    };

    let mut next = 0;
    std::iter::from_fn(move || {
        let at = next;
        if at >= bytes.len() {
            return None;
        }

        let (width, character) = match unit_at(at) {
            None => (2, Err("incomplete UTF-16 character")),
            Some(0xdc00..0xe000) => (2, Err("unexpected low surrogate area")),
            Some(high @ 0xd800..0xdc00) => match unit_at(at + 2) {
                None => (4, Err("incomplete UTF-16 surrogate pair")),
                Some(low @ 0xdc00..0xe000) => {
                    let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    (4, char::from_u32(code).ok_or(CONTROL))
                }
                Some(_) => (4, Err("expected low surrogate area")),
            },
            Some(code) => (2, char::from_u32(code).ok_or(CONTROL)),
        };

        next = if character.is_ok() {
            at + width
        } else {
            bytes.len()
        };
        Some((begin + at, width, character))
    })
}

/// The number of bytes of a character, by the first of them.
fn width(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => 0,
    }
}

/// Returns what libyaml says about bytes that begin with something that is no UTF-8.
fn utf8_problem(bytes: &[u8]) -> &'static str {
    let width = width(bytes[0]);
    if width == 0 {
        return "invalid leading UTF-8 octet";
    }
    if bytes.len() < width {
        return "incomplete UTF-8 octet sequence";
    }
    if bytes[1..width].iter().any(|byte| byte & 0xc0 != 0x80) {
        return "invalid trailing UTF-8 octet";
    }

    match (bytes[0], bytes.get(1)) {
        (0xc0 | 0xc1, _) | (0xe0, Some(0x80..0xa0)) | (0xf0, Some(0x80..0x90)) => {
            "invalid length of a UTF-8 sequence"
        }
        _ => "invalid Unicode character",
    }
}

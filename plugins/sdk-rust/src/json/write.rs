//! Writes JSON text. Nothing here depends on a type that is written, so a plugin contains it once.

/// A text that grows.
pub(super) struct Writer {
    text: String,
}

/// Formats a number as serde_json does: `null` if it is not finite.
#[inline(never)]
pub(crate) fn float(number: f64) -> String {
    serde_json::to_string(&number).unwrap_or_default()
}

impl Writer {
    pub(super) fn new() -> Self {
        Self {
            text: String::with_capacity(128),
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    #[inline(never)]
    pub(super) fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Writes a number; `null` if it is not finite.
    pub(super) fn float(&mut self, number: f64) {
        self.text.push_str(&float(number));
    }

    #[inline(never)]
    pub(super) fn natural(&mut self, mut number: u64) {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();

        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            start -= 1;
            if number == 0 {
                break;
            }
        }

        let digits = digits.get(start..).unwrap_or_default();
        self.text
            .push_str(std::str::from_utf8(digits).unwrap_or_default());
    }

    #[inline(never)]
    pub(super) fn integer(&mut self, number: i64) {
        if number < 0 {
            self.text.push('-');
        }
        self.natural(number.unsigned_abs());
    }

    #[inline(never)]
    pub(super) fn string(&mut self, text: &str) {
        self.text.push('"');
        let mut start = 0;

        for (at, byte) in text.bytes().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' {
                continue;
            }

            self.text.push_str(text.get(start..at).unwrap_or_default());
            self.escape(byte);
            start = at + 1;
        }

        self.text.push_str(text.get(start..).unwrap_or_default());
        self.text.push('"');
    }

    #[cold]
    #[inline(never)]
    fn escape(&mut self, byte: u8) {
        let short = match byte {
            0x08 => 'b',
            b'\t' => 't',
            b'\n' => 'n',
            0x0c => 'f',
            b'\r' => 'r',
            b'"' | b'\\' => char::from(byte),
            _ => 'u',
        };

        self.text.extend(['\\', short]);
        if short == 'u' {
            let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
            self.text
                .extend(['0', '0', digit(byte / 16), digit(byte % 16)]);
        }
    }

    /// Begins an item of an array, or a key of an object. Only the first has no comma before it.
    #[inline(never)]
    pub(super) fn item(&mut self) {
        if !matches!(self.text.as_bytes().last(), None | Some(b'[' | b'{')) {
            self.text.push(',');
        }
    }

    /// Begins a member of an object.
    #[inline(never)]
    pub(super) fn member(&mut self, key: &str) {
        self.item();
        self.string(key);
        self.text.push(':');
    }
}

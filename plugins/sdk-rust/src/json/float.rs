//! Parses numbers with a fraction, without the standard library's tables, which take 17 KB of a
//! plugin.

/// The number `mantissa * 2^exponent`; the mantissa's highest bit is set. An operation errs by less
/// than 2^-122 of the number, and sets the last bit if it is inexact, so that a number close to the
/// middle of two `f64` never becomes exactly the middle.
struct Wide {
    mantissa: u128,
    exponent: i32,
}

impl Wide {
    fn new(mantissa: u128, exponent: i32) -> Self {
        let shift = mantissa.leading_zeros();
        Self {
            mantissa: mantissa << shift,
            exponent: exponent - shift.cast_signed(),
        }
    }

    fn times_ten(&self) -> Self {
        let lost = self.mantissa & 7 != 0;
        Self::new(
            ((self.mantissa >> 1) + (self.mantissa >> 3)) | u128::from(lost),
            self.exponent + 4,
        )
    }

    fn tenth(&self) -> Self {
        let (quotient, rest) = divide_by_ten(self.mantissa);
        Self::new(quotient | u128::from(rest != 0), self.exponent)
    }

    /// The nearest `f64`, ties to even; infinity if the number is too large.
    fn nearest(&self) -> f64 {
        // The exponent of the last of 53 bits; fewer bits are left below the least exponent.
        let last = (self.exponent + 75).max(-1074);
        let shift = (last - self.exponent).cast_unsigned();

        if shift > 128 {
            return 0.0;
        }
        if last > 971 {
            return f64::INFINITY;
        }

        let mut bits = self.mantissa.checked_shr(shift).unwrap_or_default() as u64;
        let rest = self.mantissa << (128 - shift);
        let half = 1 << 127;

        if rest > half || (rest == half && bits % 2 == 1) {
            bits += 1;
        }

        // The highest bit of the 53, if it is set, and a carry both add one to the exponent.
        f64::from_bits(bits + (u64::from((last + 1074).cast_unsigned()) << 52))
    }
}

/// Divides by hand: dividing 128-bit numbers is a large library function.
fn divide_by_ten(number: u128) -> (u128, u64) {
    let mut quotient = 0;
    let mut rest = 0;
    for shift in [96, 64, 32, 0] {
        let part = (rest << 32) | u64::from((number >> shift) as u32);
        quotient = (quotient << 32) | u128::from(part / 10);
        rest = part % 10;
    }

    (quotient, rest)
}

/// The digits of a number, without the standard library's formatting of 128-bit numbers.
pub(crate) fn decimal(mut number: u128) -> String {
    let mut text = String::new();
    loop {
        let (quotient, digit) = divide_by_ten(number);
        text.insert(0, char::from(b'0' + digit as u8));
        if quotient == 0 {
            return text;
        }
        number = quotient;
    }
}

/// Parses a number of JSON's form; infinity if it is too large.
pub(super) fn parse(token: &str) -> f64 {
    let (digits, power) = token.split_once(['e', 'E']).unwrap_or((token, ""));

    let mut mantissa: u128 = 0;
    let mut scale: i32 = 0;
    let mut fraction = false;
    for byte in digits.bytes() {
        match byte {
            b'.' => fraction = true,
            b'0'..=b'9' => {
                // An `f64` has at most 17 significant digits.
                let full = mantissa >> 120 != 0;
                if !full {
                    mantissa = (mantissa << 3) + (mantissa << 1) + u128::from(byte - b'0');
                } else if byte != b'0' {
                    // The digits that are left out decide only between two halves.
                    mantissa |= 1;
                }

                scale = scale
                    .saturating_add(i32::from(full))
                    .saturating_sub(i32::from(fraction));
            }
            _ => {}
        }
    }

    let mut number = 0.0;
    if mantissa != 0 {
        let negative = power.starts_with('-');
        let digits = power.bytes().filter(u8::is_ascii_digit);
        let power = digits.fold(0, |power: i32, byte| {
            power
                .saturating_mul(10)
                .saturating_add(i32::from(byte - b'0'))
        });

        let scale = if negative {
            scale.saturating_sub(power)
        } else {
            scale.saturating_add(power)
        };

        let mut wide = Wide::new(mantissa, 0);
        // Beyond are infinity and zero.
        for _ in 0..scale.clamp(-400, 400).unsigned_abs() {
            wide = if scale < 0 {
                wide.tenth()
            } else {
                wide.times_ten()
            };
        }

        number = wide.nearest();
    }

    if token.starts_with('-') {
        -number
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees(text: &str) {
        let expected: f64 = text.parse().expect(text);

        assert_eq!(
            parse(text).to_bits(),
            expected.to_bits(),
            "{text}: {} for {expected}",
            parse(text)
        );
    }

    #[test]
    fn parses_as_the_standard_library_does() {
        for text in [
            "0.0",
            "-0.0",
            "0e5",
            "1.5",
            "-1.5",
            "0.1",
            "1e3",
            "1E+3",
            "1e-3",
            "3.141592653589793",
            "1e22",
            "1e23",
            "0.30000000000000004",
            "9007199254740993.0",
            "9007199254740993.00000000000000000000000000001",
            "18446744073709551616",
            "123456789012345678901234567890123456789012345678901234567890",
            "1e308",
            "1.7976931348623157e308",
            "1.7976931348623159e308",
            "1e400",
            "1e99999999999",
            "2.2250738585072014e-308",
            "2.2250738585072011e-308",
            "5e-324",
            "3e-324",
            "2e-324",
            "1e-400",
            "0.00000000000000000000000000000000001e40",
        ] {
            agrees(text);
        }
    }

    #[test]
    fn writes_digits_of_wide_numbers() {
        for number in [0, 7, 10, 4_294_967_296, u128::from(u64::MAX), u128::MAX] {
            assert_eq!(decimal(number), number.to_string());
        }
    }

    #[test]
    fn parses_what_was_printed() {
        // An LCG: the same numbers in each run.
        let mut state: u64 = 7;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);

            let number = f64::from_bits(state ^ (state >> 31));
            if number.is_finite() {
                agrees(&format!("{number:e}"));
                agrees(&format!("{number:.3e}"));
            }
        }
    }
}

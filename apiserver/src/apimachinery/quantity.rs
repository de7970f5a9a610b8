//! Quantities such as `1500m`, `2Gi` and `12e6`, and the canonical form that Kubernetes prints. See
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go>.

use std::cmp::Ordering;

use thiserror::Error;

/// The suffixes of powers of ten, from 10^-9 in steps of three.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The suffixes of powers of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// How many decimal digits fit into 64 bits, which Kubernetes parses on a fast path.
const FAST_DIGITS: i64 = 18;

/// Why a text is not a quantity, in the API server's words.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum QuantityError {
    /// The text has another form.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The digits are not a number, or exceed 128 bits.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    DecimalExponent,
    DecimalSi,
    BinarySi,
}

/// A quantity: `mantissa * 10^scale`.
#[derive(Clone, Debug)]
pub struct Quantity {
    mantissa: i128,
    scale: i32,
    format: Format,
    /// The text as written. Kubernetes prints it again if it came through the fast path.
    text: Option<String>,
}

struct Parts<'a> {
    negative: bool,
    integer: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl Quantity {
    /// Parses a quantity.
    ///
    /// # Errors
    /// Returns the same [`QuantityError`] as Kubernetes' `ParseQuantity`, and one for more than 38
    /// digits.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = split(text)?;
        let (base, exponent, format) = suffix(parts.suffix).ok_or(QuantityError::Suffix)?;

        let fraction = parts.fraction.len() as i64;
        let digits = parts.integer.len() as i64 + fraction;
        let shifted = format!("{}{}", parts.integer, parts.fraction);

        let mut mantissa: i128 = shifted.parse().map_err(|_| QuantityError::Number)?;
        let mut scale = -i32::try_from(fraction).map_err(|_| QuantityError::Number)?;

        if base == 2 {
            mantissa = mantissa
                .checked_mul(1 << exponent)
                .ok_or(QuantityError::Number)?;
        } else {
            scale = scale.checked_add(exponent).ok_or(QuantityError::Number)?;
        }

        let keeps_text = match format {
            Format::BinarySi => {
                let precision = 15 - parts.integer.len() as i64 - i64::from(exponent) * 3 / 10 - 1;
                fraction == 0
                    && precision >= 0
                    && exponent % 10 == 0
                    && shifted.ends_with(['1', '3', '5', '7', '9'])
                    || fraction == 0 && precision >= 0 && low_bits(&shifted) != 0
            }
            _ => {
                let fast = FAST_DIGITS - digits >= 0 && scale >= -9;
                fast && scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0')
            }
        };

        let mut format = format;
        round_to_nano(&mut mantissa, &mut scale);
        if format == Format::BinarySi && mantissa != 0 && below_one(mantissa, scale) {
            format = Format::DecimalSi;
        }

        if parts.negative {
            mantissa = -mantissa;
        }

        let text = (keeps_text || text == "0").then(|| text.to_owned());
        Ok(Self {
            mantissa,
            scale,
            format,
            text,
        })
    }

    /// Returns the sign: -1, 0 or 1.
    pub fn sign(&self) -> i128 {
        self.mantissa.signum()
    }

    /// Reports whether the value is not a whole number of thousandths.
    pub fn is_below_milli(&self) -> bool {
        let (mantissa, scale) = trimmed(self.mantissa, self.scale);
        mantissa != 0 && scale < -3
    }

    /// Reports whether the value is a whole number.
    pub fn is_integer(&self) -> bool {
        let (mantissa, scale) = trimmed(self.mantissa, self.scale);
        mantissa == 0 || scale >= 0
    }

    /// Returns the quantity rounded up to thousandths, as Kubernetes stores the resources of Pods.
    #[must_use]
    pub fn rounded_to_milli(mut self) -> Self {
        if self.is_below_milli() {
            let divisor = power(-3 - self.scale).unwrap_or(i128::MAX);
            let away = self.mantissa.signum() * i128::from(self.mantissa % divisor != 0);
            self.mantissa = self.mantissa / divisor + away;
            self.scale = -3;
            self.text = None;
        }
        self
    }

    /// Returns the value in thousandths, rounded away from zero; `None` if it exceeds 128 bits.
    pub fn milli_value(&self) -> Option<i128> {
        match self.scale + 3 {
            shift @ 0.. => self.mantissa.checked_mul(power(shift)?),
            shift => {
                let divisor = power(-shift)?;
                let away = self.mantissa.signum() * i128::from(self.mantissa % divisor != 0);
                Some(self.mantissa / divisor + away)
            }
        }
    }

    /// Compares two quantities by value.
    pub fn compare(&self, other: &Self) -> Ordering {
        let scale = self.scale.min(other.scale);
        let left = power(self.scale - scale).and_then(|factor| self.mantissa.checked_mul(factor));
        let right =
            power(other.scale - scale).and_then(|factor| other.mantissa.checked_mul(factor));

        match (left, right) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => self.approximate().total_cmp(&other.approximate()),
        }
    }

    /// Returns the value as a float.
    pub fn approximate(&self) -> f64 {
        self.mantissa as f64 * 10f64.powi(self.scale)
    }

    /// Returns the text that Kubernetes prints.
    pub fn canonical(&self) -> String {
        if let Some(text) = &self.text {
            return text.clone();
        }
        if self.mantissa == 0 {
            return "0".to_owned();
        }

        match self.format {
            Format::BinarySi => self
                .binary()
                .unwrap_or_else(|| self.decimal(Format::DecimalSi)),
            format => self.decimal(format),
        }
    }

    /// The form with a binary suffix, unless the value is small or would be rounded.
    fn binary(&self) -> Option<String> {
        let (mantissa, scale) = trimmed(self.mantissa, self.scale);
        let mut value = power(scale)
            .filter(|_| scale >= 0)
            .and_then(|factor| mantissa.checked_mul(factor))?;

        if value.abs() < 1024 {
            return None;
        }

        let mut step = 0;
        while value % 1024 == 0 && step + 1 < BINARY.len() {
            value /= 1024;
            step += 1;
        }

        Some(format!("{value}{}", BINARY[step]))
    }

    fn decimal(&self, format: Format) -> String {
        let (mut mantissa, mut scale) = trimmed(self.mantissa, self.scale);

        while scale % 3 != 0 {
            mantissa = mantissa.saturating_mul(10);
            scale -= 1;
        }

        if format == Format::DecimalExponent {
            return if scale == 0 {
                mantissa.to_string()
            } else {
                format!("{mantissa}e{scale}")
            };
        }

        let suffix = usize::try_from(scale / 3 + 3)
            .ok()
            .and_then(|index| DECIMAL.get(index));

        format!("{mantissa}{}", suffix.unwrap_or(&""))
    }
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }

    let negative = text.starts_with('-');
    let rest = text
        .strip_prefix(['-', '+'])
        .unwrap_or(text)
        .trim_start_matches('0');

    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (integer, rest) = rest.split_at(end);
    let integer = if integer.is_empty() { "0" } else { integer };

    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(
            rest.find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len()),
        ),
        None => ("", rest),
    };

    let after = rest.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = after.strip_prefix(['-', '+']).unwrap_or(after);
    if exponent.contains(|c: char| !c.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }

    Ok(Parts {
        negative,
        integer,
        fraction,
        suffix: rest,
    })
}

/// The base, exponent and format of a suffix.
fn suffix(text: &str) -> Option<(u8, i32, Format)> {
    if let Some(index) = DECIMAL.iter().position(|suffix| *suffix == text) {
        return Some((10, (index as i32 - 3) * 3, Format::DecimalSi));
    }
    if let Some(index) = BINARY.iter().position(|suffix| *suffix == text) {
        return Some((2, index as i32 * 10, Format::BinarySi));
    }

    let exponent = text
        .strip_prefix(['e', 'E'])
        .filter(|rest| !rest.is_empty())?;

    exponent
        .parse()
        .ok()
        .map(|exponent| (10, exponent, Format::DecimalExponent))
}

/// The lowest three bits of a number.
fn low_bits(digits: &str) -> u8 {
    digits.parse::<i64>().map_or(0, |value| (value & 7) as u8)
}

/// A power of ten; `None` if it is negative or exceeds 128 bits.
fn power(exponent: i32) -> Option<i128> {
    u32::try_from(exponent)
        .ok()
        .and_then(|exponent| 10i128.checked_pow(exponent))
}

/// Removes the factors of ten from a mantissa.
fn trimmed(mut mantissa: i128, mut scale: i32) -> (i128, i32) {
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        scale = scale.saturating_add(1);
    }
    (mantissa, scale)
}

/// Rounds up to a multiple of 10^-9.
fn round_to_nano(mantissa: &mut i128, scale: &mut i32) {
    if *mantissa == 0 || *scale >= -9 {
        return;
    }
    let divisor = power(-9 - *scale).unwrap_or(i128::MAX);
    *mantissa = *mantissa / divisor + i128::from(*mantissa % divisor != 0);
    *scale = -9;
}

/// Reports whether a positive value is less than one.
fn below_one(mantissa: i128, scale: i32) -> bool {
    scale < 0 && power(-scale).is_none_or(|divisor| mantissa < divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Quantity::parse(text)
            .map_or_else(|error| error.to_string(), |quantity| quantity.canonical())
    }

    #[test]
    fn canonical_form_is_that_of_kubernetes() {
        let table = [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1025Mi", "1025Mi"),
            ("0", "0"),
            ("00", "0"),
            ("12e6", "12e6"),
            ("12000e3", "12e6"),
            ("1000", "1k"),
            ("100", "100"),
            ("1048576", "1048576"),
            ("1048576Ki", "1Gi"),
            ("0.1n", "1n"),
            ("-500m", "-500m"),
            ("1E", "1E"),
            ("512Ki", "512Ki"),
            ("100Ki", "100Ki"),
            ("1.500", "1.500"),
        ];
        for (text, expected) in table {
            assert_eq!(canonical(text), expected, "{text}");
        }
    }

    #[test]
    fn malformed_quantity_is_rejected() {
        for text in ["", "abc", "1 Gi", "1Gix", "1.2.3"] {
            assert_eq!(
                Quantity::parse(text).err(),
                Some(QuantityError::Format),
                "{text}"
            );
        }

        assert_eq!(Quantity::parse("1kk").err(), Some(QuantityError::Suffix));
        assert_eq!(Quantity::parse("--1").err(), Some(QuantityError::Suffix));
        assert_eq!(
            Quantity::parse(&"9".repeat(60)).err(),
            Some(QuantityError::Number)
        );
    }

    #[test]
    fn thousandths_are_rounded_away_from_zero() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("100m", Some(100)),
            ("0.5", Some(500)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("1k", Some(1_000_000)),
            ("1u", Some(1)),
            ("-2", Some(-2000)),
            ("2e3", Some(2_000_000)),
            ("5E", Some(5_000_000_000_000_000_000_000)),
            ("", None),
            ("1x", None),
            ("1.2.3", None),
            ("1e99", None),
            ("99999999999999999999999999999999999999Ei", None),
        ] {
            let quantity = Quantity::parse(text).ok();
            let thousandths = quantity.and_then(|quantity| quantity.milli_value());
            assert_eq!(thousandths, expected, "{text}");
        }
    }

    #[test]
    fn comparison_is_by_value() {
        let compare = |left, right| {
            Some(
                Quantity::parse(left)
                    .ok()?
                    .compare(&Quantity::parse(right).ok()?),
            )
        };
        assert_eq!(compare("1Gi", "1024Mi"), Some(Ordering::Equal));
        assert_eq!(compare("900m", "1"), Some(Ordering::Less));
        assert_eq!(compare("1E", "1n"), Some(Ordering::Greater));
    }
}

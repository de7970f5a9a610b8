//! Quantities of resources, as far as limits compare them.

/// Returns a quantity in thousandths, rounded up; None if it is malformed or too large.
pub(super) fn thousandths(text: &str) -> Option<i128> {
    let digits_end = text.find(|char: char| !(char.is_ascii_digit() || ".+-".contains(char))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let (multiplier, divisor) = scale(suffix)?;
    let (negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !is_digits(whole) || !is_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let mantissa: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let numerator = mantissa.checked_mul(multiplier)?.checked_mul(1000)?;
    let denominator = 10i128.pow(u32::try_from(fraction.len()).ok()?).checked_mul(divisor)?;
    let value = numerator.checked_add(denominator - 1)? / denominator;
    Some(if negative { -value } else { value })
}

/// Returns the multiplier and the divisor of a suffix.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    const SMALL: [&str; 3] = ["m", "u", "n"];
    let power =
        |list: &[&str]| list.iter().position(|known| *known == suffix).and_then(|at| u32::try_from(at + 1).ok());
    if suffix.is_empty() {
        return Some((1, 1));
    }
    if let Some(power) = power(&BINARY) {
        return Some((1024i128.pow(power), 1));
    }
    if let Some(power) = power(&DECIMAL) {
        return Some((1000i128.pow(power), 1));
    }
    if let Some(power) = power(&SMALL) {
        return Some((1, 1000i128.pow(power)));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10i128.checked_pow(exponent.unsigned_abs()).filter(|_| exponent.unsigned_abs() <= 18)?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantity_has_a_suffix() {
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
            (".", None),
            ("1x", None),
            ("1.2.3", None),
            ("1e99", None),
            ("99999999999999999999999999999999999999Ei", None),
        ] {
            assert_eq!(thousandths(text), expected, "{text}");
        }
    }
}

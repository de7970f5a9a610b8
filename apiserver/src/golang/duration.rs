//! Durations in Go's form, as in `1h30m`.

/// Parses a duration in Go's form into nanoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "fractions of a unit are small"
)]
pub fn parse(text: &str) -> Option<i64> {
    if !is_valid(text) {
        return None;
    }

    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };

    let mut total: i64 = 0;
    while !rest.is_empty() && rest != "0" {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());

        let (number, after) = rest.split_at(digits);
        let unit = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());

        let scale: i64 = match &after[..unit] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            _ => 3_600_000_000_000,
        };

        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole: i64 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        let fraction: f64 = if fraction.is_empty() {
            0.0
        } else {
            format!("0.{fraction}").parse().ok()?
        };

        total = total
            .checked_add(whole.checked_mul(scale)?)?
            .checked_add((fraction * scale as f64).round() as i64)?;

        rest = &after[unit..];
    }

    total.checked_mul(sign)
}

/// Reports whether Go's `time.ParseDuration` reads a text.
pub fn is_valid(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }

    while !rest.is_empty() {
        let number = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let digits = &rest[..number];
        if digits.matches('.').count() > 1 || !digits.bytes().any(|byte| byte.is_ascii_digit()) {
            return false;
        }

        rest = &rest[number..];
        let unit = rest
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(rest.len());
        if !["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&&rest[..unit]) {
            return false;
        }

        rest = &rest[unit..];
    }

    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_durations_with_units() {
        assert!(is_valid("-1.5h") && !is_valid("1") && !is_valid("1d") && is_valid("0"));
    }

    #[test]
    fn parses_durations_as_go_does() {
        let cases = [
            ("1h30m", 5_400_000_000_000),
            ("-1.5s", -1_500_000_000),
            ("0", 0),
            ("1ms2us3ns", 1_002_003),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text), Some(nanos), "{text}");
        }

        assert_eq!(parse("9999999999h"), None);
    }
}

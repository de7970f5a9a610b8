//! Times as RFC 3339 text, without jiff: its parser and printer know so many forms that they were a
//! fifth of a plugin.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use k8s_openapi::jiff::Timestamp;

use super::cast::{same, upcast};

/// Reports whether a type is a time.
#[inline(always)]
pub(super) fn is_time<T>() -> bool {
    same::<T, Time>() || same::<T, MicroTime>()
}

/// Converts a time to a `T`, if that is the type of a time.
#[inline(always)]
pub(super) fn convert<T>(time: Timestamp) -> Option<T> {
    upcast(Time(time)).or_else(|| upcast(MicroTime(time)))
}

const DAY: i64 = 24 * 60 * 60;
/// The days of 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;
/// The days from March 1 of the year 0 to 1970.
const EPOCH: i64 = 719_468;

/// Formats a time in quotes, with or without microseconds.
#[inline(never)]
pub(super) fn format(time: Timestamp, micros: bool) -> String {
    let nanos = i64::from(time.subsec_nanosecond());
    let (second, nanos) = if nanos < 0 {
        (time.as_second() - 1, nanos + 1_000_000_000)
    } else {
        (time.as_second(), nanos)
    };

    let (year, month, day) = date(second.div_euclid(DAY));
    let second = second.rem_euclid(DAY);

    let mut text = String::with_capacity(32);
    text.push('"');
    if year < 0 {
        text.push('-');
    }

    for (value, digits, next) in [
        (year.abs(), 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (second / 3600, 2, ':'),
        (second / 60 % 60, 2, ':'),
        (second % 60, 2, if micros { '.' } else { 'Z' }),
        (nanos / 1000, if micros { 6 } else { 0 }, 'Z'),
    ] {
        let mut unit = 10_i64.pow(digits);
        while unit > 1 {
            unit /= 10;
            text.push(char::from(b'0' + (value / unit % 10) as u8));
        }

        if digits > 0 {
            text.push(next);
        }
    }

    text.push('"');
    text
}

/// The year, month and day of a day since 1970. A year begins in March here, so that it ends with
/// the leap day.
fn date(day: i64) -> (i64, i64, i64) {
    let day = day + EPOCH;
    let era = day.div_euclid(ERA);
    let day = day.rem_euclid(ERA);

    let year = (day - day / 1460 + day / 36_524 - day / (ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;

    let (month, next_year) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };

    (era * 400 + year + next_year, month, day)
}

/// The day since 1970 of a year, month and day.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };

    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    year.div_euclid(400) * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH
}

/// Parses a time of RFC 3339, with at most nine digits of a second's fraction.
#[inline(never)]
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let mut text = Digits(text.as_bytes());

    let year = text.number(4)?;
    let month = text.after(b'-')?;
    let day = text.after(b'-')?;
    text.skip(b"Tt ")?;

    let hour = text.number(2)?;
    let minute = text.after(b':')?;
    let second = text.after(b':')?;

    let mut nanos = 0;
    if text.skip(b".").is_some() {
        let digits = text
            .0
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();

        if !(1..=9).contains(&digits) {
            return None;
        }

        nanos = text.number(digits)? * 10_i64.pow(9 - digits as u32);
    }

    let offset = match text.skip(b"Zz+-")? {
        b'+' => text.number(2)? * 60 + text.after(b':')?,
        b'-' => -(text.number(2)? * 60 + text.after(b':')?),
        _ => 0,
    };

    let date_number = days(year, month, day);
    let valid = date(date_number) == (year, month, day)
        && (1..=12).contains(&month)
        && hour < 24
        && minute < 60;

    if !valid || second > 60 || !text.0.is_empty() {
        return None;
    }

    // A leap second counts as the second before it, as in jiff.
    let second = date_number * DAY + hour * 3600 + minute * 60 + second.min(59) - offset * 60;
    Timestamp::new(second, nanos as i32).ok()
}

/// The rest of a text.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;

        number.iter().try_fold(0, |value, byte| {
            byte.is_ascii_digit()
                .then(|| value * 10 + i64::from(byte - b'0'))
        })
    }

    /// Skips one of these bytes and returns it.
    fn skip(&mut self, one_of: &[u8]) -> Option<u8> {
        let (first, rest) = self
            .0
            .split_first()
            .filter(|(first, _)| one_of.contains(first))?;
        self.0 = rest;
        Some(*first)
    }

    /// The number of two digits after a separator.
    fn after(&mut self, separator: u8) -> Option<i64> {
        self.skip(&[separator])?;
        self.number(2)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formats_as_jiff_does() {
        // The year 0; jiff does not fill up negative years.
        let mut second = -62_167_219_200_i64;
        let mut nanos = 0;
        while let Ok(time) = Timestamp::new(second, nanos) {
            let jiff = |value: serde_json::Value| value.to_string();
            assert_eq!(format(time, false), jiff(json!(Time(time))), "{second}");
            assert_eq!(
                format(time, true),
                jiff(json!(MicroTime(time))),
                "{second} {nanos}"
            );

            second += 40_000_003;
            nanos = if second < 0 {
                -123_456_789
            } else {
                987_654_321
            };
        }

        assert!(second > 253_000_000_000);
    }

    #[test]
    fn parses_as_jiff_does() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59.123456789Z",
            "2024-02-29T23:59:60z",
            "0000-03-01t12:00:00.1+14:00",
            "1900-02-28T01:02:03.000001-00:30",
            "9999-12-30T00:00:00Z",
        ] {
            assert_eq!(parse(text), Some(text.parse().expect(text)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_rfc_3339() {
        for text in [
            "",
            "2024-02-29",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-00-01T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:60:00Z",
            "2024-01-01T00:00:61Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00.1234567890Z",
            "2024-01-01T00:00:00Z ",
            "2024-1-01T00:00:00Z",
            "é024-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

//! Times of Kubernetes objects: RFC 3339 in UTC, with seconds or microseconds.

use jiff::SignedDuration;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds below a second.
    pub nanos: u32,
}

/// The layout of `metav1.Time`, as Go's messages show it.
pub(crate) const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
/// The layout of `metav1.MicroTime`.
pub(crate) const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

impl Instant {
    /// Returns the time as `metav1.Time` prints it.
    pub fn to_seconds(self) -> String {
        let days = self.seconds.div_euclid(86_400);
        let second = self.seconds.rem_euclid(86_400);
        let (year, month, day) = civil(days);

        format!(
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }

    /// Returns the time as `metav1.MicroTime` prints it.
    pub fn to_micros(self) -> String {
        let seconds = self.to_seconds();
        format!(
            "{}.{:06}Z",
            seconds.trim_end_matches('Z'),
            self.nanos / 1000
        )
    }

    /// Returns the time that has passed since an earlier time.
    pub(crate) fn since(self, earlier: Self) -> SignedDuration {
        let nanos = |of: Self| i32::try_from(of.nanos).unwrap_or_default();
        SignedDuration::new(self.seconds - earlier.seconds, nanos(self) - nanos(earlier))
    }

    /// Parses a time of RFC 3339.
    ///
    /// # Errors
    /// Returns the message of Go's `time.Parse`.
    pub fn parse(text: &str) -> Result<Self, String> {
        Reader {
            text,
            rest: text,
            layout: LAYOUT,
        }
        .instant(false)
    }

    /// Parses a time with exactly six digits of a fraction.
    ///
    /// # Errors
    /// Returns the message of Go's `time.Parse`.
    pub fn parse_micro(text: &str) -> Result<Self, String> {
        Reader {
            text,
            rest: text,
            layout: MICRO_LAYOUT,
        }
        .instant(true)
    }

    /// Reports whether this is Go's zero time.
    pub fn is_zero(self) -> bool {
        self.seconds == -62_135_596_800 && self.nanos == 0
    }
}

/// The date of a day since 1970. The algorithm is Howard Hinnant's `civil_from_days`:
/// <https://howardhinnant.github.io/date_algorithms.html>.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);

    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);

    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };

    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day since 1970 of a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads a text, and reports errors like Go's `time.Parse`.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'a str,
}

impl Reader<'_> {
    fn instant(&mut self, micro: bool) -> Result<Instant, String> {
        let year = self.number(4, "2006")?;
        self.literal('-')?;
        let month = self.ranged("01", "month", 1..=12)?;
        self.literal('-')?;

        let day = self.number(2, "02")?;
        self.literal('T')?;
        let hour = self.ranged("15", "hour", 0..=23)?;
        self.literal(':')?;
        let minute = self.ranged("04", "minute", 0..=59)?;
        self.literal(':')?;
        let second = self.ranged("05", "second", 0..=59)?;

        let nanos = if micro {
            self.micros()?
        } else {
            self.fraction()
        };
        let offset = self.offset()?;

        if !self.rest.is_empty() {
            return Err(format!(
                "parsing time {:?}: extra text: {:?}",
                self.text, self.rest
            ));
        }

        if day < 1 || day > days_in(year, month) {
            return Err(self.out_of_range("day"));
        }

        let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
        Ok(Instant { seconds, nanos })
    }

    fn failure(&self, element: &str) -> String {
        format!(
            "parsing time {:?} as {:?}: cannot parse {:?} as {element:?}",
            self.text, self.layout, self.rest
        )
    }

    fn out_of_range(&self, name: &str) -> String {
        format!("parsing time {:?}: {name} out of range", self.text)
    }

    fn number(&mut self, digits: usize, element: &str) -> Result<i64, String> {
        let Some((head, tail)) = self.rest.split_at_checked(digits) else {
            return Err(self.failure(element));
        };

        if !head.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.failure(element));
        }

        self.rest = tail;
        head.parse().map_err(|_| self.failure(element))
    }

    fn ranged(
        &mut self,
        element: &str,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<i64, String> {
        let value = self.number(2, element)?;
        if range.contains(&value) {
            Ok(value)
        } else {
            Err(self.out_of_range(name))
        }
    }

    fn literal(&mut self, expected: char) -> Result<(), String> {
        self.rest = self
            .rest
            .strip_prefix(expected)
            .ok_or_else(|| self.failure(&expected.to_string()))?;
        Ok(())
    }

    /// Reads an optional fraction of a second, in nanoseconds.
    fn fraction(&mut self) -> u32 {
        let Some(tail) = self.rest.strip_prefix(['.', ',']) else {
            return 0;
        };

        let end = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        if end == 0 {
            return 0;
        }

        self.rest = &tail[end..];
        format!("{:0<9}", &tail[..end.min(9)]).parse().unwrap_or(0)
    }

    fn micros(&mut self) -> Result<u32, String> {
        let failure = self.failure(".000000");

        let tail = self
            .rest
            .strip_prefix(['.', ','])
            .ok_or_else(|| failure.clone())?;
        let (digits, tail) = tail.split_at_checked(6).ok_or_else(|| failure.clone())?;

        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(failure);
        }

        self.rest = tail;
        digits
            .parse::<u32>()
            .map(|micros| micros * 1000)
            .map_err(|_| failure)
    }

    /// Reads `Z` or an offset, in seconds.
    fn offset(&mut self) -> Result<i64, String> {
        if let Some(tail) = self.rest.strip_prefix('Z') {
            self.rest = tail;
            return Ok(0);
        }

        let failure = self.failure("Z07:00");
        let sign = match self.rest.bytes().next() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(failure),
        };

        let (text, tail) = self.rest[1..]
            .split_at_checked(5)
            .ok_or_else(|| failure.clone())?;
        let (hours, minutes) = text.split_once(':').ok_or_else(|| failure.clone())?;

        let digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(hours) || !digits(minutes) {
            return Err(failure);
        }

        self.rest = tail;
        let hours: i64 = hours.parse().unwrap_or(0);
        let minutes: i64 = minutes.parse().unwrap_or(0);

        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }

        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_printed_in_utc() {
        let table = [
            ("2024-02-29T12:30:00+02:00", "2024-02-29T10:30:00Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59Z"),
            ("2000-12-31T23:30:00-01:00", "2001-01-01T00:30:00Z"),
        ];
        for (text, expected) in table {
            assert_eq!(
                Instant::parse(text).map(Instant::to_seconds).as_deref(),
                Ok(expected)
            );
        }

        let micro = Instant::parse_micro("2024-01-01T00:00:00.123456Z").map(Instant::to_micros);
        assert_eq!(micro.as_deref(), Ok("2024-01-01T00:00:00.123456Z"));
    }

    #[test]
    fn malformed_time_is_rejected_in_go_words() {
        let message = |text| Instant::parse(text).err().unwrap_or_default();

        let expected =
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#;
        assert_eq!(message("x"), expected);
        assert_eq!(
            message("2023-02-29T00:00:00Z"),
            r#"parsing time "2023-02-29T00:00:00Z": day out of range"#
        );
        assert_eq!(
            message("2023-13-01T00:00:00Z"),
            r#"parsing time "2023-13-01T00:00:00Z": month out of range"#
        );
    }

    #[test]
    fn go_zero_time_is_recognised() {
        assert!(Instant::parse("0001-01-01T00:00:00Z").is_ok_and(Instant::is_zero));
    }
}

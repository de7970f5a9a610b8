//! Parts of timestamps and durations.

use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

use super::convert::EvalError;
use super::value::Val;

/// A part of a duration, or of a timestamp in UTC or in the time zone of the second argument. Fails
/// with cel-go's message if the zone is unknown or the part does not exist.
pub fn part(name: &str, args: &[Val]) -> Result<Val, EvalError> {
    let value = match args {
        [Val::Duration(nanos)] => duration_part(name, *nanos),
        [Val::Timestamp(time)] => timestamp_part(name, &time.to_zoned(TimeZone::UTC)),
        [Val::Timestamp(time), Val::String(zone)] => timestamp_part(name, &in_zone(*time, zone)?),
        _ => None,
    };

    value
        .map(Val::Int)
        .ok_or_else(|| "no such overload".to_owned())
}

fn duration_part(name: &str, nanos: i64) -> Option<i64> {
    Some(match name {
        "getHours" => nanos / 3_600_000_000_000,
        "getMinutes" => nanos / 60_000_000_000,
        "getSeconds" => nanos / 1_000_000_000,
        "getMilliseconds" => nanos / 1_000_000,
        _ => return None,
    })
}

fn timestamp_part(name: &str, time: &Zoned) -> Option<i64> {
    Some(match name {
        "getFullYear" => i64::from(time.year()),
        "getMonth" => i64::from(time.month()) - 1,
        "getDayOfYear" => i64::from(time.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(time.day()) - 1,
        "getDate" => i64::from(time.day()),
        "getDayOfWeek" => i64::from(time.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(time.hour()),
        "getMinutes" => i64::from(time.minute()),
        "getSeconds" => i64::from(time.second()),
        "getMilliseconds" => i64::from(time.millisecond()),
        _ => return None,
    })
}

/// Converts a time to a zone: `UTC`, or an offset as in `-08:00`.
fn in_zone(time: Timestamp, zone: &str) -> Result<Zoned, EvalError> {
    let unknown = || format!("unknown time zone {zone}");

    if matches!(zone, "" | "UTC") {
        return Ok(time.to_zoned(TimeZone::UTC));
    }

    let (sign, digits) = match zone.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };

    let (hours, minutes) = digits.split_once(':').ok_or_else(unknown)?;
    let hours: i32 = hours.parse().map_err(|_| unknown())?;
    let minutes: i32 = minutes.parse().map_err(|_| unknown())?;

    let seconds = hours
        .checked_mul(3600)
        .and_then(|hours| hours.checked_add(minutes.checked_mul(60)?));

    let offset = seconds
        .and_then(|seconds| Offset::from_seconds(sign * seconds).ok())
        .ok_or_else(unknown)?;

    Ok(time.to_zoned(TimeZone::fixed(offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_parts_in_a_zone() {
        let time = Val::Timestamp("2024-01-01T23:30:00Z".parse().expect("time"));

        let hours = |zone: &str| match part("getHours", &[time.clone(), Val::text(zone)]) {
            Ok(Val::Int(hours)) => Ok(hours),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error),
        };

        assert_eq!(
            (hours("UTC"), hours("-08:00"), hours("01:00")),
            (Ok(23), Ok(15), Ok(0))
        );

        assert_eq!(hours("Mars"), Err("unknown time zone Mars".to_owned()));
        assert!(matches!(part("getMonth", &[time]), Ok(Val::Int(0))));
    }
}

//! Durations as people read them in tables.

use jiff::SignedDuration;

/// Returns a duration as `HumanDuration` of [`duration.go`] prints it: `5m30s`, `3h`, `2d4h`. There
/// are two units while both matter, and one for long times.
///
/// [`duration.go`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/util/duration/duration.go
pub(crate) fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };

    match () {
        () if seconds < -1 => "<invalid>".into(),
        () if seconds < 0 => "0s".into(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if years < 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_for_people() {
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (150, "2m30s"),
            (600, "10m"),
            (3600, "60m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600 + 60, "8h"),
            (90_000, "25h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (180_000, "2d2h"),
            (8 * 86_400, "8d"),
            (864_000, "10d"),
            (365 * 86_400 * 2, "2y"),
            (366 * 86_400 * 2, "2y2d"),
            (70_000_000, "2y80d"),
            (365 * 86_400 * 9, "9y"),
            (300_000_000, "9y"),
        ];

        for (seconds, expected) in table {
            assert_eq!(human(SignedDuration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn incomplete_second_does_not_count() {
        assert_eq!(human(SignedDuration::from_millis(1_900)), "1s");
        assert_eq!(human(SignedDuration::from_millis(-1_900)), "0s");
    }
}

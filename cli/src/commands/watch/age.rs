//! Ages as kubectl prints them (apimachinery's `duration.HumanDuration`): two units for a short
//! age, one for a long one.

/// Formats `seconds` as `5s`, `3m12s`, `17m`, `7h3m`, `30h`, `4d5h`, `90d`, `3y40d`.
pub fn human(seconds: i64) -> String {
    let two = |large: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{large}{unit}")
        } else {
            format!("{large}{unit}{small}{small_unit}")
        }
    };

    let minutes = seconds / 60;
    let hours = seconds / 3600;
    let days = hours / 24;

    match () {
        // Clocks may differ by a second.
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_s() {
        let minute = 60;
        let hour = 3600;
        let day = 86400;

        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (3 * minute + 12, "3m12s"),
            (17 * minute + 5, "17m"),
            (3 * hour, "3h"),
            (7 * hour + 3 * minute, "7h3m"),
            (30 * hour, "30h"),
            (2 * day, "2d"),
            (4 * day + 5 * hour, "4d5h"),
            (90 * day, "90d"),
            (730 * day, "2y"),
            (3 * 365 * day + 40 * day, "3y40d"),
            (9 * 365 * day, "9y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds} s");
        }
    }
}

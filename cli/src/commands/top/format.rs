//! Numbers in five columns of the terminal.

/// Formats a number per second: `0.0`, `12.3`, `456`, `7.8k`.
pub fn rate(value: f64) -> String {
    match value {
        value if value < 99.95 => format!("{value:.1}"),
        value if value < 9_999.5 => format!("{value:.0}"),
        value if value < 999_950.0 => format!("{:.0}k", value / 1e3),
        value => format!("{:.1}M", value / 1e6),
    }
}

/// Formats seconds: `950us`, `4.2ms`, `120ms`, `1.50s`, `75s`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.000_999_5 => format!("{:.0}us", seconds * 1e6),
        seconds if seconds < 0.009_95 => format!("{:.1}ms", seconds * 1e3),
        seconds if seconds < 0.999_5 => format!("{:.0}ms", seconds * 1e3),
        seconds if seconds < 9.995 => format!("{seconds:.2}s"),
        seconds => format!("{seconds:.0}s"),
    }
}

/// Formats bytes in binary units, as kubectl does: `0`, `640Ki`, `12Mi`, `3Gi`.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1024.0 => format!("{bytes:.0}"),
        bytes if bytes < 1024.0 * 1024.0 => format!("{:.0}Ki", bytes / 1024.0),
        bytes if bytes < 10_000.0 * 1024.0 * 1024.0 => format!("{:.0}Mi", bytes / 1024.0 / 1024.0),
        bytes => format!("{:.0}Gi", bytes / 1024.0 / 1024.0 / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_five_columns() {
        for (value, text) in [
            (0.0, "0.0"),
            (12.34, "12.3"),
            (99.96, "100"),
            (4567.0, "4567"),
            (12_345.0, "12k"),
            (2.5e6, "2.5M"),
        ] {
            assert_eq!(rate(value), text);
        }
        for (value, text) in [
            (0.0, "0us"),
            (0.000_25, "250us"),
            (0.0042, "4.2ms"),
            (0.12, "120ms"),
            (1.5, "1.50s"),
            (75.0, "75s"),
        ] {
            assert_eq!(duration(value), text);
        }
        for (value, text) in [
            (0.0, "0"),
            (655_360.0, "640Ki"),
            (12.0 * 1_048_576.0, "12Mi"),
            (1e11, "93Gi"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }
}

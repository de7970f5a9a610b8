//! Dates and times in Go's forms.

use std::sync::LazyLock;

use regex::Regex;

static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok()
});

/// Reports whether a text is a date such as `2006-01-02`.
pub fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };

    if [year.len(), month.len(), day.len()] != [4, 2, 2]
        || !parts.iter().all(|part| is_digits(part))
    {
        return false;
    }

    let number = |part: &str| part.parse::<u32>().unwrap_or(0);
    let year = number(year);
    let month = number(month);
    let day = number(day);

    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };

    day >= 1 && day <= days
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reports whether a text in lower case is a time of day with an offset, such as `15:04:05z`.
pub fn is_time_of_day(text: &str) -> bool {
    let Some(found) = TIME.as_ref().and_then(|pattern| pattern.captures(text)) else {
        return false;
    };
    &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// Reports whether a text is an RFC 3339 time with seconds, as metav1.Time reads it.
pub fn is_rfc3339(text: &str) -> bool {
    let Some((date, rest)) = text.split_once('T') else {
        return false;
    };
    is_date(date) && is_time_of_day(&rest.to_lowercase()) && !rest.ends_with('z')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rfc3339_with_seconds() {
        assert!(is_rfc3339("2024-01-02T03:04:05Z") && is_rfc3339("2024-01-02T03:04:05.1+01:00"));
        assert!(!is_rfc3339("2024-01-02T03:04Z") && !is_rfc3339("now"));
    }
}

//! The schedules of CronJobs: five fields, or a name as in `@daily`.

/// A field: its lowest and highest number and its names.
struct Field {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field {
        low: 0,
        high: 59,
        names: &[],
    },
    Field {
        low: 0,
        high: 23,
        names: &[],
    },
    Field {
        low: 1,
        high: 31,
        names: &[],
    },
    Field {
        low: 1,
        high: 12,
        names: &MONTHS,
    },
    Field {
        low: 0,
        high: 6,
        names: &DAYS,
    },
];
const NAMED: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// Parses a schedule.
///
/// # Errors
/// Returns the message of the library that Kubernetes uses.
pub(super) fn parse(schedule: &str) -> Result<(), String> {
    let mut spec = schedule;
    if spec.starts_with("TZ=") || spec.starts_with("CRON_TZ=") {
        spec = spec
            .split_once(' ')
            .map(|(_, rest)| rest.trim())
            .unwrap_or_default();
    }

    if spec.starts_with('@') {
        if NAMED.contains(&spec) {
            return Ok(());
        }

        if let Some(duration) = spec.strip_prefix("@every ") {
            let valid = duration.ends_with(['s', 'm', 'h'])
                && duration.starts_with(|c: char| c.is_ascii_digit());
            return if valid {
                Ok(())
            } else {
                Err(format!(
                    "failed to parse duration {spec}: time: invalid duration {duration:?}"
                ))
            };
        }

        return Err(format!("unrecognized descriptor: {spec}"));
    }

    let parts: Vec<&str> = spec.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            parts.len(),
            parts.join(" ")
        ));
    }

    for (part, field) in parts.iter().zip(&FIELDS) {
        part.split(',')
            .filter(|item| !item.is_empty())
            .try_for_each(|item| range(item, field))?;
    }

    Ok(())
}

fn range(text: &str, field: &Field) -> Result<(), String> {
    let (ends, step) = match text.split_once('/') {
        Some((_, step)) if step.contains('/') => return Err(format!("too many slashes: {text}")),
        Some((ends, step)) => (ends, Some(step)),
        None => (text, None),
    };
    let (start, end) = if matches!(ends, "*" | "?") {
        (field.low, field.high)
    } else {
        match ends.split_once('-') {
            Some((_, end)) if end.contains('-') => return Err(format!("too many hyphens: {text}")),
            Some((start, end)) => (number(start, field)?, number(end, field)?),
            None => {
                let start = number(ends, field)?;
                (start, if step.is_some() { field.high } else { start })
            }
        }
    };

    let step = step.map_or(Ok(1), parse_number)?;
    if start < field.low {
        return Err(format!(
            "beginning of range ({start}) below minimum ({}): {text}",
            field.low
        ));
    }

    if end > field.high {
        return Err(format!(
            "end of range ({end}) above maximum ({}): {text}",
            field.high
        ));
    }

    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }

    Ok(())
}

fn number(text: &str, field: &Field) -> Result<u32, String> {
    let lower = text.to_lowercase();
    if let Some(index) = field.names.iter().position(|name| *name == lower) {
        return Ok(index as u32 + field.low);
    }
    parse_number(text)
}

fn parse_number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => u32::try_from(number).map_err(|_| format!("failed to parse int from {text}")),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn schedules_are_accepted_and_rejected() {
        for good in [
            "* * * * *",
            "*/5 0-3 1,15 jan-mar MON",
            "@hourly",
            "@every 5m",
            "TZ=UTC 0 0 * * ?",
        ] {
            assert_eq!(parse(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "x * * * *",
            "@never",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

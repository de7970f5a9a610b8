//! The formats of cells: durations, lists, selectors.

use serde_json::{Map, Value};

use super::super::object::{fields, items, text};

/// Returns a duration as Kubernetes prints it for people: `5m30s`, `3h`, `2d4h`.
pub(super) fn duration(seconds: i64, below: bool) -> String {
    let seconds = seconds - i64::from(below && seconds > 0);
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let both = |large: i64, unit: &str, small: i64, part: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{part}") }
    };
    let minutes = seconds / 60;
    let hours = minutes / 60;
    match hours {
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => both(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => both(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => both(hours / 24, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        _ if hours < 24 * 365 * 8 => both(hours / 24 / 365, "y", hours / 24 % 365, "d"),
        _ => format!("{}y", hours / 24 / 365),
    }
}

/// Returns the names and the images of containers.
pub(super) fn containers(list: &[Value]) -> [Value; 2] {
    let join = |key: &str| list.iter().map(|item| text(item, key)).collect::<Vec<_>>().join(",");
    [join("name").into(), join("image").into()]
}

/// Returns labels as `a=b,c=d`.
pub(super) fn labels(labels: &Map<String, Value>) -> String {
    if labels.is_empty() {
        return "<none>".to_owned();
    }
    pairs(labels).join(",")
}

fn pairs(labels: &Map<String, Value>) -> Vec<String> {
    let mut pairs: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    pairs.sort_unstable();
    pairs
}

/// Returns a label selector as `a=b,c in (d,e),!f`; an empty text for one without requirements.
pub(super) fn selector(selector: &Value) -> String {
    let mut requirements: Vec<(String, String)> = fields(selector, "matchLabels")
        .iter()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for requirement in items(selector, "matchExpressions") {
        let key = text(requirement, "key");
        let mut values: Vec<&str> = items(requirement, "values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(requirement, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        requirements.push((key.to_owned(), shown));
    }
    requirements.sort_by(|left, right| left.0.cmp(&right.0));
    requirements.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join(",")
}

/// Returns a label selector, or `<none>` for one without requirements.
pub(super) fn selector_or_none(value: &Value) -> String {
    match selector(value) {
        empty if empty.is_empty() => "<none>".to_owned(),
        shown => shown,
    }
}

/// Returns the first items of a list and the number of the others.
pub(super) fn shortened(list: &[String], shown: usize) -> String {
    let head = list.iter().take(shown).cloned().collect::<Vec<_>>().join(",");
    match list.len().checked_sub(shown) {
        Some(more) if more > 0 => format!("{head} + {more} more..."),
        _ => head,
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_are_rounded_for_people() {
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600 + 60, "8h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (8 * 86_400, "8d"),
            (365 * 86_400 * 2, "2y"),
            (366 * 86_400 * 2, "2y2d"),
            (365 * 86_400 * 9, "9y"),
        ];
        for (seconds, expected) in table {
            assert_eq!(duration(seconds, false), expected);
        }
    }
}

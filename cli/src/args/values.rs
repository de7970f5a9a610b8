//! Parsers of arguments that would otherwise fail later, at the API server or the host.

use std::time::Duration;

use operetta_api::names::{is_dns_label, is_dns_subdomain, is_path_segment};
use operetta_apiserver::{ControllerName, Controllers};
use operetta_core::object::selector::{LabelSelector, SelectorError};

/// Checks the name of an object.
pub(super) fn object_name(text: &str) -> Result<String, &'static str> {
    match is_dns_subdomain(text) {
        true => Ok(text.to_owned()),
        false => Err("a name has lower case letters, digits, '-' and '.', at most 253"),
    }
}

/// Checks the name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, &'static str> {
    match is_dns_label(text) {
        true => Ok(text.to_owned()),
        false => Err("a namespace has lower case letters, digits and '-', at most 63"),
    }
}

/// Reads the names of controllers, with commas between them, or `all`.
pub(super) fn controllers(text: &str) -> Result<Controllers, String> {
    if text == "all" {
        return Ok(Controllers::all());
    }
    let names: Result<Vec<ControllerName>, String> =
        text.split(',').map(|name| name.trim().parse()).collect();
    Ok(Controllers::only(names?))
}

/// Checks the identity of a replica.
pub fn replica(text: &str) -> Result<String, &'static str> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_valid) {
        true => Ok(text.to_owned()),
        false => Err("kubectl get plugins -A -o wide shows the identities of replicas"),
    }
}

/// Checks the key of an object, `NAMESPACE/NAME` or `NAME`.
pub(super) fn key(text: &str) -> Result<String, &'static str> {
    let (namespace, name) = text
        .split_once('/')
        .map_or((None, text), |(namespace, name)| (Some(namespace), name));

    // Some kinds, such as Role, have names that are no DNS names, like `hello world`.
    match is_path_segment(name) && namespace.is_none_or(is_dns_label) {
        true => Ok(text.to_owned()),
        false => Err("a key is NAMESPACE/NAME or NAME, where a name has no '/' and no '%'"),
    }
}

/// Checks the path of a field.
pub(super) fn field(text: &str) -> Result<String, &'static str> {
    match text.starts_with('.') && text.len() > 1 && !text.contains(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err("a field is a path such as .spec.replicas"),
    }
}

/// Reads a duration in seconds, minutes or hours, such as `90s`.
pub(super) fn duration(text: &str) -> Result<Duration, &'static str> {
    const FORM: &str = "a duration is a number with the unit s, m or h, such as 90s or 5m";
    let units = [('s', 1), ('m', 60), ('h', 3600)];
    let found = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, seconds)));

    let (number, seconds) = found.ok_or(FORM)?;
    let number: u32 = number.parse().map_err(|_| FORM)?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

/// Reads a number of seconds, such as `2` or `0.5`.
pub(super) fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|seconds| (0.5..=3600.0).contains(seconds));

    seconds
        .map(Duration::from_secs_f64)
        .ok_or("use a number of seconds from 0.5 to 3600")
}

/// Checks a label selector and returns it as it was typed.
pub(super) fn label_selector(text: &str) -> Result<String, SelectorError> {
    LabelSelector::parse(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_plugin_has_kubernetes_limits() {
        for right in ["a".repeat(64), "a".repeat(253), "my.plugin".to_owned()] {
            assert_eq!(object_name(&right), Ok(right));
        }
        for wrong in ["a".repeat(254), "a..b".to_owned(), "A".to_owned()] {
            assert!(object_name(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn replica_is_no_query() {
        assert_eq!(
            replica("operetta-7d9f_0b1c-2.x"),
            Ok("operetta-7d9f_0b1c-2.x".to_owned())
        );
        for wrong in ["", "a&b", "a#b", "a/b", "a b"] {
            assert!(replica(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn key_has_a_name_of_any_kind() {
        for right in [
            "web",
            "team/web",
            "team/system:web.v1",
            "x",
            "a b",
            "team/a&key=b",
            "a?b",
        ] {
            assert_eq!(key(right).as_deref(), Ok(right));
        }
        for wrong in [
            "", "/", "a/", "/a", "a/b/c", "A/b", "a b/c", "a%2fb", ".", "team/..",
        ] {
            assert!(key(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_are_within_limits() {
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "0", "-1", "0.1", "3601", "2s", "NaN", "inf"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        for wrong in ["", "s", "5", "-1s", "1.5m", "5d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}

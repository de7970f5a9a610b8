//! The formats of ports, variables, keys and the like, with Kubernetes' messages.

use crate::apimachinery::names::mismatch;
pub(crate) use crate::apimachinery::names::{
    dns1035_label as label_1035, dns1123_label as label, dns1123_subdomain as subdomain,
    label_value, path_segment_name as path_segment, qualified_name,
    wildcard_dns1123_subdomain as wildcard_subdomain,
};

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Returns what is wrong with the name of a port.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 15 {
        messages.push("must be no more than 15 bytes".to_owned());
    }

    if text.is_empty() || !text.bytes().all(|byte| is_lower(byte) || byte == b'-') {
        messages.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }

    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }

    messages
}

/// Returns the message for a number outside of a range.
pub(crate) fn range(number: i64, low: i64, high: i64) -> Option<String> {
    (!(low..=high).contains(&number))
        .then(|| format!("must be between {low} and {high}, inclusive"))
}

/// Returns what is wrong with the name of an environment variable.
pub(crate) fn environment_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.is_empty() {
        messages.push("environment variable name must be non-empty".to_owned());
    }

    if !text
        .bytes()
        .all(|byte| matches!(byte, 0x20..=0x7e) && byte != b'=')
    {
        let words = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        messages.push(words.to_owned());
    }

    messages
}

/// Returns what is wrong with the key of a ConfigMap or Secret.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 253 {
        messages.push("must be no more than 253 characters".to_owned());
    }

    if text.is_empty()
        || !text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        let words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        messages.push(mismatch(
            words,
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }

    match text {
        "." => messages.push("must not be '.'".to_owned()),
        ".." => messages.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => messages.push("must not start with '..'".to_owned()),
        _ => {}
    }

    messages
}

/// Returns what is wrong with a percentage.
pub(crate) fn percent(text: &str) -> Vec<String> {
    let valid = text.strip_suffix('%').is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    if valid {
        return Vec::new();
    }

    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![mismatch(words, "[0-9]+%", &["1%", "93%"])]
}

/// Returns what is wrong with an IP address.
pub(crate) fn ip(text: &str) -> Vec<String> {
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Vec::new();
    }
    vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&str) -> Vec<String>;

    #[test]
    fn formats_accept_and_reject() {
        let table: [(Check, &[&str], &[&str]); 2] = [
            (
                port_name,
                &["http", "a-1"],
                &["", "1", "a--b", "-a", "aaaaaaaaaaaaaaaa"],
            ),
            (
                config_key,
                &["a", ".a", "A_b"],
                &["", ".", "..", "..a", "a b"],
            ),
        ];
        for (check, good, bad) in table {
            good.iter()
                .for_each(|text| assert!(check(text).is_empty(), "{text}"));
            bad.iter()
                .for_each(|text| assert!(!check(text).is_empty(), "{text}"));
        }
    }
}

//! The formats of names, labels, ports and the like, with Kubernetes' messages.

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_WORDS: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
    must start and end with an alphanumeric character";
const SUBDOMAIN_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
    '-' or '.', and must start and end with an alphanumeric character";
const WILDCARD_WORDS: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
    which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const NAME_WORDS: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
/// The message for something empty.
pub(crate) const EMPTY: &str = "must be non-empty";

/// Returns the message of a regular expression with examples.
fn regex_error(words: &str, expression: &str, examples: &[&str]) -> String {
    let mut message = format!("{words} (e.g. ");
    for (index, example) in examples.iter().enumerate() {
        if index > 0 {
            message.push_str(" or ");
        }
        message.push_str(&format!("'{example}', "));
    }
    format!("{message}regex used for validation is '{expression}')")
}

fn max_length(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn max_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = bytes.iter().all(|byte| is_lower(*byte) || *byte == b'-');
    inner && bytes.first().is_some_and(|byte| is_lower(*byte)) && bytes.last().is_some_and(|byte| is_lower(*byte))
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// Reports whether a text is a name as of labels: letters, digits, and `-_.` inside.
fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    inner && end(bytes.first()) && end(bytes.last())
}

/// Returns what is wrong with a DNS-1123 label.
pub(crate) fn label(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push(max_length(63));
    }
    if !is_label(text) {
        if is_subdomain(text) {
            messages.push("must not contain dots".to_owned());
        } else {
            messages.push(regex_error(LABEL_WORDS, LABEL, &["my-name", "123-abc"]));
        }
    }
    messages
}

/// Returns what is wrong with a DNS-1123 subdomain.
pub(crate) fn subdomain(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 253 {
        messages.push(max_length(253));
    }
    if !is_subdomain(text) {
        messages.push(regex_error(SUBDOMAIN_WORDS, SUBDOMAIN, &["example.com"]));
    }
    messages
}

/// Returns what is wrong with a DNS-1035 label, as a version.
pub(crate) fn label_1035(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push(max_length(63));
    }
    if !is_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        let words = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
            alphabetic character, and end with an alphanumeric character";
        messages.push(regex_error(words, LABEL_1035, &["my-name", "abc-123"]));
    }
    messages
}

/// Returns what is wrong with a subdomain that begins with `*.`.
pub(crate) fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 253 {
        messages.push(max_length(253));
    }
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        let expression = format!(r"\*\.{SUBDOMAIN}");
        messages.push(regex_error(WILDCARD_WORDS, &expression, &["*.example.com"]));
    }
    messages
}

/// Returns what is wrong with a qualified name, as the key of a label.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                messages.push(format!("prefix part {EMPTY}"));
            } else {
                let faults =
                    subdomain(prefix).into_iter().map(|message| message.replace("253 characters", "253 bytes"));
                messages.extend(faults.map(|message| format!("prefix part {message}")));
            }
            *name
        }
        _ => {
            let words = format!("a valid label key {NAME_WORDS}");
            let message = regex_error(&words, NAME, &["MyName", "my.name", "123-abc"]);
            let suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![message + suffix];
        }
    };
    if name.is_empty() {
        messages.push(format!("name part {EMPTY}"));
    } else if name.len() > 63 {
        messages.push(format!("name part {}", max_bytes(63)));
    }
    if !is_name(name) {
        let words = format!("name part {NAME_WORDS}");
        messages.push(regex_error(&words, NAME, &["MyName", "my.name", "123-abc"]));
    }
    messages
}

/// Returns what is wrong with the value of a label.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push(max_bytes(63));
    }
    if !text.is_empty() && !is_name(text) {
        let words = format!("a valid label must be an empty string or {}", NAME_WORDS.trim_start_matches("must "));
        let expression = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
        messages.push(regex_error(&words, expression, &["MyValue", "my_value", "12345"]));
    }
    messages
}

/// Returns what is wrong with the name of a port.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.len() > 15 {
        messages.push("must be no more than 15 bytes".to_owned());
    }
    if text.is_empty() || !text.bytes().all(|byte| is_lower(byte) || byte == b'-') {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
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
    (!(low..=high).contains(&number)).then(|| format!("must be between {low} and {high}, inclusive"))
}

/// Returns what is wrong with the name of an environment variable.
pub(crate) fn environment_name(text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if text.is_empty() {
        messages.push("environment variable name must be non-empty".to_owned());
    }
    if !text.bytes().all(|byte| matches!(byte, 0x20..=0x7e) && byte != b'=') {
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
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        let words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        messages.push(regex_error(words, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
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
    let valid = text
        .strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    if valid {
        return Vec::new();
    }
    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(words, "[0-9]+%", &["1%", "93%"])]
}

/// Returns what is wrong with the name of an RBAC object.
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    let illegal = ['/', '%'].into_iter().filter(|character| text.contains(*character));
    illegal.map(|character| format!("may not contain '{character}'")).collect()
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
        let table: [(Check, &[&str], &[&str]); 6] = [
            (label, &["a", "a-b", "1"], &["", "-a", "a-", "A", "a.b"]),
            (subdomain, &["a.b-c", "1.2"], &["a..b", ".a", "a_b", ""]),
            (qualified_name, &["a", "a.b/c_D", "A"], &["", "/a", "a/", "a/b/c", "-a", "A/b"]),
            (label_value, &["", "a_b", "A.9"], &["-", "a b", "é"]),
            (port_name, &["http", "a-1"], &["", "1", "a--b", "-a", "aaaaaaaaaaaaaaaa"]),
            (config_key, &["a", ".a", "A_b"], &["", ".", "..", "..a", "a b"]),
        ];
        for (check, good, bad) in table {
            good.iter().for_each(|text| assert!(check(text).is_empty(), "{text}"));
            bad.iter().for_each(|text| assert!(!check(text).is_empty(), "{text}"));
        }
    }
}

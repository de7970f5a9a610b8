//! What names, label keys and label values may look like, in the words of apimachinery's
//! `validation` and `content` packages.
//!
//! Each function returns what is wrong with a text; nothing is wrong with a valid one.

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character";

/// The longest DNS label.
pub const MAX_LABEL: usize = 63;
/// The longest DNS subdomain.
pub const MAX_SUBDOMAIN: usize = 253;

/// Validates the name of an object, or with `prefix` the beginning of one: the `generateName` to
/// which the server appends characters.
pub type ValidateName = fn(name: &str, prefix: bool) -> Vec<String>;

/// Validates names that are lowercase RFC 1123 subdomains, as those of most kinds.
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    if prefix {
        dns1123_subdomain(&masked_trailing_dash(name))
    } else {
        dns1123_subdomain(name)
    }
}

/// Validates names that are lowercase RFC 1123 labels, as those of Namespaces.
pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    if prefix {
        dns1123_label(&masked_trailing_dash(name))
    } else {
        dns1123_label(name)
    }
}

/// Validates names that only have to fit into a URL, as those of roles.
pub fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix {
        path_segment_prefix(name)
    } else {
        path_segment_name(name)
    }
}

/// Replaces the end of a prefix that ends with `-`, which is fine in front of more characters.
///
/// Like apimachinery it replaces two bytes, the dash and what is in front of it, by one letter:
/// <https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/api/validation/generic.go>. So
/// `a.-` passes as a prefix, although no name that begins with it is valid.
fn masked_trailing_dash(name: &str) -> String {
    match name
        .strip_suffix('-')
        .and_then(|rest| rest.char_indices().next_back())
    {
        // A character of several bytes is invalid with or without the dash.
        Some((at, last)) if last.len_utf8() == 1 => format!("{}a", &name[..at]),
        _ => name.to_owned(),
    }
}

/// Validates a lowercase RFC 1123 label.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut errors = too_long(text, MAX_LABEL);
    if !has_label_form(text) {
        errors.push(if has_subdomain_form(text) {
            "must not contain dots".to_owned()
        } else {
            let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                        must start and end with an alphanumeric character";
            mismatch(rule, DNS1123_LABEL, &["my-name", "123-abc"])
        });
    }
    errors
}

/// Validates a lowercase RFC 1123 subdomain.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut errors = too_long(text, MAX_SUBDOMAIN);
    errors.extend(subdomain_form(text));
    errors
}

/// Validates an RFC 1035 label, which starts with a letter.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut errors = too_long(text, MAX_LABEL);
    if !has_label_form(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        let rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                    alphabetic character, and end with an alphanumeric character";
        errors.push(mismatch(rule, DNS1035_LABEL, &["my-name", "abc-123"]));
    }
    errors
}

/// Validates a lowercase RFC 1123 subdomain behind `*.`.
pub fn wildcard_dns1123_subdomain(text: &str) -> Vec<String> {
    let mut errors = too_long(text, MAX_SUBDOMAIN);
    if !text.strip_prefix("*.").is_some_and(has_subdomain_form) {
        let rule = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
                    must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        let pattern = format!(r"\*\.{DNS1123_SUBDOMAIN}");
        errors.push(mismatch(rule, &pattern, &["*.example.com"]));
    }
    errors
}

/// Validates a qualified name, such as the key of a label: a name with an optional DNS prefix.
pub fn qualified_name(text: &str) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();

    let parts: Vec<_> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        ["", name] => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            let prefix_errors = too_many_bytes(prefix, MAX_SUBDOMAIN)
                .into_iter()
                .chain(subdomain_form(prefix));
            errors.extend(prefix_errors.map(|error| format!("prefix part {error}")));
            name
        }
        _ => {
            let rule = mismatch(QUALIFIED_NAME_RULE, QUALIFIED_NAME, &examples);
            let suffix =
                "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {rule} {suffix}")];
        }
    };

    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    }
    let name_errors = too_many_bytes(name, MAX_LABEL);
    errors.extend(name_errors.map(|error| format!("name part {error}")));
    if !has_qualified_form(name) {
        let rule = mismatch(QUALIFIED_NAME_RULE, QUALIFIED_NAME, &examples);
        errors.push(format!("name part {rule}"));
    }
    errors
}

/// Validates the value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors: Vec<_> = too_many_bytes(text, MAX_LABEL).into_iter().collect();
    if !text.is_empty() && !has_qualified_form(text) {
        let rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                    must start and end with an alphanumeric character";
        let pattern = format!("({QUALIFIED_NAME})?");
        errors.push(mismatch(rule, &pattern, &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// Validates a name that is a segment of a URL's path.
pub fn path_segment_name(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_prefix(text)
}

/// Validates the beginning of a name that is a segment of a URL's path.
pub fn path_segment_prefix(text: &str) -> Vec<String> {
    let found = ['/', '%']
        .into_iter()
        .filter(|banned| text.contains(*banned));
    found
        .map(|banned| format!("may not contain '{banned}'"))
        .collect()
}

/// Reports whether a text is a valid lowercase RFC 1123 label.
pub fn is_dns1123_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && has_label_form(text)
}

/// Reports whether a text is a valid lowercase RFC 1123 subdomain.
pub fn is_dns1123_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN && has_subdomain_form(text)
}

fn has_label_form(text: &str) -> bool {
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    has_form(text, |byte| is_lower(byte) || byte == b'-', is_lower)
}

fn has_subdomain_form(text: &str) -> bool {
    text.split('.').all(has_label_form)
}

fn has_qualified_form(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    has_form(text, inner, |byte| byte.is_ascii_alphanumeric())
}

fn has_form(text: &str, inner: impl Fn(u8) -> bool, end: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    end(*first) && end(*last) && bytes.iter().all(|byte| inner(*byte))
}

fn subdomain_form(text: &str) -> Option<String> {
    let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                start and end with an alphanumeric character";
    (!has_subdomain_form(text)).then(|| mismatch(rule, DNS1123_SUBDOMAIN, &["example.com"]))
}

/// Bounds a name, in bytes. Kubernetes calls them characters here.
fn too_long(text: &str, max: usize) -> Vec<String> {
    let error = (text.len() > max).then(|| format!("must be no more than {max} characters"));
    error.into_iter().collect()
}

/// Bounds a part of a label. Kubernetes calls bytes by their name here.
fn too_many_bytes(text: &str, max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} bytes"))
}

/// Returns the message for a text that does not match a pattern, as `validation.RegexError`.
pub fn mismatch(rule: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples
        .iter()
        .map(|example| format!("'{example}', "))
        .collect();
    let examples = examples.join(" or ");
    format!("{rule} (e.g. {examples}regex used for validation is '{pattern}')")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Validate = fn(&str) -> Vec<String>;

    #[test]
    fn texts_are_valid_or_not() {
        let table: [(Validate, &[&str], &[&str]); 6] = [
            (
                dns1123_label,
                &["a", "a-b", "1"],
                &["", "-a", "a-", "A", "a.b"],
            ),
            (
                dns1123_subdomain,
                &["a.b-c", "1.2"],
                &["a..b", ".a", "a_b", ""],
            ),
            (dns1035_label, &["a1"], &["1a", "", "a."]),
            (
                qualified_name,
                &["a", "a.b/c_D", "A", "example.com/My_Name"],
                &["", "/a", "a/", "a/b/c", "-a", "A/b"],
            ),
            (label_value, &["", "a_b", "A.9"], &["-", "a b", "é"]),
            (path_segment_name, &["...", "a:b"], &[".", "..", "a/b", "%"]),
        ];

        for (validate, valid, invalid) in table {
            for text in valid {
                assert_eq!(validate(text), Vec::<String>::new(), "{text}");
            }
            for text in invalid {
                assert!(!validate(text).is_empty(), "{text}");
            }
        }
    }

    #[test]
    fn errors_have_the_words_of_apimachinery() {
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(qualified_name("/x"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name("a/").len(), 2);
        assert_eq!(path_segment_name(".."), ["may not be '..'"]);
        assert_eq!(
            path_segment_prefix("a/%"),
            ["may not contain '/'", "may not contain '%'"]
        );
        assert_eq!(
            dns1035_label(&"a".repeat(64)),
            ["must be no more than 63 characters"]
        );
        assert_eq!(
            dns1123_subdomain(&"a".repeat(254)),
            ["must be no more than 253 characters"]
        );
        assert_eq!(
            qualified_name(&format!("{}/{}", "a".repeat(254), "a".repeat(64))),
            [
                "prefix part must be no more than 253 bytes",
                "name part must be no more than 63 bytes"
            ]
        );
    }

    #[test]
    fn trailing_dash_of_a_prefix_is_masked_with_the_byte_before_it() {
        for (prefix, masked) in [
            ("foo-", "foa"),
            ("a-", "a"),
            ("a.-", "aa"),
            ("A-", "a"),
            ("a--", "aa"),
            ("-", "-"),
            ("foo", "foo"),
            ("é-", "é-"),
        ] {
            assert_eq!(masked_trailing_dash(prefix), masked);
        }
    }

    #[test]
    fn only_prefixes_may_end_with_a_dash() {
        for validate in [name_is_dns_subdomain, name_is_dns_label] {
            assert!(validate("foo-", true).is_empty());
            assert!(validate("A-", true).is_empty());
            assert_eq!(validate("foo-", false).len(), 1);
            assert_eq!(validate("-", true).len(), 1);
        }
        assert!(name_is_path_segment(".", true).is_empty());
        assert_eq!(name_is_path_segment(".", false).len(), 1);
        // The masked prefix is one byte shorter than what was sent.
        assert!(name_is_dns_label(&format!("{}-", "a".repeat(63)), true).is_empty());
    }
}

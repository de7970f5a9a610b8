//! Rules for names, labels and annotations, with the words of apimachinery's `validation` package.

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// The longest DNS label.
pub const MAX_LABEL: usize = 63;
/// The longest DNS subdomain.
pub const MAX_SUBDOMAIN: usize = 253;

/// Names are bounded in "characters" and labels in "bytes", in the real server's words; both count bytes.
fn too_long(max: usize, unit: &str) -> String {
    format!("must be no more than {max} {unit}")
}

fn mismatch(message: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn alphanumeric_ends(text: &str, inner: impl Fn(u8) -> bool, end: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    end(*first) && end(*last) && bytes.iter().all(|byte| inner(*byte))
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Reports whether a string has the form of an RFC 1123 label, whatever its length.
pub fn has_label_form(text: &str) -> bool {
    alphanumeric_ends(text, |byte| lower(byte) || byte == b'-', lower)
}

/// Reports whether a string has the form of an RFC 1123 subdomain, whatever its length.
pub fn has_subdomain_form(text: &str) -> bool {
    text.split('.').all(has_label_form)
}

/// Lists what keeps a string from being a lowercase RFC 1123 label.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > MAX_LABEL {
        errors.push(too_long(MAX_LABEL, "characters"));
    }
    if !has_label_form(text) {
        errors.push(if has_subdomain_form(text) {
            "must not contain dots".to_owned()
        } else {
            let message = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                           and must start and end with an alphanumeric character";
            mismatch(message, DNS1123_LABEL, &["my-name", "123-abc"])
        });
    }
    errors
}

/// Lists what keeps a string from being a lowercase RFC 1123 subdomain.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    subdomain(text, "characters")
}

fn subdomain(text: &str, unit: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > MAX_SUBDOMAIN {
        errors.push(too_long(MAX_SUBDOMAIN, unit));
    }
    if !has_subdomain_form(text) {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                       '.', and must start and end with an alphanumeric character";
        errors.push(mismatch(message, DNS1123_SUBDOMAIN, &["example.com"]));
    }
    errors
}

/// Lists what keeps a string from being a DNS-1035 label.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > MAX_LABEL {
        errors.push(too_long(MAX_LABEL, "characters"));
    }
    if !has_label_form(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                       alphabetic character, and end with an alphanumeric character";
        errors.push(mismatch(message, DNS1035_LABEL, &["my-name", "abc-123"]));
    }
    errors
}

fn has_qualified_form(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    alphanumeric_ends(text, inner, |byte| byte.is_ascii_alphanumeric())
}

/// Lists what keeps a string from being a label key: a name with an optional DNS prefix.
pub fn label_key(text: &str) -> Vec<String> {
    let message = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                   alphanumeric character";
    let examples = ["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    let parts: Vec<_> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain(prefix, "bytes").into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
        _ => {
            let rule = mismatch(message, QUALIFIED, &examples);
            let end = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {rule} {end}")];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > MAX_LABEL {
        errors.push(format!("name part {}", too_long(MAX_LABEL, "bytes")));
    }
    if !has_qualified_form(name) {
        errors.push(format!("name part {}", mismatch(message, QUALIFIED, &examples)));
    }
    errors
}

/// Lists what keeps a string from being a label value.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > MAX_LABEL {
        errors.push(too_long(MAX_LABEL, "bytes"));
    }
    if !text.is_empty() && !has_qualified_form(text) {
        let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                       and must start and end with an alphanumeric character";
        errors.push(mismatch(message, &format!("({QUALIFIED})?"), &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// Lists what keeps a string from being a segment of a request's path.
pub fn path_segment(text: &str, prefix: bool) -> Vec<String> {
    if !prefix && (text == "." || text == "..") {
        return vec![format!("may not be '{text}'")];
    }
    let banned = ["/", "%"].into_iter().filter(|part| text.contains(part));
    banned.map(|part| format!("may not contain '{part}'")).collect()
}

/// Lists what keeps a string from being the name of an object, or with `prefix` the begin of one.
pub fn object_name(text: &str, prefix: bool) -> Vec<String> {
    match text.strip_suffix('-') {
        Some(begin) if prefix && !begin.is_empty() => {
            let mut masked = begin.to_owned();
            masked.pop();
            dns1123_subdomain(&(masked + "a"))
        }
        _ => dns1123_subdomain(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_names_and_refuses_others() {
        assert!(dns1123_subdomain("a.b-c.1").is_empty() && label_key("example.com/My_Name").is_empty());
        assert!(label_value("").is_empty() && dns1035_label("a1").is_empty());
        assert_eq!(dns1035_label("1a").len(), 1);
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(label_key("/x"), ["prefix part must be non-empty"]);
        assert_eq!(label_key("a/").len(), 2);
        assert_eq!(label_key("a/b/c").len(), 1);
        assert_eq!(path_segment("..", false), ["may not be '..'"]);
        assert_eq!(path_segment("a/%", true), ["may not contain '/'", "may not contain '%'"]);
    }

    #[test]
    fn masks_the_trailing_dash_of_a_prefix() {
        assert!(object_name("foo-", true).is_empty());
        assert_eq!(object_name("foo-", false).len(), 1);
        assert_eq!(object_name("-", true).len(), 1);
    }

    #[test]
    fn bounds_the_length_of_names() {
        assert_eq!(dns1035_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
    }
}

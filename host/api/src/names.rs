//! Kubernetes' rules for names.

/// Reports whether a name is a DNS label as RFC 1123 has it (apimachinery's `IsDNS1123Label`):
/// lower case letters, digits and `-`, at most 63 bytes, no `-` at either end.
///
/// ```
/// use operetta_api::names::is_dns_label;
///
/// assert!(is_dns_label("my-plugin-2"));
/// assert!(!is_dns_label("My_plugin") && !is_dns_label("-a") && !is_dns_label(""));
/// ```
pub fn is_dns_label(name: &str) -> bool {
    name.len() <= 63 && has_label_form(name)
}

/// Reports whether a name is a DNS subdomain as Kubernetes has it (apimachinery's
/// [`IsDNS1123Subdomain`]): labels joined by dots, at most 253 bytes together. Unlike RFC 1123,
/// Kubernetes does not limit each label: a name may be 253 letters without a dot.
///
/// ```
/// use operetta_api::names::is_dns_subdomain;
///
/// assert!(is_dns_subdomain("my.plugin") && is_dns_subdomain(&"a".repeat(253)));
/// assert!(!is_dns_subdomain("my..plugin") && !is_dns_subdomain(&"a".repeat(254)));
/// ```
///
/// [`IsDNS1123Subdomain`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/util/validation/validation.go#L211
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(has_label_form)
}

/// Reports whether a text has the form of a DNS label, whatever its length.
fn has_label_form(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !text.is_empty()
        && text.bytes().all(|byte| alphanumeric(byte) || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Reports whether a text can be the name of a label, an annotation or a finalizer (apimachinery's
/// `IsQualifiedName`): `name` or `prefix/name`, where the prefix is a DNS subdomain and the name has
/// at most 63 letters, digits, `-`, `_` and `.`, with a letter or a digit at either end.
///
/// ```
/// use operetta_api::names::is_qualified_name;
///
/// assert!(is_qualified_name("app.kubernetes.io/Name_2") && is_qualified_name("tier"));
/// assert!(!is_qualified_name("/tier") && !is_qualified_name("a/b/c") && !is_qualified_name("-a"));
/// ```
pub fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Reports whether a text can be the value of a label (apimachinery's `IsValidLabelValue`): empty,
/// or a name as [`is_qualified_name`] has it, without a prefix.
pub fn is_label_value(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_end = |end: Option<u8>| end.is_none_or(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63
        && text.bytes().all(is_inner)
        && is_end(text.bytes().next())
        && is_end(text.bytes().last())
}

/// Reports whether a name can be an object's name: apimachinery's `IsValidPathSegmentName` accepts
/// it, and it has at most 253 bytes.
pub fn is_path_segment(name: &str) -> bool {
    (1..=253).contains(&name.len()) && name != "." && name != ".." && !name.contains(['/', '%'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains_are_those_of_rfc_1123() {
        for (label, subdomain, name) in [
            (true, true, "a"),
            (true, true, "0"),
            (true, true, "a-b2"),
            (true, true, "a-1"),
            (true, true, "1a"),
            (true, true, "web"),
            (false, true, "a.b"),
            (false, false, ""),
            (false, false, "a..b"),
            (false, false, ".a"),
            (false, false, "-a"),
            (false, false, "a-"),
            (false, false, "A"),
            (false, false, "a_b"),
            (false, false, "ä"),
        ] {
            assert_eq!(
                (is_dns_label(name), is_dns_subdomain(name)),
                (label, subdomain),
                "{name:?}"
            );
        }

        let longest = "a".repeat(63);
        assert!(is_dns_label(&longest) && !is_dns_label(&(longest.clone() + "a")));
        let long = [longest.as_str(); 4].join(".");
        assert!(!is_dns_subdomain(&long) && is_dns_subdomain(&long[..253]));
    }

    #[test]
    fn labels_within_a_subdomain_have_no_limit_of_their_own() {
        for name in ["a".repeat(64), "a".repeat(253), "a".repeat(64) + ".b"] {
            assert!(is_dns_subdomain(&name), "{name}");
        }
        assert!(!is_dns_subdomain(&"a".repeat(254)));
    }

    #[test]
    fn qualified_names_and_label_values_are_those_of_apimachinery() {
        let longest = "a".repeat(63);
        let long_prefix = "a".repeat(253);
        for (qualified, value, text) in [
            (true, true, "a"),
            (true, true, "A_b.c-2"),
            (true, false, "example.com/a"),
            (true, true, longest.as_str()),
            (true, false, &format!("{long_prefix}/{longest}")),
            (false, true, ""),
            (false, false, "-a"),
            (false, false, "a."),
            (false, false, "a b"),
            (false, false, "/a"),
            (false, false, "a/"),
            (false, false, "a/b/c"),
            (false, false, "Example.com/a"),
            (false, false, &format!("{longest}a")),
            (false, false, &format!("a{long_prefix}/a")),
        ] {
            assert_eq!(
                (is_qualified_name(text), is_label_value(text)),
                (qualified, value),
                "{text:?}"
            );
        }
    }
}

//! Kubernetes' rules for names.

/// Reports whether a name is a DNS label as RFC 1123 has it (apimachinery's `IsDNS1123Label`): lower case letters, digits
/// and `-`, at most 63 bytes, no `-` at either end.
///
/// ```
/// use operetta_api::names::is_dns_label;
///
/// assert!(is_dns_label("my-plugin-2"));
/// assert!(!is_dns_label("My_plugin") && !is_dns_label("-a") && !is_dns_label(""));
/// ```
pub fn is_dns_label(name: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| alphanumeric(byte) || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Reports whether a name is a DNS subdomain as RFC 1123 has it (apimachinery's `IsDNS1123Subdomain`): labels joined by
/// dots, at most 253 bytes.
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label)
}

/// Reports whether a name can be an object's name: apimachinery's `IsValidPathSegmentName` accepts it, and it has at
/// most 253 bytes.
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
            assert_eq!((is_dns_label(name), is_dns_subdomain(name)), (label, subdomain), "{name:?}");
        }
        let longest = "a".repeat(63);
        assert!(is_dns_label(&longest) && !is_dns_label(&(longest.clone() + "a")));
        let long = [longest.as_str(); 4].join(".");
        assert!(!is_dns_subdomain(&long) && is_dns_subdomain(&long[..253]));
    }
}

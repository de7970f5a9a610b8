//! Names composed of others, within the length accepted by the API server.

use sha2::{Digest, Sha256};

/// The longest name of an object, in bytes (apimachinery's [`DNS1123SubdomainMaxLength`]).
///
/// [`DNS1123SubdomainMaxLength`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/api/validate/content/dns.go#L57
pub const MAX_OBJECT_NAME: usize = 253;

/// The longest field manager, in bytes ([`FieldManagerMaxLength`]).
///
/// [`FieldManagerMaxLength`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/apis/meta/v1/validation/validation.go#L209
pub const MAX_FIELD_MANAGER: usize = 128;

/// Hexadecimal digits of the hash that replaces the end of a long name.
const HASH: usize = 16;

/// Fits a composed name into `max` bytes: unchanged if it is short enough, otherwise its beginning
/// plus a hash of all of it, so that long names with the same beginning stay different.
///
/// ```
/// use operetta_core::object::bounded_name::bounded;
///
/// assert_eq!(bounded("operetta:team/web".to_owned(), 128), "operetta:team/web");
///
/// let long = format!("operetta:{}/{}", "n".repeat(50), "p".repeat(75));
/// let short = bounded(long, 128);
/// assert!(short.len() <= 128 && short.starts_with("operetta:nnn"));
/// ```
///
/// # Panics
/// Panics if `max` has no room for the hash and a beginning.
pub fn bounded(name: String, max: usize) -> String {
    assert!(max > HASH + 1, "{max} bytes have no room for a hash");
    if name.len() <= max {
        return name;
    }

    let hash = format!("{:x}", Sha256::digest(name.as_bytes()));
    let beginning = &name[..name.floor_char_boundary(max - HASH - 1)];
    // A name must not have a dot and a dash side by side, nor two dots.
    let beginning = beginning.trim_end_matches(|last: char| !last.is_alphanumeric());
    format!("{beginning}-{}", &hash[..HASH])
}

#[cfg(test)]
mod tests {
    use operetta_api::names::is_dns_subdomain;

    use super::*;

    #[test]
    fn name_over_the_bound_ends_with_a_hash_of_the_whole() {
        let longest = "p".repeat(MAX_OBJECT_NAME);
        assert_eq!(bounded(longest.clone(), MAX_OBJECT_NAME), longest);

        let one = bounded(longest.clone() + "1", MAX_OBJECT_NAME);
        let other = bounded(longest.clone() + "2", MAX_OBJECT_NAME);
        assert_eq!(one.len(), MAX_OBJECT_NAME);
        assert_ne!(one, other, "they differ beyond the bound only");
        assert_eq!(one, bounded(longest + "1", MAX_OBJECT_NAME), "it is stable");
        assert!(is_dns_subdomain(&one), "{one}");
    }

    #[test]
    fn bounded_name_is_valid_wherever_it_is_cut() {
        for filler in ["a.", "a-", "ab.c-d", "é"] {
            for start in 0..6 {
                let name = "x".repeat(start) + &filler.repeat(300);
                let name = bounded(name, MAX_FIELD_MANAGER);
                assert!(name.len() <= MAX_FIELD_MANAGER, "{name}");
                assert!(filler == "é" || is_dns_subdomain(&name), "{name}");
            }
        }
    }
}

//! The manager of a request that does not name one.

use crate::apply::value::is_printable;

/// The length of a manager's name in bytes.
const MAX_NAME_LENGTH: usize = 128;

/// Returns the manager of a client: its user agent up to the first slash, without unprintable
/// characters and cut to 128 bytes. Upstream is `prefixFromUserAgent` in
/// <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go>.
pub fn manager_of_user_agent(user_agent: &str) -> String {
    let prefix = user_agent.split('/').next().unwrap_or_default();

    let mut name = String::new();
    for character in prefix.chars().filter(|character| is_printable(*character)) {
        if name.len() + character.len_utf8() > MAX_NAME_LENGTH {
            break;
        }
        name.push(character);
    }

    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_printable_prefix_of_a_user_agent() {
        assert_eq!(manager_of_user_agent("kubectl/v1.36 (linux)"), "kubectl");
        assert_eq!(manager_of_user_agent("a\tb\u{200b}c d"), "abc d");
        assert_eq!(manager_of_user_agent(""), "");
        assert_eq!(manager_of_user_agent(&"é".repeat(100)), "é".repeat(64));
    }
}

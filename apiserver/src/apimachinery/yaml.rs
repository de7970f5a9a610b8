//! YAML as the API server reads and writes it: YAML 1.1, as far as Go's `goyaml.v2` knows it.
//!
//! Bodies of `application/yaml` and server-side apply patches go through
//! <https://github.com/kubernetes-sigs/yaml>, and so do the files that kubectl reads. There `yes`,
//! `on` and `y` are booleans, also as keys, `0755` is 493, and `<<` merges a mapping.
//! [`operetta_golang::yaml`] reads it.
//!
//! ```
//! use operetta_apiserver::apimachinery::yaml;
//!
//! let converted = yaml::to_json(b"mode: 0755\nenabled: yes\n")?;
//! assert_eq!(converted.json, br#"{"enabled":true,"mode":493}"#);
//! # Ok::<(), yaml::YamlError>(())
//! ```

mod emit;

use operetta_golang::yaml::{self, Limits};
pub use operetta_golang::yaml::{Converted, YamlError};

pub use self::emit::from_value;
use super::json::MAX_DEPTH;

/// Converts the first document of a YAML text to JSON, as the API server and kubectl do.
///
/// # Errors
///
/// Malformed YAML, an alias or a tag without meaning, keys that are no scalars, numbers that JSON
/// doesn't have, and lists and mappings that are nested more than [`MAX_DEPTH`] deep.
pub fn to_json(text: &[u8]) -> Result<Converted, YamlError> {
    let limits = Limits {
        depth: MAX_DEPTH,
        nodes: usize::MAX,
        aliases: true,
    };
    yaml::to_json(text, &limits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apimachinery::{json, recorded};

    #[test]
    fn converts_to_json_as_go_does() {
        let mut count = 0;
        for case in recorded::cases("yaml") {
            let shown = String::from_utf8_lossy(&case.input).into_owned();
            count += 1;
            match to_json(&case.input) {
                Ok(converted) => {
                    let found = String::from_utf8_lossy(&converted.json).into_owned();
                    assert_eq!(found, case.json, "{shown:?}: {}", case.error);

                    let strict = Vec::from_iter(converted.strict_error());
                    assert_eq!(strict, case.strict, "{shown:?}");
                }
                // Go also shows the value of a key that can't be one.
                Err(error) => assert!(
                    case.error.starts_with(&error.to_string()),
                    "{shown:?}: {error}, but {}",
                    case.error
                ),
            }
        }
        assert!(count > 500, "only {count} cases");
    }

    #[test]
    fn writes_yaml_that_reads_back() {
        let mut count = 0;
        for case in recorded::cases("json") {
            if case.stored.is_empty() {
                continue;
            }

            count += 1;
            let value = json::read(case.stored.as_bytes()).expect("Go's JSON");
            let text = from_value(&value);
            let converted = to_json(text.as_bytes()).unwrap_or_else(|error| {
                panic!("{error}:\n{text}");
            });
            let read = json::read(&converted.json).expect("JSON");
            assert_eq!(read, value, "{text}");
        }
        assert!(count > 150, "only {count} cases");

        let value = json!({"a": {"b": [[1, {"c": "yes", "d": []}], {}]}, "e": "a\nb"});
        let text = from_value(&value);
        let expected = "a:\n  b:\n  - - 1\n    - c: \"yes\"\n      d: []\n  - {}\ne: \"a\\nb\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn writes_characters_and_keys_that_yaml_does_not_allow() {
        let long = "k".repeat(2000);
        for value in [
            json!("\u{0}\u{7f}\u{80}\u{85}\u{2028}\u{feff}\u{fffe}\u{ffff}😀"),
            json!({long.as_str(): {"a": [{long.as_str(): 1, "b": {}}]}, "\u{85}": {"c": 1}}),
        ] {
            let text = from_value(&value);
            let converted = to_json(text.as_bytes()).expect("YAML");
            assert_eq!(json::read(&converted.json), Ok(value), "{text}");
        }
    }

    #[test]
    fn refuses_aliases_that_multiply() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for at in 1..10 {
            let items = vec![format!("*a{}", at - 1); 10].join(", ");
            text.push_str(&format!("a{at}: &a{at} [{items}]\n"));
        }

        let error = to_json(text.as_bytes()).expect_err("too many aliases");
        assert_eq!(
            error.to_string(),
            "yaml: document contains excessive aliasing"
        );
    }

    #[test]
    fn refuses_to_nest_too_deeply() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(to_json(nested(MAX_DEPTH).as_bytes()).is_ok());

        let error = to_json(nested(MAX_DEPTH + 1).as_bytes()).expect_err("too deep");
        assert_eq!(error.to_string(), "yaml: exceeded max depth");

        // Aliases are as deep as what they stand for.
        let inner = nested(MAX_DEPTH - 1);
        let text = format!("a: &a {inner}\nb: [*a]\n");
        let error = to_json(text.as_bytes()).expect_err("too deep");
        assert_eq!(error.to_string(), "yaml: exceeded max depth");
    }
}

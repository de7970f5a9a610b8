//! YAML as the API server reads and writes it: YAML 1.1, as far as Go's `goyaml.v2` knows it.
//!
//! Bodies of `application/yaml` and server-side apply patches go through
//! <https://github.com/kubernetes-sigs/yaml>, and so do the files that kubectl reads. There `yes`,
//! `on` and `y` are booleans, also as keys, `0755` is 493, and `<<` merges a mapping. That isn't
//! what a parser of YAML 1.2 makes of them. So only the syntax is left to a parser of YAML 1.2,
//! and this module decides what the scalars, tags, aliases and merges of a document mean.
//!
//! ```
//! use operetta_apiserver::apimachinery::yaml;
//!
//! let converted = yaml::to_json(b"mode: 0755\nenabled: yes\n")?;
//! assert_eq!(converted.json, br#"{"enabled":true,"mode":493}"#);
//! # Ok::<(), yaml::YamlError>(())
//! ```

mod compose;
mod decode;
mod emit;
mod resolve;

use thiserror::Error;

pub use self::emit::from_value;

/// A text that `goyaml.v2` refuses, in its words.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct YamlError(String);

impl YamlError {
    /// Lists and mappings are nested too deeply, in the text or by its aliases. The real server
    /// allows 10,000 levels.
    fn depth() -> Self {
        Self("yaml: exceeded max depth".to_owned())
    }
}

/// YAML as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The JSON text. The last of several fields with one name counts.
    pub json: Vec<u8>,
    /// The fields that occur more than once, such as `line 2: key "a" already set in map`.
    pub duplicates: Vec<String>,
}

impl Converted {
    /// Returns the error that strict decoding has for the duplicates.
    #[must_use]
    pub fn strict_error(&self) -> Option<String> {
        let lines = self.duplicates.join("\n  ");
        (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {lines}"))
    }
}

/// Converts the first document of a YAML text to JSON, as `YAMLToJSON` of
/// <https://github.com/kubernetes-sigs/yaml/blob/v1.6.0/yaml.go> does.
///
/// # Errors
///
/// Malformed YAML, an alias or a tag without meaning, keys that are no scalars, and numbers that
/// JSON doesn't have.
pub fn to_json(text: &[u8]) -> Result<Converted, YamlError> {
    let (value, duplicates) = match compose::compose(text)? {
        Some(document) => decode::decode(&document)?,
        None => (decode::Decoded::Null, Vec::new()),
    };

    let mut json = Vec::with_capacity(text.len());
    value.write_json(&mut json)?;

    Ok(Converted { json, duplicates })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apimachinery::{json, recorded};

    /// Texts whose syntax YAML 1.2 sees in another way than 1.1 and Go.
    const OTHER_SYNTAX: [&str; 10] = [
        // An end of a document that has no beginning, an unknown directive, a tab.
        "...\n",
        "%FOO x\n---\na: 1\n",
        "\ta: 1\n",
        // Something behind the document.
        "'a' 'b'",
        // Byte order marks in a text, and line breaks other than CR and LF.
        "a: \u{feff}b\n",
        "a: x\u{85}y\n",
        "a: x\u{2028}y\n",
        "v: \u{2028}é",
        // Colons and question marks that touch a word in a list or mapping.
        "a: [\n!!str   b,\n  c\n:]\n",
        "{-? a : b}",
    ];

    #[test]
    fn converts_to_json_as_go_does() {
        let (mut count, mut skipped) = (0, 0);
        for case in recorded::cases("yaml") {
            let shown = String::from_utf8_lossy(&case.input).into_owned();
            if OTHER_SYNTAX.contains(&shown.as_str()) {
                skipped += 1;
                continue;
            }

            count += 1;
            match to_json(&case.input) {
                Ok(converted) => {
                    // Go writes what is no UTF-8 in a `!!binary` as an escape.
                    let json = case.json.replace("\\ufffd", "\u{fffd}");
                    let found = String::from_utf8_lossy(&converted.json).into_owned();
                    assert_eq!(found, json, "{shown:?}: {}", case.error);

                    let strict = Vec::from_iter(converted.strict_error());
                    assert_eq!(strict, case.strict, "{shown:?}");
                }
                Err(error) => assert_ne!(case.error, "", "{shown:?}: {error}"),
            }
        }

        assert!(count > 500, "only {count} cases");
        assert_eq!(
            skipped,
            OTHER_SYNTAX.len(),
            "OTHER_SYNTAX has unknown texts"
        );
    }

    #[test]
    fn refuses_in_the_words_of_go_what_is_no_syntax_error() {
        for (text, error) in [
            ("a: *x", "yaml: unknown anchor 'x' referenced"),
            ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
            ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
            ("a: .nan", "json: unsupported value: NaN"),
            ("a: \"\\/\"", "yaml: found unknown escape character"),
            (
                "a:\n  <<: 1",
                "yaml: map merge requires map or sequence of maps as the value",
            ),
        ] {
            let found = to_json(text.as_bytes()).expect_err("refused");
            assert_eq!(found.0, error, "{text}");

            let recorded = recorded::cases("yaml").into_iter();
            assert!(
                recorded.map(|case| case.error).any(|known| known == error),
                "Go has no such error: {error}"
            );
        }
    }

    #[test]
    fn writes_yaml_that_reads_back() {
        let mut count = 0;
        for case in recorded::cases("json") {
            // YAML doesn't allow all characters that JSON does, and writes no character in halves.
            let has_control = |text: &str| {
                text.contains("\\u0") || text.contains(['\u{feff}', '\u{fffe}', '\u{ffff}'])
            };
            if case.stored.is_empty() || has_control(&case.stored) {
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
    fn refuses_aliases_that_multiply() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for at in 1..10 {
            let items = vec![format!("*a{}", at - 1); 10].join(", ");
            text.push_str(&format!("a{at}: &a{at} [{items}]\n"));
        }

        let error = to_json(text.as_bytes()).expect_err("too many aliases");
        assert_eq!(error.0, "yaml: document contains excessive aliasing");
    }

    #[test]
    fn refuses_to_nest_too_deeply() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(to_json(nested(json::MAX_DEPTH).as_bytes()).is_ok());

        let error = to_json(nested(json::MAX_DEPTH + 1).as_bytes()).expect_err("too deep");
        assert_eq!(error.0, "yaml: exceeded max depth");

        // Aliases are as deep as what they stand for.
        let inner = nested(json::MAX_DEPTH - 1);
        let text = format!("a: &a {inner}\nb: [*a]\n");
        let error = to_json(text.as_bytes()).expect_err("too deep");
        assert_eq!(error.0, "yaml: exceeded max depth");
    }
}

//! YAML 1.1, as far as Go's `goyaml.v2` knows it.
//!
//! In Kubernetes, YAML goes through <https://github.com/kubernetes-sigs/yaml>. There `yes`, `on` and
//! `y` are booleans, also as keys, `0755` is 493, and `<<` merges a mapping. Parsers of YAML 1.2 also
//! split texts in other ways: at tabs, `?` and `:` in lists, and breaks of lines. So this module has
//! a parser of its own: `text` finds the characters, `scan` the tokens, `compose` the nodes, `decode`
//! and `resolve` what their scalars, tags, aliases and merges mean.
//!
//! It differs from Go in three ways: [`Limits`] may be lower; a byte order mark within a text is a
//! character like others, where Go drops some at the beginnings of lines; and of keys that are
//! different in YAML and alike in JSON, such as `1` and `"1"`, the same one always counts, where Go
//! takes one at random.

mod compose;
mod decode;
mod resolve;
mod scan;
mod text;

use thiserror::Error;

/// A text that can't be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum YamlError {
    /// `goyaml.v2` refuses it too.
    #[error("{message}")]
    Refused {
        /// Its words, which may have parts of the text.
        message: String,
        /// The line and the column, counted from one, if they are known.
        place: Option<(usize, usize)>,
    },
    /// Lists and mappings are nested too deeply, in the text or by its aliases.
    #[error("yaml: exceeded max depth")]
    Depth,
    /// It has more nodes than [`Limits::nodes`].
    #[error("yaml: too many nodes")]
    Nodes,
    /// It has an anchor, an alias or a merge, without [`Limits::aliases`].
    #[error("yaml: aliases are not allowed")]
    Alias,
}

impl YamlError {
    fn new(problem: &str) -> Self {
        Self::without_place(format!("yaml: {problem}"))
    }

    fn without_place(message: String) -> Self {
        let place = None;
        Self::Refused { message, place }
    }
}

/// What a text may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How deep lists and mappings may be nested. Go allows 10,000 levels. Each takes a few frames of
    /// the stack.
    pub depth: usize,
    /// How many scalars, lists, mappings and aliases it may have.
    pub nodes: usize,
    /// Whether it may have anchors, aliases and merges. Without them, its value is no larger than the
    /// text.
    pub aliases: bool,
}

/// YAML as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The JSON text. The last of several fields with one name counts.
    pub json: Vec<u8>,
    /// The fields that occur more than once, such as `line 2: key "a" already set in map`.
    pub duplicates: Vec<String>,
    /// Whether a mapping has keys that are alike in JSON only, such as `1` and `"1"`.
    pub is_ambiguous: bool,
    /// Whether another document follows, or what can't be one.
    pub has_more: bool,
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
/// Malformed YAML, an alias or a tag without meaning, keys that are no scalars, numbers that JSON
/// doesn't have, and what exceeds a limit.
pub fn to_json(text: &[u8], limits: &Limits) -> Result<Converted, YamlError> {
    let composed = compose::compose(text, limits)?;
    let (value, duplicates) = match &composed {
        Some(document) => decode::decode(document, limits)?,
        None => (decode::Decoded::Null, Vec::new()),
    };

    let mut json = Vec::with_capacity(text.len());
    let mut is_ambiguous = false;
    value.write_json(&mut json, &mut is_ambiguous)?;

    Ok(Converted {
        json,
        duplicates,
        is_ambiguous,
        has_more: composed.is_some_and(|document| document.has_more),
    })
}

/// Reports whether a plain scalar is a string, and nothing else.
#[must_use]
pub fn is_string(scalar: &str) -> bool {
    resolve::resolve(scalar) == resolve::Scalar::String
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        depth: 100,
        nodes: 1000,
        aliases: true,
    };

    fn json(text: &str) -> String {
        match to_json(text.as_bytes(), &LIMITS) {
            Ok(converted) => String::from_utf8_lossy(&converted.json).into_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn splits_texts_as_yaml_1_1_does() {
        for (text, expected) in [
            // A tab is no indent, but separates.
            ("a:\tb\n", r#"{"a":"b"}"#),
            (
                "\ta: 1\n",
                "yaml: found character that cannot start any token",
            ),
            // In a flow collection, `?` is a key's and `:` ends a word only before a blank.
            ("[a:b, ?c]", r#"["a:b",{"c":null}]"#),
            ("{a:b, \"c\":d}", r#"{"a:b":null,"c":"d"}"#),
            ("{-? a : b}", r#"yaml: did not find expected ',' or '}'"#),
            // What follows the document isn't read.
            ("'a' 'b'", r#""a""#),
            ("...\n", "yaml: did not find expected node content"),
            (
                "%YAML 1.2\n---\na\n",
                "yaml: found incompatible YAML document",
            ),
            ("%FOO\n---\na\n", "yaml: found unknown directive name"),
            // Breaks of lines other than those of YAML 1.2.
            (
                "a: x\u{85}  y\nb: x\u{2028}  y\n",
                r#"{"a":"x y","b":"x\u2028y"}"#,
            ),
            // An empty list is no key.
            ("[]: a\n", "[]"),
            ("\"a\"#b\n: c\n", r#""a""#),
            (
                "a: |2-\n   b\n  c\nd: >\n  e\n  f\n\n   g\n",
                r#"{"a":" b\nc","d":"e f\n\n g\n"}"#,
            ),
            ("a: \"b\\\n  c\\x41\\u00e9\n\n  d\"", r#"{"a":"bcAé\nd"}"#),
            ("a: \"\\/\"", "yaml: found unknown escape character"),
            (
                "a: \"\\ud800\"",
                "yaml: found invalid Unicode character escape code",
            ),
        ] {
            assert_eq!(json(text), expected, "{text:?}");
        }
    }

    #[test]
    fn scalars_have_the_types_of_yaml_1_1() {
        for (text, expected) in [
            (
                "[yes, yEs, n, ~, nULL]",
                r#"[true,"yEs",false,null,"nULL"]"#,
            ),
            (
                "[017, 0o17, 08, 0x1F, 0b11, 0b+1, 1__0]",
                "[15,15,8,31,3,1,10]",
            ),
            (
                "[1:30, .5, .5_0, ._5, 1., 1e400]",
                r#"["1:30",0.5,0.5,"._5",1,"1e400"]"#,
            ),
            ("18446744073709551615", "18446744073709551615"),
            (
                "[2001-01-01, !!timestamp 2001-2-28 1:2:3.5]",
                r#"["2001-01-01","2001-2-28 1:2:3.5"]"#,
            ),
            (
                "!!timestamp 2001-02-29",
                "yaml: cannot decode !!str `2001-02-29` as a !!timestamp",
            ),
            (
                "!!timestamp 2001-01-01T1:2:3+24:60",
                r#""2001-01-01T1:2:3+24:60""#,
            ),
            (
                "!!timestamp 2001-01-01T1:2:3+25:00",
                "yaml: cannot decode !!str `2001-01-01T1:2:3+25:00` as a !!timestamp",
            ),
            (
                "[!!float 1, !!str 1, ! 1, !<!!int> x, !!binary /w==]",
                r#"[1,"1","1","x","\ufffd"]"#,
            ),
            (
                "{!!binary /w==: 1, !!binary /g==: 2}",
                r#"{"\ufffd":2,"\ufffd":1}"#,
            ),
            (
                "{1.5: a, 0x10: b, y: c}",
                r#"{"1.5":"a","16":"b","true":"c"}"#,
            ),
            (".nan", "json: unsupported value: NaN"),
        ] {
            assert_eq!(json(text), expected, "{text:?}");
        }
    }

    #[test]
    fn reads_zeros_as_the_same_key() {
        let converted = to_json(b"-0.0: 1\n0.0: 2\n", &LIMITS).expect("YAML");
        assert_eq!(converted.json, br#"{"0":2}"#);
        assert_eq!(converted.duplicates, ["line 2: key 0 already set in map"]);
    }

    #[test]
    fn characters_behind_the_document_may_be_wrong() {
        let text = |length: usize| format!("a: 1\n---\n{}\0", "b".repeat(length));
        assert_eq!(json(&text(100)), "yaml: control characters are not allowed");
        assert_eq!(json(&text(600)), r#"{"a":1}"#);

        for (text, expected) in [
            (&b"\xff\xfea\0\x3d\xd8\x00\xde"[..], "\"a😀\""),
            (
                b"\xfe\xff\0a\xd8\x3d",
                "yaml: incomplete UTF-16 surrogate pair",
            ),
            (b"a\xe2\x82", "yaml: incomplete UTF-8 octet sequence"),
            (b"a\xff", "yaml: invalid leading UTF-8 octet"),
            (b"\xef\xbb\xbfa", "\"a\""),
        ] {
            let found = to_json(text, &LIMITS);
            let found =
                found.map(|converted| String::from_utf8_lossy(&converted.json).into_owned());
            assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected);
        }
    }

    #[test]
    fn limits_are_kept() {
        let limits = Limits {
            depth: 3,
            nodes: 10,
            aliases: false,
        };
        for (text, expected) in [
            ("[[[1]]]", None),
            ("[[[[1]]]]", Some(YamlError::Depth)),
            ("a: {b: [c: d]}", Some(YamlError::Depth)),
            ("[1, 2, 3, 4, 5, 6, 7, 8, 9]", None),
            ("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]", Some(YamlError::Nodes)),
            ("a: &x 1", Some(YamlError::Alias)),
            ("a: *x", Some(YamlError::Alias)),
            ("<<: {a: 1}", Some(YamlError::Alias)),
        ] {
            let error = to_json(text.as_bytes(), &limits).err();
            assert_eq!(error, expected, "{text}");
        }
    }

    #[test]
    fn says_what_else_there_is() {
        for (text, has_more, is_ambiguous) in [
            ("a: 1\n", false, false),
            ("a: 1\n...\n# b\n", false, false),
            ("a: 1\n---\nb: 2\n", true, false),
            ("'a' 'b'", true, false),
            ("1: a\n'1': b\n", false, true),
            ("- {1.0: a, 1: b}", false, true),
            ("", false, false),
        ] {
            let converted = to_json(text.as_bytes(), &LIMITS).expect(text);
            let found = (converted.has_more, converted.is_ambiguous);
            assert_eq!(found, (has_more, is_ambiguous), "{text:?}");
        }
    }
}

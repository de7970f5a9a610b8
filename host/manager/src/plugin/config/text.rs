//! Parses a tenant's configuration, JSON or YAML, with limits on its size in memory and not only on
//! its length.
//!
//! A kilobyte of YAML aliases can expand to gigabytes of values, and a kilobyte of JSON to a
//! hundred kilobytes of maps. That's why anchors and aliases are refused, and both formats have
//! limits on values and depth. No error contains the text, which may be secret.

use std::{cell::Cell, collections::BTreeMap, fmt};

use operetta_golang::yaml::{self, Limits, YamlError};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use zeroize::Zeroizing;

/// The maximum number of values in one configuration, including nested ones and keys of objects:
/// about 30 MB in memory.
pub const MAX_VALUES: usize = 50_000;
/// The deepest nesting of lists and objects.
pub const MAX_DEPTH: usize = 64;

/// Returns the key with the configuration: `config.json` or `config.yaml`.
///
/// # Errors
/// When both exist.
pub fn config_key<T>(data: &BTreeMap<String, T>) -> Result<Option<(&'static str, &T)>, String> {
    match (data.get("config.json"), data.get("config.yaml")) {
        (Some(_), Some(_)) => Err("it has both config.json and config.yaml: keep one".to_owned()),
        (Some(text), None) => Ok(Some(("config.json", text))),
        (None, Some(text)) => Ok(Some(("config.yaml", text))),
        (None, None) => Ok(None),
    }
}

/// Parses a key's text as an object: as JSON if the key ends in `.json`, and otherwise as YAML,
/// which includes JSON.
///
/// # Errors
/// When it isn't an object or exceeds a limit. The message doesn't contain the text, which may be
/// secret.
pub fn config_object(key: &str, text: &str) -> Result<Map<String, Value>, String> {
    let tally = Tally::default();
    let seed = Bounded {
        tally: &tally,
        depth: 0,
    };
    let is_json = key.ends_with(".json");
    let parsed = if is_json {
        json(text, seed)
    } else {
        yaml(text, seed)
    };

    let wanted = if is_json {
        "JSON object"
    } else {
        "YAML mapping"
    };
    match parsed {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(format!("{key} is not a {wanted}")),
        Err(_) if tally.values.get() > MAX_VALUES => {
            Err(format!("{key} {}", Problem::TooMany.describe(wanted)))
        }
        Err(_) if tally.too_deep.get() => {
            Err(format!("{key} {}", Problem::TooDeep.describe(wanted)))
        }
        Err(problem) => Err(format!("{key} {}", problem.describe(wanted))),
    }
}

/// Why a text can't be read, without the text itself.
enum Problem {
    /// A syntax error, with line and column if known.
    Malformed(Option<(usize, usize)>),
    /// Something follows the first YAML document.
    Documents,
    /// A key of a mapping stands in it twice.
    DuplicateKey,
    /// It uses anchors, aliases or merge keys.
    Aliases,
    /// It is nested too deeply.
    TooDeep,
    /// It has too many values.
    TooMany,
}

impl Problem {
    fn describe(&self, wanted: &str) -> String {
        match self {
            Self::Malformed(Some((line, column))) => {
                format!("is not a {wanted}: line {line}, column {column}")
            }
            Self::Malformed(None) => format!("is not a {wanted}"),
            Self::Aliases => {
                "uses YAML anchors, aliases or merge keys, which are not accepted: write them out"
                    .to_owned()
            }
            Self::DuplicateKey => format!("is not a {wanted}: a key stands twice in its mapping"),
            Self::Documents => format!("is not a {wanted}: it has more than one YAML document"),
            Self::TooMany => format!("has more than {MAX_VALUES} values"),
            Self::TooDeep => format!("is nested more than {MAX_DEPTH} deep"),
        }
    }
}

fn json(text: &str, seed: Bounded<'_>) -> Result<Value, Problem> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = seed
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    read.map_err(|error| Problem::Malformed(Some((error.line(), error.column()))))
}

/// Reads YAML as `kubectl` does. What it means is JSON, which is read in its place.
fn yaml(text: &str, seed: Bounded<'_>) -> Result<Value, Problem> {
    let limits = Limits {
        depth: MAX_DEPTH,
        nodes: 2 * MAX_VALUES,
        aliases: false,
    };
    let converted = yaml::to_json(text.as_bytes(), &limits).map_err(|error| match error {
        YamlError::Refused { place, .. } => Problem::Malformed(place),
        YamlError::Depth => Problem::TooDeep,
        YamlError::Nodes => Problem::TooMany,
        YamlError::Alias => Problem::Aliases,
    })?;

    if converted.has_more {
        return Err(Problem::Documents);
    }
    if !converted.duplicates.is_empty() || converted.is_ambiguous {
        return Err(Problem::DuplicateKey);
    }
    // Secrets are read here, too.
    let json = Zeroizing::new(converted.json);
    let mut deserializer = serde_json::Deserializer::from_slice(&json);
    let read = seed.deserialize(&mut deserializer);
    read.map_err(|_| Problem::Malformed(None))
}

/// How much has been built so far.
#[derive(Default)]
struct Tally {
    values: Cell<usize>,
    too_deep: Cell<bool>,
}

/// Builds a [`Value`] of at most [`MAX_VALUES`] values, nested at most [`MAX_DEPTH`] deep.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    tally: &'a Tally,
    depth: usize,
}

impl Bounded<'_> {
    fn count<E: serde::de::Error>(self) -> Result<(), E> {
        let values = self.tally.values.get() + 1;
        self.tally.values.set(values);
        if values > MAX_VALUES {
            Err(E::custom("too many values"))
        } else {
            Ok(())
        }
    }

    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            self.tally.too_deep.set(true);
            return Err(E::custom("nested too deeply"));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(inner)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut object = Map::new();

        while let Some(key) = map.next_key::<String>()? {
            self.count()?;
            if object.insert(key, map.next_value_seed(inner)?).is_some() {
                return Err(A::Error::custom("duplicate key"));
            }
        }

        Ok(Value::Object(object))
    }
}

/// Returns the number of values in a JSON text, including keys, or slightly more. Doesn't allocate.
pub fn count_values(json: &str) -> usize {
    let mut count = 1;
    let mut in_string = false;
    let mut escaped = false;

    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' | b':' if !in_string => count += 1,
            _ => {}
        }
    }

    count
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_reads_as_kubectl_reads_it() {
        let text = "a: yes\nb: [~, null, true, 0x1F, 1e3, .5, -7, 18446744073709551615, 1_000, 08, 0b11, 1:30]\nc: {d: 'x', e: 2026-01-01}\n\
                    f: |\n  text\nmode: 0755\nn: off\n1: 'no'\n";
        let expected = json!({
            "a": true, "b": [null, null, true, 31, 1000, 0.5, -7, 18446744073709551615u64, 1000, 8, 3, "1:30"],
            "c": {"d": "x", "e": "2026-01-01"}, "f": "text\n", "mode": 493, "false": false, "1": "no",
        });
        assert_eq!(
            config_object("config.yaml", text).map(Value::Object),
            Ok(expected)
        );
    }

    #[test]
    fn words_that_only_other_readers_take_for_values_are_strings() {
        let text =
            "a: [inf, nan, infinity, yEs, tRue, 1e400, 2026-01-01, !!str 1]\nb: !!binary YQ==\n";
        let expected = json!({
            "a": ["inf", "nan", "infinity", "yEs", "tRue", "1e400", "2026-01-01", "1"], "b": "a",
        });
        assert_eq!(
            config_object("config.yaml", text).map(Value::Object),
            Ok(expected)
        );
    }

    #[test]
    fn malformed_yaml_is_found_by_its_place_without_the_text() {
        for (text, expected) in [
            (
                "a: 1\nb: [hunter2\n",
                "is not a YAML mapping: line 3, column 1",
            ),
            (
                "a: 1\n b: hunter2\n",
                "is not a YAML mapping: line 2, column 3",
            ),
            ("a: !!int hunter2\n", "is not a YAML mapping"),
            (
                "a: 1\n---\nb: 2\n",
                "is not a YAML mapping: it has more than one YAML document",
            ),
            ("a: 1\n...\n", ""),
            ("a: .inf\n", "is not a YAML mapping"),
        ] {
            let error = config_object("config.yaml", text).err();
            let expected = (!expected.is_empty()).then(|| format!("config.yaml {expected}"));
            assert_eq!(error, expected, "{text}");
        }
    }

    #[test]
    fn refuses_anchors_aliases_and_merge_keys() {
        for text in [
            "a: &x 1",
            "a: &x [0]\nb: *x",
            "a: &x {b: 1}\nc: {<<: *x}",
            "a: {<<: {b: 1}}",
        ] {
            let error = config_object("config.yaml", text).expect_err(text);
            assert!(
                error.contains("anchors, aliases or merge keys"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn refuses_more_values_than_the_bound() {
        let list = |count: usize| vec!["0"; count].join(",");
        for (key, count, fits) in [
            ("a.json", 40_000, true),
            ("a.json", 60_000, false),
            ("a.yaml", 60_000, false),
        ] {
            let read = config_object(key, &format!("{{\"a\": [{}]}}", list(count)));
            assert_eq!(read.is_ok(), fits, "{key} {count}");
            if let Err(error) = read {
                assert!(error.contains("more than 50000 values"), "{error}");
            }
        }

        let maps = vec!["{\"\":0}"; 30_000].join(",");
        assert!(config_object("a.json", &format!("{{\"a\":[{maps}]}}")).is_err());
    }

    #[test]
    fn refuses_deep_nesting_in_both_formats() {
        for (key, depth, fits) in [
            ("a.json", 60, true),
            ("a.json", 70, false),
            ("a.yaml", 60, true),
            ("a.yaml", 70, false),
        ] {
            let text = format!("{{\"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
            let read = config_object(key, &text);
            assert_eq!(read.is_ok(), fits, "{key} {depth}");
            assert!(
                read.err()
                    .is_none_or(|error| error.contains("nested more than 64 deep"))
            );
        }

        for depth in [10_000, 200_000] {
            let block = "- ".repeat(depth);
            assert!(config_object("a.yaml", &block).is_err());
            assert!(config_object("a.json", &"[".repeat(depth)).is_err());
        }
    }

    #[test]
    fn counts_values_without_those_in_strings() {
        for (text, count) in [
            ("1", 1),
            (r#"{"a":[1,2]}"#, 5),
            (r#"{"a,{[:":"\\\",,"}"#, 3),
        ] {
            assert_eq!(count_values(text), count, "{text}");
        }
    }

    #[test]
    fn refuses_a_key_that_stands_twice() {
        assert!(config_object("a.json", r#"{"a":1,"a":2}"#).is_err());
        for text in ["a: 1\na: 2", "1: a\n'1': b", "y: 1\ntrue: 2"] {
            let error = config_object("a.yaml", text).expect_err(text);
            assert!(error.contains("a key stands twice"), "{error}");
        }
    }
}

//! Compares and hashes JSON values by their texts, without trees.
//!
//! How a value is spelled does not matter: whitespace, the order of fields, and escapes in strings.
//! Numbers are equal as in serde_json: `1.0` and `1.00` are, but an integer differs from a number
//! with a fraction or an exponent (`1` and `1.0`), as in Go's [unstructured objects]. A field
//! occurring twice, which no API server writes, counts as two fields.
//!
//! [unstructured objects]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/util/json/json.go#L44

use std::{
    borrow::Cow,
    hash::{BuildHasher, Hasher},
};

use serde_json::Number;

use crate::object::scanner::Scanner;

/// How many bytes one comparison may read again. Objects whose fields have different names or
/// orders are read again at each level. Only objects of some 100 KiB that are also nested dozens of
/// levels deep need more.
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(16 << 20)
    }
}

pub(super) struct Field<'a> {
    pub(super) name: Cow<'a, str>,
    /// The text of its value.
    pub(super) value: &'a str,
}

impl<'a> Field<'a> {
    /// Reads the rest of an object at nesting level `depth`. `name` is that of the next field; its
    /// value follows. Returns None if the text is not JSON or the budget is spent.
    pub(super) fn rest(
        scanner: &mut Scanner<'a>,
        mut name: Option<Cow<'a, str>>,
        depth: usize,
        budget: &mut Budget,
    ) -> Option<Vec<Self>> {
        let mut fields = Vec::new();
        while let Some(this) = name {
            let value = scanner.value_text(depth).ok()?;
            budget.0 = budget.0.checked_sub(value.len())?;
            fields.push(Self { name: this, value });
            name = scanner
                .field(&mut false)
                .ok()?
                .map(|name| scanner.text_of(&name));
        }

        Some(fields)
    }

    /// For each of `new`, the position of the field of the same name in `old`.
    pub(super) fn places(old: &[Self], new: &[Self]) -> Vec<Option<usize>> {
        let mut sorted: Vec<usize> = (0..old.len()).collect();
        sorted.sort_by(|one, other| old[*one].name.cmp(&old[*other].name));
        let place = |field: &Self| {
            sorted
                .binary_search_by(|at| old[*at].name.cmp(&field.name))
                .ok()
        };
        new.iter()
            .map(|field| place(field).map(|at| sorted[at]))
            .collect()
    }
}

/// Whether two values are equal. None if a text is not JSON or the budget is spent.
pub(super) fn equal(one: &str, other: &str, budget: &mut Budget) -> Option<bool> {
    if one == other {
        Some(true)
    } else {
        equal_next(&mut Scanner::new(one), &mut Scanner::new(other), 0, budget)
    }
}

/// Compares the next values of two scanners, inside of `depth` levels, and skips them if they are
/// equal.
fn equal_next(
    one: &mut Scanner<'_>,
    other: &mut Scanner<'_>,
    depth: usize,
    budget: &mut Budget,
) -> Option<bool> {
    match (one.peek()?, other.peek()?) {
        (b'{', b'{') => equal_objects(one, other, depth + 1, budget),
        (b'[', b'[') => {
            one.open(depth + 1).ok()?;
            other.open(depth + 1).ok()?;
            let mut is_first_of_one = true;
            let mut is_first_of_other = true;
            loop {
                let is_in_one = one.item(&mut is_first_of_one).ok()?;
                let is_in_other = other.item(&mut is_first_of_other).ok()?;
                if !is_in_one || !is_in_other {
                    return Some(is_in_one == is_in_other);
                }
                if !equal_next(one, other, depth + 1, budget)? {
                    return Some(false);
                }
            }
        }
        (b'"', b'"') => {
            let strings = (one.string().ok()?, other.string().ok()?);
            Some(one.text_of(&strings.0) == other.text_of(&strings.1))
        }
        _ => {
            let one = one.value_text(depth).ok()?;
            let other = other.value_text(depth).ok()?;
            Some(one == other || number(one).is_some_and(|one| number(other) == Some(one)))
        }
    }
}

/// Compares two objects at nesting level `depth`. Their fields mostly have the same order; from the
/// first difference on, they are looked up.
fn equal_objects(
    one: &mut Scanner<'_>,
    other: &mut Scanner<'_>,
    depth: usize,
    budget: &mut Budget,
) -> Option<bool> {
    one.open(depth).ok()?;
    other.open(depth).ok()?;
    let mut is_first_of_one = true;
    let mut is_first_of_other = true;

    loop {
        let name = one
            .field(&mut is_first_of_one)
            .ok()?
            .map(|name| one.text_of(&name));
        let other_name = other
            .field(&mut is_first_of_other)
            .ok()?
            .map(|name| other.text_of(&name));

        if name != other_name {
            let old = Field::rest(one, name, depth, budget)?;
            let new = Field::rest(other, other_name, depth, budget)?;
            return equal_fields(&old, &new, depth, budget);
        }

        if name.is_none() {
            return Some(true);
        }
        if !equal_next(one, other, depth, budget)? {
            return Some(false);
        }
    }
}

fn equal_fields(
    old: &[Field<'_>],
    new: &[Field<'_>],
    depth: usize,
    budget: &mut Budget,
) -> Option<bool> {
    if old.len() != new.len() {
        return Some(false);
    }

    let mut is_found = vec![false; old.len()];
    for (field, place) in new.iter().zip(Field::places(old, new)) {
        let Some(place) = place else {
            return Some(false);
        };
        let mut one = Scanner::new(old[place].value);
        let mut other = Scanner::new(field.value);
        if std::mem::replace(&mut is_found[place], true)
            || !equal_next(&mut one, &mut other, depth, budget)?
        {
            return Some(false);
        }
    }

    Some(true)
}

/// Hashes a value; equal values have equal hashes. With a secret seed, nobody can construct a
/// collision.
pub(crate) fn hash(value: &str, hasher: &impl BuildHasher) -> u64 {
    hash_next(&mut Scanner::new(value), 0, hasher).unwrap_or_else(|| hasher.hash_one(value))
}

fn hash_next(scanner: &mut Scanner<'_>, depth: usize, hasher: &impl BuildHasher) -> Option<u64> {
    match scanner.peek()? {
        b'{' => {
            scanner.open(depth + 1).ok()?;
            let mut is_first = true;
            // A sum, because it does not depend on the order of the fields.
            let mut sum = 0_u64;
            while let Some(name) = scanner.field(&mut is_first).ok()? {
                let name = scanner.text_of(&name);
                let value = hash_next(scanner, depth + 1, hasher)?;
                sum = sum.wrapping_add(hasher.hash_one((name, value)));
            }
            Some(hasher.hash_one((b'{', sum)))
        }
        b'[' => {
            scanner.open(depth + 1).ok()?;
            let mut is_first = true;
            let mut all = hasher.build_hasher();
            all.write_u8(b'[');
            while scanner.item(&mut is_first).ok()? {
                all.write_u64(hash_next(scanner, depth + 1, hasher)?);
            }
            Some(all.finish())
        }
        b'"' => {
            let string = scanner.string().ok()?;
            Some(hasher.hash_one((b'"', scanner.text_of(&string))))
        }
        _ => {
            let text = scanner.value_text(depth).ok()?;
            // Number's own hash covers only the bits: 0.0 hashes like 0, and -1 like the largest
            // number.
            let numeric =
                |number: Number| hasher.hash_one((number.is_f64(), number.is_u64(), number));
            Some(number(text).map_or_else(|| hasher.hash_one(text), numeric))
        }
    }
}

/// Parses a number; None for other values, and for a number too large for any 64-bit type.
fn number(text: &str) -> Option<Number> {
    let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if is_number {
        serde_json::from_str(text).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;

    #[test]
    fn spelling_does_not_count() {
        let hasher = RandomState::new();
        for (one, other, is_equal) in [
            (r#""A\n""#, r#""\u0041\u000a""#, true),
            (r#""A""#, r#""a""#, false),
            (
                r#"{"a":1,"b":[{"c":1,"d":{}}]}"#,
                r#" { "b" : [ {"d":{},"\u0063":1} ] , "a" : 1 } "#,
                true,
            ),
            (r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#, false),
            (r#"{"a":1,"b":2}"#, r#"{"b":2}"#, false),
            (r#"{"a":1}"#, r#"{"b":1}"#, false),
            (r#"{"a":1,"b":1}"#, r#"{"b":1,"b":1}"#, false),
            (r#"{"a":1}"#, r#"[1]"#, false),
            ("[1,2]", "[1 , 2]", true),
            ("[1,2]", "[2,1]", false),
            ("[1]", "[1,1]", false),
            ("[]", "{}", false),
            ("[]", "[[]]", false),
            ("1.0", "1.00", true),
            ("1.5e1", "15.0", true),
            ("1", "1.0", false),
            ("1", "10", false),
            ("0", "0.0", false),
            ("-1", "18446744073709551615", false),
            ("-0.0", "0.0", true),
            ("1", r#""1""#, false),
            ("9007199254740993", "9007199254740992", false),
            ("1e999", "1e999", true),
            ("1e999", "2e999", false),
            ("null", "false", false),
        ] {
            assert_eq!(
                equal(one, other, &mut Budget::default()),
                Some(is_equal),
                "{one} {other}"
            );
            assert_eq!(
                equal(other, one, &mut Budget::default()),
                Some(is_equal),
                "{other} {one}"
            );
            assert_eq!(
                hash(one, &hasher) == hash(other, &hasher),
                is_equal,
                "hashes of {one} {other}"
            );
        }
    }

    #[test]
    fn invalid_and_deep_texts_are_refused() {
        let deep = |end: &str| format!("{}{end}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(equal(&deep("1"), &deep("2"), &mut Budget::default()), None);
        let hasher = RandomState::new();
        assert_ne!(hash(&deep("1"), &hasher), hash(&deep("2"), &hasher));
        for text in ["", "{", "[1", r#"{"a"}"#, "nul", "-", "\"a"] {
            assert!(
                !equal(text, "[1,2]", &mut Budget::default()).unwrap_or_default(),
                "{text}"
            );
            hash(text, &hasher);
        }
    }
}

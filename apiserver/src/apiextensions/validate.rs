//! Validation of values against a schema, with the messages and the order of kube-openapi's
//! validator.

use serde_json::{Map, Value};

use super::{
    correlate::Correlated,
    formats, number,
    schema::{Additional, Schema, is_meta_field},
    violation::{Outcome, Violation},
};
use crate::{
    apimachinery::{
        field::{ErrorKind, FieldError, Path, Shown},
        json,
    },
    golang::{self, pattern::Patterns},
};

/// A validator of values.
#[derive(Debug, Default)]
pub struct Validator {
    patterns: Patterns,
    /// Reports the schema of a default value, whose formats and types are taken as they are
    /// written.
    literal: bool,
}

impl Validator {
    /// Creates a validator of default values. The real server checks these against the schema as it
    /// is written: an int-or-string has no implied types there.
    pub fn of_defaults() -> Self {
        Self {
            literal: true,
            ..Self::default()
        }
    }

    /// Validates a value, and gives its errors below a path.
    pub fn validate(&self, path: &Path, value: &Value, schema: &Schema) -> Vec<FieldError> {
        self.check(schema, value, "", None).into_errors(path)
    }

    /// Validates a value of an update. Errors of unchanged values are left out.
    pub fn validate_update(
        &self,
        path: &Path,
        change: Correlated<'_>,
        schema: &Schema,
    ) -> Vec<FieldError> {
        self.check(schema, change.new, "", Some(change))
            .into_errors(path)
    }

    fn kinds<'s>(&self, schema: &'s Schema) -> Vec<&'s str> {
        if schema.int_or_string && !self.literal {
            return vec!["integer", "string"];
        }

        if schema.kind.is_empty() {
            Vec::new()
        } else {
            vec![&schema.kind]
        }
    }

    fn check(
        &self,
        schema: &Schema,
        value: &Value,
        path: &str,
        change: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = self.check_value(schema, value, path, change);
        if !outcome.is_valid() && change.is_some_and(|change| change.is_unchanged()) {
            outcome.forget_errors();
        }
        outcome
    }

    fn check_value(
        &self,
        schema: &Schema,
        value: &Value,
        path: &str,
        change: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let kinds = self.kinds(schema);
        let format = if self.literal {
            schema.format.as_str()
        } else {
            formats::effective(&kinds, &schema.format)
        };

        if value.is_null() {
            outcome.merge(check_null(schema, &kinds, path));
            outcome.merge(check_enum(schema, value, path));
            return outcome;
        }

        if !kinds.is_empty() || !format.is_empty() {
            outcome.merge_step(check_type(&kinds, format, value, path));
        }

        outcome.merge_step(self.check_combined(schema, value, path));
        match value {
            Value::String(text) => {
                outcome.merge_step(self.check_text(schema, text, path));
                if formats::is_string_format(format) {
                    outcome.merge_step(check_format(format, text, path));
                }
            }
            Value::Number(number) => {
                let decoded = golang::decode_number(number);
                outcome.merge_step(number::check(schema, &kinds, format, decoded, path));
            }
            Value::Array(items) => outcome.merge_step(self.check_list(schema, items, path, change)),
            _ => {}
        }

        outcome.merge_step(check_enum(schema, value, path));
        if let Value::Object(fields) = value {
            outcome.merge_step(self.check_object(schema, fields, path, change));
        }

        outcome.matched += 1;
        outcome
    }

    fn check_text(&self, schema: &Schema, text: &str, path: &str) -> Outcome {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = schema.max_length.filter(|max| length > *max) {
            return Outcome::failure(Violation::too_long(path, max));
        }
        if let Some(min) = schema.min_length.filter(|min| length < *min) {
            let message = format!("{path} in body should be at least {min} chars long");
            return Outcome::failure(Violation::invalid(path, Shown::text(text), message));
        }
        if schema.pattern.is_empty() {
            return Outcome::default();
        }

        let pattern = &schema.pattern;
        let message = match self.patterns.is_match(pattern, text) {
            Ok(true) => return Outcome::default(),
            Ok(false) => format!("{path} in body should match '{pattern}'"),
            Err(error) => {
                format!("{path} in body should match '{pattern}, but pattern is invalid: {error}'")
            }
        };

        Outcome::failure(Violation::invalid(path, Shown::text(text), message))
    }

    fn check_list(
        &self,
        schema: &Schema,
        items: &[Value],
        path: &str,
        change: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(item_schema) = schema.item() {
            for (at, item) in items.iter().enumerate() {
                let item_change = change.and_then(|change| change.index(at));
                outcome.merge(self.check(item_schema, item, &format!("{path}[{at}]"), item_change));
            }
        }

        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.min_items.filter(|min| size < *min) {
            let message = format!("{path} in body should have at least {min} items");
            outcome.add(Violation::invalid(
                path,
                Shown::raw(size.to_string()),
                message,
            ));
        }

        if let Some(max) = schema.max_items.filter(|max| size > *max) {
            outcome.add(Violation::too_many(path, items.len(), max, "items"));
        }

        if schema.unique_items && (1..items.len()).any(|at| items[..at].contains(&items[at])) {
            let message = format!("{path} in body shouldn't contain duplicates");
            outcome.add(Violation::invalid(path, Shown::text(""), message));
        }

        outcome.matched += 1;
        outcome
    }

    fn check_object(
        &self,
        schema: &Schema,
        fields: &Map<String, Value>,
        path: &str,
        change: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        if let Some(min) = schema.min_properties.filter(|min| size < *min) {
            let message = format!("{path} in body should have at least {min} properties");
            outcome.add(Violation::invalid(
                path,
                Shown::raw(size.to_string()),
                message,
            ));
        }

        if let Some(max) = schema.max_properties.filter(|max| size > *max) {
            outcome.add(Violation::too_many(path, fields.len(), max, "properties"));
        }

        // Metadata fields of the object itself are not correlated.
        let field_change = |name: &str| {
            change
                .filter(|_| !(path.is_empty() && is_type_field(name)))
                .and_then(|change| change.key(name))
        };

        let mut others: Vec<_> = fields
            .iter()
            .filter(|(key, _)| !schema.properties.contains_key(key))
            .collect();
        others.sort_unstable_by_key(|(key, _)| *key);

        for (key, item) in others {
            match &schema.additional_properties {
                Some(Additional::Allowed(false)) => {
                    let message = format!("{path}.{key} in body is a forbidden property");
                    outcome.add(Violation::invalid(path, Shown::text(key), message));
                }
                Some(Additional::Schema(additional)) => {
                    outcome.merge(self.check(
                        additional,
                        item,
                        &format!("{path}.{key}"),
                        field_change(key),
                    ));
                }
                _ => {}
            }
        }

        for (name, property) in &schema.properties {
            if let Some(item) = fields.get(name) {
                let item_path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                outcome.merge(self.check(property, item, &item_path, field_change(name)));
            }
        }

        for name in schema
            .required
            .iter()
            .filter(|name| !fields.contains_key(*name))
        {
            outcome.add(Violation::required(&format!("{path}.{name}")));
        }

        outcome
    }

    fn check_combined(&self, schema: &Schema, value: &Value, path: &str) -> Outcome {
        let mut outcome = Outcome::default();
        self.check_any_of(schema, value, path, &mut outcome);
        self.check_one_of(schema, value, path, &mut outcome);
        self.check_all_of(schema, value, path, &mut outcome);

        if let Some(not) = &schema.not
            && self.check(not, value, path, None).is_valid()
        {
            outcome.add(Violation::of_schema(
                path,
                "must not validate the schema (not)",
            ));
        }

        outcome.matched += 1;
        outcome
    }

    fn check_any_of(&self, schema: &Schema, value: &Value, path: &str, outcome: &mut Outcome) {
        let mut best: Option<Outcome> = None;
        for alternative in &schema.any_of {
            let result = self.check(alternative, value, path, None);
            if result.is_valid() {
                outcome.merge(result);
                return;
            }

            if best
                .as_ref()
                .is_none_or(|best| result.matched > best.matched)
            {
                best = Some(result);
            }
        }

        if let Some(best) = best {
            outcome.add(Violation::of_schema(
                path,
                "must validate at least one schema (anyOf)",
            ));
            outcome.merge(best);
        }
    }

    fn check_one_of(&self, schema: &Schema, value: &Value, path: &str, outcome: &mut Outcome) {
        if schema.one_of.is_empty() {
            return;
        }

        let (mut valid, mut best, mut first): (usize, Option<Outcome>, Option<Outcome>) =
            (0, None, None);
        for alternative in &schema.one_of {
            let result = self.check(alternative, value, path, None);
            if result.is_valid() {
                valid += 1;
                best = None;
                first.get_or_insert(result);
            } else if valid == 0
                && best
                    .as_ref()
                    .is_none_or(|best| result.matched > best.matched)
            {
                best = Some(result);
            }
        }

        if valid == 1 {
            outcome.merge(first.unwrap_or_default());
            return;
        }

        let found = if valid == 0 {
            "Found none valid".to_owned()
        } else {
            format!("Found {valid} valid alternatives")
        };

        outcome.add(Violation::of_schema(
            path,
            &format!("must validate one and only one schema (oneOf). {found}"),
        ));
        outcome.merge(best.unwrap_or_default());
    }

    fn check_all_of(&self, schema: &Schema, value: &Value, path: &str, outcome: &mut Outcome) {
        let mut valid = 0;
        for part in &schema.all_of {
            let result = self.check(part, value, path, None);
            valid += usize::from(result.is_valid());
            outcome.merge(result);
        }

        if valid != schema.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.add(Violation::of_schema(
                path,
                &format!("must validate all the schemas (allOf){none}"),
            ));
        }
    }
}

fn is_type_field(name: &str) -> bool {
    is_meta_field(name) && name != "metadata"
}

fn check_null(schema: &Schema, kinds: &[&str], path: &str) -> Outcome {
    if kinds.is_empty() || schema.nullable || kinds.contains(&"null") {
        return Outcome::passed();
    }
    Outcome::failure(Violation::wrong_type(path, &kinds.join(","), "null"))
}

fn check_format(format: &str, text: &str, path: &str) -> Outcome {
    if formats::accepts(format, text) {
        return Outcome::default();
    }
    Outcome::failure(Violation::wrong_type(path, format, text))
}

fn check_enum(schema: &Schema, value: &Value, path: &str) -> Outcome {
    if schema.allowed.is_empty()
        || schema
            .allowed
            .iter()
            .any(|allowed| enum_equals(value, allowed))
    {
        return Outcome::default();
    }

    let texts: Vec<String> = schema
        .allowed
        .iter()
        .map(|allowed| {
            allowed
                .as_str()
                .map_or_else(|| json::to_string(allowed), str::to_owned)
        })
        .collect();

    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let error = FieldError::not_supported(Path::new(path), Shown::value(value), &texts);
    let list: Vec<_> = schema.allowed.iter().map(golang::plain).collect();
    let message = format!("{path} in body should be one of [{}]", list.join(" "));

    Outcome::failure(Violation::new(
        path,
        ErrorKind::NotSupported,
        error.shown,
        error.detail,
        message,
    ))
}

/// Compares a value with an allowed one as Go does, which converts numbers before.
#[expect(
    clippy::cast_possible_truncation,
    clippy::float_cmp,
    reason = "Go converts and compares the same way"
)]
fn enum_equals(value: &Value, allowed: &Value) -> bool {
    use golang::Decoded::{Float, Int};

    match (value, allowed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(allowed)) => {
            match (golang::decode_number(value), golang::decode_number(allowed)) {
                (Int(value), Int(allowed)) => value == allowed,
                (Float(value), Int(allowed)) => value as i64 == allowed,
                (value, Float(allowed)) => value.as_f64() == allowed,
            }
        }
        (Value::Number(value), Value::String(allowed)) => match golang::decode_number(value) {
            // Go converts an integer to the character with that code.
            Int(code) => {
                let character = u32::try_from(code)
                    .ok()
                    .and_then(char::from_u32)
                    .unwrap_or('\u{fffd}');
                allowed.chars().eq([character])
            }
            Float(_) => false,
        },
        (value, allowed) => value == allowed,
    }
}

fn check_type(kinds: &[&str], format: &str, value: &Value, path: &str) -> Outcome {
    let (kind, native) = match value {
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Number(number)
            if matches!(golang::decode_number(number), golang::Decoded::Int(_)) =>
        {
            ("integer", "int64")
        }
        Value::Number(_) => ("number", "float64"),
        _ => ("object", ""),
    };

    let whole = kind == "number"
        && value.as_f64().is_some_and(number::is_whole)
        && kinds.contains(&"integer");
    let fits = kinds.contains(&kind) || whole || (kind == "integer" && kinds.contains(&"number"));
    let sequence = matches!(kind, "string" | "array");
    if !sequence && !format.is_empty() && !fits && native != format {
        return Outcome::failure(Violation::wrong_type(path, format, native));
    }

    let numeric = kinds.contains(&"number") || kinds.contains(&"integer");
    if fits || (!numeric && !format.is_empty() && sequence) {
        return Outcome::passed();
    }

    Outcome::failure(Violation::wrong_type(path, &kinds.join(","), kind))
}

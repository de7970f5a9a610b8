//! The format of the tables, and what all of them need.

use std::{collections::BTreeMap, sync::Arc};

use operetta_apiserver::apply::{
    fieldpath::{ElementMatcher, FieldFilter, FieldSet, PathElement, SetMatcher},
    schema::{
        Atom, ListType, MapType, ObjectType, Relationship, Scalar, Schema, StructField, TypeRef,
    },
};
use serde::Deserialize;
use serde_json::Value;

/// A table: the types that its cases refer to by index, and the cases.
#[derive(Deserialize)]
pub struct Table {
    #[serde(default)]
    pub conversions: Vec<Value>,
    #[serde(default)]
    pub converters: BTreeMap<String, Vec<Value>>,
    pub types: Vec<Value>,
    pub cases: Vec<Case>,
}

/// A test of structured-merge-diff: the calls that it made, with their results.
#[derive(Deserialize)]
pub struct Case {
    pub file: String,
    pub name: String,
    pub steps: Vec<Value>,
}

impl Table {
    /// Parses a table.
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).expect("a table")
    }

    /// Returns the types of the table.
    pub fn object_types(&self) -> Vec<ObjectType> {
        self.types.iter().map(object_type).collect()
    }

    /// Runs all cases, prints how many each file has, and panics if some have failed.
    pub fn run(&self, mut run: impl FnMut(&Case) -> Result<(), String>) {
        let mut counts = BTreeMap::new();
        let mut failures = Vec::new();

        for case in &self.cases {
            *counts.entry(&case.file).or_insert(0) += 1;
            failures.extend(
                run(case)
                    .err()
                    .map(|error| format!("{} {}: {error}", case.file, case.name)),
            );
        }

        println!(
            "{} cases of {} files: {counts:?}",
            self.cases.len(),
            counts.len()
        );

        assert!(!self.cases.is_empty());
        assert!(
            failures.is_empty(),
            "{} cases failed:\n{}",
            failures.len(),
            failures.join("\n")
        );
    }
}

/// Compares a result with the expected one.
pub fn expect<T: PartialEq + std::fmt::Debug>(
    what: &str,
    actual: T,
    expected: T,
) -> Result<(), String> {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, got {actual:?}"))
    }
}

/// Returns the text of a field.
pub fn text<'a>(step: &'a Value, field: &str) -> &'a str {
    step[field].as_str().unwrap_or_default()
}

/// Decodes a set in its JSON form.
pub fn field_set(value: &Value) -> FieldSet {
    let text = value.as_str().expect("the text of a set");
    FieldSet::from_fields(&serde_json::from_str(text).expect("JSON")).expect("a set")
}

/// Decodes a path from its keys.
pub fn path(value: &Value) -> Vec<PathElement> {
    let keys = value.as_array().into_iter().flatten();
    keys.map(|key| PathElement::from_key(key.as_str().expect("a key")).expect("an element"))
        .collect()
}

/// Decodes a filter.
pub fn filter(value: &Value) -> FieldFilter {
    match value.get("exclude") {
        Some(excluded) => FieldFilter::Exclude(field_set(excluded)),
        None => FieldFilter::Include(matcher(&value["include"])),
    }
}

/// Decodes a matcher.
pub fn matcher(value: &Value) -> SetMatcher {
    if value["wildcard"] == true {
        return SetMatcher::Any;
    }

    let members = value["members"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|member| {
            let element = match &member["path"] {
                Value::Null => ElementMatcher::Any,
                key => ElementMatcher::Is(
                    PathElement::from_key(key.as_str().expect("a key")).expect("an element"),
                ),
            };
            (element, matcher(&member["child"]))
        });

    SetMatcher::Members(members.collect())
}

fn object_type(value: &Value) -> ObjectType {
    let types = value["types"].as_object().into_iter().flatten();
    let types = types.map(|(name, value)| (name.clone(), atom(value)));
    ObjectType {
        schema: Arc::new(Schema::new(types)),
        root: type_ref(&value["root"]),
    }
}

fn type_ref(value: &Value) -> TypeRef {
    let relationship = value
        .get("elementRelationship")
        .map(|_| relationship(value));

    let name = value["namedType"].as_str().map(Arc::from);
    TypeRef {
        name,
        inline: atom(value),
        relationship,
    }
}

fn relationship(value: &Value) -> Relationship {
    match value["elementRelationship"].as_str() {
        Some("atomic") => Relationship::Atomic,
        Some("associative") => Relationship::Associative,
        _ => Relationship::Separable,
    }
}

fn atom(value: &Value) -> Atom {
    let scalar = value["scalar"].as_str().map(|scalar| match scalar {
        "numeric" => Scalar::Numeric,
        "string" => Scalar::String,
        "boolean" => Scalar::Boolean,
        _ => Scalar::Untyped,
    });

    let list = value.get("list").map(|list| {
        let keys = list["keys"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned);

        let element = type_ref(&list["elementType"]);
        Arc::new(ListType {
            element,
            relationship: relationship(list),
            keys: keys.collect(),
        })
    });

    let map = value.get("map").map(|map| {
        let fields = map["fields"].as_array().into_iter().flatten().map(|field| {
            let default = field.get("default").cloned();
            (
                text(field, "name").to_owned(),
                StructField {
                    type_ref: type_ref(&field["type"]),
                    default,
                },
            )
        });

        let element = type_ref(&map["elementType"]);
        Arc::new(MapType {
            fields: Arc::new(fields.collect()),
            element,
            relationship: relationship(map),
        })
    });

    Atom { scalar, list, map }
}

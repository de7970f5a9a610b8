//! The schema of a custom resource: `openAPIV3Schema` with the extensions of Kubernetes.

use std::{
    collections::{BTreeMap, btree_map},
    iter,
    ops::Deref,
    sync::Arc,
};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A schema, or a nested value validation inside of one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the fields have the names and meanings of JSON schema"
)]
pub struct Schema {
    pub id: String,
    #[serde(rename = "$schema")]
    pub meta_schema: String,
    #[serde(rename = "$ref")]
    pub reference: Option<String>,
    pub description: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub nullable: bool,
    pub format: String,
    pub title: String,
    pub default: Option<Value>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: String,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub multiple_of: Option<f64>,
    #[serde(rename = "enum")]
    pub allowed: Vec<Value>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Vec<String>,
    pub items: Option<Items>,
    pub all_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
    pub properties: Schemas,
    pub additional_properties: Option<Additional>,
    pub pattern_properties: Schemas,
    pub dependencies: BTreeMap<String, Dependency>,
    pub additional_items: Option<Additional>,
    pub definitions: Schemas,
    pub external_docs: Option<Value>,
    pub example: Option<Value>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub preserve_unknown_fields: Option<bool>,
    #[serde(rename = "x-kubernetes-embedded-resource")]
    pub embedded_resource: bool,
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub int_or_string: bool,
    #[serde(rename = "x-kubernetes-list-map-keys")]
    pub list_map_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-list-type")]
    pub list_type: Option<String>,
    #[serde(rename = "x-kubernetes-map-type")]
    pub map_type: Option<String>,
    #[serde(rename = "x-kubernetes-validations")]
    pub validations: Vec<Rule>,
}

/// A schema inside of another one. Copies of the outer one share it: a schema takes a kilobyte, a
/// definition has thousands of them, and serving it needs several copies that differ at few places.
#[derive(Clone, Debug, PartialEq)]
pub struct Nested(Arc<Schema>);

impl Nested {
    /// Returns the schema to change it, without a change to what shares it.
    pub fn make_mut(&mut self) -> &mut Schema {
        Arc::make_mut(&mut self.0)
    }
}

impl Deref for Nested {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Nested {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Schema::deserialize(deserializer).map(|schema| Self(Arc::new(schema)))
    }
}

/// Schemas by the names of the fields that they are for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Schemas(BTreeMap<String, Nested>);

impl Schemas {
    /// Returns the schema of a field.
    pub fn get(&self, name: &str) -> Option<&Schema> {
        self.0.get(name).map(Deref::deref)
    }

    /// Reports whether there is a schema of a field.
    pub fn contains_key(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the fields.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Returns the schemas, in the order of the names.
    pub fn values(&self) -> impl Iterator<Item = &Schema> {
        self.0.values().map(Deref::deref)
    }

    /// Returns the names with their schemas, in the order of the names.
    pub fn iter(&self) -> Iter<'_> {
        self.into_iter()
    }

    /// Returns the names with their schemas to change these.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&String, &mut Nested)> {
        self.0.iter_mut()
    }

    /// Sets the schema of a field.
    pub fn insert(&mut self, name: String, schema: Schema) {
        self.0.insert(name, Nested(Arc::new(schema)));
    }

    /// Removes all schemas.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Names with their schemas.
pub type Iter<'a> = iter::Map<
    btree_map::Iter<'a, String, Nested>,
    fn((&'a String, &'a Nested)) -> (&'a String, &'a Schema),
>;

impl<'a> IntoIterator for &'a Schemas {
    type Item = (&'a String, &'a Schema);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        let entry: fn((&'a String, &'a Nested)) -> (&'a String, &'a Schema) =
            |(name, schema)| (name, &**schema);
        self.0.iter().map(entry)
    }
}

impl FromIterator<(String, Schema)> for Schemas {
    fn from_iter<I: IntoIterator<Item = (String, Schema)>>(schemas: I) -> Self {
        let nested = schemas
            .into_iter()
            .map(|(name, schema)| (name, Nested(Arc::new(schema))));
        Self(nested.collect())
    }
}

/// The schema of a list's items.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Items {
    /// One schema for all items.
    One(Nested),
    /// A schema for each position, which structural schemas forbid.
    Many(Vec<Schema>),
}

/// The rule for fields that `properties` does not name.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Additional {
    /// Such fields are allowed, or not.
    Allowed(bool),
    /// Such fields are allowed and have a schema.
    Schema(Nested),
}

/// The fields that must be there if another one is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Dependency {
    /// A schema of the object.
    Schema(Box<Schema>),
    /// Names of fields.
    Fields(Vec<String>),
    /// Nothing.
    None(()),
}

/// A rule of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rule {
    /// The CEL expression, which must be true.
    pub rule: String,
    /// The message of its failure.
    pub message: String,
    /// A CEL expression for the message of its failure.
    pub message_expression: String,
    /// The reason of its failure.
    pub reason: Option<String>,
    /// The path of the field that its failure is about.
    pub field_path: String,
    /// Whether `oldSelf` is an optional. The rule then also runs on create.
    pub optional_old_self: Option<bool>,
}

impl Schema {
    /// Returns the schema of all items.
    pub fn item(&self) -> Option<&Schema> {
        match &self.items {
            Some(Items::One(schema)) => Some(schema),
            _ => None,
        }
    }

    /// Returns the schema of fields that `properties` does not name.
    pub fn additional(&self) -> Option<&Schema> {
        match &self.additional_properties {
            Some(Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    /// Returns how many values there are at most for a schema directly inside; none if there is no
    /// limit.
    pub fn max_values_inside(&self) -> Option<u64> {
        let limit = match self.kind.as_str() {
            "object" if self.additional_properties.is_some() => self.max_properties?,
            "array" => self.max_items?,
            _ => 1,
        };

        Some(u64::try_from(limit).unwrap_or(0))
    }

    /// Reports whether unknown fields are kept.
    pub fn preserves_unknown(&self) -> bool {
        self.preserve_unknown_fields == Some(true)
    }

    /// Returns the schema of a field: its own, or else the one of additional fields.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or_else(|| self.additional())
    }

    /// Lists the schemas directly inside of this one, whatever they apply to.
    pub fn children(&self) -> Vec<&Schema> {
        let mut out: Vec<&Schema> = Vec::new();
        match &self.items {
            Some(Items::One(schema)) => out.push(schema),
            Some(Items::Many(schemas)) => out.extend(schemas),
            None => {}
        }

        out.extend(self.all_of.iter().chain(&self.any_of).chain(&self.one_of));
        out.extend(self.not.as_deref());
        out.extend(self.properties.values());
        out.extend(self.additional());
        out.extend(self.pattern_properties.values());

        if let Some(Additional::Schema(schema)) = &self.additional_items {
            out.push(schema);
        }

        out.extend(self.definitions.values());
        for dependency in self.dependencies.values() {
            if let Dependency::Schema(schema) = dependency {
                out.push(schema);
            }
        }

        out
    }

    /// Reports whether this schema, or one inside of it, satisfies a condition.
    pub fn any(&self, condition: &dyn Fn(&Schema) -> bool) -> bool {
        condition(self)
            || self
                .children()
                .into_iter()
                .any(|child| child.any(condition))
    }

    /// Reports whether the schema, or one on the way to a field or item, has rules.
    pub fn has_rules(&self) -> bool {
        !self.validations.is_empty()
            || self.item().is_some_and(Self::has_rules)
            || self.additional().is_some_and(Self::has_rules)
            || self.properties.values().any(Self::has_rules)
    }

    /// Reports whether the schema, or one on the way to a field or item, has a default.
    pub fn has_defaults(&self) -> bool {
        self.default.is_some()
            || self.item().is_some_and(Self::has_defaults)
            || self.additional().is_some_and(Self::has_defaults)
            || self.properties.values().any(Self::has_defaults)
    }

    /// Returns the schema as the root of a resource: its metadata is implied.
    pub fn as_resource(&self) -> Self {
        Self {
            embedded_resource: true,
            ..self.clone()
        }
    }
}

/// Reports whether a name is one of the implied fields of a resource.
pub fn is_meta_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

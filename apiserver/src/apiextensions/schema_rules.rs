//! Validation of the schema in a definition.

use serde_json::Value;

use super::{
    default_rules, list_rules,
    model::Validation,
    options::{self, Options},
    schema::{Additional, Items, Schema, is_meta_field},
    structural, typed,
    types::{OPENAPI_SCHEMA_TYPE, SCHEMA},
    validations::{costs::Costs, form},
};
use crate::apimachinery::field::{FieldError, Path, Shown};

/// The parts that the root of a schema may have beside a status subresource.
const ROOT_FIELDS: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Validates the schema of a version; `raw` is the schema as it was given.
pub fn check(
    validation: &Validation,
    raw: &Value,
    has_status: bool,
    options: &Options,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = &validation.schema else {
        return;
    };
    let path = path.child("openAPIV3Schema");
    let before = errors.len();

    if has_status {
        check_root(schema, raw, &path, errors);
    }

    if schema.nullable {
        errors.push(FieldError::forbidden(
            path.child("nullable"),
            "nullable cannot be true at the root",
        ));
    }

    let mut unsupported = None;
    let mut check_rules = false;
    if options.require_structural {
        unsupported = structural::unsupported(schema);
        if unsupported.is_none() {
            let mut found = structural::validate(&path, schema);
            if found.is_empty() {
                found = default_rules::validate(&path, schema, options.require_pruned_defaults);
            }
            check_rules = found.is_empty();
            errors.extend(found);
        }
    }

    let mut checker = Checker {
        options,
        schema_errors: Vec::new(),
        rule_errors: Vec::new(),
        costs: Costs::default(),
    };

    checker.check(
        schema,
        &path,
        &Place {
            is_root: true,
            check_rules,
            most_values: Some(1),
            ..Place::default()
        },
    );

    errors.append(&mut checker.schema_errors);
    errors.append(&mut checker.rule_errors);
    if let Some(detail) = unsupported.filter(|_| errors.len() == before) {
        errors.push(FieldError::invalid_text(&path, "", detail));
    }

    checker.costs.check_total(&path, errors);
}

fn check_root(schema: &Schema, raw: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let Value::Object(fields) = raw else { return };
    for field in SCHEMA
        .fields
        .iter()
        .filter(|field| fields.contains_key(field.json))
    {
        if field.go == "Type" && schema.kind != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            errors.push(FieldError::invalid_text(
                path.child("type"),
                &schema.kind,
                detail,
            ));
            return;
        }

        if !ROOT_FIELDS.contains(&field.go) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ROOT_FIELDS.join(" ")
            );
            let shown = Shown::raw(typed::internal_json(raw, &OPENAPI_SCHEMA_TYPE));
            errors.push(FieldError::invalid(path, shown, detail));
            return;
        }
    }
}

/// The consequences of a schema's place in the whole schema.
#[derive(Clone, Debug, Default)]
struct Place {
    is_root: bool,
    /// The reason for which no default may be set here.
    forbidden_defaults: Option<String>,
    inside_metadata: bool,
    /// The nearest place above whose values have no old values.
    uncorrelated: Option<Path>,
    /// Reports that rules are checked here.
    check_rules: bool,
    /// The most values that limits of the schemas around allow; none if one of them has no limit.
    most_values: Option<u64>,
}

impl Place {
    /// Returns the place of a schema directly inside of another one.
    fn child(&self, outer: &Schema) -> Self {
        let factor = outer.max_values_inside();
        let most_values = self
            .most_values
            .zip(factor)
            .map(|(most, factor)| most.saturating_mul(factor));

        Self {
            is_root: false,
            most_values,
            ..self.clone()
        }
    }

    fn without_rules(&self) -> Self {
        Self {
            is_root: false,
            check_rules: false,
            ..self.clone()
        }
    }

    fn uncorrelated_at(mut self, path: &Path) -> Self {
        self.uncorrelated.get_or_insert_with(|| path.clone());
        self
    }
}

struct Checker<'a> {
    options: &'a Options,
    schema_errors: Vec<FieldError>,
    rule_errors: Vec<FieldError>,
    costs: Costs,
}

impl Checker<'_> {
    fn check(&mut self, schema: &Schema, path: &Path, place: &Place) {
        let before = self.schema_errors.len();
        self.check_keywords(schema, path, place);
        self.check_children(schema, path, place);
        self.check_extensions(schema, path);
        list_rules::check(schema, self.options.lists, path, &mut self.schema_errors);
        form::check_form(schema, path, &mut self.schema_errors);

        // A schema with errors may have no types for the rules to check against.
        if self.schema_errors.len() > before || schema.validations.is_empty() {
            return;
        }

        if place.check_rules {
            let is_resource = place.is_root || schema.embedded_resource;
            let site = form::Site {
                path,
                is_resource,
                uncorrelated: place.uncorrelated.as_ref(),
                most_values: place.most_values,
                limits_costs: self.options.limit_rule_costs,
            };

            form::check(schema, &site, &mut self.costs, &mut self.rule_errors);
        }
    }

    fn check_keywords(&mut self, schema: &Schema, path: &Path, place: &Place) {
        let errors = &mut self.schema_errors;
        if self.options.require_types && !schema.kind.is_empty() && !options::is_type(&schema.kind)
        {
            let shown = Shown::text(&schema.kind);
            errors.push(FieldError::not_supported(
                path.child("type"),
                shown,
                options::types(),
            ));
        }

        if let Some(reason) = place
            .forbidden_defaults
            .as_ref()
            .filter(|_| schema.default.is_some())
        {
            errors.push(FieldError::forbidden(
                path.child("default"),
                format!("must not be set {reason}"),
            ));
        }

        let many_items = matches!(&schema.items, Some(Items::Many(schemas)) if !schemas.is_empty());
        let forbidden = [
            ("id", !schema.id.is_empty(), "id is not supported"),
            (
                "additionalItems",
                schema.additional_items.is_some(),
                "additionalItems is not supported",
            ),
            (
                "patternProperties",
                !schema.pattern_properties.is_empty(),
                "patternProperties is not supported",
            ),
            (
                "definitions",
                !schema.definitions.is_empty(),
                "definitions is not supported",
            ),
            (
                "dependencies",
                !schema.dependencies.is_empty(),
                "dependencies is not supported",
            ),
            ("$ref", schema.reference.is_some(), "$ref is not supported"),
            (
                "type",
                schema.kind == "null",
                "type cannot be set to null, use nullable as an alternative",
            ),
            (
                "items",
                many_items,
                "items must be a schema object and not an array",
            ),
            (
                "x-kubernetes-embedded-resource",
                place.inside_metadata && schema.embedded_resource,
                "must not be used inside of resource meta",
            ),
            (
                "uniqueItems",
                schema.unique_items,
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ),
        ];

        for (field, _, detail) in forbidden.into_iter().filter(|(_, is_set, _)| *is_set) {
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
    }

    fn check_children(&mut self, schema: &Schema, path: &Path, place: &Place) {
        self.check_additional(schema, path, place);
        for (name, property) in &schema.properties {
            let mut child = place.child(schema);
            if !matches!(
                schema.map_type.as_deref(),
                None | Some("granular" | "atomic")
            ) {
                child = child.uncorrelated_at(path);
            }

            if (place.is_root || schema.embedded_resource) && is_meta_field(name) {
                child.inside_metadata = true;
                if place.is_root {
                    child.forbidden_defaults = Some(format!("in top-level {name}"));
                }
            }

            self.check(property, &path.child("properties").key(name), &child);
        }

        let nested = place.without_rules();
        if let Some(not) = &schema.not {
            self.check(not, &path.child("not"), &nested);
        }

        for (name, schemas) in [
            ("allOf", &schema.all_of),
            ("oneOf", &schema.one_of),
            ("anyOf", &schema.any_of),
        ] {
            for (at, part) in schemas.iter().enumerate() {
                self.check(part, &path.child(name).index(at), &nested);
            }
        }

        for (name, definition) in &schema.definitions {
            self.check(definition, &path.child("definitions").key(name), &nested);
        }

        let mut child = place.child(schema);
        if schema.list_type.as_deref() != Some("map") {
            child = child.uncorrelated_at(path);
        }

        match &schema.items {
            Some(Items::One(item)) => self.check(item, &path.child("items"), &child),
            Some(Items::Many(items)) => {
                for (at, item) in items.iter().enumerate() {
                    self.check(item, &path.child("items").index(at), &child);
                }
            }
            None => {}
        }
    }

    fn check_additional(&mut self, schema: &Schema, path: &Path, place: &Place) {
        let path = path.child("additionalProperties");
        let Some(additional) = &schema.additional_properties else {
            return;
        };

        if !schema.properties.is_empty() && *additional != Additional::Allowed(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.schema_errors
                .push(FieldError::forbidden(&path, detail));
        }

        if let Additional::Schema(additional) = additional {
            let mut child = place.child(schema);
            if place.inside_metadata {
                child.forbidden_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            self.check(additional, &path, &child);
        }
    }

    fn check_extensions(&mut self, schema: &Schema, path: &Path) {
        let errors = &mut self.schema_errors;
        if schema.preserve_unknown_fields == Some(false) {
            let path = path.child("x-kubernetes-preserve-unknown-fields");
            errors.push(FieldError::invalid(
                &path,
                Shown::raw("false"),
                "must be true or undefined",
            ));
        }

        let Some(map_type) = &schema.map_type else {
            return;
        };
        let detail = "must be object if x-kubernetes-map-type is specified";

        if schema.kind.is_empty() {
            errors.push(FieldError::required(path.child("type"), detail));
        } else if schema.kind != "object" {
            errors.push(FieldError::invalid_text(
                path.child("type"),
                &schema.kind,
                detail,
            ));
        }

        let allowed = ["atomic", "granular"];
        if !allowed.contains(&map_type.as_str()) {
            let path = path.child("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(
                &path,
                Shown::text(map_type),
                &allowed,
            ));
        }
    }
}

//! Rules for default values in schemas: they have no unknown fields, and are valid.

use serde_json::{Value, json};

use super::{
    defaults::{self, Step},
    embedded, prune,
    schema::Schema,
    validate::Validator,
    validations::evaluate,
};
use crate::apimachinery::field::{self, FieldError, Path, Shown};

/// Validates the default values in the schema of a resource.
pub fn validate(path: &Path, schema: &Schema, require_pruned: bool) -> Vec<FieldError> {
    let root = schema.as_resource();
    let mut checker = Checker {
        validator: Validator::of_defaults(),
        require_pruned,
        errors: Vec::new(),
    };

    checker.check(
        path,
        &root,
        &Place {
            resource: &root,
            steps: Vec::new(),
            in_metadata: false,
        },
    );

    checker.errors
}

/// The place of a schema in the nearest resource around it.
#[derive(Clone)]
struct Place<'a> {
    resource: &'a Schema,
    steps: Vec<Step>,
    in_metadata: bool,
}

struct Checker {
    validator: Validator,
    require_pruned: bool,
    errors: Vec<FieldError>,
}

impl Checker {
    fn check(&mut self, path: &Path, schema: &Schema, place: &Place<'_>) {
        let own = Place {
            resource: schema,
            steps: Vec::new(),
            in_metadata: false,
        };

        let place = if schema.embedded_resource {
            &own
        } else {
            place
        };

        if let Some(default) = &schema.default {
            let is_resource = std::ptr::eq(schema, place.resource);
            if self.check_metadata(&path.child("default"), default, schema, place) {
                let path = path.child("default");
                let found = self.validator.validate(&path, default, schema);
                let found = if found.is_empty() {
                    evaluate::check_default(&path, default, schema, is_resource)
                } else {
                    found
                };

                self.errors.extend(found);
            }
        }

        if let Some(item) = schema.item() {
            let mut below = place.clone();
            below.steps.push(Step::Item);
            self.check(&path.child("items"), item, &below);
        }

        for (name, property) in &schema.properties {
            let mut below = place.clone();
            below.steps.push(Step::Key(name.clone()));
            below.in_metadata |= defaults::starts_metadata(schema, name);
            self.check(&path.child("properties").key(name), property, &below);
        }
    }

    /// Checks unknown fields and metadata of a default value. Reports whether the rest is worth a
    /// check.
    fn check_metadata(
        &mut self,
        path: &Path,
        default: &Value,
        schema: &Schema,
        place: &Place<'_>,
    ) -> bool {
        if place.in_metadata {
            let detail = metadata_mistake(default, place);
            let refused = detail.is_some();
            self.errors.extend(
                detail.map(|detail| FieldError::invalid(path, Shown::value(default), detail)),
            );
            return !refused;
        }

        if self.require_pruned {
            let mut pruned = default.clone();
            prune::prune(&mut pruned, Some(schema), schema.embedded_resource);
            if pruned != *default {
                let detail = "must not have unknown fields";
                self.errors
                    .push(FieldError::invalid(path, Shown::value(default), detail));
            }
        }

        if let Err(error) = embedded::coerce_below(path, &mut default.clone(), schema) {
            self.errors.push(*error);
            return false;
        }

        let found = embedded::validate(path, default, schema, schema.embedded_resource);
        let is_valid = found.is_empty();
        self.errors.extend(found);

        is_valid
    }
}

/// Puts a default value of metadata into an object, and reports what is wrong with the object's
/// metadata.
fn metadata_mistake(default: &Value, place: &Place<'_>) -> Option<String> {
    let mut object = defaults::surround(default.clone(), &place.steps);
    let fields = object.as_object_mut()?;
    fields.entry("kind").or_insert(json!("Validation"));
    fields.entry("apiVersion").or_insert(json!("validation/v1"));

    if let Err(error) = embedded::coerce(&mut object, place.resource, true) {
        return Some(format!("must result in valid metadata: {error}"));
    }

    let errors = embedded::validate(&Path::root(), &object, place.resource, true);
    (!errors.is_empty()).then(|| {
        format!(
            "must result in valid metadata: {}",
            field::aggregate(&errors)
        )
    })
}

//! The validation of an object of a version, in the order in which the API server reports errors.

use serde_json::Value;

use super::{correlate::Correlated, embedded, listtype, scale, version::CrdVersion};
use crate::apimachinery::{
    field::{ErrorKind, FieldError, Path, Shown},
    metadata::{self, Metadata},
    names,
};

impl CrdVersion {
    fn check_type(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for (field, expected) in [
            ("kind", self.kind().to_owned()),
            ("apiVersion", self.api_version()),
        ] {
            let found = object
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default();
            if found != expected {
                errors.push(FieldError::invalid_text(
                    Path::new(field),
                    found,
                    format!("must be {expected}"),
                ));
            }
        }

        errors
    }

    fn check_scale(&self, object: &Value, with_spec: bool, errors: &mut Vec<FieldError>) {
        let Some(places) = self.scale() else { return };
        if with_spec {
            scale::check_spec(places, object, errors);
        }
        scale::check_status(places, object, errors);
    }

    pub(super) fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = self.check_type(object);
        if errors.is_empty() {
            let path = Path::new("metadata");
            errors.extend(metadata::validate(
                Metadata::of(object),
                self.is_namespaced(),
                names::name_is_dns_subdomain,
                &path,
            ));

            errors.extend(self.validator.validate(&Path::root(), object, &self.schema));
            self.check_scale(object, true, &mut errors);
        }

        errors.extend(embedded::validate(
            &Path::root(),
            object,
            &self.schema,
            false,
        ));

        errors.extend(listtype::validate(&Path::root(), &self.schema, object));
        self.check_rules(object, None, errors).0
    }

    pub(super) fn validate_update(
        &self,
        object: &Value,
        old: &Value,
    ) -> (Vec<FieldError>, Vec<String>) {
        let change = Correlated::new(object, old, &self.schema);
        let (mut errors, is_typed) = self.check_metadata(object, old);
        if is_typed {
            errors.extend(
                self.validator
                    .validate_update(&Path::root(), change, &self.schema),
            );
            self.check_scale(object, true, &mut errors);
        }

        errors.extend(embedded::validate(
            &Path::root(),
            object,
            &self.schema,
            false,
        ));

        self.check_lists(object, old, &mut errors);
        self.check_rules(object, Some(old), errors)
    }

    /// Checks the metadata of an update and the type. Reports whether the type is right.
    fn check_metadata(&self, object: &Value, old: &Value) -> (Vec<FieldError>, bool) {
        let mut errors = metadata::validate_common(object, old, self.is_namespaced());
        let of_type = self.check_type(object);
        let is_typed = of_type.is_empty();
        errors.extend(of_type);

        if is_typed {
            let path = Path::new("metadata");
            errors.extend(metadata::validate_update(
                Metadata::of(object),
                Metadata::of(old),
                &path,
            ));
        }

        (errors, is_typed)
    }

    pub(super) fn validate_status_update(
        &self,
        object: &Value,
        old: &Value,
    ) -> (Vec<FieldError>, Vec<String>) {
        let (mut errors, is_typed) = self.check_metadata(object, old);
        if is_typed {
            if let (Some(status), Some(schema)) =
                (object.get("status"), self.schema.properties.get("status"))
            {
                let before = old.get("status").unwrap_or(&Value::Null);
                let change = Correlated::new(status, before, schema);
                errors.extend(
                    self.validator
                        .validate_update(&Path::new("status"), change, schema),
                );
            }

            self.check_scale(object, false, &mut errors);
        }

        self.check_lists(object, old, &mut errors);
        self.check_rules(object, Some(old), errors)
    }

    /// Checks lists of type set and map, unless the old object violates them already.
    fn check_lists(&self, object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
        if listtype::validate(&Path::root(), &self.schema, old).is_empty() {
            errors.extend(listtype::validate(&Path::root(), &self.schema, object));
        }
    }

    /// Checks the rules, unless errors before may keep them from making sense. Returns the errors
    /// and the warnings.
    fn check_rules(
        &self,
        object: &Value,
        old: Option<&Value>,
        mut errors: Vec<FieldError>,
    ) -> (Vec<FieldError>, Vec<String>) {
        if self.rules.is_empty() {
            return (errors, Vec::new());
        }

        let blocking = |error: &FieldError| {
            use ErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
            matches!(
                error.kind,
                NotSupported | Required | TooLong | TooMany | TypeInvalid
            )
        };

        if errors.iter().any(blocking) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            errors.push(FieldError::invalid(
                Path::root(),
                Shown::raw("null"),
                detail,
            ));

            return (errors, Vec::new());
        }

        let (found, warnings) = self.rules.check(object, old);
        errors.extend(found);
        (errors, warnings)
    }
}

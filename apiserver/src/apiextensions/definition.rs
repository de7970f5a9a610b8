//! Validation of CustomResourceDefinitions.

use serde_json::Value;

use super::{
    approval,
    internal::Internal,
    model::{Conversion, Definition, DefinitionStatus, Names, Spec, Version},
    options::Options,
    schema_rules, selectable,
    serving_rules::{check_columns, check_subresources},
    typed,
    types::VERSIONS_TYPE,
};
use crate::{
    apimachinery::{
        field::{FieldError, IMMUTABLE, Path, Shown},
        metadata::{self, Metadata},
        names,
    },
    golang,
};

/// Validates a new definition; `raw` is the object that it was decoded from.
pub fn validate(definition: &Definition, raw: &Value) -> Vec<FieldError> {
    let options = Options::for_create();
    let required = format!("{}.{}", definition.spec.names.plural, definition.spec.group);
    let rule = |name: &str, prefix: bool| {
        let mut errors = names::name_is_dns_subdomain(name, prefix);
        if name != required {
            errors.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        errors
    };

    let mut errors = metadata::validate(Metadata::of(raw), false, rule, &Path::new("metadata"));
    check_spec(definition, raw, options, &mut errors);
    check_rest(definition, None, &mut errors);

    errors
}

/// Validates an update of a definition. Rules that the old definition already violates are not
/// enforced on the new one.
pub fn validate_update(new: (&Definition, &Value), old: (&Definition, &Value)) -> Vec<FieldError> {
    let (definition, raw) = new;
    let options = Options::for_update(definition, old.0);
    let immutable_names = options.immutable_names;
    let mut errors = metadata_errors(raw, old.1);
    check_spec(definition, raw, options, &mut errors);

    let spec = &definition.spec;
    let before = &old.0.spec;
    let path = Path::new("spec");
    let mut same = |path: Path, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid_text(&path, new, IMMUTABLE));
        }
    };

    if immutable_names {
        same(path.child("scope"), &spec.scope, &before.scope);
        same(
            path.child("names").child("kind"),
            &spec.names.kind,
            &before.names.kind,
        );
    }

    same(path.child("group"), &spec.group, &before.group);
    same(
        path.child("names").child("plural"),
        &spec.names.plural,
        &before.names.plural,
    );

    check_rest(definition, Some(old.0), &mut errors);
    errors
}

/// Validates an update of the status of a definition.
pub fn validate_status_update(new: (&Definition, &Value), old: &Value) -> Vec<FieldError> {
    let mut errors = metadata_errors(new.1, old);
    check_status(&new.0.status, &mut errors);
    errors
}

fn metadata_errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = metadata::validate_common(new, old, false);
    errors.extend(metadata::validate_update(
        Metadata::of(new),
        Metadata::of(old),
        &Path::new("metadata"),
    ));

    errors
}

fn check_rest(definition: &Definition, old: Option<&Definition>, errors: &mut Vec<FieldError>) {
    check_status(&definition.status, errors);
    check_stored_versions(&definition.status, &definition.spec.versions, errors);
    approval::check(definition, old, errors);

    let preserved = old.is_some_and(|old| old.spec.preserve_unknown_fields);
    if definition.spec.preserve_unknown_fields && !preserved {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        let path = Path::new("spec").child("preserveUnknownFields");
        errors.push(FieldError::invalid(&path, Shown::raw("true"), detail));
    }
}

fn check_status(status: &DefinitionStatus, errors: &mut Vec<FieldError>) {
    check_names(
        &status.accepted_names,
        &Path::new("status").child("acceptedNames"),
        errors,
    );
}

fn check_stored_versions(
    status: &DefinitionStatus,
    versions: &[Version],
    errors: &mut Vec<FieldError>,
) {
    let path = Path::new("status").child("storedVersions");
    let stored = status.stored();
    if stored.is_empty() {
        let shown = if status.stored_versions.is_some() {
            "[]"
        } else {
            "null"
        };

        errors.push(FieldError::invalid(
            &path,
            Shown::raw(shown),
            "must have at least one stored version",
        ));

        return;
    }

    // As the real server does, a version counts once: of two with the same name the second one is
    // not stored.
    let mut rest: Vec<&str> = stored.iter().map(String::as_str).collect();

    for version in versions {
        let found = rest.contains(&version.name.as_str());
        if version.storage && !found {
            let detail = format!("must have the storage version {}", version.name);
            errors.push(FieldError::invalid(
                &path,
                Shown::value(&stored.to_vec().into()),
                detail,
            ));
        }

        rest.retain(|name| *name != version.name);
    }

    for (at, name) in stored
        .iter()
        .enumerate()
        .filter(|(_, name)| rest.contains(&name.as_str()))
    {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {name} and removes {name} from \
             status.storedVersions"
        );
        errors.push(FieldError::invalid_text(path.index(at), name, detail));
    }
}

fn check_spec(
    definition: &Definition,
    raw: &Value,
    mut options: Options,
    errors: &mut Vec<FieldError>,
) {
    let spec = &definition.spec;
    let path = Path::new("spec");
    let internal = Internal::of(spec, raw);
    check_group(&spec.group, &path.child("group"), errors);

    check_one_of(
        &path.child("scope"),
        &spec.scope,
        &["Cluster", "Namespaced"],
        errors,
    );

    options.require_structural |= !spec.preserve_unknown_fields;
    check_schemas_exist(spec, &options, &path, errors);

    if has_defaults(spec) {
        options.require_structural = true;
        if spec.preserve_unknown_fields {
            let detail = "must be false in order to use defaults in the schema";
            errors.push(FieldError::invalid(
                path.child("preserveUnknownFields"),
                Shown::raw("true"),
                detail,
            ));
        }
    }

    check_versions(spec, &internal, &options, &path, errors);
    check_required_names(&spec.names, &path.child("names"), errors);
    check_names(&spec.names, &path.child("names"), errors);

    if let Some(common) = internal.validation {
        let status = spec.versions.iter().any(Version::has_status);
        let first = spec
            .versions
            .first()
            .map(|version| version.name.as_str())
            .unwrap_or_default();
        let options = options.for_schema_of(first);

        schema_rules::check(
            common,
            internal.raw_schema,
            status,
            &options,
            &path.child("validation"),
            errors,
        );
    }

    check_subresources(internal.subresources, &path.child("subresources"), errors);
    check_columns(
        internal.columns,
        &path.child("additionalPrinterColumns"),
        errors,
    );

    if !internal.selectable.is_empty() {
        match internal.validation {
            None => {
                let detail = "may only be set when validations.schema is included";
                errors.push(FieldError::invalid_text(
                    path.child("selectableFields"),
                    "",
                    detail,
                ));
            }
            Some(validation) => {
                let allowed = options.allows_many_selectable_fields("");
                selectable::check(
                    internal.selectable,
                    validation.schema.as_ref(),
                    allowed,
                    &path,
                    errors,
                );
            }
        }
    }

    if let Some(conversion) = &spec.conversion {
        check_conversion(
            conversion,
            spec.preserve_unknown_fields,
            &path.child("conversion"),
            errors,
        );
    }
}

fn check_group(group: &str, path: &Path, errors: &mut Vec<FieldError>) {
    let details = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !details.is_empty() {
        errors.push(FieldError::invalid_text(path, group, details.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid_text(
            path,
            group,
            "should be a domain with at least one dot",
        ));
    }
}

fn check_one_of(path: &Path, value: &str, allowed: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !allowed.contains(&value) {
        errors.push(FieldError::not_supported(path, Shown::text(value), allowed));
    }
}

fn check_schemas_exist(spec: &Spec, options: &Options, path: &Path, errors: &mut Vec<FieldError>) {
    for (at, version) in spec.versions.iter().enumerate() {
        let path = path
            .child("versions")
            .index(at)
            .child("schema")
            .child("openAPIV3Schema");

        if version.schema().is_some() {
            continue;
        }

        if options.require_schema {
            errors.push(FieldError::required(&path, ""));
        } else if version.served && !spec.preserve_unknown_fields {
            errors.push(FieldError::required(
                &path,
                "because otherwise all fields are pruned",
            ));
        }
    }
}

fn has_defaults(spec: &Spec) -> bool {
    spec.versions
        .iter()
        .filter_map(Version::schema)
        .any(|schema| schema.any(&|schema| schema.default.is_some()))
}

fn check_versions(
    spec: &Spec,
    internal: &Internal<'_>,
    options: &Options,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let path = path.child("versions");
    for (at, version) in spec.versions.iter().enumerate() {
        let path = path.index(at);
        let details = names::dns1035_label(&version.name);
        if !details.is_empty() {
            errors.push(FieldError::invalid_text(
                path.child("name"),
                &version.name,
                details.join(","),
            ));
        }

        check_version(version, internal, (at, options), &path, errors);
    }

    let mut report = |detail: &str| {
        let shown = Shown::raw(typed::internal_json(&internal.versions, &VERSIONS_TYPE));
        errors.push(FieldError::invalid(&path, shown, detail));
    };
    let mut seen = std::collections::BTreeSet::new();

    if !spec
        .versions
        .iter()
        .all(|version| seen.insert(&version.name))
    {
        report("must contain unique version names");
    }

    if spec
        .versions
        .iter()
        .filter(|version| version.storage)
        .count()
        != 1
    {
        report("must have exactly one version marked as storage version");
    }

    if let Some(first) = spec.versions.first() {
        let details = names::dns1035_label(&first.name);
        if !first.name.is_empty() && !details.is_empty() {
            errors.push(FieldError::invalid_text(
                Path::new("spec.version"),
                &first.name,
                details.join(","),
            ));
        }
    }
}

fn check_version(
    version: &Version,
    internal: &Internal<'_>,
    (at, options): (usize, &Options),
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if let Some(warning) = &version.deprecation_warning {
        for detail in deprecation_details(version.deprecated, warning) {
            errors.push(FieldError::invalid_text(
                path.child("deprecationWarning"),
                warning,
                detail,
            ));
        }
    }

    let own_schema = version
        .schema
        .as_ref()
        .filter(|_| internal.validation.is_none());
    if let Some(validation) = own_schema {
        let raw = internal.versions[at]
            .pointer("/schema/openAPIV3Schema")
            .unwrap_or(&Value::Null);
        let options = options.for_schema_of(&version.name);

        schema_rules::check(
            validation,
            raw,
            version.has_status(),
            &options,
            &path.child("schema"),
            errors,
        );
    }

    if internal.subresources.is_none() {
        check_subresources(
            version.subresources.as_ref(),
            &path.child("subresources"),
            errors,
        );
    }

    if !internal.columns_are_common {
        let path = path.child("additionalPrinterColumns");
        check_columns(&version.additional_printer_columns, &path, errors);
    }

    if internal.selectable_are_common || version.selectable_fields.is_empty() {
        return;
    }

    match own_schema {
        None => {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.push(FieldError::invalid_text(
                path.child("selectableFields"),
                "",
                detail,
            ));
        }
        Some(validation) => {
            let allowed = options.allows_many_selectable_fields(&version.name);
            selectable::check(
                &version.selectable_fields,
                validation.schema.as_ref(),
                allowed,
                path,
                errors,
            );
        }
    }
}

fn deprecation_details(deprecated: bool, warning: &str) -> Vec<String> {
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }

    let mut details = Vec::new();
    if warning.len() > 256 {
        details.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        details.push("must not be an empty string".to_owned());
    }

    if let Some((at, _)) = warning
        .char_indices()
        .find(|(_, c)| !golang::is_printable(*c))
    {
        let rule = "must only contain printable UTF-8 characters";
        details.push(format!(
            "{rule}; non-printable character found at index {at}"
        ));
    }

    details
}

fn check_required_names(names: &Names, path: &Path, errors: &mut Vec<FieldError>) {
    let fields = [
        ("plural", &names.plural),
        ("singular", &names.singular),
        ("kind", &names.kind),
        ("listKind", &names.list_kind),
    ];
    for (field, _) in fields.into_iter().filter(|(_, name)| name.is_empty()) {
        errors.push(FieldError::required(path.child(field), ""));
    }
}

fn check_names(names: &Names, path: &Path, errors: &mut Vec<FieldError>) {
    let label = |text: &str| names::dns1035_label(text).join(",");
    for (field, name) in [("plural", &names.plural), ("singular", &names.singular)] {
        let detail = label(name);
        if !name.is_empty() && !detail.is_empty() {
            errors.push(FieldError::invalid_text(path.child(field), name, detail));
        }
    }

    for (field, name) in [("kind", &names.kind), ("listKind", &names.list_kind)] {
        let detail = label(&name.to_lowercase());
        if !name.is_empty() && !detail.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {detail}");
            errors.push(FieldError::invalid_text(path.child(field), name, detail));
        }
    }

    check_labels(&path.child("shortNames"), &names.short_names, errors);
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid_text(
            path.child("listKind"),
            &names.list_kind,
            detail,
        ));
    }

    check_labels(&path.child("categories"), &names.categories, errors);
}

fn check_labels(path: &Path, labels: &[String], errors: &mut Vec<FieldError>) {
    for (at, label) in labels.iter().enumerate() {
        let details = names::dns1035_label(label);
        if !details.is_empty() {
            errors.push(FieldError::invalid_text(
                path.index(at),
                label,
                details.join(","),
            ));
        }
    }
}

fn check_conversion(
    conversion: &Conversion,
    preserve: bool,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if conversion.strategy != "None" && preserve {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid_text(
            path.child("strategy"),
            &conversion.strategy,
            detail,
        ));
    }

    check_one_of(
        &path.child("strategy"),
        &conversion.strategy,
        &["None", "Webhook"],
        errors,
    );

    if let Some(webhook) = conversion
        .webhook
        .as_ref()
        .filter(|_| conversion.strategy != "Webhook")
    {
        let detail = "should not be set when strategy is not set to Webhook";
        if webhook.client_config.is_some() {
            errors.push(FieldError::forbidden(
                path.child("webhookClientConfig"),
                detail,
            ));
        }

        if webhook
            .conversion_review_versions
            .as_ref()
            .is_some_and(|versions| !versions.is_empty())
        {
            errors.push(FieldError::forbidden(
                path.child("conversionReviewVersions"),
                detail,
            ));
        }
    }
}

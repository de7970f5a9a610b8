//! Rules in a schema: their form, and the mistakes that compiling them finds.

use super::{
    compile::{Mistakes, Types},
    costs::Costs,
};
use crate::{
    apiextensions::{
        schema::{Rule, Schema},
        selectable, structural,
    },
    apimachinery::{
        field::{FieldError, Path, Shown},
        json,
    },
};

/// Checks the form of the rules of a schema.
pub fn check_form(schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    for (at, rule) in schema.validations.iter().enumerate() {
        check_rule_form(
            rule,
            schema,
            &path.child("x-kubernetes-validations").index(at),
            errors,
        );
    }
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

fn check_rule_form(rule: &Rule, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    const REASONS: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];

    let message = path.child("message");
    if rule.rule.trim().is_empty() {
        errors.push(FieldError::required(
            path.child("rule"),
            "rule is not specified",
        ));
    } else if !rule.message.is_empty() && rule.message.trim().is_empty() {
        errors.push(FieldError::invalid_text(
            &message,
            &rule.message,
            "must be non-empty if specified",
        ));
    } else if has_line_breaks(rule.message.trim()) {
        errors.push(FieldError::invalid_text(
            &message,
            &rule.message,
            "must not contain line breaks",
        ));
    } else if has_line_breaks(rule.rule.trim()) && rule.message.trim().is_empty() {
        errors.push(FieldError::required(
            &message,
            "message must be specified if rule contains line breaks",
        ));
    }

    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(
            path.child("messageExpression"),
            detail,
        ));
    }

    if let Some(reason) = rule
        .reason
        .as_ref()
        .filter(|reason| !REASONS.contains(&reason.as_str()))
    {
        errors.push(FieldError::not_supported(
            path.child("reason"),
            Shown::text(reason),
            &REASONS,
        ));
    }

    let field = path.child("fieldPath");
    if !rule.field_path.is_empty() && rule.field_path.trim().is_empty() {
        errors.push(FieldError::invalid_text(
            &field,
            &rule.field_path,
            "must be non-empty if specified",
        ));
    }

    if has_line_breaks(&rule.field_path) {
        errors.push(FieldError::invalid_text(
            &field,
            &rule.field_path,
            "must not contain line breaks",
        ));
    }

    let is_known = || {
        structural::unsupported(schema).is_some()
            || selectable::resolve(&rule.field_path, schema, true).is_ok()
    };
    if !rule.field_path.is_empty() && !is_known() {
        errors.push(FieldError::invalid_text(
            &field,
            &rule.field_path,
            "must be a valid path",
        ));
    }
}

/// Returns a rule as the real server shows it.
fn shown(rule: &Rule) -> Shown {
    let text = |text: &str| json::quote(text);

    let reason = rule
        .reason
        .as_ref()
        .map_or("null".to_owned(), |reason| text(reason));
    let optional = rule
        .optional_old_self
        .map_or("null".to_owned(), |flag| flag.to_string());

    Shown::raw(format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\
         \"OptionalOldSelf\":{optional}}}",
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        text(&rule.field_path)
    ))
}

/// The place of rules in a schema.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The path of the schema.
    pub path: &'a Path,
    /// Reports that the schema is that of a resource.
    pub is_resource: bool,
    /// The nearest place above whose values have no old values.
    pub uncorrelated: Option<&'a Path>,
    /// The most values of the schema that limits of the schemas around it allow.
    pub most_values: Option<u64>,
    /// Reports that the costs of single rules are limited.
    pub limits_costs: bool,
}

/// Compiles the rules of a schema, and reports mistakes and costs.
pub fn check(schema: &Schema, site: &Site<'_>, costs: &mut Costs, errors: &mut Vec<FieldError>) {
    let path = site.path.child("x-kubernetes-validations");
    let Some(types) = Types::of(schema, site.is_resource) else {
        let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable \
                      to convert structural schema to CEL declarations";
        errors.push(FieldError::internal(&path, detail));
        return;
    };
    let most_values = site.most_values.unwrap_or_else(|| types.most_in_request());

    for (at, rule) in schema.validations.iter().enumerate() {
        let path = path.index(at);
        let compiled = types.compile_rule(rule, schema);
        let (cost, uses_old_self) = match &compiled {
            Ok(compiled) => (compiled.cost, compiled.uses_old_self),
            Err(mistakes) => (mistakes.cost, mistakes.uses_old_self),
        };

        costs.add(
            &path.child("rule"),
            "rule",
            cost.saturating_mul(most_values),
            site.limits_costs,
            errors,
        );

        match compiled {
            Ok(compiled) if compiled.message.is_some() => {
                let path = path.child("messageExpression");
                costs.add(
                    &path,
                    "messageExpression",
                    compiled.message_cost,
                    site.limits_costs,
                    errors,
                );
            }
            Ok(_) => {}
            Err(Mistakes {
                rule: in_rule,
                message,
                ..
            }) => {
                for (field, detail) in [("rule", in_rule), ("messageExpression", message)] {
                    errors.extend(
                        detail.map(|detail| {
                            FieldError::invalid(path.child(field), shown(rule), detail)
                        }),
                    );
                }
            }
        }

        check_old_self(rule, uses_old_self, site, &path, errors);
    }
}

/// Checks that a rule uses the old value only where there is one.
fn check_old_self(
    rule: &Rule,
    uses_old_self: bool,
    site: &Site<'_>,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if let Some(uncorrelated) = site.uncorrelated.filter(|_| uses_old_self) {
        let detail = format!(
            "oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
        );
        errors.push(FieldError::invalid_text(
            path.child("rule"),
            &rule.rule,
            detail,
        ));
    }

    if let Some(flag) = rule.optional_old_self.filter(|_| !uses_old_self) {
        let detail = "may not be set if oldSelf is not used in rule";
        errors.push(FieldError::invalid(
            path.child("optionalOldSelf"),
            Shown::raw(flag.to_string()),
            detail,
        ));
    }
}

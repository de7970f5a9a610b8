//! Validation and defaults of ValidatingAdmissionPolicies and their bindings.
//!
//! The metadata is validated elsewhere. Updates are validated like creations: kube-apiserver lets
//! expressions stand that it accepted before, and this server knows only one version of the
//! language.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    cel::{Environment, Program, Type, types},
    policies::GROUP,
    validation_rules,
};
use crate::{
    apimachinery::{
        field::{ErrorList, FieldError, Shown},
        names,
        selector::objects as label_selector,
        status::Status,
    },
    authz::objects::text,
    cel::words::is_word,
};

const MAX_ANNOTATIONS: usize = 20;
const MAX_ANNOTATION_EXPRESSION: usize = 5 * 1024;
const MAX_CONDITIONS: usize = 64;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// Sets the defaults of a policy.
pub fn default_policy(policy: &mut Value) {
    let Some(spec) = policy.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };

    spec.entry("failurePolicy").or_insert_with(|| json!("Fail"));
    if let Some(constraints) = spec.get_mut("matchConstraints") {
        validation_rules::default(constraints);
    }
}

/// Sets the defaults of a binding.
pub fn default_binding(binding: &mut Value) {
    if let Some(resources) = binding.pointer_mut("/spec/matchResources") {
        validation_rules::default(resources);
    }
}

/// Checks a policy that has its defaults.
///
/// # Errors
/// `Invalid` with a cause per field.
pub fn validate_policy(policy: &Value) -> Result<(), Status> {
    let spec = &policy["spec"];
    let mut check = Check {
        spec,
        has_params: !spec["paramKind"].is_null(),
        causes: Vec::new(),
    };

    check.failure_policy();
    check.param_kind();
    check.constraints();
    check.conditions();

    let environment = check.variables();
    check.validations(&environment, text(policy, &["metadata", "name"]));

    let name = text(policy, &["metadata", "name"]);
    if check.causes.is_empty() {
        return Ok(());
    }

    Err(Status::invalid(
        GROUP,
        "ValidatingAdmissionPolicy",
        name,
        check.causes,
    ))
}

/// Checks a binding that has its defaults.
///
/// # Errors
/// `Invalid` with a cause per field.
pub fn validate_binding(binding: &Value) -> Result<(), Status> {
    let spec = &binding["spec"];
    let mut causes = Vec::new();
    match text(spec, &["policyName"]) {
        "" => causes.push(FieldError::required("spec.policyName", "")),
        name => {
            let errors = names::dns1123_subdomain(name).into_iter();
            causes.extend(
                errors.map(|error| FieldError::invalid("spec.policyName", json!(name), &error)),
            );
        }
    }

    param_ref(&spec["paramRef"], &mut causes);
    if !spec["matchResources"].is_null() {
        validation_rules::match_resources(
            "spec.matchResources",
            &spec["matchResources"],
            &mut causes,
        );
    }

    validation_rules::actions(
        "spec.validationActions",
        &spec["validationActions"],
        &mut causes,
    );

    if causes.is_empty() {
        return Ok(());
    }

    let name = text(binding, &["metadata", "name"]);
    Err(Status::invalid(
        GROUP,
        "ValidatingAdmissionPolicyBinding",
        name,
        causes,
    ))
}

fn param_ref(reference: &Value, causes: &mut Vec<FieldError>) {
    if reference.is_null() {
        return;
    }

    let at = "spec.paramRef";
    let name = text(reference, &["name"]);
    let selector = &reference["selector"];
    let exclusive = "name and selector are mutually exclusive";

    for error in names::path_segment_name(name) {
        causes.push(FieldError::invalid(
            format!("{at}.name"),
            json!(name),
            &error,
        ));
    }

    if !name.is_empty() && !selector.is_null() {
        causes.push(FieldError::forbidden(format!("{at}.name"), exclusive));
    }

    if !selector.is_null() {
        let mut errors = ErrorList::default();
        label_selector::validate(selector, &format!("{at}.selector"), &mut errors);
        causes.extend(errors.into_list());
        if !name.is_empty() {
            causes.push(FieldError::forbidden(format!("{at}.selector"), exclusive));
        }
    }

    if name.is_empty() && selector.is_null() {
        causes.push(FieldError::required(
            at,
            "one of name or selector must be specified",
        ));
    }

    match text(reference, &["parameterNotFoundAction"]) {
        "" => causes.push(FieldError::required(
            format!("{at}.parameterNotFoundAction"),
            "",
        )),
        "Deny" | "Allow" => {}
        other => {
            let field = format!("{at}.parameterNotFoundAction");
            causes.push(FieldError::not_supported(
                field,
                json!(other),
                &["Deny", "Allow"],
            ));
        }
    }
}

struct Check<'a> {
    spec: &'a Value,
    has_params: bool,
    causes: Vec<FieldError>,
}

impl Check<'_> {
    fn list(&self, field: &str) -> Vec<(String, Value)> {
        let items = self.spec[field].as_array().into_iter().flatten();
        items
            .enumerate()
            .map(|(index, item)| (format!("spec.{field}[{index}]"), item.clone()))
            .collect()
    }

    /// Compiles an expression, and records what is wrong with it.
    fn compile(
        &mut self,
        field: String,
        shown: &str,
        compile: impl FnOnce() -> Result<Program, String>,
    ) -> Option<Program> {
        compile()
            .map_err(|detail| {
                self.causes
                    .push(FieldError::invalid(field, json!(shown), &detail));
            })
            .ok()
    }

    fn failure_policy(&mut self) {
        match text(self.spec, &["failurePolicy"]) {
            "Fail" | "Ignore" => {}
            other => {
                self.causes.push(FieldError::not_supported(
                    "spec.failurePolicy",
                    json!(other),
                    &["Fail", "Ignore"],
                ));
            }
        }
    }

    fn param_kind(&mut self) {
        let kind = &self.spec["paramKind"];
        if !kind.is_null() {
            validation_rules::param_kind("spec.paramKind", kind, &mut self.causes);
        }
    }

    fn constraints(&mut self) {
        let constraints = &self.spec["matchConstraints"];
        if constraints.is_null() {
            self.causes
                .push(FieldError::required("spec.matchConstraints", ""));
            return;
        }

        validation_rules::match_resources("spec.matchConstraints", constraints, &mut self.causes);
        if constraints["resourceRules"]
            .as_array()
            .is_none_or(Vec::is_empty)
        {
            self.causes.push(FieldError::required(
                "spec.matchConstraints.resourceRules",
                "",
            ));
        }
    }

    fn conditions(&mut self) {
        let environment = Environment::of_policy(self.has_params, true);
        let conditions = self.list("matchConditions");
        if conditions.len() > MAX_CONDITIONS {
            let limit = i64::try_from(MAX_CONDITIONS).unwrap_or(i64::MAX);
            self.causes.push(FieldError::too_many(
                "spec.matchConditions",
                conditions.len(),
                limit,
            ));
        }

        let mut known = BTreeSet::new();
        for (at, condition) in conditions {
            let field = format!("{at}.expression");
            match text(&condition, &["expression"]).trim() {
                "" => self.causes.push(FieldError::required(field, "")),
                expression => {
                    self.compile(field, expression, || {
                        Program::compile(expression, &environment, &[Type::Bool])
                    });
                }
            }

            let name = text(&condition, &["name"]).to_owned();
            let field = format!("{at}.name");
            if name.is_empty() {
                self.causes.push(FieldError::required(field, ""));
                continue;
            }

            let errors = names::qualified_name(&name).into_iter();
            self.causes.extend(
                errors.map(|error| FieldError::invalid(field.clone(), json!(name), &error)),
            );

            if !known.insert(name.clone()) {
                self.causes.push(FieldError::duplicate(field, json!(name)));
            }
        }
    }

    /// Checks the variables; each may use those before it.
    fn variables(&mut self) -> Environment {
        let plain = Environment::of_policy(self.has_params, true);
        let variables = self.list("variables");
        if variables.is_empty() {
            return plain;
        }

        let mut known: BTreeMap<String, Type> = BTreeMap::new();
        for (at, variable) in variables {
            let name = text(&variable, &["name"]);
            if name.trim().is_empty() {
                self.causes.push(FieldError::required(
                    format!("{at}.name"),
                    "name is not specified",
                ));
            } else if !is_identifier(name) {
                let detail = "must be a valid CEL identifier";
                self.causes.push(FieldError::invalid(
                    format!("{at}.name"),
                    json!(name),
                    detail,
                ));
            }

            let expression = text(&variable, &["expression"]);
            let field = format!("{at}.expression");
            if expression.trim().is_empty() {
                self.causes
                    .push(FieldError::required(field, "expression is not specified"));
                continue;
            }

            let environment = plain.clone().with_variables(known.clone());
            let program = self.compile(field, expression, || {
                Program::compile_any(expression, &environment)
            });

            known.insert(
                name.to_owned(),
                program.map_or(Type::Dyn, |program| types::of_variable(program.output())),
            );
        }

        plain.with_variables(known)
    }

    fn validations(&mut self, environment: &Environment, policy: &str) {
        let validations = self.list("validations");
        let annotations = self.list("auditAnnotations");
        if validations.is_empty() && annotations.is_empty() {
            let detail = "validations or auditAnnotations must contain at least one item";
            self.causes
                .push(FieldError::required("spec.validations", detail));
            self.causes
                .push(FieldError::required("spec.auditAnnotations", detail));
            return;
        }

        for (at, validation) in validations {
            self.validation(&at, &validation, environment);
        }

        if annotations.len() > MAX_ANNOTATIONS {
            let detail = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
            self.causes.push(FieldError::invalid(
                "spec.auditAnnotations",
                Shown::value(&self.spec["auditAnnotations"]),
                &detail,
            ));
        }

        let mut known = BTreeSet::new();
        for (at, annotation) in annotations {
            self.annotation(&at, &annotation, environment, policy);
            let key = text(&annotation, &["key"]).to_owned();
            if !known.insert(key.clone()) {
                self.causes
                    .push(FieldError::duplicate(format!("{at}.key"), json!(key)));
            }
        }
    }

    fn validation(&mut self, at: &str, validation: &Value, environment: &Environment) {
        let expression = text(validation, &["expression"]);
        let field = format!("{at}.expression");
        if expression.trim().is_empty() {
            self.causes
                .push(FieldError::required(field, "expression is not specified"));
        } else {
            self.compile(field, expression, || {
                Program::compile(expression, environment, &[Type::Bool])
            });
        }

        self.message_expression(at, text(validation, &["messageExpression"]), environment);
        let message = text(validation, &["message"]);
        if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            self.causes.push(FieldError::invalid(
                format!("{at}.message"),
                json!(message),
                detail,
            ));
        } else if message.trim().contains(['\n', '\r']) {
            self.causes.push(FieldError::invalid(
                format!("{at}.message"),
                json!(message),
                "must not contain line breaks",
            ));
        }

        let reason = &validation["reason"];
        if let Some(given) = reason.as_str().filter(|given| !REASONS.contains(given)) {
            self.causes.push(FieldError::not_supported(
                format!("{at}.reason"),
                json!(given),
                &REASONS,
            ));
        }
    }

    fn message_expression(&mut self, at: &str, expression: &str, environment: &Environment) {
        let field = format!("{at}.messageExpression");
        if expression.is_empty() {
            return;
        }

        if expression.trim().is_empty() {
            self.causes.push(FieldError::invalid(
                field,
                json!(expression),
                "must be non-empty if specified",
            ));
            return;
        }

        let messages = environment.without_authorizer();
        self.compile(field, expression, || {
            Program::compile(expression, &messages, &[Type::String])
        });
    }

    fn annotation(
        &mut self,
        at: &str,
        annotation: &Value,
        environment: &Environment,
        policy: &str,
    ) {
        let key = format!("{policy}/{}", text(annotation, &["key"]));
        let errors = names::qualified_name(&key).into_iter();
        self.causes.extend(
            errors.map(|error| FieldError::invalid(format!("{at}.key"), json!(key), &error)),
        );

        let given = text(annotation, &["valueExpression"]);
        let expression = given.trim();
        let field = format!("{at}.valueExpression");

        if expression.is_empty() {
            self.causes.push(FieldError::required(
                field,
                "valueExpression is not specified",
            ));
        } else if expression.len() > MAX_ANNOTATION_EXPRESSION {
            let detail = format!("must not exceed {MAX_ANNOTATION_EXPRESSION} bytes in length");
            self.causes.push(FieldError::required(field, &detail));
        } else {
            let outputs = [Type::String, Type::Null];
            self.compile(field, given, || {
                Program::compile(expression, environment, &outputs)
            });
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|char| char.is_ascii_alphanumeric() || char == '_')
        && !is_word(name)
}

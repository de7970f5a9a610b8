//! A compiled ValidatingAdmissionPolicy, and its evaluation for one request and one parameter.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cel::{
    Environment, Patterns, Program, ResourceCheck, Scope, Type, Val, Variable, types,
};
use crate::{
    apimachinery::field::aggregate,
    authn::user::User,
    authz::{objects::text, rbac::Rbac},
};

/// The longest message of a `messageExpression`, and the longest value of an annotation.
const MAX_MESSAGE: usize = 5 * 1024;

type Compiled = Result<Program, String>;

/// A policy with its expressions.
#[derive(Debug)]
pub(super) struct Policy {
    pub object: Value,
    pub name: String,
    pub ignores_failures: bool,
    conditions: Vec<(String, Compiled)>,
    variables: Vec<(String, Compiled)>,
    validations: Vec<Validation>,
    annotations: Vec<(String, Compiled)>,
    /// The compiled patterns of `matches`.
    patterns: Patterns,
}

#[derive(Debug)]
struct Validation {
    expression: String,
    program: Compiled,
    message: String,
    message_program: Option<Compiled>,
    reason: String,
}

/// The result of a policy for a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Failed validations by their index.
    pub failures: Vec<Failure>,
    /// Annotations for the audit log.
    pub annotations: Vec<(String, String)>,
    /// Annotations that could not be computed; they deny whatever the binding says.
    pub annotation_errors: Vec<String>,
}

/// A failed validation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Failure {
    pub index: usize,
    pub message: String,
    pub reason: String,
}

/// The inputs of an evaluation, as variables.
pub(super) struct Inputs<'a> {
    pub names: BTreeMap<&'static str, Val>,
    pub namespace: Val,
    pub authorizer: &'a Rbac<'a>,
    pub user: &'a User,
    /// The resource of the request, for `authorizer.requestResource`.
    pub check: ResourceCheck,
}

impl Inputs<'_> {
    fn scope<'s>(&'s self, namespace: &Val, patterns: &'s Patterns) -> Scope<'s> {
        let mut names = self.names.clone();
        names.insert("namespaceObject", namespace.clone());
        Scope::new(names, patterns)
    }

    fn scope_with_authorizer<'s>(&'s self, namespace: &Val, patterns: &'s Patterns) -> Scope<'s> {
        self.scope(namespace, patterns).with_authorizer(
            self.authorizer,
            self.user,
            self.check.clone(),
        )
    }
}

impl Policy {
    /// Compiles a policy. Expressions that do not compile fail when they are evaluated.
    pub fn compile(object: &Value) -> Self {
        let spec = &object["spec"];
        let has_params = !spec["paramKind"].is_null();
        let plain = Environment::of_policy(has_params, true);
        let (variables, environment) = compile_variables(spec, &plain);
        let messages =
            Environment::of_policy(has_params, false).with_variables(environment.variable_types());
        let list = |field: &str| {
            spec[field]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
                .iter()
        };

        let conditions = list("matchConditions").map(|condition| {
            let expression = text(condition, &["expression"]);
            (
                expression.to_owned(),
                Program::compile(expression, &plain, &[Type::Bool]),
            )
        });

        let validations = list("validations")
            .map(|validation| Validation::compile(validation, &environment, &messages));
        let annotations = list("auditAnnotations").map(|annotation| {
            let expression = text(annotation, &["valueExpression"]).trim();
            let program = Program::compile(expression, &environment, &[Type::String, Type::Null]);
            (text(annotation, &["key"]).to_owned(), program)
        });

        Self {
            object: object.clone(),
            name: text(object, &["metadata", "name"]).to_owned(),
            ignores_failures: text(spec, &["failurePolicy"]) == "Ignore",
            conditions: conditions.collect(),
            variables,
            validations: validations.collect(),
            annotations: annotations.collect(),
            patterns: Patterns::default(),
        }
    }

    /// Evaluates the policy.
    pub fn evaluate(&self, inputs: &Inputs<'_>) -> Verdict {
        match self.matches(inputs) {
            Ok(true) => {}
            Ok(false) => return Verdict::default(),
            Err(_) if self.ignores_failures => return Verdict::default(),
            Err(message) => {
                let failures = vec![Failure {
                    index: 0,
                    message,
                    reason: String::new(),
                }];

                return Verdict {
                    failures,
                    ..Verdict::default()
                };
            }
        }

        let variables = self.usable_variables();
        let scope = inputs
            .scope_with_authorizer(&inputs.namespace, &self.patterns)
            .with_variables(&variables);
        let message_scope = inputs
            .scope(&inputs.namespace, &self.patterns)
            .with_variables(&variables);
        let mut verdict = Verdict::default();

        for (index, validation) in self.validations.iter().enumerate() {
            verdict
                .failures
                .extend(self.validate(index, validation, &scope, &message_scope));
        }

        for (key, program) in &self.annotations {
            self.annotate(key, program, &message_scope, &mut verdict);
        }

        verdict
    }

    fn usable_variables(&self) -> Vec<Variable<'_>> {
        let usable = self.variables.iter();
        usable
            .filter_map(|(name, program)| {
                Some(Variable {
                    name,
                    expression: program.as_ref().ok()?.expression(),
                })
            })
            .collect()
    }

    /// Reports whether all match conditions hold. One that is false outweighs the errors of others.
    fn matches(&self, inputs: &Inputs<'_>) -> Result<bool, String> {
        // The namespace is not looked up for them.
        let scope = inputs.scope_with_authorizer(&Val::Null, &self.patterns);
        let mut errors = Vec::new();

        for (expression, program) in &self.conditions {
            match evaluate(expression, program, &scope) {
                Ok(Val::Bool(false)) => return Ok(false),
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }

        if errors.is_empty() {
            Ok(true)
        } else {
            Err(aggregate(&errors))
        }
    }

    fn validate(
        &self,
        index: usize,
        validation: &Validation,
        scope: &Scope<'_>,
        message_scope: &Scope<'_>,
    ) -> Option<Failure> {
        match evaluate(&validation.expression, &validation.program, scope) {
            Ok(Val::Bool(true)) => None,
            Err(_) if self.ignores_failures => None,
            Err(message) => Some(Failure {
                index,
                message,
                reason: String::new(),
            }),
            Ok(_) => Some(Failure {
                index,
                message: validation.failure_message(message_scope),
                reason: validation.reason.clone(),
            }),
        }
    }

    fn annotate(&self, key: &str, program: &Compiled, scope: &Scope<'_>, verdict: &mut Verdict) {
        let expression = program.as_ref().map(Program::source).unwrap_or_default();
        match evaluate(expression, program, scope) {
            Ok(Val::String(value)) if !value.trim().is_empty() => {
                verdict.annotations.push((key.to_owned(), value.trim().to_owned()));
            }
            Ok(Val::String(_) | Val::Null) => {}
            Ok(other) => verdict.annotation_errors.push(format!(
                "valueExpression '{expression}' resulted in unsupported return type: {}. Return type must be either \
                 string or null.",
                other.type_name()
            )),
            Err(error) if !self.ignores_failures => verdict.annotation_errors.push(error),
            Err(_) => {}
        }
    }
}

/// Compiles variables in their order; each may use those before it.
fn compile_variables(spec: &Value, plain: &Environment) -> (Vec<(String, Compiled)>, Environment) {
    let mut known: BTreeMap<String, Type> = BTreeMap::new();
    let mut variables = Vec::new();
    let defined = spec["variables"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for variable in defined {
        let environment = plain.clone().with_variables(known.clone());
        let name = text(variable, &["name"]).to_owned();
        let program = Program::compile_any(text(variable, &["expression"]), &environment);
        known.insert(
            name.clone(),
            program
                .as_ref()
                .map_or(Type::Dyn, |program| types::of_variable(program.output())),
        );

        variables.push((name, program));
    }

    (variables, plain.clone().with_variables(known))
}

impl Validation {
    fn compile(validation: &Value, environment: &Environment, messages: &Environment) -> Self {
        let expression = text(validation, &["expression"]);
        let message_expression = text(validation, &["messageExpression"]);
        let compile_message =
            |expression: &str| Program::compile(expression, messages, &[Type::String]);
        let reason = match text(validation, &["reason"]) {
            "" => "Invalid",
            reason => reason,
        };

        Self {
            expression: expression.to_owned(),
            program: Program::compile(expression, environment, &[Type::Bool]),
            message: text(validation, &["message"]).trim().to_owned(),
            message_program: Some(message_expression)
                .filter(|it| !it.trim().is_empty())
                .map(compile_message),
            reason: reason.to_owned(),
        }
    }

    /// Returns the message of the expression if it has one line and is not empty, else the constant
    /// one, else one that shows the expression.
    fn failure_message(&self, scope: &Scope<'_>) -> String {
        let computed = match &self.message_program {
            Some(Ok(program)) => match program.evaluate(scope) {
                Ok(Val::String(message)) => message.trim().to_owned(),
                _ => String::new(),
            },
            _ => String::new(),
        };
        if !computed.is_empty() && computed.len() <= MAX_MESSAGE && !computed.contains('\n') {
            return computed;
        }

        if self.message.is_empty() {
            format!("failed expression: {}", self.expression.trim())
        } else {
            self.message.clone()
        }
    }
}

fn evaluate(expression: &str, program: &Compiled, scope: &Scope<'_>) -> Result<Val, String> {
    let program = program
        .as_ref()
        .map_err(|error| format!("compilation error: {error}"))?;
    program
        .evaluate(scope)
        .map_err(|error| format!("expression '{expression}' resulted in error: {error}"))
}

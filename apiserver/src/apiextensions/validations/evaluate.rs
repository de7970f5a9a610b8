//! Evaluates the rules of a schema for an object.

use std::sync::Arc;

use serde_json::Value;

use super::{
    compile::{Compiled, Types},
    schema_types::with_metadata,
    values,
};
use crate::{
    apiextensions::{
        correlate::{Correlated, old_item},
        schema::{Rule, Schema},
    },
    apimachinery::field::{ErrorKind, FieldError, Path, Shown},
    cel::{
        eval::{Evaluation, LIMIT_EXCEEDED},
        value::Val,
    },
    golang::pattern::Patterns,
};

/// The most steps of all rules for one object, as the real server bounds their cost.
const BUDGET: u64 = 10_000_000;
const MAX_MESSAGE: usize = 5 * 1024;

/// The compiled rules of a schema and of the schemas inside of it.
#[derive(Debug, Default)]
pub struct Rules {
    root: Option<Node>,
    patterns: Patterns,
}

/// The rules of a schema.
#[derive(Debug)]
struct Node {
    schema: Arc<Schema>,
    rules: Vec<Compiled>,
    item: Option<Box<Node>>,
    additional: Option<Box<Node>>,
    properties: Vec<(String, Node)>,
}

impl Node {
    fn compile(schema: &Schema, is_resource: bool) -> Option<Self> {
        if !schema.has_rules() {
            return None;
        }

        // Types cover all that is inside, so they are made where a rule needs them only.
        let types = (!schema.validations.is_empty())
            .then(|| Types::of(schema, is_resource))
            .flatten();
        let compiled = schema
            .validations
            .iter()
            .filter_map(|rule| types.as_ref()?.compile_rule(rule, schema).ok());
        let child = |schema: &Schema| Self::compile(schema, schema.embedded_resource);
        let properties = schema
            .properties
            .iter()
            .filter_map(|(name, property)| Some((name.clone(), child(property)?)));

        Some(Self {
            rules: compiled.collect(),
            item: schema.item().and_then(child).map(Box::new),
            additional: schema.additional().and_then(child).map(Box::new),
            properties: properties.collect(),
            schema: Arc::new(if is_resource {
                with_metadata(schema)
            } else {
                schema.clone()
            }),
        })
    }
}

impl Rules {
    /// Compiles the rules of the schema of a resource. Rules with mistakes are left out:
    /// definitions with such rules are not admitted.
    pub fn compile(schema: &Schema) -> Self {
        Self {
            root: Node::compile(schema, true),
            patterns: Patterns::default(),
        }
    }

    /// Reports whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Checks an object, and with its old state an update. Returns errors, and as warnings those of
    /// unchanged values.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> (Vec<FieldError>, Vec<String>) {
        let mut checker = Checker {
            patterns: &self.patterns,
            budget: BUDGET,
            errors: Vec::new(),
            warnings: Vec::new(),
        };

        if let Some(root) = &self.root {
            let change = old.map(|old| Correlated::new(object, old, &root.schema));
            let ratchet = Ratchet {
                current: change,
                parent: None,
            };
            checker.check(root, &Path::root(), object, old, ratchet);
        }

        (checker.errors, checker.warnings)
    }
}

/// Checks a default value against the rules of its schema: as unchanged, and as new.
pub fn check_default(
    path: &Path,
    default: &Value,
    schema: &Schema,
    is_resource: bool,
) -> Vec<FieldError> {
    let Some(node) = Node::compile(schema, is_resource) else {
        return Vec::new();
    };
    let patterns = Patterns::default();
    let mut checker = Checker {
        patterns: &patterns,
        budget: BUDGET,
        errors: Vec::new(),
        warnings: Vec::new(),
    };

    checker.check(&node, path, default, Some(default), Ratchet::default());
    if checker.errors.is_empty() {
        checker.check(&node, path, default, None, Ratchet::default());
    }

    checker.errors
}

/// The old values by which errors of a value may be spared on an update.
#[derive(Clone, Copy, Default)]
struct Ratchet<'a> {
    /// The value beside its old value.
    current: Option<Correlated<'a>>,
    /// The nearest value above that has an old value.
    parent: Option<Correlated<'a>>,
}

impl<'a> Ratchet<'a> {
    fn is_unchanged(&self) -> bool {
        self.current
            .or(self.parent)
            .is_some_and(|change| change.is_unchanged())
    }

    fn below(self, next: impl Fn(&Correlated<'a>) -> Option<Correlated<'a>>) -> Self {
        match self.current {
            Some(current) => Self {
                current: next(&current),
                parent: Some(current),
            },
            None => self,
        }
    }

    fn key(self, field: &str) -> Self {
        if self.current.is_some() && self.parent.is_none() && matches!(field, "apiVersion" | "kind")
        {
            return Self::default();
        }
        self.below(|current| current.key(field))
    }
}

struct Checker<'a> {
    patterns: &'a Patterns,
    budget: u64,
    errors: Vec<FieldError>,
    warnings: Vec<String>,
}

/// Says that no further rules are checked.
struct Stop;

impl Checker<'_> {
    fn check(
        &mut self,
        node: &Node,
        path: &Path,
        value: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
    ) {
        // A spent budget has left its error; there is nothing more to do then.
        let _ = self.visit(node, path, value, old, ratchet);
    }

    fn visit(
        &mut self,
        node: &Node,
        path: &Path,
        value: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stop> {
        if value.is_null() {
            return Ok(());
        }

        let old = old.filter(|old| !old.is_null());
        self.check_rules(node, path, value, old, ratchet)?;

        match value {
            Value::Array(items) => {
                let Some(item_node) = &node.item else {
                    return Ok(());
                };
                let old_items = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);

                for (at, item) in items.iter().enumerate() {
                    let old = old_item(&node.schema, old_items, item);
                    self.visit(
                        item_node,
                        &path.index(at),
                        item,
                        old,
                        ratchet.below(|c| c.index(at)),
                    )?;
                }
            }
            Value::Object(fields) => {
                let mut sorted: Vec<_> = fields.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);

                let old_field = |key: &str| old.and_then(|old| old.get(key));
                for (key, item) in &sorted {
                    if let Some(additional) = &node.additional {
                        self.visit(
                            additional,
                            &path.key(key),
                            item,
                            old_field(key),
                            ratchet.key(key),
                        )?;
                    }
                }

                for (key, item) in sorted {
                    if let Some((_, property)) =
                        node.properties.iter().find(|(name, _)| name == key)
                    {
                        self.visit(
                            property,
                            &path.child(key),
                            item,
                            old_field(key),
                            ratchet.key(key),
                        )?;
                    }
                }
            }
            _ => {}
        }

        Ok(())
    }

    fn check_rules(
        &mut self,
        node: &Node,
        path: &Path,
        value: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stop> {
        if node.rules.is_empty() {
            return Ok(());
        }

        let this = values::from_json(value, Some(&node.schema), false);
        let old = old.map(|old| values::from_json(old, Some(&node.schema), false));
        for compiled in &node.rules {
            let optional = compiled.rule.optional_old_self == Some(true);
            if compiled.uses_old_self && old.is_none() && !optional {
                continue;
            }

            let mut variables = vec![("self", this.clone())];
            match (&old, optional) {
                (old, true) => {
                    variables.push(("oldSelf", Val::Optional(old.clone().map(Arc::new))));
                }
                (Some(old), false) => variables.push(("oldSelf", old.clone())),
                (None, false) => {}
            }

            self.check_rule(node, compiled, path, value, (&variables, ratchet))?;
        }

        Ok(())
    }

    fn check_rule(
        &mut self,
        node: &Node,
        compiled: &Compiled,
        path: &Path,
        value: &Value,
        (variables, ratchet): (&[(&str, Val)], Ratchet<'_>),
    ) -> Result<(), Stop> {
        let kind = Shown::text(&node.schema.kind);
        if self.budget == 0 {
            return self.exhausted(path, kind);
        }

        let mut evaluation = Evaluation::new(self.patterns, variables);
        let result = evaluation.eval(&compiled.expr);
        let name = rule_name(&compiled.rule);

        match self.budget.checked_sub(evaluation.steps()) {
            Some(rest) => self.budget = rest,
            None => return self.exhausted(path, kind),
        }

        match result {
            Ok(Val::Bool(true)) => return Ok(()),
            Ok(_) => {}
            Err(error) if error == LIMIT_EXCEEDED => {
                let detail = "no further validation rules will be run due to call cost exceeds limit for rule";
                self.errors.push(FieldError::invalid(
                    path,
                    kind,
                    format!("'{error}': {detail}: {name}"),
                ));
                return Err(Stop);
            }
            Err(error) if error.starts_with("no such overload") => {
                let detail = "call arguments did not match a supported operator, function or macro signature for rule";
                self.errors.push(FieldError::invalid(
                    path,
                    kind,
                    format!("'{error}': {detail}: {name}"),
                ));
                return Ok(());
            }
            Err(error) => {
                self.errors.push(FieldError::invalid(
                    path,
                    kind,
                    format!("{error} evaluating rule: {name}"),
                ));
                return Ok(());
            }
        }

        let detail = self.message(compiled, variables);
        let shown = match node.schema.kind.as_str() {
            "object" | "array" => Shown::omitted(),
            _ => Shown::value(value),
        };
        let place = compiled
            .field_path
            .as_ref()
            .map_or_else(|| path.clone(), |field| path.child(field));

        let error = failure(&place, shown, detail, compiled.rule.reason.as_deref());
        if !compiled.uses_old_self && ratchet.is_unchanged() {
            self.warnings.push(error.to_string());
        } else {
            self.errors.push(error);
        }

        Ok(())
    }

    fn exhausted(&mut self, path: &Path, shown: Shown) -> Result<(), Stop> {
        let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
        self.errors.push(FieldError::invalid(path, shown, detail));
        Err(Stop)
    }

    /// Returns the message of a failed rule: that of its expression if this gives a usable one.
    fn message(&mut self, compiled: &Compiled, variables: &[(&str, Val)]) -> String {
        if let Some(expr) = &compiled.message {
            let mut evaluation = Evaluation::new(self.patterns, variables);
            let result = evaluation.eval(expr);
            self.budget = self.budget.saturating_sub(evaluation.steps());

            if let Ok(Val::String(text)) = result {
                let text = text.trim();
                if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') {
                    return text.to_owned();
                }
            }
        }

        let rule = &compiled.rule;
        if rule.message.is_empty() {
            format!("failed rule: {}", rule_name(rule))
        } else {
            rule.message.trim().to_owned()
        }
    }
}

fn rule_name(rule: &Rule) -> String {
    let text = if rule.message.is_empty() {
        &rule.rule
    } else {
        &rule.message
    };

    text.trim().to_owned()
}

fn failure(path: &Path, shown: Shown, detail: String, reason: Option<&str>) -> FieldError {
    match reason {
        Some("FieldValueForbidden") => FieldError::forbidden(path, detail),
        Some("FieldValueRequired") => FieldError::required(path, detail),
        Some("FieldValueDuplicate") => FieldError {
            kind: ErrorKind::Duplicate,
            ..FieldError::duplicate(path, shown)
        },
        _ => FieldError::invalid(path, shown, detail),
    }
}

//! Compiles rules.

use std::sync::Arc;

use super::{schema_types::type_of, sizes::Sizes};
use crate::{
    apiextensions::{
        schema::{Rule, Schema},
        selectable,
    },
    cel::{self, ast::Expr, cost::estimate, types::Type},
};

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The rule as it is written.
    pub rule: Rule,
    /// The expression of the rule.
    pub expr: Arc<Expr>,
    /// The expression of its message.
    pub message: Option<Arc<Expr>>,
    /// Reports that the rule uses `oldSelf`.
    pub uses_old_self: bool,
    /// The path of the field that the rule is about, in its normal form.
    pub field_path: Option<String>,
    /// The greatest cost of the rule.
    pub cost: u64,
    /// The greatest cost of its message.
    pub message_cost: u64,
}

/// A mistake in a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mistakes {
    /// The mistake in the rule itself.
    pub rule: Option<String>,
    /// The mistake in the expression of its message.
    pub message: Option<String>,
    /// Reports that the rule uses `oldSelf`, as far as it was compiled.
    pub uses_old_self: bool,
    /// The greatest cost of the rule, if only its message has a mistake.
    pub cost: u64,
}

/// The types that the rules of a schema are checked with.
#[derive(Debug)]
pub struct Types {
    this: Type,
    sizes: Sizes,
}

impl Types {
    /// Returns the types of a schema; none if rules cannot see its values.
    pub fn of(schema: &Schema, is_resource: bool) -> Option<Self> {
        let this = type_of(schema, is_resource, "selfType")?;
        Some(Self {
            this,
            sizes: Sizes::of(schema, is_resource)?,
        })
    }

    /// Returns how many values of the schema fit into a request.
    pub fn most_in_request(&self) -> u64 {
        self.sizes.most_in_request()
    }

    fn variables(&self, optional_old: bool) -> [(&'static str, Type); 2] {
        let old = if optional_old {
            Type::Optional(Arc::new(self.this.clone()))
        } else {
            self.this.clone()
        };

        [("self", self.this.clone()), ("oldSelf", old)]
    }

    /// Compiles a rule of a schema.
    ///
    /// # Errors
    /// Returns the mistakes in the rule.
    pub fn compile_rule(&self, rule: &Rule, schema: &Schema) -> Result<Compiled, Mistakes> {
        let optional_old = rule.optional_old_self == Some(true);
        let in_rule = |text: String| Mistakes {
            rule: Some(text),
            ..Mistakes::default()
        };
        let variables = self.variables(optional_old);
        let (expr, checked) = cel::compile(&rule.rule, &variables).map_err(in_rule)?;
        if checked.ty != Type::Bool {
            return Err(in_rule("cel expression must evaluate to a bool".to_owned()));
        }

        let uses_old_self = checked.used.contains("oldSelf");
        let cost = estimate(&expr, &checked.types, &self.sizes);
        let in_message = |text: String| Mistakes {
            rule: None,
            message: Some(text),
            uses_old_self,
            cost,
        };

        let mut message = None;
        let mut message_cost = 0;
        if !rule.message_expression.is_empty() {
            let compiled = cel::compile(&rule.message_expression, &variables);
            let (expr, checked) =
                compiled.map_err(|text| in_message(format!("messageExpression {text}")))?;
            if checked.ty != Type::String {
                return Err(in_message(
                    "messageExpression must evaluate to a string".to_owned(),
                ));
            }

            message_cost = estimate(&expr, &checked.types, &self.sizes);
            message = Some(Arc::new(expr));
        }

        let resolved = selectable::resolve(&rule.field_path, schema, true).ok();
        let field_path = resolved
            .filter(|_| !rule.field_path.is_empty())
            .map(|(path, _)| path.to_string());

        Ok(Compiled {
            rule: rule.clone(),
            expr: Arc::new(expr),
            message,
            uses_old_self,
            field_path,
            cost,
            message_cost,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::Value;

    use super::*;

    /// `go run ./costs` in `scripts/kinds-data` made the table with the code of kube-apiserver
    /// 1.36.
    #[test]
    fn costs_are_those_of_the_real_server() {
        let table: Value =
            serde_json::from_str(include_str!("../../../tests/crd/costs.json")).expect("table");
        let schema = Schema::deserialize(&table["schema"]).expect("schema");
        let types = Types::of(&schema, false).expect("types");
        let mut failures = Vec::new();
        let costs = table["costs"].as_array().expect("costs");
        for case in costs {
            let text = case[0].as_str().expect("rule");
            let rule = Rule {
                rule: text.to_owned(),
                ..Rule::default()
            };
            let found = types
                .compile_rule(&rule, &schema)
                .map(|compiled| compiled.cost);
            if found != Ok(case[1].as_u64().expect("cost")) {
                failures.push(format!("{text}\n  here: {found:?}\n  real: {}", case[1]));
            }
        }
        assert!(costs.len() > 150);
        assert!(
            failures.is_empty(),
            "{} differ:\n{}",
            failures.len(),
            failures.join("\n")
        );
    }
}

//! Compiles rules.

use std::sync::Arc;

use super::schema_types::type_of;
use crate::cel;
use crate::cel::ast::Expr;
use crate::cel::types::Type;
use crate::crd::schema::{Rule, Schema};
use crate::crd::selectable;

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
}

/// The types that the rules of a schema are checked with.
#[derive(Debug)]
pub struct Types {
    this: Type,
}

impl Types {
    /// Returns the types of a schema; none if rules cannot see its values.
    pub fn of(schema: &Schema, is_resource: bool) -> Option<Self> {
        type_of(schema, is_resource, "selfType").map(|this| Self { this })
    }

    fn variables(&self, optional_old: bool) -> [(&'static str, Type); 2] {
        let old = if optional_old { Type::Optional(Arc::new(self.this.clone())) } else { self.this.clone() };
        [("self", self.this.clone()), ("oldSelf", old)]
    }

    /// Compiles a rule of a schema.
    ///
    /// # Errors
    /// Returns the mistakes in the rule.
    pub fn compile_rule(&self, rule: &Rule, schema: &Schema) -> Result<Compiled, Mistakes> {
        let optional_old = rule.optional_old_self == Some(true);
        let in_rule = |text: String| Mistakes { rule: Some(text), ..Mistakes::default() };
        let variables = self.variables(optional_old);
        let (expr, checked) = cel::compile(&rule.rule, &variables).map_err(in_rule)?;
        if checked.ty != Type::Bool {
            return Err(in_rule("cel expression must evaluate to a bool".to_owned()));
        }
        let uses_old_self = checked.used.contains("oldSelf");
        let in_message = |text: String| Mistakes { rule: None, message: Some(text), uses_old_self };
        let mut message = None;
        if !rule.message_expression.is_empty() {
            let compiled = cel::compile(&rule.message_expression, &variables);
            let (expr, checked) = compiled.map_err(|text| in_message(format!("messageExpression {text}")))?;
            if checked.ty != Type::String {
                return Err(in_message("messageExpression must evaluate to a string".to_owned()));
            }
            message = Some(Arc::new(expr));
        }
        let resolved = selectable::resolve(&rule.field_path, schema, true).ok();
        let field_path = resolved.filter(|_| !rule.field_path.is_empty()).map(|(path, _)| path.to_string());
        Ok(Compiled { rule: rule.clone(), expr: Arc::new(expr), message, uses_old_self, field_path })
    }
}

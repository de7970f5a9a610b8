//! The interpreter of expressions.

use std::sync::Arc;

use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, MapExpr, SelectExpr, operators},
    objects::Map,
};

use super::{
    authorizer, calls, environment,
    error::EvalError,
    functions,
    macros::{self, Kind, Macro},
    operators as operations,
    scope::Scope,
    values::{self, Value},
};

/// Evaluates an expression.
pub(super) fn evaluate(expression: &IdedExpr, scope: &Scope<'_>) -> Result<Value, EvalError> {
    Evaluation { scope, locals: Vec::new() }.expression(expression)
}

type Local = (String, Result<Value, EvalError>);

struct Evaluation<'s, 'a> {
    scope: &'s Scope<'a>,
    /// The variables of comprehensions, the innermost last. That which collects may be an error.
    locals: Vec<Local>,
}

impl Evaluation<'_, '_> {
    fn expression(&mut self, expression: &IdedExpr) -> Result<Value, EvalError> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(literal_value(literal)),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (index, element) in list.elements.iter().enumerate() {
                    let value = self.expression(element)?;
                    match values::as_optional(&value).filter(|_| list.optional_indices.contains(&index)) {
                        Some(inner) => items.extend(inner.cloned()),
                        None => items.push(value),
                    }
                }
                Ok(Value::List(Arc::new(items)))
            }
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            // The checker refuses them.
            Expr::Struct(_) | Expr::Unspecified => Err(EvalError::NoSuchOverload),
        }
    }

    /// Evaluates a variable of the policy, unless it was before.
    fn variable(&self, name: &str) -> Result<Value, EvalError> {
        let variable = self.scope.variable(name).ok_or_else(|| EvalError::NoSuchKey(name.to_owned()))?;
        if let Some(known) = self.scope.computed(variable) {
            return known;
        }
        let value = evaluate(variable.expression, self.scope)
            .map_err(|error| EvalError::Message(format!("composited variable {name:?} fails to evaluate: {error}")));
        self.scope.keep(variable, value.clone());
        value
    }

    fn ident(&self, name: &str) -> Result<Value, EvalError> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return value.clone();
        }
        let value = self.scope.name(name);
        value.cloned().ok_or_else(|| EvalError::Message(format!("no such attribute(s): {name}")))
    }

    fn is_local(&self, name: &str) -> bool {
        self.locals.iter().any(|(local, _)| local == name)
    }

    fn select(&mut self, select: &SelectExpr) -> Result<Value, EvalError> {
        if let Expr::Ident(name) = &select.operand.expr
            && !self.is_local(name)
        {
            if environment::is_request_resource(select) {
                return self.ident("authorizer.requestResource");
            }
            if name == "variables" {
                let value = self.variable(&select.field)?;
                return Ok(if select.test { Value::Bool(true) } else { value });
            }
        }
        let operand = self.expression(&select.operand)?;
        let key = values::string(select.field.as_str());
        if select.test {
            let is_there = match values::as_optional(&operand) {
                Some(inner) => inner.is_some_and(|inner| operations::index(inner, &key).is_ok()),
                None => matches!(&operand, Value::Map(_)) && operations::index(&operand, &key).is_ok(),
            };
            return Ok(Value::Bool(is_there));
        }
        match &operand {
            Value::List(_) => Err(EvalError::NoSuchKey(select.field.clone())),
            operand => operations::index(operand, &key),
        }
    }

    fn map(&mut self, map: &MapExpr) -> Result<Value, EvalError> {
        let mut entries = std::collections::HashMap::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(EvalError::NoSuchOverload) };
            let key = self.expression(&entry.key)?;
            let key = values::as_key(&key).ok_or_else(|| EvalError::Message("unsupported key type".to_owned()))?;
            let value = self.expression(&entry.value)?;
            let value = match values::as_optional(&value).filter(|_| entry.optional) {
                Some(inner) => inner.cloned(),
                None => Some(value),
            };
            if let Some(value) = value {
                entries.insert(key, value);
            }
        }
        Ok(Value::Map(Map { map: Arc::new(entries) }))
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Result<Value, EvalError> {
        let items: Vec<Value> = match self.expression(&comprehension.iter_range)? {
            Value::List(items) => items.to_vec(),
            Value::Map(map) => {
                // The order of keys is not defined; by their text it is at least the same each time.
                let mut keys: Vec<Value> = map.map.keys().map(values::from_key).collect();
                keys.sort_by_key(|key| format!("{key:?}"));
                keys
            }
            other => {
                return Err(EvalError::Message(format!("got '{}', expected iterable type", go_type(&other))));
            }
        };
        let collected = self.expression(&comprehension.accu_init);
        let depth = self.locals.len();
        self.locals.push((comprehension.accu_var.clone(), collected));
        for item in items {
            self.locals.truncate(depth + 1);
            self.locals.push((comprehension.iter_var.clone(), Ok(item)));
            if self.expression(&comprehension.loop_cond) == Ok(Value::Bool(false)) {
                break;
            }
            let collected = self.expression(&comprehension.loop_step);
            self.locals[depth].1 = collected;
        }
        self.locals.truncate(depth + 1);
        let result = self.expression(&comprehension.result);
        self.locals.truncate(depth);
        result
    }

    fn call(&mut self, call: &CallExpr) -> Result<Value, EvalError> {
        let Some(target) = &call.target else { return self.global_call(call) };
        if let Expr::Ident(prefix) = &target.expr
            && functions::is_namespace(prefix)
            && !self.is_local(prefix)
        {
            let arguments = self.arguments(&call.args)?;
            return calls::namespaced(self.scope, prefix, &call.func_name, arguments);
        }
        let target = self.expression(target)?;
        if let Some(call) = macros::of_call(call) {
            return self.unexpanded(&call, &target);
        }
        if let Some(optional) = values::as_optional(&target) {
            return self.optional_call(call, optional);
        }
        let arguments = self.arguments(&call.args)?;
        if let Some(result) = authorizer::call(self.scope, &target, &call.func_name, &arguments) {
            return result;
        }
        calls::member(self.scope, target, &call.func_name, arguments)
    }

    /// Evaluates a macro that the parser did not expand.
    fn unexpanded(&mut self, call: &Macro<'_>, target: &Value) -> Result<Value, EvalError> {
        let depth = self.locals.len();
        let result = match (call.kind, target) {
            (Kind::OptMap | Kind::OptFlatMap, target) => match values::as_optional(target) {
                None => Err(EvalError::NoSuchOverload),
                Some(None) => Ok(values::optional(None)),
                Some(Some(inner)) => {
                    self.locals.push((call.variables[0].to_owned(), Ok(inner.clone())));
                    let result = self.expression(call.body);
                    if call.kind == Kind::OptMap { result.map(|value| values::optional(Some(value))) } else { result }
                }
            },
            (_, Value::List(items)) => {
                let items = items.iter().enumerate();
                self.pairs(call, items.map(|(index, item)| (Value::Int(index as i64), item.clone())).collect())
            }
            (_, Value::Map(map)) => {
                let mut pairs: Vec<(Value, Value)> =
                    map.map.iter().map(|(key, value)| (values::from_key(key), value.clone())).collect();
                pairs.sort_by_key(|(key, _)| format!("{key:?}"));
                self.pairs(call, pairs)
            }
            (_, other) => Err(EvalError::Message(format!("unsupported comprehension range type: {}", go_type(other)))),
        };
        self.locals.truncate(depth);
        result
    }

    /// Evaluates a macro with two variables.
    fn pairs(&mut self, call: &Macro<'_>, pairs: Vec<(Value, Value)>) -> Result<Value, EvalError> {
        let depth = self.locals.len();
        let mut results = Vec::new();
        for (key, value) in pairs {
            self.locals.truncate(depth);
            self.locals.push((call.variables[0].to_owned(), Ok(key.clone())));
            self.locals.push((call.variables[1].to_owned(), Ok(value)));
            if let Some(filter) = call.filter {
                match self.expression(filter)? {
                    Value::Bool(true) => {}
                    Value::Bool(false) => continue,
                    _ => return Err(EvalError::NoSuchOverload),
                }
            }
            results.push((key, self.expression(call.body)));
        }
        let decide = |decisive: bool| {
            let mut results = results.iter().map(|(_, result)| result);
            if results.clone().any(|result| *result == Ok(Value::Bool(decisive))) {
                return Ok(Value::Bool(decisive));
            }
            let error = results.find_map(|result| match result {
                Ok(Value::Bool(_)) => None,
                Ok(_) => Some(EvalError::NoSuchOverload),
                Err(error) => Some(error.clone()),
            });
            error.map_or(Ok(Value::Bool(!decisive)), Err)
        };
        match call.kind {
            Kind::All => decide(false),
            Kind::Exists => decide(true),
            Kind::ExistsOne => {
                let results = results.into_iter().map(|(_, result)| result).collect::<Result<Vec<_>, _>>()?;
                Ok(Value::Bool(results.iter().filter(|result| **result == Value::Bool(true)).count() == 1))
            }
            Kind::TransformMap => {
                let entries = results.into_iter().map(|(key, result)| {
                    let key = values::as_key(&key).ok_or(EvalError::NoSuchOverload)?;
                    Ok((key, result?))
                });
                Ok(Value::Map(Map { map: Arc::new(entries.collect::<Result<_, EvalError>>()?) }))
            }
            _ => {
                let items = results.into_iter().map(|(_, result)| result).collect::<Result<Vec<_>, _>>()?;
                Ok(Value::List(Arc::new(items)))
            }
        }
    }

    /// Calls a function of an optional, whose arguments are evaluated only if they are needed.
    fn optional_call(&mut self, call: &CallExpr, optional: Option<&Value>) -> Result<Value, EvalError> {
        match (call.func_name.as_str(), call.args.as_slice(), optional) {
            ("hasValue", [], optional) => Ok(Value::Bool(optional.is_some())),
            ("value" | "orValue", _, Some(value)) => Ok(value.clone()),
            ("value", [], None) => Err(EvalError::Message("optional.none() dereference".to_owned())),
            ("or", [_], Some(value)) => Ok(values::optional(Some(value.clone()))),
            ("or" | "orValue", [other], None) => self.expression(other),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn arguments(&mut self, arguments: &[IdedExpr]) -> Result<Vec<Value>, EvalError> {
        arguments.iter().map(|argument| self.expression(argument)).collect()
    }

    fn global_call(&mut self, call: &CallExpr) -> Result<Value, EvalError> {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_OR, [first, second]) => self.logic(first, second, true),
            (operators::LOGICAL_AND, [first, second]) => self.logic(first, second, false),
            (operators::CONDITIONAL, [condition, then, otherwise]) => match self.expression(condition)? {
                Value::Bool(true) => self.expression(then),
                Value::Bool(false) => self.expression(otherwise),
                _ => Err(EvalError::NoSuchOverload),
            },
            (operators::NOT_STRICTLY_FALSE, [condition]) => {
                Ok(Value::Bool(self.expression(condition) != Ok(Value::Bool(false))))
            }
            (operators::OPT_SELECT, [operand, field]) => {
                let operand = self.expression(operand)?;
                let field = self.expression(field)?;
                Ok(operations::optional_index(&operand, &field))
            }
            (name, arguments) => {
                let arguments = self.arguments(arguments)?;
                match operations::apply(name, &arguments) {
                    Some(result) => result,
                    None => calls::global(self.scope, name, arguments),
                }
            }
        }
    }

    /// Evaluates `||` if `decisive` is true, else `&&`. The decisive value of either side outweighs an error of the
    /// other.
    fn logic(&mut self, first: &IdedExpr, second: &IdedExpr, decisive: bool) -> Result<Value, EvalError> {
        let mut error = None;
        for side in [first, second] {
            match self.expression(side) {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => error = error.or(Some(EvalError::NoSuchOverload)),
                Err(found) => error = error.or(Some(found)),
            }
        }
        error.map_or(Ok(Value::Bool(!decisive)), Err)
    }
}

/// Returns the type of a value as the reference interpreter's errors name it.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::UInt(_) => "types.Uint",
        Value::Float(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        _ => "*types.Optional",
    }
}

fn literal_value(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(value) => Value::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Value::Bytes(Arc::new(value.inner().to_vec())),
        LiteralValue::Double(value) => Value::Float(*value.inner()),
        LiteralValue::Int(value) => Value::Int(*value.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(value) => values::string(value.inner()),
        LiteralValue::UInt(value) => Value::UInt(*value.inner()),
    }
}

//! Evaluates expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::{Comprehension, Expr, Literal, MacroKind, Node};
use super::convert::EvalError;
use super::declarations;
use super::functions;
use super::library;
use super::macros::State;
use super::value::Val;
use crate::golang::pattern::Patterns;

/// The most steps of one evaluation; kube-apiserver bounds the cost of a call at the same number.
///
/// See `PerCallLimit` in
/// <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/apis/cel/config.go>.
pub const CALL_LIMIT: u64 = 1_000_000;
/// The message of an evaluation that takes too many steps.
pub const LIMIT_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// Fields and functions of values that the caller of an evaluation defines.
pub trait Host {
    /// A field of such a value; None if the host knows no fields of it.
    fn field(&self, value: &Val, name: &str) -> Option<Evaluated>;

    /// Calls a method on its target, the first argument; None if that is no value of the host.
    fn call(&self, function: &str, args: &[Val]) -> Option<Evaluated>;
}

pub struct Evaluation<'a> {
    patterns: &'a Patterns,
    host: Option<&'a dyn Host>,
    globals: &'a [(&'a str, Val)],
    /// The variables of macros, the innermost last.
    locals: Vec<(&'a str, Val)>,
    steps: u64,
}

pub type Evaluated = Result<Val, EvalError>;

fn no_overload<T>() -> Result<T, EvalError> {
    Err("no such overload".to_owned())
}

impl<'a> Evaluation<'a> {
    /// Prepares an evaluation. Variables may have dotted names.
    pub fn new(patterns: &'a Patterns, globals: &'a [(&'a str, Val)]) -> Self {
        Self {
            patterns,
            host: None,
            globals,
            locals: Vec::new(),
            steps: 0,
        }
    }

    /// Adds the host of the values that the caller defines.
    #[must_use]
    pub fn with_host(mut self, host: &'a dyn Host) -> Self {
        self.host = Some(host);
        self
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    fn step(&mut self, cost: usize) -> Result<(), EvalError> {
        self.steps = self
            .steps
            .saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));

        if self.steps > CALL_LIMIT {
            Err(LIMIT_EXCEEDED.to_owned())
        } else {
            Ok(())
        }
    }

    /// Evaluates an expression, or fails with cel-go's message.
    pub fn eval(&mut self, expr: &'a Expr) -> Evaluated {
        self.step(1)?;

        match &expr.node {
            Node::Literal(literal) => Ok(constant(literal)),
            Node::Ident(name) => Ok(self
                .variable(name)
                .cloned()
                .unwrap_or_else(|| Val::Type(name.as_str().into()))),
            Node::Select {
                operand,
                field,
                optional,
            } => self.select(expr, operand, field, *optional),
            Node::Has { operand, field } => {
                let operand = self.eval(operand)?;
                self.has(&operand, field).map(Val::Bool)
            }
            Node::Call {
                function,
                target,
                args,
            } => self.call(function, target.as_deref(), args),
            Node::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());

                for (element, optional) in elements {
                    match self.eval(element)? {
                        Val::Optional(inner) if *optional => {
                            items.extend(inner.map(|value| (*value).clone()));
                        }
                        value => items.push(value),
                    }
                }

                Ok(Val::list(items))
            }
            Node::Map(entries) => self.map(entries),
            Node::Macro(comprehension) => self.comprehension(comprehension),
            // No environment declares message types, so the checker has refused them.
            Node::Message { .. } => no_overload(),
        }
    }

    fn variable(&self, name: &str) -> Option<&Val> {
        let local = self.locals.iter().rfind(|(declared, _)| *declared == name);
        local
            .or_else(|| self.globals.iter().find(|(declared, _)| *declared == name))
            .map(|(_, value)| value)
    }

    fn select(
        &mut self,
        expr: &'a Expr,
        operand: &'a Expr,
        field: &str,
        optional: bool,
    ) -> Evaluated {
        if let Some(root) = expr.root_name() {
            let is_local = self.locals.iter().any(|(declared, _)| *declared == root);
            if !is_local
                && let Some((_, value)) = self
                    .globals
                    .iter()
                    .find(|(declared, _)| expr.spells(declared))
            {
                return Ok(value.clone());
            }

            if self.variable(root).is_none() {
                return Ok(Val::Type(expr.qualified_name().unwrap_or_default().into()));
            }
        }

        match self.eval(operand)? {
            Val::Optional(None) => Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => {
                Ok(Val::Optional(self.field(&inner, field).ok().map(Arc::new)))
            }
            value if optional => Ok(Val::Optional(self.field(&value, field).ok().map(Arc::new))),
            value => self.field(&value, field),
        }
    }

    fn field(&self, value: &Val, field: &str) -> Evaluated {
        let found = match value {
            Val::Map(map) => functions::field(map, field).cloned(),
            Val::Foreign(..) => match self.host.and_then(|host| host.field(value, field)) {
                Some(found) => return found,
                None => None,
            },
            _ => None,
        };

        found.ok_or_else(|| format!("no such key: {field}"))
    }

    fn has(&self, operand: &Val, field: &str) -> Result<bool, EvalError> {
        match operand {
            Val::Map(map) => Ok(functions::field(map, field).is_some()),
            Val::Optional(Some(inner)) => self.has(inner, field),
            Val::Foreign(..) => self.field(operand, field).map(|_| true),
            _ => Ok(false),
        }
    }

    fn call(&mut self, function: &str, target: Option<&'a Expr>, args: &'a [Expr]) -> Evaluated {
        match (function, args) {
            ("_&&_", [left, right]) => return self.logical(left, right, false),
            ("_||_", [left, right]) => return self.logical(left, right, true),
            ("_?_:_", [condition, then, otherwise]) => {
                return match self.eval(condition)? {
                    Val::Bool(true) => self.eval(then),
                    Val::Bool(false) => self.eval(otherwise),
                    _ => no_overload(),
                };
            }
            ("or" | "orValue", [otherwise]) => {
                let Some(target) = target else {
                    return no_overload();
                };
                return match (self.eval(target)?, function) {
                    (Val::Optional(Some(inner)), "orValue") => Ok((*inner).clone()),
                    (Val::Optional(None), _) => self.eval(otherwise),
                    (found @ Val::Optional(_), _) => Ok(found),
                    _ => no_overload(),
                };
            }
            _ => {}
        }

        let qualified = target
            .and_then(Expr::qualified_name)
            .map(|prefix| format!("{prefix}.{function}"))
            .filter(|name| declarations::overloads(name).is_some());

        let mut values = Vec::with_capacity(args.len() + 1);
        if let (Some(target), None) = (target, &qualified) {
            values.push(self.eval(target)?);
        }

        for arg in args {
            values.push(self.eval(arg)?);
        }

        let is_method = target.is_some() && qualified.is_none();
        let name = qualified.as_deref().unwrap_or(function);

        self.step(functions::cost(&values))?;

        if let Some(result) = functions::call(name, is_method, &values, self.patterns) {
            return result;
        }

        if let (Some(host), Some(Val::Foreign(..))) = (self.host, values.first())
            && let Some(result) = host.call(name, &values)
        {
            return result;
        }

        library::call(name, is_method, &values)
    }

    /// Evaluates `&&` or `||`: the operand that decides hides an error of the other, on either side.
    fn logical(&mut self, left: &'a Expr, right: &'a Expr, decisive: bool) -> Evaluated {
        let mut error = None;

        for side in [left, right] {
            match self.eval(side) {
                Ok(Val::Bool(flag)) if flag == decisive => return Ok(Val::Bool(flag)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => error = error.or(Some("no such overload".to_owned())),
                Err(found) => error = error.or(Some(found)),
            }
        }

        error.map_or(Ok(Val::Bool(!decisive)), Err)
    }

    fn map(&mut self, entries: &'a [(Expr, Expr, bool)]) -> Evaluated {
        let mut map = BTreeMap::new();

        for (key, value, optional) in entries {
            let key = self.eval(key)?.as_key().ok_or("unsupported key type")?;

            match self.eval(value)? {
                Val::Optional(None) if *optional => {}
                Val::Optional(Some(inner)) if *optional => drop(map.insert(key, (*inner).clone())),
                value => {
                    if map.insert(key, value).is_some() {
                        return Err("Failed with repeated key".to_owned());
                    }
                }
            }
        }

        Ok(Val::Map(Arc::new(map)))
    }

    fn comprehension(&mut self, comprehension: &'a Comprehension) -> Evaluated {
        let range = self.eval(&comprehension.range)?;

        if matches!(
            comprehension.kind,
            MacroKind::OptMap | MacroKind::OptFlatMap
        ) {
            return self.optional(comprehension, range);
        }

        let has_pairs = comprehension.vars.len() == 2;
        let elements: Vec<Vec<Val>> = match &range {
            Val::List(list) if has_pairs => {
                let numbered = list.items.iter().enumerate();
                numbered
                    .map(|(at, item)| vec![Val::Int(i64::try_from(at).unwrap_or(0)), item.clone()])
                    .collect()
            }
            Val::List(list) => list.items.iter().map(|item| vec![item.clone()]).collect(),
            Val::Map(map) if has_pairs => map
                .iter()
                .map(|(key, value)| vec![key.value(), value.clone()])
                .collect(),
            Val::Map(map) => map.keys().map(|key| vec![key.value()]).collect(),
            other if has_pairs => {
                return Err(format!(
                    "unsupported comprehension range type: {}",
                    other.go_type()
                ));
            }
            other => return Err(format!("got '{}', expected iterable type", other.go_type())),
        };

        let mut state = State::new(comprehension.kind);
        for values in elements {
            self.step(1)?;

            let outer = self.locals.len();
            let names = comprehension.vars.iter().map(String::as_str);
            self.locals.extend(names.zip(values.iter().cloned()));

            let result = self.visit(comprehension, &values, &mut state);
            self.locals.truncate(outer);

            if result? {
                break;
            }
        }

        state.finish()
    }

    fn optional(&mut self, comprehension: &'a Comprehension, range: Val) -> Evaluated {
        let (Val::Optional(inner), Some(body)) = (range, comprehension.args.last()) else {
            return no_overload();
        };

        let Some(inner) = inner else {
            return Ok(Val::Optional(None));
        };

        let outer = self.locals.len();
        self.locals.extend(
            comprehension
                .vars
                .first()
                .map(|name| (name.as_str(), (*inner).clone())),
        );

        let result = self.eval(body);
        self.locals.truncate(outer);

        let flat = comprehension.kind == MacroKind::OptFlatMap;
        result.map(|value| {
            if flat {
                value
            } else {
                Val::Optional(Some(Arc::new(value)))
            }
        })
    }

    /// Evaluates the body for one element. Returns true if the remaining elements do not matter.
    fn visit(
        &mut self,
        comprehension: &'a Comprehension,
        values: &[Val],
        state: &mut State,
    ) -> Result<bool, EvalError> {
        let Some(body) = comprehension.args.last() else {
            return Ok(true);
        };

        if comprehension.args.len() == 2 {
            match self.eval(&comprehension.args[0])? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(false),
                _ => return no_overload(),
            }
        }

        let result = self.eval(body);
        if let Err(error) = &result
            && error == LIMIT_EXCEEDED
        {
            return Err(error.clone());
        }

        state.add(values, result)
    }
}

fn constant(literal: &Literal) -> Val {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(flag) => Val::Bool(*flag),
        Literal::Int(int) => Val::Int(*int),
        Literal::Uint(uint) => Val::Uint(*uint),
        Literal::Double(double) => Val::Double(*double),
        Literal::String(text) => Val::text(text),
        Literal::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cel::compile;
    use crate::cel::types::Type;

    fn run(text: &str) -> Result<String, String> {
        let value = Val::from_json(&serde_json::json!({"a": "b", "list": [3, 1, 2], "n": null}));
        let (expr, _) = compile(text, &[("self", Type::Dyn)]).expect(text);
        let patterns = Patterns::default();
        Evaluation::new(&patterns, &[("self", value)])
            .eval(&expr)
            .map(|value| format!("{value:?}"))
    }

    #[test]
    fn fields_of_values_without_fields_are_absent() {
        assert_eq!(run("self.a.b"), Err("no such key: b".to_owned()));
        assert_eq!(run("self.n.b == 1"), Err("no such key: b".to_owned()));
        assert_eq!(
            run("has(self.n.b) || has(self.a.b)"),
            Ok("Bool(false)".to_owned())
        );

        assert_eq!(run("self.?n.?b.hasValue()"), Ok("Bool(false)".to_owned()));
    }

    #[test]
    fn operators_name_themselves_if_the_first_operand_has_none() {
        assert_eq!(
            run("self + 1 == 1"),
            Err("no such overload: _+_".to_owned())
        );
        assert_eq!(run("self.a + 1 == 1"), Err("no such overload".to_owned()));
    }

    #[test]
    fn macros_need_something_to_range_over() {
        assert_eq!(
            run("self.a.all(x, true)"),
            Err("got 'types.String', expected iterable type".to_owned())
        );
        let two = "unsupported comprehension range type: types.String";
        assert_eq!(run("self.a.all(i, x, true)"), Err(two.to_owned()));
    }

    #[test]
    fn sorts_by_keys() {
        assert_eq!(
            run("self.list.sortBy(x, -x) == [3, 2, 1]"),
            Ok("Bool(true)".to_owned())
        );
        assert_eq!(
            run("['bb', 'a', 'ccc'].sortBy(x, size(x))[2] == 'ccc'"),
            Ok("Bool(true)".to_owned())
        );

        assert!(run("[dyn(1), dyn('a')].sortBy(x, x) == []").is_err());
    }

    #[test]
    fn types_are_values() {
        assert_eq!(
            run("type(self.a) == string && type(1) != string && type(int) == type"),
            Ok("Bool(true)".to_owned())
        );
    }
}

//! Evaluates expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::{Comprehension, Expr, Literal, MacroKind, Node};
use super::check::qualified_name;
use super::convert::EvalError;
use super::declarations;
use super::functions;
use super::library::Library;
use super::value::{Key, List, Val};
use crate::crd::pattern::Patterns;

/// The most steps of one evaluation, as the real server bounds its cost.
pub const CALL_LIMIT: u64 = 1_000_000;
/// The message of an evaluation with too many steps.
pub const LIMIT_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// The caches that evaluations share.
#[derive(Debug, Default)]
pub struct Env {
    /// The Kubernetes libraries.
    pub library: Library,
    /// Compiled patterns.
    pub patterns: Patterns,
}

/// An evaluation.
#[derive(Debug)]
pub struct Evaluation<'a> {
    env: &'a Env,
    variables: Vec<(String, Val)>,
    /// The steps so far.
    pub steps: u64,
}

type Evaluated = Result<Val, EvalError>;

impl<'a> Evaluation<'a> {
    /// Prepares an evaluation with variables.
    pub fn new(env: &'a Env, variables: Vec<(String, Val)>) -> Self {
        Self { env, variables, steps: 0 }
    }

    fn step(&mut self, cost: usize) -> Result<(), EvalError> {
        self.steps = self.steps.saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        if self.steps > CALL_LIMIT { Err(LIMIT_EXCEEDED.to_owned()) } else { Ok(()) }
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// Returns cel-go's message if the evaluation fails or takes too many steps.
    pub fn eval(&mut self, expr: &Expr) -> Evaluated {
        self.step(1)?;
        match &expr.node {
            Node::Literal(literal) => Ok(constant(literal)),
            Node::Ident(name) => self.variable(name),
            Node::Select { operand, field, optional } => self.select(expr, operand, field, *optional),
            Node::Has { operand, field } => {
                let operand = self.eval(operand)?;
                has(&operand, field).map(Val::Bool)
            }
            Node::Call { function, target, args } => self.call(function, target.as_deref(), args),
            Node::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                for (element, optional) in elements {
                    match self.eval(element)? {
                        Val::Optional(inner) if *optional => items.extend(inner.map(|value| (*value).clone())),
                        value => items.push(value),
                    }
                }
                Ok(Val::list(items))
            }
            Node::Map(entries) => self.map(entries),
            Node::Macro(comprehension) => self.comprehension(comprehension),
        }
    }

    fn variable(&mut self, name: &str) -> Evaluated {
        if let Some((_, value)) = self.variables.iter().rfind(|(declared, _)| declared == name) {
            return Ok(value.clone());
        }
        Ok(Val::Type(name.into()))
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, optional: bool) -> Evaluated {
        let root = qualified_name(expr).and_then(|name| name.split('.').next().map(str::to_owned));
        let is_variable = root.is_none_or(|root| self.variables.iter().any(|(declared, _)| *declared == root));
        if !is_variable {
            return Ok(Val::Type(qualified_name(expr).unwrap_or_default().into()));
        }
        let missing = || format!("no such key: {field}");
        match self.eval(operand)? {
            Val::Map(map) if optional => Ok(Val::Optional(functions::field(&map, field).cloned().map(Arc::new))),
            Val::Map(map) => functions::field(&map, field).cloned().ok_or_else(missing),
            Val::Optional(None) => Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => match &*inner {
                Val::Map(map) => Ok(Val::Optional(functions::field(map, field).cloned().map(Arc::new))),
                _ => Err("no such overload".to_owned()),
            },
            _ => Err("no such overload".to_owned()),
        }
    }

    fn call(&mut self, function: &str, target: Option<&Expr>, args: &[Expr]) -> Evaluated {
        match (function, args) {
            ("_&&_", [left, right]) => return self.logical(left, right, false),
            ("_||_", [left, right]) => return self.logical(left, right, true),
            ("_?_:_", [condition, then, otherwise]) => {
                return match self.eval(condition)? {
                    Val::Bool(true) => self.eval(then),
                    Val::Bool(false) => self.eval(otherwise),
                    _ => Err("no such overload".to_owned()),
                };
            }
            ("or" | "orValue", [otherwise]) if target.is_some() => {
                let Some(target) = target else { return Err("no such overload".to_owned()) };
                return match (self.eval(target)?, function) {
                    (Val::Optional(Some(inner)), "orValue") => Ok((*inner).clone()),
                    (Val::Optional(None), _) => self.eval(otherwise),
                    (found @ Val::Optional(_), _) => Ok(found),
                    _ => Err("no such overload".to_owned()),
                };
            }
            _ => {}
        }
        let qualified = target.and_then(qualified_name).map(|prefix| format!("{prefix}.{function}"));
        let qualified = qualified.filter(|name| declarations::overloads(name).is_some());
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
        match functions::call(name, is_method, &values, &self.env.patterns) {
            Some(result) => result,
            None => self.env.library.call(name, is_method, &values),
        }
    }

    /// Evaluates `&&` or `||`. The side that decides hides an error of the other one.
    fn logical(&mut self, left: &Expr, right: &Expr, decisive: bool) -> Evaluated {
        let decides = |value: &Evaluated| matches!(value, Ok(Val::Bool(flag)) if *flag == decisive);
        let left = self.eval(left);
        if decides(&left) {
            return left;
        }
        let right = self.eval(right);
        if decides(&right) {
            return right;
        }
        match (left?, right?) {
            (Val::Bool(_), Val::Bool(flag)) => Ok(Val::Bool(flag)),
            _ => Err("no such overload".to_owned()),
        }
    }

    fn map(&mut self, entries: &[(Expr, Expr, bool)]) -> Evaluated {
        let mut map = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = functions::key(&self.eval(key)?).ok_or("unsupported key type")?;
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

    fn comprehension(&mut self, comprehension: &Comprehension) -> Evaluated {
        let range = self.eval(&comprehension.range)?;
        if matches!(comprehension.kind, MacroKind::OptMap | MacroKind::OptFlatMap) {
            return self.optional(comprehension, range);
        }
        let elements: Vec<Vec<Val>> = match &range {
            Val::List(list) if comprehension.vars.len() == 2 => {
                let numbered = list.items.iter().enumerate();
                numbered.map(|(at, item)| vec![Val::Int(i64::try_from(at).unwrap_or(0)), item.clone()]).collect()
            }
            Val::List(list) => list.items.iter().map(|item| vec![item.clone()]).collect(),
            Val::Map(map) if comprehension.vars.len() == 2 => {
                map.iter().map(|(key, value)| vec![functions::key_value(key), value.clone()]).collect()
            }
            Val::Map(map) => map.keys().map(|key| vec![functions::key_value(key)]).collect(),
            _ => return Err("no such overload".to_owned()),
        };
        let mut state = State::new(comprehension.kind);
        for values in elements {
            self.step(1)?;
            let outer = self.variables.len();
            self.variables.extend(comprehension.vars.iter().cloned().zip(values.iter().cloned()));
            let result = self.visit(comprehension, &values, &mut state);
            self.variables.truncate(outer);
            if result? {
                break;
            }
        }
        state.finish()
    }

    fn optional(&mut self, comprehension: &Comprehension, range: Val) -> Evaluated {
        let (Val::Optional(inner), Some(body)) = (range, comprehension.args.last()) else {
            return Err("no such overload".to_owned());
        };
        let Some(inner) = inner else { return Ok(Val::Optional(None)) };
        let outer = self.variables.len();
        self.variables.extend(comprehension.vars.first().map(|name| (name.clone(), (*inner).clone())));
        let result = self.eval(body);
        self.variables.truncate(outer);
        let flat = comprehension.kind == MacroKind::OptFlatMap;
        result.map(|value| if flat { value } else { Val::Optional(Some(Arc::new(value))) })
    }

    /// Visits an element. Reports whether the rest does not matter.
    fn visit(&mut self, comprehension: &Comprehension, values: &[Val], state: &mut State) -> Result<bool, EvalError> {
        let Some(body) = comprehension.args.last() else { return Ok(true) };
        if comprehension.args.len() == 2 {
            match self.eval(&comprehension.args[0])? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(false),
                _ => return Err("no such overload".to_owned()),
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

/// The state of a macro while it visits elements.
struct State {
    kind: MacroKind,
    count: usize,
    decided: Option<bool>,
    error: Option<EvalError>,
    items: Vec<Val>,
    entries: BTreeMap<Key, Val>,
}

impl State {
    fn new(kind: MacroKind) -> Self {
        Self { kind, count: 0, decided: None, error: None, items: Vec::new(), entries: BTreeMap::new() }
    }

    fn add(&mut self, values: &[Val], result: Evaluated) -> Result<bool, EvalError> {
        match (self.kind, result) {
            (MacroKind::All | MacroKind::Exists, Ok(Val::Bool(flag))) => {
                if flag == (self.kind == MacroKind::Exists) {
                    self.decided = Some(flag);
                    return Ok(true);
                }
            }
            // An error counts only if no other element decides.
            (MacroKind::All | MacroKind::Exists, Err(error)) => drop(self.error.get_or_insert(error)),
            (_, Err(error)) => return Err(error),
            (MacroKind::ExistsOne, Ok(Val::Bool(flag))) => self.count += usize::from(flag),
            (MacroKind::Filter, Ok(Val::Bool(flag))) => {
                if flag {
                    self.items.extend(values.first().cloned());
                }
            }
            (MacroKind::Map | MacroKind::TransformList, Ok(value)) => self.items.push(value),
            (MacroKind::TransformMap, Ok(value)) => {
                let key = values.first().and_then(functions::key).ok_or("unsupported key type")?;
                self.entries.insert(key, value);
            }
            (MacroKind::TransformMapEntry, Ok(Val::Map(map))) => {
                for (key, value) in &*map {
                    if self.entries.insert(key.clone(), value.clone()).is_some() {
                        return Err("insert failed: key already exists".to_owned());
                    }
                }
            }
            _ => return Err("no such overload".to_owned()),
        }
        Ok(false)
    }

    fn finish(self) -> Evaluated {
        match self.kind {
            MacroKind::All | MacroKind::Exists => match (self.decided, self.error) {
                (Some(flag), _) => Ok(Val::Bool(flag)),
                (None, Some(error)) => Err(error),
                (None, None) => Ok(Val::Bool(self.kind == MacroKind::All)),
            },
            MacroKind::ExistsOne => Ok(Val::Bool(self.count == 1)),
            MacroKind::TransformMap | MacroKind::TransformMapEntry => Ok(Val::Map(Arc::new(self.entries))),
            _ => Ok(Val::List(Arc::new(List { items: self.items, kind: super::value::ListKind::Atomic }))),
        }
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

fn has(operand: &Val, field: &str) -> Result<bool, EvalError> {
    match operand {
        Val::Map(map) => Ok(functions::field(map, field).is_some()),
        Val::Optional(None) => Ok(false),
        Val::Optional(Some(inner)) => has(inner, field),
        _ => Err("no such overload".to_owned()),
    }
}

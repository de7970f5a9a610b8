//! Calls of the functions of `kube-cel`.

use std::collections::BTreeMap;

use kube_cel::cel::{
    ExecutionError, IdedExpr,
    common::ast::{CallExpr, Expr},
};

use super::{
    error::EvalError,
    scope::Scope,
    values::{self, Value},
};

const TARGET: &str = "@target";

/// Calls a function on a value.
pub(super) fn member(scope: &Scope<'_>, target: Value, name: &str, arguments: Vec<Value>) -> Result<Value, EvalError> {
    if let ("format", Value::String(text)) = (name, &target)
        && has_large_precision(text)
    {
        return Err(EvalError::Message("precision out of range".to_owned()));
    }
    call(scope, Some(TARGET), name, Some(target), arguments)
}

/// Reports whether a format has a precision of more than two digits, which the library cannot print.
fn has_large_precision(format: &str) -> bool {
    let precisions = format.split("%.").skip(1);
    precisions.map(|rest| rest.chars().take_while(char::is_ascii_digit).count()).any(|digits| digits > 2)
}

/// Calls a function with a prefix, such as `sets.contains`.
pub(super) fn namespaced(
    scope: &Scope<'_>,
    prefix: &str,
    name: &str,
    arguments: Vec<Value>,
) -> Result<Value, EvalError> {
    match (prefix, name, arguments.as_slice()) {
        ("optional", "none", []) => Ok(values::optional(None)),
        ("optional", "of", [value]) => Ok(values::optional(Some(value.clone()))),
        ("optional", "ofNonZeroValue", [value]) => Ok(values::optional(Some(value.clone()).filter(|it| !is_zero(it)))),
        _ => call(scope, Some(prefix), name, None, arguments),
    }
}

/// Calls a function.
pub(super) fn global(scope: &Scope<'_>, name: &str, arguments: Vec<Value>) -> Result<Value, EvalError> {
    match (name, arguments.as_slice()) {
        ("dyn", [value]) => Ok(value.clone()),
        ("bool", [value @ Value::Bool(_)]) => Ok(value.clone()),
        ("bool", [Value::String(text)]) => match text.as_str() {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Value::Bool(false)),
            _ => Err(conversion(name)),
        },
        ("int", [Value::String(text)]) => text.parse().map(Value::Int).map_err(|_| conversion(name)),
        ("uint" | "double" | "timestamp" | "duration", [Value::String(_)]) => {
            call(scope, None, name, None, arguments).map_err(|_| conversion(name))
        }
        ("matches", [text, _]) => call(scope, Some(TARGET), name, Some(text.clone()), arguments[1..].to_vec()),
        _ => call(scope, None, name, None, arguments),
    }
}

fn conversion(to: &str) -> EvalError {
    EvalError::Message(format!("type conversion error from 'string' to '{to}'"))
}

/// Reports whether a function can parse a literal. Functions that do not parse accept all.
pub(super) fn accepts_literal(name: &str, text: &str) -> bool {
    let scope = || Scope::new(BTreeMap::new());
    match name {
        "timestamp" | "duration" => global(&scope(), name, vec![values::string(text)]).is_ok(),
        "matches" => global(&scope(), name, vec![values::string(""), values::string(text)]).is_ok(),
        _ => true,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::UInt(0) => true,
        Value::Float(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(map) => map.map.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        _ => false,
    }
}

fn call(
    scope: &Scope<'_>,
    prefix: Option<&str>,
    name: &str,
    target: Option<Value>,
    arguments: Vec<Value>,
) -> Result<Value, EvalError> {
    let mut context = scope.functions().new_inner_scope();
    let ident = |name: String| IdedExpr { id: 0, expr: Expr::Ident(name) };
    if let Some(target) = target {
        context.add_variable_from_value(TARGET, target);
    }
    let mut args = Vec::with_capacity(arguments.len());
    for (index, argument) in arguments.into_iter().enumerate() {
        let name = format!("@{index}");
        context.add_variable_from_value(name.as_str(), argument);
        args.push(ident(name));
    }
    let target = prefix.map(|prefix| Box::new(ident(prefix.to_owned())));
    let expr = Expr::Call(CallExpr { func_name: name.to_owned(), target, args });
    Value::resolve(&IdedExpr { id: 0, expr }, &context).map_err(error)
}

fn error(error: ExecutionError) -> EvalError {
    match error {
        ExecutionError::NoSuchKey(key) => EvalError::NoSuchKey(key.to_string()),
        ExecutionError::FunctionError { message, .. } => EvalError::Message(message),
        ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::NotSupportedAsMethod { .. }
        | ExecutionError::InvalidArgumentCount { .. }
        | ExecutionError::NoSuchOverload => EvalError::NoSuchOverload,
        other => EvalError::Message(other.to_string()),
    }
}

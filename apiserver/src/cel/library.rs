//! The functions of the Kubernetes libraries, which the crate `kube-cel` implements.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{self, Context, ExecutionError, IdedExpr};

use super::convert::EvalError;
use super::value::{Key, Val};

/// The variable that holds a method's target.
const TARGET: &str = "@target";

thread_local! {
    /// The functions, built once per thread because `Context` is not `Sync`.
    static FUNCTIONS: Context<'static> = Context::default().with_all();
}

/// The CEL type of the library value that a function returns.
fn foreign_type(function: &str, target: Option<&Val>) -> &'static str {
    match (function, target) {
        ("url", _) => "kubernetes.URL",
        ("ip", _) => "net.IP",
        ("cidr" | "masked", _) => "net.CIDR",
        ("semver", _) => "kubernetes.Semver",
        ("quantity" | "add" | "sub", _) => "kubernetes.Quantity",
        _ => "kubernetes.NamedFormat",
    }
}

/// Calls a library function; the target of a method is its first argument. Fails with the library's
/// message, or if no library has the function.
pub fn call(function: &str, is_method: bool, args: &[Val]) -> Result<Val, EvalError> {
    if let ("format", [Val::String(text), ..]) = (function, args)
        && has_large_precision(text)
    {
        return Err("precision out of range".to_owned());
    }

    let target = args.first().filter(|_| is_method);
    let values = args.iter().map(to_cel).collect::<Result<Vec<_>, _>>()?;

    let result =
        run(function, is_method, values).map_err(|error| match (function, args.first()) {
            ("quantity", Some(Val::String(text))) => quantity_error(text),
            _ => message(error),
        })?;

    let foreign = foreign_type(function, target);
    match &result {
        cel::Value::Opaque(opaque) if matches!(function, "validate" | "format.named") => {
            let Some(optional) = opaque.downcast_ref::<OptionalValue>() else {
                return from_cel(result, foreign);
            };

            let inner = optional
                .value()
                .cloned()
                .map(|value| from_cel(value, foreign))
                .transpose()?;

            Ok(Val::Optional(inner.map(Arc::new)))
        }
        _ => from_cel(result, foreign),
    }
}

/// Reports whether a format has a precision of three or more digits, which `kube-cel` cannot print.
fn has_large_precision(format: &str) -> bool {
    let precisions = format.split("%.").skip(1);
    precisions
        .map(|rest| rest.chars().take_while(char::is_ascii_digit).count())
        .any(|digits| digits > 2)
}

fn run(
    function: &str,
    is_method: bool,
    args: Vec<cel::Value>,
) -> Result<cel::Value, ExecutionError> {
    FUNCTIONS.with(|functions| {
        let mut context = functions.new_inner_scope();

        let ident = |name: &str| IdedExpr {
            id: 0,
            expr: Expr::Ident(name.to_owned()),
        };

        let mut args = args.into_iter();
        let (prefix, func_name) = match function.split_once('.') {
            Some((prefix, name)) if !is_method => (Some(prefix), name),
            _ => (None, function),
        };

        let mut target = prefix.map(|prefix| Box::new(ident(prefix)));
        if is_method && let Some(value) = args.next() {
            context.add_variable_from_value(TARGET, value);
            target = Some(Box::new(ident(TARGET)));
        }

        let mut names = Vec::with_capacity(args.len());
        for (at, value) in args.enumerate() {
            let name = format!("@{at}");
            names.push(ident(&name));
            context.add_variable_from_value(name, value);
        }

        let call = Expr::Call(CallExpr {
            func_name: func_name.to_owned(),
            target,
            args: names,
        });

        cel::Value::resolve(&IdedExpr { id: 0, expr: call }, &context)
    })
}

/// kube-apiserver's message for a text that is not a quantity.
fn quantity_error(text: &str) -> EvalError {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return "unable to parse quantity's suffix".to_owned();
    }
    let pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$";
    format!("quantities must match the regular expression '{pattern}'")
}

fn message(error: ExecutionError) -> EvalError {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::FunctionError { message, .. } => message,
        ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::NotSupportedAsMethod { .. }
        | ExecutionError::InvalidArgumentCount { .. }
        | ExecutionError::NoSuchOverload => "no such overload".to_owned(),
        other => other.to_string(),
    }
}

fn to_cel(value: &Val) -> Result<cel::Value, EvalError> {
    use cel::Value;
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(flag) => Value::Bool(*flag),
        Val::Int(int) => Value::Int(*int),
        Val::Uint(uint) => Value::UInt(*uint),
        Val::Double(double) => Value::Float(*double),
        Val::String(text) => Value::String(Arc::new(text.to_string())),
        Val::Bytes(bytes) => Value::Bytes(Arc::new(bytes.to_vec())),
        Val::Timestamp(time) => {
            let nanos = u32::try_from(time.subsec_nanosecond()).unwrap_or(0);
            let time = chrono::DateTime::from_timestamp(time.as_second(), nanos);
            Value::Timestamp(time.ok_or("timestamp overflow")?.fixed_offset())
        }
        Val::Duration(nanos) => Value::Duration(chrono::Duration::nanoseconds(*nanos)),
        Val::List(list) => Value::List(Arc::new(
            list.items.iter().map(to_cel).collect::<Result<_, _>>()?,
        )),
        Val::Map(map) => {
            let mut entries: HashMap<cel::objects::Key, Value> = HashMap::new();

            for (key, value) in &**map {
                let key = match key {
                    Key::Bool(flag) => cel::objects::Key::Bool(*flag),
                    Key::Int(int) => cel::objects::Key::Int(*int),
                    Key::Uint(uint) => cel::objects::Key::Uint(*uint),
                    Key::String(text) => cel::objects::Key::String(Arc::new(text.to_string())),
                };

                entries.insert(key, to_cel(value)?);
            }

            Value::Map(cel::objects::Map {
                map: Arc::new(entries),
            })
        }
        Val::Foreign(_, value) => value.clone(),
        Val::Optional(_) | Val::Type(_) => return Err("no such overload".to_owned()),
    })
}

fn from_cel(value: cel::Value, foreign: &'static str) -> Result<Val, EvalError> {
    use cel::Value;
    Ok(match value {
        Value::Null => Val::Null,
        Value::Bool(flag) => Val::Bool(flag),
        Value::Int(int) => Val::Int(int),
        Value::UInt(uint) => Val::Uint(uint),
        Value::Float(double) => Val::Double(double),
        Value::String(text) => Val::text(&text),
        Value::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
        Value::Duration(duration) => {
            Val::Duration(duration.num_nanoseconds().ok_or("duration overflow")?)
        }
        Value::Timestamp(time) => {
            let nanos = i32::try_from(time.timestamp_subsec_nanos()).unwrap_or(0);

            Val::Timestamp(
                jiff::Timestamp::new(time.timestamp(), nanos).map_err(|error| error.to_string())?,
            )
        }
        Value::List(items) => {
            let items = items.iter().cloned().map(|item| from_cel(item, foreign));
            Val::list(items.collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let mut entries = BTreeMap::new();

            for (key, value) in map.map.iter() {
                let key = match key {
                    cel::objects::Key::Bool(flag) => Key::Bool(*flag),
                    cel::objects::Key::Int(int) => Key::Int(*int),
                    cel::objects::Key::Uint(uint) => Key::Uint(*uint),
                    cel::objects::Key::String(text) => Key::String(text.as_str().into()),
                };

                entries.insert(key, from_cel(value.clone(), foreign)?);
            }

            Val::Map(Arc::new(entries))
        }
        other => Val::Foreign(foreign, other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(function: &str, is_method: bool, args: &[Val]) -> Result<String, String> {
        call(function, is_method, args).map(|value| format!("{value:?}"))
    }

    #[test]
    fn calls_functions_of_the_libraries() {
        let quantity = |text: &str| call("quantity", false, &[Val::text(text)]).expect("quantity");
        let less = call("isLessThan", true, &[quantity("1Mi"), quantity("1Gi")]);
        assert!(matches!(less, Ok(Val::Bool(true))), "{less:?}");

        let list = Val::list(vec![Val::text("b"), Val::text("a")]);
        assert_eq!(
            shown("join", true, &[list, Val::text("-")]),
            Ok("String(\"b-a\")".to_owned())
        );

        let failed = call(
            "validate",
            true,
            &[
                call("format.dns1123Label", false, &[]).expect("format"),
                Val::text("A"),
            ],
        );
        assert!(matches!(failed, Ok(Val::Optional(Some(_)))), "{failed:?}");
    }

    #[test]
    fn reports_what_the_library_reports() {
        assert!(call("quantity", false, &[Val::text("x")]).is_err());
        assert_eq!(
            shown("format", true, &[Val::text("%.999f"), Val::list(vec![])]),
            Err("precision out of range".into())
        );
        assert!(call("noSuchFunction", false, &[]).is_err());
    }
}

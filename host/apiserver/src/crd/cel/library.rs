//! The functions of the Kubernetes libraries, which the crate `kube-cel` implements.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::{self, Context, Program};

use super::convert::EvalError;
use super::value::{Key, Val};

/// The library, with the calls that were compiled before.
#[derive(Default)]
pub struct Library(Mutex<HashMap<String, Arc<Program>>>);

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Library")
    }
}

/// Returns the name of the type of a library's values that a function makes.
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

impl Library {
    /// Calls a function, with its target first if it is a method.
    ///
    /// # Errors
    /// Returns the message of the library, or that it has no such function.
    pub fn call(&self, function: &str, is_method: bool, args: &[Val]) -> Result<Val, EvalError> {
        let names: Vec<_> = (0..args.len()).map(|at| format!("a{at}")).collect();
        let text = match names.split_first() {
            Some((target, rest)) if is_method => format!("{target}.{function}({})", rest.join(", ")),
            _ => format!("{function}({})", names.join(", ")),
        };
        let target = args.first().filter(|_| is_method);
        if matches!(function, "validate" | "format.named") {
            let found = self.run(&format!("{text}.hasValue()"), args, "", None)?;
            if matches!(found, Val::Bool(false)) {
                return Ok(Val::Optional(None));
            }
            let value = self.run(&format!("{text}.value()"), args, function, target)?;
            return Ok(Val::Optional(Some(Arc::new(value))));
        }
        self.run(&text, args, function, target)
    }

    fn run(&self, text: &str, args: &[Val], function: &str, target: Option<&Val>) -> Result<Val, EvalError> {
        let program = self.program(text)?;
        let mut context = Context::default().with_all();
        for (at, arg) in args.iter().enumerate() {
            context.add_variable_from_value(format!("a{at}"), to_cel(arg)?);
        }
        let value = program.execute(&context).map_err(|error| match (function, args.first()) {
            ("quantity", Some(Val::String(text))) => quantity_error(text),
            _ => message(&error),
        })?;
        from_cel(value, foreign_type(function, target))
    }

    fn program(&self, text: &str) -> Result<Arc<Program>, EvalError> {
        let mut programs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(text) {
            return Ok(program.clone());
        }
        let program = Arc::new(Program::compile(text).map_err(|error| error.to_string())?);
        programs.insert(text.to_owned(), program.clone());
        Ok(program)
    }
}

/// Returns the real server's message for a text that is no quantity.
fn quantity_error(text: &str) -> EvalError {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return "unable to parse quantity's suffix".to_owned();
    }
    let pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$";
    format!("quantities must match the regular expression '{pattern}'")
}

fn message(error: &cel::ExecutionError) -> EvalError {
    match error {
        cel::ExecutionError::FunctionError { message, .. } => message.clone(),
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
        Val::List(list) => Value::List(Arc::new(list.items.iter().map(to_cel).collect::<Result<_, _>>()?)),
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
            Value::Map(cel::objects::Map { map: Arc::new(entries) })
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
        Value::Duration(duration) => Val::Duration(duration.num_nanoseconds().ok_or("duration overflow")?),
        Value::Timestamp(time) => {
            let nanos = i32::try_from(time.timestamp_subsec_nanos()).unwrap_or(0);
            Val::Timestamp(jiff::Timestamp::new(time.timestamp(), nanos).map_err(|error| error.to_string())?)
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

    fn call(function: &str, is_method: bool, args: &[Val]) -> Result<String, String> {
        Library::default().call(function, is_method, args).map(|value| format!("{value:?}"))
    }

    #[test]
    fn calls_functions_of_the_libraries() {
        let library = Library::default();
        let quantity = |text: &str| library.call("quantity", false, &[Val::text(text)]).expect("quantity");
        let less = library.call("isLessThan", true, &[quantity("1Mi"), quantity("1Gi")]);
        assert!(matches!(less, Ok(Val::Bool(true))), "{less:?}");
        let list = Val::list(vec![Val::text("b"), Val::text("a")]);
        assert_eq!(call("join", true, &[list, Val::text("-")]), Ok("String(\"b-a\")".to_owned()));
        let failed = library.call(
            "validate",
            true,
            &[library.call("format.dns1123Label", false, &[]).expect("format"), Val::text("A")],
        );
        assert!(matches!(failed, Ok(Val::Optional(Some(_)))), "{failed:?}");
    }

    #[test]
    fn reports_what_the_library_reports() {
        assert!(call("quantity", false, &[Val::text("x")]).is_err());
        assert!(call("noSuchFunction", false, &[]).is_err());
    }
}

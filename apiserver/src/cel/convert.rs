//! Conversions between the types of values.

use jiff::Timestamp;

use super::value::Val;
use crate::golang;
use crate::golang::duration;
use crate::golang::time::is_rfc3339;

/// The message of a failed evaluation, in cel-go's words.
pub type EvalError = String;

fn cannot_convert(target: &str) -> EvalError {
    format!("type conversion error from 'string' to '{target}'")
}

fn no_overload() -> EvalError {
    "no such overload".to_owned()
}

/// Converts a value with a function that is named like a type, as `int(x)`.
pub fn convert(function: &str, value: &Val) -> Result<Val, EvalError> {
    match function {
        "bool" => to_bool(value),
        "int" => to_int(value),
        "uint" => to_uint(value),
        "double" => to_double(value),
        "string" => to_text(value),
        "bytes" => match value {
            Val::Bytes(_) => Ok(value.clone()),
            Val::String(text) => Ok(Val::Bytes(text.as_bytes().into())),
            _ => Err(no_overload()),
        },
        "timestamp" => to_timestamp(value),
        "duration" => match value {
            Val::Duration(_) => Ok(value.clone()),
            Val::String(text) => duration::parse(text)
                .map(Val::Duration)
                .ok_or_else(|| cannot_convert("google.protobuf.Duration")),
            _ => Err(no_overload()),
        },
        _ => Ok(value.clone()),
    }
}

fn to_bool(value: &Val) -> Result<Val, EvalError> {
    match value {
        Val::Bool(_) => Ok(value.clone()),
        Val::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Val::Bool(false)),
            _ => Err(cannot_convert("bool")),
        },
        _ => Err(no_overload()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the range is checked"
)]
fn to_int(value: &Val) -> Result<Val, EvalError> {
    let overflow = || "integer overflow".to_owned();

    match value {
        Val::Int(_) => Ok(value.clone()),
        Val::Uint(uint) => i64::try_from(*uint).map(Val::Int).map_err(|_| overflow()),
        Val::Double(double) if double.is_finite() && double.abs() < i64::MAX as f64 => {
            Ok(Val::Int(*double as i64))
        }
        Val::Double(_) => Err(overflow()),
        Val::Timestamp(time) => Ok(Val::Int(time.as_second())),
        Val::Duration(nanos) => Ok(Val::Int(*nanos)),
        Val::String(text) => text
            .parse()
            .map(Val::Int)
            .map_err(|_| cannot_convert("int")),
        _ => Err(no_overload()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "checked"
)]
fn to_uint(value: &Val) -> Result<Val, EvalError> {
    let overflow = || "unsigned integer overflow".to_owned();

    match value {
        Val::Uint(_) => Ok(value.clone()),
        Val::Int(int) => u64::try_from(*int).map(Val::Uint).map_err(|_| overflow()),
        Val::Double(double) if (0.0..u64::MAX as f64).contains(double) => {
            Ok(Val::Uint(*double as u64))
        }
        Val::Double(_) => Err(overflow()),
        Val::String(text) => text
            .parse()
            .map(Val::Uint)
            .map_err(|_| cannot_convert("uint")),
        _ => Err(no_overload()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as cel-go converts")]
fn to_double(value: &Val) -> Result<Val, EvalError> {
    match value {
        Val::Double(_) => Ok(value.clone()),
        Val::Int(int) => Ok(Val::Double(*int as f64)),
        Val::Uint(uint) => Ok(Val::Double(*uint as f64)),
        Val::String(text) => text
            .parse()
            .map(Val::Double)
            .map_err(|_| cannot_convert("double")),
        _ => Err(no_overload()),
    }
}

fn to_text(value: &Val) -> Result<Val, EvalError> {
    Ok(Val::text(&match value {
        Val::String(text) => text.to_string(),
        Val::Bool(flag) => flag.to_string(),
        Val::Int(int) => int.to_string(),
        Val::Uint(uint) => uint.to_string(),
        Val::Double(double) => golang::float(*double),
        Val::Bytes(bytes) => String::from_utf8(bytes.to_vec())
            .map_err(|_| "invalid UTF-8 in bytes, cannot convert to string".to_owned())?,
        Val::Timestamp(time) => time.to_string(),
        Val::Duration(nanos) => duration_text(*nanos),
        _ => return Err(no_overload()),
    }))
}

/// Prints a duration in seconds, as in `1.5s`: cel-go does not use Go's `1m30s` for strings.
fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let seconds = nanos.unsigned_abs() / 1_000_000_000;
    let rest = nanos.unsigned_abs() % 1_000_000_000;

    if rest == 0 {
        return format!("{sign}{seconds}s");
    }

    let fraction = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

fn to_timestamp(value: &Val) -> Result<Val, EvalError> {
    match value {
        Val::Timestamp(_) => Ok(value.clone()),
        Val::Int(seconds) => Timestamp::from_second(*seconds)
            .map(Val::Timestamp)
            .map_err(|_| "timestamp overflow".to_owned()),
        Val::String(text) if is_rfc3339(text) => text
            .parse()
            .map(Val::Timestamp)
            .map_err(|_| "timestamp overflow".to_owned()),
        Val::String(_) => Err(cannot_convert("google.protobuf.Timestamp")),
        _ => Err(no_overload()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_to_texts() {
        let text = |value: Val| match convert("string", &value) {
            Ok(Val::String(text)) => text.to_string(),
            other => format!("{other:?}"),
        };

        assert_eq!(text(Val::Double(1.5)), "1.5");
        assert_eq!(text(Val::Duration(1_500_000_000)), "1.5s");
        assert_eq!(
            text(Val::Timestamp(
                "2024-01-01T00:00:00Z".parse().expect("time")
            )),
            "2024-01-01T00:00:00Z"
        );
    }

    #[test]
    fn reports_texts_that_are_no_numbers() {
        let error = convert("int", &Val::text("x")).expect_err("no number");
        assert_eq!(error, "type conversion error from 'string' to 'int'");
    }
}

//! The differences between two answers.

use serde_json::Value;

use crate::exchange::Answer;

/// A difference: its place, and both values.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub at: String,
    pub real: Value,
    pub own: Value,
}

/// Returns all differences between two answers.
pub fn between(real: &Answer, own: &Answer) -> Vec<Difference> {
    let mut found = Vec::new();

    values("code", &real.code.into(), &own.code.into(), &mut found);
    values(
        "media type",
        &real.media.as_str().into(),
        &own.media.as_str().into(),
        &mut found,
    );
    values(
        "warnings",
        &real.warnings.clone().into(),
        &own.warnings.clone().into(),
        &mut found,
    );

    values("", &real.body, &own.body, &mut found);

    found
}

fn values(at: &str, real: &Value, own: &Value, found: &mut Vec<Difference>) {
    match (real, own) {
        (Value::Object(one), Value::Object(two)) => {
            let mut keys: Vec<&String> = one.keys().chain(two.keys()).collect();
            keys.sort();
            keys.dedup();

            for key in keys {
                let nothing = Value::String("<absent>".into());
                let value = |members: &serde_json::Map<String, Value>| members.get(key).cloned();
                let (one, two) = (value(one), value(two));
                let (one, two) = (
                    one.as_ref().unwrap_or(&nothing),
                    two.as_ref().unwrap_or(&nothing),
                );

                values(&format!("{at}/{key}"), one, two, found);
            }
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            for (index, (one, two)) in one.iter().zip(two).enumerate() {
                values(&format!("{at}/{index}"), one, two, found);
            }
        }
        _ if real != own => found.push(Difference {
            at: at.to_owned(),
            real: real.clone(),
            own: own.clone(),
        }),
        _ => {}
    }
}

//! JSON of any form. Objects contain it (`managedFields`), so nearly every plugin reads and writes
//! it; serde's way to do so takes three times as much code.

use serde_json::{Map, Value};

use super::fault::Fault;
use super::read::{Number, Reader};
use super::write::Writer;

impl Reader<'_> {
    /// Reads a value of any form.
    ///
    /// # Errors
    /// Returns an error if there is none.
    #[inline(never)]
    pub(super) fn value(&mut self) -> Result<Value, Fault> {
        let expected = &"any valid JSON value";
        Ok(match self.peek() {
            b'n' => {
                self.unit(expected)?;
                Value::Null
            }
            b't' | b'f' => Value::Bool(self.boolean(expected)?),
            b'"' => Value::String(self.string(expected)?.to_owned()),
            b'[' => {
                let mut items = Vec::new();
                self.open(b'[', expected)?;
                while self.item(b']')? {
                    items.push(self.value()?);
                }
                self.close(b']');
                Value::Array(items)
            }
            b'{' => {
                let mut members = Map::new();
                self.open(b'{', expected)?;
                while let Some((key, _)) = self.key()? {
                    let key = key.to_owned();
                    members.insert(key, self.value()?);
                }
                self.close(b'}');
                Value::Object(members)
            }
            _ => match self.number(expected)? {
                Number::Natural(number) => number.into(),
                Number::Negative(number) => number.into(),
                Number::Float(number) => number.into(),
            },
        })
    }
}

impl Writer {
    /// Writes a value of any form.
    #[inline(never)]
    pub(super) fn json(&mut self, value: &Value) {
        match value {
            Value::Null => self.raw("null"),
            Value::Bool(value) => self.raw(if *value { "true" } else { "false" }),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => self.natural(number),
                (_, Some(number)) => self.integer(number),
                _ => self.float(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.raw("[");
                for item in items {
                    self.item();
                    self.json(item);
                }
                self.raw("]");
            }
            Value::Object(members) => {
                self.raw("{");
                for (key, value) in members {
                    self.member(key);
                    self.json(value);
                }
                self.raw("}");
            }
        }
    }
}

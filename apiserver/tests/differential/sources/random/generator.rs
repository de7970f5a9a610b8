//! Random choices.

use serde_json::{Value, json};

/// A xorshift generator.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap_or(0)
    }

    pub fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Replaces, removes or adds a random part of an object.
    pub fn mutate(&mut self, value: &mut Value) {
        let stop = self.chance(20);

        match value {
            Value::Object(members) if !stop && !members.is_empty() => {
                let index = self.below(members.len());
                let key = members.keys().nth(index).expect("a key").clone();

                let is_generated = [
                    "managedFields",
                    "creationTimestamp",
                    "uid",
                    "resourceVersion",
                ]
                .contains(&key.as_str());

                match self.below(10) {
                    _ if is_generated => {}
                    0 => drop(members.remove(&key)),
                    1 => drop(members.insert("unknown".into(), json!("x"))),
                    _ => self.mutate(&mut members[&key]),
                }
            }
            Value::Array(items) if !stop && !items.is_empty() => {
                let index = self.below(items.len());
                match self.below(8) {
                    0 => drop(items.remove(index)),
                    1 => items.push(items[index].clone()),
                    _ => self.mutate(&mut items[index]),
                }
            }
            _ => {
                let others = [
                    json!(null),
                    json!(""),
                    json!("x"),
                    json!(-1),
                    json!(0),
                    json!(7),
                    json!(1.5),
                    json!(true),
                    json!({}),
                    json!([]),
                    json!({"a": "b"}),
                    json!(["a"]),
                    json!("A B"),
                    json!("2"),
                ];
                *value = self.of(&others).clone();
            }
        }
    }
}

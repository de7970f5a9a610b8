//! The results of macros over the elements of a list or map.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::Arc;

use super::ast::MacroKind;
use super::convert::EvalError;
use super::value::{Key, Val};

/// The state of a macro while it visits the elements.
pub struct State {
    kind: MacroKind,
    count: usize,
    decided: Option<bool>,
    error: Option<EvalError>,
    items: Vec<Val>,
    /// The keys by which `sortBy` sorts the items.
    keys: Vec<Val>,
    entries: BTreeMap<Key, Val>,
}

impl State {
    pub fn new(kind: MacroKind) -> Self {
        Self {
            kind,
            count: 0,
            decided: None,
            error: None,
            items: Vec::new(),
            keys: Vec::new(),
            entries: BTreeMap::new(),
        }
    }

    /// Adds the result for the element in `values`. Returns true if the remaining elements do not
    /// matter, and fails if the macro does.
    pub fn add(
        &mut self,
        values: &[Val],
        result: Result<Val, EvalError>,
    ) -> Result<bool, EvalError> {
        match (self.kind, result) {
            (MacroKind::All | MacroKind::Exists, Ok(Val::Bool(flag))) => {
                if flag == (self.kind == MacroKind::Exists) {
                    self.decided = Some(flag);
                    return Ok(true);
                }
            }
            // An error counts only if no other element decides.
            (MacroKind::All | MacroKind::Exists, Err(error)) => {
                self.error.get_or_insert(error);
            }
            (MacroKind::All | MacroKind::Exists, Ok(_)) => {
                self.error
                    .get_or_insert_with(|| "no such overload".to_owned());
            }
            (_, Err(error)) => return Err(error),
            (MacroKind::ExistsOne, Ok(Val::Bool(flag))) => self.count += usize::from(flag),
            (MacroKind::Filter, Ok(Val::Bool(flag))) => {
                if flag {
                    self.items.extend(values.first().cloned());
                }
            }
            (MacroKind::Map | MacroKind::TransformList, Ok(value)) => self.items.push(value),
            (MacroKind::SortBy, Ok(key)) => {
                self.items.extend(values.first().cloned());
                self.keys.push(key);
            }
            (MacroKind::TransformMap, Ok(value)) => {
                let key = values
                    .first()
                    .and_then(Val::as_key)
                    .ok_or("unsupported key type")?;

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

    /// The macro's result. An element's error counts only if no other element decided it.
    pub fn finish(self) -> Result<Val, EvalError> {
        match self.kind {
            MacroKind::All | MacroKind::Exists => match (self.decided, self.error) {
                (Some(flag), _) => Ok(Val::Bool(flag)),
                (None, Some(error)) => Err(error),
                (None, None) => Ok(Val::Bool(self.kind == MacroKind::All)),
            },
            MacroKind::ExistsOne => Ok(Val::Bool(self.count == 1)),
            MacroKind::TransformMap | MacroKind::TransformMapEntry => {
                Ok(Val::Map(Arc::new(self.entries)))
            }
            MacroKind::SortBy => sorted(self.items, &self.keys),
            _ => Ok(Val::list(self.items)),
        }
    }
}

/// Sorts items by keys, which must share one ordered type. The sort is stable.
fn sorted(items: Vec<Val>, keys: &[Val]) -> Result<Val, EvalError> {
    let Some(first) = keys.first() else {
        return Ok(Val::list(items));
    };

    if keys
        .iter()
        .any(|key| discriminant(key) != discriminant(first))
    {
        return Err("list elements must have the same type".to_owned());
    }

    if first.compare(first).is_none() {
        return Err("list elements must be comparable".to_owned());
    }

    let mut pairs: Vec<(&Val, Val)> = keys.iter().zip(items).collect();
    pairs.sort_by(|(left, _), (right, _)| left.compare(right).unwrap_or(Ordering::Equal));

    Ok(Val::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

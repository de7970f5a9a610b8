//! The health of single keys.

use std::cmp::Reverse;

use operetta_core::object::ObjectKey;
use serde::Serialize;

use super::{Failing, Health, Subject};
use crate::problem::Problem;

/// Failing keys of a controller that are listed.
const LISTED: usize = 100;

/// The health of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyHealth {
    /// True if the key was held back because of a hot loop, and not reconciled since.
    pub is_held: bool,
    /// The failure of the last reconcile.
    pub problem: Option<Problem>,
}

/// A key whose last reconcile failed, or a watched object whose last mapping failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailingKey {
    /// The key; with the kind in front for a mapping.
    pub key: String,
    /// The key in the queue; None for a mapping.
    #[serde(skip)]
    pub queued_as: Option<ObjectKey>,
    /// The number of failures in a row.
    pub retries: u32,
    /// The last error.
    pub error: String,
}

impl Health {
    /// Returns the health of a key in a controller.
    pub fn of_key(&self, controller: &str, key: &ObjectKey) -> KeyHealth {
        let controllers = self.controllers.lock();
        let Some(counted) = controllers.by_name.get(controller) else { return KeyHealth::default() };
        let subject = Subject { mapped_kind: None, key: key.clone() };
        let problem = counted.failing.get(&subject).map(|failing| failing.problem.clone());
        KeyHealth { is_held: counted.held.contains(key), problem }
    }

    /// Returns the keys of a controller that fail, at most 100, the last failure first.
    pub fn failing(&self, controller: &str) -> Vec<FailingKey> {
        let controllers = self.controllers.lock();
        let Some(counted) = controllers.by_name.get(controller) else { return Vec::new() };
        let mut failing: Vec<_> = counted.failing.iter().collect();
        failing.sort_by_key(|(_, failing)| Reverse(failing.order));
        let shown = |(subject, failing): (&Subject, &Failing)| FailingKey {
            key: match &subject.mapped_kind {
                Some(kind) => format!("{kind} {}", subject.key),
                None => subject.key.to_string(),
            },
            queued_as: subject.mapped_kind.is_none().then(|| subject.key.clone()),
            retries: failing.retries,
            error: failing.problem.message.clone(),
        };
        failing.into_iter().take(LISTED).map(shown).collect()
    }
}

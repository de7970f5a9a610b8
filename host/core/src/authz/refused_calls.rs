//! A plugin's calls refused by RBAC, until the plugin may make them.
//!
//! After such a refusal, a key sits out its backoff, however soon somebody grants the permission.
//! [`RefusedCalls::take_allowed`] tells when that has happened.
//!
//! The record is bounded, because a guest chooses the names. Calls beyond the bound are not
//! recorded.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::authz::recorded_permissions::Need;

/// Recorded calls per plugin: each costs an access review when permissions change.
const CALLS: usize = 32;

/// The permission needed by a refused call, with the object's name if a rule with `resourceNames`
/// can grant it.
pub type RefusedCall = (Need, Option<String>);

/// The refused calls of one plugin. They outlive individual versions of its code.
#[derive(Default)]
pub struct RefusedCalls {
    /// The calls, and whether a review has denied them since they were recorded.
    calls: Mutex<BTreeMap<RefusedCall, bool>>,
}

/// Why refused calls are reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The plugin's or the host's permissions have changed.
    Change,
    /// Time has passed. A permission may come from an authorizer whose changes we don't watch.
    Time,
}

impl RefusedCalls {
    /// Records a refused call.
    pub fn add(&self, need: &Need, name: Option<&str>) {
        let call = (need.clone(), name.map(str::to_owned));
        let mut calls = self.calls.lock();
        if calls.len() < CALLS || calls.contains_key(&call) {
            calls.entry(call).or_insert(false);
        }
    }

    /// Whether no refused call is left.
    pub fn is_empty(&self) -> bool {
        self.calls.lock().is_empty()
    }

    /// The recorded calls, to be reviewed one by one.
    pub fn all(&self) -> Vec<RefusedCall> {
        self.calls.lock().keys().cloned().collect()
    }

    /// Records the results of reviews. Removes and returns the calls allowed now. A call no review
    /// has denied before only counts after a change: the API server may refuse it for another
    /// reason, such as a permission the host lacks.
    pub fn take_allowed(
        &self,
        occasion: Occasion,
        reviewed: Vec<(RefusedCall, bool)>,
    ) -> Vec<RefusedCall> {
        let mut calls = self.calls.lock();
        let mut allowed = Vec::new();
        for (call, is_allowed) in reviewed {
            let Some(was_denied) = calls.get_mut(&call) else {
                continue;
            };
            if !is_allowed {
                *was_denied = true;
            } else if *was_denied || occasion == Occasion::Change {
                calls.remove(&call);
                allowed.push(call);
            }
        }

        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(verb: &str) -> RefusedCall {
        (
            Need::resource(verb, "", "secrets", Some("n")),
            Some("a".to_owned()),
        )
    }

    fn refused(verbs: &[&str]) -> RefusedCalls {
        let refused = RefusedCalls::default();
        for (need, name) in verbs.iter().map(|verb| call(verb)) {
            refused.add(&need, name.as_deref());
        }
        refused
    }

    /// Takes the calls that are allowed, if these verbs are.
    fn take(refused: &RefusedCalls, occasion: Occasion, verbs: &[&str]) -> Vec<RefusedCall> {
        let review = |call: RefusedCall| {
            let is_allowed = verbs.contains(&call.0.verb.as_str());
            (call, is_allowed)
        };
        refused.take_allowed(occasion, refused.all().into_iter().map(review).collect())
    }

    #[test]
    fn returns_a_regained_call_once() {
        let refused = refused(&["get", "patch"]);
        assert_eq!(take(&refused, Occasion::Change, &["get"]), [call("get")]);
        assert_eq!(take(&refused, Occasion::Change, &["get"]), []);
        assert!(!refused.is_empty(), "patch is refused still");
        assert_eq!(
            take(&refused, Occasion::Time, &["get", "patch"]),
            [call("patch")]
        );
        assert!(refused.is_empty());
    }

    #[test]
    fn time_alone_takes_no_call_that_was_never_denied() {
        let refused = refused(&["get"]);
        assert_eq!(take(&refused, Occasion::Time, &["get"]), []);
        assert_eq!(take(&refused, Occasion::Change, &["get"]), [call("get")]);
    }

    #[test]
    fn record_is_bounded() {
        let refused = RefusedCalls::default();
        for at in 0..2 * CALLS {
            refused.add(
                &Need::resource("get", "", "secrets", Some(&format!("n{at}"))),
                None,
            );
        }
        assert_eq!(refused.calls.lock().len(), CALLS);
    }
}

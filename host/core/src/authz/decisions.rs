//! The cached decisions of the authorizer, by subject, and the changes of permissions that end them.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::access::{Access, ServiceAccount};

/// The time after a change during which the authorizer may still answer from its old state.
pub(super) const SETTLE: Duration = Duration::from_secs(2);
/// The lifetime of a decision made during that time.
pub(super) const UNSETTLED: Duration = Duration::from_millis(300);

/// The decisions about all subjects.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) subjects: HashMap<ServiceAccount, Subject>,
    /// The last change of any subject's permissions.
    pub(super) last: Option<Change>,
}

/// The answers about one subject, and the changes of its permissions.
pub(super) struct Subject {
    pub(super) answers: HashMap<Access, Answer>,
    /// The last change of its permissions in a namespace.
    changed_in: HashMap<String, Change>,
    /// The last change of its permissions that hold everywhere.
    changed: Option<Change>,
    /// Counts changes of its permissions.
    pub(super) changes: watch::Sender<u64>,
}

/// A change of permissions. Decisions requested before it are invalid.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) number: u64,
    pub(super) at: Instant,
}

#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// The time at which it was requested.
    pub(super) asked: Instant,
    /// The last change before the request.
    pub(super) change: u64,
    /// True while the decision is being renewed.
    pub(super) renewing: bool,
}

/// The age of a decision in relation to its lifetime.
pub(super) enum Age {
    Fresh,
    Ageing,
    Over,
}

impl Kept {
    /// Returns the decisions about a subject, and records its changes from now on.
    pub(super) fn subject(&mut self, account: &ServiceAccount) -> &mut Subject {
        // The last change may concern this subject.
        let changed = self.last;
        let new =
            || Subject { answers: HashMap::new(), changed_in: HashMap::new(), changed, changes: Default::default() };
        self.subjects.entry(account.clone()).or_insert_with(new)
    }

    /// Calls a function with each known subject that is one of these users, or in one of these groups.
    pub(super) fn concerned(&mut self, names: &BTreeSet<String>, mut call: impl FnMut(&mut Subject)) {
        let accounts: Option<Vec<_>> = names.iter().map(|name| ServiceAccount::of_user(name)).collect();
        if let Some(accounts) = accounts {
            accounts.iter().for_each(|account| {
                if let Some(subject) = self.subjects.get_mut(account) {
                    call(subject);
                }
            });
            return;
        }
        for (account, subject) in &mut self.subjects {
            if names.contains(&account.user()) || account.groups().iter().any(|group| names.contains(group)) {
                call(subject);
            }
        }
    }

    /// Returns a decision and its age. Marks an ageing one as being renewed; the caller renews it.
    pub(super) fn look_up(&mut self, subject: &ServiceAccount, access: &Access, keep: Duration) -> Option<(bool, Age)> {
        let subject = self.subjects.get_mut(subject)?;
        let in_namespace = access.namespace.as_ref().and_then(|namespace| subject.changed_in.get(namespace)).copied();
        let changed = [subject.changed, in_namespace].into_iter().flatten().max_by_key(|change| change.number);
        let answer = subject.answers.get_mut(access)?;
        let old = answer.asked.elapsed();
        let keep = match changed {
            Some(change) if answer.change < change.number => Duration::ZERO,
            Some(change) if answer.asked < change.at + SETTLE => keep.min(UNSETTLED),
            _ => keep,
        };
        let age = if old >= keep {
            Age::Over
        } else if old < keep / 2 || std::mem::replace(&mut answer.renewing, true) {
            Age::Fresh
        } else {
            Age::Ageing
        };
        Some((answer.allowed, age))
    }
}

impl Subject {
    /// Records a change of its permissions in a namespace, or in all of them if there is None.
    pub(super) fn changed(&mut self, namespace: Option<&str>, change: Change) {
        match namespace {
            Some(namespace) => drop(self.changed_in.insert(namespace.to_owned(), change)),
            None => {
                self.changed = Some(change);
                self.changed_in.clear();
                self.answers.clear();
            }
        }
        self.changes.send_modify(|changes| *changes += 1);
    }
}

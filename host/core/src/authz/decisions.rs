//! The authorizer's cached decisions by subject, the reviews in flight, and the permission changes
//! that end decisions.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};

use super::access::{Access, ServiceAccount};
use crate::status::ApiError;

/// How long after a change the authorizer may still answer from its old state.
pub(super) const SETTLE: Duration = Duration::from_secs(2);
/// How long to use a decision made during that time.
pub(super) const UNSETTLED: Duration = Duration::from_millis(300);
/// A decision soon after a change lasts at most this many times as long as the change is ago. So if
/// an authorizer lags more than [`SETTLE`] behind, we ask again soon.
const CAUTION: u32 = 10;
/// Cached decisions per subject. Beyond that, expired ones are dropped, or all of them if none has
/// expired.
pub(super) const ANSWERS: usize = 16_384;

/// Whom a decision is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    ServiceAccount(ServiceAccount),
    Host,
}

/// How long decisions for one purpose may be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetimes {
    /// While changes are not watched. A watched decision lasts at least as long, unless a change
    /// ends it.
    pub(super) unwatched: Duration,
    /// At most, while changes are watched. Decisions last three quarters of it or more, so that
    /// they are not all renewed at once.
    pub(super) watched: Duration,
}

/// A decision, and how long it may be used unless a change ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// When to ask again.
    pub until: Instant,
}

/// The decisions about all subjects.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) subjects: HashMap<Subject, Decisions>,
    /// The last change of any subject's permissions.
    pub(super) last: Option<Change>,
    /// When the watch of changes began; None while they are not watched.
    pub(super) watched_since: Option<Instant>,
    /// The names of the host's user and groups. None until they are known; until then, any change
    /// may concern the host.
    pub(super) host: Option<BTreeSet<String>>,
}

/// The decisions about one subject, and the changes of its permissions.
pub(super) struct Decisions {
    pub(super) answers: HashMap<Access, Answer>,
    pending: HashMap<Access, Pending>,
    /// The last change of its permissions in each namespace.
    changed_in: HashMap<String, Change>,
    /// The last change of its permissions in all namespaces.
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

/// When a decision was requested.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    at: Instant,
    /// The number of the last change before it.
    change: u64,
    /// By how much the longest lifetime is shortened, in units of 1/1024.
    spread: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Answer {
    allowed: bool,
    asked: Asked,
    /// Whether the decision is being renewed.
    renewing: bool,
}

/// The result of a review, set once. If the task making the request is cancelled, another waiting
/// task takes over.
pub(super) type Review = Arc<OnceCell<Result<bool, ApiError>>>;

struct Pending {
    asked: Asked,
    review: Review,
    /// How many tasks are waiting for it.
    waiters: usize,
}

/// A decision's age relative to its lifetime.
pub(super) enum Age {
    Fresh,
    Ageing,
    Over,
}

impl Asked {
    fn lifetime(
        &self,
        changed: Option<Change>,
        watched_since: Option<Instant>,
        lifetimes: Lifetimes,
    ) -> Duration {
        let Lifetimes { unwatched, watched } = lifetimes;
        let ago = |then: Instant| self.at.saturating_duration_since(then);
        let keep = match watched_since {
            // We know of every earlier change, but the authorizer may have started watching at the
            // same moment as the host.
            Some(since) if ago(since) >= SETTLE => {
                let spread = watched.saturating_sub(unwatched) * self.spread / 1024;
                (watched - spread).min(ago(since) * CAUTION).max(unwatched)
            }
            _ => unwatched,
        };

        match changed {
            Some(change) if self.change < change.number => Duration::ZERO,
            Some(change) if self.at < change.at + SETTLE => keep.min(UNSETTLED),
            Some(change) => keep.min(ago(change.at) * CAUTION),
            None => keep,
        }
    }
}

impl Kept {
    /// Returns the number of changes so far, of anybody's permissions.
    pub(super) fn changes(&self) -> u64 {
        self.last.map_or(0, |change| change.number)
    }

    /// Returns the decisions about a subject, recording its changes from now on.
    pub(super) fn of(&mut self, subject: &Subject) -> &mut Decisions {
        // The last change may concern this subject.
        let changed = self.last;
        self.subjects
            .entry(subject.clone())
            .or_insert_with(|| Decisions::new(changed))
    }

    /// Calls a function with the decisions about each known subject among these users, or in one of
    /// these groups.
    pub(super) fn concerned(
        &mut self,
        names: &BTreeSet<String>,
        mut call: impl FnMut(&mut Decisions),
    ) {
        let is_host = self
            .host
            .as_ref()
            .map_or(!names.is_empty(), |host| !host.is_disjoint(names));

        if is_host && let Some(decisions) = self.subjects.get_mut(&Subject::Host) {
            call(decisions);
        }

        let accounts: Option<Vec<_>> = names
            .iter()
            .map(|name| ServiceAccount::of_user(name))
            .collect();

        if let Some(accounts) = accounts {
            accounts.into_iter().for_each(|account| {
                if let Some(decisions) = self.subjects.get_mut(&Subject::ServiceAccount(account)) {
                    call(decisions);
                }
            });
            return;
        }

        for (subject, decisions) in &mut self.subjects {
            let Subject::ServiceAccount(account) = subject else {
                continue;
            };
            if names.contains(&account.user())
                || account.groups().iter().any(|group| names.contains(group))
            {
                call(decisions);
            }
        }
    }

    /// Returns a decision and its age. An ageing one is marked as being renewed, and the caller
    /// must renew it.
    pub(super) fn look_up(
        &mut self,
        subject: &Subject,
        access: &Access,
        lifetimes: Lifetimes,
    ) -> Option<(Decision, Age)> {
        let decisions = self.subjects.get_mut(subject)?;
        let changed = decisions.last_change(access);
        let answer = decisions.answers.get_mut(access)?;
        let keep = answer
            .asked
            .lifetime(changed, self.watched_since, lifetimes);
        let old = answer.asked.at.elapsed();

        let age = if old >= keep {
            Age::Over
        } else if old < keep / 2 || std::mem::replace(&mut answer.renewing, true) {
            Age::Fresh
        } else {
            Age::Ageing
        };

        Some((
            Decision {
                allowed: answer.allowed,
                until: answer.asked.at + keep,
            },
            age,
        ))
    }

    /// Starts a review, or joins the same one in flight if its decision may be used. Must be
    /// followed by [`Self::leave`].
    pub(super) fn join(
        &mut self,
        subject: &Subject,
        access: &Access,
        lifetimes: Lifetimes,
    ) -> (Asked, Review) {
        let watched_since = self.watched_since;
        let change = self.last.map_or(0, |change| change.number);
        let decisions = self.of(subject);
        let changed = decisions.last_change(access);

        if let Some(pending) = decisions.pending.get_mut(access)
            && pending.asked.at.elapsed()
                < pending.asked.lifetime(changed, watched_since, lifetimes)
        {
            pending.waiters += 1;
            return (pending.asked, pending.review.clone());
        }

        let asked = Asked {
            at: Instant::now(),
            change,
            spread: spread(subject, access),
        };
        let pending = Pending {
            asked,
            review: Review::default(),
            waiters: 1,
        };
        let review = pending.review.clone();
        decisions.pending.insert(access.clone(), pending);

        (asked, review)
    }

    /// Ends the wait for a review. The last task to leave removes it.
    pub(super) fn leave(&mut self, subject: &Subject, access: &Access, review: &Review) {
        let Some(decisions) = self.subjects.get_mut(subject) else {
            return;
        };
        let Some(pending) = decisions.pending.get_mut(access) else {
            return;
        };
        if !Arc::ptr_eq(&pending.review, review) {
            return;
        }

        pending.waiters -= 1;
        if pending.waiters == 0 {
            decisions.pending.remove(access);
        }
    }

    /// Records the decision of a review, unless a later one is known. Returns the decision.
    pub(super) fn record(
        &mut self,
        subject: &Subject,
        access: &Access,
        allowed: bool,
        asked: Asked,
        lifetimes: Lifetimes,
    ) -> Decision {
        let watched_since = self.watched_since;
        let decisions = self.of(subject);
        let until =
            asked.at + asked.lifetime(decisions.last_change(access), watched_since, lifetimes);
        let answers = &mut decisions.answers;

        if answers.len() >= ANSWERS && !answers.contains_key(access) {
            answers.retain(|_, answer| {
                asked.at.saturating_duration_since(answer.asked.at) < lifetimes.unwatched
            });
            if answers.len() >= ANSWERS {
                answers.clear();
            }
        }

        if answers
            .get(access)
            .is_none_or(|known| known.asked.at <= asked.at)
        {
            answers.insert(
                access.clone(),
                Answer {
                    allowed,
                    asked,
                    renewing: false,
                },
            );
        }

        Decision { allowed, until }
    }
}

impl Decisions {
    fn new(changed: Option<Change>) -> Self {
        Self {
            answers: HashMap::new(),
            pending: HashMap::new(),
            changed_in: HashMap::new(),
            changed,
            changes: watch::Sender::default(),
        }
    }

    /// The last change that may concern a request.
    fn last_change(&self, access: &Access) -> Option<Change> {
        let in_namespace = access
            .namespace
            .as_ref()
            .and_then(|namespace| self.changed_in.get(namespace))
            .copied();
        [self.changed, in_namespace]
            .into_iter()
            .flatten()
            .max_by_key(|change| change.number)
    }

    /// The namespaces of the bindings that have changed since the change with this number; None for
    /// those that count in all namespaces.
    pub(super) fn causes_since(&self, number: u64) -> BTreeSet<Option<String>> {
        let everywhere = self.changed.map(|change| (None, change));
        let somewhere = self.changed_in.iter();
        let somewhere = somewhere.map(|(namespace, change)| (Some(namespace.clone()), *change));
        everywhere
            .into_iter()
            .chain(somewhere)
            .filter(|(_, change)| change.number > number)
            .map(|(namespace, _)| namespace)
            .collect()
    }

    /// Whether nothing is cached and nobody follows changes.
    pub(super) fn is_unused(&self) -> bool {
        self.answers.is_empty() && self.pending.is_empty() && self.changes.receiver_count() == 0
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.pending.is_empty()
    }

    /// Records a change of its permissions in a namespace, or in all of them with None.
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

/// By how much to shorten the longest lifetime for a request, in units of 1/1024; at most a
/// quarter.
fn spread(subject: &Subject, access: &Access) -> u32 {
    let mut hasher = DefaultHasher::new();
    (subject, access).hash(&mut hasher);
    (hasher.finish() % 256) as u32
}

//! Access reviews: the API server's RBAC decisions, cached.
//!
//! The cache and the watches belong to the host, so the API server cannot check what a plugin reads
//! from them. [`Grants`] does: it allows a cached read or an event only if the API server would
//! allow the plugin's ServiceAccount to make the same request. There is no other rule, and an
//! unknown answer means no.
//!
//! - A decision about a read is used for at most [`Grants::KEEP`], and renewed in the background
//!   after half of that. Decisions about events are used for up to [`Grants::KEEP_WATCHED`] while
//!   changes are watched ([`Grants::set_watched`]). That is no longer than the API server's own
//!   watches last after a single decision.
//! - When a binding or a role changes, the decisions about its subjects become invalid right away,
//!   including those in flight. The authorizer watches RBAC itself and may see the change later
//!   than the host. So decisions soon after a change are used for [`Grants::UNSETTLED`] only, and
//!   later ones for at most ten times as long as the change is ago.
//! - When the watch of changes fails, the long lifetimes end. Once it is back, earlier decisions
//!   are requested again.
//! - Only one instance of a review is in flight, however many tasks wait for it.
//! - If the API server cannot be asked, everything is denied.
//!
//! Denials use the API server's wording and come before the object is looked up.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::{Mutex, RwLock};
use tokio::{sync::watch, time::Instant};

pub use crate::authz::{
    access::{Access, AccessVerb, ReadVerb, ServiceAccount, remedy, remedy_for},
    bindings::BindingText,
    decisions::Decision,
};
use crate::{
    authz::{
        bindings::{Concerned, RoleBindings},
        decisions::{self, Age, Change, Kept, Lifetimes, Review, Subject},
    },
    object::ObjectKey,
    status::{ApiError, ErrorKind},
};

/// A client of the API server's authorizer.
#[async_trait]
pub trait AccessReviewer: Send + Sync {
    /// Asks whether `subject` may make this request.
    ///
    /// # Errors
    /// The API server's error, if it cannot be asked.
    async fn review(&self, subject: &ServiceAccount, access: &Access) -> Result<bool, ApiError>;

    /// Asks whether the host itself may make this request.
    ///
    /// # Errors
    /// The API server's error, if it cannot be asked. Always fails if the reviewer supports only
    /// ServiceAccounts.
    async fn review_host(&self, _: &Access) -> Result<bool, ApiError> {
        Err(ApiError::new(
            ErrorKind::Unavailable,
            "this reviewer reviews ServiceAccounts only",
        ))
    }
}

/// Cached decisions about all subjects of a host, and about the host itself.
pub struct Grants {
    reviewer: Arc<dyn AccessReviewer>,
    /// Whether to ask for each request as it is, instead of a wider one first.
    exact: bool,
    kept: Mutex<Kept>,
    /// Whether changes of permissions are watched.
    watched: watch::Sender<bool>,
    bindings: RwLock<RoleBindings>,
}

impl Grants {
    /// How long a decision may be used. A revoked permission ends after this time even if changes
    /// are not watched.
    pub const KEEP: Duration = Duration::from_secs(4);
    /// How long a decision about events may be used while changes are watched. The API server
    /// decides about a watch only at its beginning, and [lets it last] 30 to 60 minutes by default.
    ///
    /// [lets it last]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/endpoints/handlers/get.go#L276
    pub const KEEP_WATCHED: Duration = Duration::from_secs(1800);
    /// Same as [`Self::KEEP_WATCHED`], for clusters with other authorizers besides RBAC, since
    /// their changes cannot be watched.
    pub const KEEP_WATCHED_EXACT: Duration = Duration::from_secs(60);
    /// How long after a change the authorizer may still answer from its old state.
    pub const SETTLE: Duration = decisions::SETTLE;
    /// How long to use a decision made during that time.
    pub const UNSETTLED: Duration = decisions::UNSETTLED;

    /// Lifetimes of decisions about reads.
    const READS: Lifetimes = Lifetimes {
        unwatched: Self::KEEP,
        watched: Self::KEEP,
    };

    /// Creates a cache of this reviewer's decisions.
    pub fn new(reviewer: Arc<dyn AccessReviewer>) -> Arc<Self> {
        Self::with(reviewer, false)
    }

    /// Like [`Self::new`]. Set `exact` for clusters where an authorizer besides RBAC denies
    /// requests: a permission in all namespaces then does not mean each request is allowed. Each
    /// namespace and name then costs a review.
    pub fn with(reviewer: Arc<dyn AccessReviewer>, exact: bool) -> Arc<Self> {
        Arc::new(Self {
            reviewer,
            exact,
            kept: Mutex::default(),
            watched: watch::Sender::new(false),
            bindings: RwLock::default(),
        })
    }

    /// The cached permissions of one subject.
    pub fn of(self: &Arc<Self>, subject: ServiceAccount) -> SubjectGrants {
        SubjectGrants {
            grants: self.clone(),
            key: Subject::ServiceAccount(subject.clone()),
            subject,
        }
    }

    /// Records a binding that existed before anything was asked; see [`RoleBindings::set`].
    pub fn set_binding(&self, binding: &ObjectKey, text: Option<BindingText<'_>>) {
        self.bindings.write().set(binding, text);
    }

    /// Invalidates the decisions about a binding's subjects after it was created, changed or
    /// deleted (None).
    pub fn binding_changed(&self, binding: &ObjectKey, text: Option<BindingText<'_>>) {
        let concerned = self.bindings.write().set(binding, text);
        self.changed(&[concerned]);
    }

    /// Invalidates the decisions about a role's subjects after it was created, changed or deleted.
    pub fn role_changed(&self, role: &ObjectKey) {
        let concerned = self.bindings.read().bound_to(role);
        self.changed(&concerned);
    }

    fn changed(&self, concerned: &[Concerned]) {
        let mut kept = self.kept.lock();
        let change = Change {
            number: kept.changes() + 1,
            at: Instant::now(),
        };
        kept.last = Some(change);

        for Concerned {
            namespace,
            subjects,
        } in concerned
        {
            kept.concerned(subjects, |decisions| {
                decisions.changed(namespace.as_deref(), change);
            });
        }
    }

    /// Sets whether all changes of bindings and roles will be reported from now on.
    pub fn set_watched(&self, watched: bool) {
        {
            let mut kept = self.kept.lock();
            if kept.watched_since.is_some() != watched {
                kept.watched_since = watched.then(Instant::now);
            }
        }
        self.watched
            .send_if_modified(|before| std::mem::replace(before, watched) != watched);
    }

    /// Sets the names of the host's user and groups. Until then, any change may concern the host.
    pub(super) fn set_host(&self, names: BTreeSet<String>) {
        self.kept.lock().host = Some(names);
    }

    /// Whether each request is asked for as it is.
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// Lifetimes of decisions about events.
    fn events(&self) -> Lifetimes {
        let watched = if self.exact {
            Self::KEEP_WATCHED_EXACT
        } else {
            Self::KEEP_WATCHED
        };
        Lifetimes {
            unwatched: Self::KEEP,
            watched,
        }
    }

    /// Drops the decisions about a subject no plugin uses any more.
    pub fn forget(&self, subject: &ServiceAccount) {
        let mut kept = self.kept.lock();
        if let Some(decisions) = kept
            .subjects
            .get_mut(&Subject::ServiceAccount(subject.clone()))
        {
            decisions.answers = Default::default();
        }
        kept.subjects.retain(|_, decisions| !decisions.is_unused());
    }

    /// A counter of changes of a subject's permissions.
    pub(super) fn changes_of(&self, subject: &Subject) -> watch::Receiver<u64> {
        self.kept.lock().of(subject).changes.subscribe()
    }

    /// Returns the cached decision, renewing it in the background if it is ageing.
    pub(super) fn known(
        self: &Arc<Self>,
        subject: &Subject,
        access: &Access,
        lifetimes: Lifetimes,
    ) -> Option<Decision> {
        let known = self.kept.lock().look_up(subject, access, lifetimes);
        let (decision, age) = known?;
        match age {
            Age::Fresh => Some(decision),
            Age::Ageing => {
                let grants = self.clone();
                let subject = subject.clone();
                let access = access.clone();
                // If the renewal fails, we retry after the decision has expired.
                tokio::spawn(async move { grants.ask(&subject, &access, lifetimes).await.is_ok() });
                Some(decision)
            }
            Age::Over => None,
        }
    }

    /// Returns the cached decision, or asks the API server.
    pub(super) async fn decide(
        self: &Arc<Self>,
        subject: &Subject,
        access: &Access,
        lifetimes: Lifetimes,
    ) -> Result<Decision, ApiError> {
        if let Some(decision) = self.known(subject, access, lifetimes) {
            return Ok(decision);
        }

        self.ask(subject, access, lifetimes).await.map_err(|error| {
            let subject = match subject {
                Subject::ServiceAccount(account) => account.user(),
                Subject::Host => "the host".to_owned(),
            };
            let message = format!("access review of {subject} failed: may it {access}? {error}");
            ApiError::new(ErrorKind::Unavailable, message)
        })
    }

    /// Requests a decision, or waits for the same request in flight.
    async fn ask(
        &self,
        subject: &Subject,
        access: &Access,
        lifetimes: Lifetimes,
    ) -> Result<Decision, ApiError> {
        let (asked, review) = self.kept.lock().join(subject, access, lifetimes);
        let waiter = ReviewWaiter {
            grants: self,
            subject,
            access,
            review,
        };

        let request = async || match subject {
            Subject::ServiceAccount(account) => self.reviewer.review(account, access).await,
            Subject::Host => self.reviewer.review_host(access).await,
        };
        let allowed = waiter.review.get_or_init(request).await.clone()?;

        Ok(self
            .kept
            .lock()
            .record(subject, access, allowed, asked, lifetimes))
    }
}

/// A task waiting for a review in flight. Dropping it, as on cancellation, ends the wait.
struct ReviewWaiter<'a> {
    grants: &'a Grants,
    subject: &'a Subject,
    access: &'a Access,
    review: Review,
}

impl Drop for ReviewWaiter<'_> {
    fn drop(&mut self) {
        self.grants
            .kept
            .lock()
            .leave(self.subject, self.access, &self.review);
    }
}

/// The changes of one subject's permissions, from the time when this was created.
pub struct PermissionChanges {
    grants: Arc<Grants>,
    subject: Subject,
    counter: watch::Receiver<u64>,
    /// The number of the last change of anybody's permissions that was looked at.
    seen: u64,
}

impl PermissionChanges {
    pub(super) fn of(grants: &Arc<Grants>, subject: Subject) -> Self {
        let mut kept = grants.kept.lock();
        let counter = kept.of(&subject).changes.subscribe();
        let seen = kept.changes();
        drop(kept);
        Self {
            grants: grants.clone(),
            subject,
            counter,
            seen,
        }
    }

    /// Waits until there are changes to take. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.counter.changed().await.is_err() {
            // The subject's decisions are kept for as long as somebody follows them.
            std::future::pending::<()>().await;
        }
    }

    /// Returns the namespaces of the bindings that changed since the last call: a RoleBinding's
    /// own, or None for a ClusterRoleBinding.
    pub fn take(&mut self) -> BTreeSet<Option<String>> {
        let mut kept = self.grants.kept.lock();
        self.counter.mark_unchanged();
        let causes = kept.of(&self.subject).causes_since(self.seen);
        self.seen = kept.changes();
        causes
    }
}

/// The cached permissions of one subject.
#[derive(Clone)]
pub struct SubjectGrants {
    grants: Arc<Grants>,
    subject: ServiceAccount,
    /// The same subject, as the key of its decisions.
    key: Subject,
}

impl SubjectGrants {
    /// The ServiceAccount the plugin acts as.
    pub fn subject(&self) -> &ServiceAccount {
        &self.subject
    }

    /// A counter of changes of the subject's permissions.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.grants.changes_of(&self.key)
    }

    /// The changes of the subject's permissions, with their causes.
    pub fn permission_changes(&self) -> PermissionChanges {
        PermissionChanges::of(&self.grants, self.key.clone())
    }

    /// Whether changes of permissions are watched. The lifetimes of decisions about events depend
    /// on it.
    pub fn watched(&self) -> watch::Receiver<bool> {
        self.grants.watched.subscribe()
    }

    /// The namespaces where the subject may have more permissions than in all namespaces. None if
    /// only a review of each namespace can tell: while RoleBindings are not watched, and where an
    /// authorizer besides RBAC may deny requests for all namespaces.
    pub fn namespaces(&self) -> Option<BTreeSet<String>> {
        if self.grants.exact {
            None
        } else {
            self.bound_namespaces()
        }
    }

    /// The namespaces with a RoleBinding for the subject; None while RoleBindings are not watched.
    pub fn bound_namespaces(&self) -> Option<BTreeSet<String>> {
        let is_watched = *self.grants.watched.borrow();
        is_watched.then(|| self.grants.bindings.read().namespaces_of(&self.subject))
    }

    /// Whether a cached decision allows the request. Does not ask the API server, so the result
    /// reveals nothing it has not answered before.
    pub fn is_known_allowed(&self, access: &Access) -> bool {
        let lifetimes = self.grants.events();
        let is_allowed = |access: Access| {
            self.grants
                .known(&self.key, &access, lifetimes)
                .is_some_and(|it| it.allowed)
        };
        access.questions(self.grants.exact).any(is_allowed)
    }

    /// Whether there is a cached decision for the request.
    pub fn is_known(&self, access: &Access) -> bool {
        for ask in access.questions(self.grants.exact) {
            match self.grants.known(&self.key, &ask, Grants::READS) {
                Some(decision) if decision.allowed => return true,
                Some(_) => {}
                None => return false,
            }
        }
        true
    }

    /// Reviews a request in the background, unless it is known to be allowed.
    pub fn learn(&self, access: Access) {
        if self.is_known_allowed(&access) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move { this.allows(&access).await.is_ok() });
    }

    /// Checks that the API server would allow the request.
    ///
    /// # Errors
    /// `Forbidden`, in the API server's wording, if the request is denied; `Unavailable` if the API
    /// server cannot be asked.
    pub async fn check(&self, access: &Access) -> Result<(), ApiError> {
        if self.allows(access).await? {
            Ok(())
        } else {
            Err(access.forbidden(&self.subject))
        }
    }

    /// Whether the API server would allow the request.
    ///
    /// # Errors
    /// `Unavailable` if the API server cannot be asked.
    pub async fn allows(&self, access: &Access) -> Result<bool, ApiError> {
        Ok(self.decide(access, Grants::READS).await?.allowed)
    }

    /// Decides whether the API server would allow these events. The caller follows
    /// [`Self::changes`] and [`Self::watched`], and asks again when the decision expires.
    ///
    /// # Errors
    /// `Unavailable` if the API server cannot be asked.
    pub async fn allows_events(&self, access: &Access) -> Result<Decision, ApiError> {
        self.decide(access, self.grants.events()).await
    }

    /// Asks the questions about a request until one is allowed. A denial lasts until the first of
    /// these decisions expires.
    async fn decide(&self, access: &Access, lifetimes: Lifetimes) -> Result<Decision, ApiError> {
        let mut denied: Option<Decision> = None;
        for ask in access.questions(self.grants.exact) {
            let decision = self.grants.decide(&self.key, &ask, lifetimes).await?;
            if decision.allowed {
                return Ok(decision);
            }
            denied = denied
                .into_iter()
                .chain([decision])
                .min_by_key(|decision| decision.until);
        }

        Ok(denied.unwrap_or_else(|| Decision {
            allowed: false,
            until: Instant::now(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A namespace (None for all), a resource and a name (None for all).
    type Rule = (Option<&'static str>, &'static str, Option<&'static str>);

    /// A reviewer that decides by rules and counts the requests.
    #[derive(Default)]
    struct Rules {
        rules: Mutex<HashSet<Rule>>,
        asked: Mutex<Vec<Access>>,
        down: Mutex<bool>,
        slow: Duration,
    }

    #[async_trait]
    impl AccessReviewer for Rules {
        async fn review(&self, _: &ServiceAccount, access: &Access) -> Result<bool, ApiError> {
            self.asked.lock().push(access.clone());
            let matches = |rule: &Rule| {
                (rule.0.is_none() || rule.0 == access.namespace.as_deref())
                    && rule.1 == access.resource
                    && (rule.2.is_none() || rule.2 == access.name.as_deref())
            };
            let allowed = self.rules.lock().iter().any(matches);
            if *self.down.lock() {
                return Err(ApiError::new(ErrorKind::Unavailable, "connection refused"));
            }
            tokio::time::sleep(self.slow).await;
            Ok(allowed)
        }
    }

    fn account() -> ServiceAccount {
        ServiceAccount {
            namespace: "team".into(),
            name: "plugin".into(),
        }
    }

    fn access(namespace: Option<&str>, resource: &str, name: Option<&str>) -> Access {
        Access {
            verb: ReadVerb::Get.into(),
            group: String::new(),
            version: "v1".into(),
            resource: resource.into(),
            namespace: namespace.map(Into::into),
            name: name.map(Into::into),
        }
    }

    /// Reports a change of the account's permissions in a namespace.
    fn changed(grants: &SubjectGrants, namespace: &str) {
        let subjects = BTreeSet::from([account().user()]);
        grants.grants.changed(&[Concerned {
            namespace: Some(namespace.to_owned()),
            subjects,
        }]);
    }

    fn grants(rules: &[Rule]) -> (Arc<Rules>, SubjectGrants) {
        let rules = Arc::new(Rules {
            rules: Mutex::new(rules.iter().copied().collect()),
            ..Rules::default()
        });
        (rules.clone(), Grants::new(rules).of(account()))
    }

    #[tokio::test(start_paused = true)]
    async fn allows_exactly_what_rbac_allows() {
        let (_, grants) = grants(&[
            (Some("a"), "pods", None),
            (None, "nodes", None),
            (Some("b"), "secrets", Some("one")),
        ]);
        for (namespace, resource, name, allowed) in [
            (Some("a"), "pods", None, true),
            (Some("a"), "pods", Some("x"), true),
            (Some("b"), "pods", None, false),
            (None, "pods", None, false),
            (Some("a"), "secrets", None, false),
            (None, "nodes", Some("n"), true),
            (Some("b"), "secrets", Some("one"), true),
            (Some("b"), "secrets", Some("two"), false),
            (Some("b"), "secrets", None, false),
            (Some("a"), "secrets", Some("one"), false),
        ] {
            let asked = access(namespace, resource, name);
            assert_eq!(
                grants.allows(&asked).await.expect("answered"),
                allowed,
                "{asked} {name:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn asks_once_for_a_cluster_wide_permission() {
        let (rules, grants) = grants(&[(None, "pods", None)]);
        for namespace in ["a", "b", "c"] {
            assert!(
                grants
                    .allows(&access(Some(namespace), "pods", Some("x")))
                    .await
                    .expect("answered")
            );
        }
        assert_eq!(rules.asked.lock().len(), 1);
    }

    /// RBAC that allows everything, behind an authorizer that denies what is in kube-system, and
    /// Secrets named `key`.
    #[derive(Default)]
    struct Denying(Mutex<Vec<Access>>);

    #[async_trait]
    impl AccessReviewer for Denying {
        async fn review(&self, _: &ServiceAccount, access: &Access) -> Result<bool, ApiError> {
            self.0.lock().push(access.clone());
            Ok(access.namespace.as_deref() != Some("kube-system")
                && access.name.as_deref() != Some("key"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn exact_reviews_respect_an_authorizer_that_denies() {
        let reviewer = Arc::new(Denying::default());
        let exact = Grants::with(reviewer.clone(), true).of(account());
        for (namespace, name, allowed) in [
            (Some("a"), Some("x"), true),
            (Some("kube-system"), Some("x"), false),
            (Some("a"), Some("key"), false),
            (Some("kube-system"), None, false),
            (Some("a"), None, true),
            (None, None, true),
            (Some("kube-system"), Some("y"), false),
        ] {
            let asked = access(namespace, "secrets", name);
            assert_eq!(
                exact.allows(&asked).await.expect("answered"),
                allowed,
                "{asked} {name:?}"
            );
            assert_eq!(exact.is_known_allowed(&asked), allowed, "{asked} {name:?}");
            assert_eq!(
                reviewer.0.lock().pop(),
                Some(asked),
                "the question is the request"
            );
        }
        assert!(reviewer.0.lock().is_empty(), "one question each");
        let wide = Grants::new(reviewer).of(account());
        let passed_by = wide
            .allows(&access(Some("kube-system"), "secrets", Some("x")))
            .await;
        assert!(
            passed_by.expect("answered"),
            "the default is for RBAC alone, as docs/permissions.md says"
        );
    }

    #[test]
    fn exact_reviews_do_not_rely_on_bindings() {
        for (exact, namespaces) in [(false, Some(BTreeSet::new())), (true, None)] {
            let grants = Grants::with(Arc::new(Rules::default()), exact);
            grants.set_watched(true);
            let own = grants.of(account());
            assert_eq!(
                (own.namespaces(), own.bound_namespaces()),
                (namespaces, Some(BTreeSet::new())),
                "{exact}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn revoked_permission_ends_on_change_or_expiry() {
        let (rules, grants) = grants(&[(Some("a"), "pods", None)]);
        let pods = access(Some("a"), "pods", None);
        assert!(grants.allows(&pods).await.expect("answered"));
        rules.rules.lock().clear();
        assert!(grants.allows(&pods).await.expect("kept"));
        changed(&grants, "other");
        assert!(
            grants.allows(&pods).await.expect("kept"),
            "another namespace's change is not ours"
        );
        changed(&grants, "a");
        assert!(!grants.allows(&pods).await.expect("asked again"));
        tokio::time::sleep(Grants::SETTLE).await;
        assert!(!grants.allows(&pods).await.expect("asked again"));
        rules.rules.lock().insert((Some("a"), "pods", None));
        assert!(!grants.allows(&pods).await.expect("kept"));
        tokio::time::sleep(Grants::KEEP).await;
        assert!(grants.allows(&pods).await.expect("asked again"));
    }

    #[tokio::test(start_paused = true)]
    async fn role_binding_churn_concerns_its_subjects_only() {
        let (rules, own) = grants(&[(Some("a"), "pods", None)]);
        let other = own.grants.of(ServiceAccount {
            namespace: "other".into(),
            name: "plugin".into(),
        });
        let pods = access(Some("a"), "pods", None);
        for grants in [&own, &other] {
            grants.allows(&pods).await.expect("answered");
        }
        let mut changes = own.changes();
        let mut others = other.changes();
        let role = r#"{"kind":"Role","name":"r"}"#;
        let binding = |subjects: &str| {
            let key = ObjectKey::namespaced("a", "b");
            own.grants
                .binding_changed(&key, Some(BindingText { subjects, role }));
        };
        let asked = rules.asked.lock().len();
        let plugin = |namespace: &str| {
            format!(r#"[{{"kind":"ServiceAccount","namespace":"{namespace}","name":"plugin"}}]"#)
        };
        let group = |name: &str| format!(r#"[{{"kind":"Group","name":"{name}"}}]"#);
        let mut concerned = || {
            let both =
                [&mut changes, &mut others].map(|changes| changes.has_changed().expect("open"));
            changes.mark_unchanged();
            others.mark_unchanged();
            both
        };
        for at in 0..1_000 {
            binding(&plugin(&format!("somebody-{at}")));
        }
        assert_eq!(concerned(), [false, false]);
        for grants in [&own, &other] {
            grants.allows(&pods).await.expect("kept");
        }
        assert_eq!(rules.asked.lock().len(), asked, "nobody asks again");
        binding(&plugin("other"));
        assert_eq!(concerned(), [false, true]);
        own.grants.role_changed(&ObjectKey::namespaced("a", "r"));
        assert_eq!(concerned(), [false, true]);
        own.grants.role_changed(&ObjectKey::namespaced("b", "r"));
        assert_eq!(concerned(), [false, false], "a role of another namespace");
        binding(&group("system:serviceaccounts:team"));
        assert_eq!(concerned(), [true, true], "one lost it, one got it");
        binding(&group("system:authenticated"));
        assert_eq!(concerned(), [true, true]);
        binding(&group("system:authenticated"));
        assert_eq!(concerned(), [false, false], "nothing has changed");
        own.allows(&pods).await.expect("asked again");
        assert!(rules.asked.lock().len() > asked);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_a_change_has_overtaken_is_not_kept() {
        let rules = Rules {
            slow: Duration::from_secs(1),
            ..Rules::default()
        };
        rules.rules.lock().insert((Some("a"), "pods", None));
        let rules = Arc::new(rules);
        let grants = Grants::new(rules.clone()).of(account());
        let pods = access(Some("a"), "pods", None);
        let before = {
            let grants = grants.clone();
            let pods = pods.clone();
            tokio::spawn(async move { grants.allows(&pods).await })
        };
        tokio::time::sleep(Duration::from_millis(1500)).await;
        rules.rules.lock().clear();
        changed(&grants, "a");
        assert!(
            before.await.expect("ends").expect("answered"),
            "it was asked before the change"
        );
        assert!(!grants.allows(&pods).await.expect("answered"));
    }

    #[tokio::test(start_paused = true)]
    async fn asks_a_lagging_authorizer_again_soon() {
        let (rules, grants) = grants(&[]);
        let pods = access(Some("a"), "pods", None);
        changed(&grants, "a");
        assert!(!grants.allows(&pods).await.expect("asked too early"));
        rules.rules.lock().insert((Some("a"), "pods", None));
        tokio::time::sleep(Grants::UNSETTLED).await;
        assert!(
            grants
                .allows_events(&pods)
                .await
                .expect("asked again")
                .allowed
        );
    }

    /// Rules that allow pods in namespace `a`, and a cache of their decisions whose changes have
    /// been watched for long.
    async fn long_watched(exact: bool) -> (Arc<Rules>, Arc<Grants>) {
        let rules = Rules {
            rules: Mutex::new(HashSet::from([(Some("a"), "pods", None)])),
            ..Rules::default()
        };
        let rules = Arc::new(rules);
        let all = Grants::with(rules.clone(), exact);
        all.set_watched(true);
        tokio::time::sleep(Grants::KEEP_WATCHED).await;
        (rules, all)
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_decided_for_half_an_hour_while_changes_are_watched() {
        let pods = access(Some("a"), "pods", None);
        for (exact, keep) in [
            (false, Grants::KEEP_WATCHED),
            (true, Grants::KEEP_WATCHED_EXACT),
        ] {
            let (rules, all) = long_watched(exact).await;
            let grants = all.of(account());
            let decision = grants.allows_events(&pods).await.expect("answered");
            let lasts = decision.until - Instant::now();
            assert!(
                decision.allowed && lasts > keep * 7 / 10 && lasts <= keep,
                "{lasts:?}"
            );
            rules.rules.lock().clear();
            tokio::time::sleep(lasts / 2 - Duration::from_secs(1)).await;
            assert_eq!(grants.allows_events(&pods).await.expect("kept"), decision);
            assert!(
                !grants.allows(&pods).await.expect("asked again"),
                "a read is decided for seconds"
            );
            rules.rules.lock().insert((Some("a"), "pods", None));
            tokio::time::sleep(Grants::KEEP).await;
            assert!(grants.allows(&pods).await.expect("asked again"));
            rules.rules.lock().clear();
            let watched = grants.watched();
            all.set_watched(false);
            assert!(
                watched.has_changed().expect("open"),
                "who relies on the long lifetime learns that it is over"
            );
            tokio::time::sleep(Grants::KEEP).await;
            assert!(
                !grants
                    .allows_events(&pods)
                    .await
                    .expect("asked again")
                    .allowed
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn change_ends_long_decision_at_once() {
        let (rules, all) = long_watched(false).await;
        let grants = all.of(account());
        let pods = access(Some("a"), "pods", None);
        assert!(grants.allows_events(&pods).await.expect("answered").allowed);
        rules.rules.lock().clear();
        changed(&grants, "a");
        assert!(
            !grants
                .allows_events(&pods)
                .await
                .expect("asked again")
                .allowed
        );
    }

    #[tokio::test(start_paused = true)]
    async fn decision_without_watch_is_requested_again_once_watched() {
        let (rules, all) = long_watched(false).await;
        let grants = all.of(account());
        let pods = access(Some("a"), "pods", None);
        all.set_watched(false);
        assert!(grants.allows_events(&pods).await.expect("answered").allowed);
        // The watch missed it.
        rules.rules.lock().clear();
        all.set_watched(true);
        assert!(grants.allows_events(&pods).await.expect("kept").allowed);
        tokio::time::sleep(Grants::KEEP).await;
        assert!(
            !grants
                .allows_events(&pods)
                .await
                .expect("asked again")
                .allowed
        );
    }

    #[tokio::test(start_paused = true)]
    async fn decision_soon_after_change_lasts_in_proportion() {
        let (_, all) = long_watched(false).await;
        let grants = all.of(account());
        let pods = access(Some("a"), "pods", None);
        for (ago, lasts) in [(0, 0.3), (1, 0.3), (3, 30.0), (60, 600.0)] {
            changed(&grants, "a");
            tokio::time::sleep(Duration::from_secs(ago)).await;
            let until = grants.allows_events(&pods).await.expect("answered").until;
            assert_eq!(
                until - Instant::now(),
                Duration::from_secs_f64(lasts),
                "{ago} s after the change"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn decisions_of_one_moment_do_not_expire_together() {
        let (_, all) = long_watched(false).await;
        let mut expired = BTreeSet::new();
        for number in 0..100 {
            let grants = all.of(ServiceAccount {
                namespace: "team".into(),
                name: format!("plugin-{number}"),
            });
            expired.insert(
                grants
                    .allows_events(&access(None, "pods", None))
                    .await
                    .expect("answered")
                    .until,
            );
        }
        let first = expired.first().expect("one").duration_since(Instant::now());
        let last = expired.last().expect("one").duration_since(Instant::now());
        assert!(
            expired.len() > 70 && last - first > Grants::KEEP_WATCHED / 5,
            "{first:?} to {last:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn same_review_is_in_flight_once() {
        let rules = Arc::new(Rules {
            rules: Mutex::new(HashSet::from([(None, "pods", None)])),
            slow: Duration::from_secs(1),
            ..Rules::default()
        });
        let grants = Grants::new(rules.clone()).of(account());
        let pods = access(None, "pods", None);
        let ask = || {
            let grants = grants.clone();
            let pods = pods.clone();
            tokio::spawn(async move { grants.allows(&pods).await.expect("answered") })
        };
        let first = ask();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let others = [(); 9].map(|()| ask());
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(rules.asked.lock().len(), 1);
        // The others do not depend on who asked.
        first.abort();
        for other in others {
            assert!(other.await.expect("ends"));
        }
        assert_eq!(rules.asked.lock().len(), 2);

        // A review from before a change is not joined.
        changed(&grants, "elsewhere");
        tokio::time::sleep(Grants::KEEP).await;
        let before = ask();
        tokio::time::sleep(Duration::from_millis(100)).await;
        rules.rules.lock().clear();
        grants.grants.changed(&[Concerned {
            namespace: None,
            subjects: BTreeSet::from([account().user()]),
        }]);
        assert!(!ask().await.expect("ends"));
        assert!(
            before.await.expect("ends"),
            "it was asked before the change"
        );
        assert!(
            !grants.allows(&pods).await.expect("known"),
            "the answer of before the change is not kept"
        );
        assert!(
            grants.grants.kept.lock().of(&grants.key).is_quiet(),
            "no review is left behind"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn changes_name_their_causes_and_concern_their_subjects_only() {
        let grants = Grants::new(Arc::<Rules>::default());
        let bind = |namespace: Option<&str>, subject: &str| {
            let binding = ObjectKey {
                namespace: namespace.map(str::to_owned),
                name: "binding".to_owned(),
            };
            let text = BindingText {
                subjects: &format!("[{subject}]"),
                role: r#"{"kind":"ClusterRole","name":"edit"}"#,
            };
            grants.binding_changed(&binding, Some(text));
        };
        let own = r#"{"kind":"ServiceAccount","namespace":"team","name":"plugin"}"#;
        let other = r#"{"kind":"ServiceAccount","namespace":"team","name":"other"}"#;
        let group = r#"{"kind":"Group","name":"system:serviceaccounts:team"}"#;

        bind(Some("before"), own);
        let mut changes = grants.of(account()).permission_changes();
        bind(Some("a"), other);
        assert!(!changes.counter.has_changed().expect("open"));
        assert_eq!(changes.take(), BTreeSet::new());

        bind(Some("a"), own);
        bind(Some("b"), group);
        changes.changed().await;
        let causes = ["a", "b"].map(|namespace| Some(namespace.to_owned()));
        assert_eq!(changes.take(), BTreeSet::from(causes));
        assert_eq!(changes.take(), BTreeSet::new());

        // Who is no subject any more is concerned as well.
        bind(Some("a"), other);
        assert_eq!(changes.take(), BTreeSet::from([Some("a".to_owned())]));
        bind(None, own);
        assert_eq!(changes.take(), BTreeSet::from([None]));
        grants.role_changed(&ObjectKey::cluster_scoped("edit"));
        assert!(changes.take().contains(&None));
        assert!(!changes.counter.has_changed().expect("open"));
    }

    #[tokio::test(start_paused = true)]
    async fn renews_ageing_decision_in_background() {
        let (rules, grants) = grants(&[(None, "pods", None)]);
        let pods = access(None, "pods", None);
        assert!(grants.allows(&pods).await.expect("answered"));
        rules.rules.lock().clear();
        tokio::time::sleep(Grants::KEEP / 2).await;
        assert!(grants.allows(&pods).await.expect("kept"));
        tokio::task::yield_now().await;
        assert!(!grants.allows(&pods).await.expect("renewed"));
    }

    #[tokio::test(start_paused = true)]
    async fn denies_when_api_server_is_unavailable() {
        let (rules, grants) = grants(&[(None, "pods", None)]);
        *rules.down.lock() = true;
        let error = grants
            .check(&access(None, "pods", None))
            .await
            .expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(
            error
                .status
                .message
                .contains("failed: may it get pods in all namespaces?"),
            "{error}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn bounds_decisions_cached_for_one_subject() {
        let (_, grants) = grants(&[]);
        for number in 0..decisions::ANSWERS + 10 {
            let asked = access(Some("a"), "secrets", Some(&number.to_string()));
            assert!(!grants.allows(&asked).await.expect("answered"));
        }
        assert!(
            grants.grants.kept.lock().subjects[&grants.key]
                .answers
                .len()
                <= decisions::ANSWERS
        );
    }

    #[test]
    fn remedy_for_names_that_kubernetes_does_not_allow_is_none() {
        let evil = "a$($(curl$IFS$9evil))";
        let pods = ("", "pods");
        for (what, namespace, object) in [
            (pods, Some(evil), None),
            (pods, Some("--all"), None),
            (pods, Some("a\nb"), None),
            (("", evil), Some("a"), None),
            (("", "pods/$(id)"), Some("a"), None),
            (("a;b", "pods"), Some("a"), None),
            (pods, Some("a"), Some("a b")),
            (pods, Some("a"), Some("a\u{1b}[2J")),
            (pods, Some("a"), Some("../x")),
        ] {
            let remedy = remedy_for(&account(), "get", what, namespace, object);
            assert_eq!(remedy, None, "{what:?} {namespace:?} {object:?}");
        }

        let named = remedy_for(&account(), "get", pods, Some("a"), Some("system:a$(id)"));
        let named = named
            .expect("a name of RBAC's kinds may have these")
            .to_string();
        assert!(named.contains("'--resource-name=system:a$(id)'"), "{named}");
    }

    #[test]
    fn refusal_has_api_server_words_and_a_runnable_remedy() {
        let shown = |what, verbs, namespace| {
            let remedy = remedy(&account(), verbs, what, namespace);
            remedy.expect("these are names").to_string()
        };
        let asked = Access {
            group: "apps".into(),
            ..access(Some("a"), "deployments", Some("web"))
        };
        assert_eq!(
            asked.forbidden(&account()).status.message,
            "deployments.apps \"web\" is forbidden: User \"system:serviceaccount:team:plugin\" cannot get resource \
             \"deployments\" in API group \"apps\" in the namespace \"a\""
        );
        assert_eq!(
            shown(("apps", "deployments"), "list,watch", Some("a")),
            "kubectl create role plugin-deployments-list-watch -n a --verb=list,watch --resource=deployments.apps && \
             kubectl create rolebinding plugin-deployments-list-watch -n a --role=plugin-deployments-list-watch \
             --serviceaccount=team:plugin"
        );
        let status = shown(("apps", "deployments/status"), "update", None);
        assert!(
            status.starts_with(
                "kubectl create clusterrole plugin-deployments-status-update --verb=update"
            ) && status.contains("--resource=deployments.apps/status "),
            "{status}"
        );
    }

    #[test]
    fn remedy_quotes_names_for_the_shell_and_bounds_those_it_makes() {
        let about = |object: &str| {
            let secrets = ("", "secrets");
            let remedy = remedy_for(&account(), "get", secrets, Some("a"), Some(object));
            remedy.expect("it can be written").to_string()
        };
        assert!(about("web").contains(" --resource-name=web && "));

        let command = about("a;'$(reboot)");
        assert!(
            command.contains("create role plugin-secrets-a----reboot--get "),
            "{command}"
        );

        let command = about(&"o".repeat(253));
        let role = command.split_whitespace().nth(3).expect("a name");
        assert!(
            role.len() <= 253 && command.contains(&format!("--role={role} ")),
            "{command}"
        );
    }
}

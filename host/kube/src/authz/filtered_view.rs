//! A plugin's view of a shared informer: events of the namespaces RBAC allows it to list and watch.
//!
//! A [`FilteredView`] sits between an informer and a handler. It guarantees:
//!
//! - the handler receives nothing of a namespace before the API server has confirmed that the
//!   plugin's ServiceAccount may list and watch the resource there;
//! - once confirmed, it receives all objects of that namespace in the store as additions, and then
//!   each change. Deletions during the review are not lost, with one limit: of objects that also
//!   appeared during the review, at most 1,000 are kept. As after a relist, the handler doesn't
//!   learn of the others;
//! - a failed review decides nothing: the handler receives nothing until the next one, and then
//!   catches up;
//! - when the permission is revoked, the handler receives nothing more: right away if a role or a
//!   binding changed, otherwise once the decision expires. It is not notified of later deletions;
//! - a namespace costs one access review, not one per object.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{StreamExt, stream};
use operetta_core::{
    authz::access_review::{Decision, Grants, ReadVerb, ServiceAccount, SubjectGrants, remedy},
    handler::event::Event,
    object::{ObjectKey, selector::required_name},
    remedy::Advice,
    status::{ApiError, ErrorKind},
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::Instant,
};

use crate::{
    authz::{access_review::reading, pending_deletions::PendingDeletions},
    discovery::ApiResource,
    informer::{Handler, Informer, Subscription},
    store::Lookup,
};

/// How many locations are reviewed at once.
const AT_ONCE: usize = 8;

/// Where objects are: a namespace, or None for cluster-scoped objects.
type Location = Option<String>;

/// A plugin's view of an informer. Dropping it stops calls to its handler.
pub struct FilteredView {
    subscription: Subscription,
    inner: Arc<Inner>,
    state: watch::Receiver<ViewState>,
    task: AbortHandle,
}

/// The state of a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewState {
    /// Whether the access review of the view's scope is decided.
    pub asked: bool,
    /// Whether the full scope of the view is visible: its namespace, or all of them.
    pub whole: bool,
    /// The visible namespaces with objects, unless the full scope is visible.
    pub visible: BTreeSet<String>,
    /// The error, if the API server could not be asked.
    pub error: Option<String>,
    /// Whether the error is the API server asking us to wait (code 429).
    pub throttled: bool,
}

impl ViewState {
    /// Whether the access reviews are decided and allow nothing.
    pub fn sees_nothing(&self) -> bool {
        self.asked && !self.whole && self.visible.is_empty() && self.error.is_none()
    }
}

struct Inner {
    grants: SubjectGrants,
    handler: Handler,
    /// The namespace of the view; events elsewhere are ignored. None for all namespaces.
    only: Location,
    /// The name required by the informer's field selector. Permission for that name is enough.
    name: Option<String>,
    locations: Mutex<BTreeMap<Location, Visibility>>,
    wake: Notify,
}

/// The outcome of reviewing all locations.
struct Reviewed {
    state: ViewState,
    /// When the first decision expires.
    until: Instant,
}

enum Visibility {
    /// Undecided.
    Asked(PendingDeletions),
    Visible,
    Hidden,
}

impl Visibility {
    fn asked() -> Self {
        Self::Asked(PendingDeletions::default())
    }

    /// Waits for another decision. Deletions are kept from now on, if they weren't already.
    fn suspend(&mut self) {
        if matches!(self, Self::Visible) {
            *self = Self::asked();
        }
    }
}

impl FilteredView {
    /// Opens a view of `informer` for `handler`, limited to `grants` and to the namespace `only`,
    /// or to all namespaces.
    pub fn open(
        informer: &Arc<Informer>,
        grants: SubjectGrants,
        only: Option<String>,
        handler: Handler,
        resync: Option<Duration>,
    ) -> Self {
        let only = only.filter(|_| informer.resource.namespaced);
        let name = required_name(&informer.scope.fields);
        // Review the scope right away: the plugin's status should report it even before there are
        // objects.
        let locations = Mutex::new(BTreeMap::from([(only.clone(), Visibility::asked())]));

        let inner = Arc::new(Inner {
            grants,
            handler,
            only,
            name,
            locations,
            wake: Notify::new(),
        });

        let delivered = inner.clone();
        let subscription = informer.subscribe(Arc::new(move |event| delivered.take(event)), resync);
        let (sender, state) = watch::channel(ViewState::default());
        let task =
            tokio::spawn(decide(inner.clone(), Arc::downgrade(informer), sender)).abort_handle();

        Self {
            subscription,
            inner,
            state,
            task,
        }
    }

    /// The informer.
    pub fn informer(&self) -> &Arc<Informer> {
        self.subscription.informer()
    }

    /// The permission to make the full scope visible, with the commands to grant it.
    pub fn needs(&self) -> Advice {
        let Inner { grants, only, .. } = &*self.inner;
        right_to_watch(grants.subject(), &self.informer().resource, only.as_deref())
    }

    /// Follows the state.
    pub fn state(&self) -> watch::Receiver<ViewState> {
        self.state.clone()
    }
}

impl Drop for FilteredView {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Describes an account's missing permission to watch a resource in one namespace or in all, with
/// the commands to grant it.
pub fn right_to_watch(
    account: &ServiceAccount,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> Advice {
    let access = reading(resource, ReadVerb::Watch, namespace, None);
    let renamed = resource
        .renamed()
        .map(|renamed| format!(" ({renamed})"))
        .unwrap_or_default();
    let right = format!(
        "ServiceAccount {}/{} may not list and {access}{renamed}",
        account.namespace, account.name
    );

    // A reconciler also reads the objects of its events.
    let group_resource = (access.group.as_str(), access.resource.as_str());
    let remedy = remedy(
        account,
        "get,list,watch",
        group_resource,
        access.namespace.as_deref(),
    );
    Advice::from(right).with(": ", remedy)
}

/// The namespaces where a plugin may list and watch a resource; None for all of them. If it may not
/// everywhere, only `home` and namespaces with a RoleBinding for the plugin's ServiceAccount are
/// reviewed.
///
/// # Errors
/// The API server's error, if it cannot be asked.
pub async fn watchable_namespaces(
    resource: &ApiResource,
    name: Option<&str>,
    only: Option<&str>,
    home: Option<&str>,
    grants: &SubjectGrants,
) -> Result<Option<BTreeSet<String>>, ApiError> {
    if may_watch(resource, name, only, grants).await?.allowed {
        return Ok(only.map(|only| BTreeSet::from([only.to_owned()])));
    }
    if only.is_some() || !resource.namespaced {
        return Ok(Some(BTreeSet::new()));
    }

    let candidates = grants
        .bound_namespaces()
        .unwrap_or_default()
        .into_iter()
        .chain(home.map(str::to_owned));
    let candidates: BTreeSet<String> = candidates.collect();
    let asked = stream::iter(candidates).map(async |namespace| {
        let may = may_watch(resource, name, Some(&namespace), grants).await?;
        Ok::<_, ApiError>(may.allowed.then_some(namespace))
    });
    let answers: Vec<_> = asked.buffered(AT_ONCE).collect().await;

    answers
        .into_iter()
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()
        .map(Some)
}

/// Whether a plugin with these grants may see an object in its views: whether it may list and watch
/// the resource in the object's namespace, or by the object's name.
///
/// # Errors
/// The API server's error, if it cannot be asked.
pub async fn may_see(
    resource: &ApiResource,
    object: &ObjectKey,
    grants: &SubjectGrants,
) -> Result<bool, ApiError> {
    let namespace = object.namespace.as_deref();
    let is_out_of_reach = namespace.is_some_and(|namespace| {
        grants
            .namespaces()
            .is_some_and(|namespaces| !namespaces.contains(namespace))
    });

    // Nothing is asked about each object where no RoleBinding says more than the ClusterRoleBindings.
    let decision = if is_out_of_reach {
        may_watch(resource, None, None, grants).await?
    } else {
        may_watch(resource, Some(&object.name), namespace, grants).await?
    };
    Ok(decision.allowed)
}

/// Decides whether the subject may list and watch a resource. A permission lasts until the first of
/// the two decisions expires.
async fn may_watch(
    resource: &ApiResource,
    name: Option<&str>,
    namespace: Option<&str>,
    grants: &SubjectGrants,
) -> Result<Decision, ApiError> {
    let list = grants
        .allows_events(&reading(resource, ReadVerb::List, namespace, name))
        .await?;
    if !list.allowed {
        return Ok(list);
    }

    let watch = grants
        .allows_events(&reading(resource, ReadVerb::Watch, namespace, name))
        .await?;
    Ok(if watch.allowed {
        Decision {
            until: list.until.min(watch.until),
            ..watch
        }
    } else {
        watch
    })
}

impl Inner {
    /// Handles an event on the informer's task, one at a time.
    fn take(&self, event: &Event) {
        if self.delivers(event) {
            (self.handler)(event);
        }
    }

    /// Whether an event is delivered now. Where there is no decision yet, deletions are kept.
    fn delivers(&self, event: &Event) -> bool {
        let location = &event.object().key().namespace;
        if self.only.is_some() && self.only != *location {
            return false;
        }

        let mut locations = self.locations.lock();
        if matches!(locations.get(&None), Some(Visibility::Visible)) {
            return true;
        }

        if !locations.contains_key(location) {
            // Without a RoleBinding for the subject there, no review is needed.
            let is_hidden = self.is_out_of_reach(location);
            locations.insert(
                location.clone(),
                if is_hidden {
                    Visibility::Hidden
                } else {
                    Visibility::asked()
                },
            );

            if !is_hidden {
                self.wake.notify_one();
            }
        }

        let own = match locations.get(location) {
            Some(Visibility::Visible) => return true,
            Some(Visibility::Asked(_)) => location,
            // All namespaces may still become visible.
            _ => &None,
        };
        if let Some(Visibility::Asked(pending)) = locations.get_mut(own) {
            pending.take(event);
        }

        false
    }

    /// Reviews all known locations, delivering the objects of those becoming visible.
    async fn review_all(&self, informer: &Informer) -> Reviewed {
        let state = ViewState {
            asked: true,
            ..ViewState::default()
        };
        let mut reviewed = Reviewed {
            state,
            until: Instant::now() + Grants::KEEP_WATCHED,
        };
        let decision = self.sees(informer, &self.only).await;
        reviewed.state.whole = self.decided(informer, &self.only, decision, &mut reviewed);
        reviewed.state.asked = reviewed.state.error.is_none();
        if self.only.is_some() || reviewed.state.whole {
            return reviewed;
        }

        let within_reach = self.grants.namespaces();
        let is_asked = |location: &&Location| match (location, &within_reach) {
            (None, _) => false,
            (Some(namespace), Some(within_reach)) => within_reach.contains(namespace),
            (Some(_), None) => true,
        };

        let locations: Vec<Location> = {
            let mut locations = self.locations.lock();
            // All others are hidden without a review.
            for (location, visibility) in locations
                .iter_mut()
                .filter(|(location, _)| location.is_some())
            {
                if !is_asked(&location) {
                    *visibility = Visibility::Hidden;
                }
            }
            locations.keys().filter(is_asked).cloned().collect()
        };

        let mut answers = stream::iter(locations)
            .map(async |location| (self.sees(informer, &location).await, location))
            .buffer_unordered(AT_ONCE);

        while let Some((answer, location)) = answers.next().await {
            if self.decided(informer, &location, answer, &mut reviewed) {
                reviewed.state.visible.extend(location);
            }
        }

        reviewed
    }

    /// Whether the subject has no permissions in a namespace beyond those it has everywhere.
    fn is_out_of_reach(&self, location: &Location) -> bool {
        let Some(namespace) = location else {
            return false;
        };
        self.grants
            .namespaces()
            .is_some_and(|namespaces| !namespaces.contains(namespace))
    }

    async fn sees(&self, informer: &Informer, location: &Location) -> Result<Decision, ApiError> {
        may_watch(
            &informer.resource,
            self.name.as_deref(),
            location.as_deref(),
            &self.grants,
        )
        .await
    }

    /// Records a decision, delivering the objects becoming visible. After an error, nothing is
    /// delivered until the next review, which soon follows.
    fn decided(
        &self,
        informer: &Informer,
        location: &Location,
        answer: Result<Decision, ApiError>,
        reviewed: &mut Reviewed,
    ) -> bool {
        let Decision {
            allowed: visible,
            until,
        } = match answer {
            Ok(decision) => decision,
            Err(error) => {
                reviewed.state.throttled = error.kind == ErrorKind::TooManyRequests;
                reviewed.state.error = Some(error.status.message);
                reviewed.until = reviewed.until.min(Instant::now() + Grants::KEEP);
                self.locations
                    .lock()
                    .entry(location.clone())
                    .and_modify(Visibility::suspend);
                return false;
            }
        };

        reviewed.until = reviewed.until.min(until);
        let visibility = if visible {
            Visibility::Visible
        } else {
            Visibility::Hidden
        };
        // An object that comes now is delivered once: either it is in the store already, or its event
        // finds the location visible.
        let _paused = visible.then(|| informer.pause());
        let mut locations = self.locations.lock();
        let before = locations.insert(location.clone(), visibility);
        let mut undecided = Vec::new();

        if visible && location.is_none() {
            // The full scope contains all others.
            undecided = std::mem::replace(
                &mut *locations,
                BTreeMap::from([(None, Visibility::Visible)]),
            )
            .into_values()
            .collect();
        }

        drop(locations);
        if !visible || matches!(before, Some(Visibility::Visible)) {
            return visible;
        }

        for object in informer
            .cache
            .store
            .list(&Lookup::All, location.as_deref(), None)
        {
            (self.handler)(&Event::Added {
                object,
                initial: true,
            });
        }

        undecided.extend(before);
        for visibility in undecided {
            if let Visibility::Asked(pending) = visibility {
                pending
                    .deleted()
                    .iter()
                    .for_each(|event| (self.handler)(event));
            }
        }

        true
    }
}

/// Reviews again when a new location appears, when permissions change, when watching them fails or
/// recovers, and when decisions expire. The authorizer may not have seen a change yet; that is why
/// decisions soon after one expire soon.
async fn decide(inner: Arc<Inner>, informer: Weak<Informer>, sender: watch::Sender<ViewState>) {
    let mut changes = inner.grants.changes();
    let mut watched = inner.grants.watched();
    loop {
        changes.mark_unchanged();
        watched.mark_unchanged();
        let next = Instant::now() + Grants::UNSETTLED;
        let Reviewed { state, until } = {
            let Some(informer) = informer.upgrade() else {
                return;
            };
            inner.review_all(&informer).await
        };

        sender.send_if_modified(|before| std::mem::replace(before, state.clone()) != state);
        tokio::select! {
            () = inner.wake.notified() => {}
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                // Treat changes in quick succession as one.
                tokio::time::sleep_until(next).await;
            }
            // The decisions may expire sooner now.
            Ok(()) = watched.changed() => {}
            () = tokio::time::sleep_until(until.max(next)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use async_trait::async_trait;
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use operetta_core::{
        authz::access_review::{Access, AccessReviewer},
        object::{ManagedFields, Object, kind::GroupVersionKind},
        status::ErrorKind,
    };

    use super::*;
    use crate::{
        authz::pending_deletions::PASSING,
        client::api_client::{ApiClient, Identity},
        informer::{Scope, registry::InformerRegistry},
    };

    /// A reviewer that allows everything or nothing or fails, and counts the requests.
    #[derive(Default)]
    struct Switch {
        allows: AtomicBool,
        fails: AtomicBool,
        asked: AtomicUsize,
    }

    #[async_trait]
    impl AccessReviewer for Switch {
        async fn review(&self, _: &ServiceAccount, _: &Access) -> Result<bool, ApiError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if self.fails.load(Ordering::Relaxed) {
                return Err(ApiError::new(
                    ErrorKind::Unavailable,
                    "no answer".to_owned(),
                ));
            }
            Ok(self.allows.load(Ordering::Relaxed))
        }
    }

    /// A reviewer that allows to list everywhere, and to watch in one namespace, or one name in all
    /// others.
    struct Narrow;

    #[async_trait]
    impl AccessReviewer for Narrow {
        async fn review(&self, _: &ServiceAccount, access: &Access) -> Result<bool, ApiError> {
            let is_list = access.verb.as_str() == "list";
            let is_own = access.namespace.as_deref() == Some("team");
            let is_named = access.name.as_deref() == Some("known");
            Ok(is_list || is_own || is_named)
        }
    }

    #[tokio::test]
    async fn object_is_seen_by_whom_rbac_lets_list_and_watch_it() {
        let account = ServiceAccount {
            namespace: "team".to_owned(),
            name: "plugin".to_owned(),
        };
        let grants = Grants::new(Arc::new(Narrow)).of(account);
        let informer = pods();
        let resource = &informer.resource;

        for (namespace, name, is_seen) in [
            ("team", "a", true),
            ("other", "a", false),
            ("other", "known", true),
        ] {
            let object = ObjectKey::namespaced(namespace, name);
            let seen = may_see(resource, &object, &grants).await;
            assert_eq!(seen, Ok(is_seen), "{object}");
        }
    }

    #[tokio::test]
    async fn nothing_is_asked_about_an_object_beyond_all_role_bindings() {
        let switch = Arc::new(Switch::default());
        let grants = Grants::new(switch.clone());
        grants.set_watched(true);
        let account = ServiceAccount {
            namespace: "team".to_owned(),
            name: "plugin".to_owned(),
        };
        let grants = grants.of(account);
        let informer = pods();
        let resource = &informer.resource;

        for name in ["a", "b", "c"] {
            let object = ObjectKey::namespaced("other", name);
            assert_eq!(may_see(resource, &object, &grants).await, Ok(false));
        }
        let asked = switch.asked.load(Ordering::Relaxed);
        assert_eq!(asked, 1, "whether it may list Pods in all namespaces");
    }

    /// An informer of Pods whose API server never answers.
    fn pods() -> Arc<Informer> {
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, ApiError>>()
        });
        let api_client =
            ApiClient::new(Client::new(silent, "default"), &Identity::Host).expect("a client");
        let resource = ApiResource {
            kind: GroupVersionKind::new("v1", "Pod"),
            plural: "pods".to_owned(),
            namespaced: true,
            subresources: vec![],
            watchable: true,
            former_plural: None,
        };
        InformerRegistry::new(api_client).informer(&Arc::new(resource), Scope::everything())
    }

    fn pod(name: &str) -> Arc<Object> {
        let metadata = format!(
            r#"{{"namespace": "team", "name": "{name}", "uid": "uid-{name}", "resourceVersion": "1"}}"#
        );
        let text = format!(r#"{{"metadata": {metadata}}}"#);
        let kind = GroupVersionKind::new("v1", "Pod");
        Arc::new(Object::from_json(&text, &kind, ManagedFields::Drop).expect("an object"))
    }

    #[tokio::test(start_paused = true)]
    async fn view_closes_when_the_decision_of_another_view_expires() {
        let switch = Arc::new(Switch {
            allows: AtomicBool::new(true),
            ..Switch::default()
        });
        let grants = Grants::new(switch.clone());
        grants.set_watched(true);
        tokio::time::sleep(Grants::KEEP_WATCHED).await;
        let grants = grants.of(ServiceAccount {
            namespace: "team".to_owned(),
            name: "plugin".to_owned(),
        });
        let informer = pods();
        let open = || FilteredView::open(&informer, grants.clone(), None, Arc::new(|_| {}), None);
        let is_open = |view: &FilteredView| view.state().borrow().whole;

        let first = open();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(is_open(&first));
        let expires = may_watch(&informer.resource, None, None, &grants)
            .await
            .expect("known")
            .until;
        assert_eq!(switch.asked.load(Ordering::Relaxed), 2, "list and watch");

        tokio::time::sleep_until(expires - Duration::from_secs(10)).await;
        assert_eq!(
            switch.asked.load(Ordering::Relaxed),
            2,
            "nothing else is asked meanwhile"
        );
        // An authorizer whose changes no watch reports.
        switch.allows.store(false, Ordering::Relaxed);
        let second = open();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(is_open(&first) && is_open(&second));
        tokio::time::sleep_until(expires + Duration::from_secs(1)).await;
        assert!(!is_open(&first) && !is_open(&second));
    }

    #[tokio::test(start_paused = true)]
    async fn failed_review_holds_deletions_until_the_decision() {
        for is_revoked in [false, true] {
            let switch = Arc::new(Switch {
                allows: AtomicBool::new(true),
                ..Switch::default()
            });
            let grants = Grants::new(switch.clone());
            let grants = grants.of(ServiceAccount {
                namespace: "team".to_owned(),
                name: "plugin".to_owned(),
            });
            let deleted = Arc::new(AtomicUsize::new(0));
            let counted = deleted.clone();
            let handler: Handler = Arc::new(move |event| {
                counted.fetch_add(
                    usize::from(matches!(event, Event::Deleted { .. })),
                    Ordering::Relaxed,
                );
            });
            let view = FilteredView::open(&pods(), grants, None, handler, None);
            let delete = || view.inner.take(&Event::deleted(pod("a")));
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(view.state().borrow().whole);

            switch.fails.store(true, Ordering::Relaxed);
            tokio::time::sleep(Grants::KEEP * 3).await;
            assert!(view.state().borrow().error.is_some());
            delete();
            tokio::time::sleep(Grants::KEEP * 3).await;
            assert_eq!(
                deleted.load(Ordering::Relaxed),
                0,
                "delivered without a decision"
            );

            switch.allows.store(!is_revoked, Ordering::Relaxed);
            switch.fails.store(false, Ordering::Relaxed);
            tokio::time::sleep(Grants::KEEP * 2).await;
            assert_eq!(
                deleted.load(Ordering::Relaxed),
                usize::from(!is_revoked),
                "revoked: {is_revoked}"
            );
            delete();
            assert_eq!(
                deleted.load(Ordering::Relaxed),
                2 * usize::from(!is_revoked),
                "revoked: {is_revoked}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deletions_that_wait_for_a_decision_are_bounded() {
        let switch = Arc::new(Switch {
            allows: AtomicBool::new(true),
            ..Switch::default()
        });
        let grants = Grants::new(switch.clone());
        let grants = grants.of(ServiceAccount {
            namespace: "team".to_owned(),
            name: "plugin".to_owned(),
        });
        let deleted = Arc::new(Mutex::new(Vec::new()));
        let noted = deleted.clone();
        let handler: Handler = Arc::new(move |event| {
            if matches!(event, Event::Deleted { .. }) {
                noted.lock().push(event.object().key().name.clone());
            }
        });
        let view = FilteredView::open(&pods(), grants, None, handler, None);
        let waiting = || -> usize {
            let locations = view.inner.locations.lock();
            let count = |visibility: &Visibility| match visibility {
                Visibility::Asked(pending) => pending.len(),
                Visibility::Visible | Visibility::Hidden => 0,
            };
            locations.values().map(count).sum()
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        switch.fails.store(true, Ordering::Relaxed);
        tokio::time::sleep(Grants::KEEP * 3).await;
        let before = pod("before");
        for index in 0..10_000 {
            let object = pod(&format!("passing-{index}"));
            view.inner.take(&Event::Added {
                object: object.clone(),
                initial: false,
            });
            view.inner.take(&Event::Modified {
                old: object.clone(),
                object: object.clone(),
            });
            view.inner.take(&Event::deleted(object));
            assert!(waiting() <= PASSING + 1, "{} wait", waiting());
            if index == 5_000 {
                view.inner.take(&Event::deleted(before.clone()));
            }
        }
        switch.fails.store(false, Ordering::Relaxed);
        tokio::time::sleep(Grants::KEEP * 2).await;
        let deleted = deleted.lock();
        assert_eq!(deleted.len(), PASSING + 1);
        assert_eq!(
            deleted[PASSING], "before",
            "an object that was there before is never left out"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn views_of_one_account_share_reviews() {
        let switch = Arc::new(Switch {
            allows: AtomicBool::new(true),
            ..Switch::default()
        });
        let grants = Grants::new(switch.clone());
        grants.set_watched(true);
        tokio::time::sleep(Grants::KEEP_WATCHED).await;
        let informer = pods();
        let mut views = Vec::new();
        for account in 0..3 {
            let grants = grants.of(ServiceAccount {
                namespace: "team".to_owned(),
                name: format!("plugin-{account}"),
            });
            for _ in 0..20 {
                views.push(FilteredView::open(
                    &informer,
                    grants.clone(),
                    None,
                    Arc::new(|_| {}),
                    None,
                ));
            }
        }
        let hours = 10;
        tokio::time::sleep(Duration::from_secs(3600) * hours).await;
        let asked = switch.asked.load(Ordering::Relaxed);
        // List and watch of each account, with lifetimes of 22 to 30 minutes.
        let most = 3 * 2 * (3 * hours as usize);
        assert!(
            (most * 2 / 3..=most).contains(&asked),
            "{asked} reviews in {hours} hours"
        );
        drop(views);
    }
}

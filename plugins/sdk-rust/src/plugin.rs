//! The plugin an author writes down: its controllers, what each watches, and the function that reconciles.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::json::decode;
use crate::manifest::{
    ControllerManifest, Index, Manifest, Mapping, OwnerKind, Predicate, RateLimiter, Source, Text, Watch,
};
use crate::mapping::{self, MapEvent, MappedWatch};
use crate::options::Read;
use crate::{Action, Context, Error, GroupVersionKind, Kind, ObjectKey, Request};

type ReconcileFn = Box<dyn Fn(&Context, &Request) -> Result<Action, Error>>;
/// `None`: the object is gone, and the author's function was not asked.
type MaybeReconcileFn = Box<dyn Fn(&Context, &Request) -> Result<Option<Action>, Error>>;

/// Everything a `.wasm` holds. [`plugin!`](crate::plugin!) exports it.
///
/// ```
/// use operetta_sdk::k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use operetta_sdk::{Action, Context, Controller, Error, Plugin};
///
/// fn plugin() -> Plugin {
///     Plugin::new().controller(Controller::new("copier", reconcile).owns::<Secret>().workers(2))
/// }
///
/// fn reconcile(ctx: &Context, source: ConfigMap) -> Result<Action, Error> {
///     Ok(Action::done())
/// }
/// # assert!(plugin().manifest().contains("copier"));
/// ```
#[derive(Default)]
#[must_use]
pub struct Plugin {
    controllers: Vec<Controller>,
    indexes: Vec<Index>,
}

impl Plugin {
    /// A plugin without controllers; it needs one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a controller. Names differ within a plugin.
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Declares an index over the cached objects of a kind, for [`ListOptions::index`](crate::ListOptions::index).
    /// `path` says where the indexed value stands, e.g. `.spec.nodeName`: a string, number or boolean.
    pub fn index<T: Kind>(mut self, name: impl Into<Text>, path: impl Into<Text>) -> Self {
        let GroupVersionKind { api_version, kind } = GroupVersionKind::of::<T>();
        let path = Some(path.into());
        self.indexes.push(Index { name: name.into(), api_version, kind, path, controller: None });
        self
    }

    /// Declares an index of the cached objects of a kind by the name of their controlling owner, as far as that is of the
    /// kind `owner`: the children of one name, even of an owner that is gone.
    pub fn index_by_controller<T: Kind>(mut self, name: impl Into<Text>, owner: GroupVersionKind) -> Self {
        let GroupVersionKind { api_version, kind } = GroupVersionKind::of::<T>();
        let controller = Some(OwnerKind { api_version: owner.api_version, kind: owner.kind });
        self.indexes.push(Index { name: name.into(), api_version, kind, path: None, controller });
        self
    }

    /// The manifest that the host reads.
    ///
    /// # Panics
    /// If a controller says neither by its function nor by [`Controller::for_`] what it reconciles, or says two kinds.
    pub fn manifest(&self) -> String {
        let controllers = self.controllers.iter().map(Controller::manifest).collect();
        let manifest =
            Manifest { api_version: "operetta.dev/v1alpha1", kind: "Manifest", controllers, indexes: &self.indexes };
        serde_json::to_string(&manifest).unwrap_or_default()
    }

    /// Hands a request to the controller that it names.
    pub(crate) fn reconcile(&self, ctx: &Context) -> Result<Action, Error> {
        let request = ctx.request();
        let Some(controller) = self.controllers.iter().find(|controller| controller.name == request.controller) else {
            return Err(Error::terminal(format!("this plugin has no controller {:?}", request.controller)));
        };
        match ((controller.reconcile)(ctx, request)?, &controller.when_gone) {
            (Some(action), _) => Ok(action),
            (None, Some(when_gone)) => when_gone(ctx, request),
            (None, None) => Ok(Action::done()),
        }
    }

    /// Which keys an event of a watched object wakes, as the functions of [`Controller::watches_mapped`] say: those of the
    /// old state, too.
    ///
    /// # Errors
    /// When there is no such controller, or the object does not fit its type.
    pub fn map(&self, event: &MapEvent) -> Result<Vec<ObjectKey>, Error> {
        let Some(controller) = self.controllers.iter().find(|controller| controller.name == event.controller) else {
            return Err(Error::terminal(format!("this plugin has no controller {:?}", event.controller)));
        };
        mapping::keys(controller.mapped.iter(), event)
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn indexes(&self) -> &[Index] {
        &self.indexes
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("controllers", &self.controllers).field("indexes", &self.indexes).finish()
    }
}

/// A function that reconciles. Three forms are one, told apart by the second argument:
///
/// | function | what it gets |
/// |---|---|
/// | `fn(&Context, &Request)` | the key; read what you need. Say the kind with [`Controller::for_`] |
/// | `fn(&Context, Foo)` | the object; if it is gone, [`Controller::when_gone`] is asked instead |
/// | `fn(&Context, Option<Foo>)` | the object, or `None` if it is gone |
///
/// A closure is told by the types of its arguments: `|ctx: &Context, foo: Foo| …`.
///
/// `Form` is found by the compiler.
pub trait Reconciler<Form> {
    #[doc(hidden)]
    fn into_parts(self) -> (MaybeReconcileFn, Option<GroupVersionKind>);
}

/// The forms of a [`Reconciler`].
#[doc(hidden)]
#[derive(Debug)]
pub enum ByRequest {}
#[doc(hidden)]
#[derive(Debug)]
pub struct ByObject<T>(PhantomData<T>);
#[doc(hidden)]
#[derive(Debug)]
pub struct ByOption<T>(PhantomData<T>);

impl<F> Reconciler<ByRequest> for F
where
    F: Fn(&Context, &Request) -> Result<Action, Error> + 'static,
{
    fn into_parts(self) -> (MaybeReconcileFn, Option<GroupVersionKind>) {
        (Box::new(move |ctx, request| self(ctx, request).map(Some)), None)
    }
}

impl<T, F> Reconciler<ByObject<T>> for F
where
    T: Kind,
    F: Fn(&Context, T) -> Result<Action, Error> + 'static,
{
    fn into_parts(self) -> (MaybeReconcileFn, Option<GroupVersionKind>) {
        let call: MaybeReconcileFn =
            Box::new(move |ctx, request| fetch(ctx, request)?.map(|object| self(ctx, object)).transpose());
        (call, Some(GroupVersionKind::of::<T>()))
    }
}

impl<T, F> Reconciler<ByOption<T>> for F
where
    T: Kind,
    F: Fn(&Context, Option<T>) -> Result<Action, Error> + 'static,
{
    fn into_parts(self) -> (MaybeReconcileFn, Option<GroupVersionKind>) {
        let call: MaybeReconcileFn = Box::new(move |ctx, request| self(ctx, fetch(ctx, request)?).map(Some));
        (call, Some(GroupVersionKind::of::<T>()))
    }
}

/// The object of a request. One that does not fit its type is not asked for again until it changes.
fn fetch<T: Kind>(ctx: &Context, request: &Request) -> Result<Option<T>, Error> {
    let kind = GroupVersionKind::of::<T>();
    match ctx.read_text(&kind, &request.key, Read::Cached) {
        Ok(text) => decode(&kind, &text).map(Some).map_err(|error| Error::from(error).into_terminal()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// One controller: the kind it reconciles, what else enqueues keys of that kind, and the function that reconciles.
#[must_use]
pub struct Controller {
    name: Text,
    reconcile: MaybeReconcileFn,
    /// The kind that the function takes; `for_` is of the same.
    takes: Option<GroupVersionKind>,
    when_gone: Option<ReconcileFn>,
    for_: Option<Source>,
    owns: Vec<Source>,
    watches: Vec<Watch>,
    mapped: Vec<MappedWatch>,
    workers: u32,
    resync_seconds: u32,
    rate_limiter: Option<RateLimiter>,
    own_namespace: bool,
    event_filters: Vec<Predicate>,
}

impl Controller {
    /// A controller with a name (a DNS label) and the function that reconciles; see [`Reconciler`] for its forms.
    pub fn new<Form>(name: impl Into<Text>, reconcile: impl Reconciler<Form>) -> Self {
        let (reconcile, kind) = reconcile.into_parts();
        Self {
            name: name.into(),
            reconcile,
            takes: kind.clone(),
            when_gone: None,
            for_: kind.map(Source::kind),
            owns: Vec::new(),
            watches: Vec::new(),
            mapped: Vec::new(),
            workers: 1,
            resync_seconds: 0,
            rate_limiter: None,
            own_namespace: false,
            event_filters: Vec::new(),
        }
    }

    /// The kind that is reconciled: each of its events enqueues the object's own key. A function that takes the object
    /// says this by its type.
    pub fn for_<T: Kind>(self) -> Self {
        self.for_source(Source::of::<T>())
    }

    /// The kind that is reconciled, and which of its objects and events.
    pub fn for_source(self, source: Source) -> Self {
        Self { for_: Some(source), ..self }
    }

    /// A kind whose objects this controller makes: their events enqueue the controlling owner.
    pub fn owns<T: Kind>(self) -> Self {
        self.owns_source(Source::of::<T>())
    }

    /// A kind whose objects this controller makes, and which of its objects and events.
    pub fn owns_source(mut self, source: Source) -> Self {
        self.owns.push(source);
        self
    }

    /// Another kind whose events enqueue keys by a mapping.
    pub fn watches(mut self, source: Source, map: Mapping) -> Self {
        self.watches.push(Watch { source, map });
        self
    }

    /// Another kind whose events enqueue the keys that a function names (controller-runtime's
    /// `EnqueueRequestsFromMapFunc`). It is asked of the object and, when that has changed, of its old state as well, so
    /// that both are woken; of a deleted object it is asked of the last state. It names at most 1,000 keys, and it cannot
    /// read other objects. The plugin is exported by [`mapping_plugin!`](crate::mapping_plugin!).
    ///
    /// # Panics
    /// If the source is of another kind than the function takes.
    pub fn watches_mapped<T: Kind, K: Into<ObjectKey>>(
        mut self,
        source: Source,
        map: impl Fn(T) -> Vec<K> + 'static,
    ) -> Self {
        let (takes, watched) = (GroupVersionKind::of::<T>(), source.group_version_kind());
        assert!(takes == watched, "controller {:?} watches {watched}, but its function maps {takes}", self.name);
        self.mapped.push(MappedWatch::new(source, map));
        self
    }

    /// What to do when the object is gone, for a function that takes the object itself. Nothing, if not said.
    pub fn when_gone(self, reconcile: impl Fn(&Context, &Request) -> Result<Action, Error> + 'static) -> Self {
        Self { when_gone: Some(Box::new(reconcile)), ..self }
    }

    /// How many keys are reconciled at once, 1 to 64; 1 if not said. A key never runs twice at once.
    pub fn workers(self, workers: u32) -> Self {
        Self { workers, ..self }
    }

    /// Enqueue every key again after this time, rounded up to a second; never, if not said.
    pub fn resync(self, period: Duration) -> Self {
        let seconds = period.as_millis().div_ceil(1_000);
        Self { resync_seconds: seconds.try_into().unwrap_or(u32::MAX), ..self }
    }

    /// How fast failed and requeued keys come back.
    pub fn rate_limiter(self, limiter: RateLimiter) -> Self {
        Self { rate_limiter: Some(limiter), ..self }
    }

    /// Watch the Plugin's own namespace only, with every source.
    pub fn own_namespace(self) -> Self {
        Self { own_namespace: true, ..self }
    }

    /// An event filter on every source (controller-runtime's `WithEventFilter`). For one source, say it on the
    /// [`Source`].
    pub fn event_filter(mut self, predicate: Predicate) -> Self {
        self.event_filters.push(predicate);
        self
    }

    fn manifest(&self) -> ControllerManifest<'_> {
        let Some(for_) = &self.for_ else {
            panic!("controller {:?} does not say what it reconciles: call `.for_::<Kind>()`", self.name);
        };
        if let Some(takes) = self.takes.as_ref().filter(|takes| **takes != for_.group_version_kind()) {
            panic!("controller {:?} is for {}, but its function takes {takes}", self.name, for_.group_version_kind());
        }
        let watch = |watch: &Watch| Watch { source: self.source(&watch.source), map: watch.map.clone() };
        let mapped = |watch: &MappedWatch| Watch { source: self.source(&watch.source), map: Mapping::custom() };
        ControllerManifest {
            name: &self.name,
            for_: self.source(for_),
            owns: self.owns.iter().map(|source| self.source(source)).collect(),
            watches: self.watches.iter().map(watch).chain(self.mapped.iter().map(mapped)).collect(),
            workers: self.workers,
            resync_seconds: self.resync_seconds,
            rate_limiter: self.rate_limiter,
        }
    }

    /// A source with what holds for all of them.
    fn source(&self, source: &Source) -> Source {
        let source = self.event_filters.iter().cloned().fold(source.clone(), Source::predicate);
        if self.own_namespace { source.own_namespace() } else { source }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, for_, owns, watches, .. } = self;
        let mut debug = f.debug_struct("Controller");
        debug.field("name", name).field("for", for_).field("owns", owns).field("watches", watches);
        debug.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_index_is_by_a_path_or_by_the_controlling_owner() {
        let controller = Controller::new("c", |_: &Context, _: &Request| Ok(Action::done())).for_::<Pod>();
        let owner = GroupVersionKind::new("apps/v1", "ReplicaSet");
        let plugin = Plugin::new().controller(controller).index::<Pod>("node", ".spec.nodeName");
        let manifest = plugin.index_by_controller::<Pod>("owner", owner).manifest();
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        let indexes = json!([
            {"name": "node", "apiVersion": "v1", "kind": "Pod", "path": ".spec.nodeName"},
            {
                "name": "owner", "apiVersion": "v1", "kind": "Pod",
                "controller": {"apiVersion": "apps/v1", "kind": "ReplicaSet"},
            },
        ]);
        assert_eq!(manifest["indexes"], indexes);
    }

    #[test]
    fn a_watch_with_a_function_names_the_keys_of_the_old_state_and_of_the_new_one() {
        let nodes = |pod: Pod| pod.spec.and_then(|spec| spec.node_name).map(ObjectKey::cluster_scoped);
        let controller = Controller::new("c", |_: &Context, _: &Request| Ok(Action::done()))
            .for_::<k8s_openapi::api::core::v1::Node>()
            .watches_mapped(Source::of::<Pod>(), move |pod| nodes(pod).into_iter().collect());
        let plugin = Plugin::new().controller(controller);
        let manifest: Value = serde_json::from_str(&plugin.manifest()).expect("JSON");
        let watch = json!({"source": {"apiVersion": "v1", "kind": "Pod"}, "map": {"type": "Custom"}});
        assert_eq!(manifest["controllers"][0]["watches"], json!([watch]));
        let on =
            |node: &str| json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": []}}).to_string();
        let event = |controller: &str, object: String, old: Option<String>| {
            let (controller, kind) = (controller.to_owned(), GroupVersionKind::of::<Pod>());
            plugin.map(&MapEvent { controller, kind, object, old })
        };
        let names = |keys: Result<Vec<ObjectKey>, Error>| {
            keys.expect("keys").into_iter().map(|key| key.name).collect::<Vec<_>>()
        };
        assert_eq!(names(event("c", on("a"), None)), ["a"]);
        assert_eq!(names(event("c", on("b"), Some(on("a")))), ["b", "a"]);
        assert_eq!(names(event("c", on("a"), Some(on("a")))), ["a"]);
        assert!(event("d", on("a"), None).is_err());
        assert!(event("c", "{\"spec\":1}".to_owned(), None).is_err());
    }

    #[test]
    fn predicates_are_written_as_the_manifest_has_them() {
        let ready = Predicate::matches("$.status.ready");
        let filter = Predicate::any([Predicate::LabelsChanged, Predicate::not(ready)]);
        let source = Source::of::<Pod>().predicate(Predicate::changed("$.spec"));
        let controller = Controller::new("c", |_: &Context, _: &Request| Ok(Action::done())).for_source(source);
        let manifest = Plugin::new().controller(controller.event_filter(filter)).manifest();
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        let predicates =
            json!([{"changed": "$.spec"}, {"any": ["LabelsChanged", {"not": {"matches": "$.status.ready"}}]}]);
        assert_eq!(manifest["controllers"][0]["for"]["predicates"], predicates);
    }
}

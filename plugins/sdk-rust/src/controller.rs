//! One controller: its kind, the events that enqueue keys of that kind, and the function that
//! reconciles them.

use std::fmt;
use std::time::Duration;

use operetta_api::manifest;

use crate::manifest::{Mapping, Predicate, RateLimiter, Source};
use crate::mapping::MappedWatch;
use crate::reconciler::{MaybeReconcileFn, Reconciler};
use crate::{Action, Context, Error, GroupVersionKind, Kind, ObjectKey, Request};

type ReconcileFn = Box<dyn Fn(&Context, &Request) -> Result<Action, Error>>;

/// One controller: the kind that it reconciles, the events that enqueue keys of that kind, and the
/// function that reconciles.
///
/// ```
/// use std::time::Duration;
///
/// use operetta_sdk::k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use operetta_sdk::{Action, Context, Controller, Error, Plugin};
///
/// fn reconcile(ctx: &Context, map: ConfigMap) -> Result<Action, Error> {
///     Ok(Action::done())
/// }
///
/// let controller = Controller::new("copier", reconcile).owns::<Secret>().workers(2).resync(Duration::from_secs(600));
/// # assert!(Plugin::new().controller(controller).manifest().contains("copier"));
/// ```
#[must_use]
pub struct Controller {
    pub(crate) name: String,
    handler: Handler,
    triggers: Triggers,
    finalizers: Vec<String>,
    workers: u32,
    resync_seconds: u32,
    rate_limiter: Option<RateLimiter>,
}

/// The author's functions.
struct Handler {
    reconcile: MaybeReconcileFn,
    /// The kind that `reconcile` takes; [`Triggers::for_`] must be of the same kind.
    takes: Option<GroupVersionKind>,
    /// The function for keys whose object does not exist, if `reconcile` takes the object.
    when_gone: Option<ReconcileFn>,
}

/// The sources of a controller, and the restrictions of all of them.
#[derive(Default)]
struct Triggers {
    for_: Option<Source>,
    owns: Vec<Source>,
    watches: Vec<manifest::Watch>,
    mapped: Vec<MappedWatch>,
    own_namespace: bool,
    event_filters: Vec<Predicate>,
}

impl Controller {
    /// Returns a controller with a name (a DNS label) and the function that reconciles; see
    /// [`Reconciler`] for its forms.
    pub fn new<Form>(name: impl Into<String>, reconcile: impl Reconciler<Form>) -> Self {
        let (reconcile, kind) = reconcile.into_parts();
        let for_ = kind.clone().map(Source::kind);

        Self {
            name: name.into(),
            handler: Handler {
                reconcile,
                takes: kind,
                when_gone: None,
            },
            triggers: Triggers {
                for_,
                ..Triggers::default()
            },
            finalizers: Vec::new(),
            workers: 1,
            resync_seconds: 0,
            rate_limiter: None,
        }
    }

    /// Sets the kind that is reconciled: each event of an object enqueues the object's own key. A
    /// function that takes the object sets it by its type.
    pub fn for_<T: Kind>(self) -> Self {
        self.for_source(Source::of::<T>())
    }

    /// Sets the kind that is reconciled, and a selection of its objects and events.
    pub fn for_source(mut self, source: Source) -> Self {
        self.triggers.for_ = Some(source);
        self
    }

    /// Watches a kind whose objects this controller creates: their events enqueue the controlling
    /// owner.
    pub fn owns<T: Kind>(self) -> Self {
        self.owns_source(Source::of::<T>())
    }

    /// Watches a selection of a kind whose objects this controller creates: their events enqueue
    /// the controlling owner.
    pub fn owns_source(mut self, source: Source) -> Self {
        self.triggers.owns.push(source);
        self
    }

    /// Watches another kind, whose events enqueue keys by a mapping.
    pub fn watches(mut self, source: Source, map: Mapping) -> Self {
        self.triggers.watches.push(manifest::Watch {
            source: source.0,
            map,
        });
        self
    }

    /// Watches another kind, whose events enqueue the keys that a function returns
    /// (controller-runtime's `EnqueueRequestsFromMapFunc`).
    ///
    /// The function is called with the object and, when that has changed, with its old state as
    /// well: the keys of both are enqueued. For a deleted object it is called with the last state.
    /// It returns at most 1,000 keys, and it cannot read other objects. Export such a plugin with
    /// [`mapping_plugin!`](crate::mapping_plugin!).
    ///
    /// # Panics
    /// Panics if the kind of the source differs from that of the function's argument.
    pub fn watches_mapped<T: Kind, K: Into<ObjectKey>>(
        mut self,
        source: Source,
        map: impl Fn(T) -> Vec<K> + 'static,
    ) -> Self {
        let takes = T::gvk();
        let watched = source.group_version_kind();
        assert!(
            takes == watched,
            "controller {:?} watches {watched}, but its function maps {takes}",
            self.name
        );

        self.triggers.mapped.push(MappedWatch::new(source, map));
        self
    }

    /// Sets the function for keys whose object does not exist, for a controller whose function
    /// takes the object itself. Without it, such a key is done.
    pub fn when_gone(
        mut self,
        reconcile: impl Fn(&Context, &Request) -> Result<Action, Error> + 'static,
    ) -> Self {
        self.handler.when_gone = Some(Box::new(reconcile));
        self
    }

    /// Declares a finalizer that the controller puts on the objects that it reconciles, e.g. by
    /// [`finalizer`]. With it, `operetta generate rbac` grants the verbs `update` and `patch` on
    /// the kind.
    ///
    /// [`finalizer`]: crate::finalizer
    pub fn finalizer(mut self, name: impl Into<String>) -> Self {
        self.finalizers.push(name.into());
        self
    }

    /// Sets the number of keys that are reconciled at once, 1 to 64; 1 by default. A key is never
    /// reconciled twice at once.
    pub fn workers(self, workers: u32) -> Self {
        Self { workers, ..self }
    }

    /// Enqueues every key again after this time, rounded up to a second; never by default.
    pub fn resync(self, period: Duration) -> Self {
        let seconds = period.as_millis().div_ceil(1_000);
        Self {
            resync_seconds: seconds.try_into().unwrap_or(u32::MAX),
            ..self
        }
    }

    /// Sets the rate limiter of failed and requeued keys.
    pub fn rate_limiter(self, limiter: RateLimiter) -> Self {
        Self {
            rate_limiter: Some(limiter),
            ..self
        }
    }

    /// Restricts every source to the Plugin's own namespace.
    pub fn own_namespace(mut self) -> Self {
        self.triggers.own_namespace = true;
        self
    }

    /// Adds an event filter to every source (controller-runtime's `WithEventFilter`).
    /// [`Source::predicate`] adds one to a single source.
    pub fn event_filter(mut self, predicate: Predicate) -> Self {
        self.triggers.event_filters.push(predicate);
        self
    }

    /// Calls the author's function.
    ///
    /// # Errors
    /// Returns the function's error, and a terminal error if the object does not fit its type.
    pub(crate) fn reconcile(&self, ctx: &Context) -> Result<Action, Error> {
        let request = ctx.request();

        match (
            (self.handler.reconcile)(ctx, request)?,
            &self.handler.when_gone,
        ) {
            (Some(action), _) => Ok(action),
            (None, Some(when_gone)) => when_gone(ctx, request),
            (None, None) => Ok(Action::done()),
        }
    }

    /// Returns the watches with a mapping function.
    pub(crate) fn mapped(&self) -> &[MappedWatch] {
        &self.triggers.mapped
    }

    /// Returns the controller as the manifest declares it.
    ///
    /// # Panics
    /// Panics if neither the function nor [`Controller::for_`] sets the kind, or if both set
    /// different kinds.
    pub(crate) fn manifest(&self) -> manifest::Controller {
        let Some(for_) = &self.triggers.for_ else {
            panic!(
                "controller {:?} has no kind to reconcile: call `.for_::<Kind>()`",
                self.name
            );
        };

        let kind = for_.group_version_kind();
        if let Some(takes) = self.handler.takes.as_ref().filter(|takes| **takes != kind) {
            panic!(
                "controller {:?} is for {kind}, but its function takes {takes}",
                self.name
            );
        }

        let Triggers {
            owns,
            watches,
            mapped,
            ..
        } = &self.triggers;

        let watch = |source: &manifest::Source, map| manifest::Watch {
            source: self.triggers.restricted(source),
            map,
        };
        let declared = watches
            .iter()
            .map(|declared| watch(&declared.source, declared.map.clone()));
        let mapped = mapped
            .iter()
            .map(|mapped| watch(&mapped.source.0, Mapping::Custom {}));

        manifest::Controller {
            owns: owns
                .iter()
                .map(|source| self.triggers.restricted(&source.0))
                .collect(),
            watches: declared.chain(mapped).collect(),
            finalizers: self.finalizers.clone(),
            workers: self.workers,
            resync_seconds: self.resync_seconds,
            rate_limiter: self.rate_limiter,
            ..manifest::Controller::new(&self.name, self.triggers.restricted(&for_.0))
        }
    }
}

impl Triggers {
    /// A source with the restrictions of all sources.
    fn restricted(&self, source: &manifest::Source) -> manifest::Source {
        let source = Source(source.clone());

        let source = self
            .event_filters
            .iter()
            .cloned()
            .fold(source, Source::predicate);

        if self.own_namespace {
            source.own_namespace().0
        } else {
            source.0
        }
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Triggers {
            for_,
            owns,
            watches,
            ..
        } = &self.triggers;

        let mut debug = f.debug_struct("Controller");
        debug
            .field("name", &self.name)
            .field("for", for_)
            .field("owns", owns)
            .field("watches", watches);
        debug.finish_non_exhaustive()
    }
}

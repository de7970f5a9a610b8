//! A plugin: its controllers, and the indexes that its reads need.

use operetta_api::manifest::{Index, Manifest, OwnerKind};

use crate::mapping::{self, MapEvent};
use crate::{Action, Context, Controller, Error, GroupVersionKind, Kind, ObjectKey};

/// The controllers and indexes of one component. [`plugin!`](crate::plugin!) exports them.
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
#[derive(Debug, Default)]
#[must_use]
pub struct Plugin {
    controllers: Vec<Controller>,
    indexes: Vec<Index>,
}

impl Plugin {
    /// Returns a plugin without controllers; it needs one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a controller. Its name must be unique within the plugin.
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Declares an index over the cached objects of a kind, for
    /// [`ListOptions::index`](crate::ListOptions::index). `path` is the path of the indexed value,
    /// e.g. `.spec.nodeName`: a string, number or boolean.
    pub fn index<T: Kind>(self, name: impl Into<String>, path: impl Into<String>) -> Self {
        let path = Some(path.into());
        self.add_index::<T>(|index| Index {
            name: name.into(),
            path,
            ..index
        })
    }

    /// Declares an index of the cached objects of a kind by the value of a label, e.g.
    /// `app.kubernetes.io/name`. Cached lists whose label selector requires one value of that label
    /// also use it.
    pub fn index_by_label<T: Kind>(
        self,
        name: impl Into<String>,
        label: impl Into<String>,
    ) -> Self {
        let label = Some(label.into());
        self.add_index::<T>(|index| Index {
            name: name.into(),
            label,
            ..index
        })
    }

    /// Declares an index of the cached objects of a kind by the name of their controlling owner, if
    /// that is of the kind `owner`. It finds the children of an owner by name, even if the owner no
    /// longer exists.
    pub fn index_by_controller<T: Kind>(
        self,
        name: impl Into<String>,
        owner: GroupVersionKind,
    ) -> Self {
        let controller = Some(OwnerKind {
            api_version: owner.api_version,
            kind: owner.kind,
        });
        self.add_index::<T>(|index| Index {
            name: name.into(),
            controller,
            ..index
        })
    }

    fn add_index<T: Kind>(mut self, complete: impl FnOnce(Index) -> Index) -> Self {
        let GroupVersionKind { api_version, kind } = T::gvk();

        let empty = Index {
            name: String::new(),
            api_version,
            kind,
            path: None,
            label: None,
            controller: None,
        };

        self.indexes.push(complete(empty));
        self
    }

    /// Returns the manifest that the host reads, as JSON.
    ///
    /// # Panics
    /// Panics if neither a controller's function nor [`Controller::for_`] sets its kind, or if both
    /// set different kinds.
    pub fn manifest(&self) -> String {
        let controllers = self.controllers.iter().map(Controller::manifest).collect();
        let manifest = Manifest {
            indexes: self.indexes.clone(),
            ..Manifest::new(controllers)
        };

        crate::json::to_string(&manifest).unwrap_or_default()
    }

    /// Reconciles the context's request with the controller that it names.
    ///
    /// # Errors
    /// Returns the author's error, and a terminal error if there is no such controller.
    pub(crate) fn reconcile(&self, ctx: &Context) -> Result<Action, Error> {
        self.find(&ctx.request().controller)?.reconcile(ctx)
    }

    /// Returns the keys that an event of a watched object enqueues, by the functions of
    /// [`Controller::watches_mapped`], including the keys of the old state.
    ///
    /// # Errors
    /// Returns a terminal error if there is no such controller, and an error if the object does not
    /// fit its type.
    pub fn map(&self, event: &MapEvent) -> Result<Vec<ObjectKey>, Error> {
        mapping::keys(self.find(&event.controller)?.mapped(), event)
    }

    fn find(&self, name: &str) -> Result<&Controller, Error> {
        let found = self
            .controllers
            .iter()
            .find(|controller| controller.name == name);
        found.ok_or_else(|| Error::terminal(format!("this plugin has no controller {name:?}")))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Predicate, Request, Source};

    #[test]
    fn declares_indexes_by_path_label_and_controlling_owner() {
        let controller =
            Controller::new("c", |_: &Context, _: &Request| Ok(Action::done())).for_::<Pod>();
        let owner = GroupVersionKind::new("apps/v1", "ReplicaSet");

        let plugin = Plugin::new()
            .controller(controller)
            .index::<Pod>("node", ".spec.nodeName");
        let plugin = plugin.index_by_label::<Pod>("app", "app.kubernetes.io/name");

        let manifest = plugin.index_by_controller::<Pod>("owner", owner).manifest();
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");

        let indexes = json!([
            {"name": "node", "apiVersion": "v1", "kind": "Pod", "path": ".spec.nodeName"},
            {"name": "app", "apiVersion": "v1", "kind": "Pod", "label": "app.kubernetes.io/name"},
            {
                "name": "owner", "apiVersion": "v1", "kind": "Pod",
                "controller": {"apiVersion": "apps/v1", "kind": "ReplicaSet"},
            },
        ]);

        assert_eq!(manifest["indexes"], indexes);
    }

    #[test]
    fn mapped_watch_returns_keys_of_old_and_new_state() {
        let nodes = |pod: Pod| {
            pod.spec
                .and_then(|spec| spec.node_name)
                .map(ObjectKey::cluster_scoped)
        };

        let controller = Controller::new("c", |_: &Context, _: &Request| Ok(Action::done()))
            .for_::<k8s_openapi::api::core::v1::Node>()
            .watches_mapped(Source::of::<Pod>(), move |pod| {
                nodes(pod).into_iter().collect()
            });
        let plugin = Plugin::new().controller(controller);

        let manifest: Value = serde_json::from_str(&plugin.manifest()).expect("JSON");
        let watch =
            json!({"source": {"apiVersion": "v1", "kind": "Pod"}, "map": {"type": "Custom"}});
        assert_eq!(manifest["controllers"][0]["watches"], json!([watch]));

        let on = |node: &str| {
            json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": []}})
                .to_string()
        };

        let event = |controller: &str, object: String, old: Option<String>| {
            plugin.map(&MapEvent {
                controller: controller.to_owned(),
                kind: Pod::gvk(),
                object,
                old,
            })
        };

        let names = |keys: Result<Vec<ObjectKey>, Error>| {
            keys.expect("keys")
                .into_iter()
                .map(|key| key.name)
                .collect::<Vec<_>>()
        };

        assert_eq!(names(event("c", on("a"), None)), ["a"]);
        assert_eq!(names(event("c", on("b"), Some(on("a")))), ["b", "a"]);
        assert_eq!(names(event("c", on("a"), Some(on("a")))), ["a"]);
        assert!(event("d", on("a"), None).is_err());
        assert!(event("c", "{\"spec\":1}".to_owned(), None).is_err());
    }

    #[test]
    fn declares_pruned_fields_of_each_source() {
        let source = || {
            Source::of::<Pod>()
                .prune([".status", ".spec.volumes"])
                .prune([".metadata.annotations"])
        };
        let controller = Controller::new("c", |_: &Context, _: &Request| Ok(Action::done()))
            .for_source(source())
            .owns_source(source())
            .watches_mapped(source(), |_: Pod| Vec::<ObjectKey>::new());

        let manifest: Value =
            serde_json::from_str(&Plugin::new().controller(controller).manifest()).expect("JSON");

        let controller = &manifest["controllers"][0];
        let paths = json!([".status", ".spec.volumes", ".metadata.annotations"]);

        for source in [
            &controller["for"],
            &controller["owns"][0],
            &controller["watches"][0]["source"],
        ] {
            assert_eq!(source["prune"], paths, "{source}");
        }
    }

    #[test]
    fn writes_predicates_in_the_manifests_form() {
        let ready = Predicate::matches("$.status.ready");
        let filter = Predicate::any([Predicate::LabelsChanged, Predicate::not(ready)]);
        let source = Source::of::<Pod>().predicate(Predicate::changed("$.spec"));

        let controller =
            Controller::new("c", |_: &Context, _: &Request| Ok(Action::done())).for_source(source);

        let manifest = Plugin::new()
            .controller(controller.event_filter(filter))
            .manifest();
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");

        let predicates = json!([{"changed": "$.spec"}, {"any": ["LabelsChanged", {"not": {"matches": "$.status.ready"}}]}]);
        assert_eq!(manifest["controllers"][0]["for"]["predicates"], predicates);
    }
}

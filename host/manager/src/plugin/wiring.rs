//! What a component's controllers come down to on this API server: the manifest with what an administrator has set
//! otherwise, and for each of its sources an informer and what to do with that informer's events; one for each namespace
//! that the host may watch, where it may not watch the kind in all of them.

use std::sync::Arc;

use operetta_core::{
    handler::{EventHandler, Target, mapping::KeyRules},
    manifest::{self, Mapping, Namespaces, Source},
    object::{kind::GroupVersionKind, selector::LabelSelector},
    predicate,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    authz::required_permissions,
    discovery::ApiResource,
    informer::{Informer, Scope},
};

use crate::plugin::{
    crd::ControllerOverride,
    running::{Setup, SetupError},
    status::Problem,
};

/// What one source of a controller comes down to.
pub(super) struct Wiring {
    /// As the manifest names it.
    pub(super) kind: GroupVersionKind,
    pub(super) informer: Arc<Informer>,
    pub(super) handler: EventHandler,
    /// Whether it is a part of what the source is about.
    pub(super) part: bool,
}

/// Where the host watches for a source.
pub(super) struct Placed {
    resource: Arc<ApiResource>,
    /// The name that the source selects by.
    name: Option<String>,
    /// The namespace that the source is of, where it is of one.
    only: Option<String>,
    /// The namespaces; None is all.
    places: Option<Vec<String>>,
}

impl Placed {
    /// Where the host would watch now.
    async fn now(&self, setup: &Setup<'_>) -> Result<Option<Vec<String>>, ApiError> {
        let home = setup.key.namespace.as_deref();
        let reach = &setup.host.registry.reach;
        reach.places(&self.resource, self.name.as_deref(), self.only.as_deref(), home).await
    }

    /// Whether the host watches some namespaces for it, and not all.
    pub(super) fn is_narrow(&self) -> bool {
        self.places.is_some()
    }

    /// Whether rights have changed so that it is to be watched elsewhere. Where nobody can say, it is not.
    pub(super) async fn is_elsewhere(&self, setup: &Setup<'_>) -> bool {
        self.now(setup).await.is_ok_and(|places| places != self.places)
    }
}

/// What the manifest declares, with what an administrator has set otherwise.
pub(super) fn overridden(
    declared: &[manifest::Controller],
    overrides: &[ControllerOverride],
) -> Result<Vec<manifest::Controller>, Problem> {
    let mut controllers = declared.to_vec();
    for set in overrides {
        let Some(controller) = controllers.iter_mut().find(|controller| controller.name == set.name) else {
            let names = declared.iter().map(|controller| controller.name.as_str()).collect::<Vec<_>>().join(", ");
            let message = format!("spec.controllers names {:?}; the component's controllers are: {names}", set.name);
            return Err(Problem::new("UnknownController", message));
        };
        controller.workers = set.workers.unwrap_or(controller.workers);
        controller.resync_seconds = set.resync_seconds.unwrap_or(controller.resync_seconds);
        if let Some(predicates) = &set.predicates {
            controller.for_.predicates = predicate::parse(predicates).map_err(|error| {
                let message = format!("the predicates of {:?} in spec.controllers: {error}", set.name);
                Problem::new("InvalidPredicate", message)
            })?;
        }
    }
    Ok(controllers)
}

/// What each source of a controller comes down to, and where it is watched; kinds that are not served go to `missing`.
pub(super) async fn wire_up(
    setup: &Setup<'_>,
    declared: &manifest::Controller,
    missing: &mut Vec<GroupVersionKind>,
) -> Result<(Vec<Wiring>, Vec<Placed>), SetupError> {
    let for_kind = declared.for_.group_version_kind();
    let for_resource = resolve(setup, &for_kind, missing).await?;
    let rules = KeyRules {
        kind: for_kind.clone(),
        cluster_scoped: for_resource.as_ref().is_some_and(|resource| !resource.namespaced),
        namespace: own_namespace(setup, &declared.for_, for_resource.as_deref()),
    };
    let mapped = |mapping: Mapping| {
        let KeyRules { kind, cluster_scoped, namespace } = rules.clone();
        match mapping {
            Mapping::Custom {} => Target::Custom(rules.clone()),
            mapping => Target::Mapped { kind, cluster_scoped, namespace, mapping },
        }
    };
    let owned = |source| (source, mapped(Mapping::Owner { all_owners: false }));
    let watched = declared.watches.iter().map(|watch| (&watch.source, mapped(watch.map.clone())));
    let sources =
        std::iter::once((&declared.for_, Target::Itself)).chain(declared.owns.iter().map(owned)).chain(watched);
    let (mut wiring, mut placed) = (Vec::new(), Vec::new());
    for (source, target) in sources.collect::<Vec<_>>() {
        let Some(resource) = resolve(setup, &source.group_version_kind(), missing).await? else { continue };
        let scope = scope(source, &declared.name)?;
        let only = own_namespace(setup, source, Some(&*resource));
        let mut place = Placed {
            resource: resource.clone(),
            name: required_permissions::named(&scope.fields),
            only: only.clone(),
            places: None,
        };
        // Where it cannot be asked, the informer says what is wrong.
        place.places = place.now(setup).await.unwrap_or(None);
        let part = place.is_narrow() && only.is_none();
        let namespaces = match &place.places {
            Some(places) => places.iter().cloned().map(Some).collect(),
            None => vec![None],
        };
        for namespace in namespaces {
            let handler = EventHandler {
                predicates: source.predicates.clone(),
                namespace: only.clone().or_else(|| namespace.clone()),
                target: target.clone(),
            };
            let informer = setup.host.registry.informer(&resource, Scope { namespace, ..scope.clone() });
            wiring.push(Wiring { kind: source.group_version_kind(), informer, handler, part });
        }
        placed.push(place);
    }
    Ok((wiring, placed))
}

/// The namespace that a source is of, where it is of one.
fn own_namespace(setup: &Setup<'_>, source: &Source, resource: Option<&ApiResource>) -> Option<String> {
    let own = source.namespaces == Namespaces::Own && resource.is_some_and(|resource| resource.namespaced);
    setup.key.namespace.clone().filter(|_| own)
}

async fn resolve(
    setup: &Setup<'_>,
    kind: &GroupVersionKind,
    missing: &mut Vec<GroupVersionKind>,
) -> Result<Option<Arc<ApiResource>>, SetupError> {
    match setup.host.discovery.resolve(kind).await {
        Ok(resource) if !resource.watchable => {
            let message = format!("{kind} cannot be watched: the API server does not offer list and watch for it");
            Err(SetupError::Refused(Problem::new("KindNotWatchable", message)))
        }
        Ok(resource) => Ok(Some(resource)),
        Err(error) if error.kind == ErrorKind::NotFound => {
            missing.push(kind.clone());
            Ok(None)
        }
        Err(error) if error.kind == ErrorKind::BadRequest => {
            Err(SetupError::Refused(Problem::new("InvalidKind", format!("{kind}: {}", error.status.message))))
        }
        Err(error) => Err(SetupError::Unavailable(error)),
    }
}

fn scope(source: &Source, controller: &str) -> Result<Scope, SetupError> {
    let labels = source.label_selector.clone().unwrap_or_default();
    LabelSelector::parse(&labels).map_err(|error| {
        let message = format!("controller {controller:?} watches {} with a bad labelSelector: {error}", source.kind);
        SetupError::Refused(Problem::new("InvalidSelector", message))
    })?;
    // Sorted, so that two who leave out the same share one watch.
    let mut pruned = source.prune.clone();
    pruned.sort();
    pruned.dedup();
    let fields = source.field_selector.clone().unwrap_or_default();
    Ok(Scope { labels, fields, pruned, ..Scope::everything() })
}

#[cfg(test)]
mod tests {
    use operetta_core::manifest::{Manifest, Predicate};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_administrator_s_word_on_a_controller_goes_before_the_manifest_s() {
        let pods = json!({"apiVersion": "v1", "kind": "Pod", "predicates": ["GenerationChanged"]});
        let controllers =
            json!([{"name": "a", "for": pods, "workers": 2, "resyncSeconds": 60}, {"name": "b", "for": pods}]);
        let manifest = json!({"apiVersion": "operetta.dev/v1alpha1", "kind": "Manifest", "controllers": controllers});
        let declared = Manifest::parse(&manifest.to_string()).expect("a manifest").controllers;
        let set = |text: &str| serde_json::from_str::<Vec<ControllerOverride>>(text).expect("overrides");
        let some = set(
            r#"[{"name":"b","workers":7,"resyncSeconds":5,"predicates":["LabelsChanged"]},{"name":"a","predicates":[]}]"#,
        );
        let made = overridden(&declared, &some).expect("made");
        let of = |at: usize| (made[at].workers, made[at].resync_seconds, made[at].for_.predicates.as_slice());
        assert_eq!(of(0), (2, 60, [].as_slice()));
        assert_eq!(of(1), (7, 5, [Predicate::LabelsChanged].as_slice()));
        let unknown = overridden(&declared, &set(r#"[{"name":"c"}]"#)).expect_err("unknown");
        assert!(unknown.message.contains("\"c\"") && unknown.message.contains("a, b"), "{}", unknown.message);
        for (predicate, words) in [
            (
                r#"{"changed":"spec"}"#,
                "the predicates of \"b\" in spec.controllers: wrong at [0].changed: \"spec\" is no JSONPath",
            ),
            (r#"{"maybe":"$"}"#, "unknown variant `maybe`"),
            ("7", "wrong at [0]"),
            (r#"{"any":[]}"#, "nothing passes an `any` of nothing"),
        ] {
            let set = set(&format!(r#"[{{"name":"b","predicates":[{predicate}]}}]"#));
            let error = overridden(&declared, &set).expect_err(predicate);
            assert!(error.reason == "InvalidPredicate" && error.message.contains(words), "{}", error.message);
        }
    }
}

//! Connects a component's controllers to informers: takes the manifest with an administrator's
//! overrides, and finds an informer and an event handler for each source.
//!
//! If the host may not watch a kind in all namespaces, the source has one informer for each
//! namespace it may watch. If the plugin may not see a source, there is none, so it costs the host
//! nothing until permissions are granted.

use std::{collections::BTreeSet, iter, sync::Arc};

use operetta_api::reasons;
use operetta_core::{
    authz::access_review::ServiceAccount,
    handler::{EventHandler, Target, mapping::KeyRules},
    manifest::{self, Mapping, Namespaces, Source},
    object::{
        kind::GroupVersionKind,
        selector::{LabelSelector, required_name},
    },
    predicate,
    remedy::Advice,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    authz::{
        filtered_view::{right_to_watch, watchable_namespaces},
        required_permissions::{self, RequiredPermission},
    },
    discovery::ApiResource,
    informer::{Informer, Scope},
};

use crate::{
    plugin::{
        crd::ControllerOverride,
        setup::{Setup, SetupError},
    },
    problem::Problem,
};

pub(super) struct WiredPlugin {
    /// The controllers whose kinds are all served.
    pub(super) controllers: Vec<WiredController>,
    /// Where each source is watched.
    pub(super) placements: Vec<Placement>,
    /// The kinds the API server doesn't serve, sorted.
    pub(super) missing: Vec<GroupVersionKind>,
}

pub(super) struct WiredController {
    /// The declaration in the manifest, with the overrides applied.
    pub(super) declared: manifest::Controller,
    pub(super) wiring: Vec<Wiring>,
}

/// The wiring of one source, in all namespaces or in one of several.
pub(super) struct Wiring {
    /// The kind as named in the manifest.
    pub(super) kind: GroupVersionKind,
    pub(super) informer: Arc<Informer>,
    pub(super) handler: EventHandler,
    /// True if this is one namespace of a source that covers all namespaces.
    pub(super) part: bool,
}

/// Where the host watches a source.
pub(super) struct Placement {
    resource: Arc<ApiResource>,
    /// The source's field selector.
    fields: String,
    /// Set if the source is limited to one namespace.
    only: Option<String>,
    /// None means all namespaces. Empty if the plugin may not see anything of the source.
    namespaces: Option<Vec<String>>,
}

impl Placement {
    /// Returns the namespaces the host would watch now.
    async fn current(&self, setup: &Setup<'_>) -> Result<Option<Vec<String>>, ApiError> {
        let home = setup.key.namespace.as_deref();
        let name = required_name(&self.fields);
        let name = name.as_deref();
        let only = self.only.as_deref();
        let visible = watchable_namespaces(&self.resource, name, only, home, &setup.grants).await?;
        if visible.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(Some(Vec::new()));
        }

        let scope = &setup.context.cluster.registry.watch_scope;
        scope.namespaces(&self.resource, name, only, home).await
    }

    /// Returns the permissions needed to watch the source.
    pub(super) fn rights(&self) -> Vec<RequiredPermission> {
        required_permissions::of_watch(&self.resource, self.only.as_deref(), &self.fields)
    }

    /// Returns the permission the host lacks for watching the source, with the commands that grant
    /// it. None if it is watched.
    pub(super) fn missing_right(&self, account: &ServiceAccount) -> Option<Advice> {
        let is_nowhere = self.namespaces.as_ref().is_some_and(Vec::is_empty);
        is_nowhere.then(|| right_to_watch(account, &self.resource, self.only.as_deref()))
    }

    pub(super) fn resource(&self) -> &Arc<ApiResource> {
        &self.resource
    }

    /// Reports whether the host watches only some namespaces.
    pub(super) fn is_narrow(&self) -> bool {
        self.namespaces.is_some()
    }

    /// Reports whether permissions have changed, so that other namespaces must be watched. False if
    /// the API server doesn't respond.
    pub(super) async fn has_changed(&self, setup: &Setup<'_>) -> bool {
        self.current(setup)
            .await
            .is_ok_and(|namespaces| namespaces != self.namespaces)
    }
}

/// Applies an administrator's overrides to the manifest's controllers.
fn overridden(
    declared: &[manifest::Controller],
    overrides: &[ControllerOverride],
) -> Result<Vec<manifest::Controller>, Problem> {
    let mut controllers = declared.to_vec();
    for set in overrides {
        let Some(controller) = controllers
            .iter_mut()
            .find(|controller| controller.name == set.name)
        else {
            let names = declared
                .iter()
                .map(|controller| controller.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            let message = format!(
                "spec.controllers names {:?}; the component's controllers are: {names}",
                set.name
            );
            return Err(Problem::new(reasons::UNKNOWN_CONTROLLER, message));
        };
        controller.workers = set.workers.unwrap_or(controller.workers);
        controller.resync_seconds = set.resync_seconds.unwrap_or(controller.resync_seconds);

        if let Some(predicates) = &set.predicates {
            controller.for_.predicates = predicate::parse(predicates).map_err(|error| {
                let message = format!(
                    "the predicates of {:?} in spec.controllers: {error}",
                    set.name
                );
                Problem::new(reasons::INVALID_PREDICATE, message)
            })?;
        }
    }
    Ok(controllers)
}

/// Wires up all controllers of a plugin.
///
/// # Errors
/// [`SetupError::Refused`] when the manifest or the overrides are invalid,
/// [`SetupError::Unavailable`] when the API server doesn't respond.
pub(super) async fn wire_all(setup: &Setup<'_>) -> Result<WiredPlugin, SetupError> {
    let declared = &setup.component.manifest().controllers;
    let declared = overridden(declared, &setup.spec.controllers).map_err(SetupError::Refused)?;
    let mut wired = WiredPlugin {
        controllers: Vec::new(),
        placements: Vec::new(),
        missing: Vec::new(),
    };
    for declared in declared {
        let missing_before = wired.missing.len();
        let wiring = wire_up(setup, &declared, &mut wired).await?;
        if wired.missing.len() == missing_before {
            wired.controllers.push(WiredController { declared, wiring });
        }
    }
    wired.missing.sort();
    wired.missing.dedup();

    Ok(wired)
}

/// Wires up one controller's sources. Adds their placements, and the kinds that aren't served, to
/// `wired`.
async fn wire_up(
    setup: &Setup<'_>,
    declared: &manifest::Controller,
    wired: &mut WiredPlugin,
) -> Result<Vec<Wiring>, SetupError> {
    let for_kind = declared.for_.group_version_kind();
    let for_resource = resolve(setup, &for_kind, &mut wired.missing).await?;
    let rules = KeyRules {
        kind: for_kind.clone(),
        cluster_scoped: for_resource
            .as_ref()
            .is_some_and(|resource| !resource.namespaced),
        namespace: own_namespace(setup, &declared.for_, for_resource.as_deref()),
    };

    let mapped = |mapping: Mapping| {
        let KeyRules {
            kind,
            cluster_scoped,
            namespace,
        } = rules.clone();
        match mapping {
            Mapping::Custom {} => Target::Custom(rules.clone()),
            mapping => Target::Mapped {
                kind,
                cluster_scoped,
                namespace,
                mapping,
            },
        }
    };
    let owned = |source| (source, mapped(Mapping::Owner { all_owners: false }));
    let watched = declared
        .watches
        .iter()
        .map(|watch| (&watch.source, mapped(watch.map.clone())));

    let sources = iter::once((&declared.for_, Target::Itself))
        .chain(declared.owns.iter().map(owned))
        .chain(watched);
    let mut wiring = Vec::new();

    for (source, target) in sources.collect::<Vec<_>>() {
        let Some(resource) =
            resolve(setup, &source.group_version_kind(), &mut wired.missing).await?
        else {
            continue;
        };
        let scope = scope(source, &declared.name)?;
        let placement = find_placement(setup, source, &resource, &scope)
            .await
            .map_err(SetupError::Unavailable)?;
        wiring.extend(wire_source(setup, source, target, &scope, &placement));
        wired.placements.push(placement);
    }

    Ok(wiring)
}

async fn find_placement(
    setup: &Setup<'_>,
    source: &Source,
    resource: &Arc<ApiResource>,
    scope: &Scope,
) -> Result<Placement, ApiError> {
    let mut placement = Placement {
        resource: resource.clone(),
        fields: scope.fields.clone(),
        only: own_namespace(setup, source, Some(resource)),
        namespaces: None,
    };
    placement.namespaces = placement.current(setup).await?;
    Ok(placement)
}

fn wire_source(
    setup: &Setup<'_>,
    source: &Source,
    target: Target,
    scope: &Scope,
    placement: &Placement,
) -> Vec<Wiring> {
    let part = placement.is_narrow() && placement.only.is_none();
    let namespaces = match &placement.namespaces {
        Some(namespaces) => namespaces.iter().cloned().map(Some).collect(),
        None => vec![None],
    };
    let in_namespace = |namespace: Option<String>| {
        let handler = EventHandler {
            predicates: source.predicates.clone(),
            namespace: placement.only.clone().or_else(|| namespace.clone()),
            target: target.clone(),
        };
        let registry = &setup.context.cluster.registry;
        let informer = registry.informer(
            &placement.resource,
            Scope {
                namespace,
                ..scope.clone()
            },
        );

        Wiring {
            kind: source.group_version_kind(),
            informer,
            handler,
            part,
        }
    };
    namespaces.into_iter().map(in_namespace).collect()
}

/// Returns the Plugin's namespace, if the source is limited to it.
fn own_namespace(
    setup: &Setup<'_>,
    source: &Source,
    resource: Option<&ApiResource>,
) -> Option<String> {
    let own = source.namespaces == Namespaces::Own
        && resource.is_some_and(|resource| resource.namespaced);
    setup.key.namespace.clone().filter(|_| own)
}

/// Resolves a kind, or adds it to `missing` if the API server doesn't serve it.
async fn resolve(
    setup: &Setup<'_>,
    kind: &GroupVersionKind,
    missing: &mut Vec<GroupVersionKind>,
) -> Result<Option<Arc<ApiResource>>, SetupError> {
    match setup.context.cluster.discovery.resolve(kind).await {
        Ok(resource) if !resource.watchable => {
            let message = format!(
                "cannot watch {kind}: the API server does not support list and watch for it"
            );
            Err(SetupError::Refused(Problem::new(
                reasons::KIND_NOT_WATCHABLE,
                message,
            )))
        }
        Ok(resource) => Ok(Some(resource)),
        Err(error) if error.kind == ErrorKind::NotFound => {
            missing.push(kind.clone());
            Ok(None)
        }
        Err(error) if error.kind == ErrorKind::BadRequest => {
            Err(SetupError::Refused(Problem::new(
                reasons::INVALID_KIND,
                format!("{kind}: {}", error.status.message),
            )))
        }
        Err(mut error) => {
            let discovery = &setup.context.cluster.discovery;
            let why = discovery.unavailable_api(&kind.api_version).await;
            let message = &error.status.message;
            error.status.message = match why {
                Some(why) => format!("cannot watch {kind}: {message}: {why}"),
                None => format!("cannot watch {kind}: {message}"),
            };
            Err(SetupError::Unavailable(error))
        }
    }
}

fn scope(source: &Source, controller: &str) -> Result<Scope, SetupError> {
    let labels = source.label_selector.clone().unwrap_or_default();
    LabelSelector::parse(&labels).map_err(|error| {
        let message = format!(
            "controller {controller:?} watches {} with an invalid labelSelector: {error}",
            source.kind
        );
        SetupError::Refused(Problem::new(reasons::INVALID_SELECTOR, message))
    })?;

    // Sorted, so that two sources pruning the same fields share a watch.
    let mut pruned = source.prune.clone();
    pruned.sort();
    pruned.dedup();

    let fields = source.field_selector.clone().unwrap_or_default();
    Ok(Scope {
        labels,
        fields,
        pruned,
        ..Scope::everything()
    })
}

#[cfg(test)]
mod tests {
    use operetta_core::manifest::Predicate;
    use serde_json::json;

    use super::*;

    #[test]
    fn overrides_take_precedence_over_the_manifest() {
        let pods = json!({"apiVersion": "v1", "kind": "Pod", "predicates": ["GenerationChanged"]});
        let controllers = json!([{"name": "a", "for": pods, "workers": 2, "resyncSeconds": 60}, {"name": "b", "for": pods}]);
        let manifest = json!({"apiVersion": "operetta.dev/v1alpha1", "kind": "Manifest", "controllers": controllers});
        let declared = manifest::parse(&manifest.to_string())
            .expect("a manifest")
            .controllers;
        let set =
            |text: &str| serde_json::from_str::<Vec<ControllerOverride>>(text).expect("overrides");
        let some = set(
            r#"[{"name":"b","workers":7,"resyncSeconds":5,"predicates":["LabelsChanged"]},{"name":"a","predicates":[]}]"#,
        );
        let made = overridden(&declared, &some).expect("made");

        let of = |at: usize| {
            (
                made[at].workers,
                made[at].resync_seconds,
                made[at].for_.predicates.as_slice(),
            )
        };
        assert_eq!(of(0), (2, 60, [].as_slice()));
        assert_eq!(of(1), (7, 5, [Predicate::LabelsChanged].as_slice()));

        let unknown = overridden(&declared, &set(r#"[{"name":"c"}]"#)).expect_err("unknown");
        assert!(
            unknown.message.contains("\"c\"") && unknown.message.contains("a, b"),
            "{}",
            unknown.message
        );

        for (predicate, words) in [
            (
                r#"{"changed":"spec"}"#,
                "the predicates of \"b\" in spec.controllers: invalid value at [0].changed: \"spec\" is not a JSONPath",
            ),
            (r#"{"maybe":"$"}"#, "unknown variant `maybe`"),
            ("7", "invalid value at [0]"),
            (r#"{"any":[]}"#, "`any` needs at least one predicate"),
        ] {
            let set = set(&format!(r#"[{{"name":"b","predicates":[{predicate}]}}]"#));
            let error = overridden(&declared, &set).expect_err(predicate);
            assert!(
                error.reason == "InvalidPredicate" && error.message.contains(words),
                "{}",
                error.message
            );
        }
    }
}

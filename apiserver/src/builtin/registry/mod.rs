//! The built-in resources: which there are, and how they differ.

mod binding;
mod eviction;
mod kind;
mod pods;
mod reviews;

use std::sync::Arc;

use crate::{
    apiextensions::strategy::Definitions,
    builtin::{
        self,
        registry::{
            binding::Binding,
            eviction::Eviction,
            kind::BuiltInKind,
            reviews::{NotImplemented, Question, Reviewer},
        },
    },
    server::{Flavor, Handler, Names, Resource, Rules, Scale, Strategy, Subresource, Subresources},
    shared::Shared,
    store::GroupResource,
};

/// Updates of these kinds have to name the revision that they replace; so do those of all kinds of
/// the groups below.
const CONDITIONAL_KINDS: [&str; 7] = [
    "Lease",
    "PodDisruptionBudget",
    "RuntimeClass",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "VolumeAttachment",
];
const CONDITIONAL_GROUPS: [&str; 4] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];
/// Updates of these kinds create what does not exist; so do those of the group of RBAC.
const CREATED_BY_UPDATE: [&str; 5] = ["Endpoints", "Event", "Service", "Lease", "LimitRange"];
/// The answer to the deletion of one of these kinds is the object.
const RETURNED_WHEN_DELETED: [&str; 9] = [
    "PersistentVolumeClaim",
    "PersistentVolume",
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "ResourceQuota",
    "ServiceAccount",
    "Service",
    "StorageClass",
];
/// The dependents of these kinds stay when they are deleted, unless the client says otherwise.
const ORPHANING: [&str; 2] = ["Job", "ReplicationController"];

pub(crate) fn register(shared: &Arc<Shared>) {
    for resource in builtin::resources() {
        shared.resources().register(describe(resource, shared));
    }
}

fn describe(of: &'static builtin::Resource, shared: &Arc<Shared>) -> Resource {
    let names = Names {
        kind: of.kind.clone(),
        list_kind: format!("{}List", of.kind),
        plural: of.plural.clone(),
        singular: of.singular.clone(),
        short_names: of.short_names.clone(),
        categories: of.categories.clone(),
    };

    Resource {
        group: of.group.clone(),
        version: of.version.clone(),
        names,
        namespaced: of.namespaced,
        verbs: verbs(&of.verbs),
        flavor: Flavor::BuiltIn,
        rules: rules(of),
        subresources: subresources(of, shared),
        handler: handler(of, shared),
        strategy: strategy(of, shared),
    }
}

fn strategy(of: &'static builtin::Resource, shared: &Arc<Shared>) -> Arc<dyn Strategy> {
    match of.kind.as_str() {
        "CustomResourceDefinition" => Arc::new(Definitions),
        _ => Arc::new(BuiltInKind::new(of, Arc::clone(&shared.objects))),
    }
}

/// Returns the rules that were observed on a real API server.
fn rules(of: &builtin::Resource) -> Rules {
    let kind = of.kind.as_str();
    let is_rbac = of.group == "rbac.authorization.k8s.io";
    let (storage_version, stored_as) = match (of.group.as_str(), kind) {
        ("events.k8s.io", "Event") => (
            Some("v1".to_owned()),
            Some(GroupResource::new("", "events")),
        ),
        ("autoscaling", "HorizontalPodAutoscaler") => (Some("v2".to_owned()), None),
        _ => (None, None),
    };

    Rules {
        unlisted_verbs: Vec::new(),
        unconditional_update: !CONDITIONAL_KINDS.contains(&kind)
            && !CONDITIONAL_GROUPS.contains(&of.group.as_str()),
        create_on_update: is_rbac || CREATED_BY_UPDATE.contains(&kind),
        returns_deleted: RETURNED_WHEN_DELETED.contains(&kind),
        storage_version,
        orphans_by_default: ORPHANING.contains(&kind),
        stored_as,
    }
}

fn handler(of: &builtin::Resource, shared: &Arc<Shared>) -> Option<Arc<dyn Handler>> {
    if let Some(question) = Question::of(&of.group, &of.plural) {
        return Some(reviewer(
            question,
            of.kind.clone(),
            of.api_version(),
            shared,
        ));
    }

    match of.kind.as_str() {
        "Binding" => Some(Arc::new(Binding(Arc::clone(shared)))),
        "ComponentStatus" => Some(not_implemented(of.plural.clone(), shared)),
        _ => None,
    }
}

fn not_implemented(what: String, shared: &Arc<Shared>) -> Arc<dyn Handler> {
    Arc::new(NotImplemented {
        objects: Arc::clone(&shared.objects),
        what,
    })
}

fn reviewer(
    question: Question,
    kind: String,
    api_version: String,
    shared: &Arc<Shared>,
) -> Arc<dyn Handler> {
    Arc::new(Reviewer {
        question,
        kind,
        api_version,
        objects: Arc::clone(&shared.objects),
        authenticator: Arc::clone(&shared.authenticator),
        environment: shared.environment.clone(),
    })
}

fn subresources(of: &builtin::Resource, shared: &Arc<Shared>) -> Subresources {
    let mut found = Subresources::default();
    for subresource in &of.subresources {
        match subresource.name.as_str() {
            "status" => found.status = true,
            "scale" => found.scale = Some(scale()),
            // HTTP has it for all namespaces.
            "finalize" => {}
            name => drop(
                found
                    .others
                    .insert(name.to_owned(), other(of, subresource, shared)),
            ),
        }
    }

    found
}

fn scale() -> Scale {
    Scale {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        label_selector: Some(".spec.selector".into()),
    }
}

fn other(
    of: &builtin::Resource,
    subresource: &builtin::Subresource,
    shared: &Arc<Shared>,
) -> Subresource {
    let handler: Arc<dyn Handler> = match (of.kind.as_str(), subresource.name.as_str()) {
        ("ServiceAccount", "token") => reviewer(
            Question::TokenRequest,
            subresource.kind.clone(),
            subresource.api_version.clone(),
            shared,
        ),
        ("Pod", "binding") => Arc::new(Binding(Arc::clone(shared))),
        ("Pod", "eviction") => Arc::new(Eviction {
            shared: Arc::clone(shared),
            has_budgets: shared.has_disruption_budgets,
        }),
        (_, name) => not_implemented(format!("{}/{name}", of.plural), shared),
    };

    let group_version = subresource
        .api_version
        .rsplit_once('/')
        .unwrap_or(("", &subresource.api_version));
    let is_own = group_version == (of.group.as_str(), of.version.as_str());

    Subresource {
        group_version: (!is_own).then(|| (group_version.0.to_owned(), group_version.1.to_owned())),
        kind: subresource.kind.clone(),
        verbs: verbs(&subresource.verbs),
        handler,
    }
}

/// Returns verbs as the texts that HTTP has for them.
fn verbs(names: &[String]) -> Vec<&'static str> {
    const ALL: [&str; 8] = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];

    names
        .iter()
        .filter_map(|name| ALL.into_iter().find(|verb| verb == name))
        .collect()
}

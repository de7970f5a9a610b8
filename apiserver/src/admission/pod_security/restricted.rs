//! The checks that the level `restricted` adds, in the order of their names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    baseline,
    view::{PodView, Violation, counted, plural, quoted, uses},
};
use crate::authz::objects::{text, texts};

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

pub(super) fn check(pod: &PodView<'_>) -> Vec<Violation> {
    let on_linux = !pod.is_windows();
    let checks = [
        allow_privilege_escalation(pod).filter(|_| on_linux),
        capabilities(pod).filter(|_| on_linux),
        baseline::proc_mount(pod),
        volumes(pod),
        run_as_non_root(pod).filter(|_| !pod.has_own_users()),
        run_as_user(pod).filter(|_| !pod.has_own_users()),
        seccomp(pod).filter(|_| on_linux),
    ];

    checks.into_iter().flatten().collect()
}

fn allow_privilege_escalation(pod: &PodView<'_>) -> Option<Violation> {
    let bad =
        pod.names(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    (!bad.is_empty()).then(|| {
        let subject = counted("container", &bad);
        let detail = format!("{subject} must set securityContext.allowPrivilegeEscalation=false");
        ("allowPrivilegeEscalation != false".to_owned(), detail)
    })
}

fn capabilities(pod: &PodView<'_>) -> Option<Violation> {
    let of = |container: &Value, list: &str| -> BTreeSet<String> {
        texts(&container["securityContext"]["capabilities"][list])
            .map(str::to_owned)
            .collect()
    };

    let added = |container: &Value| -> BTreeSet<String> {
        of(container, "add")
            .into_iter()
            .filter(|capability| capability != "NET_BIND_SERVICE")
            .collect()
    };

    let without_drop = pod.names(|container| !of(container, "drop").contains("ALL"));
    let adding = pod.names(|container| !added(container).is_empty());
    let all: BTreeSet<String> = pod
        .containers
        .iter()
        .flat_map(|container| added(container))
        .collect();

    let mut details = Vec::new();
    if !without_drop.is_empty() {
        let subject = counted("container", &without_drop);
        details.push(format!(
            "{subject} must set securityContext.capabilities.drop=[\"ALL\"]"
        ));
    }

    if !adding.is_empty() {
        let subject = counted("container", &adding);
        details.push(format!(
            "{subject} must not include {} in securityContext.capabilities.add",
            quoted(&all)
        ));
    }

    (!details.is_empty()).then(|| ("unrestricted capabilities".to_owned(), details.join("; ")))
}

fn volumes(pod: &PodView<'_>) -> Option<Violation> {
    let volumes = pod.spec["volumes"].as_array().into_iter().flatten();
    let bad: Vec<&Value> = volumes
        .filter(|volume| VOLUMES.iter().all(|allowed| volume[*allowed].is_null()))
        .collect();
    let names: Vec<String> = bad
        .iter()
        .map(|volume| text(volume, &["name"]).to_owned())
        .collect();
    let types: BTreeSet<String> = bad
        .iter()
        .map(|volume| {
            let mut fields = volume.as_object().into_iter().flatten();
            let source = fields.find(|(field, value)| *field != "name" && !value.is_null());
            source.map_or("unknown".to_owned(), |(field, _)| field.clone())
        })
        .collect();

    (!names.is_empty()).then(|| {
        let noun = plural("restricted volume type", types.len());
        let subject = counted("volume", &names);
        let detail = format!("{subject} {} {noun} {}", uses(names.len()), quoted(&types));
        ("restricted volume types".to_owned(), detail)
    })
}

fn run_as_non_root(pod: &PodView<'_>) -> Option<Violation> {
    let reason = "runAsNonRoot != true".to_owned();
    if let Some(setters) = pod.setters(|context| context["runAsNonRoot"] == false) {
        return Some((
            reason,
            format!("{setters} must not set securityContext.runAsNonRoot=false"),
        ));
    }

    if pod.spec["securityContext"]["runAsNonRoot"] == true {
        return None;
    }

    let unset = pod.names(|container| !container["securityContext"]["runAsNonRoot"].is_boolean());
    (!unset.is_empty()).then(|| {
        let subject = counted("container", &unset);
        (
            reason,
            format!("pod or {subject} must set securityContext.runAsNonRoot=true"),
        )
    })
}

fn run_as_user(pod: &PodView<'_>) -> Option<Violation> {
    let setters = pod.setters(|context| context["runAsUser"] == 0)?;
    Some((
        "runAsUser=0".to_owned(),
        format!("{setters} must not set runAsUser=0"),
    ))
}

fn seccomp(pod: &PodView<'_>) -> Option<Violation> {
    if let Some(violation) = baseline::seccomp(pod) {
        return Some(violation);
    }
    if !pod.spec["securityContext"]["seccompProfile"].is_null() {
        return None;
    }

    let unset = pod.names(|container| container["securityContext"]["seccompProfile"].is_null());
    (!unset.is_empty()).then(|| {
        let subject = counted("container", &unset);
        let must =
            "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
        (
            "seccompProfile".to_owned(),
            format!("pod or {subject} {must}"),
        )
    })
}

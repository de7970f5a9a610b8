//! The checks of the level `baseline`, in the order of their names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::view::{PodView, Violation, bad_values, counted, plural, quoted, uses};
use crate::authz::objects::{text, texts};

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];
const SELINUX_TYPES: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];
const APPARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Returns the violations. With `for_restricted` it leaves out the checks that `restricted` has
/// stricter ones for.
pub(super) fn check(pod: &PodView<'_>, for_restricted: bool) -> Vec<Violation> {
    let always = [app_armor(pod)];
    let replaced = [capabilities(pod)];
    let hosts = [host_namespaces(pod)];
    let paths = [host_paths(pod)];
    let rest = [host_ports(pod), host_probes(pod), privileged(pod)];
    let mounts = [proc_mount(pod).filter(|_| !pod.has_own_users())];
    let seccomp = [seccomp(pod)];
    let last = [se_linux(pod)];
    let end = [sysctls(pod), windows_host_process(pod)];

    let only_baseline =
        |checks: Vec<Option<Violation>>| if for_restricted { Vec::new() } else { checks };

    // By name: `seLinuxOptions` comes before `seccompProfile`.
    let checks = always
        .into_iter()
        .chain(only_baseline(replaced.into()))
        .chain(hosts)
        .chain(only_baseline(paths.into()))
        .chain(rest)
        .chain(only_baseline(mounts.into()))
        .chain(last)
        .chain(only_baseline(seccomp.into()))
        .chain(end);

    checks.flatten().collect()
}

fn app_armor(pod: &PodView<'_>) -> Option<Violation> {
    let is_allowed = |kind: &str| matches!(kind, "RuntimeDefault" | "Localhost");
    let path = ["appArmorProfile", "type"];
    let mut values: Vec<String> = bad_values(pod, &path, is_allowed).into_iter().collect();
    let is_bad = |context: &Value| !context[path[0]].is_null() && !is_allowed(text(context, &path));
    let mut setters: Vec<String> = pod.setters(is_bad).into_iter().collect();
    let annotations = pod.metadata["annotations"]
        .as_object()
        .into_iter()
        .flatten();

    let mut annotations: Vec<String> = annotations
        .filter(|(key, _)| key.starts_with(APPARMOR_ANNOTATION))
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(_, value)| {
            !(value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/"))
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();

    if !annotations.is_empty() {
        setters.push(plural("annotation", annotations.len()));
        annotations.sort();
        values.extend(annotations);
    }

    (!setters.is_empty()).then(|| {
        let detail = format!(
            "{} must not set AppArmor profile type to {}",
            setters.join(" and "),
            quoted(&values)
        );
        (plural("forbidden AppArmor profile", values.len()), detail)
    })
}

fn capabilities(pod: &PodView<'_>) -> Option<Violation> {
    let added = |container: &Value| -> BTreeSet<String> {
        let added = texts(&container["securityContext"]["capabilities"]["add"]);
        added
            .filter(|capability| !CAPABILITIES.contains(capability))
            .map(str::to_owned)
            .collect()
    };
    let bad = pod.names(|container| !added(container).is_empty());
    let all: BTreeSet<String> = pod
        .containers
        .iter()
        .flat_map(|container| added(container))
        .collect();

    (!bad.is_empty()).then(|| {
        let containers = counted("container", &bad);
        let detail = format!(
            "{containers} must not include {} in securityContext.capabilities.add",
            quoted(&all)
        );
        ("non-default capabilities".to_owned(), detail)
    })
}

fn host_namespaces(pod: &PodView<'_>) -> Option<Violation> {
    let set = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|field| pod.spec[*field] == true);
    let set: Vec<String> = set.map(|field| format!("{field}=true")).collect();
    (!set.is_empty()).then(|| ("host namespaces".to_owned(), set.join(", ")))
}

fn host_paths(pod: &PodView<'_>) -> Option<Violation> {
    let volumes = pod.spec["volumes"].as_array().into_iter().flatten();
    let bad = volumes.filter(|volume| !volume["hostPath"].is_null());
    let bad: Vec<String> = bad
        .map(|volume| text(volume, &["name"]).to_owned())
        .collect();

    (!bad.is_empty()).then(|| ("hostPath volumes".to_owned(), counted("volume", &bad)))
}

fn host_ports(pod: &PodView<'_>) -> Option<Violation> {
    let ports = |container: &Value| -> BTreeSet<String> {
        let ports = container["ports"].as_array().into_iter().flatten();
        let ports = ports
            .filter_map(|port| port["hostPort"].as_i64())
            .filter(|port| *port != 0);
        ports.map(|port| port.to_string()).collect()
    };
    let bad = pod.names(|container| !ports(container).is_empty());
    let all: BTreeSet<String> = pod
        .containers
        .iter()
        .flat_map(|container| ports(container))
        .collect();

    (!bad.is_empty()).then(|| {
        let all_ports: Vec<&str> = all.iter().map(String::as_str).collect();
        let noun = plural("hostPort", all.len());
        let subject = counted("container", &bad);

        (
            "hostPort".to_owned(),
            format!(
                "{subject} {} {noun} {}",
                uses(bad.len()),
                all_ports.join(", ")
            ),
        )
    })
}

fn host_probes(pod: &PodView<'_>) -> Option<Violation> {
    let hosts = |container: &Value| -> BTreeSet<String> {
        let probes =
            ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &container[probe]);
        let hooks = ["postStart", "preStop"].map(|hook| &container["lifecycle"][hook]);
        let handlers = probes.into_iter().chain(hooks);
        let hosts = handlers.flat_map(|handler| {
            ["httpGet", "tcpSocket"].map(|kind| text(handler, &[kind, "host"]))
        });

        hosts
            .filter(|host| !host.is_empty())
            .map(str::to_owned)
            .collect()
    };

    let bad: BTreeSet<String> = pod
        .names(|container| !hosts(container).is_empty())
        .into_iter()
        .collect();
    let bad: Vec<String> = bad.into_iter().collect();
    let all: BTreeSet<String> = pod
        .containers
        .iter()
        .flat_map(|container| hosts(container))
        .collect();

    (!bad.is_empty()).then(|| {
        let noun = plural("probe or lifecycle host", all.len());
        let subject = counted("container", &bad);
        let detail = format!("{subject} {} {noun} {}", uses(bad.len()), quoted(&all));
        ("probe or lifecycle host".to_owned(), detail)
    })
}

fn privileged(pod: &PodView<'_>) -> Option<Violation> {
    let bad = pod.names(|container| container["securityContext"]["privileged"] == true);
    (!bad.is_empty()).then(|| {
        let detail = format!(
            "{} must not set securityContext.privileged=true",
            counted("container", &bad)
        );
        ("privileged".to_owned(), detail)
    })
}

/// Checks the mounts of `/proc`. `restricted` repeats this for Pods with their own user namespace.
pub(super) fn proc_mount(pod: &PodView<'_>) -> Option<Violation> {
    let mount = |container: &Value| text(container, &["securityContext", "procMount"]).to_owned();
    let is_bad = |mount: &String| !matches!(mount.as_str(), "" | "Default");
    let bad = pod.names(|container| is_bad(&mount(container)));
    let all: BTreeSet<String> = pod
        .containers
        .iter()
        .map(|container| mount(container))
        .filter(is_bad)
        .collect();

    (!bad.is_empty()).then(|| {
        let subject = counted("container", &bad);
        (
            "procMount".to_owned(),
            format!(
                "{subject} must not set securityContext.procMount to {}",
                quoted(&all)
            ),
        )
    })
}

/// Checks the seccomp profiles that are set.
pub(super) fn seccomp(pod: &PodView<'_>) -> Option<Violation> {
    let is_allowed = |kind: &str| matches!(kind, "RuntimeDefault" | "Localhost");
    let path = ["seccompProfile", "type"];
    let setters =
        pod.setters(|context| !context[path[0]].is_null() && !is_allowed(text(context, &path)))?;
    let values = bad_values(pod, &path, is_allowed);
    let detail = format!(
        "{setters} must not set securityContext.seccompProfile.type to {}",
        quoted(&values)
    );

    Some(("seccompProfile".to_owned(), detail))
}

fn se_linux(pod: &PodView<'_>) -> Option<Violation> {
    let options = |context: &Value| context["seLinuxOptions"].clone();
    let has = |context: &Value, field: &str| !text(&options(context), &[field]).is_empty();
    let bad_type = |context: &Value| !SELINUX_TYPES.contains(&text(&options(context), &["type"]));
    let is_bad =
        |context: &Value| bad_type(context) || has(context, "user") || has(context, "role");
    let setters = pod.setters(is_bad)?;
    let types = bad_values(pod, &["seLinuxOptions", "type"], |of| {
        SELINUX_TYPES.contains(&of)
    });

    let any = |field: &str| pod.setters(|context| has(context, field)).is_some();
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!(
            "{} {}",
            plural("type", types.len()),
            quoted(&types)
        ));
    }

    for field in ["user", "role"] {
        if any(field) {
            data.push(format!("{field} may not be set"));
        }
    }

    let detail = format!(
        "{setters} set forbidden securityContext.seLinuxOptions: {}",
        data.join("; ")
    );
    Some(("seLinuxOptions".to_owned(), detail))
}

fn sysctls(pod: &PodView<'_>) -> Option<Violation> {
    let sysctls = pod.spec["securityContext"]["sysctls"]
        .as_array()
        .into_iter()
        .flatten();
    let names = sysctls.map(|sysctl| text(sysctl, &["name"]));
    let bad: Vec<&str> = names.filter(|name| !SYSCTLS.contains(name)).collect();

    (!bad.is_empty()).then(|| ("forbidden sysctls".to_owned(), bad.join(", ")))
}

fn windows_host_process(pod: &PodView<'_>) -> Option<Violation> {
    let setters = pod.setters(|context| context["windowsOptions"]["hostProcess"] == true)?;
    let detail = format!("{setters} must not set securityContext.windowsOptions.hostProcess=true");
    Some(("hostProcess".to_owned(), detail))
}

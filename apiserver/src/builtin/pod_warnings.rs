//! The warnings about Pods and Pod templates, in the order of
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/api/pod/warnings.go>.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use serde_json::Value;

use super::{
    codec::Quantity,
    object::{at, fields, has, int, items, text},
};
use crate::{apimachinery::names, golang::quote};

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Kinds of volumes that are deprecated: their fields, with the names and the words of warnings.
const DEPRECATED_VOLUMES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

/// What is said about a label of Nodes that is deprecated.
fn deprecated_node_label(label: &str) -> Option<&'static str> {
    Some(match label {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// Returns the warnings about a Pod, or about a template at a path such as `spec.template`.
pub(super) fn pod_warnings(pod: &Value, template: Option<&str>) -> Vec<String> {
    let prefix = template.map_or_else(String::new, |path| format!("{path}."));
    let mut warnings = Warnings {
        spec: format!("{prefix}spec"),
        annotations_path: format!("{prefix}metadata.annotations"),
        is_template: template.is_some(),
        found: Vec::new(),
    };

    let spec = at(pod, "spec");
    warnings.node_labels(spec);
    warnings.annotations(pod);
    warnings.volumes(spec);
    warnings.repeated_names(spec);
    warnings.overhead_and_seccomp(pod);
    warnings.containers(pod);
    warnings.ports(spec);
    warnings.port_names(spec);
    warnings.grace_period(spec);
    warnings.pod_affinity(spec);
    warnings.addresses(spec);
    warnings.found
}

/// The containers of a Pod with their paths below the specification.
fn containers(spec: &Value) -> impl Iterator<Item = (String, &Value)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(move |list| {
        let containers = items(spec, list).iter().enumerate();
        containers.map(move |(at, container)| (format!("{list}[{at}]"), container))
    })
}

struct Warnings {
    /// The path of the specification.
    spec: String,
    annotations_path: String,
    is_template: bool,
    found: Vec<String>,
}

impl Warnings {
    /// Adds a warning about a field below the specification.
    fn add(&mut self, field: &str, problem: &str) {
        self.found.push(format!("{}.{field}: {problem}", self.spec));
    }

    fn add_annotation(&mut self, key: &str, problem: &str) {
        let path = &self.annotations_path;
        self.found.push(format!("{path}[{key}]: {problem}"));
    }

    fn node_labels(&mut self, spec: &Value) {
        for label in fields(spec, "nodeSelector").keys() {
            if let Some(problem) = deprecated_node_label(label) {
                self.add(&format!("nodeSelector[{label}]"), problem);
            }
        }

        let affinity = at(spec, "affinity.nodeAffinity");
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let terms = items(at(affinity, required), "nodeSelectorTerms");
        for (at, term) in terms.iter().enumerate() {
            let path = format!("affinity.nodeAffinity.{required}.nodeSelectorTerms[{at}]");
            self.node_selector_term(term, false, &path);
        }

        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (at, term) in items(affinity, preferred).iter().enumerate() {
            let path = format!("affinity.nodeAffinity.{preferred}[{at}].preference");
            self.node_selector_term(&term["preference"], true, &path);
        }

        let constraints = items(spec, "topologySpreadConstraints").iter();
        for (at, constraint) in constraints.enumerate() {
            let path = format!("topologySpreadConstraints[{at}]");
            let label = text(constraint, "topologyKey");
            if let Some(problem) = deprecated_node_label(label) {
                self.add(
                    &format!("{path}.topologyKey"),
                    &format!("{label} is {problem}"),
                );
            }
            self.label_selector(constraint, &path);
        }
    }

    fn node_selector_term(&mut self, term: &Value, checks_values: bool, path: &str) {
        let expressions = items(term, "matchExpressions").iter();
        for (at, expression) in expressions.enumerate() {
            let path = format!("{path}.matchExpressions[{at}]");
            let label = text(expression, "key");
            if let Some(problem) = deprecated_node_label(label) {
                self.add(&format!("{path}.key"), &format!("{label} is {problem}"));
            }

            let values = items(expression, "values").iter().enumerate();
            for (at, value) in values.filter(|_| checks_values) {
                let value = value.as_str().unwrap_or_default();
                for problem in names::label_value(value) {
                    let path = format!("{path}.values[{at}]");
                    self.add(&path, &format!("{value} is invalid, {problem}"));
                }
            }
        }
    }

    /// Warns of a selector that is missing, and selects nothing.
    fn label_selector(&mut self, value: &Value, path: &str) {
        if !has(value, "labelSelector") {
            let problem = "a null labelSelector results in matching no pod";
            self.add(&format!("{path}.labelSelector"), problem);
        }
    }

    fn annotations(&mut self, pod: &Value) {
        for (key, problem) in DEPRECATED_ANNOTATIONS {
            if fields(pod, "metadata.annotations").contains_key(key) {
                self.add_annotation(key, problem);
            }
        }
    }

    fn volumes(&mut self, spec: &Value) {
        for (at, volume) in items(spec, "volumes").iter().enumerate() {
            let path = format!("volumes[{at}]");
            for (field, name, problem) in &DEPRECATED_VOLUMES[..7] {
                if has(volume, field) {
                    self.add(&format!("{path}.{name}"), problem);
                }
            }

            for list in ["requests", "limits"] {
                let claim = "ephemeral.volumeClaimTemplate.spec.resources";
                let claim = format!("{claim}.{list}");
                self.fraction(
                    fields(volume, &claim),
                    "storage",
                    &format!("{path}.{claim}"),
                );
            }

            for (field, name, problem) in &DEPRECATED_VOLUMES[7..] {
                if has(volume, field) {
                    self.add(&format!("{path}.{name}"), problem);
                }
            }
        }

        for volume in items(spec, "volumes") {
            let name = quote(text(volume, "name"));
            for (kind, problem) in overlapping_paths(volume) {
                self.found.push(match problem {
                    Some(problem) => {
                        format!("volume {name} ({kind}): overlapping paths: {problem}")
                    }
                    None => format!("volume {name} ({kind}) has no sources provided"),
                });
            }
        }
    }

    /// Warns of bytes that are no whole number.
    fn fraction(&mut self, amounts: &serde_json::Map<String, Value>, name: &str, path: &str) {
        let amount = amounts.get(name).and_then(Value::as_str);
        let parsed = amount.and_then(|amount| Quantity::parse(amount).ok());
        if let Some(fraction) = parsed.filter(|amount| !amount.is_integer()) {
            let value = fraction.canonical();
            let problem = format!("fractional byte value {value:?} is invalid, must be an integer");
            self.add(&format!("{path}[{name}]"), &problem);
        }
    }

    fn repeated_names(&mut self, spec: &Value) {
        for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
            let mut seen = HashSet::new();
            for (at, item) in items(spec, list).iter().enumerate() {
                if !seen.insert(text(item, field)) {
                    let problem = format!("duplicate {field} {}", quote(text(item, field)));
                    self.add(&format!("{list}[{at}].{field}"), &problem);
                }
            }
        }

        for (at, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
            if text(secret, "name").is_empty() {
                let path = format!("imagePullSecrets[{at}].name");
                self.add(&path, "invalid empty name \"\"");
            }
        }
    }

    fn overhead_and_seccomp(&mut self, pod: &Value) {
        let spec = at(pod, "spec");
        for name in ["memory", "ephemeral-storage"] {
            self.fraction(fields(spec, "overhead"), name, "overhead");
        }

        let has_profile = has(spec, "securityContext.seccompProfile");
        if !has_profile && fields(pod, "metadata.annotations").contains_key(SECCOMP_POD) {
            let problem = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
            self.add_annotation(SECCOMP_POD, problem);
        }
    }

    fn containers(&mut self, pod: &Value) {
        let spec = at(pod, "spec");
        let annotations = fields(pod, "metadata.annotations");
        let pod_profile = at(spec, "securityContext.appArmorProfile");

        for (path, container) in containers(spec) {
            let name = text(container, "name");

            let key = format!("{SECCOMP_CONTAINER}{name}");
            let has_profile = has(container, "securityContext.seccompProfile");
            if !has_profile && annotations.contains_key(&key) {
                let problem = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
                self.add_annotation(&key, problem);
            }

            let key = format!("{APP_ARMOR}{name}");
            let has_profile = has(container, "securityContext.appArmorProfile");
            if self.is_template
                && !has_profile
                && let Some(annotation) = annotations.get(&key).and_then(Value::as_str)
                && (pod_profile.is_null() || app_armor_profile(annotation) != *pod_profile)
            {
                let problem = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
                self.add_annotation(&key, problem);
            }

            for name in ["memory", "ephemeral-storage"] {
                for list in ["limits", "requests"] {
                    let amounts = fields(container, &format!("resources.{list}"));
                    self.fraction(amounts, name, &format!("{path}.resources.{list}"));
                }
            }

            self.environment(container, &path);
        }
    }

    /// Warns of a variable that replaces another one without using it.
    fn environment(&mut self, container: &Value, path: &str) {
        let mut seen = HashSet::new();
        for (at, variable) in items(container, "env").iter().enumerate() {
            let name = text(variable, "name");
            if seen.insert(name) {
                continue;
            }

            let reference = format!("$({name})");
            let value = text(variable, "value");
            let uses_previous = value.contains(&reference) && value != reference;
            if has(variable, "valueFrom") || !uses_previous {
                let name = quote(name);
                let problem = format!(
                    "hides previous definition of {name}, which may be dropped when using apply"
                );
                self.add(&format!("{path}.env[{at}]"), &problem);
            }
        }
    }

    fn ports(&mut self, spec: &Value) {
        let mut seen: HashMap<(i64, &str), Vec<(String, &Value)>> = HashMap::new();
        let host_port = |port: &Value| int(port, "hostPort").unwrap_or(0);

        for (container, value) in containers(spec) {
            for (at, port) in items(value, "ports").iter().enumerate() {
                let path = format!("{container}.ports[{at}]");
                let (number, host_ip) = (host_port(port), text(port, "hostIP"));
                let container_port = int(port, "containerPort").unwrap_or(0);
                let protocol = text(port, "protocol");

                if !host_ip.is_empty() && number == 0 {
                    let name = text(port, "name");
                    let problem = format!(
                        "hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{container_port} \
                         Protocol:{protocol} HostIP:{host_ip}}}"
                    );
                    self.add(&path, &problem);
                }

                let others = seen.entry((container_port, protocol)).or_default();
                for (other_path, other) in others.iter() {
                    let (other_number, other_ip) = (host_port(other), text(other, "hostIP"));
                    let conflict = if (number, host_ip) == (other_number, other_ip) {
                        "duplicate"
                    } else if number == 0 || other_number == 0 {
                        "overlapping"
                    } else if number == other_number && host_ip.is_empty() != other_ip.is_empty() {
                        "dangerously ambiguous"
                    } else {
                        continue;
                    };

                    let spec = &self.spec;
                    self.found.push(format!(
                        "{spec}.{path}: {conflict} port definition with {spec}.{other_path}"
                    ));
                }
                others.push((path, port));
            }
        }
    }

    fn port_names(&mut self, spec: &Value) {
        let mut seen: HashMap<&str, String> = HashMap::new();
        for (container, value) in containers(spec) {
            for (at, port) in items(value, "ports").iter().enumerate() {
                let path = format!("{container}.ports[{at}]");
                let name = text(port, "name");
                if name.is_empty() {
                    continue;
                }

                if let Some(other) = seen.get(name) {
                    let other = format!("{}.{other}", self.spec);
                    let problem = format!(
                        "duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                        quote(name)
                    );
                    self.add(&path, &problem);
                } else {
                    seen.insert(name, path);
                }
            }
        }
    }

    fn grace_period(&mut self, spec: &Value) {
        let field = "terminationGracePeriodSeconds";
        if int(spec, field).is_some_and(|seconds| seconds < 0) {
            self.add(
                field,
                "must be >= 0; negative values are invalid and will be treated as 1",
            );
        }
    }

    fn pod_affinity(&mut self, spec: &Value) {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let affinity = at(spec, "affinity").get(kind).unwrap_or(&Value::Null);

            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            for (at, term) in items(affinity, required).iter().enumerate() {
                self.label_selector(term, &format!("affinity.{kind}.{required}[{at}]"));
            }

            let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
            for (at, term) in items(affinity, preferred).iter().enumerate() {
                let path = format!("affinity.{kind}.{preferred}[{at}].podAffinityTerm");
                self.label_selector(&term["podAffinityTerm"], &path);
            }
        }
    }

    fn addresses(&mut self, spec: &Value) {
        let servers = items(spec, "dnsConfig.nameservers").iter().enumerate();
        for (at, server) in servers {
            let server = server.as_str().unwrap_or_default();
            self.address(server, &format!("dnsConfig.nameservers[{at}]"));
        }
        for (at, alias) in items(spec, "hostAliases").iter().enumerate() {
            self.address(text(alias, "ip"), &format!("hostAliases[{at}].ip"));
        }
    }

    /// Warns of an IP address that isn't in its usual form.
    fn address(&mut self, address: &str, path: &str) {
        let usual = match address.parse() {
            Ok(IpAddr::V4(_)) => return,
            Ok(IpAddr::V6(parsed)) => match parsed.to_ipv4_mapped() {
                Some(mapped) => Some(mapped.to_string()),
                None => {
                    let usual = parsed.to_string();
                    if usual != address {
                        let (address, usual) = (quote(address), quote(&usual));
                        let problem = format!(
                            "IPv6 address {address} should be in RFC 5952 canonical format ({usual})"
                        );
                        self.add(path, &problem);
                    }
                    return;
                }
            },
            Err(_) => without_leading_zeros(address),
        };

        if let Some(usual) = usual {
            let (address, usual) = (quote(address), quote(&usual));
            let problem = format!("non-standard IP address {address} is invalid: use {usual}");
            self.add(path, &problem);
        }
    }
}

/// Returns an IPv4 address without leading zeros, if it is one.
fn without_leading_zeros(address: &str) -> Option<String> {
    let numbers: Vec<u8> = address
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let [a, b, c, d] = numbers[..] else {
        return None;
    };
    Some(format!("{a}.{b}.{c}.{d}"))
}

/// Returns the profile that an annotation stands for, as the field has it.
fn app_armor_profile(annotation: &str) -> Value {
    match annotation {
        "unconfined" => serde_json::json!({"type": "Unconfined"}),
        "runtime/default" => serde_json::json!({"type": "RuntimeDefault"}),
        other => match other.strip_prefix("localhost/") {
            Some(name) if !name.is_empty() => {
                serde_json::json!({"type": "Localhost", "localhostProfile": name})
            }
            _ => Value::Null,
        },
    }
}

/// A path of a file in a volume, and where it comes from.
#[derive(Clone, PartialEq, Eq)]
struct FilePath {
    path: String,
    source: String,
}

impl FilePath {
    fn shown(&self) -> String {
        match self.source.as_str() {
            "" => quote(&self.path),
            source => format!("{} ({source})", quote(&self.path)),
        }
    }

    /// Reports whether a file would have the other's path, or be in a folder with its path.
    fn overlaps(&self, other: &Self) -> bool {
        let is_in = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (is_in(&self.path, &other.path) || is_in(&other.path, &self.path))
    }
}

/// Returns the files of a volume that have the same path, or that of a folder for another, with the
/// kind of the volume. A projected volume may also have a source without a kind.
fn overlapping_paths(volume: &Value) -> Vec<(String, Option<String>)> {
    let mut problems = Vec::new();
    let single = [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ];

    for (field, shown, name) in single {
        let source = at(volume, field);
        let kind = named(shown, source, name);
        let mut files = Vec::new();
        for overlap in overlaps(&mut files, paths_of(source, "")) {
            problems.push((kind.clone(), Some(overlap)));
        }
    }

    let mut files = Vec::new();
    for source in items(volume, "projected.sources") {
        if source.as_object().is_none_or(serde_json::Map::is_empty) {
            problems.push(("Projected".to_owned(), None));
            continue;
        }
        for overlap in overlaps(&mut files, projected_paths(source)) {
            problems.push(("Projected".to_owned(), Some(overlap)));
        }
    }

    problems
}

fn named(kind: &str, source: &Value, name: &str) -> String {
    if name.is_empty() {
        return kind.to_owned();
    }
    format!("{kind} {}", quote(text(source, name)))
}

fn paths_of(source: &Value, shown: &str) -> Vec<FilePath> {
    let files = items(source, "items").iter();
    files
        .map(|file| FilePath {
            path: text(file, "path").to_owned(),
            source: shown.to_owned(),
        })
        .collect()
}

/// The paths of one source of a projected volume.
fn projected_paths(source: &Value) -> Vec<FilePath> {
    for (field, shown, name) in [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "name"),
        ("downwardAPI", "DownwardAPI", ""),
    ] {
        let inner = at(source, field);
        if has(inner, "items") {
            return paths_of(inner, &named(shown, inner, name));
        }
    }

    let file = |path: &str, shown: String| FilePath {
        path: path.to_owned(),
        source: shown,
    };
    if has(source, "serviceAccountToken") {
        let path = text(source, "serviceAccountToken.path");
        return vec![file(path, "ServiceAccountToken".to_owned())];
    }
    if has(source, "clusterTrustBundle") {
        let bundle = at(source, "clusterTrustBundle");
        let name = if has(bundle, "name") {
            "name"
        } else {
            "signerName"
        };
        return vec![file(
            text(bundle, "path"),
            named("ClusterTrustBundle", bundle, name),
        )];
    }

    let certificate = at(source, "podCertificate");
    [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ]
    .into_iter()
    .map(|(field, shown)| file(text(certificate, field), shown.to_owned()))
    .filter(|file| !file.path.is_empty())
    .collect()
}

/// Adds files to those that are known, and returns how they overlap.
fn overlaps(known: &mut Vec<FilePath>, added: Vec<FilePath>) -> Vec<String> {
    let mut found = Vec::new();
    for mut file in added {
        file.path.truncate(file.path.trim_end_matches('/').len());
        let others = known.iter().filter(|other| other.overlaps(&file));
        found.extend(others.map(|other| format!("{} with {}", file.shown(), other.shown())));
        known.push(file);
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warns_of_ports_as_kubernetes_does() {
        let pod = json!({"spec": {
            "initContainers": [{"name": "i", "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}]}],
            "containers": [{"name": "c", "ports": [
                {"name": "http", "containerPort": 80, "protocol": "TCP"},
                {"containerPort": 80, "protocol": "UDP"},
                {"containerPort": 80, "protocol": "TCP", "hostPort": 8080},
                {"containerPort": 80, "protocol": "TCP", "hostPort": 8080, "hostIP": "10.0.0.1"},
                {"containerPort": 81, "protocol": "TCP", "hostIP": "10.0.0.1"},
            ]}],
        }});

        let first = "spec.initContainers[0].ports[0]";
        let own = |at: usize| format!("spec.containers[0].ports[{at}]");
        assert_eq!(
            pod_warnings(&pod, None),
            [
                format!("{}: duplicate port definition with {first}", own(0)),
                format!("{}: overlapping port definition with {first}", own(2)),
                format!("{}: overlapping port definition with {}", own(2), own(0)),
                format!("{}: overlapping port definition with {first}", own(3)),
                format!("{}: overlapping port definition with {}", own(3), own(0)),
                format!(
                    "{}: dangerously ambiguous port definition with {}",
                    own(3),
                    own(2)
                ),
                format!(
                    "{}: hostIP set without hostPort: {{Name: HostPort:0 ContainerPort:81 Protocol:TCP HostIP:10.0.0.1}}",
                    own(4)
                ),
                format!(
                    "{}: duplicate port name \"http\" with {first}, services and probes that select ports by name will use {first}",
                    own(0)
                ),
            ]
        );
    }

    #[test]
    fn warns_of_what_else_is_odd_in_a_template() {
        let template = json!({
            "metadata": {"annotations": {
                "container.apparmor.security.beta.kubernetes.io/c": "unconfined",
                "scheduler.alpha.kubernetes.io/critical-pod": "",
                "seccomp.security.alpha.kubernetes.io/pod": "",
            }},
            "spec": {
                "nodeSelector": {"beta.kubernetes.io/os": "linux"},
                "terminationGracePeriodSeconds": -1,
                "hostAliases": [{"ip": "010.0.0.1"}, {"ip": "010.0.0.1"}, {"ip": "::FFFF:10.0.0.1"}, {"ip": "2001:DB8::1"}],
                "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}],
                "overhead": {"memory": "500m"},
                "affinity": {
                    "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"preference": {
                        "matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}}]},
                    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {}}]},
                },
                "containers": [{"name": "c", "env": [
                    {"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"},
                ]}],
                "volumes": [
                    {"name": "g", "gitRepo": {}},
                    {"name": "m", "configMap": {"name": "m", "items": [{"path": "a"}, {"path": "a/b"}, {"path": "ab"}]}},
                    {"name": "p", "projected": {"sources": [{}, {"serviceAccountToken": {"path": "t/"}},
                        {"secret": {"name": "s", "items": [{"path": "t"}]}}]}},
                ],
            },
        });

        let found = pod_warnings(&template, Some("spec.template"));
        let label = names::label_value("-").remove(0);
        let expected = [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            &format!(
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: - is invalid, {label}"
            ),
            "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \"priorityClassName\" field instead",
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "volume \"m\" (ConfigMap \"m\"): overlapping paths: \"a/b\" with \"a\"",
            "volume \"p\" (Projected) has no sources provided",
            "volume \"p\" (Projected): overlapping paths: \"t\" (Secret \"s\") with \"t\" (ServiceAccountToken)",
            "spec.hostAliases[1].ip: duplicate ip \"010.0.0.1\"",
            "spec.imagePullSecrets[1].name: duplicate name \"a\"",
            "spec.imagePullSecrets[2].name: invalid empty name \"\"",
            "spec.overhead[memory]: fractional byte value \"500m\" is invalid, must be an integer",
            "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
            "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the \"appArmorProfile\" field instead",
            "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod",
            "spec.hostAliases[0].ip: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"",
            "spec.hostAliases[1].ip: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"",
            "spec.hostAliases[2].ip: non-standard IP address \"::FFFF:10.0.0.1\" is invalid: use \"10.0.0.1\"",
            "spec.hostAliases[3].ip: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
        ];
        let expected: Vec<String> = expected
            .iter()
            .map(|line| match line.starts_with("volume") {
                true => (*line).to_owned(),
                false => format!("spec.template.{line}"),
            })
            .collect();
        assert_eq!(found, expected);
    }
}

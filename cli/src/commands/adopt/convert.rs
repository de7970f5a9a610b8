//! Converts a Deployment to a Plugin. The fields of the Pod and its container that a process has
//! keep their names; each other field is a finding.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use operetta_api::{
    annotations::ADOPTED, names::is_dns_subdomain, plugin::KIND as PLUGIN, reasons,
};
use operetta_apiserver::apimachinery::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::report::{Finding, Verdict};

/// The kinds that become Plugins.
const WORKLOADS: [&str; 2] = ["Deployment", "StatefulSet"];

/// Fields of a Pod and its container that a process doesn't need, or that the host takes care of.
const NOT_NEEDED: [&str; 33] = [
    "activeDeadlineSeconds",
    "affinity",
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "hostUsers",
    "hostname",
    "image",
    "imagePullPolicy",
    "imagePullSecrets",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "securityContext",
    "setHostnameAsFQDN",
    "stdin",
    "stdinOnce",
    "subdomain",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tolerations",
    "topologySpreadConstraints",
    "tty",
];

/// Those of [`NOT_NEEDED`] that people set on purpose, so the report mentions them.
const WORTH_SAYING: [&str; 8] = [
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "securityContext",
    "tolerations",
    "topologySpreadConstraints",
];

/// Fields that are converted.
const CONVERTED: [&str; 18] = [
    "args",
    "command",
    "containers",
    "dnsPolicy",
    "env",
    "envFrom",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "serviceAccount",
    "serviceAccountName",
    "startupProbe",
    "terminationGracePeriodSeconds",
    "volumeDevices",
    "volumeMounts",
    "volumes",
    "workingDir",
];

/// Fields that a process can't have, and why.
const IMPOSSIBLE: [(&str, &str); 8] = [
    (
        "hostNetwork",
        "a process has no network interfaces, not even its own",
    ),
    ("hostPID", "a process sees no other processes"),
    ("hostIPC", "a process has no IPC"),
    ("hostAliases", "a process has no /etc/hosts"),
    ("shareProcessNamespace", "a process sees no other processes"),
    (
        "lifecycle",
        "there are no hooks; the program gets SIGTERM and its grace period",
    ),
    ("dnsConfig", "the host resolves names"),
    (
        "ephemeralContainers",
        "a process has no containers beside it",
    ),
];

/// The fields of a Pod that a process's variables and files can refer to.
const FIELDS: [&str; 6] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.serviceAccountName",
    "status.podIP",
    "status.podIPs",
];

/// The resources that a process's variables can refer to, and their units.
const RESOURCES: [&str; 4] = [
    "limits.memory",
    "requests.memory",
    "limits.cpu",
    "requests.cpu",
];
const DIVISORS: [&str; 8] = ["1", "1m", "1k", "1M", "1G", "1Ki", "1Mi", "1Gi"];

/// The kinds of volumes that a process can have.
const VOLUMES: [&str; 5] = [
    "configMap",
    "secret",
    "projected",
    "downwardAPI",
    "emptyDir",
];

/// The memory of a process whose Plugin sets no limit, in bytes.
const DEFAULT_MEMORY: u128 = 256 << 20;

/// The longest grace period of a process, in seconds.
const MAX_GRACE: u64 = 600;

/// The container that becomes a process.
pub struct Operator<'a> {
    workload: &'a Value,
    container: &'a Value,
    findings: Vec<Finding>,
}

/// A Plugin, and the findings of the conversion.
pub struct Converted {
    pub plugin: Value,
    pub service_account: String,
    pub findings: Vec<Finding>,
}

/// The name of an object for people: `Deployment/manager`.
pub fn name_of(object: &Value) -> String {
    format!("{}/{}", text(&object["kind"]), name(object))
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn containers(workload: &Value) -> &[Value] {
    list(&workload["spec"]["template"]["spec"]["containers"])
}

/// True for what a template renders when a field's value is not set, such as `[]` or `null`.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The proxy that older versions of kubebuilder put in front of the metrics.
fn is_rbac_proxy(container: &Value) -> bool {
    let image = text(&container["image"]);
    let image = image.split(['@', ':']).next().unwrap_or_default();
    text(&container["name"]) == "kube-rbac-proxy" || image.ends_with("/kube-rbac-proxy")
}

impl<'a> Operator<'a> {
    /// Finds the operator's container.
    ///
    /// # Errors
    /// Returns an error that lists the candidates unless exactly one is left, given these names.
    pub fn find(
        objects: &'a [Value],
        deployment: Option<&str>,
        container: Option<&str>,
    ) -> Result<Self> {
        let all: Vec<_> = objects
            .iter()
            .filter(|object| WORKLOADS.contains(&text(&object["kind"])))
            .collect();
        let listed = || {
            let names = all.iter().map(|workload| {
                let containers: Vec<_> = containers(workload)
                    .iter()
                    .map(|container| text(&container["name"]))
                    .collect();
                format!("{} ({})", name_of(workload), containers.join(", "))
            });
            names.collect::<Vec<_>>().join(", ")
        };

        let wanted: Vec<_> = all
            .iter()
            .filter(|workload| deployment.is_none_or(|wanted| name(workload) == wanted))
            .collect();
        let workload = match (wanted.as_slice(), deployment) {
            ([workload], _) => **workload,
            ([], _) if all.is_empty() => bail!(
                "the manifests have no Deployment and no StatefulSet (objects: {}), so there is nothing to adopt; choose \
                 others with --manifests",
                objects.len()
            ),
            ([], Some(wanted)) => {
                bail!(
                    "the manifests have no Deployment {wanted}: they have {}",
                    listed()
                )
            }
            _ => bail!(
                "several Deployments could be the operator: choose one with --deployment: {}",
                listed()
            ),
        };

        let mut findings = Vec::new();
        let left_out = |container: &Value, note: &str, verdict| {
            let place = format!("containers[{}]", text(&container["name"]));
            Finding::new(verdict, name_of(workload), place, note)
        };
        let (proxies, others): (Vec<_>, Vec<_>) = containers(workload)
            .iter()
            .partition(|container| is_rbac_proxy(container));
        findings.extend(proxies.iter().map(|proxy| {
            let note = "is left out: it guards a Pod's metrics, and nobody but the host reaches a process's";
            left_out(proxy, note, Verdict::Works)
        }));

        let names: Vec<_> = others
            .iter()
            .map(|container| text(&container["name"]))
            .collect();
        let chosen = match (others.as_slice(), container) {
            (_, Some(wanted)) => others
                .iter()
                .find(|container| text(&container["name"]) == wanted)
                .with_context(|| {
                    format!(
                        "{} has no container {wanted}: it has {}",
                        name_of(workload),
                        names.join(", ")
                    )
                })?,
            ([only], None) => only,
            ([], None) => bail!(
                "{} has no container that could be the operator",
                name_of(workload)
            ),
            _ => bail!(
                "{} has several containers: choose the operator's with --container: {}",
                name_of(workload),
                names.join(", ")
            ),
        };
        findings.extend(
            others
                .iter()
                .filter(|other| !std::ptr::eq(**other, *chosen))
                .map(|other| {
                    left_out(other, "is left out: a process has no sidecars", Verdict::No)
                }),
        );

        Ok(Self {
            workload,
            container: chosen,
            findings,
        })
    }

    /// The Deployment.
    pub fn workload(&self) -> &'a Value {
        self.workload
    }

    /// Where the volumes that the process keeps are mounted.
    pub fn mounts(&self) -> Vec<String> {
        let volumes = list(&self.pod()["volumes"]);
        let kept = |name: &str| {
            volumes.iter().any(|volume| {
                text(&volume["name"]) == name
                    && VOLUMES.iter().any(|source| !volume[*source].is_null())
            })
        };
        list(&self.container["volumeMounts"])
            .iter()
            .filter(|mount| kept(text(&mount["name"])))
            .map(|mount| text(&mount["mountPath"]).to_owned())
            .collect()
    }

    fn pod(&self) -> &'a Value {
        &self.workload["spec"]["template"]["spec"]
    }

    fn add(&mut self, verdict: Verdict, place: impl Into<String>, note: impl Into<String>) {
        self.findings
            .push(Finding::new(verdict, name_of(self.workload), place, note));
    }

    /// Makes the Plugin; `source` is the file of its component in the host's `pluginDirectory`. The
    /// Plugin keeps the objects `left_out` beside the Deployment, for the way back.
    ///
    /// # Errors
    /// Returns an error if the host would refuse the Plugin, or if it couldn't work at all: no
    /// ServiceAccount of its own, a shell as its command, or values of the wrong type.
    pub fn convert(mut self, source: &str, left_out: &[Value]) -> Result<Converted> {
        let workload = self.workload;
        let replaced: Vec<_> = std::iter::once(workload).chain(left_out).collect();
        let replaced = json!({ "apiVersion": "v1", "kind": "List", "items": replaced });
        let name = name(workload);
        if !is_dns_subdomain(name) {
            bail!(reasons::INVALID_NAME.error(format!(
                "{} has a name that no Plugin can have",
                name_of(workload)
            )));
        }

        let service_account = self.service_account()?;
        let mut process = Map::new();
        self.arguments(&mut process)?;
        self.working_dir(&mut process);
        self.environment(&mut process)?;
        self.volumes(&mut process)?;
        for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
            if let Some(converted) = self.probe(probe)? {
                process.insert(probe.to_owned(), converted);
            }
        }
        if let Some(seconds) = self.pod()["terminationGracePeriodSeconds"].as_u64() {
            if seconds > MAX_GRACE {
                self.add(
                    Verdict::No,
                    "terminationGracePeriodSeconds",
                    format!("{seconds} becomes {MAX_GRACE}, the longest grace period of a process"),
                );
            }
            process.insert(
                "terminationGracePeriodSeconds".to_owned(),
                seconds.min(MAX_GRACE).into(),
            );
        }

        let mut spec = Map::from_iter([
            ("source".to_owned(), json!({ "path": source })),
            ("serviceAccountName".to_owned(), json!(service_account)),
            ("process".to_owned(), Value::Object(process)),
        ]);
        if let Some(memory) = self.resources()? {
            spec.insert("limits".to_owned(), json!({ "memory": memory }));
        }
        self.replicas(&mut spec);
        self.rest();

        let mut metadata = Map::from_iter([
            ("name".to_owned(), json!(name)),
            (
                "annotations".to_owned(),
                json!({ ADOPTED: replaced.to_string() }),
            ),
        ]);
        for field in ["namespace", "labels"] {
            if !is_unset(&workload["metadata"][field]) {
                metadata.insert(field.to_owned(), workload["metadata"][field].clone());
            }
        }

        let plugin = json!({
            "apiVersion": operetta_api::API_VERSION,
            "kind": PLUGIN,
            "metadata": metadata,
            "spec": spec,
        });
        Ok(Converted {
            plugin,
            service_account,
            findings: self.findings,
        })
    }

    fn service_account(&self) -> Result<String> {
        let pod = self.pod();
        let account = [&pod["serviceAccountName"], &pod["serviceAccount"]]
            .into_iter()
            .map(text)
            .find(|name| !name.is_empty())
            .unwrap_or("default");
        if account == "default" {
            bail!(
                "{} runs as the ServiceAccount default, which no plugin may act as: give it a ServiceAccount of its own, bind \
                 the operator's Roles to that one, and set serviceAccountName",
                name_of(self.workload)
            );
        }
        Ok(account.to_owned())
    }

    /// The image's program is the component; what follows it in `command` are arguments.
    fn arguments(&mut self, process: &mut Map<String, Value>) -> Result<()> {
        let command = self.texts("command")?;
        let mut arguments = self.texts("args")?;

        if let Some((program, more)) = command.split_first() {
            let program = program.rsplit('/').next().unwrap_or_default();
            if ["sh", "bash", "ash", "dash", "busybox", "tini", "dumb-init"].contains(&program) {
                bail!(
                    "the command of {} is {}, which isn't the operator: put the operator's own program and its arguments \
                     into command and args",
                    name_of(self.workload),
                    command.join(" ")
                );
            }
            arguments.splice(0..0, more.iter().cloned());
        }

        for argument in &arguments {
            self.placeholder("args", argument);
        }
        if !arguments.is_empty() {
            process.insert("args".to_owned(), arguments.into());
        }
        Ok(())
    }

    fn working_dir(&mut self, process: &mut Map<String, Value>) {
        let folder = &self.container["workingDir"];
        if is_unset(folder) {
            return;
        }
        if text(folder).starts_with('/') {
            process.insert("workingDir".to_owned(), folder.clone());
        } else {
            let note = "is left out: a process starts in a folder with an absolute path";
            self.add(Verdict::No, "workingDir", note);
        }
    }

    /// Reports a text with a placeholder that a tool like clusterctl or envsubst fills in. The process
    /// would get it as it stands; only `$(NAME)` is replaced, as in a Pod.
    fn placeholder(&mut self, place: &str, value: &str) {
        let placeholder = value
            .split_once("${")
            .and_then(|(_, rest)| rest.split_once('}'));
        if let Some((placeholder, _)) = placeholder {
            let note = format!(
                "${{{placeholder}}} looks like a placeholder: render the manifests with the tool that fills it in, such as \
                 clusterctl or envsubst, and choose the result with --manifests"
            );
            self.add(Verdict::Maybe, place, note);
        }
    }

    /// A field of the container that is a list of strings.
    fn texts(&self, field: &str) -> Result<Vec<String>> {
        list(&self.container[field])
            .iter()
            .map(|value| {
                value.as_str().map(str::to_owned).with_context(|| {
                    format!(
                        "{field} of {} has {value}, which isn't a string: quote it",
                        name_of(self.workload)
                    )
                })
            })
            .collect()
    }

    fn environment(&mut self, process: &mut Map<String, Value>) -> Result<()> {
        let mut env = Vec::new();
        for variable in list(&self.container["env"]) {
            let name = text(&variable["name"]);
            let place = format!("env[{name}]");
            let value = &variable["value"];
            if !value.is_string() && !value.is_null() {
                bail!(
                    "{place} of {} has the value {value}, which isn't a string: quote it",
                    name_of(self.workload)
                );
            }

            self.placeholder(&place, text(value));

            let source = &variable["valueFrom"];
            if is_unset(source) {
                env.push(match text(value) {
                    "" => json!({ "name": name }),
                    value => json!({ "name": name, "value": value }),
                });
                continue;
            }

            let converted = if !source["fieldRef"].is_null() {
                self.field(text(&source["fieldRef"]["fieldPath"]), &place)
            } else if !source["resourceFieldRef"].is_null() {
                self.resource_field(&source["resourceFieldRef"], &place)
            } else if ["configMapKeyRef", "secretKeyRef"]
                .iter()
                .any(|kind| !source[*kind].is_null())
            {
                Some(json!({ "valueFrom": source }))
            } else {
                self.add(
                    Verdict::No,
                    &place,
                    "is left out: a process doesn't know this valueFrom",
                );
                None
            };

            if let Some(Value::Object(mut converted)) = converted {
                converted.insert("name".to_owned(), name.into());
                env.push(Value::Object(converted));
            }
        }

        if !env.is_empty() {
            process.insert("env".to_owned(), env.into());
        }

        let from = &self.container["envFrom"];
        if !is_unset(from) {
            process.insert("envFrom".to_owned(), from.clone());
        }
        Ok(())
    }

    /// A variable's value from a field of the Pod: a reference, or the text if the template has it.
    fn field(&mut self, path: &str, place: &str) -> Option<Value> {
        if FIELDS.contains(&path) {
            return Some(json!({ "valueFrom": { "fieldRef": { "fieldPath": path } } }));
        }

        if let Some((kind, key)) = key_of(path) {
            let value = text(&self.workload["spec"]["template"]["metadata"][kind][key]);
            return Some(json!({ "value": value }));
        }

        self.add(
            Verdict::No,
            place,
            format!("is left out: a process has no {path}"),
        );
        None
    }

    /// A variable's value from a request or limit, which the container itself sets.
    fn resource_field(&mut self, reference: &Value, place: &str) -> Option<Value> {
        let resource = text(&reference["resource"]);
        let own = [text(&self.container["name"]), ""];

        let value = resource
            .split_once('.')
            .filter(|_| own.contains(&text(&reference["containerName"])))
            .and_then(|(kind, name)| {
                let resources = &self.container["resources"];
                let set = &resources[kind][name];
                // Kubernetes takes a missing request from the limit.
                quantity(if set.is_null() && kind == "requests" {
                    &resources["limits"][name]
                } else {
                    set
                })
            });
        let divisor = quantity(&reference["divisor"]).filter(|divisor| *divisor > 0);

        match value {
            Some(value) => {
                let value = value.div_ceil(divisor.unwrap_or(1000));
                Some(json!({ "value": value.to_string() }))
            }
            // In a Pod these are the node's; a process has limits of its own.
            None if RESOURCES.contains(&resource)
                && own.contains(&text(&reference["containerName"])) =>
            {
                let mut kept = only(reference, &["resource", "divisor"]);
                if !DIVISORS.contains(&text(&reference["divisor"])) {
                    kept = only(reference, &["resource"]);
                }
                Some(json!({ "valueFrom": { "resourceFieldRef": kept } }))
            }
            None => {
                self.add(
                    Verdict::No,
                    place,
                    format!("is left out: the container sets no {resource}"),
                );
                None
            }
        }
    }

    fn volumes(&mut self, process: &mut Map<String, Value>) -> Result<()> {
        let mounts = list(&self.container["volumeMounts"]);
        let mut kept: BTreeMap<&str, Value> = BTreeMap::new();
        let mut order = Vec::new();

        for volume in list(&self.pod()["volumes"]) {
            let name = text(&volume["name"]);
            if !mounts.iter().any(|mount| text(&mount["name"]) == name) {
                // Only another container mounts it.
                continue;
            }
            if let Some(converted) = self.volume(volume, name)? {
                kept.insert(name, converted);
                order.push(name);
            }
        }

        for template in list(&self.workload["spec"]["volumeClaimTemplates"]) {
            let place = format!("volumeClaimTemplates[{}]", name(template));
            self.add(
                Verdict::No,
                place,
                "is left out with its mounts: a process has no disks, only emptyDir",
            );
        }

        let mut converted = Vec::new();
        for mount in mounts {
            if !kept.contains_key(text(&mount["name"])) {
                continue;
            }
            let path = text(&mount["mountPath"]);
            if !is_unset(&mount["subPathExpr"]) {
                let place = format!("volumeMounts[{path}].subPathExpr");
                self.add(Verdict::No, place, "is left out: use subPath");
                continue;
            }
            converted.push(only(mount, &["name", "mountPath", "subPath", "readOnly"]));
        }

        let volumes: Vec<_> = order.iter().filter_map(|name| kept.remove(name)).collect();
        if !volumes.is_empty() {
            process.insert("volumes".to_owned(), volumes.into());
        }
        if !converted.is_empty() {
            process.insert("volumeMounts".to_owned(), converted.into());
        }
        Ok(())
    }

    /// Converts a volume; None if a process can't have this kind.
    fn volume(&mut self, volume: &Value, name: &str) -> Result<Option<Value>> {
        let place = format!("volumes[{name}]");
        let Some(source) = VOLUMES
            .into_iter()
            .find(|source| !volume[*source].is_null())
        else {
            let kind = volume
                .as_object()
                .and_then(|fields| fields.keys().find(|field| *field != "name").cloned());
            let kind = kind.as_deref().unwrap_or("an empty volume");
            self.add(
                Verdict::No,
                place,
                format!(
                    "{kind} is left out with its mounts: a process has only {}",
                    VOLUMES.join(", ")
                ),
            );
            return Ok(None);
        };

        let mut converted = volume[source].clone();
        match source {
            "emptyDir" => {
                if let Some(limit) = converted.get_mut("sizeLimit") {
                    *limit = memory(limit).with_context(|| {
                        format!("{place}.emptyDir.sizeLimit of {}", name_of(self.workload))
                    })?;
                }
                // Such as HugePages, which a process has no use for.
                if !["", "Memory"].contains(&text(&converted["medium"])) {
                    converted = only(&converted, &["sizeLimit"]);
                }
            }
            "downwardAPI" => self.files(&mut converted, &place),
            "projected" => {
                let sources = converted.get_mut("sources").and_then(Value::as_array_mut);
                for source in sources.into_iter().flatten() {
                    let files = source.get_mut("downwardAPI");
                    if let Some(files) = files {
                        self.files(files, &place);
                    }
                }

                let known = ["configMap", "secret", "downwardAPI", "serviceAccountToken"];
                let sources = converted.get_mut("sources").and_then(Value::as_array_mut);
                if let Some(sources) = sources {
                    let all = sources.len();
                    sources.retain(|source| known.iter().any(|kind| !source[*kind].is_null()));
                    if sources.len() < all {
                        let note = format!(
                            "has sources other than {}, which are left out",
                            known.join(", ")
                        );
                        self.add(Verdict::No, &place, note);
                    }
                }
            }
            _ => {}
        }

        Ok(Some(json!({ "name": name, source: converted })))
    }

    /// Removes the files of a downward API volume whose fields a process doesn't have.
    fn files(&mut self, volume: &mut Value, place: &str) {
        let Some(items) = volume.get_mut("items").and_then(Value::as_array_mut) else {
            return;
        };

        let mut kept = Vec::new();
        for item in items.iter() {
            let path = text(&item["fieldRef"]["fieldPath"]);
            // The Plugin has the labels of the Deployment, the Pod those of the template.
            let is_same = key_of(path).is_some_and(|(kind, key)| {
                let template = &self.workload["spec"]["template"]["metadata"];
                kind == "labels"
                    && text(&self.workload["metadata"][kind][key]) == text(&template[kind][key])
            });
            if is_same || FIELDS.contains(&path) {
                kept.push(json!({ "path": item["path"], "fieldRef": { "fieldPath": path } }));
            } else {
                let file = text(&item["path"]);
                self.add(
                    Verdict::No,
                    place,
                    format!(
                        "its file {file} is left out: a process has only {}, and the labels of its Plugin one by one",
                        FIELDS.join(", ")
                    ),
                );
            }
        }

        *items = kept;
    }

    /// Converts a probe, with numbers for named ports.
    fn probe(&mut self, field: &str) -> Result<Option<Value>> {
        let probe = &self.container[field];
        if is_unset(probe) {
            return Ok(None);
        }
        if !probe["exec"].is_null() {
            let note = "is left out: a process has no other program to run; httpGet, tcpSocket and grpc work";
            self.add(Verdict::No, format!("{field}.exec"), note);
            return Ok(None);
        }

        let mut converted = probe.clone();
        for (action, fields) in [
            ("httpGet", &["path", "port", "scheme", "httpHeaders"][..]),
            ("tcpSocket", &["port"]),
            ("grpc", &["port", "service"]),
        ] {
            let Some(found) = converted.get(action).filter(|found| !found.is_null()) else {
                continue;
            };

            let mut action_fields = only(found, fields);
            action_fields["port"] = self.port(&found["port"], field)?.into();

            if let Some(host) = found["host"].as_str().filter(|host| !host.is_empty()) {
                let place = format!("{field}.{action}.host");
                let note = format!("{host} is left out: a process is probed at its own address");
                self.add(Verdict::Works, place, note);
            }

            converted[action] = action_fields;
        }
        Ok(Some(converted))
    }

    /// The number of a probe's port, which may be given by name.
    fn port(&self, port: &Value, field: &str) -> Result<u64> {
        let number = match port {
            Value::String(name) => list(&self.container["ports"])
                .iter()
                .find(|port| text(&port["name"]) == name)
                .and_then(|port| port["containerPort"].as_u64())
                .or_else(|| name.parse().ok()),
            port => port.as_u64(),
        };
        number
            .filter(|number| (1..=65535).contains(number))
            .with_context(|| {
                format!(
                    "the {field} of {} uses port {port}, which isn't among the container's ports",
                    name_of(self.workload)
                )
            })
    }

    /// The memory limit. The host takes care of other resources, or a process doesn't have them.
    fn resources(&mut self) -> Result<Option<Value>> {
        let limits = &self.container["resources"]["limits"];
        for (resource, value) in limits.as_object().into_iter().flatten() {
            let place = format!("resources.limits.{resource}");
            let value = match value {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            match resource.as_str() {
                "memory" => {}
                "cpu" => self.add(
                    Verdict::Works,
                    place,
                    format!(
                        "{value} is left out: processor time is shared by the namespace's weight"
                    ),
                ),
                "ephemeral-storage" => self.add(
                    Verdict::Works,
                    place,
                    format!("{value} is left out: the sizeLimit of an emptyDir is what counts"),
                ),
                _ => self.add(Verdict::No, place, "is left out: a process has no devices"),
            }
        }

        let field = |kind: &str| format!("resources.{kind}.memory of {}", name_of(self.workload));
        let limit = &limits["memory"];
        if !limit.is_null() {
            return memory(limit).with_context(|| field("limits")).map(Some);
        }

        // In a Pod, a request without a limit is a minimum. The default here could be less.
        let request = &self.container["resources"]["requests"]["memory"];
        if quantity(request).is_some_and(|milli| milli > DEFAULT_MEMORY * 1000) {
            let limit = memory(request).with_context(|| field("requests"))?;
            let note = format!("{} becomes the limit, since none is set", text(&limit));
            self.add(Verdict::Works, "resources.requests.memory", note);
            return Ok(Some(limit));
        }
        let note = "none is set: a process has 256Mi unless spec.limits.memory says otherwise";
        self.add(Verdict::Works, "resources.limits.memory", note);
        Ok(None)
    }

    fn replicas(&mut self, spec: &mut Map<String, Value>) {
        match self.workload["spec"]["replicas"].as_u64() {
            Some(0) => {
                spec.insert("suspend".to_owned(), true.into());
                let note = "0 becomes suspend: true";
                self.add(Verdict::Works, "replicas", note);
            }
            Some(replicas) if replicas > 1 => {
                let note = format!(
                    "{replicas} becomes one process: if its host fails, another replica of the host takes over within seconds"
                );
                self.add(Verdict::Works, "replicas", note);
            }
            _ => {}
        }
    }

    /// Reports the fields that have no counterpart.
    fn rest(&mut self) {
        let mut left_out = Vec::new();
        let (pod, container) = (self.pod(), self.container);

        for init in list(&pod["initContainers"]) {
            let place = format!("initContainers[{}]", text(&init["name"]));
            let note = "is left out: a process has no other containers; do its work beforehand, or in the operator";
            self.add(Verdict::No, place, note);
        }

        if !is_unset(&container["volumeDevices"]) {
            self.add(
                Verdict::No,
                "volumeDevices",
                "is left out: a process has no devices",
            );
        }

        if !["", "ClusterFirst", "Default"].contains(&text(&pod["dnsPolicy"])) {
            self.add(
                Verdict::No,
                "dnsPolicy",
                "is left out: the host resolves names",
            );
        }

        let security = &container["securityContext"];
        for (is_set, field) in [
            (security["privileged"] == true, "privileged"),
            (
                !is_unset(&security["capabilities"]["add"]),
                "capabilities.add",
            ),
        ] {
            if is_set {
                let note = "is left out: a process has no privileges on its node";
                self.add(Verdict::No, format!("securityContext.{field}"), note);
            }
        }

        for port in list(&container["ports"]) {
            if !is_unset(&port["hostPort"]) {
                let place = format!("ports[{}].hostPort", text(&port["name"]));
                self.add(
                    Verdict::No,
                    place,
                    "is left out: a process has no ports on its node",
                );
            }
        }

        for (field, value) in [pod, container]
            .into_iter()
            .filter_map(Value::as_object)
            .flatten()
        {
            let known = field == "initContainers" || CONVERTED.contains(&field.as_str());
            if known || is_unset(value) {
                continue;
            }

            if NOT_NEEDED.contains(&field.as_str()) {
                if WORTH_SAYING.contains(&field.as_str()) && !left_out.contains(&field.as_str()) {
                    left_out.push(field);
                }
                continue;
            }

            let why = IMPOSSIBLE.iter().find(|(name, _)| name == field);
            let why = why.map_or("a process has nothing like it", |(_, why)| why);
            self.add(Verdict::No, field, format!("is left out: {why}"));
        }

        if !left_out.is_empty() {
            self.add(
                Verdict::Works,
                left_out.join(", "),
                "not needed: a process isn't scheduled on a node, and runs in the host's sandbox",
            );
        }
    }
}

/// The kind and the key of a path such as `metadata.labels['KEY']`.
fn key_of(path: &str) -> Option<(&'static str, &str)> {
    ["labels", "annotations"].into_iter().find_map(|kind| {
        let rest = path.strip_prefix("metadata.")?.strip_prefix(kind)?;
        let key = rest.strip_prefix("['")?.strip_suffix("']")?;
        Some((kind, key))
    })
}

/// Copies these fields of an object, as far as they are set.
fn only(value: &Value, fields: &[&str]) -> Value {
    fields
        .iter()
        .filter(|field| !is_unset(&value[**field]))
        .map(|field| ((*field).to_owned(), value[*field].clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// A quantity in thousandths.
fn quantity(value: &Value) -> Option<u128> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let milli = Quantity::parse(&text).ok()?.milli_value()?;
    u128::try_from(milli).ok()
}

/// A quantity of bytes in the form that a Plugin takes: a whole number, perhaps with one of the
/// units Ki, Mi, Gi, k, M and G.
fn memory(value: &Value) -> Result<Value> {
    let bytes = quantity(value)
        .map(|milli| milli.div_ceil(1000))
        .filter(|bytes| *bytes > 0)
        .with_context(|| format!("{value} isn't a positive number of bytes"))?;

    let written = value.as_str().filter(|text| {
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
        !text.starts_with('0')
            && unit.len() < text.len()
            && ["", "Ki", "Mi", "Gi", "k", "M", "G"].contains(&unit)
    });
    if let Some(written) = written {
        return Ok(written.into());
    }

    let unit = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)]
        .into_iter()
        .find(|(_, size)| bytes % size == 0);
    Ok(match unit {
        Some((unit, size)) => format!("{}{unit}", bytes / size),
        None => bytes.to_string(),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(name: &str, containers: Value) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "ops", "labels": {"app": name}},
            "spec": {
                "template": {
                    "metadata": {"labels": {"app": name, "team": "a"}},
                    "spec": {"serviceAccountName": "sa", "containers": containers},
                },
            },
        })
    }

    /// A Deployment whose Pod and container have these fields as well.
    fn with(pod: &Value, container: &Value) -> Value {
        let mut workload = deployment("op", json!([{"name": "manager", "image": "op:1"}]));
        let spec = &mut workload["spec"]["template"]["spec"];
        for (key, value) in container.as_object().expect("fields") {
            spec["containers"][0][key] = value.clone();
        }
        for (key, value) in pod.as_object().expect("fields") {
            spec[key] = value.clone();
        }
        workload
    }

    fn converted(workload: Value) -> Result<Converted> {
        let objects = [workload];
        Operator::find(&objects, None, None)?.convert("op.wasm", &[])
    }

    /// The Plugin's process and the findings, each as `verdict place`.
    fn process(pod: &Value, container: &Value) -> (Value, Vec<(Verdict, String)>) {
        let converted = converted(with(pod, container)).expect("converts");
        let findings = converted
            .findings
            .into_iter()
            .filter(|f| f.place != "resources.limits.memory");
        (
            converted.plugin["spec"]["process"].clone(),
            findings.map(|f| (f.verdict, f.place)).collect(),
        )
    }

    fn error(workload: Value) -> String {
        let error = converted(workload).err().expect("an error");
        format!("{error:#}")
    }

    fn found(objects: &[Value], deployment: Option<&str>, container: Option<&str>) -> String {
        match Operator::find(objects, deployment, container) {
            Ok(operator) => format!(
                "{} {}",
                name(operator.workload),
                text(&operator.container["name"])
            ),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn deployment_becomes_a_plugin_with_all_its_fields() {
        let pod = json!({
            "terminationGracePeriodSeconds": 10,
            "volumes": [
                {"name": "cert", "secret": {"secretName": "webhook-cert", "defaultMode": 420}},
                {"name": "config", "configMap": {"name": "manager-config"}},
                {"name": "scratch", "emptyDir": {"sizeLimit": "0.5Gi"}},
                {"name": "info", "downwardAPI": {"items": [
                    {"path": "name", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
                    {"path": "app", "fieldRef": {"fieldPath": "metadata.labels['app']"}},
                    {"path": "team", "fieldRef": {"fieldPath": "metadata.labels['team']"}},
                ]}},
                {"name": "another-containers", "emptyDir": {}},
            ],
        });
        let container = json!({
            "command": ["/manager", "run"],
            "args": ["--leader-elect", "--ns=$(POD_NAMESPACE)"],
            "workingDir": "/op",
            "env": [
                {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
                {"name": "GOMEMLIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
                {"name": "GOMAXPROCS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "EMPTY"},
                {"name": "LEVEL", "value": "debug"},
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}},
            ],
            "envFrom": [{"prefix": "A_", "configMapRef": {"name": "more"}}],
            "ports": [{"name": "probes", "containerPort": 8081}],
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": "probes"}, "periodSeconds": 20},
            "readinessProbe": {"grpc": {"port": 9000, "service": null}},
            "startupProbe": {"tcpSocket": {"port": "8081"}},
            "resources": {"limits": {"memory": "128Mi", "cpu": "1500m"}, "requests": {"cpu": "10m"}},
            "volumeMounts": [
                {"name": "cert", "mountPath": "/certs", "readOnly": true},
                {"name": "config", "mountPath": "/config.yaml", "subPath": "config.yaml"},
                {"name": "scratch", "mountPath": "/scratch", "mountPropagation": "None"},
                {"name": "info", "mountPath": "/info"},
            ],
            "securityContext": {"readOnlyRootFilesystem": true},
        });

        let workload = with(&pod, &container);
        let objects = [json!({"kind": "ConfigMap"}), workload.clone()];
        let operator = Operator::find(&objects, None, None).expect("one");
        assert_eq!(
            operator.mounts(),
            ["/certs", "/config.yaml", "/scratch", "/info"]
        );
        let webhooks = json!({"kind": "ValidatingWebhookConfiguration"});
        let left_out = std::slice::from_ref(&webhooks);
        let converted = operator.convert("op.wasm", left_out).expect("converts");

        let adopted = &converted.plugin["metadata"]["annotations"][ADOPTED];
        let adopted: Value = serde_json::from_str(text(adopted)).expect("JSON");
        assert_eq!(adopted["items"], json!([workload, webhooks]));
        let mut plugin = converted.plugin;
        plugin["metadata"]["annotations"] = json!({});
        let expected = json!({
            "apiVersion": "operetta.dev/v1alpha1",
            "kind": "Plugin",
            "metadata": {"name": "op", "namespace": "ops", "labels": {"app": "op"}, "annotations": {}},
            "spec": {
                "source": {"path": "op.wasm"},
                "serviceAccountName": "sa",
                "limits": {"memory": "128Mi"},
                "process": {
                    "args": ["run", "--leader-elect", "--ns=$(POD_NAMESPACE)"],
                    "workingDir": "/op",
                    "env": [
                        {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                        {"name": "TEAM", "value": "a"},
                        {"name": "GOMEMLIMIT", "value": "134217728"},
                        {"name": "GOMAXPROCS", "value": "2"},
                        {"name": "EMPTY"},
                        {"name": "LEVEL", "value": "debug"},
                        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}},
                    ],
                    "envFrom": [{"prefix": "A_", "configMapRef": {"name": "more"}}],
                    "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8081}, "periodSeconds": 20},
                    "readinessProbe": {"grpc": {"port": 9000}},
                    "startupProbe": {"tcpSocket": {"port": 8081}},
                    "terminationGracePeriodSeconds": 10,
                    "volumes": [
                        {"name": "cert", "secret": {"secretName": "webhook-cert", "defaultMode": 420}},
                        {"name": "config", "configMap": {"name": "manager-config"}},
                        {"name": "scratch", "emptyDir": {"sizeLimit": "512Mi"}},
                        {"name": "info", "downwardAPI": {"items": [
                            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
                            {"path": "app", "fieldRef": {"fieldPath": "metadata.labels['app']"}},
                        ]}},
                    ],
                    "volumeMounts": [
                        {"name": "cert", "mountPath": "/certs", "readOnly": true},
                        {"name": "config", "mountPath": "/config.yaml", "subPath": "config.yaml"},
                        {"name": "scratch", "mountPath": "/scratch"},
                        {"name": "info", "mountPath": "/info"},
                    ],
                },
            },
        });
        assert_eq!(plugin, expected);

        let bad: Vec<_> = converted
            .findings
            .iter()
            .filter(|finding| finding.verdict != Verdict::Works)
            .collect();
        let [bad] = bad.as_slice() else {
            panic!("{bad:?}")
        };
        // The Deployment, and with it the Plugin, has no such label, or another one.
        assert_eq!(bad.place, "volumes[info]");
        assert!(bad.note.contains("file team"), "{bad:?}");
    }

    #[test]
    fn operator_is_the_one_container_or_the_named_one() {
        let one = deployment("op", json!([{"name": "manager"}]));
        let other = deployment("web", json!([{"name": "server"}, {"name": "log"}]));
        let proxied = deployment(
            "op",
            json!([{"name": "p", "image": "x.io/kube-rbac-proxy:v1@sha256:1"}, {"name": "manager"}]),
        );
        let service = json!({"kind": "Service", "metadata": {"name": "op"}});

        for (objects, deployment, container, expected) in [
            (vec![service.clone(), one.clone()], None, None, "op manager"),
            (vec![proxied], None, None, "op manager"),
            (
                vec![one.clone(), other.clone()],
                Some("op"),
                None,
                "op manager",
            ),
            (
                vec![one.clone(), other.clone()],
                Some("web"),
                Some("log"),
                "web log",
            ),
            (
                vec![service],
                None,
                None,
                "the manifests have no Deployment and no StatefulSet (objects: 1), so there is nothing to adopt; choose \
                 others with --manifests",
            ),
            (
                vec![one.clone(), other.clone()],
                None,
                None,
                "several Deployments could be the operator: choose one with --deployment: Deployment/op (manager), \
                 Deployment/web (server, log)",
            ),
            (
                vec![one.clone()],
                Some("x"),
                None,
                "the manifests have no Deployment x: they have Deployment/op (manager)",
            ),
            (
                vec![other],
                None,
                None,
                "Deployment/web has several containers: choose the operator's with --container: server, log",
            ),
            (
                vec![one],
                None,
                Some("x"),
                "Deployment/op has no container x: it has manager",
            ),
            (
                vec![deployment_without_containers()],
                None,
                None,
                "Deployment/op has no container that could be the operator",
            ),
        ] {
            assert_eq!(found(&objects, deployment, container), expected);
        }
    }

    fn deployment_without_containers() -> Value {
        deployment("op", Value::Null)
    }

    #[test]
    fn fields_without_counterpart_are_named_and_left_out() {
        for (pod, container, place) in [
            (
                json!({"initContainers": [{"name": "setup"}]}),
                json!({}),
                "initContainers[setup]",
            ),
            (json!({"hostNetwork": true}), json!({}), "hostNetwork"),
            (json!({"hostPID": true}), json!({}), "hostPID"),
            (json!({"dnsPolicy": "None"}), json!({}), "dnsPolicy"),
            (
                json!({"resourceClaims": [{"name": "gpu"}]}),
                json!({}),
                "resourceClaims",
            ),
            (
                json!({}),
                json!({"securityContext": {"privileged": true}}),
                "securityContext.privileged",
            ),
            (
                json!({}),
                json!({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
                "securityContext.capabilities.add",
            ),
            (
                json!({}),
                json!({"resources": {"limits": {"nvidia.com/gpu": 1}}}),
                "resources.limits.nvidia.com/gpu",
            ),
            (
                json!({}),
                json!({"lifecycle": {"preStop": {}}}),
                "lifecycle",
            ),
            (json!({}), json!({"workingDir": "op"}), "workingDir"),
            (
                json!({}),
                json!({"volumeDevices": [{"name": "d"}]}),
                "volumeDevices",
            ),
            (
                json!({}),
                json!({"ports": [{"name": "web", "containerPort": 80, "hostPort": 80}]}),
                "ports[web].hostPort",
            ),
            (
                json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
                json!({"volumeMounts": [{"name": "v", "mountPath": "/host"}]}),
                "volumes[v]",
            ),
            (
                json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
                json!({"volumeMounts": [{"name": "v", "mountPath": "/data"}]}),
                "volumes[v]",
            ),
            (
                json!({}),
                json!({"livenessProbe": {"exec": {"command": ["true"]}}}),
                "livenessProbe.exec",
            ),
            (
                json!({}),
                json!({"env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}),
                "env[N]",
            ),
            (
                json!({}),
                json!({"env": [{"name": "N", "valueFrom": {"resourceFieldRef": {"resource": "limits.ephemeral-storage"}}}]}),
                "env[N]",
            ),
            (
                json!({}),
                json!({"env": [{"name": "N", "valueFrom": {"fileKeyRef": {"path": "x"}}}]}),
                "env[N]",
            ),
        ] {
            let (process, findings) = process(&pod, &container);
            let bad: Vec<_> = findings
                .iter()
                .filter(|(verdict, _)| *verdict == Verdict::No)
                .collect();
            assert_eq!(
                bad.iter()
                    .map(|(_, place)| place.as_str())
                    .collect::<Vec<_>>(),
                [place]
            );
            assert_eq!(process, json!({}), "{place}");
        }

        let (process, findings) =
            process(&json!({"terminationGracePeriodSeconds": 3600}), &json!({}));
        assert_eq!(process, json!({"terminationGracePeriodSeconds": 600}));
        assert_eq!(findings.len(), 1);
    }

    #[test]
    fn limit_that_the_container_does_not_set_is_the_processes() {
        let variable = |reference: Value| {
            let env = json!([{"name": "N", "valueFrom": {"resourceFieldRef": reference}}]);
            let (process, findings) = process(&json!({}), &json!({"env": env}));
            assert!(findings.is_empty(), "{findings:?}");
            process["env"][0]["valueFrom"]["resourceFieldRef"].clone()
        };
        assert_eq!(
            variable(json!({"resource": "limits.memory", "divisor": "1Mi"})),
            json!({"resource": "limits.memory", "divisor": "1Mi"})
        );
        // As the API server writes it if none is set.
        assert_eq!(
            variable(json!({"resource": "limits.cpu", "divisor": "0", "containerName": "manager"})),
            json!({"resource": "limits.cpu"})
        );
    }

    #[test]
    fn placeholders_that_other_tools_fill_in_are_reported() {
        let container = json!({
            "args": ["--ns=$(NAMESPACE)", "--address=${ADDRESS:=:8443}"],
            "env": [{"name": "LEVEL", "value": "${LEVEL}"}, {"name": "PRICE", "value": "5$ {net}"}],
        });
        let (process, findings) = process(&json!({}), &container);
        assert_eq!(
            findings,
            [
                (Verdict::Maybe, "args".to_owned()),
                (Verdict::Maybe, "env[LEVEL]".to_owned()),
            ]
        );
        assert_eq!(process["args"], container["args"]);
    }

    #[test]
    fn what_a_process_needs_not_is_one_line() {
        let pod = json!({"tolerations": [{}], "nodeSelector": {"a": "b"}, "restartPolicy": "Always", "hostNetwork": false});
        let container = json!({"imagePullPolicy": "Always", "resources": {"limits": {"cpu": 1}}});
        let (_, findings) = process(&pod, &container);
        assert_eq!(
            findings,
            [
                (Verdict::Works, "resources.limits.cpu".to_owned()),
                (Verdict::Works, "nodeSelector, tolerations".to_owned()),
            ]
        );
    }

    #[test]
    fn large_request_of_memory_stands_for_a_limit() {
        let limits = |resources: Value| {
            let workload = with(&json!({}), &json!({ "resources": resources }));
            converted(workload).expect("converts").plugin["spec"]["limits"].clone()
        };
        assert_eq!(
            limits(json!({"requests": {"memory": "1Gi"}})),
            json!({"memory": "1Gi"})
        );
        assert_eq!(
            limits(json!({"requests": {"memory": "256Mi"}})),
            Value::Null
        );
        let both = json!({"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}});
        assert_eq!(limits(both), json!({"memory": "2Gi"}));
    }

    #[test]
    fn stateful_set_loses_its_claims_and_replicas_become_one() {
        let mut workload = with(
            &json!({}),
            &json!({"volumeMounts": [{"name": "data", "mountPath": "/data"}]}),
        );
        workload["kind"] = "StatefulSet".into();
        workload["spec"]["replicas"] = 3.into();
        workload["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
        let made = converted(workload.clone()).expect("converts");
        assert_eq!(made.plugin["spec"]["process"], json!({}));
        let places: Vec<_> = made.findings.iter().map(|f| f.place.as_str()).collect();
        assert_eq!(
            places,
            [
                "volumeClaimTemplates[data]",
                "resources.limits.memory",
                "replicas"
            ]
        );

        workload["spec"]["replicas"] = 0.into();
        let made = converted(workload).expect("converts");
        assert_eq!(made.plugin["spec"]["suspend"], true);
    }

    #[test]
    fn operator_that_cannot_become_a_plugin_is_an_error_with_the_fix() {
        for (pod, container, part) in [
            (
                json!({"serviceAccountName": null}),
                json!({}),
                "runs as the ServiceAccount default",
            ),
            (
                json!({"serviceAccountName": "default"}),
                json!({}),
                "set serviceAccountName",
            ),
            (
                json!({}),
                json!({"command": ["/bin/sh", "-c", "x"]}),
                "is /bin/sh -c x, which isn't the operator",
            ),
            (
                json!({}),
                json!({"args": [1]}),
                "args of Deployment/op has 1, which isn't a string",
            ),
            (
                json!({}),
                json!({"env": [{"name": "A", "value": true}]}),
                "env[A] of Deployment/op has the value true",
            ),
            (
                json!({}),
                json!({"livenessProbe": {"httpGet": {"port": "nowhere"}}}),
                "livenessProbe of Deployment/op uses port \"nowhere\"",
            ),
            (
                json!({}),
                json!({"resources": {"limits": {"memory": "much"}}}),
                "resources.limits.memory of Deployment/op: \"much\" isn't a positive number of bytes",
            ),
        ] {
            let said = error(with(&pod, &container));
            assert!(said.contains(part), "{said}");
        }

        let said = error(deployment("Op", json!([{"name": "manager"}])));
        assert!(
            said.contains("Deployment/Op has a name that no Plugin can have"),
            "{said}"
        );
        let old = with(
            &json!({"serviceAccountName": "", "serviceAccount": "old"}),
            &json!({}),
        );
        assert_eq!(converted(old).expect("converts").service_account, "old");
    }

    #[test]
    fn memory_is_written_as_a_plugin_writes_it() {
        for (given, written) in [
            (json!("64Mi"), "64Mi"),
            (json!("1G"), "1G"),
            (json!(134_217_728), "128Mi"),
            (json!("1.5Gi"), "1536Mi"),
            (json!("1e9"), "1000000000"),
            (json!("2Ti"), "2048Gi"),
            (json!("1500m"), "2"),
            (json!("0064Mi"), "64Mi"),
        ] {
            assert_eq!(memory(&given).expect("bytes"), written, "{given}");
        }
        for wrong in [json!("0"), json!("-1"), json!("x"), json!(null), json!({})] {
            assert!(memory(&wrong).is_err(), "{wrong}");
        }
    }
}

//! What a process gets of ConfigMaps, Secrets and fields: its environment and the files of its
//! volumes, by the kubelet's rules (`makeEnvironmentVariables` in pkg/kubelet/kubelet_pods.go, and
//! `MakePayload` of its volumes).

use std::collections::BTreeMap;

use operetta_api::reasons;
use operetta_core::object::ObjectKey;
use operetta_wasm::process::{FileError, Files, Projected};

use super::{definition::OWN_FILES, network::OWN};
use crate::{
    plugin::{
        config::{
            not_found,
            references::{Content, Contents},
        },
        crd::{
            ConfigKind, DownwardApiFile, FieldPath, KeyToPath, ProcessSpec, Volume,
            VolumeProjection,
        },
    },
    problem::Problem,
};

/// What stands where a token would be: clients insist on one.
pub const NO_TOKEN: &str = "the host adds the identity of the ServiceAccount";

/// The fields of a process, as those of a Pod.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    /// The Plugin.
    pub plugin: &'a ObjectKey,
    /// The Plugin's uid.
    pub uid: &'a str,
    /// The Plugin's labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The Plugin's annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// The name of its ServiceAccount.
    pub service_account: &'a str,
    /// The maximum size of its memory, in bytes.
    pub memory_bytes: usize,
}

impl Fields<'_> {
    fn namespace(&self) -> &str {
        self.plugin.namespace.as_deref().unwrap_or_default()
    }

    fn get(&self, path: &FieldPath) -> String {
        // As in a Pod, a label that doesn't exist is empty.
        let of =
            |all: &BTreeMap<String, String>, key: &str| all.get(key).cloned().unwrap_or_default();
        match path {
            FieldPath::Label(key) => of(self.labels, key),
            FieldPath::Annotation(key) => of(self.annotations, key),
            FieldPath::Name => self.plugin.name.clone(),
            FieldPath::Namespace => self.namespace().to_owned(),
            FieldPath::Uid => self.uid.to_owned(),
            FieldPath::ServiceAccountName => self.service_account.to_owned(),
            FieldPath::PodIp | FieldPath::PodIps => OWN.to_string(),
        }
    }
}

/// A ConfigMap or Secret that a field of `spec.process` names.
pub struct Named<'a> {
    /// Its kind.
    pub kind: ConfigKind,
    /// Its name.
    pub name: &'a str,
    /// The field, for messages.
    pub field: String,
}

/// The files of a volume by their paths.
pub type VolumeFiles = BTreeMap<String, Vec<u8>>;

/// Returns the ConfigMaps and Secrets of a spec, in its order.
pub fn named(spec: &ProcessSpec) -> Vec<Named<'_>> {
    let of_env_from = spec.env_from.iter().enumerate().filter_map(|(at, source)| {
        let (kind, reference) = source.chosen()?;
        Some(Named {
            kind,
            name: &reference.name,
            field: env_from_field(at, kind),
        })
    });

    let of_env = spec.env.iter().enumerate().filter_map(|(at, variable)| {
        let (kind, selector) = variable.value_from.as_ref()?.key()?;
        Some(Named {
            kind,
            name: &selector.name,
            field: env_field(at, kind),
        })
    });

    let of_volumes = spec.volumes.iter().enumerate().flat_map(|(at, volume)| {
        keys_of(volume, at).into_iter().map(|keys| Named {
            kind: keys.kind,
            name: keys.name,
            field: keys.field,
        })
    });

    of_env_from.chain(of_env).chain(of_volumes).collect()
}

/// Checks that everything a process needs is there.
///
/// # Errors
/// The first problem; the message has the object and the field.
pub fn check(spec: &ProcessSpec, contents: &Contents, fields: Fields<'_>) -> Result<(), Problem> {
    environment(BTreeMap::new(), spec, contents, fields)?;
    check_ports(spec)?;
    for (at, volume) in spec.volumes.iter().enumerate() {
        files(volume, at, contents, fields)?;
    }
    for (at, mount) in spec.volume_mounts.iter().enumerate() {
        if !spec.volumes.iter().any(|volume| volume.name == mount.name) {
            let message = format!(
                "spec.process.volumeMounts[{at}] names the volume {:?}, which spec.process.volumes does not have",
                mount.name
            );
            return Err(Problem::new(reasons::INVALID_CONFIG, message));
        }
    }
    check_mounts(spec).map_err(|error| impossible_mount(&error))
}

/// Checks that the ports of probes and metrics have a number.
fn check_ports(spec: &ProcessSpec) -> Result<(), Problem> {
    let probes = [
        ("livenessProbe", &spec.liveness_probe),
        ("readinessProbe", &spec.readiness_probe),
        ("startupProbe", &spec.startup_probe),
    ];
    let of_probes = probes.iter().flat_map(|(name, probe)| {
        let http = probe.iter().filter_map(|probe| probe.http_get.as_ref());
        let tcp = probe.iter().filter_map(|probe| probe.tcp_socket.as_ref());
        http.map(move |action| (format!("{name}.httpGet"), &action.port))
            .chain(tcp.map(move |action| (format!("{name}.tcpSocket"), &action.port)))
    });
    let of_metrics = spec
        .metrics
        .iter()
        .map(|metrics| ("metrics".to_owned(), &metrics.port));

    for (field, port) in of_probes.chain(of_metrics) {
        if spec.port_number(port).is_none() {
            let message = format!(
                "spec.process.{field}.port is {port}, which none of spec.process.ports is named"
            );
            return Err(Problem::new(reasons::INVALID_CONFIG, message));
        }
    }
    Ok(())
}

/// The problem of a file or a path of `spec.process.volumeMounts` that is not possible.
pub fn impossible_mount(error: &FileError) -> Problem {
    let message = format!("spec.process.volumeMounts: {error}");
    Problem::new(reasons::INVALID_CONFIG, message)
}

/// Mounts empty volumes to see whether the paths are possible.
fn check_mounts(spec: &ProcessSpec) -> Result<(), FileError> {
    let nothing = Projected::new(VolumeFiles::new())?;
    let mut files = Files::default();
    files.mount(OWN_FILES, &nothing, "")?;
    for mount in &spec.volume_mounts {
        files.mount(&mount.mount_path, &nothing, &mount.sub_path)?;
    }
    Ok(())
}

/// Adds a spec's variables to an environment: `envFrom` in its order, then `env`. A value may refer
/// to variables that are there before it.
///
/// # Errors
/// What is missing, or isn't text.
pub fn environment(
    mut env: BTreeMap<String, String>,
    spec: &ProcessSpec,
    contents: &Contents,
    fields: Fields<'_>,
) -> Result<BTreeMap<String, String>, Problem> {
    for (at, source) in spec.env_from.iter().enumerate() {
        let Some((kind, reference)) = source.chosen() else {
            continue;
        };
        let Some(content) = contents.get(kind, &reference.name) else {
            if reference.optional {
                continue;
            }
            let field = env_from_field(at, kind);
            return Err(not_found(kind, &reference.name, &field, fields.namespace()));
        };

        for (key, value) in &content.data {
            let what = || {
                (
                    kind,
                    reference.name.as_str(),
                    key.as_str(),
                    env_from_field(at, kind),
                )
            };
            env.insert(format!("{}{key}", source.prefix), text(value, what)?);
        }
    }

    for (at, variable) in spec.env.iter().enumerate() {
        let source = variable.value_from.as_ref();

        let value = if let Some((kind, selector)) = source.and_then(|source| source.key()) {
            let field = || env_field(at, kind);
            let content = contents.get(kind, &selector.name);
            match content.map(|content| content.data.get(&selector.key)) {
                Some(Some(value)) => {
                    text(value, || (kind, &*selector.name, &*selector.key, field()))?
                }
                _ if selector.optional => continue,
                Some(None) => {
                    return Err(no_key(kind, &selector.name, &selector.key, &field()));
                }
                None => {
                    let namespace = fields.namespace();
                    return Err(not_found(kind, &selector.name, &field(), namespace));
                }
            }
        } else if let Some(field) = source.and_then(|source| source.field_ref.as_ref()) {
            fields.get(&field.field_path)
        } else if let Some(resource) = source.and_then(|source| source.resource_field_ref.as_ref())
        {
            resource.value(fields.memory_bytes as u64).to_string()
        } else {
            expand(variable.value.as_deref().unwrap_or_default(), &env)
        };

        env.insert(variable.name.clone(), value);
    }

    Ok(env)
}

/// Returns the files of a volume; None for an `emptyDir`, whose files are the process's own.
///
/// # Errors
/// What is missing or impossible.
pub fn files(
    volume: &Volume,
    at: usize,
    contents: &Contents,
    fields: Fields<'_>,
) -> Result<Option<VolumeFiles>, Problem> {
    if volume.empty_dir.is_some() {
        return Ok(None);
    }
    let own = VolumeProjection {
        downward_api: volume.downward_api.clone(),
        ..VolumeProjection::default()
    };
    let sources = match &volume.projected {
        Some(projected) => &projected.sources[..],
        None => std::slice::from_ref(&own),
    };

    let mut files = VolumeFiles::new();
    let mut keys = keys_of(volume, at).into_iter().peekable();
    for (source_at, source) in sources.iter().enumerate() {
        while let Some(keys) = keys.next_if(|keys| keys.source <= source_at) {
            add_keys(&mut files, &keys, contents, fields)?;
        }
        let items = source.downward_api.iter().flat_map(|source| &source.items);
        for DownwardApiFile { path, field_ref } in items {
            files.insert(path.clone(), fields.get(&field_ref.field_path).into_bytes());
        }
        if let Some(token) = &source.service_account_token {
            files.insert(token.path.clone(), NO_TOKEN.into());
        }
    }

    Projected::check(files.keys()).map_err(|error| {
        let message = format!("spec.process.volumes[{at}] ({:?}): {error}", volume.name);
        Problem::new(reasons::INVALID_CONFIG, message)
    })?;
    Ok(Some(files))
}

/// The keys of one ConfigMap or Secret in a volume.
struct Keys<'a> {
    kind: ConfigKind,
    name: &'a str,
    items: &'a [KeyToPath],
    optional: bool,
    /// The index of the source in a projected volume.
    source: usize,
    field: String,
}

fn keys_of(volume: &Volume, at: usize) -> Vec<Keys<'_>> {
    let at = format!("spec.process.volumes[{at}]");
    let config_map = volume.config_map.iter().map(|source| Keys {
        kind: ConfigKind::ConfigMap,
        name: &source.name,
        items: &source.items,
        optional: source.optional,
        source: 0,
        field: format!("{at}.configMap"),
    });

    let secret = volume.secret.iter().map(|source| Keys {
        kind: ConfigKind::Secret,
        name: &source.secret_name,
        items: &source.items,
        optional: source.optional,
        source: 0,
        field: format!("{at}.secret"),
    });

    let sources = volume.projected.iter().flat_map(|source| &source.sources);
    let projected = sources.enumerate().filter_map(|(source, projection)| {
        let field = format!("{at}.projected.sources[{source}]");
        let config_map = projection.config_map.as_ref().map(|from| Keys {
            kind: ConfigKind::ConfigMap,
            name: &from.name,
            items: &from.items,
            optional: from.optional,
            source,
            field: format!("{field}.configMap"),
        });
        config_map.or_else(|| {
            let from = projection.secret.as_ref()?;
            Some(Keys {
                kind: ConfigKind::Secret,
                name: &from.name,
                items: &from.items,
                optional: from.optional,
                source,
                field: format!("{field}.secret"),
            })
        })
    });

    config_map.chain(secret).chain(projected).collect()
}

fn add_keys(
    files: &mut VolumeFiles,
    keys: &Keys<'_>,
    contents: &Contents,
    fields: Fields<'_>,
) -> Result<(), Problem> {
    let Keys {
        kind, name, field, ..
    } = keys;
    let Some(content) = contents.get(*kind, name) else {
        return match keys.optional {
            true => Ok(()),
            false => Err(not_found(*kind, name, field, fields.namespace())),
        };
    };

    if keys.items.is_empty() {
        let all = content.data.iter().chain(&content.binary_data);
        files.extend(all.map(|(key, value)| (key.clone(), value.to_vec())));
    }

    for KeyToPath { key, path, .. } in keys.items {
        match value_of(content, key) {
            Some(value) => {
                files.insert(path.clone(), value.to_vec());
            }
            None if keys.optional => {}
            None => return Err(no_key(*kind, name, key, field)),
        }
    }
    Ok(())
}

fn value_of<'a>(content: &'a Content, key: &str) -> Option<&'a [u8]> {
    let value = content.data.get(key);
    value
        .or_else(|| content.binary_data.get(key))
        .map(|value| value.as_slice())
}

fn env_from_field(at: usize, kind: ConfigKind) -> String {
    let reference = match kind {
        ConfigKind::ConfigMap => "configMapRef",
        ConfigKind::Secret => "secretRef",
    };
    format!("spec.process.envFrom[{at}].{reference}")
}

fn env_field(at: usize, kind: ConfigKind) -> String {
    let reference = match kind {
        ConfigKind::ConfigMap => "configMapKeyRef",
        ConfigKind::Secret => "secretKeyRef",
    };
    format!("spec.process.env[{at}].valueFrom.{reference}")
}

fn no_key(kind: ConfigKind, name: &str, key: &str, field: &str) -> Problem {
    let kind = kind.as_str();
    let message = format!("{kind} {name:?} of {field} has no key {key:?}");
    Problem::new(reasons::CONFIG_NOT_FOUND, message)
}

/// Reads a variable's value, which the environment can hold only as text without zero bytes.
fn text<'a>(
    value: &[u8],
    what: impl FnOnce() -> (ConfigKind, &'a str, &'a str, String),
) -> Result<String, Problem> {
    match str::from_utf8(value) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => {
            let (kind, name, key, field) = what();
            let kind = kind.as_str();
            let message = format!(
                "key {key:?} of {kind} {name:?}, which {field} names, is no text: mount it as a file"
            );
            Err(Problem::new(reasons::INVALID_CONFIG, message))
        }
    }
}

/// Replaces `$(NAME)` by the value of a known variable and `$$` by a dollar sign, as the kubelet
/// does (third_party/forked/golang/expansion). A reference to an unknown variable stays as it is.
pub fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = after;

        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
            continue;
        }
        let reference = rest
            .strip_prefix('(')
            .and_then(|reference| reference.split_once(')'));
        match reference.and_then(|(name, after)| Some((env.get(name)?, after))) {
            Some((value, after)) => {
                expanded.push_str(value);
                rest = after;
            }
            None => expanded.push('$'),
        }
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn contents() -> Contents {
        let content = |data: &[(&str, &[u8])], binary: &[(&str, &[u8])]| {
            let map = |all: &[(&str, &[u8])]| {
                let entry =
                    |(key, value): &(&str, &[u8])| ((*key).to_owned(), value.to_vec().into());
                all.iter().map(entry).collect()
            };
            Some(Content::of(map(data), map(binary)))
        };
        let mut all = Contents::default();
        let config = content(&[("A", b"a"), ("B", b"config")], &[("raw", b"\xff\0")]);
        all.insert(ConfigKind::ConfigMap, "config", config);
        let secret = content(&[("B", b"secret"), ("key", b"\xfe")], &[]);
        all.insert(ConfigKind::Secret, "binary", secret);
        let secret = content(&[("B", b"secret"), ("C", b"$(A)")], &[]);
        all.insert(ConfigKind::Secret, "text", secret);
        all.insert(ConfigKind::ConfigMap, "none", None);
        all
    }

    fn spec(spec: Value) -> ProcessSpec {
        serde_json::from_value(spec).expect("a spec")
    }

    fn key() -> ObjectKey {
        ObjectKey::namespaced("team", "op")
    }

    fn fields(plugin: &ObjectKey) -> Fields<'_> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        Fields {
            plugin,
            uid: "u-1",
            labels: &NONE,
            annotations: &NONE,
            service_account: "operator",
            memory_bytes: 64 << 20,
        }
    }

    fn env(json: Value) -> Result<Vec<(String, String)>, String> {
        let key = key();
        let base = BTreeMap::from([("HOME".to_owned(), "/tmp".to_owned())]);
        environment(base, &spec(json), &contents(), fields(&key))
            .map(|env| env.into_iter().filter(|(name, _)| name != "HOME").collect())
            .map_err(|problem| format!("{}: {}", problem.reason, problem.message))
    }

    fn variables(all: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        all.iter().map(owned).collect()
    }

    #[test]
    fn later_variables_win_and_refer_to_earlier_ones() {
        let made = env(json!({
            "envFrom": [
                {"configMapRef": {"name": "config"}},
                {"secretRef": {"name": "text"}},
                {"prefix": "P_", "configMapRef": {"name": "config"}},
                {"configMapRef": {"name": "none", "optional": true}},
            ],
            "env": [
                {"name": "D", "value": "$(B)-$(E)-$(HOME)"},
                {"name": "E", "value": "late"},
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "B"}}},
                {"name": "F", "value": "$(A) $(C)"},
                {"name": "G", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                {"name": "NO", "valueFrom": {"secretKeyRef": {"name": "text", "key": "x", "optional": true}}},
                {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x", "optional": true}}},
                {"name": "EMPTY"},
            ],
        }));
        let expected = variables(&[
            ("A", "config"),
            ("B", "secret"),
            // Values of Secrets and ConfigMaps are not expanded.
            ("C", "$(A)"),
            ("D", "secret-$(E)-/tmp"),
            ("E", "late"),
            ("EMPTY", ""),
            ("F", "config $(A)"),
            ("G", "team"),
            // A ConfigMap's binaryData is in no environment.
            ("P_A", "a"),
            ("P_B", "config"),
        ]);
        assert_eq!(made, Ok(expected));
    }

    #[test]
    fn variables_have_labels_annotations_and_limits() {
        let key = key();
        let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let (labels, annotations) = (map("app.kubernetes.io/name", "op"), map("note", "a b"));
        let fields = Fields {
            labels: &labels,
            annotations: &annotations,
            ..fields(&key)
        };
        let spec = spec(json!({"env": [
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app.kubernetes.io/name']"}}},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['note']"}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['none']"}}},
            {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "E", "value": "$(D)MiB"},
        ]}));
        let made = environment(BTreeMap::new(), &spec, &contents(), fields).expect("all there");
        let made: Vec<_> = made.into_iter().collect();
        assert_eq!(
            made,
            variables(&[
                ("A", "op"),
                ("B", "a b"),
                ("C", ""),
                ("D", "64"),
                ("E", "64MiB")
            ])
        );
    }

    #[test]
    fn port_without_a_number_is_refused() {
        let key = key();
        let refused = |process: Value| {
            let problem = check(&spec(process), &contents(), fields(&key)).expect_err("unknown");
            assert_eq!(problem.reason, "InvalidConfig");
            problem.message
        };
        let probe = json!({"httpGet": {"port": "health"}});
        let ports = json!([{"name": "metrics", "containerPort": 8080}]);
        assert_eq!(
            refused(json!({"readinessProbe": probe, "ports": ports})),
            "spec.process.readinessProbe.httpGet.port is \"health\", which none of spec.process.ports is named"
        );
        assert!(refused(json!({"metrics": {"port": "health"}})).contains("metrics.port"));

        let ports = json!([{"name": "health", "containerPort": 8080}]);
        let named = spec(json!({"readinessProbe": probe, "ports": ports}));
        check(&named, &contents(), fields(&key)).expect("named");
    }

    #[test]
    fn missing_variable_names_its_object_and_field() {
        for (json, expected) in [
            (
                json!({"envFrom": [{"configMapRef": {"name": "none"}}]}),
                "ConfigNotFound: ConfigMap \"none\" of spec.process.envFrom[0].configMapRef does not exist in namespace \"team\"",
            ),
            (
                json!({"env": [{"name": "A"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "k"}}}]}),
                "ConfigNotFound: Secret \"gone\" of spec.process.env[1].valueFrom.secretKeyRef does not exist in namespace \"team\"",
            ),
            (
                json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "config", "key": "raw"}}}]}),
                "ConfigNotFound: ConfigMap \"config\" of spec.process.env[0].valueFrom.configMapKeyRef has no key \"raw\"",
            ),
            (
                json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "binary", "key": "key", "optional": true}}}]}),
                "InvalidConfig: key \"key\" of Secret \"binary\", which spec.process.env[0].valueFrom.secretKeyRef names, is no text: mount it as a file",
            ),
        ] {
            assert_eq!(env(json).expect_err(expected), expected);
        }
    }

    /// The files of a volume, by path; None if they are not files of an object.
    type Made = Result<Option<Vec<(String, Vec<u8>)>>, String>;

    fn volume(json: Value) -> Made {
        let key = key();
        let volume: Volume = serde_json::from_value(json).expect("a volume");
        files(&volume, 0, &contents(), fields(&key))
            .map(|files| files.map(|files| files.into_iter().collect()))
            .map_err(|problem| format!("{}: {}", problem.reason, problem.message))
    }

    fn made(files: &[(&str, &[u8])]) -> Made {
        let owned = |(path, bytes): &(&str, &[u8])| ((*path).to_owned(), bytes.to_vec());
        Ok(Some(files.iter().map(owned).collect()))
    }

    #[test]
    fn volumes_have_the_files_that_a_kubelet_makes() {
        assert_eq!(
            volume(json!({"name": "v", "configMap": {"name": "config"}})),
            made(&[("A", b"a"), ("B", b"config"), ("raw", b"\xff\0")])
        );
        let items = json!([{"key": "B", "path": "sub/b.txt", "mode": 256}]);
        assert_eq!(
            volume(json!({"name": "v", "secret": {"secretName": "text", "items": items}})),
            made(&[("sub/b.txt", b"secret")])
        );
        assert_eq!(
            volume(json!({"name": "v", "configMap": {"name": "none", "optional": true}})),
            made(&[])
        );
        let items = json!([{"key": "x", "path": "x"}, {"key": "A", "path": "A"}]);
        let optional = json!({"name": "config", "items": items, "optional": true});
        assert_eq!(
            volume(json!({"name": "v", "configMap": optional})),
            made(&[("A", b"a")])
        );
        let field = json!({"fieldPath": "metadata.uid"});
        assert_eq!(
            volume(
                json!({"name": "v", "downwardAPI": {"items": [{"path": "uid", "fieldRef": field}]}})
            ),
            made(&[("uid", b"u-1")])
        );
        assert_eq!(volume(json!({"name": "v", "emptyDir": {}})), Ok(None));
    }

    #[test]
    fn later_sources_of_a_projected_volume_win() {
        let sources = json!([
            {"configMap": {"name": "config"}},
            {"downwardAPI": {"items": [{"path": "A", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"secret": {"name": "text", "items": [{"key": "C", "path": "raw"}]}},
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        ]);
        assert_eq!(
            volume(json!({"name": "v", "projected": {"sources": sources}})),
            made(&[
                ("A", b"op"),
                ("B", b"config"),
                ("raw", b"$(A)"),
                ("token", NO_TOKEN.as_bytes()),
            ])
        );
    }

    #[test]
    fn missing_file_names_its_object_and_field() {
        let absent = json!([{"secret": {"name": "gone"}}]);
        for (json, expected) in [
            (
                json!({"name": "v", "projected": {"sources": absent}}),
                "ConfigNotFound: Secret \"gone\" of spec.process.volumes[0].projected.sources[0].secret does not exist in namespace \"team\"",
            ),
            (
                json!({"name": "v", "configMap": {"name": "config", "items": [{"key": "x", "path": "x"}]}}),
                "ConfigNotFound: ConfigMap \"config\" of spec.process.volumes[0].configMap has no key \"x\"",
            ),
            (
                json!({"name": "v", "configMap": {"name": "config", "items": [{"key": "A", "path": "../x"}]}}),
                "InvalidConfig: spec.process.volumes[0] (\"v\"): the file \"../x\" cannot be in a volume: an empty name, `.` and `..` name no file",
            ),
        ] {
            assert_eq!(volume(json).expect_err(expected), expected);
        }
    }

    #[test]
    fn mount_of_an_unknown_volume_is_refused() {
        let key = key();
        let spec = spec(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}));
        let problem = check(&spec, &contents(), fields(&key)).expect_err("no volume");
        assert!(problem.message.contains("volumeMounts[0]"), "{problem:?}");
    }

    #[test]
    fn impossible_mounts_are_refused() {
        let key = key();
        let volumes = json!([{"name": "v", "emptyDir": {}}]);
        for (mounts, why) in [
            (json!([{"name": "v", "mountPath": "/../x"}]), "\"/../x\""),
            (
                json!([{"name": "v", "mountPath": "/x", "subPath": "../y"}]),
                "\"../y\"",
            ),
            (
                json!([{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x/"}]),
                "something is mounted there",
            ),
            (
                json!([{"name": "v", "mountPath": "/var/run/operetta"}]),
                "something is mounted there",
            ),
        ] {
            let spec = spec(json!({"volumes": volumes, "volumeMounts": mounts}));
            let problem = check(&spec, &contents(), fields(&key)).expect_err(why);
            assert!(problem.message.contains(why), "{problem:?}");
        }
    }

    #[test]
    fn each_reference_of_a_spec_is_named_with_its_field() {
        let spec = spec(json!({
            "envFrom": [{"secretRef": {"name": "a"}}],
            "env": [{"name": "B", "valueFrom": {"configMapKeyRef": {"name": "b", "key": "k"}}}],
            "volumes": [
                {"name": "c", "secret": {"secretName": "c"}},
                {"name": "d", "projected": {"sources": [{"downwardAPI": {}}, {"configMap": {"name": "d"}}]}},
            ],
        }));
        let all: Vec<_> = named(&spec)
            .into_iter()
            .map(|named| format!("{} {} {}", named.kind.as_str(), named.name, named.field))
            .collect();
        assert_eq!(
            all,
            [
                "Secret a spec.process.envFrom[0].secretRef",
                "ConfigMap b spec.process.env[0].valueFrom.configMapKeyRef",
                "Secret c spec.process.volumes[0].secret",
                "ConfigMap d spec.process.volumes[1].projected.sources[1].configMap",
            ]
        );
    }

    #[test]
    fn references_are_replaced_as_by_the_kubelet() {
        let env = BTreeMap::from([
            ("A".to_owned(), "one".to_owned()),
            ("B".to_owned(), "$(A)".to_owned()),
        ]);
        for (text, expected) in [
            ("--a=$(A)", "--a=one"),
            ("$(A)$(A)", "oneone"),
            ("$(B)", "$(A)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$one"),
            ("$(UNKNOWN)", "$(UNKNOWN)"),
            ("$(A", "$(A"),
            ("$A $", "$A $"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &env), expected, "{text}");
        }
    }
}

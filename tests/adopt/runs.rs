//! The two runs of an operator.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use operetta_testkit::{ControlPlane, Host, HostOptions};
use serde_json::{Value, json};

use crate::{
    build::Built,
    case::{Case, Step, fits},
    dump::{Baseline, Dump},
    native::Native,
};

/// What is installed of an operator's manifests. Its workload is what the test runs; webhooks and what
/// needs other operators' CRDs is left out.
const INSTALLED: [&str; 10] = [
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "PriorityClass",
];

/// The namespace of samples.
const SAMPLE: &str = "sample";

/// The longest time until they settle, or until they are as in the native run.
const LIMIT: Duration = Duration::from_secs(180);
/// The time in which processor time at rest is measured.
const REST: Duration = Duration::from_secs(10);

/// What was seen in a run.
pub struct Outcome {
    /// The objects after each step.
    pub dumps: Vec<Dump>,
    /// From the Plugin's creation to its first start; zero natively.
    pub loaded: Duration,
    /// From the start until the objects of the first step had settled.
    pub settled: Duration,
    /// The resident memory: natively the operator's, otherwise what the host has more than before.
    pub memory_bytes: u64,
    /// The processor time in ten seconds after the last step; of the whole host, if it is a process.
    pub idle: Duration,
}

/// A control plane with what an operator needs.
struct Ground {
    control_plane: ControlPlane,
}

impl Ground {
    /// Starts a control plane, and installs an operator's manifests.
    async fn prepare(case: &Case, built: &Built) -> Result<Self, String> {
        let start = || ControlPlane::start(&["controllers", "scheduler", "kwok"]);
        let control_plane = tokio::task::spawn_blocking(start)
            .await
            .map_err(|error| error.to_string())??;
        let ground = Self { control_plane };

        for name in [SAMPLE, case.namespace.as_str()] {
            ground.apply(&namespace(name).to_string(), None)?;
        }
        for kustomization in &case.kustomizations {
            let folder = built.sources.join(kustomization);
            let rendered = ground.kubectl(&["kustomize", &folder.to_string_lossy()])?;
            ground.install(&rendered, &case.namespace)?;
        }
        for manifest in &case.manifests {
            for text in texts(&built.sources.join(manifest))? {
                ground.install(&text, &case.namespace)?;
            }
        }
        ground.install(&case.objects, &case.namespace)?;
        if !case.files.is_empty() {
            ground.apply(&files(case).to_string(), None)?;
        }

        // Every ServiceAccount that runs as a process consents to it; natively, it means nothing.
        ground.kubectl(&[
            "annotate",
            "serviceaccount",
            "-n",
            &case.namespace,
            &case.service_account,
            "operetta.dev/allow-plugins=*",
            "--overwrite",
        ])?;
        if !ground.kubectl(&["get", "crd", "-o", "name"])?.is_empty() {
            ground.kubectl(&["wait", "--for=condition=Established", "crd", "--all"])?;
        }
        // The files of a ServiceAccount.
        ground.until(&format!("configmap/kube-root-ca.crt -n {}", case.namespace))?;
        ground.until(&format!("configmap/kube-root-ca.crt -n {SAMPLE}"))?;
        ground.until(&format!("serviceaccount/default -n {SAMPLE}"))?;
        Ok(ground)
    }

    /// Applies those objects of a text that are installed.
    fn install(&self, text: &str, namespace: &str) -> Result<(), String> {
        let mut kept = Vec::new();
        for mut object in documents(text)? {
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            if !INSTALLED.contains(&kind.as_str()) {
                continue;
            }
            // No webhook answers.
            if kind == "CustomResourceDefinition"
                && let Some(spec) = object["spec"].as_object_mut()
            {
                spec.remove("conversion");
            }
            if kind == "Namespace" {
                object["metadata"]["labels"]["operetta.dev/plugins"] = "enabled".into();
            }
            kept.push(object.to_string());
        }
        if kept.is_empty() {
            return Ok(());
        }
        self.apply(&kept.join("\n---\n"), Some(namespace))
    }

    fn apply(&self, text: &str, namespace: Option<&str>) -> Result<(), String> {
        let file = self.control_plane.folder().join("applied.yaml");
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let file = file.to_string_lossy();

        // Not `-n`: with it, kubectl refuses objects that name another namespace.
        if let Some(namespace) = namespace {
            self.kubectl(&[
                "config",
                "set-context",
                "--current",
                "--namespace",
                namespace,
            ])?;
        }
        self.kubectl(&[
            "apply",
            "--server-side",
            "--force-conflicts",
            "--validate=ignore",
            "-f",
            &file,
        ])
        .map(drop)
    }

    fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        let output = self.control_plane.kubectl_output(args);
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let error = String::from_utf8_lossy(&output.stderr);
        Err(format!("kubectl {}: {}", args.join(" "), error.trim()))
    }

    /// Waits until an object exists.
    fn until(&self, object: &str) -> Result<(), String> {
        let mut args = vec!["wait", "--for=create", "--timeout=60s"];
        args.extend(object.split(' '));
        self.kubectl(&args).map(drop)
    }

    /// Does what a user does in a step.
    fn take_step(&self, step: &Step, built: &Built) -> Result<(), String> {
        for file in &step.apply {
            for text in texts(&built.sources.join(file))? {
                self.apply(&text, Some(SAMPLE))?;
            }
        }
        if !step.objects.is_empty() {
            self.apply(&step.objects, Some(SAMPLE))?;
        }
        for (object, patch) in &step.patch {
            let patch = patch.to_string();
            let mut args = vec!["patch", "--type=merge", "-p", &patch, "-n", SAMPLE];
            args.extend(object.split(' '));
            self.kubectl(&args)?;
        }
        for object in &step.delete {
            let mut args = vec!["delete", "--wait=false", "-n", SAMPLE];
            args.extend(object.split(' '));
            self.kubectl(&args)?;
        }
        Ok(())
    }

    async fn dump(&self, baseline: &Baseline) -> Result<Dump, String> {
        let dump = Dump::take(baseline).await;
        dump.map_err(|error| format!("failed to read the objects: {error}"))
    }

    /// Waits until the objects don't change any more.
    async fn settle(
        &self,
        baseline: &Baseline,
        case: &Case,
        step: &Step,
        is_running: &mut impl FnMut() -> Result<(), String>,
    ) -> Result<(Dump, Duration), String> {
        let began = Instant::now();
        let mut last = Dump::default();
        let mut changed = Instant::now();
        loop {
            is_running()?;
            let dump = self.dump(baseline).await?;
            if dump != last {
                changed = Instant::now();
                last = dump;
            }
            let missing = missing(step, &last);
            if missing.is_none() && changed.elapsed() > case.quiet() {
                return Ok((last, changed - began));
            }
            if began.elapsed() > LIMIT {
                return Err(missing.unwrap_or_else(|| "the objects don't settle".to_owned()));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Waits until the objects are as in the native run, but for the exceptions, or until it is too
    /// late. Returns the last ones.
    async fn follow(
        &self,
        baseline: &Baseline,
        case: &Case,
        native: &Dump,
        is_running: &mut impl FnMut() -> Result<(), String>,
    ) -> Result<(Dump, Duration), String> {
        let began = Instant::now();
        let mut equal_since = None;
        loop {
            is_running()?;
            let dump = self.dump(baseline).await?;
            let is_equal = case.unexplained(native, &dump).is_empty();

            let since = match (is_equal, equal_since) {
                (true, None) => Some(Instant::now()),
                (true, since) => since,
                (false, _) => None,
            };
            equal_since = since;
            if let Some(since) = since
                && since.elapsed() > case.quiet()
            {
                return Ok((dump, since - began));
            }
            if began.elapsed() > LIMIT {
                return Ok((dump, began.elapsed()));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// What a step has not brought about yet.
fn missing(step: &Step, dump: &Dump) -> Option<String> {
    let exists = |name: &str| dump.0.keys().any(|key| fits(name, key));
    let absent = step.creates.iter().find(|name| !exists(name));
    let left = step.removes.iter().find(|name| exists(name));
    let absent = absent.map(|name| format!("{name} does not exist"));
    absent.or_else(|| left.map(|name| format!("{name} still exists")))
}

/// Runs an operator in its own process.
///
/// # Errors
/// Returns what failed, with the end of its log.
pub async fn run_natively(case: &Case, built: &Built, folder: &Path) -> Result<Outcome, String> {
    let ground = Ground::prepare(case, built).await?;
    let baseline = Baseline::take(ground.control_plane.client().await)
        .await
        .map_err(|error| error.to_string())?;

    let mut native = Native::start(&ground.control_plane, case, built, folder).await;
    let mut dumps = Vec::new();
    let mut settled = Duration::ZERO;
    for (index, step) in case.steps.iter().enumerate() {
        ground.take_step(step, built)?;
        let mut is_running = || match native.is_running() {
            true => Ok(()),
            false => Err("the operator has ended".to_owned()),
        };
        let result = ground.settle(&baseline, case, step, &mut is_running).await;
        let (dump, took) = result.map_err(|error| {
            format!("natively, step {index}: {error}\n{}", end_of(&native.log()))
        })?;
        if index == 0 {
            settled = took;
        }
        dumps.push(dump);
    }

    let (_, before) = native.usage().await;
    tokio::time::sleep(REST).await;
    let (memory_bytes, after) = native.usage().await;
    Ok(Outcome {
        dumps,
        loaded: Duration::ZERO,
        settled,
        memory_bytes,
        idle: after.saturating_sub(before),
    })
}

/// Runs an operator as a process of a host, on a control plane of its own.
///
/// # Errors
/// Returns what failed, with the end of its log.
pub async fn run_as_process(
    case: &Case,
    built: &Built,
    folder: &Path,
    native: &Outcome,
) -> Result<Outcome, String> {
    let ground = Ground::prepare(case, built).await?;
    let config = json!({
        "pluginDirectory": built.folder,
        // The default depends on the machine's memory.
        "processCompileMemoryMiB": 8192,
        "compileSeconds": 1200,
        "allowReservedNamespaces": ["kube-system"],
        "quotas": {"namespace": {"memoryBytes": 2_u64 << 30}},
        "maxLimits": {"memory": "2Gi"},
    });
    let options = HostOptions {
        config: serde_yaml_ng::to_string(&config).map_err(|error| error.to_string())?,
        ..HostOptions::default()
    };
    let host = Host::start(&ground.control_plane, &options).await;
    let before_load = host.memory_bytes();
    let baseline = Baseline::take(ground.control_plane.client().await)
        .await
        .map_err(|error| error.to_string())?;

    let log = |host: &Host| {
        let lines = host.logs(&case.namespace, &case.name);
        let text: Vec<String> = lines.into_iter().map(|line| line.message).collect();
        let _for_people = fs::write(folder.join("process.log"), text.join("\n"));
        let _for_people = fs::write(folder.join("host.log"), host.log());
        end_of(&text.join("\n"))
    };

    ground.apply(&plugin(case).to_string(), None)?;
    let loaded = until_started(&ground, case)
        .await
        .map_err(|error| format!("{error}\n{}", log(&host)))?;

    let mut dumps = Vec::new();
    let mut settled = Duration::ZERO;
    for (index, step) in case.steps.iter().enumerate() {
        ground.take_step(step, built)?;
        let mut is_running = || {
            let status = process_status(&ground, case)?;
            match &status["lastTermination"] {
                Value::Null => Ok(()),
                end => Err(format!("the process has ended: {end}")),
            }
        };
        let result = ground
            .follow(&baseline, case, &native.dumps[index], &mut is_running)
            .await;
        let (dump, took) = result
            .map_err(|error| format!("as a process, step {index}: {error}\n{}", log(&host)))?;
        if index == 0 {
            settled = took;
        }
        let is_equal = case.unexplained(&native.dumps[index], &dump).is_empty();
        dumps.push(dump);
        // What comes after would differ for the same reason, after minutes for each step.
        if !is_equal {
            break;
        }
    }

    let before = host.cpu_time();
    tokio::time::sleep(REST).await;
    let idle = host.cpu_time().saturating_sub(before);
    let memory_bytes = host.memory_bytes().saturating_sub(before_load);
    log(&host);
    host.assert_sound();
    Ok(Outcome {
        dumps,
        loaded,
        settled,
        memory_bytes,
        idle,
    })
}

/// Waits until a process has started, and returns how long that took.
async fn until_started(ground: &Ground, case: &Case) -> Result<Duration, String> {
    let began = Instant::now();
    loop {
        let status = process_status(ground, case)?;
        if status["startedAt"].is_string() || status["lastTermination"].is_object() {
            return Ok(began.elapsed());
        }
        if began.elapsed() > Duration::from_secs(600) {
            let conditions = ground.kubectl(&[
                "get",
                "plugin",
                &case.name,
                "-n",
                &case.namespace,
                "-o",
                "jsonpath={.status.conditions}",
            ])?;
            return Err(format!("the process does not start: {conditions}"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn process_status(ground: &Ground, case: &Case) -> Result<Value, String> {
    let text = ground.kubectl(&[
        "get",
        "plugin",
        &case.name,
        "-n",
        &case.namespace,
        "-o",
        "json",
    ])?;
    let plugin: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;

    let conditions = plugin["status"]["conditions"].as_array();
    let degraded = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Degraded" && condition["status"] == "True");
    match degraded {
        Some(condition) => Err(format!("the Plugin is degraded: {condition}")),
        None => Ok(plugin["status"]["process"].clone()),
    }
}

/// The Plugin, as `operetta adopt` would make it of the Deployment.
fn plugin(case: &Case) -> Value {
    let env: Vec<Value> = case
        .env
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let mut process = json!({"args": case.args, "env": env});
    if !case.files.is_empty() {
        let (volumes, mounts) = volumes(case);
        process["volumes"] = volumes.into();
        process["volumeMounts"] = mounts.into();
    }
    json!({
        "apiVersion": "operetta.dev/v1alpha1",
        "kind": "Plugin",
        "metadata": {"name": case.name, "namespace": case.namespace},
        "spec": {
            "source": {"path": format!("{}.wasm", case.name)},
            "serviceAccountName": case.service_account,
            "limits": {"memory": case.memory},
            "process": process,
        },
    })
}

/// The ConfigMap with the files of an operator. Its keys are `file-N`.
fn files(case: &Case) -> Value {
    let texts = case.files.values().enumerate();
    let data: BTreeMap<String, &String> = texts
        .map(|(index, text)| (format!("file-{index}"), text))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": files_of(case), "namespace": case.namespace},
        "data": data,
    })
}

fn files_of(case: &Case) -> String {
    format!("{}-files", case.name)
}

/// A volume for each folder of files, and its mount. Files of the root are mounted one by one.
fn volumes(case: &Case) -> (Vec<Value>, Vec<Value>) {
    let mut folders: BTreeMap<&str, Vec<(&str, Value)>> = BTreeMap::new();
    for (index, path) in case.files.keys().enumerate() {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        let item = json!({"key": format!("file-{index}"), "path": file});
        folders.entry(folder).or_default().push((file, item));
    }

    let mut volumes = Vec::new();
    let mut mounts = Vec::new();
    for (index, (folder, files)) in folders.into_iter().enumerate() {
        let name = format!("files-{index}");
        let (files, items): (Vec<&str>, Vec<Value>) = files.into_iter().unzip();
        volumes.push(json!({"name": name, "configMap": {"name": files_of(case), "items": items}}));
        if !folder.is_empty() {
            mounts.push(json!({"name": name, "mountPath": folder}));
            continue;
        }
        mounts.extend(
            files.iter().map(
                |file| json!({"name": name, "mountPath": format!("/{file}"), "subPath": file}),
            ),
        );
    }
    (volumes, mounts)
}

fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"operetta.dev/plugins": "enabled"}},
    })
}

/// The texts of a file, or of a folder's YAML files by name.
fn texts(path: &Path) -> Result<Vec<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.is_file() {
        return Ok(vec![fs::read_to_string(path).map_err(failed)?]);
    }

    let mut files: Vec<_> = fs::read_dir(path)
        .map_err(failed)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    files.sort();
    let texts = files.into_iter().map(fs::read_to_string);
    texts.collect::<Result<_, _>>().map_err(failed)
}

/// The objects of a YAML text; those of a List, too.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let value: Value =
            serde::Deserialize::deserialize(document).map_err(|error| error.to_string())?;
        match value["items"].as_array() {
            Some(items) if value["kind"] == "List" => objects.extend(items.iter().cloned()),
            _ if value.is_null() => {}
            _ => objects.push(value),
        }
    }
    Ok(objects)
}

fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_root_are_mounted_one_by_one() {
        let case = "{name: a, namespace: a, serviceAccount: a, steps: [],
            files: {/a.yaml: a, /b.yaml: b, /etc/op/c.yaml: c}}";
        let case: Case = serde_yaml_ng::from_str(case).expect("a case");
        let (volumes, mounts) = volumes(&case);
        assert_eq!(volumes.len(), 2);
        assert_eq!(
            mounts,
            [
                json!({"name": "files-0", "mountPath": "/a.yaml", "subPath": "a.yaml"}),
                json!({"name": "files-0", "mountPath": "/b.yaml", "subPath": "b.yaml"}),
                json!({"name": "files-1", "mountPath": "/etc/op"}),
            ]
        );
    }
}

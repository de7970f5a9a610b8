//! Runs the program as a kubelet runs the Pod of a Deployment, without a container runtime: with the Pod's arguments, variables,
//! volumes, user and token, in a mount namespace whose root has only the program and its libraries, and is read-only.

use std::{fs, path::Path, process::Command};

use operetta_testkit::{ControlPlane, Host, https};
use serde_json::{Value, json};

const OPERETTA: &str = env!("CARGO_BIN_EXE_operetta");

/// The folder of the token in a container.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Makes the root: $1 is the folder, $2 the program.
const ROOT: &str = r#"
root=$1/root
mkdir "$root"
mount -t tmpfs -o mode=0755 tmpfs "$root"
mkdir "$root/proc" "$root/dev"
touch "$root/dev/null" "$root/operetta"
mount --rbind /proc "$root/proc"
mount --bind /dev/null "$root/dev/null"
mount --bind "$2" "$root/operetta"
ldd "$2" | grep -o '/[^ ]*' | sort -u | while read -r library; do cp --parents -L "$library" "$root"; done
"#;

/// A Pod of a Deployment.
pub struct Pod {
    /// Its container's process.
    pub host: Host,
    liveness: String,
    readiness: String,
}

impl Pod {
    /// Starts a Pod of the Deployment `operetta` as the API server has it, and waits until it listens.
    pub async fn start(control_plane: &ControlPlane, namespace: &str, name: &str) -> Self {
        let get = |kind: &str| -> Value {
            let json = control_plane.kubectl(&["get", kind, "operetta", "-n", namespace, "-o", "json"]);
            serde_json::from_str(&json).expect("JSON")
        };
        let spec = get("deployment")["spec"]["template"]["spec"].clone();
        let container = &spec["containers"][0];
        let folder = control_plane.folder().join(format!("pod-{name}"));
        fs::create_dir_all(&folder).expect("a folder");
        write_token(control_plane, namespace, &spec, &folder);
        let mounts = mounts(&spec, &get("configmap"), &folder);
        let port = |name: &str| {
            let ports = container["ports"].as_array().expect("ports").iter();
            let port = ports.filter(|port| port["name"] == name).map(|port| port["containerPort"].to_string()).next();
            port.unwrap_or_else(|| panic!("no port {name}"))
        };
        // The tests share one network, so the ports of the manifest may be in use.
        let args = strings(&container["args"]).map(|arg| {
            let Some((flag, address)) = arg.split_once("-address=") else { return arg };
            let expected = match flag {
                "--admin" => "127.0.0.1:8080".to_owned(),
                "--health" => format!("0.0.0.0:{}", port("health")),
                "--secure" => format!("0.0.0.0:{}", port("https")),
                _ => panic!("the test does not know {arg}"),
            };
            assert_eq!(address, expected, "{arg}");
            format!("{flag}-address=127.0.0.1:0")
        });
        let mut variables = variables(container, namespace, name);
        variables.extend(api_server(control_plane));
        let security = &spec["securityContext"];
        let run = format!(
            "{ROOT}{mounts}mount -o remount,bind,ro \"$root\"\nunshare=$(command -v unshare)\nexec env -i {} \"$unshare\" --user \
             --map-user={} --map-group={} --root=\"$root\" --wd=/ /operetta {}",
            variables.iter().map(|variable| quoted(variable)).collect::<Vec<_>>().join(" "),
            security["runAsUser"],
            security["runAsGroup"],
            args.map(|arg| quoted(&arg)).collect::<Vec<_>>().join(" "),
        );
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-euc", &run, "sh"]).arg(&folder).arg(OPERETTA);
        let mut host = Host::spawn_command(command, Path::new(OPERETTA), control_plane, &folder);
        host.until_listening().await;
        let path = |probe: &str| {
            let get = &container[probe]["httpGet"];
            assert_eq!(get["port"], "health", "{probe}");
            get["path"].as_str().expect("a path").to_owned()
        };
        Self { host, liveness: path("livenessProbe"), readiness: path("readinessProbe") }
    }

    /// Returns an error if a probe of the Pod fails.
    pub async fn probe(&self) -> Result<(), String> {
        self.host.assert_sound();
        let address = self.host.logged("health").ok_or("the probes are not served yet")?;
        for path in [&self.liveness, &self.readiness] {
            match https::get_plain(&address, path).await {
                (200, _) => {}
                (status, text) => return Err(format!("{path}: {status} {text}")),
            }
        }
        Ok(())
    }
}

/// Writes what a kubelet projects for the ServiceAccount.
fn write_token(control_plane: &ControlPlane, namespace: &str, spec: &Value, folder: &Path) {
    let account = spec["serviceAccountName"].as_str().expect("a ServiceAccount");
    assert_ne!(spec["automountServiceAccountToken"], json!(false));
    let text = fs::read_to_string(control_plane.kubeconfig_of(namespace, account)).expect("a kubeconfig");
    let kubeconfig: Value = serde_yaml_ng::from_str(&text).expect("a kubeconfig");
    let token = folder.join("token");
    fs::create_dir_all(&token).expect("a folder");
    let write = |name: &str, text: &str| fs::write(token.join(name), text).expect("written");
    write("token", kubeconfig["users"][0]["user"]["token"].as_str().expect("a token"));
    write("namespace", namespace);
    let config = control_plane.kubectl(&["config", "view", "--raw", "-o", "json"]);
    let config: Value = serde_json::from_str(&config).expect("JSON");
    let cluster = &config["clusters"][0]["cluster"];
    match cluster["certificate-authority"].as_str() {
        Some(path) => fs::copy(path, token.join("ca.crt")).map(|_bytes| ()).expect("an authority"),
        None => {
            let encoded = cluster["certificate-authority-data"].as_str().expect("an authority").to_owned();
            let encoded: k8s_openapi::ByteString = serde_json::from_value(encoded.into()).expect("base64");
            fs::write(token.join("ca.crt"), encoded.0).expect("written");
        }
    }
}

/// Returns the variables that every container gets.
fn api_server(control_plane: &ControlPlane) -> [String; 2] {
    let server = control_plane.kubectl(&["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    let address = server.trim().trim_start_matches("https://");
    let (host, port) = address.rsplit_once(':').expect("a port");
    [format!("KUBERNETES_SERVICE_HOST={host}"), format!("KUBERNETES_SERVICE_PORT={port}")]
}

/// Returns the container's own variables, as `NAME=VALUE`.
fn variables(container: &Value, namespace: &str, pod: &str) -> Vec<String> {
    let value = |variable: &Value| match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
        None => variable["value"].as_str().unwrap_or_default().to_owned(),
        Some("metadata.name") => pod.to_owned(),
        Some("metadata.namespace") => namespace.to_owned(),
        Some(path) => panic!("the test does not know {path}"),
    };
    let all = container["env"].as_array().into_iter().flatten();
    all.map(|variable| format!("{}={}", variable["name"].as_str().expect("a name"), value(variable))).collect()
}

/// Writes the files of the volumes, and returns the commands that mount them.
fn mounts(spec: &Value, config_map: &Value, folder: &Path) -> String {
    let container = &spec["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], json!(true));
    let volume = |name: &Value| spec["volumes"].as_array()?.iter().find(|volume| volume["name"] == *name);
    let mut commands = bind(&folder.join("token"), SERVICE_ACCOUNT);
    for mount in container["volumeMounts"].as_array().into_iter().flatten() {
        let path = mount["mountPath"].as_str().expect("a path");
        let volume = volume(&mount["name"]).unwrap_or_else(|| panic!("no volume {}", mount["name"]));
        if let Some(size) = volume["emptyDir"]["sizeLimit"].as_str() {
            let size = size.trim_end_matches('i');
            let path = quoted(path);
            commands +=
                &format!("mkdir -p \"$root\"{path}\nmount -t tmpfs -o mode=0777,size={size} tmpfs \"$root\"{path}\n");
        } else {
            assert_eq!(volume["configMap"]["name"], config_map["metadata"]["name"], "{volume}");
            let files = folder.join("config");
            fs::create_dir_all(&files).expect("a folder");
            for (name, text) in config_map["data"].as_object().into_iter().flatten() {
                fs::write(files.join(name), text.as_str().expect("text")).expect("written");
            }
            commands += &bind(&files, path);
        }
    }
    commands
}

/// Returns the commands that mount a folder read-only.
fn bind(from: &Path, to: &str) -> String {
    let (from, to) = (quoted(&from.to_string_lossy()), quoted(to));
    format!("mkdir -p \"$root\"{to}\nmount --bind {from} \"$root\"{to}\nmount -o remount,bind,ro \"$root\"{to}\n")
}

fn quoted(text: &str) -> String {
    assert!(!text.contains('\''), "{text}");
    format!("'{text}'")
}

fn strings(list: &Value) -> impl Iterator<Item = String> {
    list.as_array().into_iter().flatten().map(|item| item.as_str().expect("text").to_owned())
}

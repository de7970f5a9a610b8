//! Runs the image as a kubelet runs the Pod of a Deployment, without a container runtime: with the
//! Pod's arguments, variables, volumes, user, memory limit and token, in a mount namespace whose
//! root is the unpacked image, read-only. The Pod's seccomp profile is not applied: it is the
//! runtime's own.

use std::{fs, path::Path, process::Command};

use operetta_testkit::{ControlPlane, Host, https};
use serde_json::{Value, json};

use crate::{
    cgroup::MemoryGroup,
    image::Image,
    template::{args, assert_applied, strings, variables},
};

/// The folder of the token in a container.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Makes the root: $1 is the Pod's folder, beside the image's archive. Development builds need
/// shared libraries, which no image has: they come from this machine.
const ROOT: &str = r#"
root=$1/root
mkdir "$root"
mount -t tmpfs -o mode=0755 tmpfs "$root"
tar -x --no-same-owner -p -f "$1/../image.tar" -C "$root"
mkdir "$root/proc" "$root/dev"
touch "$root/dev/null"
mount --rbind /proc "$root/proc"
mount --bind /dev/null "$root/dev/null"
for program in "$root"/operetta-*; do
    if libraries=$(ldd "$program" 2>/dev/null); then
        echo "$libraries" | grep -o '/[^ ]*' | sort -u | while read -r library; do cp --parents -L "$library" "$root"; done
    fi
done
"#;

/// A Pod of a Deployment.
pub struct Pod {
    /// Its container's process.
    pub host: Host,
    liveness: String,
    readiness: String,
    /// None where the machine does not let the test set the limit. It is dropped after the process.
    _memory: Option<MemoryGroup>,
}

impl Pod {
    /// Starts a Pod of the Deployment `operetta` as the API server has it, and waits until it
    /// listens.
    pub async fn start(control_plane: &ControlPlane, namespace: &str, name: &str) -> Self {
        let get = |kind: &str| -> Value {
            let json =
                control_plane.kubectl(&["get", kind, "operetta", "-n", namespace, "-o", "json"]);
            serde_json::from_str(&json).expect("JSON")
        };

        let spec = get("deployment")["spec"]["template"]["spec"].clone();
        let container = &spec["containers"][0];
        let folder = control_plane.folder().join(format!("pod-{name}"));
        fs::create_dir_all(&folder).expect("a folder");

        let image = Image::get(control_plane.folder());
        assert_applied(&spec, &image);
        image.export(&control_plane.folder().join("image.tar"));
        write_token(control_plane, namespace, &spec, &folder);
        let mounts = mounts(&spec, &get("configmap"), &folder);

        let config = image.config();
        let mut environment: Vec<String> = strings(&config["Env"]).collect();
        environment.extend(api_server(control_plane));
        environment.extend(variables(container, namespace, name));
        let run = script(&spec, &config, &environment, &mounts);

        let memory = container["resources"]["limits"]["memory"]
            .as_str()
            .expect("a memory limit");
        let memory = MemoryGroup::create(&format!("operetta-{name}"), memory);
        let memory = memory
            .inspect_err(|error| eprintln!("the memory limit is not applied: {error}"))
            .ok();

        let join = memory.as_ref().map_or_else(String::new, |group| {
            format!(
                "echo $$ >{}\n",
                quoted(&group.processes().to_string_lossy())
            )
        });
        let outer = format!("{join}exec unshare --map-root-user --mount sh -euc \"$2\" sh \"$1\"");
        let mut command = Command::new("sh");
        command.args(["-euc", &outer, "sh"]).arg(&folder).arg(&run);
        let mut host = Host::spawn_command(command, control_plane, &folder);
        host.until_listening().await;

        let path = |probe: &str| {
            let get = &container[probe]["httpGet"];
            assert_eq!(get["port"], "health", "{probe}");
            get["path"].as_str().expect("a path").to_owned()
        };

        Self {
            host,
            liveness: path("livenessProbe"),
            readiness: path("readinessProbe"),
            _memory: memory,
        }
    }

    /// Returns an error if a probe of the Pod fails.
    pub async fn probe(&self) -> Result<(), String> {
        self.host.assert_sound();
        let address = self
            .host
            .logged("health")
            .ok_or("the probes are not served yet")?;

        for path in [&self.liveness, &self.readiness] {
            match https::get_plain(&address, path).await {
                (200, _) => {}
                (status, text) => return Err(format!("{path}: {status} {text}")),
            }
        }

        Ok(())
    }
}

/// Returns the image's entry point.
fn entrypoint(config: &Value) -> Vec<String> {
    strings(&config["Entrypoint"]).collect()
}

/// Returns the script that makes the container's root and becomes its process.
fn script(spec: &Value, config: &Value, environment: &[String], mounts: &str) -> String {
    let joined = |words: &[String]| {
        words
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" ")
    };

    let command_line = [entrypoint(config), args(&spec["containers"][0])].concat();
    let security = &spec["securityContext"];
    format!(
        "{ROOT}{mounts}mount -o remount,bind,ro \"$root\"\nsetpriv=$(command -v setpriv)\nunshare=$(command -v unshare)\n\
         exec env -i {} \"$setpriv\" --no-new-privs \"$unshare\" --user --map-user={} --map-group={} --root=\"$root\" \
         --wd={} {}",
        joined(environment),
        security["runAsUser"],
        security["runAsGroup"],
        quoted(config["WorkingDir"].as_str().expect("a folder")),
        joined(&command_line),
    )
}

/// Writes what a kubelet projects for the ServiceAccount.
fn write_token(control_plane: &ControlPlane, namespace: &str, spec: &Value, folder: &Path) {
    let account = spec["serviceAccountName"]
        .as_str()
        .expect("a ServiceAccount");
    assert_ne!(spec["automountServiceAccountToken"], json!(false));

    let text =
        fs::read_to_string(control_plane.kubeconfig_of(namespace, account)).expect("a kubeconfig");
    let kubeconfig: Value = serde_yaml_ng::from_str(&text).expect("a kubeconfig");

    let token = folder.join("token");
    fs::create_dir_all(&token).expect("a folder");
    let write = |name: &str, text: &str| fs::write(token.join(name), text).expect("written");
    write(
        "token",
        kubeconfig["users"][0]["user"]["token"]
            .as_str()
            .expect("a token"),
    );
    write("namespace", namespace);

    let config = control_plane.kubectl(&["config", "view", "--raw", "-o", "json"]);
    let config: Value = serde_json::from_str(&config).expect("JSON");
    let cluster = &config["clusters"][0]["cluster"];
    match cluster["certificate-authority"].as_str() {
        Some(path) => fs::copy(path, token.join("ca.crt"))
            .map(|_bytes| ())
            .expect("an authority"),
        None => {
            let encoded = cluster["certificate-authority-data"]
                .as_str()
                .expect("an authority")
                .to_owned();
            let encoded: k8s_openapi::ByteString =
                serde_json::from_value(encoded.into()).expect("base64");
            fs::write(token.join("ca.crt"), encoded.0).expect("written");
        }
    }
}

/// Returns the variables that every container gets.
fn api_server(control_plane: &ControlPlane) -> [String; 2] {
    let server = control_plane.kubectl(&[
        "config",
        "view",
        "--minify",
        "-o",
        "jsonpath={.clusters[0].cluster.server}",
    ]);
    let address = server.trim().trim_start_matches("https://");
    let (host, port) = address.rsplit_once(':').expect("a port");

    [
        format!("KUBERNETES_SERVICE_HOST={host}"),
        format!("KUBERNETES_SERVICE_PORT={port}"),
    ]
}

/// Writes the files of the volumes, and returns the commands that mount them.
fn mounts(spec: &Value, config_map: &Value, folder: &Path) -> String {
    let container = &spec["containers"][0];
    let volume = |name: &Value| {
        spec["volumes"]
            .as_array()?
            .iter()
            .find(|volume| volume["name"] == *name)
    };

    let mut commands = bind(&folder.join("token"), SERVICE_ACCOUNT);
    for mount in container["volumeMounts"].as_array().into_iter().flatten() {
        let path = mount["mountPath"].as_str().expect("a path");
        let volume =
            volume(&mount["name"]).unwrap_or_else(|| panic!("no volume {}", mount["name"]));
        if let Some(size) = volume["emptyDir"]["sizeLimit"].as_str() {
            let size = size.trim_end_matches('i');
            let path = quoted(path);
            commands += &format!(
                "mkdir -p \"$root\"{path}\nmount -t tmpfs -o mode=0777,size={size} tmpfs \"$root\"{path}\n"
            );
        } else {
            assert_eq!(
                volume["configMap"]["name"], config_map["metadata"]["name"],
                "{volume}"
            );
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
    format!(
        "mkdir -p \"$root\"{to}\nmount --bind {from} \"$root\"{to}\nmount -o remount,bind,ro \"$root\"{to}\n"
    )
}

fn quoted(text: &str) -> String {
    assert!(!text.contains('\''), "{text}");
    format!("'{text}'")
}

//! The real kubectl, run against the server.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
};

use operetta_apiserver::server::serve;
use tempfile::TempDir;
use tokio::{net::TcpListener, runtime::Runtime};

use crate::kinds;

/// Finds kubectl in `KUBEBUILDER_ASSETS`, or where `make controlplane` builds it.
fn kubectl() -> Option<PathBuf> {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/controlplane/bin");
    let folder =
        std::env::var("KUBEBUILDER_ASSETS").map_or_else(|_| PathBuf::from(built), PathBuf::from);
    let path = folder.join("kubectl");
    path.exists().then_some(path)
}

/// A server on a port, and kubectl for it.
struct Kubectl {
    path: PathBuf,
    folder: TempDir,
    address: SocketAddr,
    _runtime: Runtime,
}

impl Kubectl {
    fn start(path: PathBuf) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = runtime.block_on(kinds::server_at(jiff::Timestamp::now()));
        runtime.spawn(serve(listener, server, std::future::pending()));

        let folder = TempDir::new().expect("a folder");
        Self {
            path,
            folder,
            address,
            _runtime: runtime,
        }
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.path);
        let cache = self.folder.path().join("cache");

        command
            .arg("--server")
            .arg(format!("http://{}", self.address))
            .arg("--cache-dir")
            .arg(cache);
        command
            .env("KUBECONFIG", "/dev/null")
            .env("HOME", self.folder.path());

        command.args(arguments.split_whitespace());
        command
    }

    /// Runs kubectl, and returns its output.
    fn run(&self, arguments: &str) -> String {
        let output = self.command(arguments).output().expect("kubectl runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {arguments}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned() + &error
    }

    /// Runs kubectl, which must fail, and returns its error.
    fn fail(&self, arguments: &str) -> String {
        let output = self.command(arguments).output().expect("kubectl runs");
        assert!(!output.status.success(), "kubectl {arguments} succeeded");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Creates a core object from a manifest, and returns kubectl's output.
    fn create(&self, kind: &str, name: &str, rest: &str) -> String {
        let text = format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n{rest}");
        let file = self.write(name, &text);
        self.run(&format!("create -f {file}"))
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a path").to_owned()
    }
}

macro_rules! kubectl_or_skip {
    () => {
        match kubectl() {
            Some(path) => Kubectl::start(path),
            None => return println!("skipped: kubectl is not built; `make controlplane` builds it"),
        }
    };
}

#[test]
fn kubectl_manages_configmaps() {
    let kubectl = kubectl_or_skip!();
    assert_eq!(
        kubectl.create("ConfigMap", "a", "data:\n  k: v\n"),
        "configmap/a created\n"
    );

    let table = kubectl.run("get configmaps");
    assert_eq!(table.lines().next(), Some("NAME   DATA   AGE"));
    assert!(table.contains("a      1      "), "{table}");

    let yaml = kubectl.run("get configmap a -o yaml");
    assert!(
        yaml.starts_with("apiVersion: v1\ndata:\n  k: v\nkind: ConfigMap\nmetadata:\n"),
        "{yaml}"
    );

    assert_eq!(
        kubectl.run("patch configmap a --type merge -p {\"data\":{\"k\":\"w\"}}"),
        "configmap/a patched\n"
    );

    let operation = r#"[{"op":"add","path":"/data/j","value":"1"}]"#;
    assert_eq!(
        kubectl.run(&format!("patch cm a --type json -p {operation}")),
        "configmap/a patched\n"
    );

    assert_eq!(
        kubectl.run("get cm a -o jsonpath={.data}"),
        r#"{"j":"1","k":"w"}"#
    );

    assert_eq!(kubectl.run("label cm a app=web"), "configmap/a labeled\n");
    assert_eq!(
        kubectl.run("annotate cm a note=x"),
        "configmap/a annotated\n"
    );

    assert_eq!(kubectl.run("get cm -l app=web -o name"), "configmap/a\n");
    assert_eq!(
        kubectl.run("get cm --field-selector metadata.name=a -o name"),
        "configmap/a\n"
    );

    let manifest = kubectl
        .run("get cm a -o json")
        .replace("\"w\"", "\"replaced\"");
    let file = kubectl.write("a.json", &manifest);
    assert_eq!(
        kubectl.run(&format!("replace -f {file}")),
        "configmap/a replaced\n"
    );
    assert_eq!(kubectl.run("get cm a -o jsonpath={.data.k}"), "replaced");

    let stale = kubectl.fail(&format!("replace -f {file}"));
    assert!(
        stale.contains("the object has been modified; please apply your changes"),
        "{stale}"
    );

    assert!(
        kubectl
            .run("delete cm a")
            .starts_with("configmap \"a\" deleted")
    );

    assert_eq!(
        kubectl.fail("get cm a"),
        "Error from server (NotFound): configmaps \"a\" not found\n"
    );
}

#[test]
fn kubectl_checks_fields_of_what_it_creates() {
    let kubectl = kubectl_or_skip!();
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\nbogus: 1\n";
    let file = kubectl.write("b.yaml", text);

    let refused = kubectl.fail(&format!("create -f {file}"));
    assert!(
        refused.contains("strict decoding error: unknown field \"bogus\""),
        "{refused}"
    );

    let warned = kubectl.run(&format!("create --validate=warn -f {file}"));
    assert!(warned.contains("configmap/b created"), "{warned}");
    assert!(
        warned.contains("Warning: unknown field \"bogus\""),
        "{warned}"
    );
}

#[test]
fn kubectl_manages_secrets_and_namespaces() {
    let kubectl = kubectl_or_skip!();
    assert_eq!(
        kubectl.create("Secret", "s", "stringData:\n  a: b\n"),
        "secret/s created\n"
    );

    let table = kubectl.run("get secrets");
    assert_eq!(table.lines().next(), Some("NAME   TYPE     DATA   AGE"));
    assert_eq!(kubectl.run("get secret s -o jsonpath={.data.a}"), "Yg==");

    assert_eq!(
        kubectl.create("Namespace", "team", ""),
        "namespace/team created\n"
    );
    assert_eq!(
        kubectl.run("wait ns/team --for=jsonpath={.status.phase}=Active"),
        "namespace/team condition met\n"
    );

    let table = kubectl.run("get ns team");
    assert!(table.contains("team   Active   "), "{table}");

    kubectl.run("delete ns team --wait=false");
    let file = kubectl.write(
        "late",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: late\n",
    );

    let refused = kubectl.fail(&format!("-n team create -f {file}"));
    assert!(
        refused.contains("because it is being terminated"),
        "{refused}"
    );
}

#[test]
fn kubectl_manages_custom_resources() {
    let kubectl = kubectl_or_skip!();
    let text =
        "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: w\nspec:\n  replicas: 2\n";

    let file = kubectl.write("w.yaml", text);
    assert_eq!(
        kubectl.run(&format!("create -f {file}")),
        "widget.example.com/w created\n"
    );

    assert!(kubectl.run("get wd").starts_with("NAME   AGE\nw      "));
    assert_eq!(
        kubectl.run("get all -o name"),
        "service/kubernetes\nwidget.example.com/w\n"
    );
    assert_eq!(
        kubectl.run("scale widget w --replicas=5"),
        "widget.example.com/w scaled\n"
    );
    assert_eq!(
        kubectl.run("get widget w -o jsonpath={.spec.replicas}/{.metadata.generation}"),
        "5/2"
    );

    let status = r#"{"status":{"ready":true}}"#;
    kubectl.run(&format!(
        "patch widget w --subresource=status --type merge -p {status}"
    ));
    assert_eq!(
        kubectl.run("get widget w -o jsonpath={.status.ready}/{.metadata.generation}"),
        "true/2"
    );

    let waited = kubectl.run("wait widget/w --for=jsonpath={.status.ready}=true --timeout=5s");
    assert_eq!(waited, "widget.example.com/w condition met\n");

    assert!(
        kubectl
            .run(&format!("delete -f {file}"))
            .starts_with("widget.example.com \"w\" deleted")
    );
    assert_eq!(kubectl.run("wait widget/w --for=delete --timeout=5s"), "");
}

#[test]
fn kubectl_creates_by_protobuf() {
    let kubectl = kubectl_or_skip!();
    assert_eq!(
        kubectl.run("create configmap a --from-literal=k=v"),
        "configmap/a created\n"
    );

    assert_eq!(kubectl.run("get cm a -o jsonpath={.data}"), r#"{"k":"v"}"#);
    assert_eq!(
        kubectl.run("create secret generic s --from-literal=a=b"),
        "secret/s created\n"
    );
    assert_eq!(kubectl.run("get secret s -o jsonpath={.data.a}"), "Yg==");

    assert_eq!(
        kubectl.run("create namespace team"),
        "namespace/team created\n"
    );

    assert!(
        kubectl
            .fail("create namespace team")
            .contains("namespaces \"team\" already exists")
    );
}

#[test]
fn kubectl_lists_resources_and_versions() {
    let kubectl = kubectl_or_skip!();
    let resources = kubectl.run("api-resources");
    for name in ["configmaps", "namespaces", "secrets", "widgets", "gadgets"] {
        assert!(resources.contains(name), "{resources}");
    }
    let versions = kubectl.run("api-versions");
    for name in ["example.com/v1", "v1"] {
        assert!(
            versions.lines().any(|version| version == name),
            "{versions}"
        );
    }
    assert!(kubectl.run("version").contains("Server Version: v1.36.2"));
}

#[test]
fn kubectl_watches_changes() {
    let kubectl = kubectl_or_skip!();
    let mut watch = kubectl.command("get configmaps -w --output-watch-events");
    let mut child = watch.stdout(Stdio::piped()).spawn().expect("kubectl runs");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();

    kubectl.create("ConfigMap", "a", "data:\n  k: v\n");
    let mut next = || lines.next().expect("a line").expect("text");
    let mut seen = vec![next(), next()];
    kubectl.run("label cm a x=y");
    seen.push(next());
    kubectl.run("delete cm a");
    seen.push(next());

    child.kill().expect("ended");
    child.wait().expect("ended");

    let kinds: Vec<&str> = seen
        .iter()
        .map(|line| line.split_whitespace().next().unwrap_or_default())
        .collect();
    assert_eq!(kinds, ["EVENT", "ADDED", "MODIFIED", "DELETED"], "{seen:?}");
}

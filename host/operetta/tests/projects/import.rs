//! `operetta import` on an operator in kubebuilder's layout and one for kube-rs: the plugins are built, and reconcile on a real
//! control plane.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use operetta_testkit::{ControlPlane, Kind, TestNamespace, kinds, shell, within};
use serde_json::{Value, json};

use crate::{OPERETTA, caches, folder, host, repository, succeeded};

const MEMCACHED: Kind = Kind("cache.example.com/v1alpha1", "Memcached");
const GREETING: Kind = Kind("hello.example.com/v1", "Greeting");
/// The operator in kubebuilder's layout.
const MEMCACHED_OPERATOR: &str = "memcached-operator";
/// The operator for kube-rs.
const GREETING_OPERATOR: &str = "greeting-operator";

/// An operator of tests/projects, in a folder of its own.
fn operator(folder: &Path, name: &str) -> PathBuf {
    let data = repository().join("host/operetta/tests/projects").join(name);
    let dir = folder.join(name);
    let copy = Command::new("cp").arg("-r").args([&data, &dir]).output().expect("starts");
    succeeded("cp", &copy);
    if name == MEMCACHED_OPERATOR {
        // The versions that the repository was tested with.
        fs::copy(repository().join("examples/app-service/go/go.sum"), dir.join("go.sum")).expect("go.sum");
    }
    dir
}

fn import(folder: &Path, args: &[&str]) -> Output {
    Command::new(OPERETTA).arg("import").args(args).current_dir(folder).output().expect("starts")
}

fn refused(folder: &Path, args: &[&str]) -> String {
    let output = import(folder, args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An operator that was imported, and the namespace of its plugin.
struct Stage {
    operator: &'static str,
    folder: PathBuf,
    /// The output of `operetta import`.
    said: String,
    namespace: TestNamespace<'static>,
}

impl Stage {
    /// Imports an operator, in place of the one of an earlier run.
    async fn new(operator: &'static str) -> Self {
        let folder = folder().join("import").join(operator);
        let _not_there = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let dir = self::operator(&folder, operator);
        let before = contents(&dir);
        let namespace = ControlPlane::shared().await.namespace(operator).await;
        let said = succeeded("import", &import(&folder, &[operator, "-n", namespace.name()]));
        assert_eq!(contents(&dir), before, "the operator is not changed");
        fs::copy(namespace.control_plane().kubeconfig(), folder.join("kubeconfig")).expect("a kubeconfig");
        Self { operator, folder, said, namespace }
    }

    /// Runs a line in the plugin's folder.
    fn run(&self, line: &str) -> String {
        let mut command = shell(&[Path::new(OPERETTA)], &self.folder.join("kubeconfig"), line);
        command.current_dir(self.folder.join(format!("{}-plugin", self.operator))).envs(caches());
        command.env("GOTOOLCHAIN", "local").env("CARGO_TARGET_DIR", folder().join("target"));
        succeeded(line, &command.output().expect("bash starts"))
    }

    /// Runs the commands that `operetta import` has printed after `operetta build`, and waits until the plugin runs.
    async fn install(&self, crd: &str) {
        let crd = fs::read_to_string(self.folder.join(self.operator).join(crd)).expect("the CRD");
        self.namespace.control_plane().apply(&crd);
        let steps = self.said.split("operetta build\n").nth(1).expect("the next steps");
        steps.lines().filter(|line| !line.is_empty()).for_each(|line| drop(self.run(line)));
        within(Duration::from_secs(200), "the plugin runs", async || {
            let ready = self.namespace.plugin_condition(self.operator, "Ready").await;
            if ready.as_ref().is_some_and(|ready| ready.status == "True") { Ok(()) } else { Err(format!("{ready:?}")) }
        })
        .await;
    }
}

/// The files of a folder and their texts.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(contents(&path));
        } else {
            files.push((path.clone(), fs::read(&path).expect("read")));
        }
    }
    files.sort();
    files
}

#[tokio::test]
async fn imported_kubebuilder_project_builds_and_reconciles() {
    let stage = Stage::new(MEMCACHED_OPERATOR).await;
    for part in [
        "memcached-operator-plugin: the plugin memcached-operator, from memcached-operator\n",
        "- cmd/main.go:53: webhooks: ",
        "- cmd/main.go:61: leader election: ",
        "- cmd/main.go:58: the metrics server: ",
        "- cmd/main.go:60: health probes: ",
    ] {
        assert!(stage.said.contains(part), "{part:?} is not in {}", stage.said);
    }
    assert_eq!(stage.run("gofmt -l main.go"), "");
    stage.run("go mod tidy");
    let built = stage.run("operetta build");
    assert!(built.contains("controller memcached for Memcached.cache.example.com/v1alpha1"), "{built}");
    assert!(built.lines().any(|line| line.contains(" snapshot ") && line.contains(" MB -> ")), "no snapshot: {built}");
    let host = host().await;
    stage.install("config/crd/bases/cache.example.com_memcacheds.yaml").await;

    let namespace = &stage.namespace;
    namespace.create_object(MEMCACHED, json!({"metadata": {"name": "one"}, "spec": {"size": 2}})).await;
    let replicas = |wanted: u64| {
        move |found: &Value| match found["spec"]["replicas"].as_u64() {
            Some(now) if now == wanted => Ok(()),
            now => Err(format!("{now:?} replicas")),
        }
    };
    namespace.until(kinds::DEPLOYMENT, "one", replicas(2)).await;
    namespace.patch(MEMCACHED, "one", json!({"spec": {"size": 3}})).await;
    namespace.until(kinds::DEPLOYMENT, "one", replicas(3)).await;
    let is_available = |found: &Value| match found["status"]["conditions"][0]["type"].as_str() {
        Some("Available") => Ok(()),
        now => Err(format!("the condition is {now:?}")),
    };
    namespace.until(MEMCACHED, "one", is_available).await;
    assert_eq!(namespace.until_event(MEMCACHED, "one", "Created").await, "Created the Deployment");
    // The finalizer was added, and is removed.
    namespace.delete(MEMCACHED, "one").await;
    namespace.until_gone(MEMCACHED, "one").await;
    host.assert_sound();
    stage.run("kubectl delete -f rbac.yaml");
}

#[tokio::test]
async fn imported_kube_rs_project_builds_and_reconciles() {
    let stage = Stage::new(GREETING_OPERATOR).await;
    let dropped =
        "- Cargo.toml: the dependencies futures, tokio, tracing-subscriber: the plugin's code does not name them\n";
    assert!(stage.said.contains(dropped), "{}", stage.said);
    let project = stage.folder.join("greeting-operator-plugin");
    // The versions that the repository was tested with.
    fs::copy(repository().join("Cargo.lock"), project.join("Cargo.lock")).expect("a lock file");
    let built = stage.run("operetta build");
    assert!(built.contains("controller greeting for Greeting.hello.example.com/v1"), "{built}");
    let host = host().await;
    stage.install("yaml/crd.yaml").await;

    let namespace = &stage.namespace;
    namespace.create_object(GREETING, json!({"metadata": {"name": "one"}, "spec": {"message": "Hello"}})).await;
    let has_message = |wanted: &'static str| {
        move |found: &Value| match found["data"]["message"].as_str() {
            Some(now) if now == wanted => Ok(()),
            now => Err(format!("the message is {now:?}")),
        }
    };
    namespace.until(kinds::CONFIG_MAP, "one", has_message("Hello")).await;
    namespace.patch(GREETING, "one", json!({"spec": {"message": "Bye"}})).await;
    namespace.until(kinds::CONFIG_MAP, "one", has_message("Bye")).await;
    // It is watched, too.
    namespace.delete(kinds::CONFIG_MAP, "one").await;
    namespace.until(kinds::CONFIG_MAP, "one", has_message("Bye")).await;
    let is_written = |found: &Value| {
        if found["status"]["written"] == json!(true) { Ok(()) } else { Err(found["status"].to_string()) }
    };
    namespace.until(GREETING, "one", is_written).await;
    namespace.delete(GREETING, "one").await;
    namespace.until_gone(GREETING, "one").await;
    host.assert_sound();
    stage.run("kubectl delete -f rbac.yaml");
}

#[test]
fn import_overwrites_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = operator(folder.path(), MEMCACHED_OPERATOR);
    let own = refused(folder.path(), &["memcached-operator", "-o", "memcached-operator"]);
    assert!(own.contains("use another one, such as --output memcached-operator/plugin"), "{own}");
    fs::create_dir(dir.join("plugin")).expect("a folder");
    fs::write(dir.join("plugin/main.go"), "mine").expect("written");
    let before = contents(folder.path());
    let exists = refused(folder.path(), &["memcached-operator", "-o", "memcached-operator/plugin"]);
    assert_eq!(
        exists,
        "error: memcached-operator/plugin already has main.go: remove them, or use another folder with --output\n"
    );
    assert_eq!(contents(folder.path()), before);
    fs::remove_file(dir.join("plugin/main.go")).expect("removed");
    succeeded("import", &import(&dir, &[".", "-o", "plugin", "--own-namespace", "--name", "cache"]));
    let read = |name: &str| fs::read_to_string(dir.join("plugin").join(name)).expect(name);
    assert!(read("go.mod").contains("\tgithub.com/example/memcached-operator => ..\n"), "{}", read("go.mod"));
    assert!(read("go.mod").starts_with("module github.com/example/memcached-operator/cache\n"), "{}", read("go.mod"));
    assert!(read("main.go").contains("\tOwnNamespace: true,\n"), "{}", read("main.go"));
    assert!(!read("rbac.yaml").contains("ClusterRole"), "{}", read("rbac.yaml"));
}

#[test]
fn import_names_what_is_wrong_and_what_it_leaves_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = operator(folder.path(), MEMCACHED_OPERATOR);
    let main = fs::read_to_string(dir.join("cmd/main.go")).expect("main.go");
    let write = |name: &str, text: &str| {
        let file = dir.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("written");
    };
    write("cmd/other/main.go", &main);
    let several = refused(folder.path(), &["memcached-operator"]);
    assert!(
        several.contains("several programs with a manager, cmd/main.go, cmd/other/main.go: choose one with --main")
    );
    fs::remove_dir_all(dir.join("cmd/other")).expect("removed");

    let with = main.replace("Scheme:   mgr.GetScheme(),", "Scheme:   mgr.GetScheme(),\n\t\tBurst:    burst,").replace(
        "\tsetupLog.Info(\"starting",
        "\tother, _ := ctrl.NewManager(nil, ctrl.Options{})\n\tmgr.Add(other)\n\tsetupLog.Info(\"starting",
    );
    write("cmd/main.go", &with);
    write(
        "internal/controller/more.go",
        "package controller\n\nimport \"sigs.k8s.io/controller-runtime/pkg/handler\"\n\nvar _ = handler.EnqueueRequestsFromMapFunc(nil)\n\n\
         func index(mgr ctrl.Manager) error { return mgr.GetFieldIndexer().IndexField(nil, nil, \"owner\", nil) }\n",
    );
    let said = succeeded("import", &import(folder.path(), &["memcached-operator"]));
    for part in [
        "- cmd/main.go:74: the variable `burst` of cmd/main.go: define it in `setup` of main.go\n",
        ": a Runnable: a plugin runs only while a key is reconciled.",
        ": the second of 2 managers: ",
        "- internal/controller/more.go:5: a handler that maps events with a function: ",
        "- internal/controller/more.go:7: an index: a list by it reads all objects",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let readme = fs::read_to_string(folder.path().join("memcached-operator-plugin/README.md")).expect("README.md");
    assert!(readme.contains("a handler that maps events"), "{readme}");

    write("cmd/main.go", &main.replace("SetupWithManager", "Setup"));
    let none = refused(folder.path(), &["memcached-operator", "-o", "x"]);
    assert!(none.contains("cmd/main.go calls no SetupWithManager"), "{none}");
    write("go.mod", "module x\n");
    let other = refused(folder.path(), &["memcached-operator", "-o", "x"]);
    assert!(other.contains("go.mod does not require sigs.k8s.io/controller-runtime"), "{other}");
    fs::rename(dir.join("go.mod"), dir.join("Cargo.toml")).expect("renamed");
    let rust = refused(folder.path(), &["memcached-operator", "-o", "x"]);
    assert!(rust.contains("failed to parse") && rust.contains("Cargo.toml"), "{rust}");
    fs::remove_file(dir.join("Cargo.toml")).expect("removed");
    let neither = refused(folder.path(), &["memcached-operator", "-o", "x"]);
    assert!(neither.contains("it has neither go.mod nor Cargo.toml (NoProject)"), "{neither}");
    assert!(!folder.path().join("x").exists());
}

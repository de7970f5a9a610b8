//! A real Kubernetes control plane for tests: `controlplane up` (deploy/controlplane) as a child process.
//!
//! One per test program, started by the first test that asks. It ends with the test program, however that ends: the
//! supervisor looks whether its parent lives. What it leaves under `target/testkit/` is swept by the next start.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{AuditLog, TestNamespace, eventually, target_dir};

/// A running control plane. Dropping it ends it and removes its folder.
pub struct ControlPlane {
    supervisor: Child,
    folder: PathBuf,
    kubeconfig: PathBuf,
    /// Gives each namespace a name of its own.
    namespaces: AtomicU32,
}

impl ControlPlane {
    /// The test program's API server and etcd. Nobody collects garbage, makes Pods or deletes namespaces.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        started(&SHARED, &[]).await
    }

    /// The test program's control plane with controllers, scheduler and kwok, which plays the node.
    pub async fn with_controllers() -> &'static Self {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        started(&SHARED, &["controllers", "scheduler", "kwok"]).await
    }

    /// One of the test's own, for a test that breaks it. Blocks until it is ready.
    ///
    /// # Errors
    /// What is missing or what it said.
    pub fn start(with: &[&str]) -> Result<Self, String> {
        sweep();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = root().join(name);
        let text = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(text)?;
        let messages = folder.join("supervisor.log");
        let program = target_dir().join("controlplane/bin/controlplane");
        let mut supervisor = Command::new(&program)
            .args(["up", "--audit", "--with", &with.join(","), "--dir"])
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&messages).map_err(text)?)
            .spawn()
            .map_err(|error| format!("{}: {error}: run `make controlplane`", program.display()))?;
        fs::write(folder.join("supervisor.pid"), supervisor.id().to_string()).map_err(text)?;
        let mut line = String::new();
        if let Some(stdout) = supervisor.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(text)?;
        }
        let Some(kubeconfig) = line.trim().strip_prefix("ready KUBECONFIG=") else {
            let _already_over = supervisor.kill();
            let said = fs::read_to_string(&messages).unwrap_or_default();
            return Err(format!("the control plane does not start: {said}"));
        };
        let kubeconfig = PathBuf::from(kubeconfig);
        Ok(Self { supervisor, folder, kubeconfig, namespaces: AtomicU32::new(0) })
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A new kubeconfig of a ServiceAccount, which has to exist.
    ///
    /// # Panics
    /// When there is none.
    pub fn kubeconfig_of(&self, namespace: &str, service_account: &str) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let at = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("kubeconfig-{service_account}-{at}"));
        let token = self.kubectl(&["create", "token", service_account, "-n", namespace, "--duration=24h"]);
        fs::copy(&self.kubeconfig, &path).expect("a kubeconfig");
        let kubectl = |args: &[&str]| {
            let mut command = Command::new(self.kubectl_path());
            let output =
                command.arg("--kubeconfig").arg(&path).arg("config").args(args).output().expect("kubectl runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        kubectl(&["set-credentials", service_account, &format!("--token={}", token.trim())]);
        kubectl(&["set-context", "--current", &format!("--user={service_account}")]);
        path
    }

    /// A folder for what belongs to this control plane, such as the logs of hosts.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A new client, of the administrator. It belongs to the runtime it is made in: each test makes its own.
    pub async fn client(&self) -> Client {
        Client::try_from(self.config().await).expect("a client")
    }

    /// What such a client is made of, for another runtime.
    pub async fn config(&self) -> Config {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        config.expect("a configuration")
    }

    /// A new namespace, whose name begins with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> TestNamespace<'_> {
        let name = format!("{prefix}-{}", self.namespaces.fetch_add(1, Ordering::Relaxed));
        TestNamespace::create(self, name).await
    }

    /// A namespace that another test of the program has made.
    pub async fn existing_namespace(&self, name: &str) -> TestNamespace<'_> {
        TestNamespace::open(self, name.to_owned()).await
    }

    /// Where kubectl is.
    ///
    /// # Panics
    /// When it was not built.
    pub fn kubectl_path(&self) -> PathBuf {
        kubectl_path()
    }

    /// Runs kubectl; its standard output. Blocks.
    ///
    /// # Panics
    /// When it fails, with what it said.
    pub fn kubectl<A: AsRef<OsStr>>(&self, args: &[A]) -> String {
        text_of(args, &self.kubectl_output(args))
    }

    /// Runs kubectl, whatever comes of it. Blocks.
    pub fn kubectl_output<A: AsRef<OsStr>>(&self, args: &[A]) -> Output {
        self.kubectl_command(args).output().expect("kubectl runs")
    }

    /// `kubectl apply --server-side` of a YAML or JSON text: a bundle is too large for the annotation that a plain one
    /// leaves. Blocks.
    ///
    /// # Panics
    /// When it fails, with what it said.
    pub fn apply(&self, manifest: &str) -> String {
        let args = ["apply", "--server-side", "-f", "-"];
        let mut kubectl = self.kubectl_command(&args);
        let kubectl = kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = kubectl.spawn().expect("kubectl runs");
        // Dropped at the end of the statement, which closes it.
        running.stdin.take().expect("piped").write_all(manifest.as_bytes()).expect("kubectl reads");
        text_of(&args, &running.wait_with_output().expect("kubectl ends"))
    }

    /// The process of a component, e.g. `kube-apiserver`.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn pid(&self, component: &str) -> u32 {
        let text = fs::read_to_string(self.folder.join("pids.json")).expect("pids.json");
        let pids: serde_json::Value = serde_json::from_str(&text).expect("pids.json");
        let pid = pids[component].as_u64().unwrap_or_else(|| panic!("{component} does not run: {text}"));
        u32::try_from(pid).expect("a pid")
    }

    /// `kill -9` of the API server. The supervisor starts it again; see [`ControlPlane::wait_ready`].
    pub fn kill_apiserver(&self) {
        signal("-9", self.pid("kube-apiserver"));
    }

    /// `kill -9` of etcd. The supervisor starts it again, on the same data; until then the API server is not ready.
    pub fn kill_etcd(&self) {
        signal("-9", self.pid("etcd"));
    }

    /// Waits until the API server answers that it is ready.
    pub async fn wait_ready(&self) {
        eventually("the API server is ready", async || {
            let output = self.kubectl_output(&["get", "--raw", "/readyz", "--request-timeout=5s"]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(said) }
        })
        .await;
    }

    /// What has gone over the wire so far.
    pub fn audit(&self) -> AuditLog {
        AuditLog::read(&self.folder.join("audit.log"))
    }

    fn kubectl_command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(self.kubectl_path());
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args).stdin(Stdio::null());
        command
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // Asked, not killed: then the folder is quiet when this returns.
        signal("-TERM", self.supervisor.id());
        let _either_way = self.supervisor.wait();
        let _swept_later = fs::remove_dir_all(&self.folder);
    }
}

async fn started(
    cell: &'static OnceLock<Result<ControlPlane, String>>,
    with: &'static [&'static str],
) -> &'static ControlPlane {
    let start = move || cell.get_or_init(|| ControlPlane::start(with));
    let started = tokio::task::spawn_blocking(start).await.expect("a control plane");
    started.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

fn text_of<A: AsRef<OsStr>>(args: &[A], output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let args: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    assert!(output.status.success(), "kubectl {} failed: {stderr}", args.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn root() -> PathBuf {
    target_dir().join("testkit")
}

/// Removes the folders of test programs that are over, and whose supervisor is.
fn sweep() {
    for folder in fs::read_dir(root()).into_iter().flatten().flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let test = name.split('-').next().and_then(|pid| pid.parse().ok());
        let supervisor = fs::read_to_string(folder.path().join("supervisor.pid"));
        let supervisor = supervisor.ok().and_then(|pid| pid.parse().ok());
        if ![test, supervisor].into_iter().flatten().any(|pid: u32| signal("-0", pid)) {
            let _next_time = fs::remove_dir_all(folder.path());
        }
    }
}

/// Sends a signal; false when there is no such process.
fn signal(signal: &str, pid: u32) -> bool {
    let mut kill = Command::new("kill");
    let sent = kill.arg(signal).arg(pid.to_string()).stderr(Stdio::null()).status();
    sent.is_ok_and(|status| status.success())
}

/// A line of a page, or of a message, for bash to run: it finds kubectl and `programs`, and the cluster of a kubeconfig, and
/// fails when any command of it does.
///
/// # Panics
/// When kubectl was not built.
pub fn shell(programs: &[&Path], kubeconfig: &Path, line: &str) -> Command {
    let kubectl = kubectl_path();
    let folders = programs.iter().copied().chain([kubectl.as_path()]).filter_map(Path::parent).map(Path::to_owned);
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&inherited))).expect("paths");
    let mut shell = Command::new("bash");
    shell.args(["-e", "-o", "pipefail", "-c", line]).env("PATH", path).env("KUBECONFIG", kubeconfig);
    shell
}

fn kubectl_path() -> PathBuf {
    let folders = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let folders = folders.into_iter().chain([target_dir().join("controlplane/bin")]);
    let program = folders.map(|folder| folder.join("kubectl")).find(|program| program.exists());
    program.expect("kubectl: run `make controlplane`")
}

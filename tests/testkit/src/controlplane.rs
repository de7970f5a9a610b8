//! A real Kubernetes control plane for tests: `controlplane up` (deploy/controlplane) as a child
//! process.
//!
//! The tests of a program share one, which the first test that asks starts. Under nextest, where
//! each test is a process, it is a shared process (`shared.rs`). It ends with the test program or
//! the run, even if that is killed. The next start removes folders that earlier ones left in
//! `target/testkit/`.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::{
    TestNamespace, apply,
    embedded::{EmbeddedThread, Refusals},
    eventually,
    shared::{self, SharedProcess, TestRun},
    target_dir,
};

/// A running control plane. If it is the test's own, dropping it ends it and removes its folder.
pub struct ControlPlane {
    supervisor: Supervisor,
    folder: PathBuf,
    kubeconfig: PathBuf,
    /// Makes the names of namespaces and files unique.
    count: AtomicU32,
}

/// The process that runs the components.
enum Supervisor {
    /// A child of this process, which ends with it.
    Own(Child),
    /// Shared by the processes of a nextest run.
    Shared { _process: SharedProcess },
    /// The embedded API server, in this process.
    Embedded { thread: EmbeddedThread },
    /// The embedded API server, in a child of this process, which ends with its standard input.
    EmbeddedProcess(Child),
}

impl ControlPlane {
    /// Returns the API server and etcd that the tests of a program share. No controller runs:
    /// nothing collects garbage, creates Pods or deletes namespaces.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        started(&SHARED, &[]).await
    }

    /// Returns the control plane that the tests of a program share, with controllers, scheduler and
    /// kwok, which simulates the node.
    pub async fn with_controllers() -> &'static Self {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        started(&SHARED, &["controllers", "scheduler", "kwok"]).await
    }

    /// Starts a control plane for one test, which may break it. Blocks until it is ready. With
    /// `controllers` among `with`, the embedded API server has all of its controllers.
    ///
    /// # Errors
    /// Returns the missing program, or the messages of the supervisor.
    pub fn start(with: &[&str]) -> Result<Self, String> {
        if is_embedded() {
            Self::start_embedded(with.contains(&"controllers"))
        } else {
            Self::start_real(with, &[])
        }
    }

    /// Starts a real control plane with further arguments of `controlplane up`. Its test says why
    /// the embedded server is not enough: [`needs_real_server`](crate::needs_real_server).
    ///
    /// # Errors
    /// Fails as [`ControlPlane::start`] does.
    pub(crate) fn start_real(with: &[&str], arguments: &[String]) -> Result<Self, String> {
        assert!(
            !is_embedded(),
            "this test needs a real control plane: begin it with `needs_real_server`"
        );

        let folder = new_folder()?;
        let text = |error: io::Error| format!("{}: {error}", folder.display());
        let messages = folder.join("stderr");

        let mut command = up(&folder, with).map_err(text)?;
        let mut supervisor = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&messages).map_err(text)?)
            .spawn()
            .map_err(text)?;

        fs::write(folder.join("supervisor.pid"), supervisor.id().to_string()).map_err(text)?;

        let mut line = String::new();
        if let Some(stdout) = supervisor.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(text)?;
        }

        let Some(kubeconfig) = ready_kubeconfig(&line) else {
            let _already_over = supervisor.kill();
            return Err(failed_start(&folder));
        };

        Ok(Self {
            supervisor: Supervisor::Own(supervisor),
            folder,
            kubeconfig,
            count: AtomicU32::new(0),
        })
    }

    /// Starts the embedded API server in this process, with all controllers or none.
    ///
    /// # Errors
    /// Returns why it does not start.
    pub fn start_embedded(has_controllers: bool) -> Result<Self, String> {
        let folder = new_folder()?;

        let (thread, kubeconfig) = EmbeddedThread::start(&folder, has_controllers)?;
        let supervisor = Supervisor::Embedded { thread };
        Ok(Self {
            supervisor,
            folder,
            kubeconfig,
            count: AtomicU32::new(0),
        })
    }

    /// Starts the embedded API server in a process of its own, without controllers and audit log,
    /// so that its memory and its processor time are not this program's. The command, with a folder
    /// as its last argument, calls [`serve_embedded`](crate::serve_embedded). Blocks until the
    /// server is ready.
    ///
    /// # Errors
    /// Returns why it does not start.
    pub fn start_embedded_process(mut command: Command) -> Result<Self, String> {
        let folder = new_folder()?;
        let text = |error: io::Error| format!("{}: {error}", folder.display());

        let mut child = command
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(text)?;

        fs::write(
            folder.join("pids.json"),
            json!({"kube-apiserver": child.id()}).to_string(),
        )
        .map_err(text)?;

        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).map_err(text)?;
        }

        let kubeconfig = ready_kubeconfig(&line).ok_or("the embedded API server ended")?;

        Ok(Self {
            supervisor: Supervisor::EmbeddedProcess(child),
            folder,
            kubeconfig,
            count: AtomicU32::new(0),
        })
    }

    /// Attaches to the control plane of a nextest run, and starts it if this test is the first.
    /// Blocks until it is ready.
    fn attach(run: &TestRun, with: &[&str]) -> Result<Self, String> {
        shared::check_group()?;

        let name = ["controlplane", with.first().copied().unwrap_or("alone")].join("-");

        let start = |folder: &Path| {
            remove_old_folders();
            up(folder, with)
        };

        let process = run
            .attach(&name, start)
            .map_err(|error| error.to_string())?;
        let folder = process.folder.clone();

        let kubeconfig = loop {
            // Read before the output: the supervisor may print its line and then fail.
            let running = signal("-0", process.pid);
            let stdout = fs::read_to_string(folder.join("stdout")).unwrap_or_default();
            match stdout.lines().next().and_then(ready_kubeconfig) {
                Some(kubeconfig) => break kubeconfig,
                None if running => thread::sleep(Duration::from_millis(50)),
                None => return Err(failed_start(&folder)),
            }
        };

        Ok(Self {
            supervisor: Supervisor::Shared { _process: process },
            folder,
            kubeconfig,
            count: AtomicU32::new(0),
        })
    }

    /// Runs `make` once for all tests that share this control plane, and returns its result to each
    /// of them.
    ///
    /// # Panics
    /// Panics if the result cannot be written.
    pub async fn once(&self, name: &str, make: impl AsyncFnOnce() -> String) -> String {
        let path = self.folder.join(format!("once-{name}"));

        let file = path.with_extension("lock");
        let lock = move || {
            let file = shared::lock_file(&file)?;
            file.lock().map(|()| file)
        };
        let _locked = tokio::task::spawn_blocking(lock)
            .await
            .expect("a lock")
            .expect("a lock");

        if let Ok(made) = fs::read_to_string(&path) {
            return made;
        }

        let made = make().await;
        fs::write(&path, &made).expect("written");
        made
    }

    /// Returns a suffix that no other namespace or file of this control plane has.
    pub(crate) fn unique(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        match self.supervisor {
            Supervisor::Own(_) | Supervisor::Embedded { .. } | Supervisor::EmbeddedProcess(_) => {
                count.to_string()
            }
            Supervisor::Shared { .. } => format!("{}-{count}", std::process::id()),
        }
    }

    /// Returns the path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Writes a new kubeconfig of an existing ServiceAccount and returns its path.
    ///
    /// # Panics
    /// Panics if the ServiceAccount does not exist.
    pub fn kubeconfig_of(&self, namespace: &str, service_account: &str) -> PathBuf {
        let path = self
            .folder
            .join(format!("kubeconfig-{service_account}-{}", self.unique()));

        let token = apply::block_on(self.kubeconfig.clone(), |client| {
            apply::token(client, namespace, service_account)
        });

        let administrators = fs::read_to_string(&self.kubeconfig).expect("a kubeconfig");
        let mut kubeconfig: Value = serde_yaml_ng::from_str(&administrators).expect("a kubeconfig");
        kubeconfig["users"] = json!([{"name": service_account, "user": {"token": token}}]);

        for context in kubeconfig["contexts"].as_array_mut().expect("contexts") {
            context["context"]["user"] = service_account.into();
        }

        fs::write(&path, serde_yaml_ng::to_string(&kubeconfig).expect("YAML")).expect("written");
        path
    }

    /// Returns the folder of this control plane's files, for example the logs of hosts.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes a client that authenticates as the administrator. It belongs to the runtime that made
    /// it, so each test makes its own.
    pub async fn client(&self) -> Client {
        Client::try_from(self.config().await).expect("a client")
    }

    /// Returns the API server's metrics in Prometheus' text format.
    ///
    /// # Panics
    /// Panics if the API server refuses to show them.
    pub async fn metrics(&self) -> String {
        let request = http::Request::get("/metrics")
            .body(Vec::new())
            .expect("a request");

        self.client()
            .await
            .request_text(request)
            .await
            .expect("metrics")
    }

    /// Returns the configuration of such a client, for use in another runtime.
    pub async fn config(&self) -> Config {
        config_of(&self.kubeconfig).await
    }

    /// Creates a namespace whose name begins with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> TestNamespace<'_> {
        let name = format!("{prefix}-{}", self.unique());
        TestNamespace::create(self, name).await
    }

    /// Opens a namespace that another test has created.
    pub async fn existing_namespace(&self, name: &str) -> TestNamespace<'_> {
        TestNamespace::open(self, name.to_owned()).await
    }

    /// The plugged-in refusals of the embedded server; None for a real one.
    pub(crate) fn refusals(&self) -> Option<&Refusals> {
        match &self.supervisor {
            Supervisor::Embedded { thread } => Some(&thread.refusals),
            Supervisor::Own(_) | Supervisor::Shared { .. } | Supervisor::EmbeddedProcess(_) => None,
        }
    }

    /// Returns the path of kubectl.
    ///
    /// # Panics
    /// Panics if kubectl was not built.
    pub fn kubectl_path(&self) -> PathBuf {
        kubectl_path()
    }

    /// Runs kubectl and returns its standard output. Blocks.
    ///
    /// # Panics
    /// Panics with kubectl's message if it fails.
    pub fn kubectl<A: AsRef<OsStr>>(&self, args: &[A]) -> String {
        text_of(args, &self.kubectl_output(args))
    }

    /// Runs kubectl and returns its output, even if it fails. Blocks.
    pub fn kubectl_output<A: AsRef<OsStr>>(&self, args: &[A]) -> Output {
        self.kubectl_command(args).output().expect("kubectl runs")
    }

    /// Applies the documents of a YAML or JSON text as `kubectl apply --server-side` does. Blocks.
    ///
    /// # Panics
    /// Panics if the API server refuses an object.
    pub fn apply(&self, manifest: &str) {
        apply::block_on(self.kubeconfig.clone(), |client| {
            apply::apply(client, manifest, false)
        });
    }

    /// Ends the epochs of all replicas of a host. Blocks.
    ///
    /// # Panics
    /// Panics if the API server refuses it.
    pub(crate) fn end_epochs(&self, namespace: &str) {
        apply::block_on(self.kubeconfig.clone(), |client| {
            apply::end_epochs(client, namespace)
        });
    }

    /// Applies the documents of a YAML or JSON text, and takes over the fields of other managers.
    /// Blocks.
    ///
    /// # Panics
    /// Panics if the API server refuses an object.
    pub fn apply_by_force(&self, manifest: &str) {
        apply::block_on(self.kubeconfig.clone(), |client| {
            apply::apply(client, manifest, true)
        });
    }

    /// Returns the pid of a component, for example `kube-apiserver`.
    ///
    /// # Panics
    /// Panics if no component of that name runs.
    pub fn pid(&self, component: &str) -> u32 {
        let text = fs::read_to_string(self.folder.join("pids.json")).expect("pids.json");

        let pids: Value = serde_json::from_str(&text).expect("pids.json");
        let pid = pids[component]
            .as_u64()
            .unwrap_or_else(|| panic!("{component} does not run: {text}"));
        u32::try_from(pid).expect("a pid")
    }

    /// Kills the API server with SIGKILL. The supervisor restarts it; see
    /// [`ControlPlane::wait_ready`]. The embedded one ends all connections, and starts again on its
    /// objects.
    pub fn kill_apiserver(&self) {
        match &self.supervisor {
            Supervisor::Embedded { thread } => thread.kill(),
            Supervisor::Own(_) | Supervisor::Shared { .. } | Supervisor::EmbeddedProcess(_) => {
                let _sent = signal("-9", self.pid("kube-apiserver"));
            }
        }
    }

    /// Kills etcd with SIGKILL. The supervisor restarts it on the same data; until then the API
    /// server is not ready.
    pub fn kill_etcd(&self) {
        signal("-9", self.pid("etcd"));
    }

    /// Waits until the API server reports that it is ready.
    pub async fn wait_ready(&self) {
        eventually("the API server is ready", async || {
            let output = self.kubectl_output(&["get", "--raw", "/readyz", "--request-timeout=5s"]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await;
    }

    fn kubectl_command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(self.kubectl_path());
        // Without garbage collection kubectl takes three quarters of the processor time.
        command
            .env("GOGC", "off")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(args)
            .stdin(Stdio::null());
        command
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        match &mut self.supervisor {
            Supervisor::Own(supervisor) => {
                // SIGTERM, so that no component writes to the folder after this.
                signal("-TERM", supervisor.id());
                let _either_way = supervisor.wait();
            }
            Supervisor::Embedded { .. } => {}
            Supervisor::EmbeddedProcess(server) => {
                let _already_over = server.kill();
                let _reaped = server.wait();
            }
            Supervisor::Shared { .. } => return,
        }

        let _removed_later = fs::remove_dir_all(&self.folder);
    }
}

/// Reports whether the tests use the embedded API server in place of a real one:
/// `OPERETTA_TEST_SERVER=embedded`.
pub(crate) fn is_embedded() -> bool {
    match std::env::var("OPERETTA_TEST_SERVER").as_deref() {
        Ok("embedded") => true,
        Ok("real") | Err(_) => false,
        Ok(other) => panic!("OPERETTA_TEST_SERVER is {other:?}, and must be embedded or real"),
    }
}

/// Creates the folder of a control plane that this process runs.
fn new_folder() -> Result<PathBuf, String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    shared::check_group()?;

    remove_old_folders();
    let name = format!(
        "{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    );

    let folder = shared::folder().join(name);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

async fn started(
    cell: &'static OnceLock<Result<ControlPlane, String>>,
    with: &'static [&'static str],
) -> &'static ControlPlane {
    let start_or_attach = move || match TestRun::current() {
        Some(run) if !is_embedded() => ControlPlane::attach(run, with),
        _ => ControlPlane::start(with),
    };

    let start = move || cell.get_or_init(start_or_attach);
    let started = tokio::task::spawn_blocking(start)
        .await
        .expect("a control plane");

    started.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the configuration of a client with this kubeconfig.
pub(crate) async fn config_of(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.expect("a configuration")
}

fn text_of<A: AsRef<OsStr>>(args: &[A], output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);

    let args: Vec<_> = args
        .iter()
        .map(|arg| arg.as_ref().to_string_lossy())
        .collect();

    assert!(
        output.status.success(),
        "kubectl {} failed: {stderr}",
        args.join(" ")
    );

    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The command that runs a control plane in a folder.
fn up(folder: &Path, with: &[&str]) -> io::Result<Command> {
    let program = target_dir().join("controlplane/bin/controlplane");
    if !program.exists() {
        let message = format!(
            "{} does not exist: run `make controlplane`",
            program.display()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }

    let mut command = Command::new(program);
    command
        .args(["up", "--audit", "--with", &with.join(","), "--dir"])
        .arg(folder);

    // Rarer garbage collections save a fifth of the API server's processor time, for a third more
    // memory.
    command.env("GOGC", "400");

    Ok(command)
}

fn ready_kubeconfig(line: &str) -> Option<PathBuf> {
    line.trim()
        .strip_prefix("ready KUBECONFIG=")
        .map(PathBuf::from)
}

fn failed_start(folder: &Path) -> String {
    let messages = fs::read_to_string(folder.join("stderr")).unwrap_or_default();
    format!("the control plane failed to start: {messages}")
}

/// Removes the folders of test programs and runs that have ended, together with their supervisor.
fn remove_old_folders() {
    for folder in fs::read_dir(shared::folder())
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = folder.file_name().to_string_lossy().into_owned();
        let test = name.split('-').next().and_then(|pid| pid.parse().ok());
        let supervisor = fs::read_to_string(folder.path().join("supervisor.pid"));
        let supervisor = supervisor.ok().and_then(|pid| pid.parse().ok());

        if ![test, supervisor]
            .into_iter()
            .flatten()
            .any(|pid: u32| signal("-0", pid))
        {
            let _next_time = fs::remove_dir_all(folder.path());
        }
    }
}

/// Sends a signal. Returns false if no such process exists.
pub(crate) fn signal(signal: &str, pid: u32) -> bool {
    let mut kill = Command::new("kill");

    let sent = kill
        .arg(signal)
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status();

    sent.is_ok_and(|status| status.success())
}

pub(crate) fn kubectl_path() -> PathBuf {
    let folders = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);

    let folders = folders
        .into_iter()
        .chain([target_dir().join("controlplane/bin")]);

    let program = folders
        .map(|folder| folder.join("kubectl"))
        .find(|program| program.exists());
    program.expect("kubectl: run `make controlplane`")
}

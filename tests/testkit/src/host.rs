//! The program under test as users run it: a process with flags, a log and HTTP endpoints.
//!
//! A control plane has one host, unless a test is about replicas. The host ends with the test
//! program or, if the tests of a nextest run share it, with the run.

mod endpoints;
mod signals;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

pub use endpoints::metric_sum;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::{
    ControlPlane,
    controlplane::signal,
    eventually,
    install::install,
    program,
    shared::{SharedProcess, TestRun},
    target_dir, usage,
};

/// The options of a host.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// The configuration in YAML. Empty means the defaults.
    pub config: String,
    /// RUST_LOG. Empty means the program's default.
    pub log: String,
    /// More environment variables.
    pub env: Vec<(&'static str, String)>,
    /// The indexes of the rules to leave out of the host's ClusterRole: `operetta-unrestricted`, or
    /// `operetta` if `narrow`.
    pub without_rules: Vec<usize>,
    /// Gives the host only the permissions of `deploy/rbac`, so that each plugin needs
    /// [`Host::grant`]. By default it also has those of `deploy/components/unrestricted`.
    pub narrow: bool,
    /// Uses an empty code cache. By default all test runs share one cache, whose entries are found
    /// by content.
    pub compiles_anew: bool,
    /// Puts the code cache on a separate file system of this size in kilobytes. Needs a mount
    /// namespace.
    pub cache_disk_kb: Option<u32>,
    /// Keeps other hosts' group of replicas. By default a start empties it, because tests kill
    /// their hosts.
    pub beside_another: bool,
    /// Does not install the manifests of `deploy/`, because an earlier host of this control plane
    /// has.
    pub is_installed: bool,
    /// Further environment variables.
    pub environment: Vec<(String, String)>,
    /// The kubeconfig to use instead of the one of the ServiceAccount in `deploy/rbac`.
    pub kubeconfig: Option<PathBuf>,
    /// The host's program, with operetta-compiler beside it; by default the one of this build.
    pub program: Option<PathBuf>,
}

/// A running host. Dropping it kills the process, unless tests share it.
pub struct Host {
    process: Process,
    kubeconfig: PathBuf,
    admin_address: String,
    log: PathBuf,
}

/// The process of a host.
enum Process {
    Own {
        child: Mutex<Child>,
        command: Box<Command>,
    },
    Shared(SharedProcess),
}

/// One line of a plugin's log, as `operetta logs -o json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogLine {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    /// The controller, during a reconcile.
    pub controller: String,
    /// The key, during a reconcile.
    pub key: String,
    /// The id of the trace, if the reconcile is traced.
    pub trace_id: String,
    /// The message.
    pub message: String,
    /// Pairs of name and value.
    pub fields: Vec<(String, String)>,
}

impl Host {
    /// Installs the manifests of `deploy/`, starts a host with their permissions, and waits until
    /// it is ready.
    ///
    /// # Panics
    /// Panics with the host's log if it does not start.
    pub async fn start(control_plane: &ControlPlane, options: &HostOptions) -> Self {
        Self::spawn(control_plane, options).when_ready().await
    }

    /// Starts the host that the tests of a program share, or attaches to it. Under `cargo test` a
    /// static of the program holds it; under nextest it is a shared process (`shared.rs`).
    ///
    /// # Panics
    /// Panics with the host's log if it does not start.
    pub async fn shared(control_plane: &ControlPlane, options: &HostOptions) -> Self {
        let Some(run) = TestRun::current() else {
            return Self::start(control_plane, options).await;
        };
        // The name contains that of the control plane: a host does not follow its tests to another
        // one.
        let plane = control_plane
            .folder()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();

        let start = |folder: &Path| {
            install(control_plane, options);
            Ok(command(control_plane, options, folder))
        };

        let process = run.attach(&format!("host-of-{plane}"), start);
        let process = process.unwrap_or_else(|error| panic!("the host: {error}"));

        let log = process.folder.join("stderr");
        let host = Self {
            process: Process::Shared(process),
            kubeconfig: control_plane.kubeconfig().to_owned(),
            admin_address: String::new(),
            log,
        };

        host.when_ready().await
    }

    /// Waits until the host is ready.
    pub async fn when_ready(mut self) -> Self {
        self.until_listening().await;
        eventually("the host is ready", async || {
            self.assert_sound();
            self.get("/readyz")
        })
        .await;
        self
    }

    /// Waits until the host is ready or has ended: a replica that gets no processor time while its
    /// Lease runs out ends by itself.
    pub async fn when_ready_or_ended(mut self) -> Self {
        let address = eventually("the host listens or has ended", async || {
            match self.status() {
                Some(_) => Ok(None),
                None => self.logged("admin").map(Some).ok_or_else(|| self.log()),
            }
        })
        .await;

        let Some(address) = address else { return self };
        self.admin_address = address;
        eventually("the host is ready or has ended", async || {
            match self.status() {
                Some(_) => Ok(()),
                None => self.get("/readyz").map(drop),
            }
        })
        .await;

        self
    }

    /// Starts a host as [`Host::start`] does, but does not wait until it is ready.
    ///
    /// # Panics
    /// Panics if the program cannot be started.
    pub fn spawn(control_plane: &ControlPlane, options: &HostOptions) -> Self {
        if !options.is_installed {
            install(control_plane, options);
        }

        let folder = control_plane
            .folder()
            .join(format!("host-{}", control_plane.unique()));
        fs::create_dir_all(&folder).expect("a folder");

        let command = command(control_plane, options, &folder);
        Self::spawn_command(command, control_plane, &folder)
    }

    /// Runs a command that becomes a host, with its log in `folder`.
    ///
    /// # Panics
    /// Panics if the command cannot be started.
    pub fn spawn_command(
        mut command: Command,
        control_plane: &ControlPlane,
        folder: &Path,
    ) -> Self {
        let log = folder.join("stderr");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"));

        let process = command
            .spawn()
            .unwrap_or_else(|error| panic!("the host: {error}"));

        Self {
            process: Process::Own {
                child: Mutex::new(process),
                command: Box::new(command),
            },
            kubeconfig: control_plane.kubeconfig().to_owned(),
            admin_address: String::new(),
            log,
        }
    }

    /// Returns the address of the admin endpoints, for example /metrics.
    pub fn admin_address(&self) -> &str {
        &self.admin_address
    }

    /// Returns the resident memory in bytes.
    ///
    /// # Panics
    /// Panics if this is not Linux.
    pub fn memory_bytes(&self) -> u64 {
        usage::memory_bytes(self.pid())
    }

    /// Returns the peak of the resident memory since the process began, in bytes.
    ///
    /// # Panics
    /// Panics if this is not Linux.
    pub fn peak_memory_bytes(&self) -> u64 {
        usage::peak_memory_bytes(self.pid())
    }

    /// Returns the processor time used so far, in the kernel's ticks of 10 ms.
    ///
    /// # Panics
    /// Panics if this is not Linux.
    pub fn cpu_time(&self) -> Duration {
        usage::cpu_time(self.pid())
    }

    /// Returns the id of the process.
    pub fn pid(&self) -> u32 {
        match &self.process {
            Process::Own { child, .. } => child.lock().id(),
            Process::Shared(process) => process.pid,
        }
    }

    /// Returns the complete log.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asserts that the process runs and that none of its threads has panicked.
    ///
    /// # Panics
    /// Panics otherwise, with the end of the log.
    pub fn assert_sound(&self) {
        let ended = match &self.process {
            Process::Own { child, .. } => {
                let status = child.lock().try_wait().expect("a process");
                status.map(|status| status.to_string())
            }
            Process::Shared(process) => {
                (!signal("-0", process.pid)).then(|| "status unknown".to_owned())
            }
        };
        let log = self.log();

        // The host's own panics are plain text; messages of guests' panics are JSON.
        let panicked = log
            .lines()
            .any(|line| !line.starts_with('{') && line.contains("panicked at"));

        if ended.is_some() || panicked {
            let tail: Vec<&str> = log.lines().rev().take(30).collect();
            panic!(
                "the host ended ({ended:?}) or panicked: {}",
                tail.into_iter().rev().collect::<Vec<_>>().join("\n")
            );
        }
    }

    /// Returns the output of `operetta logs` for a plugin; empty while the host has no plugin of
    /// that name. Blocks.
    pub fn logs(&self, namespace: &str, plugin: &str) -> Vec<LogLine> {
        let output = self.run(&["logs", plugin, "-n", namespace, "-o", "json"]);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        stdout
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
            })
            .collect()
    }

    /// Runs a command of `operetta` with this host's kubeconfig in the environment. Blocks.
    pub fn run(&self, args: &[&str]) -> std::process::Output {
        let mut command = Command::new(program("operetta"));
        command
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null());

        command.output().expect("the program runs")
    }

    /// Runs `operetta grant` as an administrator, for all ServiceAccounts of a namespace that
    /// consent. Blocks.
    ///
    /// # Panics
    /// Panics with its message if it fails.
    pub fn grant(&self, namespace: &str, args: &[&str]) -> String {
        let output = self.run(&[&["grant", "-n", namespace], args].concat());

        assert!(
            output.status.success(),
            "operetta grant: {}",
            String::from_utf8_lossy(&output.stderr)
        );

        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sends SIGTERM, as a cluster does, and waits until the process has ended. Blocks.
    ///
    /// # Panics
    /// Panics if the process ends with an error, or if tests share it.
    pub fn stop(&self) {
        let Process::Own { child, .. } = &self.process else {
            panic!("other tests use this host")
        };

        let mut process = child.lock();
        assert!(signal("-TERM", process.id()), "the host has already ended");
        let ended = process.wait().expect("a process");
        assert!(
            ended.success(),
            "the host ended with {ended}: {}",
            self.log()
        );
    }

    /// Kills the process as the OOM killer does. Blocks.
    ///
    /// # Panics
    /// Panics if tests share it.
    pub fn kill(&self) {
        let Process::Own { child, .. } = &self.process else {
            panic!("other tests use this host")
        };

        let mut child = child.lock();
        child.kill().expect("a process");
        child.wait().expect("a process");
    }

    /// Restarts the program after [`Host::kill`], with the same files and a new log. Does not wait
    /// until it is ready.
    ///
    /// # Panics
    /// Panics if the program cannot be started, or if tests share it.
    pub fn start_again(&mut self) {
        let Process::Own { child, command } = &mut self.process else {
            panic!("other tests use this host")
        };

        command.stderr(File::create(&self.log).expect("a log"));
        *child.get_mut() = command.spawn().expect("the program starts again");
        self.admin_address.clear();
    }

    /// Waits until the log has the address of the admin endpoints, which then answer.
    pub async fn until_listening(&mut self) {
        self.admin_address = eventually("the host listens", async || {
            self.assert_sound();
            self.logged("admin").ok_or_else(|| self.log())
        })
        .await;
    }

    /// Returns the first value of a field in the host's log: `admin`, `health` and `secure` are
    /// addresses.
    pub fn logged(&self, field: &str) -> Option<String> {
        let value = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            line[field].as_str().map(str::to_owned)
        };
        self.log().lines().find_map(value)
    }

    /// Returns the response to `/readyz?verbose`, whatever its status. Blocks.
    pub fn readiness(&self) -> String {
        self.get("/readyz?verbose").unwrap_or_else(|answer| answer)
    }

    /// Returns the folder of the host's files.
    ///
    /// # Panics
    /// Never panics: the log is in a folder.
    pub fn folder(&self) -> &Path {
        self.log.parent().expect("a folder")
    }
}

/// The command that runs a host with its files in `folder`.
fn command(control_plane: &ControlPlane, options: &HostOptions, folder: &Path) -> Command {
    let config = folder.join("config.yaml");
    fs::write(
        &config,
        if options.config.is_empty() {
            "{}"
        } else {
            &options.config
        },
    )
    .expect("a configuration");

    let cache = if options.compiles_anew {
        folder.join("cache")
    } else {
        target_dir().join("test-cache")
    };

    let kubeconfig = options.kubeconfig.clone();
    let kubeconfig =
        kubeconfig.unwrap_or_else(|| control_plane.kubeconfig_of("operetta-system", "operetta"));
    let built = || program("operetta-host");
    let program = options.program.clone().unwrap_or_else(built);

    let mut command = match options.cache_disk_kb {
        None => Command::new(program),
        Some(kilobytes) => on_own_disk(&program, &cache, kilobytes),
    };

    command
        .args([
            "--exit-with-parent",
            "--admin-address",
            "127.0.0.1:0",
            "--config",
        ])
        .arg(config)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env("RUST_BACKTRACE", "0")
        .env("XDG_CACHE_HOME", cache)
        .env_remove("RUST_LOG")
        .envs(
            options
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        );

    if !options.log.is_empty() {
        command.env("RUST_LOG", &options.log);
    }

    command.envs(options.env.iter().map(|(name, value)| (name, value)));
    command
}

/// The command that runs a program with a small file system of its own at `cache`, in a mount
/// namespace.
fn on_own_disk(program: &Path, cache: &Path, kilobytes: u32) -> Command {
    fs::create_dir_all(cache).expect("a folder");
    let mount =
        format!("mount -t tmpfs -o mode=0700,size={kilobytes}k tmpfs \"$0\" && exec \"$@\"");

    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "sh", "-c", &mount])
        .arg(cache)
        .arg(program);

    command
}

impl Drop for Host {
    fn drop(&mut self) {
        let Process::Own { child, .. } = &mut self.process else {
            return;
        };

        let process = child.get_mut();
        let _already_over = process.kill();
        let _reaped = process.wait();
    }
}

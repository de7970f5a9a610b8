//! The program under test, as people run it: a process, its flags, its log, its HTTP.
//!
//! One host per control plane: two would both look after every Plugin. It ends with the test program.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde::Deserialize;

use crate::{ControlPlane, eventually, target_dir, usage, workspace};

/// How a host is run.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// Its configuration, YAML; the defaults when empty.
    pub config: String,
    /// RUST_LOG; the program's own choice when empty.
    pub log: String,
    /// Rules of `deploy/base/rbac.yaml`'s ClusterRole to leave out, by their place in it.
    pub without_rules: Vec<usize>,
    /// Whether its ClusterRole is the one of `deploy/narrow`.
    pub narrow: bool,
    /// Whether it compiles each plugin anew, and not those only that no earlier run of the tests has compiled.
    pub compiles_anew: bool,
}

/// A running `operetta run`. Dropping it kills it.
pub struct Host {
    process: Mutex<Child>,
    program: PathBuf,
    kubeconfig: PathBuf,
    admin_address: String,
    log: PathBuf,
}

/// One line of a plugin's log, as `operetta logs -o json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogLine {
    /// error, warn, info, debug or trace.
    pub level: String,
    /// The controller, during a reconcile.
    pub controller: String,
    /// The key, during a reconcile.
    pub key: String,
    /// The text.
    pub message: String,
    /// Names and values.
    pub fields: Vec<(String, String)>,
}

impl Host {
    /// Installs what is in `deploy/`, starts a host with the rights that are there, and waits until it looks after Plugins.
    /// `program` is the built `operetta`: its integration tests know it as `env!("CARGO_BIN_EXE_operetta")`.
    ///
    /// # Panics
    /// When it does not start, with its log.
    pub async fn start(program: impl AsRef<Path>, control_plane: &ControlPlane, options: &HostOptions) -> Self {
        let mut host = Self::spawn(program.as_ref(), control_plane, options);
        host.admin_address = eventually("the host starts", async || {
            host.assert_sound();
            let log = host.log();
            let started = |line: &str| {
                let line: serde_json::Value = serde_json::from_str(line).ok()?;
                line["admin"].as_str().map(str::to_owned)
            };
            log.lines().find_map(started).ok_or(log)
        })
        .await;
        eventually("the host is ready", async || {
            host.assert_sound();
            host.get("/readyz")
        })
        .await;
        host
    }

    /// As [`Host::start`], but does not wait.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn spawn(program: &Path, control_plane: &ControlPlane, options: &HostOptions) -> Self {
        install(control_plane, options);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let at = COUNT.fetch_add(1, Ordering::Relaxed);
        let [log, config] = ["log", "yaml"].map(|ending| control_plane.folder().join(format!("host-{at}.{ending}")));
        fs::write(&config, if options.config.is_empty() { "{}" } else { &options.config }).expect("a configuration");
        let kept =
            if options.compiles_anew { control_plane.folder().join("cache") } else { target_dir().join("test-cache") };
        let mut command = Command::new(program);
        command
            .args(["run", "--exit-with-parent", "--admin-address", "127.0.0.1:0", "--config"])
            .arg(config)
            .arg("--kubeconfig")
            .arg(control_plane.kubeconfig_of("operetta-system", "operetta"))
            .env("RUST_BACKTRACE", "0")
            .env("XDG_CACHE_HOME", kept)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"));
        if !options.log.is_empty() {
            command.env("RUST_LOG", &options.log);
        }
        let process = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Self {
            process: Mutex::new(process),
            program: program.to_owned(),
            kubeconfig: control_plane.kubeconfig().to_owned(),
            admin_address: String::new(),
            log,
        }
    }

    /// Where it serves /metrics and the rest.
    pub fn admin_address(&self) -> &str {
        &self.admin_address
    }

    /// Its resident memory, as the kernel counts it.
    ///
    /// # Panics
    /// Off Linux.
    pub fn memory_bytes(&self) -> u64 {
        usage::memory_bytes(self.pid())
    }

    /// The processor time it has used so far, in the kernel's ticks of 10 ms.
    ///
    /// # Panics
    /// Off Linux.
    pub fn cpu_time(&self) -> Duration {
        usage::cpu_time(self.pid())
    }

    fn pid(&self) -> u32 {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Checks that the process runs and that nothing in it has panicked.
    ///
    /// # Panics
    /// Otherwise, with the end of its log.
    pub fn assert_sound(&self) {
        let ended = self.process.lock().unwrap_or_else(PoisonError::into_inner).try_wait().expect("a process");
        let log = self.log();
        // Its own panics come as plain text; what guests say of theirs, as JSON.
        let panicked = log.lines().any(|line| !line.starts_with('{') && line.contains("panicked at"));
        if ended.is_some() || panicked {
            let tail: Vec<&str> = log.lines().rev().take(30).collect();
            panic!("the host ended ({ended:?}) or panicked: {}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }

    /// What `operetta logs` prints of a plugin; empty while the host knows none of that name. Blocks.
    pub fn logs(&self, namespace: &str, plugin: &str) -> Vec<LogLine> {
        let output = self.run(&["logs", plugin, "-n", namespace, "-o", "json"]);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
            .collect()
    }

    /// Runs another command of the program, with this host's kubeconfig in the environment. Blocks.
    pub fn run(&self, args: &[&str]) -> std::process::Output {
        let mut command = Command::new(&self.program);
        command.args(args).env("KUBECONFIG", &self.kubeconfig).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        command.output().expect("the program runs")
    }

    /// Its metrics, in Prometheus' text format. Blocks.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn metrics(&self) -> String {
        self.get("/metrics").expect("metrics")
    }

    /// The sum of a metric's values over the lines that have all of these labels, each like `plugin="a"`.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let text = self.metrics();
        let of_name = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        let chosen = of_name.filter(|line| labels.iter().all(|label| line.contains(label)));
        chosen.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    }

    /// Asks it to end, as a cluster does (SIGTERM), and waits for that. Blocks.
    ///
    /// # Panics
    /// When it ends with an error.
    pub fn stop(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = Command::new("kill").arg(process.id().to_string()).status();
        assert!(asked.is_ok_and(|asked| asked.success()), "the host is over already");
        let ended = process.wait().expect("a process");
        assert!(ended.success(), "the host ended with {ended}: {}", self.log());
    }

    /// GET at its admin address: the body, or why not.
    fn get(&self, path: &str) -> Result<String, String> {
        let mut answer = String::new();
        let exchange = |answer: &mut String| {
            let mut stream = TcpStream::connect(&self.admin_address)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            // Version 1.0: the server closes at the end.
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
            stream.read_to_string(answer)
        };
        exchange(&mut answer).map_err(|error| error.to_string())?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
            _ => Err(answer),
        }
    }
}

/// Installs the CRD, the host's rights as the options say, and the policy about namespaces.
fn install(control_plane: &ControlPlane, options: &HostOptions) {
    let deploy = workspace().join("deploy");
    let base = ["crd/plugins.yaml", "base/namespace.yaml", "base/namespace-opt-in.yaml", "base/rbac.yaml"];
    for file in base.into_iter().chain(options.narrow.then_some("narrow/rbac.yaml")) {
        let path = deploy.join(file).display().to_string();
        control_plane.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &path]);
    }
    // From the last on: the places of those before stay what they are.
    let mut places = options.without_rules.clone();
    places.sort_unstable_by(|one, other| other.cmp(one));
    for place in places {
        let patch = serde_json::json!([{"op": "remove", "path": format!("/rules/{place}")}]).to_string();
        control_plane.kubectl(&["patch", "clusterrole", "operetta", "--type=json", "-p", &patch]);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _already_over = process.kill();
        let _reaped = process.wait();
    }
}

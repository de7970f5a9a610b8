//! An operator's own process, as in a container: with its own root, and a network in which there is
//! nothing but the API server.
//!
//! The network is a namespace with a loopback interface. A relay in it, which is this test program
//! again, leads to a socket file, and a task of the test from there to the API server. So an operator
//! may listen at any port, and reaches no other machine.

use std::{
    env, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use operetta_testkit::{ControlPlane, eventually, usage};
use tokio::{
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    task::JoinHandle,
};

use crate::{
    build::{Built, PROGRAM},
    case::Case,
};

/// Where clients look for the files of their ServiceAccount.
const ACCOUNT_FILES: &str = "var/run/secrets/kubernetes.io/serviceaccount";
/// The port of the relay.
const PORT: u16 = 443;
/// Names the socket file to a relay.
const RELAY: &str = "OPERETTA_ADOPT_RELAY";

/// Starts the relay, and then becomes the operator.
const SCRIPT: &str = r#"
ip link set lo up &&
{ "$RELAY_PROGRAM" --exact native::relay --ignored --nocapture >"$RELAY_READY" & } &&
while ! grep -q listening "$RELAY_READY"; do sleep 0.05; done &&
exec env -i "$@"
"#;

/// A running operator. Dropping it kills it.
pub struct Native {
    child: Child,
    log: PathBuf,
    relay: JoinHandle<()>,
}

impl Native {
    /// Starts an operator as its ServiceAccount, with a root in `folder`.
    ///
    /// # Panics
    /// Panics if its root cannot be made, or the relay not be started.
    pub async fn start(
        control_plane: &ControlPlane,
        case: &Case,
        built: &Built,
        folder: &Path,
    ) -> Self {
        let root = folder.join("root");
        make_root(control_plane, case, built, &root).expect("a root for the operator");

        let socket = folder.join("api.sock");
        let relay = lead_out(control_plane, &socket).await;

        let log = folder.join("native.log");
        let output = fs::File::create(&log).expect("a log");
        let relay_ready = folder.join("relay");
        let mut command = Command::new("unshare");
        command
            .args([
                "--map-root-user",
                "--net",
                "--pid",
                "--fork",
                "--kill-child",
            ])
            .args(["sh", "-c", SCRIPT, "sh"])
            .args(environment(case))
            .arg("chroot")
            .arg(&root)
            .arg(format!("/{PROGRAM}"))
            .args(&case.args)
            .env(RELAY, &socket)
            .env("RELAY_READY", &relay_ready)
            .env("RELAY_PROGRAM", env::current_exe().expect("this program"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log"))
            .stderr(output);
        let child = command.spawn().expect("unshare");
        Self { child, log, relay }
    }

    /// Returns what it has printed.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns whether it runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns its resident memory in bytes and its processor time.
    pub async fn usage(&self) -> (u64, Duration) {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let pid = eventually("the operator has a process", async || {
            let pid = fs::read_to_string(&children).map_err(|error| error.to_string())?;
            pid.trim().parse::<u32>().map_err(|error| error.to_string())
        })
        .await;
        (usage::memory_bytes(pid), usage::cpu_time(pid))
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _already_over = self.child.kill();
        let _reaped = self.child.wait();
        self.relay.abort();
    }
}

/// The environment of a container in a Pod, for `env -i`.
fn environment(case: &Case) -> Vec<String> {
    let mut env = vec![
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        format!("HOSTNAME={}", case.name),
        "HOME=/tmp".to_owned(),
        "KUBERNETES_SERVICE_HOST=127.0.0.1".to_owned(),
        format!("KUBERNETES_SERVICE_PORT={PORT}"),
        format!("KUBERNETES_SERVICE_PORT_HTTPS={PORT}"),
    ];
    env.extend(
        case.env
            .iter()
            .map(|(name, value)| format!("{name}={value}")),
    );
    env
}

/// Makes the root of a container: the program, and the files of its ServiceAccount and its volumes.
fn make_root(
    control_plane: &ControlPlane,
    case: &Case,
    built: &Built,
    root: &Path,
) -> io::Result<()> {
    let account = root.join(ACCOUNT_FILES);
    fs::create_dir_all(&account)?;
    fs::create_dir_all(root.join("tmp"))?;
    fs::create_dir_all(root.join("dev"))?;
    fs::write(root.join("dev/null"), "")?;

    let program = root.join(PROGRAM);
    fs::copy(built.folder.join(PROGRAM), &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;

    let token = control_plane.kubectl(&[
        "create",
        "token",
        "--duration=24h",
        "-n",
        &case.namespace,
        &case.service_account,
    ]);
    fs::write(account.join("token"), token.trim())?;
    fs::write(account.join("namespace"), &case.namespace)?;
    let ca = control_plane.kubectl(&[
        "get",
        "configmap",
        "kube-root-ca.crt",
        "-n",
        &case.namespace,
        "-o",
        r"jsonpath={.data.ca\.crt}",
    ]);
    fs::write(account.join("ca.crt"), ca)?;

    for (path, text) in &case.files {
        let path = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(path, text)?;
    }
    Ok(())
}

/// Leads connections at a socket file to the API server.
async fn lead_out(control_plane: &ControlPlane, socket: &Path) -> JoinHandle<()> {
    let url = control_plane.config().await.cluster_url;
    let host = url.host().unwrap_or("127.0.0.1").to_owned();
    let port = url.port_u16().unwrap_or(443);
    let _of_an_earlier_run = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).expect("a socket file");

    tokio::spawn(async move {
        while let Ok((mut inner, _)) = listener.accept().await {
            let address = (host.clone(), port);
            tokio::spawn(async move {
                if let Ok(mut outer) = TcpStream::connect(address).await {
                    let _ended = tokio::io::copy_bidirectional(&mut inner, &mut outer).await;
                }
            });
        }
    })
}

/// The relay in the network of an operator. It ends with the operator.
#[tokio::test]
#[ignore = "part of the test of operators"]
async fn relay() {
    let Some(socket) = env::var_os(RELAY) else {
        return;
    };
    let listener = TcpListener::bind(("127.0.0.1", PORT))
        .await
        .expect("a port");
    println!("listening");
    loop {
        let (mut inner, _) = listener.accept().await.expect("a connection");
        let socket = socket.clone();
        tokio::spawn(async move {
            if let Ok(mut outer) = UnixStream::connect(socket).await {
                let _ended = tokio::io::copy_bidirectional(&mut inner, &mut outer).await;
            }
        });
    }
}

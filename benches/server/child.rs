//! Servers in processes of their own: this program with [`SERVE`], and the real control plane.

use std::{
    io::{BufRead, BufReader, Read},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::Instant,
};

use anyhow::Context;
use operetta_apiserver::{
    Controllers, Credentials, EmbeddedServer, Options,
    authn::user::{AUTHENTICATED, MASTERS, User},
    server::{self, Environment},
};
use operetta_testkit::ControlPlane;
use tokio::net::TcpListener;

use crate::connection::Connector;

/// The argument with which this program is the embedded server. The folder for its kubeconfig
/// follows.
pub const SERVE: &str = "--serve";

/// A running server.
pub struct Server {
    process: Process,
    kubeconfig: PathBuf,
    /// The milliseconds from its start until `kubectl get namespaces` had its answer.
    pub started: f64,
}

enum Process {
    Embedded {
        child: Child,
        _stdin: Option<ChildStdin>,
        plain: String,
        _folder: tempfile::TempDir,
    },
    Real(ControlPlane),
}

impl Server {
    /// Starts the embedded server.
    pub fn embedded() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let began = Instant::now();
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(SERVE)
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .context("failed to start the embedded server")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let plain = line
            .trim()
            .strip_prefix("ready ")
            .with_context(|| format!("the server printed {line:?}"))?;
        let kubeconfig = folder.path().join("kubeconfig");
        get_namespaces(&kubeconfig)?;
        let started = began.elapsed().as_secs_f64() * 1e3;
        let (stdin, plain) = (child.stdin.take(), plain.to_owned());
        Ok(Self {
            process: Process::Embedded {
                child,
                _stdin: stdin,
                plain,
                _folder: folder,
            },
            kubeconfig,
            started,
        })
    }

    /// Starts the real control plane, if it was built.
    pub fn real() -> anyhow::Result<Option<Self>> {
        let began = Instant::now();
        let control_plane = match ControlPlane::start(&[]) {
            Ok(started) => started,
            Err(error) => {
                println!("no peer: {error}");
                return Ok(None);
            }
        };
        let kubeconfig = control_plane.kubeconfig().to_owned();
        get_namespaces(&kubeconfig)?;
        let started = began.elapsed().as_secs_f64() * 1e3;
        Ok(Some(Self {
            process: Process::Real(control_plane),
            kubeconfig,
            started,
        }))
    }

    /// Returns the processes that serve.
    pub fn pids(&self) -> Vec<u32> {
        match &self.process {
            Process::Embedded { child, .. } => vec![child.id()],
            Process::Real(control_plane) => ["kube-apiserver", "etcd"]
                .map(|name| control_plane.pid(name))
                .into(),
        }
    }

    /// Returns the way to the embedded server without TLS.
    pub fn plain(&self) -> anyhow::Result<Connector> {
        match &self.process {
            Process::Embedded { plain, .. } => Ok(Connector::plain(plain)),
            Process::Real(_) => anyhow::bail!("the real server has no port without TLS"),
        }
    }

    /// Returns the way to the server with TLS, as the administrator.
    pub async fn secure(&self) -> anyhow::Result<Connector> {
        Connector::secure(&self.kubeconfig).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Process::Embedded { child, .. } = &mut self.process {
            let _either_way = child.kill();
            let _reaped = child.wait();
        }
    }
}

fn get_namespaces(kubeconfig: &Path) -> anyhow::Result<()> {
    let kubectl = operetta_testkit::shell(&[], kubeconfig, "kubectl get namespaces").output()?;
    anyhow::ensure!(
        kubectl.status.success(),
        "{}",
        String::from_utf8_lossy(&kubectl.stderr)
    );
    Ok(())
}

/// Serves with and without TLS until the standard input ends.
pub fn serve(folder: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let credentials = Credentials::generate()?;
        let mut options = Options::in_memory(Environment::system());
        options.tokens.push(credentials.administrator());
        options.controllers = Controllers::none();
        let server = EmbeddedServer::start(options)?;
        let secure = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let plain = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        std::fs::write(
            folder.join("kubeconfig"),
            credentials.kubeconfig(secure.local_addr()?, "bench"),
        )?;
        println!("ready {}", plain.local_addr()?);
        let trusting = server
            .api()
            .acting_as(User::new("admin", &[MASTERS, AUTHENTICATED]));
        tokio::spawn(async move { server::serve(plain, trusting, std::future::pending()).await });
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        let ended = async { drop(ended.await) };
        tokio::spawn(async move {
            server
                .serve(secure, &credentials, std::future::pending())
                .await
        });
        ended.await;
        anyhow::Ok(())
    })
}

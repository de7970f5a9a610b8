//! A real control plane, and requests to it.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tempfile::TempDir;

use crate::exchange::{Answer, Request};

/// A control plane: etcd, kube-apiserver and optional components.
pub struct ControlPlane {
    supervisor: Child,
    proxy: Child,
    address: String,
    _folder: TempDir,
}

impl ControlPlane {
    /// Starts a control plane without controllers, like [`Self::with`].
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a control plane, and a proxy that adds the administrator's credentials. Blocks until both
    /// are ready.
    pub fn with(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");

        let mut up = Command::new(program("controlplane"));
        up.args(["up", "--dir"]).arg(folder.path()).args(arguments);
        let (supervisor, line) = started(&mut up);

        let kubeconfig = line
            .trim()
            .strip_prefix("ready KUBECONFIG=")
            .expect("the control plane is ready")
            .to_owned();

        let mut proxy = Command::new(program("kubectl"));
        proxy.args([
            "proxy",
            "--port=0",
            "--reject-paths=^$",
            "--kubeconfig",
            &kubeconfig,
        ]);
        let (proxy, line) = started(&mut proxy);

        let address = line
            .trim()
            .rsplit(' ')
            .next()
            .expect("an address")
            .to_owned();

        Self {
            supervisor,
            proxy,
            address,
            _folder: folder,
        }
    }

    /// Returns the address of the proxy.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request, and returns the whole answer. Retries while a new resource is not ready.
    pub async fn send(&self, request: &Request) -> Answer {
        let mut tries = 0;
        loop {
            let (parts, body) = self.begin(request).await;
            let body = body.collect().await.expect("a body").to_bytes();

            tries += 1;
            if parts.status != 429 || tries > 5 {
                return Answer::new(parts.status.as_u16(), &parts.headers, &body, request);
            }

            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }

    /// Sends a request whose answer is a stream.
    pub async fn begin(&self, request: &Request) -> (http::response::Parts, Incoming) {
        let stream = tokio::net::TcpStream::connect(&self.address)
            .await
            .expect("a connection");

        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .expect("a handshake");
        tokio::spawn(connection);

        let mut request = request.build("").map(Full::<Bytes>::from);
        if request.headers()["authorization"].is_empty() {
            request.headers_mut().remove("authorization");
        }

        sender
            .send_request(request)
            .await
            .expect("a response")
            .into_parts()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let _already_over = self.proxy.kill();
        let pid = self.supervisor.id().to_string();
        let _sent = Command::new("kill").args(["-TERM", &pid]).status();
        let _over = (self.proxy.wait(), self.supervisor.wait());
    }
}

/// Starts a program, and returns the first line of its output.
fn started(command: &mut Command) -> (Child, String) {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");

    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("an output"));
    output.read_line(&mut line).expect("a line");

    // The rest of the output is discarded, but the pipe has to stay open.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));

    (child, line)
}

/// The path of one of the control plane's programs.
pub fn program(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/controlplane/bin");
    let program = folder.join(name);
    assert!(
        program.exists(),
        "{name} does not exist: run `make controlplane`"
    );
    program
}

//! The embedded API server for tests, in a thread of the test program or in a process of its own.

use std::{
    fs::{self, File},
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use operetta_apiserver::{
    Controllers, Credentials, EmbeddedServer, Options,
    admission::request::{AdmissionRequest, Operation},
    apimachinery::status::Status,
    server::{Admission, AuditSink, Environment},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    net::TcpListener,
    runtime::Builder,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::sleep,
};

/// How long a killed server is down.
const DOWN: Duration = Duration::from_secs(1);

/// A server that runs until this is dropped.
pub(crate) struct EmbeddedThread {
    /// Refuses writes as a webhook would.
    pub refusals: Arc<Refusals>,
    /// Kills the server, which then restarts with its objects. Dropping this ends the server.
    kills: Option<UnboundedSender<Kill>>,
    thread: Option<JoinHandle<()>>,
}

/// Gets a message when the server is down.
type Kill = mpsc::Sender<()>;

impl EmbeddedThread {
    /// Starts a server with all controllers or none, and writes the administrator's kubeconfig and
    /// the audit log into a folder. Returns the path of the kubeconfig.
    pub fn start(folder: &Path, has_controllers: bool) -> Result<(Self, PathBuf), String> {
        let log = File::create(folder.join("audit.log")).map_err(|error| error.to_string())?;
        Self::start_with(
            folder,
            has_controllers,
            Some(Arc::new(AuditFile(Mutex::new(log)))),
        )
    }

    /// Starts a server with this audit log, or without one.
    fn start_with(
        folder: &Path,
        has_controllers: bool,
        audit: Option<Arc<dyn AuditSink>>,
    ) -> Result<(Self, PathBuf), String> {
        // An earlier call may have installed the same provider.
        let _installed = rustls::crypto::ring::default_provider().install_default();

        let credentials = Credentials::generate().map_err(|error| error.to_string())?;

        let mut options = Options::in_memory(Environment::system());
        options.tokens.push(credentials.administrator());
        options.service_accounts = has_controllers;
        options.controllers = if has_controllers {
            Controllers::all()
        } else {
            Controllers::none()
        };

        let refusals = Arc::new(Refusals::default());
        options.admission.push(refusals.clone());
        options.audit = audit;

        let server = EmbeddedServer::start(options).map_err(|error| error.to_string())?;

        let (kills, killed) = unbounded_channel();
        let (started, ready) = mpsc::channel();

        let kubeconfig = folder.join("kubeconfig");
        let path = kubeconfig.clone();

        // It has a runtime of its own, because a test's runtime ends with the test. With two
        // threads, renewals of Leases do not wait for a request with a large body.
        let thread = thread::spawn(move || {
            let runtime = Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = match listen(&credentials, &path).await {
                    Ok(listener) => listener,
                    Err(error) => {
                        return drop(started.send(Err(format!("{}: {error}", path.display()))));
                    }
                };
                drop(started.send(Ok(())));
                serve(&server, &credentials, listener, killed).await;
            });
        });

        ready
            .recv()
            .map_err(|_| "the embedded API server ended".to_owned())??;

        Ok((
            Self {
                refusals,
                kills: Some(kills),
                thread: Some(thread),
            },
            kubeconfig,
        ))
    }

    /// Ends all connections. For [`DOWN`] the server accepts none and its controllers stand still.
    pub fn kill(&self) {
        let (killed, is_down) = mpsc::channel();
        let sent = self
            .kills
            .as_ref()
            .is_some_and(|kills| kills.send(killed).is_ok());

        assert!(
            sent && is_down.recv().is_ok(),
            "the embedded API server has ended"
        );
    }
}

/// Runs a server without controllers and audit log until standard input ends, and prints a line
/// when it is ready. This is the process of
/// [`ControlPlane::start_embedded_process`](crate::ControlPlane::start_embedded_process), with
/// `folder` as its last argument.
///
/// # Errors
/// Returns why the server does not start, or the error of standard input or output.
pub fn serve_embedded(folder: &Path) -> Result<(), String> {
    let (_server, kubeconfig) = EmbeddedThread::start_with(folder, false, None)?;
    println!("ready KUBECONFIG={}", kubeconfig.display());
    io::copy(&mut io::stdin(), &mut io::sink())
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Serves until nobody can kill the server any more.
async fn serve(
    server: &EmbeddedServer,
    credentials: &Credentials,
    mut listener: TcpListener,
    mut kills: UnboundedReceiver<Kill>,
) {
    let address = listener.local_addr().expect("an address");

    loop {
        let mut kill = None;
        let until_killed = async { kill = kills.recv().await };

        server
            .serve(listener, credentials, until_killed)
            .await
            .expect("a loopback address");

        let Some(kill) = kill else { return };
        let _nobody_waits = kill.send(());
        sleep(DOWN).await;
        listener = TcpListener::bind(address).await.expect("the same port");
    }
}

async fn listen(credentials: &Credentials, kubeconfig: &Path) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;

    fs::write(
        kubeconfig,
        credentials.kubeconfig(listener.local_addr()?, "embedded"),
    )?;

    Ok(listener)
}

impl Drop for EmbeddedThread {
    fn drop(&mut self) {
        drop(self.kills.take());
        if let Some(thread) = self.thread.take() {
            let _either_way = thread.join();
        }
    }
}

/// Writes the audit log to a file.
struct AuditFile(Mutex<File>);

impl AuditSink for AuditFile {
    fn write(&self, event: &Value) {
        self.0
            .lock()
            .write_all(format!("{event}\n").as_bytes())
            .expect("the audit log is written");
    }
}

/// The Statuses to refuse ConfigMaps with, by namespace and name.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Vec<(String, String, Value)>>);

impl Refusals {
    /// The name of the webhook that this imitates.
    const WEBHOOK: &str = "refuse.test.operetta.dev";

    /// Refuses ConfigMaps of a namespace from now on.
    pub fn add(&self, namespace: &str, refusals: Vec<(String, Value)>) {
        let refusals = refusals
            .into_iter()
            .map(|(name, status)| (namespace.to_owned(), name, status));
        self.0.lock().extend(refusals);
    }
}

impl Admission for Refusals {
    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        _warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let is_create = request.operation == Operation::Create;
        let Some(object) = request.object.filter(|_| is_create) else {
            return Ok(());
        };

        let is_refused = |(namespace, name, _): &&(String, String, Value)| {
            request.endpoint.resource == "configmaps"
                && request.namespace == *namespace
                && object["metadata"]["name"] == *name
                && object["metadata"]["labels"]["conformance"] == "refuse"
        };

        match self.0.lock().iter().find(is_refused) {
            None => Ok(()),
            Some((_, _, status)) => {
                let mut status = status.clone();
                let message = status["message"].as_str().unwrap_or_default();
                status["message"] = format!(
                    "admission webhook {:?} denied the request: {message}",
                    Self::WEBHOOK
                )
                .into();
                Err(Status::from_status(&status))
            }
        }
    }
}

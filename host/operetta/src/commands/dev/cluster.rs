//! The embedded API server of a session, and the administrator's way to it.

use std::{
    fs,
    io::ErrorKind,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use operetta_apiserver::{
    embedded::{Credentials, EmbeddedServer, Options},
    http::Environment,
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::args::DevArgs;

/// The name of the context in the kubeconfig.
const CONTEXT: &str = "operetta-dev";
/// The folder of a session's files in the project. It ignores itself in git.
const FOLDER: &str = ".operetta";

/// A running API server. It ends with this.
pub struct Cluster {
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    serving: JoinHandle<()>,
}

impl Cluster {
    /// Starts a server, and writes the kubeconfig into the project.
    ///
    /// # Errors
    /// Returns an error if the port is in use, the data file cannot be used, or the kubeconfig cannot be written.
    pub async fn start(project: &Path, args: &DevArgs) -> Result<Self> {
        let listener = listen(args.port).await?;
        let address = listener.local_addr()?;
        let credentials = Credentials::generate()?;
        let mut options = Options::in_memory(Environment::system());
        options.data.clone_from(&args.data);
        options.tokens.push(credentials.administrator());
        options.address = address.to_string();
        options.service_accounts = true;
        options.controllers.root_certificate = Some(credentials.authority().to_owned());
        let server = EmbeddedServer::start(options).with_context(|| match &args.data {
            Some(file) => format!("failed to open --data {}", file.display()),
            None => "failed to start the API server".to_owned(),
        })?;
        let kubeconfig = write_kubeconfig(project, &credentials.kubeconfig(address, CONTEXT))?;
        let serving = tokio::spawn(async move {
            if let Err(error) = server.serve(listener, &credentials, std::future::pending()).await {
                tracing::error!("the API server ended: {error}");
            }
        });
        Ok(Self { kubeconfig, serving })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn listen(port: u16) -> Result<TcpListener> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            bail!("port {port} of 127.0.0.1 is in use: choose another --port, or leave it out for a free one")
        }
        Err(error) => Err(error).with_context(|| format!("failed to listen on port {port} of 127.0.0.1")),
    }
}

/// Writes the kubeconfig, which only this user may read, and returns its path.
fn write_kubeconfig(project: &Path, text: &str) -> Result<PathBuf> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let folder = project.join(FOLDER);
    let file = folder.join("kubeconfig");
    let written =
        fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join(".gitignore"), "*\n")).and_then(|()| {
            let mut options = fs::OpenOptions::new();
            options.create(true).truncate(true).write(true).mode(0o600).open(&file)?.write_all(text.as_bytes())
        });
    written.with_context(|| format!("failed to write {}", file.display()))?;
    Ok(file)
}

//! The embedded API server of a session, and the administrator's way to it.

use std::{
    fs,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use operetta_apiserver::{Controllers, Credentials, EmbeddedServer, Options, server::Environment};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::args::DevArgs;

/// The name of the context in the kubeconfig.
const CONTEXT: &str = "operetta-dev";
/// The folder of a session's files in the project; its own .gitignore excludes it.
const FOLDER: &str = ".operetta";

/// A running API server; dropping this ends it.
pub struct Cluster {
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    serving: JoinHandle<()>,
}

impl Cluster {
    /// Starts a server, and writes the kubeconfig into the project.
    ///
    /// # Errors
    /// Returns an error if the port is in use, the data file cannot be used, or the kubeconfig
    /// cannot be written.
    pub async fn start(project: &Path, args: &DevArgs) -> Result<Self> {
        let listener = listen(args.port).await?;
        let address = listener.local_addr()?;

        let credentials = Credentials::generate()?;
        let environment = Environment::system();
        let options = Options {
            data: args.data.clone(),
            ..Options::on_socket(environment, &credentials, address, Controllers::all())
        };
        let server = EmbeddedServer::start(options).with_context(|| match &args.data {
            Some(file) => format!("failed to open --data {}", file.display()),
            None => "failed to start the API server".to_owned(),
        })?;
        let kubeconfig = write_kubeconfig(project, &credentials, address)?;
        let serving = tokio::spawn(async move {
            if let Err(error) = server
                .serve(listener, &credentials, std::future::pending())
                .await
            {
                tracing::error!("the API server ended: {error}");
            }
        });

        Ok(Self {
            kubeconfig,
            serving,
        })
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
            bail!(
                "port {port} of 127.0.0.1 is in use: choose another --port, or leave it out for a free one"
            )
        }
        Err(error) => {
            Err(error).with_context(|| format!("failed to listen on port {port} of 127.0.0.1"))
        }
    }
}

/// Writes the kubeconfig, which only this user may read, and returns its path.
fn write_kubeconfig(
    project: &Path,
    credentials: &Credentials,
    address: SocketAddr,
) -> Result<PathBuf> {
    let folder = project.join(FOLDER);
    let file = folder.join("kubeconfig");
    let ignored = folder.join(".gitignore");

    // Somebody else's project may contain such links, to make this overwrite files of its user.
    for path in [&folder, &file, &ignored] {
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
            bail!(
                "{} is a link, and would have another file overwritten: remove it",
                path.display()
            );
        }
    }

    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(ignored, "*\n"))
        .and_then(|()| credentials.write_kubeconfig(&file, address, CONTEXT));

    written.with_context(|| format!("failed to write {}", file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_in_the_project_overwrites_nothing() {
        let credentials = Credentials::generate().expect("credentials");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 6443));
        let elsewhere = tempfile::tempdir().expect("a folder");
        let own = elsewhere.path().join("own");

        for name in ["kubeconfig", ".gitignore"] {
            let project = tempfile::tempdir().expect("a folder");
            let folder = project.path().join(FOLDER);
            fs::create_dir(&folder).expect("a folder");
            fs::write(&own, "mine").expect("written");
            symlink(&own, folder.join(name)).expect("a link");

            let error = write_kubeconfig(project.path(), &credentials, address)
                .expect_err("refused")
                .to_string();
            assert!(
                error.contains(name) && error.contains("remove it"),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&own).expect("there"), "mine");
        }

        let project = tempfile::tempdir().expect("a folder");
        symlink(elsewhere.path(), project.path().join(FOLDER)).expect("a link");
        write_kubeconfig(project.path(), &credentials, address).expect_err("refused");
        assert!(!elsewhere.path().join("kubeconfig").exists());
    }
}

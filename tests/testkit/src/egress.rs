//! The way from the API server to the endpoints of a Service, as in a cluster that reaches its Pods
//! through a tunnel: an egress selector of the type HTTPConnect (konnectivity).
//!
//! An API server refuses loopback addresses as endpoints. So a test gives a Pod an address from a
//! range reserved for documentation, and the proxy here connects to a loopback port instead.
//! Nothing else is simulated: the API server authorizes the request, picks an endpoint, and strips
//! the user's credentials.

use std::{
    collections::HashMap,
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpStream, UnixListener, UnixStream},
    runtime::Builder,
};

use crate::ControlPlane;

/// The port of all endpoints.
const PORT: u16 = 8443;

/// The maximum size of a request's head.
const MAX_HEAD: usize = 4096;

/// A proxy between an API server and the addresses of endpoints. It serves until the process ends.
pub struct Egress {
    folder: PathBuf,
    routes: Routes,
}

/// Loopback addresses by the addresses that the API server connects to.
type Routes = Arc<Mutex<HashMap<String, SocketAddr>>>;

impl Egress {
    /// Starts the proxy.
    ///
    /// # Panics
    /// Panics if it cannot be served.
    pub fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // The path of a Unix socket has at most 107 bytes (unix(7)).
        let name = format!(
            "operetta-egress-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );

        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");

        let routes = Routes::default();
        let socket =
            std::os::unix::net::UnixListener::bind(folder.join("socket")).expect("a socket");
        socket.set_nonblocking(true).expect("non-blocking");

        let known = routes.clone();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let socket = UnixListener::from_std(socket).expect("a socket");
                while let Ok((connection, _)) = socket.accept().await {
                    tokio::spawn(tunnel(connection, known.clone()));
                }
            });
        });

        Self { folder, routes }
    }

    /// Starts a control plane for one test, whose API server connects to endpoints through this
    /// proxy. Blocks until it is ready.
    ///
    /// # Panics
    /// Panics if it does not start.
    pub fn control_plane(&self) -> ControlPlane {
        let transport = json!({"uds": {"udsName": self.folder.join("socket")}});
        let connection = json!({"proxyProtocol": "HTTPConnect", "transport": transport});
        let configuration = json!({
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        });

        let file = self.folder.join("egress.yaml");
        fs::write(&file, configuration.to_string()).expect("written");

        let argument = format!("--egress-selector-config={}", file.display());
        ControlPlane::start_real(&[], &[argument]).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Creates a Pod with the address `ip`, which leads to a process at `address`. An API server
    /// connects to addresses of Pods only.
    ///
    /// # Panics
    /// Panics if the API server refuses it.
    pub fn create_pod(&self, control_plane: &ControlPlane, pod: Endpoint<'_>, address: &str) {
        let Endpoint {
            namespace,
            name,
            ip,
        } = pod;

        self.routes
            .lock()
            .insert(format!("{ip}:{PORT}"), address.parse().expect("an address"));

        let security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        let restricted =
            json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});

        let container = json!({"name": "main", "image": "none", "securityContext": restricted});
        let created = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"securityContext": security, "containers": [container]},
        });

        control_plane.apply(&created.to_string());

        let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}).to_string();
        let patch = [
            "patch",
            "pod",
            name,
            "-n",
            namespace,
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ];

        control_plane.kubectl(&patch);
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.folder);
    }
}

/// A Pod behind a Service.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    /// The namespace of the Pod and the Service.
    pub namespace: &'a str,
    /// The name of the Pod.
    pub name: &'a str,
    /// Its IP address, such as one of 203.0.113.0/24.
    pub ip: &'a str,
}

/// Sets the endpoints of a Service, as the controllers do. The API server still reads the
/// Endpoints, not the EndpointSlices, when it forwards a request to a Service.
///
/// # Panics
/// Panics if the API server refuses them.
pub fn set_endpoints(
    control_plane: &ControlPlane,
    namespace: &str,
    service: &str,
    pods: &[Endpoint<'_>],
) {
    let address = |pod: &Endpoint<'_>| json!({"ip": pod.ip, "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name}});

    let addresses: Vec<_> = pods.iter().map(address).collect();
    let subset = json!({"addresses": addresses, "ports": [{"name": "https", "port": PORT}]});
    let subsets = if pods.is_empty() {
        json!([])
    } else {
        json!([subset])
    };

    let metadata = json!({"name": service, "namespace": namespace});
    let endpoints =
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets});

    control_plane.apply_by_force(&endpoints.to_string());
}

/// Answers one `CONNECT IP:PORT`, and then passes bytes both ways. Without a route the connection
/// ends.
async fn tunnel(mut client: UnixStream, routes: Routes) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD {
        head.push(client.read_u8().await.ok()?);
    }

    let head = String::from_utf8(head).ok()?;
    let target = head.strip_prefix("CONNECT ")?.split(' ').next()?;
    let address = routes.lock().get(target).copied();

    let Some(address) = address else {
        return client
            .write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            .await
            .ok();
    };

    let mut server = TcpStream::connect(address).await.ok()?;
    client
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await
        .ok()?;

    copy_bidirectional(&mut client, &mut server)
        .await
        .ok()
        .map(|_bytes| ())
}

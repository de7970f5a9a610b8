//! The page of a running host, without a browser: who gets in, what each user sees, and what
//! attacks get. All tests share one host, except for those about an API server that ends.

mod browser;
mod kinds;
mod objects;
mod outage;
mod plugins;
mod recorded;
mod sign_in;

use operetta_testkit::{ControlPlane, DropIn, Host, HostOptions, TestNamespace, guest};
use tokio::sync::OnceCell;

use browser::Browser;

/// The shared host, and a namespace of the test's own.
struct Stage {
    host: &'static Host,
    namespace: TestNamespace<'static>,
}

async fn host() -> &'static Host {
    static HOST: OnceCell<Host> = OnceCell::const_new();
    let start = async || {
        let config = "{secureEndpoints: {address: '127.0.0.1:0'}}".to_owned();
        let options = HostOptions {
            config,
            ..HostOptions::default()
        };
        Host::shared(ControlPlane::shared().await, &options).await
    };

    HOST.get_or_init(start).await
}

impl Stage {
    async fn new(prefix: &str) -> Self {
        let host = host().await;
        Self {
            host,
            namespace: ControlPlane::shared().await.namespace(prefix).await,
        }
    }

    /// Drops the plugin `touch` in, and waits until it runs.
    async fn plugin(&self) {
        self.namespace.allow_all("plugin").await;
        self.namespace
            .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
            .await;
        self.namespace
            .until_condition("touch", "Ready", "True", "Running")
            .await;
    }

    /// Returns the browser of a new ServiceAccount that may read these resources in the namespace.
    fn user(&self, name: &str, resources: &[&str]) -> Browser {
        let token = reader(&self.namespace, name, resources);
        Browser::new(self.host.admin_address(), Some(&token))
    }

    /// Returns the browser of a new ServiceAccount that may do everything in the cluster.
    fn administrator(&self, name: &str) -> Browser {
        let token = token(&self.namespace, name);
        let binding = format!("{name}-{}", self.namespace.name());
        let account = format!("--serviceaccount={}:{name}", self.namespace.name());

        let control_plane = self.namespace.control_plane();
        control_plane.kubectl(&[
            "create",
            "clusterrolebinding",
            &binding,
            "--clusterrole=cluster-admin",
            &account,
        ]);

        Browser::new(self.host.admin_address(), Some(&token))
    }
}

/// Creates a ServiceAccount. Returns a token of it.
fn token(namespace: &TestNamespace<'_>, name: &str) -> String {
    namespace.kubectl(&["create", "serviceaccount", name]);
    namespace
        .kubectl(&["create", "token", name])
        .trim()
        .to_owned()
}

/// Creates a ServiceAccount that may read these resources in its namespace. Returns a token of it.
fn reader(namespace: &TestNamespace<'_>, name: &str, resources: &[&str]) -> String {
    let token = token(namespace, name);
    if !resources.is_empty() {
        let resources = format!("--resource={}", resources.join(","));
        namespace.kubectl(&["create", "role", name, "--verb=get,list,watch", &resources]);
        let account = format!("--serviceaccount={}:{name}", namespace.name());
        namespace.kubectl(&[
            "create",
            "rolebinding",
            name,
            &format!("--role={name}"),
            &account,
        ]);
    }

    token
}

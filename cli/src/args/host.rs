//! The flags that select a host and the user's identity at it.

use clap::Args;
use operetta_api::Class;

use super::values;
use crate::commands::HostAddress;

/// A host, and the token for it.
#[derive(Args, Clone, Default)]
pub struct HostArgs {
    /// The address of a host outside the cluster, HOST:PORT or http://HOST:PORT; it gets no token
    /// [default: the host's Service, or the status.host of Plugins if there is no Service]
    #[arg(long, value_name = "ADDRESS")]
    pub host: Option<HostAddress>,
    /// The namespace of the host's Service [default: operetta-system]
    #[arg(long, env = "OPERETTA_HOST_NAMESPACE", value_name = "NAMESPACE", value_parser = values::namespace)]
    pub host_namespace: Option<String>,
    /// The trust class of the hosts, for the Plugins of namespaces with the label
    /// operetta.dev/class [default: the hosts without a class]
    #[arg(long, env = "OPERETTA_HOST_CLASS", value_name = "CLASS")]
    pub host_class: Option<Class>,
    /// The ServiceAccount in the Plugin's namespace whose token is sent to the host, for a
    /// kubeconfig with a client certificate
    #[arg(long, value_name = "NAME", value_parser = values::object_name)]
    pub service_account: Option<String>,
    /// The token to send to the host [default: the kubeconfig's]
    #[arg(
        long,
        env = "OPERETTA_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
}

impl std::fmt::Debug for HostArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            host,
            host_namespace,
            host_class,
            service_account,
            token: _secret,
        } = self;

        let mut shown = f.debug_struct("HostArgs");
        shown
            .field("host", host)
            .field("host_namespace", host_namespace)
            .field("host_class", host_class)
            .field("service_account", service_account);
        shown.finish_non_exhaustive()
    }
}

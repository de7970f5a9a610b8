//! The arguments of `operetta grant`.

use clap::{Args, ValueEnum};

use super::ClusterArgs;

#[derive(Args, Debug)]
pub struct GrantArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The ServiceAccounts [default: all in the namespace that consent to a plugin]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Their namespace [default: that of the context]
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Sensitive permissions of the ServiceAccounts to grant as well; may be repeated
    #[arg(long, value_enum, value_name = "PERMISSION", value_delimiter = ',')]
    pub allow: Vec<Sensitive>,
    /// The form of impersonation [default: constrained if the API server supports it]
    #[arg(long, value_enum)]
    pub impersonation: Option<ImpersonationMode>,
    /// Delete the Roles and RoleBindings of earlier grants
    #[arg(long, conflicts_with_all = ["allow", "impersonation", "output"])]
    pub revoke: bool,
    /// The ServiceAccount that the host runs as
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "operetta-system/operetta"
    )]
    pub host_service_account: String,
    /// Print the Roles and RoleBindings without applying them
    #[arg(short, long, value_enum)]
    pub output: Option<GrantOutput>,
}

/// The permissions of a ServiceAccount that are granted to a host only on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sensitive {
    /// list and watch of Secrets, for the host's cache; without it, plugins read Secrets from the
    /// API server
    Secrets,
    /// creating ServiceAccount tokens
    Token,
    /// exec, attach, port-forward and proxy
    Exec,
    /// writing roles and bindings
    Rbac,
}

/// The forms of impersonation of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImpersonationMode {
    /// Limited to granted requests (Kubernetes 1.36, KEP-5284)
    Constrained,
    /// Everything that the ServiceAccount may do
    Legacy,
}

/// The output formats of roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GrantOutput {
    Yaml,
}

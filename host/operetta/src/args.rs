//! The command line. Flags that kubectl also has have the same meaning.

mod dev;
mod grant;
mod help;
mod host;
mod install;
mod project;
mod retry;
mod top;
mod values;
mod watch;
mod why;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use dev::DevArgs;
pub use grant::{GrantArgs, ImpersonationMode, Sensitive};
pub use help::{CompletionArgs, ExplainArgs};
pub use host::HostArgs;
pub use install::{Component, DryRun, InstallArgs, UninstallArgs};
pub use project::{BuildArgs, GenerateArgs, GenerateWhat, ImportArgs, Language, NewArgs, RbacArgs, TestArgs};
pub use retry::RetryArgs;
pub use top::TopArgs;
pub use watch::{WatchArgs, WatchOutput};
pub use why::{WhyArgs, WhyOutput};

use crate::examples;

/// Runs WebAssembly plugins as Kubernetes controllers.
#[derive(Debug, Parser)]
#[command(name = "operetta", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the host, which runs the plugins of a cluster
    ///
    /// Run the host, which runs the plugins of a cluster, until SIGINT or SIGTERM. It then waits for the reconciles in
    /// flight: 20 s at most, or shutdownSeconds of the configuration.
    #[command(after_help = examples::RUN)]
    Run(RunArgs),
    /// Install the host in a cluster, or upgrade it
    ///
    /// Install the host in the namespace operetta-system of a cluster, or upgrade it: the objects of deploy/base, with
    /// server-side apply. An administrator runs this.
    #[command(after_help = examples::INSTALL)]
    Install(InstallArgs),
    /// Uninstall the host, and print what is left
    ///
    /// Uninstall the host of the namespace operetta-system, and print what is left. Plugins stay unless --delete-plugins
    /// is given.
    #[command(after_help = examples::UNINSTALL)]
    Uninstall(UninstallArgs),
    /// Create a plugin project
    ///
    /// Create a plugin project in the folder NAME: code that builds, a CRD, RBAC, a sample object and a test.
    #[command(after_help = examples::NEW)]
    New(NewArgs),
    /// Run a project's plugin on an API server of its own, and build it again on each save
    ///
    /// Run an API server, a host and a project's plugin in one process, apply the project's crd.yaml, rbac.yaml and
    /// object.yaml, and build the plugin again on each save. It prints each reconcile with what it wrote. Nothing has to be
    /// installed; kubectl works with the kubeconfig that it prints. With --context or --kubeconfig it uses a cluster instead, on
    /// which no Operetta host may run.
    #[command(after_help = examples::DEV)]
    Dev(DevArgs),
    /// Run a project's tests against an API server of their own
    ///
    /// Run a project's tests with the language's own test runner, against an embedded API server with the project's
    /// crd.yaml: each test has a cluster of its own. Nothing has to be installed. The exit code is that of the test runner.
    #[command(after_help = examples::TEST)]
    Test(TestArgs),
    /// Make a plugin project of an operator for controller-runtime or kube-rs
    ///
    /// Make a plugin project of an operator for controller-runtime, in kubebuilder's layout, or for kube-rs: the plugin's main,
    /// go.mod or Cargo.toml, and RBAC. The operator is not changed. The parts that a plugin does not have are listed.
    #[command(after_help = examples::IMPORT)]
    Import(ImportArgs),
    /// Compile a project to a component
    ///
    /// Compile a project in Rust, Go, TypeScript, Python, C or Zig to a WebAssembly component, and check it. The language's
    /// own toolchain does the compiling.
    #[command(after_help = examples::BUILD)]
    Build(BuildArgs),
    /// Generate the CRD's schema from the code, or RBAC from a component
    #[command(after_help = examples::GENERATE)]
    Generate(GenerateArgs),
    /// Check a component and print what it imports, exports and declares
    ///
    /// Check a component and print what it imports, exports and declares: its controllers, the kinds that they watch, and
    /// the selectors. Exit with 1 if the host would refuse it.
    #[command(after_help = examples::CHECK)]
    Check(CheckArgs),
    /// Make a component from a core module, for languages without an SDK
    Component(ComponentArgs),
    /// Print the ConfigMap that installs a component as a plugin
    ///
    /// Print the ConfigMap that installs a component as a plugin, as YAML. A component over 1 MiB is split into several
    /// ConfigMaps. Apply them with --server-side.
    #[command(after_help = examples::BUNDLE)]
    Bundle(BundleArgs),
    /// Print the log of a plugin
    #[command(after_help = examples::LOGS)]
    Logs(LogsArgs),
    /// Reconcile failed objects of a plugin now
    ///
    /// Reconcile objects of a plugin now, without the delay that grows with each failure: all whose last reconcile failed, or
    /// those that are named. The host itself does this for new code, new configuration and a regained permission.
    #[command(after_help = examples::RETRY)]
    Retry(RetryArgs),
    /// Explain the changes of an object, or the reconciles of a plugin's key
    ///
    /// Explain the changes of an object back to their causes: who wrote, in which reconcile, triggered by what. With a Plugin and
    /// a key: why the key was reconciled, and why it is not reconciled now. The host's flight recorder knows the last hour.
    #[command(after_help = examples::WHY)]
    Why(WhyArgs),
    /// Print the minimal Roles for what a plugin has done
    ///
    /// Print the minimal Roles for the plugin's watches and for the calls that the host has recorded, and how they
    /// differ from the permissions of its ServiceAccount.
    #[command(after_help = examples::RBAC)]
    Rbac(ObservedArgs),
    /// Let the host act as ServiceAccounts that consent to plugins
    ///
    /// Let the host act as ServiceAccounts that consent to plugins, and watch what they may watch. Applies Roles and
    /// RoleBindings. An administrator runs this once for each ServiceAccount, and again when its Roles change.
    #[command(after_help = examples::GRANT)]
    Grant(GrantArgs),
    /// Show the plugins of a cluster by what they use, or live rows of any kind
    ///
    /// Show the plugins of a cluster by processor time, rate, errors and queue, or live rows of any kind, on a terminal; `?`
    /// lists the keys. Where stdout is no terminal, print one table.
    #[command(after_help = examples::TOP)]
    Top(TopArgs),
    /// Watch the objects of a kind, across disconnects
    ///
    /// Print the objects of a kind and then each change, as kubectl get --watch does. The watch survives a lost connection:
    /// it then prints what changed in the meantime, deletions included.
    #[command(after_help = examples::WATCH)]
    Watch(WatchArgs),
    /// Print the informers of a host
    ///
    /// Print the informers of a host: the number of objects and bytes, the state of each watch, and the plugins that use it.
    #[command(after_help = examples::INFORMERS)]
    Informers(InformersArgs),
    /// Print the cause and the cure of a code
    ///
    /// Print the cause and the cure of a code: the reason of a condition or an Event, the name of a readiness check, or the
    /// word in parentheses after an error. Without a code, list all codes. Needs no cluster.
    #[command(after_help = examples::EXPLAIN)]
    Explain(ExplainArgs),
    /// Print the completion script of a shell
    #[command(after_help = examples::COMPLETION)]
    Completion(CompletionArgs),
    /// Write the manual pages of all commands; for packages
    #[command(hide = true)]
    Manual(ManualArgs),
    /// Compile the component on stdin to stdout; the host starts this process
    #[command(hide = true)]
    CompileWorker(CompileWorkerArgs),
}

/// The flags that select an API server.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    /// The kubeconfig file [default: ~/.kube/config, or the Pod's ServiceAccount]
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The host's configuration, a YAML file [default: every field has a default]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The address of /healthz, /readyz, /metrics and the logs; overrides adminAddress of the configuration
    #[arg(long, value_name = "IP:PORT")]
    pub admin_address: Option<SocketAddr>,
    /// The address of the probes alone, /healthz, /livez and /readyz; overrides healthAddress of the configuration
    #[arg(long, value_name = "IP:PORT")]
    pub health_address: Option<SocketAddr>,
    /// The address of metrics and logs with TLS and authentication; overrides that of secureEndpoints
    #[arg(long, value_name = "IP:PORT")]
    pub secure_address: Option<SocketAddr>,
    /// Stop when the parent process has ended; for tests and demos
    #[arg(long, hide = true)]
    pub exit_with_parent: bool,
}

#[derive(Args, Debug)]
pub struct ManualArgs {
    /// The folder to write them to; it must exist
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// The output format [default: text for people]
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

#[derive(Args, Debug)]
pub struct ComponentArgs {
    /// The core module, with the imports and exports of the contract
    #[arg(value_name = "CORE.wasm")]
    pub file: PathBuf,
    /// The component to write [default: CORE.component.wasm]
    #[arg(short, long, value_name = "FILE.wasm")]
    pub output: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct BundleArgs {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// The name of the ConfigMap and the Plugin [default: the file's name]
    #[arg(long)]
    pub name: Option<String>,
    /// The ConfigMap's namespace [default: that of kubectl apply]
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// The ServiceAccount that the plugin acts as
    #[arg(long, value_name = "NAME")]
    pub service_account: Option<String>,
    /// The plugin's configuration, a JSON or YAML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Do not compress the component
    #[arg(long)]
    pub raw: bool,
    /// Compress fast, for a larger component: for developing
    #[arg(long, conflicts_with = "raw")]
    pub fast: bool,
}

/// A Plugin, and the host that runs it.
#[derive(Args, Debug)]
pub struct PluginArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The Plugin
    #[arg(value_name = "PLUGIN", value_parser = values::object_name)]
    pub name: String,
    /// The Plugin's namespace [default: that of the context]
    #[arg(short, long, value_parser = values::namespace)]
    pub namespace: Option<String>,
    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Args, Debug)]
pub struct LogsArgs {
    #[command(flatten)]
    pub plugin: PluginArgs,
    /// Follow the log until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// The number of recent lines to print [default: all that the host keeps, at most 1000]
    #[arg(long, value_name = "N")]
    pub tail: Option<usize>,
    /// The output format [default: text for people]
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

#[derive(Args, Debug)]
pub struct ObservedArgs {
    #[command(flatten)]
    pub plugin: PluginArgs,
    /// Print only how the Roles differ from the ServiceAccount's permissions
    #[arg(long)]
    pub diff: bool,
    /// Keep the rules of the current Roles that the printed ones replace [default: while its calls are recorded for less than an
    /// hour]
    #[arg(long, conflicts_with_all = ["diff", "exact"])]
    pub add: bool,
    /// Print only the permissions that were used, even if its calls are recorded for less than an hour
    #[arg(long, conflicts_with = "diff")]
    pub exact: bool,
    /// Put the permissions that were used in some namespaces into the ClusterRole, for all namespaces
    #[arg(short = 'A', long, conflicts_with = "diff")]
    pub all_namespaces: bool,
    /// The name of the Roles [default: the Plugin's name]
    #[arg(long = "name", value_name = "NAME", conflicts_with = "diff")]
    pub role: Option<String>,
}

#[derive(Args, Debug)]
pub struct InformersArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub host: HostArgs,
    /// The replica, by its identity [default: the one that the Service picks]
    #[arg(long, value_name = "IDENTITY", value_parser = values::replica, conflicts_with = "host")]
    pub replica: Option<String>,
    /// The output format [default: text for people]
    #[arg(short, long, value_enum)]
    pub output: Option<InformersOutput>,
}

/// The arguments that a host passes to its compile worker.
#[derive(Args, Debug)]
pub struct CompileWorkerArgs {
    /// The limit on memory, in bytes
    #[arg(long)]
    pub memory_bytes: u64,
    /// The limit on processor time, in seconds
    #[arg(long)]
    pub cpu_seconds: u64,
    /// The hash of the engine settings that the code must match
    #[arg(long, default_value_t)]
    pub compatibility: String,
    /// Compile nothing: try to leave the sandbox, with these files as bait, and print its description if that fails
    #[arg(long, num_args = 0.., value_name = "FILE")]
    pub check_sandbox: Option<Vec<PathBuf>>,
}

/// The output formats of a host's informers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InformersOutput {
    Json,
    /// A table with more columns
    Wide,
}

/// The output formats for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Json,
    Yaml,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn plugin_and_namespace_must_be_names() {
        for (plugin, namespace, message) in [
            ("a/../b", "team", "a name has lower case letters"),
            ("a", "team/../x?y", "a namespace has lower case letters"),
            ("a", "team.a", "a namespace has lower case letters"),
        ] {
            for command in ["logs", "rbac", "retry"] {
                let parsed = Cli::try_parse_from(["operetta", command, plugin, "-n", namespace]);
                let error = parsed.expect_err(namespace).to_string();
                assert!(error.contains(message), "{error}");
            }
        }
    }
}

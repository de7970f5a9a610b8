//! The command line. Flags that kubectl also has have the same meaning.

mod adopt;
mod dev;
mod grant;
mod help;
mod host;
mod install;
mod project;
mod retry;
mod top;
pub mod values;
mod watch;
mod why;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use operetta_compiler::CompilerArgs;
pub use operetta_host::{ClusterArgs, RunArgs};

pub use adopt::AdoptArgs;
pub use dev::DevArgs;
pub use grant::{GrantArgs, ImpersonationMode, Sensitive};
pub use help::{CompletionArgs, ExplainArgs};
pub use host::HostArgs;
pub use install::{Component, DryRun, InstallArgs, UninstallArgs};
pub use project::{
    BuildArgs, GenerateArgs, GenerateWhat, Language, NewArgs, ProgramArgs, RbacArgs, TestArgs,
};
pub use retry::RetryArgs;
pub use top::TopArgs;
pub use watch::{WatchArgs, WatchOutput};
pub use why::{WhyArgs, WhyOutput};

use crate::examples;

/// Runs WebAssembly plugins as Kubernetes controllers.
#[derive(Debug, Parser)]
#[command(
    name = "operetta",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the host, which runs a cluster's plugins
    ///
    /// Run the host, which runs a cluster's plugins, until SIGINT or SIGTERM. It then waits for
    /// reconciles in flight, for at most shutdownSeconds in the configuration (20 by default).
    #[command(after_help = examples::RUN)]
    Run(RunArgs),
    /// Install the host in a cluster, or upgrade it
    ///
    /// Install the host in a cluster's operetta-system namespace, or upgrade it, by server-side
    /// apply of the objects in deploy/base. This needs an administrator's permissions.
    #[command(after_help = examples::INSTALL)]
    Install(InstallArgs),
    /// Uninstall the host, and print what is left
    ///
    /// Uninstall the host from the operetta-system namespace, and print what is left. Plugins stay
    /// unless --delete-plugins is given.
    #[command(after_help = examples::UNINSTALL)]
    Uninstall(UninstallArgs),
    /// Create a plugin project
    ///
    /// Create a plugin project in the folder NAME: code that builds, a CRD, RBAC, a sample object
    /// and a test.
    #[command(after_help = examples::NEW)]
    New(NewArgs),
    /// Run a project's plugin on an API server of its own, and rebuild it on each save
    ///
    /// Run an API server, a host and a project's plugin in one process, apply the project's
    /// crd.yaml, rbac.yaml and object.yaml, and rebuild the plugin on each save. Each reconcile is
    /// printed with what it wrote. Nothing has to be installed, and kubectl works with the printed
    /// kubeconfig. With --context or --kubeconfig, use an existing cluster instead; no Operetta
    /// host may run on it.
    #[command(after_help = examples::DEV)]
    Dev(DevArgs),
    /// Run a project's tests against an API server of their own
    ///
    /// Run a project's tests with the language's own test runner, against an embedded API server
    /// with the project's crd.yaml. Each test gets a cluster of its own. Nothing has to be
    /// installed. The exit code is the test runner's.
    #[command(after_help = examples::TEST)]
    Test(TestArgs),
    /// Compile a project to a component
    ///
    /// Compile a project in Rust, Go, TypeScript, Python, C or Zig to a WebAssembly component, and
    /// check it. The language's own toolchain does the compiling.
    #[command(after_help = examples::BUILD)]
    Build(BuildArgs),
    /// Turn a Go operator's Deployment into a Plugin (experimental)
    ///
    /// Build a Go operator as it is, render its kustomization, Helm chart or YAML, and print the
    /// manifests with a Plugin in place of the Deployment. RBAC and everything else stay as they
    /// are, except that the operator's webhook configurations are left out. A report on stderr comes
    /// first: what the operator needs, and whether the host has it.
    #[command(after_help = examples::ADOPT)]
    Adopt(AdoptArgs),
    /// Generate the CRD's schema from the code, or RBAC from a component
    #[command(after_help = examples::GENERATE)]
    Generate(GenerateArgs),
    /// Check a component and print what it imports, exports and declares
    ///
    /// Check a component and print what it imports, exports and declares: its controllers, the
    /// kinds they watch, and the selectors. Exit with 1 if the host would refuse it.
    #[command(after_help = examples::CHECK)]
    Check(CheckArgs),
    /// Make a component from a core module, for languages without an SDK
    Component(ComponentArgs),
    /// Print the ConfigMap that installs a component as a plugin
    ///
    /// Print the ConfigMap that installs a component as a plugin, as YAML. A component over 1 MiB
    /// is split into several ConfigMaps. Apply them with --server-side.
    #[command(after_help = examples::BUNDLE)]
    Bundle(BundleArgs),
    /// Print the log of a plugin
    #[command(after_help = examples::LOGS)]
    Logs(LogsArgs),
    /// Reconcile a plugin's failed objects now
    ///
    /// Reconcile a plugin's objects now instead of after their backoff: those you name, or all
    /// whose last reconcile failed. The host does this by itself when a plugin gets new code, new
    /// configuration or a permission that it lacked.
    #[command(after_help = examples::RETRY)]
    Retry(RetryArgs),
    /// Explain an object's changes, or a plugin's reconciles of a key
    ///
    /// Explain an object's changes back to their causes: who wrote, in which reconcile, and what
    /// triggered it. With a Plugin and a key, explain why the key was reconciled, and why it is not
    /// being reconciled now. The host's flight recorder covers the last hour.
    #[command(after_help = examples::WHY)]
    Why(WhyArgs),
    /// Print the minimal Roles for what a plugin has done
    ///
    /// Print the minimal Roles for a plugin's watches and recorded calls, and how they differ from
    /// its ServiceAccount's permissions.
    #[command(after_help = examples::RBAC)]
    Rbac(ObservedArgs),
    /// Let the host act as ServiceAccounts that consent to plugins
    ///
    /// Let the host act as ServiceAccounts that consent to plugins, and watch what they may watch,
    /// by applying Roles and RoleBindings. An administrator runs this once per ServiceAccount, and
    /// again when its Roles change.
    #[command(after_help = examples::GRANT)]
    Grant(GrantArgs),
    /// Show a cluster's plugins and what they use, or live rows of any kind
    ///
    /// Show a cluster's plugins with their processor time, rate, errors and queue, or live rows of
    /// any kind; `?` lists the keys. If stdout is not a terminal, print one table.
    #[command(after_help = examples::TOP)]
    Top(TopArgs),
    /// Watch the objects of a kind, across disconnects
    ///
    /// Print the objects of a kind and then each change, as kubectl get --watch does. The watch
    /// survives a lost connection: it then prints what changed in the meantime, deletions included.
    #[command(after_help = examples::WATCH)]
    Watch(WatchArgs),
    /// Print the informers of a host
    ///
    /// Print the informers of a host: the number of objects and bytes, the state of each watch, and
    /// the plugins that use it.
    #[command(after_help = examples::INFORMERS)]
    Informers(InformersArgs),
    /// Print the cause and the cure of a code
    ///
    /// Print the cause and the cure of a code: the reason of a condition or an Event, the name of a
    /// readiness check, or the word in parentheses after an error. Without a code, list all codes.
    /// Needs no cluster.
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
    CompileWorker(CompilerArgs),
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
    /// The ConfigMap's namespace [default: the one kubectl apply uses]
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// The ServiceAccount that the plugin acts as
    #[arg(long, value_name = "NAME")]
    pub service_account: Option<String>,
    /// The plugin's configuration, a JSON or YAML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// For a process: a file with its Plugin, such as the manifests that `operetta adopt` has printed.
    /// They are printed as well, and the Plugin takes the component from the ConfigMaps [default: a
    /// Plugin without arguments]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["namespace", "service_account"])]
    pub plugin: Option<PathBuf>,
    /// Do not compress the component
    #[arg(long)]
    pub raw: bool,
    /// Compress quickly, to a larger file: for development
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
    /// Keep the rules of the Roles that the printed ones replace [default: on while calls have been
    /// recorded for less than an hour]
    #[arg(long, conflicts_with_all = ["diff", "exact"])]
    pub add: bool,
    /// Print only the permissions that were used, even if calls have been recorded for less than an
    /// hour
    #[arg(long, conflicts_with = "diff")]
    pub exact: bool,
    /// Put permissions that were used in only some namespaces into the ClusterRole, for all
    /// namespaces
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
    /// The replica's identity [default: whichever the Service picks]
    #[arg(long, value_name = "IDENTITY", value_parser = values::replica, conflicts_with = "host")]
    pub replica: Option<String>,
    /// The output format [default: text for people]
    #[arg(short, long, value_enum)]
    pub output: Option<InformersOutput>,
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

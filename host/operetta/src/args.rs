//! The command line. Flags that kubectl has mean what they mean there.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use operetta_core::object::selector::{LabelSelector, SelectorError};

/// Light operators on one stage: runs WebAssembly plugins as Kubernetes controllers.
#[derive(Debug, Parser)]
#[command(name = "operetta", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the host: informers, queues and the plugins of a cluster
    Run(RunArgs),
    /// Start a plugin: a project that builds, with a CRD, rights, a sample object and a test
    New(NewArgs),
    /// Compile a project in any of the languages to a component
    Build(BuildArgs),
    /// Write what follows from the code: the CRD from its types, or the rights from what it declares
    Generate(GenerateArgs),
    /// Say what a component is, imports, exports and declares; exit 1 if the host would refuse it
    Check(CheckArgs),
    /// Print the ConfigMap that makes a component a plugin when it is applied
    Bundle(BundleArgs),
    /// Print the log of a plugin
    Logs(LogsArgs),
    /// Print the least Role for what a plugin was seen to do, and how it differs from what its ServiceAccount has
    Rbac(ObservedArgs),
    /// Print the objects of a kind, and each change of them as it comes: kubectl get --watch that outlives its connection
    Watch(WatchArgs),
    /// Print what a host watches: objects, memory, how each watch does, and which plugins use it
    Informers(InformersArgs),
    /// Print the shell's completion script
    Completion(CompletionArgs),
    /// Compile the component on stdin to stdout: the host starts this for large plugins
    #[command(hide = true)]
    CompileWorker(CompileWorkerArgs),
}

/// The flags that select an API server.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    /// The kubeconfig file
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The host's configuration, YAML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The address of /healthz, /readyz, /metrics and logs; overrides the configuration
    #[arg(long, value_name = "IP:PORT")]
    pub admin_address: Option<SocketAddr>,
    /// End when the process that started this one has ended: tests and demos leave no host behind
    #[arg(long, hide = true)]
    pub exit_with_parent: bool,
}

#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub struct NewArgs {
    /// The plugin's name, and its folder's: lower case letters, digits and '-'
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The language
    #[arg(long, value_enum)]
    pub lang: Language,
    /// The API group of the plugin's kind
    #[arg(long, default_value = "example.com")]
    pub group: String,
    /// Its version
    #[arg(long, default_value = "v1alpha1")]
    pub version: String,
    /// Its name, in CamelCase; made from NAME if left out
    #[arg(long)]
    pub kind: Option<String>,
}

#[derive(Args, Debug)]
pub struct BuildArgs {
    /// The project's folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// The file to write the component to; DIR/build/NAME.wasm if left out
    #[arg(short, long, value_name = "FILE.wasm")]
    pub output: Option<PathBuf>,
    /// Compile fast and keep the functions' names instead of making it small
    #[arg(long)]
    pub debug: bool,
    /// Go: initialise the runtime in each reconcile, not once at build time
    #[arg(long)]
    pub no_snapshot: bool,
    /// Handed to the language's compiler as they are
    #[arg(last = true, value_name = "COMPILER ARGUMENTS")]
    pub compiler_args: Vec<String>,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GenerateArgs {
    #[command(subcommand)]
    pub what: Option<GenerateWhat>,
    /// The project's folder; its crd.yaml gets the schema of its types
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub enum GenerateWhat {
    /// Print the ServiceAccount, Role and RoleBinding for what a component declares
    Rbac(RbacArgs),
}

#[derive(Args, Debug)]
pub struct RbacArgs {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// The name of the plugin, its ServiceAccount and its Role; the file's name if left out
    #[arg(long)]
    pub name: Option<String>,
    /// The plugin's namespace; the one of kubectl if left out
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// The resource of a kind whose plural is irregular
    #[arg(long = "resource", value_name = "KIND=PLURAL")]
    pub resources: Vec<String>,
}

#[derive(Args, Debug)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// The languages that have an SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    Rust,
    Go,
    /// TypeScript or JavaScript
    #[value(name = "ts", aliases = ["typescript", "js", "javascript"])]
    TypeScript,
    Python,
    C,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// The output format
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

#[derive(Args, Debug)]
pub struct BundleArgs {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// The ConfigMap's name, and so the Plugin's; the file's name if left out
    #[arg(long)]
    pub name: Option<String>,
    /// The ConfigMap's namespace; the one of kubectl if left out
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// The ServiceAccount as which the plugin acts
    #[arg(long, value_name = "NAME")]
    pub service_account: Option<String>,
    /// The plugin's configuration: a JSON or YAML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Do not compress the component
    #[arg(long)]
    pub raw: bool,
}

/// A Plugin, and the host that runs it.
#[derive(Args, Debug)]
pub struct PluginArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The Plugin
    #[arg(value_name = "PLUGIN")]
    pub plugin: String,
    /// The Plugin's namespace
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// The address of the host; the Plugin's status.host if left out
    #[arg(long, value_name = "IP:PORT")]
    pub host: Option<String>,
}

#[derive(Args, Debug)]
pub struct LogsArgs {
    #[command(flatten)]
    pub of: PluginArgs,
    /// Go on as lines come
    #[arg(short, long)]
    pub follow: bool,
    /// Only the last lines
    #[arg(long, value_name = "N")]
    pub tail: Option<usize>,
    /// The output format
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

#[derive(Args, Debug)]
pub struct ObservedArgs {
    #[command(flatten)]
    pub of: PluginArgs,
    /// Print only how it differs; exit 0 if it does not, 1 if it does, 2 if that is not known
    #[arg(long)]
    pub diff: bool,
    /// Give what it did in some namespaces for all of them
    #[arg(short = 'A', long, conflicts_with = "diff")]
    pub all_namespaces: bool,
    /// The Role's name; the Plugin's if left out
    #[arg(long, conflicts_with = "diff")]
    pub name: Option<String>,
}

#[derive(Args, Debug)]
pub struct WatchArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The kind: singular, plural, short name or kind, also with its group, or version and group: deploy, Pod,
    /// deployments.apps, ingresses.v1.networking.k8s.io
    #[arg(value_name = "KIND")]
    pub kind: String,
    /// Only the object of this name
    #[arg(value_name = "NAME", conflicts_with_all = ["all_namespaces", "selector", "field_selector"])]
    pub name: Option<String>,
    /// The namespace
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only objects whose labels match, e.g. app=web,tier!=db
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = label_selector)]
    pub selector: Option<String>,
    /// Only objects whose fields match, e.g. status.phase=Running
    #[arg(long, value_name = "SELECTOR")]
    pub field_selector: Option<String>,
    /// The output format
    #[arg(short, long, value_enum)]
    pub output: Option<WatchOutput>,
    /// Print whether an object was added, modified or deleted
    #[arg(long)]
    pub output_watch_events: bool,
    /// Leave out what is there at the beginning
    #[arg(long)]
    pub watch_only: bool,
}

/// A selector as it was typed, if it parses.
fn label_selector(text: &str) -> Result<String, SelectorError> {
    LabelSelector::parse(text).map(|_| text.to_owned())
}

#[derive(Args, Debug)]
pub struct InformersArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The address of the host; if left out, each status.host of the cluster's Plugins
    #[arg(long, value_name = "IP:PORT")]
    pub host: Option<String>,
    /// The output format
    #[arg(short, long, value_enum)]
    pub output: Option<InformersOutput>,
}

/// The arguments that a host passes to the process that compiles for it.
#[derive(Args, Debug)]
pub struct CompileWorkerArgs {
    /// Memory it may take
    #[arg(long)]
    pub memory_bytes: u64,
    /// Processor time it may take
    #[arg(long)]
    pub cpu_seconds: u64,
    /// The hash of what the code has to agree with
    #[arg(long)]
    pub compatibility: String,
}

/// Formats of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WatchOutput {
    Json,
    Yaml,
    Name,
    /// A table with more columns
    Wide,
}

/// Formats of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InformersOutput {
    Json,
    /// A table with more columns
    Wide,
}

/// Formats for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Json,
    Yaml,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}

//! The arguments of the commands for a plugin's project: `operetta new`, `build` and `generate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use operetta_apiserver::Controllers;

use super::values;
use crate::examples;

#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub struct NewArgs {
    /// The name of the plugin and its folder: lower case letters, digits and '-', at most 63
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The language of the code
    #[arg(long, value_enum)]
    pub lang: Language,
    /// The API group of the plugin's kind
    #[arg(long, default_value = "example.com")]
    pub group: String,
    /// The API version of the plugin's kind
    #[arg(long, default_value = "v1alpha1")]
    pub version: String,
    /// The plugin's kind, in CamelCase [default: made from NAME]
    #[arg(long)]
    pub kind: Option<String>,
}

#[derive(Args, Debug)]
pub struct BuildArgs {
    /// The project's folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// The component to write [default: DIR/build/NAME.wasm]
    #[arg(short, long, value_name = "FILE.wasm")]
    pub output: Option<PathBuf>,
    /// Compile fast and keep the names of functions, for a larger component
    #[arg(long)]
    pub debug: bool,
    /// Take no snapshot: initialize the Go runtime in each reconcile, not once at build time
    #[arg(long)]
    pub no_snapshot: bool,
    /// Compress quickly, and leave the compile check to the host: for development
    #[arg(long)]
    pub fast: bool,
    /// Build a Go or Rust program that runs as a process, even if it requires Operetta's SDK
    #[arg(long)]
    pub process: bool,
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Arguments for the language's compiler
    #[arg(last = true, value_name = "COMPILER ARGUMENTS")]
    pub compiler_args: Vec<String>,
}

/// Which program of a Go module or a Rust package is built, and how.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramArgs {
    /// A program's main package, such as ./cmd/controller [default: DIR, ./cmd, ./cmd/manager, ./cmd/NAME
    /// or the only one]; in Rust, the name of the program
    #[arg(long, value_name = "PACKAGE")]
    pub main: Option<String>,
    /// A Go program's build tags, separated by commas
    #[arg(long, value_name = "TAGS")]
    pub tags: Option<String>,
    /// A Go program's flags for the linker, such as "-X main.version=1.2.3"
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true)]
    pub ldflags: Option<String>,
}

#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub struct TestArgs {
    /// The project's folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// The folder of crd.yaml [default: DIR, or the folder above it]
    #[arg(long, value_name = "DIR")]
    pub manifests: Option<PathBuf>,
    /// Run no tests: print the server's address, for OPERETTA_TEST_ADDRESS, and serve until stdin
    /// closes
    #[arg(long, conflicts_with = "runner_args")]
    pub serve: bool,
    /// The controllers that run beside each test, such as garbage-collector,namespaces, or all
    /// [default: none]
    #[arg(
        long,
        env = "OPERETTA_TEST_CONTROLLERS",
        hide_env_values = true,
        value_name = "NAMES",
        value_parser = values::controllers
    )]
    pub controllers: Option<Controllers>,
    /// Arguments for the language's test runner
    #[arg(last = true, value_name = "RUNNER ARGUMENTS")]
    pub runner_args: Vec<String>,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GenerateArgs {
    #[command(subcommand)]
    pub what: Option<GenerateWhat>,
    /// The project's folder; the schema goes into its crd.yaml
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub enum GenerateWhat {
    /// Print the ServiceAccount, Role and RoleBinding for what a component declares
    #[command(after_help = examples::GENERATE)]
    Rbac(RbacArgs),
}

#[derive(Args, Debug)]
pub struct RbacArgs {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// The name of the plugin, its ServiceAccount and its Role [default: the file's name]
    #[arg(long)]
    pub name: Option<String>,
    /// The plugin's namespace [default: the one kubectl apply uses]
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// A kind's plural, if it is irregular; may be repeated
    #[arg(long = "resource", value_name = "KIND=PLURAL")]
    pub resources: Vec<String>,
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
    /// C++
    #[value(alias = "c++")]
    Cpp,
    Zig,
}

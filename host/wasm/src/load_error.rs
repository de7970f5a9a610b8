//! The errors of loading a plugin or a process.

use std::time::Duration;

use operetta_api::reasons::{self, Reason};
use operetta_core::manifest::ManifestError;

use crate::{CONTRACT_VERSION, MAPPER, PROCESS, RECONCILER, cut, imports, process};

/// How much text of a component a message may quote, in bytes.
pub(crate) const MAX_MESSAGE: usize = 2048;

/// Why a plugin or a process was refused. Its author must change it. Only [`LoadError::Busy`] is worth
/// a retry.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is not a WebAssembly binary.
    #[error("this is not a WebAssembly binary: it {found}")]
    NotWasm {
        /// A description of its first bytes.
        found: String,
    },
    /// The file is larger than [`crate::LoadLimits`] allow a plugin or a process.
    #[error("the component has {bytes} bytes, over the limit of {limit_bytes} bytes ({setting})")]
    TooLarge {
        /// The file's size.
        bytes: usize,
        /// The limit.
        limit_bytes: usize,
        /// The limit's name in the host's configuration.
        setting: &'static str,
    },
    /// The file is a core module, not a component.
    #[error(
        "this is a core module, not a component; build with wasm32-wasip2 or `wasm-tools component new`"
    )]
    CoreModule,
    /// The component is truncated or malformed.
    #[error("the component is malformed: {0}")]
    InvalidComponent(String),
    /// The component uses a version of the contract that this host does not support.
    #[error(
        "the component is built for {found}, but this host supports operetta:controller@{CONTRACT_VERSION}"
    )]
    UnsupportedVersion {
        /// The exported or imported interface.
        found: String,
    },
    /// The component exports no reconciler, so it is not a plugin.
    #[error(
        "the component does not export {RECONCILER}; it exports {}",
        list(exports)
    )]
    MissingExport {
        /// The component's exports.
        exports: Vec<String>,
    },
    /// The functions of the reconciler or the mapper are not those of the contract.
    #[error(
        "the component exports {interface}, but its functions differ from the contract: {message}"
    )]
    IncompatibleExport {
        /// The interface.
        interface: &'static str,
        /// The difference.
        message: String,
    },
    /// The manifest requires a mapper, but the component exports none.
    #[error(
        "controller {controller:?} has a watch whose map is of type \"Custom\", but the component does not export {MAPPER}"
    )]
    MissingMapper {
        /// The first controller with such a watch.
        controller: String,
    },
    /// The component imports interfaces that this host does not offer.
    #[error(
        "the component has imports that this host does not provide: {}; provided: {}",
        list(missing),
        imports::offered_by_package()
    )]
    MissingImport {
        /// The missing interfaces.
        missing: Vec<String>,
    },
    /// The component imports an interface of the host with other functions or types.
    #[error(
        "the component imports an interface whose functions or types differ from this host's: {0}"
    )]
    IncompatibleImport(String),
    /// The component is a process, loaded as a plugin.
    #[error(
        "the component is a process (it exports the core module \"{PROCESS}\" or wasi:cli/run), and has no reconciler \
         to call"
    )]
    NotPlugin,
    /// The component is no process.
    #[error(
        "the component is not a process: it exports neither a core module \"{PROCESS}\" nor wasi:cli/run@0.2, but {}",
        list(exports)
    )]
    NotProcess {
        /// The component's exports.
        exports: Vec<String>,
    },
    /// The component is a plugin and a process at once.
    #[error(
        "the component exports the core module \"{PROCESS}\" and interfaces of operetta:controller: a component is \
         either a process or a plugin"
    )]
    ProcessAndPlugin,
    /// The component exports a process whose structure differs from the contract.
    #[error("the component exports the core module \"{PROCESS}\", but is no process: {0}")]
    InvalidProcess(String),
    /// The module of a process imports functions that this host does not offer.
    #[error(
        "the process imports what this host does not provide: {}; provided: {}",
        list(missing),
        process::offered_by_module()
    )]
    MissingFunction {
        /// The missing imports, as `module.name`.
        missing: Vec<String>,
    },
    /// A process that is a command of WASI 0.2 imports interfaces that this host does not offer to
    /// processes.
    #[error(
        "the process imports interfaces that this host does not provide: {}; provided: {}",
        list(missing),
        imports::offered_to_commands()
    )]
    MissingProcessImport {
        /// The missing interfaces.
        missing: Vec<String>,
    },
    /// The code is invalid, exceeds the compile cost, needs an unsupported feature, or exceeds a
    /// limit of the engine.
    #[error("the component does not compile: {0}")]
    CompileFailed(String),
    /// Compiling takes more memory than the host allows.
    #[error(
        "compiling the component of {} MB takes more than {} MiB of memory ({setting} of the host): make it smaller, or raise \
         the setting together with the memory limit of the host's Pod",
        megabytes(*bytes), .limit_bytes / (1024 * 1024)
    )]
    CompileMemoryExceeded {
        /// The component's size in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit_bytes: u64,
        /// The setting of the host's configuration that sets the limit.
        setting: &'static str,
    },
    /// Compiling takes longer than the host allows.
    #[error(
        "compiling the component of {} MB takes more than {limit_seconds} s of processor time ({}): make it smaller",
        megabytes(*bytes),
        match *is_fixed {
            true => "the limit of a component of less than 1 MiB, which no setting raises",
            false => "compileSeconds of the host",
        }
    )]
    CompileTimedOut {
        /// The component's size in bytes.
        bytes: usize,
        /// The limit in seconds of processor time.
        limit_seconds: u64,
        /// Whether the limit is that of small components, which is not configured.
        is_fixed: bool,
    },
    /// A [`Program`](crate::Program) outside `operetta dev`.
    #[error(
        "this is a development build of `operetta dev`, which only that command runs: build with `operetta build`"
    )]
    DevelopmentBuild,
    /// The interpreter of a [`Program`](crate::Program) cannot be read.
    #[error("failed to read the development interpreter {name}: {error}")]
    MissingInterpreter {
        /// The name of its file.
        name: String,
        /// The error.
        error: String,
    },
    /// The source of a [`Program`](crate::Program) cannot be evaluated.
    #[error("{0}")]
    NotEvaluated(String),
    /// `describe()` trapped.
    #[error("describe() trapped: {0}")]
    DescribeTrapped(String),
    /// `describe()` did not end in time.
    #[error("describe() did not end within {} s", .limit.as_secs_f32())]
    DescribeTimedOut {
        /// The limit.
        limit: Duration,
    },
    /// `describe()` exceeded its memory limit.
    #[error("describe() exceeded its memory limit of {} MiB", .limit_bytes / (1024 * 1024))]
    DescribeMemoryExceeded {
        /// The limit.
        limit_bytes: usize,
    },
    /// `describe()` returned an invalid manifest.
    #[error(transparent)]
    InvalidManifest(#[from] ManifestError),
    /// The host cannot load it now; the caller retries with backoff.
    #[error("the host cannot load the plugin now: {0}")]
    Busy(String),
}

impl LoadError {
    /// Returns the reason for conditions, Events and metrics.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotWasm { .. } => reasons::NOT_WASM,
            Self::TooLarge { .. } => reasons::TOO_LARGE,
            Self::CoreModule => reasons::CORE_MODULE,
            Self::InvalidComponent(_) => reasons::INVALID_COMPONENT,
            Self::UnsupportedVersion { .. } => reasons::UNSUPPORTED_VERSION,
            Self::MissingExport { .. }
            | Self::DevelopmentBuild
            | Self::NotPlugin
            | Self::NotProcess { .. } => reasons::MISSING_EXPORT,
            Self::IncompatibleExport { .. } | Self::ProcessAndPlugin | Self::InvalidProcess(_) => {
                reasons::INCOMPATIBLE_EXPORT
            }
            Self::MissingInterpreter { .. } => reasons::SOURCE_UNREADABLE,
            Self::MissingMapper { .. } => reasons::MISSING_MAPPER,
            Self::MissingImport { .. }
            | Self::MissingFunction { .. }
            | Self::MissingProcessImport { .. } => reasons::MISSING_IMPORT,
            Self::IncompatibleImport(_) => reasons::INCOMPATIBLE_IMPORT,
            Self::CompileFailed(_) => reasons::COMPILE_FAILED,
            Self::CompileMemoryExceeded { .. } => reasons::COMPILE_MEMORY_EXCEEDED,
            Self::CompileTimedOut { .. } => reasons::COMPILE_TIMED_OUT,
            Self::DescribeTrapped(_) | Self::NotEvaluated(_) => reasons::DESCRIBE_TRAPPED,
            Self::DescribeTimedOut { .. } => reasons::DESCRIBE_TIMED_OUT,
            Self::DescribeMemoryExceeded { .. } => reasons::DESCRIBE_MEMORY_EXCEEDED,
            Self::InvalidManifest(_) => reasons::INVALID_MANIFEST,
            Self::Busy(_) => reasons::BUSY,
        }
    }
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// Formats wasmtime's message, cut because a name in it may have megabytes.
pub(crate) fn short_message(error: &wasmtime::Error) -> String {
    cut(format!("{error:#}"), MAX_MESSAGE)
}

fn list(names: &[String]) -> String {
    const MOST: usize = 20;

    if names.is_empty() {
        return "nothing".to_owned();
    }

    let shown: Vec<String> = names
        .iter()
        .take(MOST)
        .map(|name| cut(name.clone(), 128))
        .collect();

    let more = names.len().saturating_sub(MOST);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{more}", shown.join(", "))
}

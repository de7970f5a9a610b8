//! The errors of loading a plugin.

use std::time::Duration;

use operetta_core::manifest::ManifestError;

use crate::{CONTRACT_VERSION, MAPPER, RECONCILER, cut, imports};

/// The longest quotation of a component in a message, in bytes.
pub(crate) const MAX_MESSAGE: usize = 2048;

/// The reason why a plugin was refused. Its author must change it; only [`LoadError::Busy`] is worth another try.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes are no WebAssembly binary.
    #[error("this is not a WebAssembly binary: it {found}")]
    NotWasm {
        /// The format, as far as the first bytes tell.
        found: String,
    },
    /// The file is larger than [`crate::LoadLimits::max_wasm_bytes`].
    #[error("the component has {bytes} bytes, over the limit of {limit_bytes} bytes")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// A core module instead of a component.
    #[error("this is a core module, not a component; build with wasm32-wasip2 or `wasm-tools component new`")]
    CoreModule,
    /// A component that breaks off or contradicts itself.
    #[error("the component is malformed: {0}")]
    InvalidComponent(String),
    /// The contract, of a version that this host does not speak.
    #[error("the component is built for {found}, but this host speaks operetta:controller@{CONTRACT_VERSION}")]
    UnsupportedVersion {
        /// The interface it exports or imports.
        found: String,
    },
    /// No reconciler: the component is no plugin.
    #[error("the component does not export {RECONCILER}; it exports {}", list(exports))]
    MissingExport {
        /// The component's exports.
        exports: Vec<String>,
    },
    /// A reconciler or a mapper whose functions are not those of the contract.
    #[error("the component exports {interface}, but not as this host knows it: {message}")]
    IncompatibleExport {
        /// Which.
        interface: &'static str,
        /// The difference.
        message: String,
    },
    /// The manifest asks for a mapper, and there is none.
    #[error(
        "controller {controller:?} has a watch whose map is of type \"Custom\", but the component does not export {MAPPER}"
    )]
    MissingMapper {
        /// The first controller that has such a watch.
        controller: String,
    },
    /// Imports that the host lacks.
    #[error(
        "the component imports what this host does not offer: {}; offered: {}",
        list(missing),
        imports::offered_in_short()
    )]
    MissingImport {
        /// Those the host lacks.
        missing: Vec<String>,
    },
    /// An import that the host has, but with other functions or types.
    #[error("the component imports an interface not as this host offers it: {0}")]
    IncompatibleImport(String),
    /// The code does not validate, repeats itself without measure, or needs a feature or more of something than the host has.
    #[error("the component does not compile: {0}")]
    CompileFailed(String),
    /// Compiling takes more memory than the host allows.
    #[error(
        "compiling the component of {} MB takes more than {} MiB of memory (compileMemoryMiB of the host): make it smaller",
        megabytes(*bytes), .limit_bytes / (1024 * 1024)
    )]
    CompileMemoryExceeded {
        /// The component's size.
        bytes: usize,
        /// The limit.
        limit_bytes: u64,
    },
    /// Compiling takes longer than the host allows.
    #[error(
        "compiling the component of {} MB takes more than {limit_seconds} s of processor time (compileSeconds of the \
         host): make it smaller",
        megabytes(*bytes)
    )]
    CompileTimedOut {
        /// The component's size.
        bytes: usize,
        /// The limit.
        limit_seconds: u64,
    },
    /// `describe()` trapped.
    #[error("describe() trapped: {0}")]
    DescribeTrapped(String),
    /// `describe()` did not end.
    #[error("describe() did not end within {} s", .limit.as_secs_f32())]
    DescribeTimedOut {
        /// The limit.
        limit: Duration,
    },
    /// `describe()` took too much memory.
    #[error("describe() asked for more memory than its limit of {} MiB", .limit_bytes / (1024 * 1024))]
    DescribeMemoryExceeded {
        /// The limit.
        limit_bytes: usize,
    },
    /// `describe()` returned no manifest.
    #[error(transparent)]
    InvalidManifest(#[from] ManifestError),
    /// The host cannot load it now; the caller retries with backoff.
    #[error("the host cannot load the plugin now: {0}")]
    Busy(String),
}

impl LoadError {
    /// A CamelCase word for conditions, Events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotWasm { .. } => "NotWasm",
            Self::TooLarge { .. } => "TooLarge",
            Self::CoreModule => "CoreModule",
            Self::InvalidComponent(_) => "InvalidComponent",
            Self::UnsupportedVersion { .. } => "UnsupportedVersion",
            Self::MissingExport { .. } => "MissingExport",
            Self::IncompatibleExport { .. } => "IncompatibleExport",
            Self::MissingMapper { .. } => "MissingMapper",
            Self::MissingImport { .. } => "MissingImport",
            Self::IncompatibleImport(_) => "IncompatibleImport",
            Self::CompileFailed(_) => "CompileFailed",
            Self::CompileMemoryExceeded { .. } => "CompileMemoryExceeded",
            Self::CompileTimedOut { .. } => "CompileTimedOut",
            Self::DescribeTrapped(_) => "DescribeTrapped",
            Self::DescribeTimedOut { .. } => "DescribeTimedOut",
            Self::DescribeMemoryExceeded { .. } => "DescribeMemoryExceeded",
            Self::InvalidManifest(_) => "InvalidManifest",
            Self::Busy(_) => "Busy",
        }
    }
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// Shortens wasmtime's message: a name in it may have megabytes.
pub(crate) fn in_short(error: &wasmtime::Error) -> String {
    cut(format!("{error:#}"), MAX_MESSAGE)
}

/// Lists the first names for a message.
fn list(names: &[String]) -> String {
    const MOST: usize = 20;
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let shown: Vec<String> = names.iter().take(MOST).map(|name| cut(name.clone(), 128)).collect();
    let more = names.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

//! What a component is to the host: a plugin, whose functions it calls, or a process, which runs by
//! itself.

use std::sync::{Arc, LazyLock};

use operetta_core::{manifest::Manifest, ports::LogSink};

use crate::{
    Engine, LoadError, LoadLimits, Plugin, Program, Provenance,
    check::{check, checked},
    process::ProcessProgram,
};

/// A loaded component.
pub enum Component {
    /// It exports a reconciler.
    Plugin(Arc<Plugin>),
    /// It exports a program with a main of its own.
    Process(Arc<ProcessProgram>),
}

/// A program does not say what it will do. RBAC says what it may do.
static NO_CONTROLLERS: LazyLock<Manifest> = LazyLock::new(|| Manifest::new(Vec::new()));

impl Component {
    /// Loads a component as what its exports say it is. The log of a plugin's `describe()` goes to
    /// `logs`.
    ///
    /// # Errors
    /// Returns a [`LoadError`] for the first mistake.
    pub async fn load(
        engine: &Engine,
        bytes: Vec<u8>,
        limits: &LoadLimits,
        logs: Arc<dyn LogSink>,
    ) -> Result<Self, LoadError> {
        if Program::read(&bytes).is_some() {
            let plugin = Plugin::load(engine, bytes, limits, logs).await?;
            return Ok(Self::Plugin(Arc::new(plugin)));
        }

        let bytes = Arc::new(bytes);
        let inspection = checked(&bytes, limits, check).await?;
        if inspection.is_process {
            let program = ProcessProgram::load_checked(engine, bytes, inspection, limits).await?;
            return Ok(Self::Process(Arc::new(program)));
        }
        let plugin = Plugin::load_checked(engine, bytes, inspection, limits, logs).await?;
        Ok(Self::Plugin(Arc::new(plugin)))
    }

    /// Returns `sha256:` and the hash of the component's bytes in hex.
    pub fn digest(&self) -> &str {
        match self {
            Self::Plugin(plugin) => plugin.digest(),
            Self::Process(program) => program.digest(),
        }
    }

    /// Returns the size of the component in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Plugin(plugin) => plugin.size(),
            Self::Process(program) => program.size(),
        }
    }

    /// Returns the controllers that the host runs for it. A process runs its own.
    pub fn manifest(&self) -> &Manifest {
        match self {
            Self::Plugin(plugin) => plugin.manifest(),
            Self::Process(_) => &NO_CONTROLLERS,
        }
    }

    /// Returns where the compiled code came from.
    pub fn provenance(&self) -> Provenance {
        match self {
            Self::Plugin(plugin) => plugin.provenance(),
            Self::Process(program) => program.provenance(),
        }
    }
}

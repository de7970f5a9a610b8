//! The interpreters of an engine, which run programs.

use std::{path::PathBuf, sync::Arc};

use super::{inspect::Inspection, resident::MappedCode};

/// An interpreter that is loaded.
pub(crate) struct Interpreter {
    pub code: Arc<MappedCode>,
    pub inspection: Inspection,
}

/// The interpreters of an engine. The one that was used last stays loaded.
pub(crate) struct Interpreters {
    /// The folder of their files.
    pub folder: PathBuf,
    /// The last one, by its name.
    pub loaded: tokio::sync::Mutex<Option<(String, Arc<Interpreter>)>>,
}

impl Interpreters {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            loaded: tokio::sync::Mutex::default(),
        }
    }
}

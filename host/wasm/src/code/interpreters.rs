//! The interpreters of an engine, for programs of `operetta dev`.

use std::{path::PathBuf, sync::Arc};

use super::{inspect::Inspection, link::PluginKind, resident::MappedCode};

pub(crate) struct Interpreter {
    pub code: Arc<MappedCode<PluginKind>>,
    pub inspection: Inspection,
}

/// The last one used stays loaded.
pub(crate) struct Interpreters {
    pub folder: PathBuf,
    /// The file name and the interpreter.
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

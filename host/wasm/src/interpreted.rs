//! Programs that a precompiled interpreter runs, for `operetta dev` only.
//!
//! A program is a component without code: a custom section names an interpreter, and has the source. The interpreter is a
//! plugin that imports `operetta:development/source` and evaluates the source in each call. So a save compiles nothing. An
//! engine runs programs only if [`EngineConfig::interpreters`](crate::EngineConfig::interpreters) names a folder, which the
//! engine of a production host never does: it refuses programs, and does not link the import.

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use wasm_encoder::{Component, CustomSection};
use wasmparser::{Parser, Payload};

use crate::{
    Code, Engine, Inspection, LoadError, LoadLimits,
    code::resident::MappedCode,
    plugin::{Offered, check_imports, exports_mapper},
};

/// The interface by which an interpreter gets its source.
pub(crate) const SOURCE: &str = "operetta:development/source@0.1.0";

/// The name of the custom section. Its first line is the name of the interpreter's file; the source follows.
const SECTION: &str = "operetta:development";

/// A source, and the interpreter that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of the interpreter's file. Another interpreter has another name.
    pub interpreter: String,
    /// The source, in the form that the interpreter reads.
    pub source: String,
}

impl Program {
    /// Returns the program as a component.
    pub fn encode(&self) -> Vec<u8> {
        let text = format!("{}\n{}", self.interpreter, self.source);
        let mut component = Component::new();
        component.section(&CustomSection { name: SECTION.into(), data: Cow::Borrowed(text.as_bytes()) });
        component.finish()
    }

    /// Reads a program; None for any other file. It reads the first section only.
    pub fn read(component: &[u8]) -> Option<Self> {
        let Payload::CustomSection(section) = Parser::new(0).parse_all(component).nth(1)?.ok()? else { return None };
        if section.name() != SECTION || !Parser::is_component(component) {
            return None;
        }
        let (interpreter, source) = std::str::from_utf8(section.data()).ok()?.split_once('\n')?;
        Some(Self { interpreter: interpreter.to_owned(), source: source.to_owned() })
    }
}

/// The source of a call, and what its interpreter reported about it.
pub(crate) struct Evaluated {
    pub source: Arc<str>,
    /// The reason why the source cannot be evaluated.
    pub problem: Option<String>,
}

/// An interpreter that is loaded.
pub(crate) struct Interpreter {
    pub code: Arc<MappedCode>,
    pub inspection: Inspection,
}

/// The interpreters of an engine. The one that was used last stays loaded.
pub(crate) struct Interpreters {
    folder: PathBuf,
    loaded: tokio::sync::Mutex<Option<(String, Arc<Interpreter>)>>,
}

impl Interpreters {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, loaded: tokio::sync::Mutex::default() }
    }

    /// Returns an interpreter, loaded if necessary.
    ///
    /// # Errors
    /// Returns [`LoadError::MissingInterpreter`] if its file cannot be read, and otherwise as [`crate::Plugin::load`] does.
    pub(crate) async fn get(
        &self,
        engine: &Engine,
        name: &str,
        limits: &LoadLimits,
    ) -> Result<Arc<Interpreter>, LoadError> {
        let mut loaded = self.loaded.lock().await;
        if let Some((_, interpreter)) = loaded.as_ref().filter(|(loaded, _)| loaded == name) {
            return Ok(interpreter.clone());
        }
        let interpreter = Arc::new(load(engine, &self.folder, name, limits).await?);
        *loaded = Some((name.to_owned(), interpreter.clone()));
        Ok(interpreter)
    }
}

async fn load(engine: &Engine, folder: &Path, name: &str, limits: &LoadLimits) -> Result<Interpreter, LoadError> {
    let missing = |error: String| LoadError::MissingInterpreter { name: name.to_owned(), error };
    if Path::new(name).file_name().is_none_or(|file| file != name) {
        return Err(missing("it is not the name of a file".to_owned()));
    }
    let file = folder.join(name);
    let max_bytes = limits.max_wasm_bytes;
    let read = tokio::task::spawn_blocking(move || {
        let bytes = fs::read(file).map_err(|error| error.to_string())?;
        let inspection = check_imports(&bytes, max_bytes, Offered::WithSource);
        Ok((bytes, inspection))
    });
    let (bytes, inspection) =
        read.await.map_err(|stopped| LoadError::Busy(stopped.to_string()))?.map_err(missing)?;
    let inspection = inspection?;
    let (obtained, _) =
        Code::obtain(engine, Arc::new(bytes), &inspection.digest, limits.compilations.as_ref()).await?;
    let code = MappedCode::new(engine, obtained, exports_mapper(&inspection))?;
    Ok(Interpreter { code, inspection })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_read_back_from_a_valid_component() {
        let program = Program { interpreter: "js-1.wasm".to_owned(), source: "line 1\nline 2 é\n".to_owned() };
        let encoded = program.encode();
        wasmparser::validate(&encoded).expect("a component");
        assert_eq!(Program::read(&encoded), Some(program));
    }

    #[test]
    fn other_file_is_no_program() {
        for text in [
            "(component)",
            "(module)",
            r#"(module (@custom "operetta:development" "a\nb"))"#,
            r#"(component (@custom "operetta:development" "no second line"))"#,
            r#"(component (@custom "operetta:snapshot" "a\nb"))"#,
            r#"(component (core module) (@custom "operetta:development" "a\nb"))"#,
        ] {
            assert_eq!(Program::read(&wat::parse_str(text).expect("wasm")), None, "{text}");
        }
        for bytes in [&b""[..], b"\0asm", b"hello"] {
            assert_eq!(Program::read(bytes), None);
        }
    }
}

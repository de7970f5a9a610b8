//! Loads the interpreters of programs.

use std::{fs, path::Path, sync::Arc};

use crate::{
    Engine, LoadError, LoadLimits,
    check::{Offered, check_plugin, exports_mapper},
    code::{
        interpreters::{Interpreter, Interpreters},
        link::PluginKind,
        resident::MappedCode,
    },
};

/// Returns the interpreter of this name, loaded unless it was the last one used.
pub(crate) async fn interpreter(
    engine: &Engine,
    interpreters: &Interpreters,
    name: &str,
    limits: &LoadLimits,
) -> Result<Arc<Interpreter>, LoadError> {
    let mut loaded = interpreters.loaded.lock().await;
    if let Some((_, interpreter)) = loaded.as_ref().filter(|(loaded, _)| loaded == name) {
        return Ok(interpreter.clone());
    }
    let interpreter = Arc::new(load(engine, &interpreters.folder, name, limits).await?);
    *loaded = Some((name.to_owned(), interpreter.clone()));
    Ok(interpreter)
}

async fn load(
    engine: &Engine,
    folder: &Path,
    name: &str,
    limits: &LoadLimits,
) -> Result<Interpreter, LoadError> {
    let missing = |error: String| LoadError::MissingInterpreter {
        name: name.to_owned(),
        error,
    };
    if Path::new(name).file_name().is_none_or(|file| file != name) {
        return Err(missing("it is not a file name".to_owned()));
    }

    let file = folder.join(name);
    let limits_of_check = limits.clone();
    let read = tokio::task::spawn_blocking(move || {
        let bytes = fs::read(file).map_err(|error| error.to_string())?;
        let inspection = check_plugin(&bytes, &limits_of_check, Offered::WithSource);
        Ok((bytes, inspection))
    });
    let (bytes, inspection) = read
        .await
        .map_err(|stopped| LoadError::Busy(stopped.to_string()))?
        .map_err(missing)?;
    let inspection = inspection?;

    let (code, _) = MappedCode::obtain(
        engine,
        Arc::new(bytes),
        &inspection,
        PluginKind {
            has_mapper: exports_mapper(&inspection),
        },
        limits,
    )
    .await?;

    Ok(Interpreter { code, inspection })
}

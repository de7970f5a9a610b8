//! `operetta:controller/log`: writes to the plugin's log, beside stdout and stderr.
//!
//! Bound by hand: bindgen's code copies a whole line before the host can check it, and a hundred
//! thousand fields, or eight megabytes, block a thread for milliseconds. This module copies only
//! what is logged.

use operetta_core::{gate::FIELD_BYTES, ports::LogLevel};
use wasmtime::{
    Result, StoreContextMut,
    component::{Linker, WasmList, WasmStr},
};

use crate::{
    bindings::operetta::controller::log as generated,
    store::{MAX_LOGGED, StoreData},
};

type Fields = WasmList<(WasmStr, WasmStr)>;

pub(super) fn add_to_linker(linker: &mut Linker<StoreData>) -> Result<()> {
    let mut log = linker.instance("operetta:controller/log@0.1.0")?;
    log.func_wrap("enabled", |mut store, (level,): (generated::Level,)| {
        Ok((store.data_mut().session().log_enabled(level.into()),))
    })?;
    log.func_wrap(
        "write",
        |store, (level, message, fields): (generated::Level, WasmStr, Fields)| {
            write(store, level.into(), &message, &fields)
        },
    )
}

/// Logs a line, or counts it as dropped if the session has no room for it.
///
/// # Errors
/// Traps if the message or a logged field is not UTF-8.
fn write(
    mut store: StoreContextMut<'_, StoreData>,
    level: LogLevel,
    message: &WasmStr,
    fields: &Fields,
) -> Result<()> {
    let session = store.data_mut().session();
    let room = session.log_enabled(level).then(|| session.log_room());
    let text = message.to_str(&store)?;
    let mut left = room.and_then(|room| room.checked_sub(text.len()));
    let message = left.map(|_| text.as_ref().to_owned());
    let error =
        (level == LogLevel::Error).then(|| text[..text.floor_char_boundary(MAX_LOGGED)].to_owned());

    if let Some(error) = error {
        store.data_mut().logged_error(error);
    }

    let mut logged_fields = Vec::new();
    for index in 0..fields.len() {
        // Each field takes room before it is read, even an empty one: the list may be endless.
        left = left.and_then(|left| left.checked_sub(FIELD_BYTES));
        let (Some(room), Some(field)) = (left, fields.get(&mut store, index)) else {
            break;
        };

        let (name, value) = field?;
        let name = name.to_str(&store)?;
        let value = value.to_str(&store)?;
        left = room.checked_sub(name.len() + value.len());

        if left.is_some() {
            logged_fields.push((name.into_owned(), value.into_owned()));
        }
    }

    let session = store.data_mut().session();
    match (message, left) {
        (Some(message), Some(_)) => session.log(level, message, logged_fields),
        _ => session.drop_log(level),
    }

    Ok(())
}

impl From<generated::Level> for LogLevel {
    fn from(level: generated::Level) -> Self {
        match level {
            generated::Level::Error => Self::Error,
            generated::Level::Warn => Self::Warn,
            generated::Level::Info => Self::Info,
            generated::Level::Debug => Self::Debug,
            generated::Level::Trace => Self::Trace,
        }
    }
}

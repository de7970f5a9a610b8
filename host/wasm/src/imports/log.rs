//! `operetta:controller/log`: the plugin's log, beside what it writes to stdout and stderr.
//!
//! Bound by hand: what bindgen makes copies a line before anybody can look at it, and a hundred thousand fields, or eight
//! megabytes, take a thread for milliseconds. Here nothing is copied but what is kept.

use operetta_core::{gate::FIELD_BYTES, ports::LogLevel};
use wasmtime::{
    Result, StoreContextMut,
    component::{Linker, WasmList, WasmStr},
};

use crate::{
    bindings::operetta::controller::log as generated,
    store_data::{Call, MAX_LOGGED},
};

type Fields = WasmList<(WasmStr, WasmStr)>;

pub(super) fn add_to_linker(linker: &mut Linker<Call>) -> Result<()> {
    let mut log = linker.instance("operetta:controller/log@0.1.0")?;
    log.func_wrap("enabled", |mut store, (level,): (generated::Level,)| {
        Ok((store.data_mut().session().log_enabled(level.into()),))
    })?;
    log.func_wrap("write", |store, (level, message, fields): (generated::Level, WasmStr, Fields)| {
        write(store, level.into(), &message, &fields)
    })
}

/// # Errors
/// Traps where the message, or a field of a line that is kept, is no text.
fn write(mut store: StoreContextMut<'_, Call>, level: LogLevel, message: &WasmStr, fields: &Fields) -> Result<()> {
    let session = store.data_mut().session();
    let room = session.log_enabled(level).then(|| session.log_room());
    let text = message.to_str(&store)?;
    let mut left = room.and_then(|room| room.checked_sub(text.len()));
    let kept = left.map(|_| text.as_ref().to_owned());
    let last = (level == LogLevel::Error).then(|| text[..text.floor_char_boundary(MAX_LOGGED)].to_owned());
    if let Some(last) = last {
        store.data_mut().logged_error(last);
    }
    let mut line = Vec::new();
    for at in 0..fields.len() {
        // Before the next field is looked at: each of an endless list takes room, also an empty one.
        left = left.and_then(|left| left.checked_sub(FIELD_BYTES));
        let (Some(room), Some(field)) = (left, fields.get(&mut store, at)) else { break };
        let (name, value) = field?;
        let name = name.to_str(&store)?;
        let value = value.to_str(&store)?;
        left = room.checked_sub(name.len() + value.len());
        if left.is_some() {
            line.push((name.into_owned(), value.into_owned()));
        }
    }
    let session = store.data_mut().session();
    match (kept, left) {
        (Some(message), Some(_)) => session.log(level, message, line),
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

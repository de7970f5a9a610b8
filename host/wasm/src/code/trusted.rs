//! The only module that makes bytes of a file executable.
//!
//! [`load`] must be given only files that this host wrote: an entry that [`CodeCache::get`] has
//! checked or [`CodeCache::put`] has just written, or the output of a worker in a file without a
//! name. The check of an entry covers that its directory and file belong to this user, that nobody
//! else may write them, and that the content is unchanged. Wasmtime only checks that its own
//! version compiled the code, with compatible settings. It cannot check the code itself.
//!
//! [`CodeCache::get`]: super::CodeCache::get
//! [`CodeCache::put`]: super::CodeCache::put

#![allow(
    unsafe_code,
    reason = "running code from a file is what this module is for"
)]

use std::{
    fs::File,
    io::{Read, Seek},
    os::fd::AsRawFd,
    path::PathBuf,
};

use wasmtime::{Engine, Result, component::Component};

/// Maps a file of compiled code. The module documentation says which files are allowed.
///
/// # Errors
/// Returns wasmtime's error if the file is not compiled code for this engine.
pub(super) fn load(engine: &Engine, file: &File) -> Result<Component> {
    // The descriptor stands for the checked file, even if its name now belongs to another one.
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // SAFETY: the file has the output of `Engine::precompile_component` or `Component::serialize`
    // of this program. Nothing writes it again, and only processes of this user could, as the
    // module documentation says.
    let mapped = unsafe { Component::deserialize_file(engine, &path) };
    if mapped.is_ok() {
        return mapped;
    }

    // Files on a file system mounted `noexec` cannot be mapped as code.
    let mut bytes = Vec::new();
    let mut file = file;
    file.rewind()?;
    file.read_to_end(&mut bytes)?;

    // SAFETY: as above.
    unsafe { Component::deserialize(engine, &bytes) }
}

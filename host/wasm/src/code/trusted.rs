//! The one place that lets the processor run bytes of a file.
//!
//! Who may call [`load`] holds a file that this host wrote: an entry that [`CodeCache::get`] has checked (its directory
//! and file belong to this user, nobody else may write them, and the content is what was written), or what a worker has
//! just written into a file that nobody else has a name for. Wasmtime then checks that the code was made by its own
//! version with compatible settings; it does not check the code itself, and could not.
//!
//! [`CodeCache::get`]: super::CodeCache::get

#![allow(unsafe_code, reason = "running code from a file is what this module is for")]

use std::{
    fs::File,
    io::{Read, Seek},
    os::fd::AsRawFd,
    path::PathBuf,
};

use wasmtime::{Engine, Result, component::Component};

/// Maps a file of compiled code.
///
/// # Errors
/// When the file is no compiled code, or that of another engine.
pub(super) fn load(engine: &Engine, file: &File) -> Result<Component> {
    // By its descriptor: what was checked is what is mapped, whatever has its name by now.
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // SAFETY: the file was written by `Engine::precompile_component` or `Component::serialize` of this program, is not
    // written again, and only processes of this user could write it: see above.
    let mapped = unsafe { Component::deserialize_file(engine, &path) };
    if mapped.is_ok() {
        return mapped;
    }
    // Some file systems are mounted `noexec`.
    let mut bytes = Vec::new();
    let mut file = file;
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    // SAFETY: as above.
    unsafe { Component::deserialize(engine, &bytes) }
}

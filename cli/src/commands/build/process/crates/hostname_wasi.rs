use std::ffi::OsString;
use std::io;

pub(crate) fn get() -> io::Result<OsString> {
    std::env::var_os("HOSTNAME").ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(feature = "set")]
pub(crate) fn set(_: &std::ffi::OsStr) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

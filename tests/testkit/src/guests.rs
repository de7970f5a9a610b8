//! The guests that tests load, as `make build-guests` builds them.

use std::{fs, path::PathBuf};

use crate::target_dir;

/// Returns the path of the component of a Rust package.
///
/// # Panics
/// Panics if it has not been built.
pub fn guest_path(package: &str) -> PathBuf {
    let path = target_dir()
        .join("wasm32-wasip2/guest")
        .join(package.replace('-', "_") + ".wasm");

    assert!(
        path.is_file(),
        "{} is missing: run `make build-guests`",
        path.display()
    );

    path
}

/// Returns the component `target/plugins/NAME.wasm`, a plugin of any language.
///
/// # Panics
/// Panics if it has not been built.
pub fn plugin(name: &str) -> Vec<u8> {
    let path = plugin_path(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the path of `target/plugins/NAME.wasm`.
///
/// # Panics
/// Panics if it has not been built.
pub fn plugin_path(name: &str) -> PathBuf {
    let path = target_dir().join("plugins").join(name.to_owned() + ".wasm");

    assert!(
        path.is_file(),
        "{} is missing: run `make build-guests`",
        path.display()
    );

    path
}

/// Returns the component `target/processes/NAME.wasm`, a program that runs as a process.
///
/// # Panics
/// Panics if it has not been built.
pub fn process_guest(name: &str) -> Vec<u8> {
    let path = process_path(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the path of `target/processes/NAME.wasm`.
///
/// # Panics
/// Panics if it has not been built.
pub fn process_path(name: &str) -> PathBuf {
    let path = target_dir()
        .join("processes")
        .join(name.to_owned() + ".wasm");

    assert!(
        path.is_file(),
        "{} is missing: run `make build-guests`",
        path.display()
    );

    path
}

/// Returns the component of a Rust package.
///
/// # Panics
/// Panics if it has not been built.
pub fn guest(package: &str) -> Vec<u8> {
    let path = guest_path(package);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

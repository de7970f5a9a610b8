//! `operetta component CORE.wasm`: makes a component from a core module, for languages without an
//! SDK.

mod core_module;
pub mod encode;

use std::path::PathBuf;

use anyhow::{Context, Result};

use self::encode::{Start, encode};
use super::{
    check,
    output_file::{size, write},
};
use crate::args::ComponentArgs;

/// Makes the component, checks it as the host does, and writes it.
///
/// # Errors
/// Returns an error if the file cannot be read, is not a core module with the contract's imports
/// and exports, or becomes a component that the host would refuse.
pub async fn component(args: &ComponentArgs) -> Result<()> {
    let file = args.file.display();
    let module = std::fs::read(&args.file).with_context(|| format!("failed to read {file}"))?;
    let component = encode(&module, Start::Instantiation).with_context(|| file.to_string())?;
    let plugin = check::load(component.clone())
        .await
        .with_context(|| file.to_string())?;

    let output = output(args);
    write(&output, &component)?;

    let summary = check::summary(plugin.manifest());
    super::print(&format!(
        "{}: {}, {summary}\n",
        output.display(),
        size(component.len())
    ))
}

/// Returns the file to write: `core.component.wasm` beside `core.wasm`, unless the arguments name
/// one.
fn output(args: &ComponentArgs) -> PathBuf {
    args.output
        .clone()
        .unwrap_or_else(|| args.file.with_extension("component.wasm"))
}

//! The SDKs' helpers of `operetta dev`, which read a project's source for an interpreter.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::{Project, python, typescript};
use crate::args::Language;

/// Reports whether the SDK of a language has a helper.
pub fn is_offered(language: Language) -> bool {
    matches!(language, Language::TypeScript | Language::Python)
}

/// Returns the command that starts the helper of a project. It keeps interpreters in this folder.
///
/// # Errors
/// Returns an error if a tool is missing, or the language has no helper.
pub fn command(project: &Project, folder: &Path) -> Result<Command> {
    match project.language {
        Language::TypeScript => typescript::helper(&project.dir, folder),
        Language::Python => python::helper(&project.dir, folder),
        _ => anyhow::bail!("{} has no interpreter", project.language_name()),
    }
}

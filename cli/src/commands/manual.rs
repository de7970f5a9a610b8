//! `operetta manual DIR`: writes the manual pages, which the archives of a release contain.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::{Cli, ManualArgs};

/// Writes a page for the program and one for each command.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn manual(args: &ManualArgs) -> Result<()> {
    write(&args.dir)
}

fn write(folder: &Path) -> Result<()> {
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("failed to write the manual pages to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn pages_cover_visible_commands() {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path()).expect("pages");
        for command in Cli::command().get_subcommands() {
            let page = folder
                .path()
                .join(format!("operetta-{}.1", command.get_name()));
            assert_eq!(page.exists(), !command.is_hide_set(), "{}", page.display());
        }
        let page = fs::read_to_string(folder.path().join("operetta-install.1")).expect("a page");
        assert!(page.contains("force\\-conflicts"), "{page}");
    }
}

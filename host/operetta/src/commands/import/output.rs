//! The folder of the plugin project. Files that exist are not overwritten.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{args::ImportArgs, commands::new::write_sdk};

/// The folder of the SDK in the project.
const SDK: &str = "sdk";

/// The folder to write to.
pub struct Output {
    /// The absolute path.
    path: PathBuf,
    /// The path as the user has given it.
    shown: PathBuf,
}

impl Output {
    /// Returns `--output`, or `DIR-plugin` in the current folder.
    ///
    /// # Errors
    /// Returns an error if the path cannot be made absolute, or it is the operator's folder.
    pub fn new(args: &ImportArgs, dir: &Path) -> Result<Self> {
        let folder = || dir.file_name().map_or_else(|| "plugin".to_owned(), |name| name.to_string_lossy().into_owned());
        let shown = args.output.clone().unwrap_or_else(|| format!("{}-plugin", folder()).into());
        let absolute = std::path::absolute(&shown).with_context(|| format!("failed to find {}", shown.display()))?;
        // The folder may not exist, but the one that contains it is compared without symbolic links.
        let path = match (absolute.parent().and_then(|parent| parent.canonicalize().ok()), absolute.file_name()) {
            _ if absolute.exists() => absolute.canonicalize().unwrap_or(absolute),
            (Some(parent), Some(name)) => parent.join(name),
            _ => absolute,
        };
        if path == dir {
            bail!(
                "{} is the operator's own folder: use another one, such as --output {}",
                shown.display(),
                args.dir.join("plugin").display()
            );
        }
        Ok(Self { path, shown })
    }

    /// Returns the path for people.
    pub fn shown(&self) -> String {
        self.shown.display().to_string()
    }

    /// Returns the path of another folder, relative to this one.
    pub fn relative(&self, other: &Path) -> String {
        let from: Vec<Component<'_>> = self.path.components().collect();
        let to: Vec<Component<'_>> = other.components().collect();
        let same = from.iter().zip(&to).take_while(|(one, two)| one == two).count();
        let mut path: PathBuf = std::iter::repeat_n("..", from.len() - same).collect();
        path.extend(&to[same..]);
        let path = path.display().to_string();
        if path.starts_with("..") { path } else { format!("./{path}") }
    }

    /// Writes the files and the SDK.
    ///
    /// # Errors
    /// Returns an error, and writes nothing, if one of the files or the SDK's folder exists. Returns an error if a file
    /// cannot be written.
    pub fn write(&self, files: &[(String, String)], sdk: &str) -> Result<()> {
        let names = files.iter().map(|(name, _)| name.as_str()).chain([SDK]);
        let existing: Vec<_> = names.filter(|name| self.path.join(name).symlink_metadata().is_ok()).collect();
        if !existing.is_empty() {
            bail!(
                "{} already has {}: remove them, or use another folder with --output",
                self.shown(),
                existing.join(", ")
            );
        }
        for (name, text) in files {
            let file = self.path.join(name);
            let failed = || format!("failed to write {}", self.shown.join(name).display());
            fs::create_dir_all(file.parent().unwrap_or(&self.path)).with_context(failed)?;
            fs::write(&file, text).with_context(failed)?;
        }
        write_sdk(sdk, &self.path.join(SDK))
    }
}

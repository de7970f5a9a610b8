//! Reads a component from a path in the host's plugin directory.
//!
//! The path comes from a tenant. The kernel resolves it and refuses to leave the directory
//! ([`openat2`](https://man7.org/linux/man-pages/man2/openat2.2.html), Linux 5.6), be it by `..`,
//! an absolute path, a symbolic link, or a link that is replaced at that moment. Links that stay
//! inside are followed, because mounted volumes consist of them.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2},
    io::Errno,
};

use crate::plugin::source::artifact::{ENDINGS, Stored, is_component};
use operetta_api::reasons::{self, Reason};

/// Why there is no component at a path.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The host's configuration sets no directory.
    #[error(
        "this host does not run components from files: its configuration has no pluginDirectory"
    )]
    NotEnabled,
    /// The path leaves the directory.
    #[error("spec.source.path {0:?} leads out of the host's pluginDirectory")]
    Outside(String),
    /// The file does not exist.
    #[error("spec.source.path {0:?} does not exist in the host's pluginDirectory")]
    NotFound(String),
    /// It is something else, such as a directory or a device.
    #[error("spec.source.path {0:?} is not a file")]
    NotAFile(String),
    /// It doesn't have a component's suffix.
    #[error("spec.source.path {0:?} does not end in {endings}", endings = ENDINGS)]
    NotAComponent(String),
    /// The operating system returned an error.
    #[error("failed to read spec.source.path {path:?}: {error}")]
    Unreadable {
        /// The path.
        path: String,
        /// The operating system's error.
        error: io::Error,
    },
}

impl PathError {
    /// Returns the reason for conditions and Events.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotEnabled => reasons::PATHS_NOT_ENABLED,
            Self::Outside(_) => reasons::PATH_OUTSIDE,
            Self::NotFound(_) => reasons::SOURCE_NOT_FOUND,
            Self::NotAFile(_) | Self::NotAComponent(_) => reasons::NO_WASM_AT_PATH,
            Self::Unreadable { .. } => reasons::SOURCE_UNREADABLE,
        }
    }
}

/// An existing file.
pub struct Found {
    file: File,
    path: String,
    /// Changes when the file does.
    pub version: String,
}

/// Finds the file at a path below the directory. Blocks.
///
/// # Errors
/// [`PathError`]; it names the path, but nothing outside the directory.
pub fn find(directory: Option<&Path>, path: &str) -> Result<Found, PathError> {
    let directory = directory.ok_or(PathError::NotEnabled)?;
    if !is_component(path) {
        return Err(PathError::NotAComponent(path.to_owned()));
    }

    let failed = |error: Errno| match error {
        Errno::XDEV | Errno::LOOP => PathError::Outside(path.to_owned()),
        Errno::NOENT | Errno::NOTDIR => PathError::NotFound(path.to_owned()),
        other => PathError::Unreadable {
            path: path.to_owned(),
            error: other.into(),
        },
    };

    let root = openat(
        CWD,
        directory,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let root = root.map_err(failed)?;

    // Non-blocking: the path may be a pipe or a device.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(&root, path, flags, Mode::empty(), within).map_err(failed)?;
    let found = fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(PathError::NotAFile(path.to_owned()));
    }

    let version = format!(
        "path {path} {}/{} {} {}.{}",
        found.st_dev, found.st_ino, found.st_size, found.st_mtime, found.st_mtime_nsec
    );
    Ok(Found {
        file: file.into(),
        path: path.to_owned(),
        version,
    })
}

impl Found {
    /// Reads the component, but at most `limit` bytes and one more. Blocks.
    ///
    /// # Errors
    /// See [`find`].
    pub fn read(self, limit: usize) -> Result<Stored, PathError> {
        let mut bytes = Vec::new();
        let Self { file, path, .. } = self;
        let read = file.take(limit as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| PathError::Unreadable {
            path: path.clone(),
            error,
        })?;

        Ok(Stored::new(
            format!("spec.source.path {path:?}"),
            &path,
            bytes,
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;
    use crate::plugin::source::artifact::SizeLimit;

    const LIMIT: SizeLimit = SizeLimit {
        bytes: 100,
        setting: "maxProcessBytes",
    };

    fn reason(directory: &Path, path: &str) -> String {
        match find(Some(directory), path).and_then(|found| found.read(100)) {
            Ok(stored) => match stored.decompress(LIMIT) {
                Ok(bytes) => String::from_utf8(bytes).expect("text"),
                Err(error) => error.reason().into(),
            },
            Err(error) => {
                // The error quotes the path as it was given.
                assert!(
                    path.contains("secret-place") || !error.to_string().contains("secret-place"),
                    "{error}"
                );
                error.reason().into()
            }
        }
    }

    #[test]
    fn path_stays_within_the_directory() {
        let outside = tempfile::Builder::new()
            .prefix("secret-place")
            .tempdir()
            .expect("a folder");
        fs::write(outside.path().join("x.wasm"), "secret").expect("written");
        let root = outside.path().join("plugins");
        fs::create_dir_all(root.join("..data-1")).expect("made");
        fs::write(root.join("..data-1/a.wasm"), "inside").expect("written");
        fs::write(
            root.join("b.wasm.zst"),
            zstd::encode_all(&b"packed"[..], 3).expect("packed"),
        )
        .expect("written");
        fs::create_dir(root.join("folder.wasm")).expect("made");

        symlink("..data-1", root.join("..data")).expect("linked");
        symlink("..data/a.wasm", root.join("a.wasm")).expect("linked");
        symlink("../x.wasm", root.join("up.wasm")).expect("linked");
        symlink(outside.path().join("x.wasm"), root.join("absolute.wasm")).expect("linked");
        symlink("..", root.join("folder")).expect("linked");
        symlink("/proc/self/root", root.join("proc")).expect("linked");
        symlink("loop.wasm", root.join("loop.wasm")).expect("linked");

        let absolute = outside.path().join("x.wasm");
        for (path, expected) in [
            ("a.wasm", "inside"),
            ("./..data/../a.wasm", "inside"),
            ("b.wasm.zst", "packed"),
            ("../x.wasm", "PathOutside"),
            ("..data/../../x.wasm", "PathOutside"),
            ("up.wasm", "PathOutside"),
            ("absolute.wasm", "PathOutside"),
            ("folder/x.wasm", "PathOutside"),
            ("proc/etc/x.wasm", "PathOutside"),
            ("loop.wasm", "PathOutside"),
            (absolute.to_str().expect("text"), "PathOutside"),
            ("none.wasm", "SourceNotFound"),
            ("a.wasm/x.wasm", "SourceNotFound"),
            ("folder.wasm", "NoWasmAtPath"),
            ("..data", "NoWasmAtPath"),
            ("a\0.wasm", "SourceUnreadable"),
        ] {
            assert_eq!(reason(&root, path), expected, "{path}");
        }

        assert_eq!(
            find(None, "a.wasm").err().expect("refused").reason(),
            "PathsNotEnabled"
        );
    }

    #[test]
    fn refuses_irregular_unreadable_and_oversized_files() {
        let root = tempfile::tempdir().expect("a folder");
        fs::write(root.path().join("large.wasm"), [0; 101]).expect("written");
        fs::write(root.path().join("cut.wasm.zst"), [0x28, 0xb5, 0x2f]).expect("written");

        let pipe = root.path().join("pipe.wasm");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("a pipe");

        for (path, expected) in [
            ("large.wasm", "TooLarge"),
            ("cut.wasm.zst", "DamagedArchive"),
            ("pipe.wasm", "NoWasmAtPath"),
        ] {
            assert_eq!(reason(root.path(), path), expected, "{path}");
        }

        let locked = root.path().join("locked.wasm");
        fs::write(&locked, "x").expect("written");
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).expect("locked");

        // File permissions do not apply to the superuser.
        assert!(["x", "SourceUnreadable"].contains(&reason(root.path(), "locked.wasm").as_str()));
    }

    #[test]
    fn a_version_changes_when_the_file_does() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("a.wasm");
        let version = |text: &str| {
            fs::write(root.path().join("new"), text).expect("written");
            fs::rename(root.path().join("new"), &path).expect("moved");
            find(Some(root.path()), "a.wasm").expect("found").version
        };
        let first = version("one");
        let again = find(Some(root.path()), "a.wasm").expect("found").version;
        assert_eq!(first, again);
        assert_ne!(first, version("two"));
    }
}

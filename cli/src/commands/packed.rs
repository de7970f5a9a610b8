//! Compressed components, cached by their content: `operetta build` and `operetta bundle` compress
//! a component once.
//!
//! A cached file counts only if it decompresses to the component, so a damaged one merely costs
//! another compression. A cache that cannot be read or written is not an error, only slower.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result};
use operetta_manager::config::user_cache;

use super::output_file::write;

/// The size of all cached files together, in bytes; the least recently used ones are evicted.
const MAX_CACHED: u64 = 256 << 20;

/// The suffix of cached files: `DIGEST.LEVEL.zst`.
const SUFFIX: &str = ".zst";

/// A zstd level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The smallest component that takes at most a few seconds. Level 19 takes more than half a
    /// minute for 13 % less.
    Small,
    /// The fastest level, for developing: a tenth of the time for 10 to 15 % more bytes.
    Fast,
}

impl Level {
    /// [`Level::Fast`] if the flag `--fast` was given.
    pub fn of(fast: bool) -> Self {
        if fast { Self::Fast } else { Self::Small }
    }

    fn number(self) -> i32 {
        match self {
            Self::Small => 12,
            Self::Fast => 3,
        }
    }
}

/// Compresses components.
#[derive(Debug)]
pub struct Packer {
    level: Level,
    /// The folder of the cache; None compresses each time.
    folder: Option<PathBuf>,
}

impl Packer {
    /// Returns a packer with the user's cache.
    pub fn new(level: Level) -> Self {
        Self {
            level,
            folder: user_cache().map(|folder| folder.join("compressed")),
        }
    }

    /// Returns a packer with this cache; None compresses each time.
    #[cfg(test)]
    pub fn with_folder(level: Level, folder: Option<PathBuf>) -> Self {
        Self { level, folder }
    }

    /// Compresses a component, or reads it from the cache.
    ///
    /// # Errors
    /// Returns an error if the compression fails.
    pub fn pack(&self, component: &[u8]) -> Result<Vec<u8>> {
        let digest = operetta_wasm::digest(component).replace(':', "-");

        let file = self
            .folder
            .as_ref()
            .map(|folder| folder.join(format!("{digest}.{}{SUFFIX}", self.level.number())));

        if let Some(packed) = file.as_deref().and_then(|file| cached(file, component)) {
            return Ok(packed);
        }

        let packed = zstd::encode_all(component, self.level.number())
            .context("failed to compress the component")?;

        if let Some((file, folder)) = file.zip(self.folder.as_deref())
            && write(&file, &packed).is_ok()
        {
            evict(folder, MAX_CACHED);
        }

        Ok(packed)
    }
}

/// Reads a cached file; None if there is none, or it does not decompress to the component.
fn cached(file: &Path, component: &[u8]) -> Option<Vec<u8>> {
    let packed = fs::read(file).ok()?;

    let mut decoder = zstd::Decoder::new(packed.as_slice()).ok()?;
    let mut rest = component;
    let mut chunk = vec![0; 128 << 10];

    loop {
        let count = decoder.read(&mut chunk).ok()?;
        if count == 0 {
            break;
        }

        rest = rest.strip_prefix(&chunk[..count])?;
    }

    if !rest.is_empty() {
        return None;
    }

    // The time of the last use. If this fails, the file is just evicted earlier.
    let _not_the_owner = File::options()
        .append(true)
        .open(file)
        .and_then(|file| file.set_modified(SystemTime::now()));

    Some(packed)
}

/// Removes the least recently used files until the others fit.
fn evict(folder: &Path, most: u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();

    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(SUFFIX))
        .filter_map(|entry| {
            let found = entry.metadata().ok()?;
            Some((found.modified().ok()?, found.len(), entry.path()))
        })
        .collect();

    files.sort();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();

    for (_, bytes, file) in files {
        if total <= most {
            return;
        }
        if fs::remove_file(file).is_ok() {
            total -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn only_file(folder: &Path) -> PathBuf {
        let files: Vec<_> = fs::read_dir(folder)
            .expect("folder")
            .map(|entry| entry.expect("entry").path())
            .collect();

        let [file] = files.as_slice() else {
            panic!("one file: {files:?}")
        };
        file.clone()
    }

    #[test]
    fn second_compression_is_read_from_the_cache() {
        let folder = tempfile::tempdir().expect("folder");
        let packer = Packer::with_folder(Level::Fast, Some(folder.path().join("new")));
        let component = b"component ".repeat(1_000);

        let packed = packer.pack(&component).expect("packed");
        // The same content at another level, which only the cache can return.
        let other = zstd::encode_all(component.as_slice(), 19).expect("packed");
        assert_ne!(packed, other);

        fs::write(only_file(&folder.path().join("new")), &other).expect("written");
        assert_eq!(packer.pack(&component).expect("packed"), other);

        let small = Packer::with_folder(Level::Small, packer.folder);
        assert_ne!(
            small.pack(&component).expect("packed"),
            other,
            "a level has its own file"
        );
    }

    #[test]
    fn damaged_cached_file_is_replaced() {
        let folder = tempfile::tempdir().expect("folder");
        let packer = Packer::with_folder(Level::Small, Some(folder.path().to_owned()));
        let component = b"component ".repeat(1_000);

        let packed = packer.pack(&component).expect("packed");
        let file = only_file(folder.path());
        let compressed = |bytes: &[u8]| zstd::encode_all(bytes, 1).expect("compressed");
        let [shorter, longer] = [&component[..5_000], &component.repeat(2)].map(compressed);

        for damaged in [
            b"".as_slice(),
            b"not zstd",
            &packed[..packed.len() / 2],
            &shorter,
            &longer,
        ] {
            fs::write(&file, damaged).expect("written");
            assert_eq!(packer.pack(&component).expect("packed"), packed);
            assert_eq!(fs::read(&file).expect("read"), packed);
        }
    }

    #[test]
    fn unusable_cache_is_no_error() {
        for folder in [None, Some("/proc/no-such-folder".into())] {
            let packed = Packer::with_folder(Level::Fast, folder)
                .pack(b"component")
                .expect("packed");
            assert_eq!(
                zstd::decode_all(packed.as_slice()).expect("unpacked"),
                b"component"
            );
        }
    }

    #[test]
    fn least_recently_used_files_are_removed() {
        let folder = tempfile::tempdir().expect("folder");
        for (name, age) in [("a.zst", 30), ("b.zst", 10), ("c.zst", 20), ("other", 40)] {
            fs::write(folder.path().join(name), [0; 10]).expect("written");
            let file = File::options()
                .append(true)
                .open(folder.path().join(name))
                .expect("file");
            file.set_modified(SystemTime::now() - Duration::from_secs(age))
                .expect("set");
        }

        evict(folder.path(), 25);

        let mut left: Vec<_> = fs::read_dir(folder.path())
            .expect("folder")
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();

        left.sort();
        assert_eq!(left, ["b.zst", "c.zst", "other"]);
    }
}

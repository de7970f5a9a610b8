//! The directory of compiled code.
//!
//! Compiled code runs unchecked, so an entry is trusted only if no other user can have written it:
//! the directory and the file belong to this process's user and are closed to everyone else. The
//! name of an entry contains the hash of its content, so damage is found before the code runs.
//! Entries are written under another name, then renamed, and never changed. When all together
//! exceed the limit, the least recently used ones are removed.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tempfile::{NamedTempFile, TempDir};

use crate::hex;

/// The suffix of entries: `KEY.HASH.cwasm`.
const SUFFIX: &str = ".cwasm";

/// The prefix of unfinished files.
const UNFINISHED: &str = ".unfinished-";

/// The free space in bytes below which a disk counts as full.
const FULL: u64 = 64 << 10;

/// An unfinished file older than this was left behind by a dead process.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A directory of compiled code. Processes of the same user may share it.
#[derive(Debug)]
pub struct CodeCache {
    directory: PathBuf,
    max_bytes: u64,
    /// Only files of this user are trusted.
    user: u32,
    /// Removes a temporary directory on drop.
    _temporary: Option<TempDir>,
    /// Locked while entries are removed.
    evicting: Mutex<()>,
    /// The error of the last attempt to cache code; None if it succeeded.
    failure: Mutex<Option<String>>,
}

/// Why a directory cannot hold compiled code.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The directory cannot be created, read or written.
    #[error("the cache of compiled code {} cannot be used", .directory.display())]
    Io {
        /// The directory.
        directory: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Other users could put code there.
    #[error(
        "the cache of compiled code {} is not trusted: {why}; users who can write there can run code in this host",
        .directory.display()
    )]
    NotTrusted {
        /// The directory.
        directory: PathBuf,
        /// The reason, with a remedy where there is one.
        why: String,
    },
}

impl CodeCache {
    /// Opens a directory, or creates it. All entries together take at most `max_bytes`.
    ///
    /// # Errors
    /// Returns a [`CacheError`] if others may access the directory, or it cannot be written.
    pub fn open(directory: &Path, max_bytes: u64) -> Result<Self, CacheError> {
        let io = |source| CacheError::Io {
            directory: directory.to_owned(),
            source,
        };

        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(io)?;

        let user = rustix::process::geteuid().as_raw();
        let metadata = fs::symlink_metadata(directory).map_err(io)?;
        if let Some(why) = distrust(&metadata, user) {
            return Err(CacheError::NotTrusted {
                directory: directory.to_owned(),
                why,
            });
        }

        let directory = directory.to_owned();
        let cache = Self {
            directory,
            max_bytes,
            user,
            _temporary: None,
            evicting: Mutex::default(),
            failure: Mutex::default(),
        };

        // This fails if the directory cannot be written.
        cache.temporary_file().map_err(io)?;
        cache.evict();
        Ok(cache)
    }

    /// Creates a directory for this process alone, and removes it when the cache is dropped.
    ///
    /// # Errors
    /// Returns a [`CacheError`] if the directory for temporary files cannot be used.
    pub fn temporary(max_bytes: u64) -> Result<Self, CacheError> {
        let io = |source| CacheError::Io {
            directory: std::env::temp_dir(),
            source,
        };
        let temporary = tempfile::Builder::new()
            .prefix("operetta-compiled-")
            .tempdir()
            .map_err(io)?;

        let cache = Self::open(&temporary.path().join("compiled"), max_bytes)?;
        Ok(Self {
            _temporary: Some(temporary),
            ..cache
        })
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Records whether code could be cached.
    pub(super) fn record(&self, error: Option<&io::Error>) {
        *self.failure.lock() = error.map(ToString::to_string);
    }

    /// Returns why code cannot be cached at the moment; None if it can.
    pub fn problem(&self) -> Option<String> {
        let is_full = || {
            let disk = rustix::fs::statvfs(&self.directory).ok()?;
            // Some file systems report no sizes.
            (disk.f_blocks > 0 && disk.f_bavail < FULL / disk.f_frsize.max(1))
                .then(|| "the disk is full".to_owned())
        };

        let why = self.failure.lock().clone().or_else(is_full)?;
        let directory = self.directory.display();
        Some(format!(
            "compiled code cannot be kept in {directory}: {why}; it runs from memory and is compiled at each start"
        ))
    }

    /// Returns the entry of this key if it is complete and trusted; removes it otherwise.
    pub(super) fn get(&self, key: &str) -> Option<File> {
        for (path, _) in self.entries().ok()? {
            let Some(hash) = entry_hash(&path, key) else {
                continue;
            };

            match self.open_checked(&path, hash) {
                Ok(file) => {
                    // Eviction takes the modification time as the time of the last use.
                    let _touched = file.set_modified(SystemTime::now());
                    return Some(file);
                }
                Err(why) => {
                    tracing::warn!(file = %path.display(), %why, "cached code is not trusted, compiling it again");
                    let _removed = fs::remove_file(&path);
                }
            }
        }
        None
    }

    /// Opens an entry, and checks its owner, mode and content.
    fn open_checked(&self, path: &Path, hash: &str) -> Result<File, String> {
        let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(no_link)
            .open(path);
        let mut file = opened.map_err(|error| error.to_string())?;

        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if !metadata.is_file() || metadata.nlink() != 1 {
            return Err("it is not a regular file with a single name".to_owned());
        }
        if let Some(why) = distrust(&metadata, self.user) {
            return Err(why);
        }

        let found = hash_file(&mut file).map_err(|error| error.to_string())?;
        if found == hash {
            Ok(file)
        } else {
            Err("it is damaged".to_owned())
        }
    }

    /// Creates a file for compiled code, removed unless it is passed to [`CodeCache::put`].
    pub(super) fn temporary_file(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new()
            .prefix(UNFINISHED)
            .tempfile_in(&self.directory)
    }

    /// Makes a written file the entry of this key.
    pub(super) fn put(&self, key: &str, mut file: NamedTempFile) -> io::Result<File> {
        let hash = hash_file(file.as_file_mut())?;
        let file = file.persist(self.directory.join(format!("{key}.{hash}{SUFFIX}")))?;
        self.evict();
        Ok(file)
    }

    pub(super) fn remove(&self, key: &str) {
        for (path, _) in self.entries().unwrap_or_default() {
            if entry_hash(&path, key).is_some() {
                let _removed = fs::remove_file(&path);
            }
        }
    }

    /// Removes the least recently used entries over the limit, and abandoned unfinished files.
    /// Running code stays mapped.
    fn evict(&self) {
        let _one_at_a_time = self.evicting.lock();
        let now = SystemTime::now();
        let age = |metadata: &Metadata| {
            metadata
                .modified()
                .ok()
                .and_then(|then| now.duration_since(then).ok())
                .unwrap_or_default()
        };

        let mut entries = Vec::new();
        for (path, metadata) in self.entries().unwrap_or_default() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(UNFINISHED) && age(&metadata) > ABANDONED {
                let _removed = fs::remove_file(&path);
            } else if name.ends_with(SUFFIX) {
                entries.push((age(&metadata), metadata.len(), path));
            }
        }

        let mut total: u64 = entries.iter().map(|(_, size, _)| size).sum();
        entries.sort_by_key(|(age, ..)| std::cmp::Reverse(*age));

        for (_, size, path) in entries {
            if total <= self.max_bytes {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                tracing::info!(file = %path.display(), "removed the least recently used compiled code");
                total -= size;
            }
        }
    }

    fn entries(&self) -> io::Result<Vec<(PathBuf, Metadata)>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            // Another process may have removed it meanwhile.
            if let Ok(metadata) = fs::symlink_metadata(&path) {
                entries.push((path, metadata));
            }
        }
        Ok(entries)
    }
}

/// Returns why a file or directory is not trusted, if another user may have written it.
fn distrust(metadata: &Metadata, user: u32) -> Option<String> {
    let mode = metadata.mode() & 0o7777;
    if metadata.is_symlink() {
        Some("it is a symbolic link".to_owned())
    } else if metadata.uid() != user {
        Some(format!(
            "it belongs to user {}, and this process runs as user {user}",
            metadata.uid()
        ))
    } else if mode & 0o077 != 0 {
        Some(format!(
            "other users have access (mode {mode:04o}): set mode 0700, or use a folder inside it"
        ))
    } else {
        None
    }
}

/// The hash in the name of an entry of this key; None for any other file.
fn entry_hash<'a>(path: &'a Path, key: &str) -> Option<&'a str> {
    path.file_name()?
        .to_str()?
        .strip_prefix(key)?
        .strip_prefix('.')?
        .strip_suffix(SUFFIX)
}

fn hash_file(file: &mut File) -> io::Result<String> {
    use std::io::Seek;
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::PermissionsExt};

    use super::*;

    fn cache(max_bytes: u64) -> CodeCache {
        CodeCache::temporary(max_bytes).expect("a cache")
    }

    fn put(cache: &CodeCache, key: &str, content: &[u8]) -> PathBuf {
        let mut file = cache.temporary_file().expect("a file");
        file.write_all(content).expect("written");
        cache.put(key, file).expect("put");
        let entries = cache.entries().expect("entries");
        entries
            .into_iter()
            .map(|(path, _)| path)
            .find(|path| entry_hash(path, key).is_some())
            .unwrap_or_default()
    }

    fn read(cache: &CodeCache, key: &str) -> Option<Vec<u8>> {
        use std::io::Seek;
        let mut file = cache.get(key)?;
        let mut content = Vec::new();
        file.rewind().expect("rewinds");
        file.read_to_end(&mut content).expect("reads");
        Some(content)
    }

    fn count(cache: &CodeCache) -> usize {
        cache.entries().expect("entries").len()
    }

    #[test]
    fn finds_entry_by_its_exact_key() {
        let cache = cache(1 << 20);
        put(&cache, "aa", b"one");
        put(&cache, "ab", b"two");
        assert_eq!(read(&cache, "aa").as_deref(), Some(&b"one"[..]));
        assert_eq!(read(&cache, "ab").as_deref(), Some(&b"two"[..]));
        assert_eq!(read(&cache, "a"), None);
        assert_eq!(count(&cache), 2, "an unfinished file is left");
    }

    #[test]
    fn removes_damaged_files() {
        let cache = cache(1 << 20);
        for change in [&b"onf"[..], b"on", b"", b"one and more"] {
            let path = put(&cache, "aa", b"one");
            fs::write(&path, change).expect("writes");
            assert_eq!(read(&cache, "aa"), None);
            assert!(
                !path.exists(),
                "the damaged file is left, so the code would be compiled at each load"
            );
        }
    }

    #[test]
    fn ignores_writable_files_and_links() {
        let cache = cache(1 << 20);
        let path = put(&cache, "aa", b"one");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).expect("chmod");
        assert_eq!(read(&cache, "aa"), None);

        let path = put(&cache, "aa", b"one");
        let elsewhere = cache.directory().join("elsewhere");
        fs::rename(&path, &elsewhere).expect("moves");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("links");
        assert_eq!(read(&cache, "aa"), None);
        fs::hard_link(&elsewhere, &path).expect("links");
        assert_eq!(read(&cache, "aa"), None);
    }

    #[test]
    fn distrusts_files_and_directories_of_other_users() {
        let mut cache = cache(1 << 20);
        put(&cache, "aa", b"one");
        let metadata = fs::symlink_metadata(cache.directory()).expect("metadata");
        assert_eq!(distrust(&metadata, cache.user), None);
        cache.user += 1;
        assert!(distrust(&metadata, cache.user).is_some_and(|why| why.contains("belongs to user")));
        assert_eq!(read(&cache, "aa"), None);
    }

    #[test]
    fn refuses_open_or_linked_directory() {
        let parent = tempfile::tempdir().expect("a directory");
        let open = parent.path().join("open");
        DirBuilder::new()
            .mode(0o700)
            .create(&open)
            .expect("created");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("chmod");
        let error = CodeCache::open(&open, 1).expect_err("refused").to_string();
        assert!(
            error.contains("mode 0755") && error.contains("set mode 0700"),
            "{error}"
        );
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path(), &link).expect("links");
        assert!(matches!(
            CodeCache::open(&link, 1),
            Err(CacheError::NotTrusted { .. })
        ));
        let created =
            CodeCache::open(&parent.path().join("a/b"), 1).expect("created with its parents");
        assert_eq!(
            fs::metadata(created.directory()).expect("metadata").mode() & 0o777,
            0o700
        );
    }

    #[test]
    fn evicts_least_recently_used_entries_first() {
        let cache = cache(30);
        let age = |key: &str, seconds| {
            let path = put(&cache, key, &[0; 10]);
            let file = File::options().write(true).open(path).expect("opens");
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
                .expect("sets");
        };
        age("aa", 300);
        age("bb", 200);
        age("cc", 100);
        assert!(read(&cache, "aa").is_some(), "used just now");
        put(&cache, "dd", &[0; 10]);
        let kept = ["aa", "bb", "cc", "dd"].map(|key| read(&cache, key).is_some());
        assert_eq!(kept, [true, false, true, true]);
    }

    #[test]
    fn removes_unfinished_files_of_dead_processes() {
        let cache = cache(1 << 20);
        let (_, old) = cache
            .temporary_file()
            .expect("a file")
            .keep()
            .expect("kept");
        let (_, new) = cache
            .temporary_file()
            .expect("a file")
            .keep()
            .expect("kept");
        let file = File::options().write(true).open(&old).expect("opens");
        file.set_modified(SystemTime::now() - 2 * ABANDONED)
            .expect("sets");
        cache.evict();
        assert_eq!((old.exists(), new.exists()), (false, true));
    }
}

//! The files of a process: volumes in memory, mounted into one tree.
//!
//! The process finds one preopened folder, `/`. Between the mounts there are only folders that
//! cannot be written. Nothing leads out of the tree: it is no part of the host's file system, there
//! are no symbolic links, and `..` never leaves the folder against which a path is resolved.

mod volume;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

pub use self::volume::{EmptyDir, FileError, Projected};
use self::volume::{File, Opened, Volume};
pub(super) use self::volume::{Listed, OpenOptions, Stat};
use super::errno::Errno;

/// The longest path, in bytes (`PATH_MAX`).
pub(super) const MAX_PATH: u32 = 4096;

/// The most names in a path from the root.
const MAX_NAMES: usize = 256;

/// The mounts of a process. Empty by default: it has an empty `/` then.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// By the names of the mount point's path.
    mounts: BTreeMap<Vec<String>, Mount>,
}

#[derive(Clone, Debug)]
struct Mount {
    volume: Arc<Volume>,
    /// The path within the volume (`subPath`).
    sub_path: Vec<String>,
    /// True if the process may write here, where the volume can be written.
    can_write: bool,
}

impl Mount {
    fn check_write(&self) -> Result<(), Errno> {
        if self.can_write {
            Ok(())
        } else {
            Err(Errno::ROFS)
        }
    }

    fn open(&self, path: &[String], options: OpenOptions) -> Result<Opened, Errno> {
        if !self.can_write && options.create {
            // As on a read-only file system, what exists can be opened with the flag all the same.
            let existing = OpenOptions {
                create: false,
                exclusive: false,
                ..options
            };
            return match self.open(path, existing) {
                Ok(_) if options.exclusive => Err(Errno::EXIST),
                Err(Errno::NOENT) => Err(Errno::ROFS),
                opened => opened,
            };
        }

        let changes = options.truncate || options.write && !options.directory;
        match self.volume.open(
            path,
            OpenOptions {
                truncate: options.truncate && self.can_write,
                ..options
            },
        )? {
            Opened::File(_) if changes && !self.can_write => Err(Errno::ROFS),
            opened => Ok(opened),
        }
    }
}

impl Files {
    /// Mounts a volume that the process cannot write. `sub_path` is a path within the volume, to a
    /// folder or a file; empty for all of it.
    ///
    /// # Errors
    /// Returns a [`FileError`] if one of the paths is impossible, or something is mounted there.
    pub fn mount(
        &mut self,
        path: &str,
        volume: &Projected,
        sub_path: &str,
    ) -> Result<(), FileError> {
        self.add(path, &volume.0, sub_path, false)
    }

    /// Mounts a volume that the process can write, like [`Files::mount`]. A `sub_path` that does not
    /// exist becomes a folder.
    ///
    /// # Errors
    /// Fails as [`Files::mount`] does, or if the volume has no room for the folder.
    pub fn mount_empty_dir(
        &mut self,
        path: &str,
        volume: &EmptyDir,
        sub_path: &str,
    ) -> Result<(), FileError> {
        create_sub_path(volume, sub_path)?;
        self.add(path, &volume.0, sub_path, true)
    }

    /// Mounts a volume like [`Files::mount_empty_dir`], in a place where the process cannot write.
    ///
    /// # Errors
    /// Fails as [`Files::mount_empty_dir`] does.
    pub fn mount_empty_dir_read_only(
        &mut self,
        path: &str,
        volume: &EmptyDir,
        sub_path: &str,
    ) -> Result<(), FileError> {
        create_sub_path(volume, sub_path)?;
        self.add(path, &volume.0, sub_path, false)
    }

    /// Reports whether a volume is mounted at exactly this path.
    pub fn has_mount(&self, path: &str) -> bool {
        mount_path(path).is_ok_and(|path| self.mounts.contains_key(&path))
    }

    fn add(
        &mut self,
        path: &str,
        volume: &Arc<Volume>,
        sub_path: &str,
        can_write: bool,
    ) -> Result<(), FileError> {
        let at = mount_path(path)?;
        let mount = Mount {
            volume: volume.clone(),
            sub_path: mount_path(sub_path)?,
            can_write,
        };
        if self.mounts.contains_key(&at) {
            return Err(refused(path, "something is mounted there"));
        }
        self.mounts.insert(at, mount);
        Ok(())
    }

    /// Returns the mount that a path is in, and the path within its volume.
    fn find(&self, path: &[String]) -> Option<(&Mount, Vec<String>)> {
        (0..=path.len()).rev().find_map(|length| {
            let mount = self.mounts.get(&path[..length])?;
            let inside = mount.sub_path.iter().chain(&path[length..]);
            Some((mount, inside.cloned().collect()))
        })
    }

    /// The names below a path that lead to mounts.
    fn mount_points<'a>(&'a self, path: &'a [String]) -> impl Iterator<Item = &'a String> {
        self.mounts
            .keys()
            .filter(move |mounted| mounted.len() > path.len() && mounted.starts_with(path))
            .filter_map(move |mounted| mounted.get(path.len()))
    }

    fn is_mount_point(&self, path: &[String]) -> bool {
        self.mounts.contains_key(path) || self.mount_points(path).next().is_some()
    }

    pub(super) fn stat(&self, path: &[String]) -> Result<Stat, Errno> {
        let found = match self.find(path) {
            Some((mount, inside)) => mount.volume.stat(&inside),
            None => Err(Errno::NOENT),
        };

        let leads_to_mounts = || self.mount_points(path).next().is_some();
        let is_folder = match found {
            Err(Errno::NOENT) => path.is_empty() || leads_to_mounts(),
            Err(Errno::NOTDIR) => leads_to_mounts(),
            _ => false,
        };
        if !is_folder {
            return found;
        }
        Ok(Stat {
            inode: inode_of(path),
            is_directory: true,
            size: 0,
            modified: 0,
        })
    }

    /// Opens a file or a folder.
    pub(super) fn open(&self, path: Vec<String>, options: OpenOptions) -> Result<Entry, Errno> {
        let opened = match self.find(&path) {
            Some((mount, inside)) => mount.open(&inside, options),
            None if self.stat(&path).is_ok() => Ok(Opened::Folder),
            None if options.create => Err(Errno::ROFS),
            None => Err(Errno::NOENT),
        };

        match opened {
            Ok(Opened::File(file)) => Ok(Entry::File(OpenFile {
                file,
                position: 0,
                can_write: options.write,
                appends: false,
            })),
            Ok(Opened::Folder) => Ok(Entry::Directory(Directory { path })),
            Err(Errno::NOENT) if self.stat(&path).is_ok() => {
                Ok(Entry::Directory(Directory { path }))
            }
            Err(error) => Err(error),
        }
    }

    /// Runs a change of one path.
    fn change(
        &self,
        path: &[String],
        change: impl FnOnce(&Volume, &[String]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if self.is_mount_point(path) {
            return Err(Errno::BUSY);
        }
        match self.find(path) {
            Some((mount, inside)) => {
                mount.check_write()?;
                change(&mount.volume, &inside)
            }
            None if path.is_empty() => Err(Errno::BUSY),
            None => Err(Errno::ROFS),
        }
    }

    pub(super) fn create_folder(&self, path: &[String]) -> Result<(), Errno> {
        if self.stat(path).is_ok() {
            return Err(Errno::EXIST);
        }
        self.change(path, Volume::create_folder)
    }

    pub(super) fn remove(&self, path: &[String], is_folder: bool) -> Result<(), Errno> {
        self.change(path, |volume, inside| volume.remove(inside, is_folder))
    }

    pub(super) fn rename(&self, from: &[String], to: &[String]) -> Result<(), Errno> {
        if self.is_mount_point(from) || self.is_mount_point(to) {
            return Err(Errno::BUSY);
        }
        match (self.find(from), self.find(to)) {
            (Some((from, old)), Some((to, new))) if Arc::ptr_eq(&from.volume, &to.volume) => {
                from.check_write()?;
                to.check_write()?;
                from.volume.rename(&old, &new)
            }
            (Some(_), Some(_)) => Err(Errno::XDEV),
            _ => Err(Errno::ROFS),
        }
    }

    /// Sets the time of a file's last change. The times of folders are the host's.
    pub(super) fn set_modified(&self, path: &[String], modified: u64) -> Result<(), Errno> {
        let options = OpenOptions {
            write: true,
            directory: self.stat(path)?.is_directory,
            ..OpenOptions::default()
        };
        match self.open(path.to_vec(), options)? {
            Entry::File(file) => file.set_modified(modified),
            Entry::Directory(_) => Ok(()),
        }
    }

    /// The entries of a folder after one with this inode, in the order of inodes. An entry that is
    /// there all the while is listed exactly once, whatever else comes and goes.
    pub(super) fn list(&self, path: &[String], after: u64) -> Result<Vec<Listed>, Errno> {
        let inside = match self.find(path) {
            Some((mount, inside)) => mount.volume.list(&inside),
            None => Err(Errno::NOENT),
        };
        let mut listed = match inside {
            Ok(children) => children,
            Err(Errno::NOENT) if self.stat(path).is_ok_and(|stat| stat.is_directory) => Vec::new(),
            Err(error) => return Err(error),
        };

        for name in self.mount_points(path) {
            if listed.iter().any(|entry| entry.name == *name) {
                continue;
            }
            let below = [path, std::slice::from_ref(name)].concat();
            if let Ok(stat) = self.stat(&below) {
                listed.push(Listed {
                    name: name.clone(),
                    inode: stat.inode,
                    is_directory: stat.is_directory,
                });
            }
        }

        listed.retain(|entry| entry.inode > after);
        listed.sort_unstable_by_key(|entry| entry.inode);
        Ok(listed)
    }
}

fn refused(path: &str, why: &'static str) -> FileError {
    FileError {
        path: path.to_owned(),
        why,
    }
}

fn mount_path(path: &str) -> Result<Vec<String>, FileError> {
    let names = absolute(&[], path.trim_start_matches('/'));
    names.map_err(|_| {
        refused(
            path,
            "a mount has a path of at most 256 names and 4096 bytes, which does not leave `/`",
        )
    })
}

fn create_sub_path(volume: &EmptyDir, sub_path: &str) -> Result<(), FileError> {
    let created = volume.create_folders(&mount_path(sub_path)?);
    created.map_err(|_| refused(sub_path, "the volume has a file or no room there"))
}

/// Folders between mounts have no inode of their own.
fn inode_of(path: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    // Above those of files.
    hasher.finish() | 1 << 63
}

/// What a path was opened as.
#[derive(Debug)]
pub(super) enum Entry {
    Directory(Directory),
    File(OpenFile),
}

/// An open folder. It is its path: if the folder moves, the descriptor does not follow.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    path: Vec<String>,
}

impl Directory {
    pub fn root() -> Self {
        Self { path: Vec::new() }
    }

    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// Returns the path from the root of a path relative to this folder.
    ///
    /// # Errors
    /// [`Errno::PERM`] if it leads out of the folder.
    pub fn resolve(&self, path: &str) -> Result<Vec<String>, Errno> {
        absolute(&self.path, path)
    }
}

fn absolute(base: &[String], path: &str) -> Result<Vec<String>, Errno> {
    if path.starts_with('/') {
        return Err(Errno::PERM);
    }
    if path.contains('\0') {
        return Err(Errno::INVAL);
    }

    let mut names = base.to_vec();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." if names.len() == base.len() => return Err(Errno::PERM),
            ".." => {
                names.pop();
            }
            name => names.push(name.to_owned()),
        }
    }

    let bytes: usize = names.iter().map(|name| name.len() + 1).sum();
    if names.len() > MAX_NAMES || bytes > MAX_PATH as usize {
        return Err(Errno::NAMETOOLONG);
    }
    Ok(names)
}

/// An open file, with its position. A clone is the same file, and has a position of its own.
#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    file: Arc<File>,
    position: u64,
    can_write: bool,
    pub appends: bool,
}

impl OpenFile {
    /// Returns the same file at another position.
    pub fn at(&self, position: u64) -> Self {
        Self {
            position,
            ..self.clone()
        }
    }

    pub fn stat(&self) -> Stat {
        self.file.stat()
    }

    pub fn can_write(&self) -> bool {
        self.can_write
    }

    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let length = self.file.read_at(self.position, into);
        self.position = self.position.saturating_add(length as u64);
        length
    }

    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        self.file.read_at(offset, into)
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        self.check_write()?;
        let offset = (!self.appends).then_some(self.position);
        self.position = self.file.write_at(offset, bytes)?;
        Ok(())
    }

    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.check_write()?;
        self.file.write_at(Some(offset), bytes).map(drop)
    }

    pub fn set_size(&self, size: u64) -> Result<(), Errno> {
        self.check_write()?;
        self.file.set_size(size)
    }

    pub fn set_modified(&self, modified: u64) -> Result<(), Errno> {
        self.file.set_modified(modified)
    }

    fn check_write(&self) -> Result<(), Errno> {
        if self.can_write {
            Ok(())
        } else {
            Err(Errno::BADF)
        }
    }

    /// Moves the position and returns it.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for a position before the start, or an unknown `whence`.
    pub fn seek(&mut self, offset: i64, whence: u32) -> Result<u64, Errno> {
        let from = match whence {
            0 => 0,
            1 => self.position,
            2 => self.stat().size,
            _ => return Err(Errno::INVAL),
        };
        self.position = from.checked_add_signed(offset).ok_or(Errno::INVAL)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn projected(files: &[(&str, &str)]) -> Projected {
        Projected::new(map(files)).expect("valid")
    }

    fn map(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        let entry = |(name, text): &(&str, &str)| ((*name).to_owned(), text.as_bytes().to_vec());
        files.iter().map(entry).collect()
    }

    fn path(text: &str) -> Vec<String> {
        absolute(&[], text).expect("a path")
    }

    fn open(files: &Files, at: &str, options: OpenOptions) -> Result<OpenFile, Errno> {
        match files.open(path(at), options)? {
            Entry::File(file) => Ok(file),
            Entry::Directory(_) => Err(Errno::ISDIR),
        }
    }

    fn text(files: &Files, at: &str) -> Result<String, Errno> {
        let mut file = open(files, at, OpenOptions::default())?;
        let mut bytes = vec![0; 64];
        let length = file.read(&mut bytes);
        bytes.truncate(length);
        Ok(String::from_utf8(bytes).expect("text"))
    }

    const CREATE: OpenOptions = OpenOptions {
        create: true,
        exclusive: false,
        truncate: false,
        write: true,
        directory: false,
    };

    fn names(files: &Files, at: &str) -> Vec<String> {
        let mut names: Vec<String> = files
            .list(&path(at), 0)
            .expect("a folder")
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn mounts_are_one_tree() {
        let mut files = Files::default();
        let config = projected(&[("a.yaml", "a"), ("sub/b.yaml", "b")]);
        files.mount("/etc/config", &config, "").expect("mounted");
        files
            .mount("/c.yaml", &config, "sub/b.yaml")
            .expect("a file");
        files
            .mount_empty_dir("/tmp", &EmptyDir::new(100, 10), "")
            .expect("mounted");
        files
            .mount("/tmp/in/side", &config, "sub")
            .expect("mounted");

        assert_eq!(names(&files, ""), ["c.yaml", "etc", "tmp"]);
        assert_eq!(names(&files, "etc"), ["config"]);
        assert_eq!(names(&files, "etc/config"), ["a.yaml", "sub"]);
        assert_eq!(names(&files, "tmp"), ["in"]);
        assert_eq!(names(&files, "tmp/in/side"), ["b.yaml"]);
        for (at, content) in [
            ("etc/config/a.yaml", "a"),
            ("etc/config/sub/../a.yaml", "a"),
            ("c.yaml", "b"),
            ("tmp/in/side/b.yaml", "b"),
        ] {
            assert_eq!(text(&files, at).as_deref(), Ok(content), "{at}");
        }
        assert_eq!(text(&files, "etc/nothing"), Err(Errno::NOENT));
        assert_eq!(text(&files, "c.yaml/below"), Err(Errno::NOTDIR));
        assert_eq!(
            files.mount("/tmp", &config, "").expect_err("twice").why,
            "something is mounted there"
        );
    }

    #[test]
    fn nothing_leads_out_of_a_folder() {
        let folder = Directory { path: path("a/b") };
        for outside in ["..", "../x", "c/../../x", "/a/b/c", "c/../../b/c"] {
            assert_eq!(folder.resolve(outside), Err(Errno::PERM), "{outside}");
        }
        assert_eq!(folder.resolve("c/../d"), Ok(path("a/b/d")));
        assert_eq!(folder.resolve("x\0y"), Err(Errno::INVAL));
        assert_eq!(folder.resolve(&"x/".repeat(300)), Err(Errno::NAMETOOLONG));
    }

    #[test]
    fn projected_files_are_replaced_at_once_and_cannot_be_written() {
        let mut files = Files::default();
        let volume = projected(&[("token", "old"), ("ca.crt", "same")]);
        files.mount("/secret", &volume, "").expect("mounted");
        let mut opened = open(&files, "secret/token", OpenOptions::default()).expect("opens");
        let before = files.stat(&path("secret/ca.crt")).expect("there");

        volume
            .replace(map(&[("token", "new"), ("ca.crt", "same")]))
            .expect("replaced");
        assert_eq!(text(&files, "secret/token").as_deref(), Ok("new"));
        assert_eq!(files.stat(&path("secret/ca.crt")), Ok(before));
        let mut bytes = [0; 3];
        assert_eq!((opened.read(&mut bytes), &bytes), (3, b"old"));

        let refused = volume.replace(map(&[("a", "x"), ("a/b", "y")]));
        assert_eq!(refused.expect_err("no folder").path, "a/b");
        assert_eq!(text(&files, "secret/token").as_deref(), Ok("new"));

        assert_eq!(
            open(&files, "secret/token", CREATE).err(),
            Some(Errno::ROFS)
        );
        assert_eq!(open(&files, "secret/new", CREATE).err(), Some(Errno::ROFS));
        assert_eq!(open(&files, "elsewhere", CREATE).err(), Some(Errno::ROFS));
        assert_eq!(files.remove(&path("secret/token"), false), Err(Errno::ROFS));
        assert_eq!(files.remove(&path("secret"), true), Err(Errno::BUSY));
        let moved = files.rename(&path("secret/token"), &path("secret/x"));
        assert_eq!(moved, Err(Errno::ROFS));
    }

    #[test]
    fn impossible_names_are_refused() {
        for name in ["", "..", "a/../b", "a//b", "/a", "a/", "x\0"] {
            let refused = Projected::new(map(&[(name, "")])).expect_err(name);
            assert_eq!(refused.path, name);
        }
        let mut files = Files::default();
        let volume = projected(&[]);
        assert!(files.mount("/a/../../b", &volume, "").is_err());
        assert!(files.mount("/a", &volume, "../b").is_err());
    }

    #[test]
    fn empty_dir_is_bounded() {
        let volume = EmptyDir::new(10, 3);
        let mut files = Files::default();
        files.mount_empty_dir("/tmp", &volume, "").expect("mounted");
        let mut one = open(&files, "tmp/one", CREATE).expect("created");
        one.write(b"12345678").expect("room");
        assert_eq!(one.write(b"901"), Err(Errno::NOSPC));
        assert_eq!(one.write_at(u64::MAX, b"x"), Err(Errno::NOSPC));
        assert_eq!(one.set_size(u64::MAX), Err(Errno::NOSPC));
        assert_eq!(volume.used_bytes(), 8);
        one.write_at(0, b"XX").expect("no growth");
        assert_eq!(text(&files, "tmp/one").as_deref(), Ok("XX345678"));

        files.create_folder(&path("tmp/d")).expect("room");
        open(&files, "tmp/d/two", CREATE).expect("room");
        assert_eq!(open(&files, "tmp/three", CREATE).err(), Some(Errno::NOSPC));
        assert_eq!(files.create_folder(&path("tmp/e")), Err(Errno::NOSPC));

        files.remove(&path("tmp/one"), false).expect("removed");
        assert_eq!(volume.used_bytes(), 8, "it is open");
        assert_eq!(open(&files, "tmp/three", CREATE).err(), Some(Errno::NOSPC));
        drop(one);
        assert_eq!(volume.used_bytes(), 0);
        open(&files, "tmp/three", CREATE).expect("room again");
        assert_eq!(files.remove(&path("tmp/d"), true), Err(Errno::NOTEMPTY));
    }

    #[test]
    fn empty_dir_is_charged_for_what_it_holds() {
        use operetta_core::gate::bytes::ByteBudget;
        let budget = ByteBudget::new("a namespace", 2_000);
        let volume = EmptyDir::charged(1 << 30, 100, Some(budget.open()));
        let mut files = Files::default();
        files.mount_empty_dir("/tmp", &volume, "").expect("mounted");

        let mut one = open(&files, "tmp/one", CREATE).expect("created");
        one.write(&[1; 1_000]).expect("room");
        assert_eq!(budget.used(), 1_512);
        assert_eq!(one.write(&[1; 1_000]), Err(Errno::NOSPC));
        assert_eq!(open(&files, "tmp/two", CREATE).err(), Some(Errno::NOSPC));
        assert_eq!((volume.used_bytes(), budget.used()), (1_000, 1_512));

        one.set_size(10).expect("shrinks");
        open(&files, "tmp/two", CREATE).expect("room again");
        files.remove(&path("tmp/one"), false).expect("removed");
        drop(one);
        assert_eq!(budget.used(), 512);
        drop((files, volume));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn read_only_mount_of_a_shared_volume_changes_nothing() {
        let volume = EmptyDir::new(100, 10);
        let mut files = Files::default();
        files
            .mount_empty_dir("/data", &volume, "")
            .expect("mounted");
        files
            .mount_empty_dir_read_only("/view", &volume, "sub/folder")
            .expect("its subPath is created");
        let mut file = open(&files, "data/sub/folder/f", CREATE).expect("created");
        file.write(b"text").expect("room");

        assert_eq!(text(&files, "view/f").as_deref(), Ok("text"));
        assert_eq!(open(&files, "view/f", CREATE).err(), Some(Errno::ROFS));
        assert_eq!(open(&files, "view/new", CREATE).err(), Some(Errno::ROFS));
        let truncate = OpenOptions {
            truncate: true,
            ..OpenOptions::default()
        };
        assert_eq!(open(&files, "view/f", truncate).err(), Some(Errno::ROFS));
        let reads = OpenOptions {
            write: false,
            ..CREATE
        };
        open(&files, "view/f", reads).expect("it exists");
        let folder = OpenOptions {
            write: true,
            directory: true,
            ..OpenOptions::default()
        };
        assert!(files.open(path("view"), folder).is_ok());

        assert_eq!(files.create_folder(&path("view/d")), Err(Errno::ROFS));
        assert_eq!(files.remove(&path("view/f"), false), Err(Errno::ROFS));
        assert_eq!(
            files.rename(&path("view/f"), &path("view/g")),
            Err(Errno::ROFS)
        );
        assert_eq!(
            files.rename(&path("view/f"), &path("data/g")),
            Err(Errno::ROFS)
        );
        assert_eq!(files.set_modified(&path("view/f"), 1), Err(Errno::ROFS));
        assert_eq!(text(&files, "data/sub/folder/f").as_deref(), Ok("text"));
    }

    #[test]
    fn rename_replaces_and_never_loses() {
        let mut files = Files::default();
        let volume = EmptyDir::new(100, 100);
        files.mount_empty_dir("/tmp", &volume, "").expect("mounted");
        files
            .mount_empty_dir("/other", &EmptyDir::new(1, 1), "")
            .expect("mounted");
        for (name, content) in [("a", "A"), ("b", "BB")] {
            let mut file = open(&files, &format!("tmp/{name}"), CREATE).expect("created");
            file.write(content.as_bytes()).expect("room");
        }
        files.create_folder(&path("tmp/d")).expect("room");
        let rename = |from: &str, to: &str| files.rename(&path(from), &path(to));

        assert_eq!(rename("tmp/a", "tmp/b"), Ok(()));
        assert_eq!(text(&files, "tmp/b").as_deref(), Ok("A"));
        assert_eq!(volume.used_bytes(), 1, "the old one is gone");
        assert_eq!(rename("tmp/b", "tmp/b"), Ok(()));
        assert_eq!(rename("tmp/d", "tmp/d/e"), Err(Errno::INVAL));
        assert_eq!(rename("tmp/d", "tmp/b"), Err(Errno::NOTDIR));
        assert_eq!(rename("tmp/b", "tmp/d"), Err(Errno::ISDIR));
        assert_eq!(rename("tmp/b", "other/b"), Err(Errno::XDEV));
        assert_eq!(rename("tmp/b", "b"), Err(Errno::ROFS));
        assert_eq!(rename("tmp/b", "tmp/d/b"), Ok(()));
        assert_eq!(rename("tmp/d", "tmp/moved"), Ok(()));
        assert_eq!(text(&files, "tmp/moved/b").as_deref(), Ok("A"));
        assert_eq!(names(&files, "tmp"), ["moved"]);
    }

    #[test]
    fn listing_goes_on_after_the_last_entry() {
        let mut files = Files::default();
        files
            .mount_empty_dir("/tmp", &EmptyDir::new(100, 100), "")
            .expect("mounted");
        for name in ["c", "a", "b"] {
            open(&files, &format!("tmp/{name}"), CREATE).expect("created");
        }
        let first = files.list(&path("tmp"), 0).expect("a folder");
        assert_eq!(first[0].name, "c", "in the order of creation");
        files.remove(&path("tmp/c"), false).expect("removed");
        let rest = files.list(&path("tmp"), first[0].inode).expect("a folder");
        assert_eq!(rest, first[1..]);
    }

    #[test]
    fn deep_tree_is_dropped_without_recursion() {
        let volume = EmptyDir::new(1, 1 << 20);
        let mut files = Files::default();
        files.mount_empty_dir("/t", &volume, "").expect("mounted");
        // Each step puts the whole chain into a new folder, so no path is long.
        files.create_folder(&path("t/a")).expect("room");
        for _ in 0..100_000 {
            files.create_folder(&path("t/b")).expect("room");
            files.rename(&path("t/a"), &path("t/b/a")).expect("moved");
            files.rename(&path("t/b"), &path("t/a")).expect("moved");
        }
        drop(files);
        drop(volume);
    }
}

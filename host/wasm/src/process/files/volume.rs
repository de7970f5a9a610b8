//! The volumes of a process: trees of files in memory.
//!
//! Files are found by inode in one flat table for each volume, so that a tree of any depth is
//! dropped without recursion. There are no links: a path has one meaning, and `..` can be resolved
//! in its text.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use operetta_core::gate::bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

use crate::process::{errno::Errno, time::wall_clock};

/// Numbers the files of all volumes.
static NEXT_INODE: AtomicU64 = AtomicU64::new(1);

fn next_inode() -> u64 {
    NEXT_INODE.fetch_add(1, Ordering::Relaxed)
}

/// Files that the host provides and the process reads, as from a ConfigMap, a Secret or a projected
/// volume. Clones are the same volume.
#[derive(Clone, Debug)]
pub struct Projected(pub(super) Arc<Volume>);

/// A folder for the process's own files, as an `emptyDir`: it is empty at first and lives as long
/// as its last clone, whichever process uses it. Clones are the same volume.
#[derive(Clone, Debug)]
pub struct EmptyDir(pub(super) Arc<Volume>);

/// Why files cannot be projected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file {path:?} cannot be in a volume: {why}")]
pub struct FileError {
    /// The path of the file in the volume.
    pub path: String,
    /// The reason.
    pub why: &'static str,
}

impl Projected {
    /// Returns a volume with these files, by path within the volume, such as `tls.crt` or
    /// `sub/a.yaml`.
    ///
    /// # Errors
    /// Returns a [`FileError`] for the first impossible path.
    pub fn new(files: BTreeMap<String, Vec<u8>>) -> Result<Self, FileError> {
        let tree = Tree::of(files, None)?;
        Ok(Self(Arc::new(Volume {
            tree: Mutex::new(tree),
            usage: None,
        })))
    }

    /// Checks that a volume can have files with these paths.
    ///
    /// # Errors
    /// Returns a [`FileError`] for the first impossible path.
    pub fn check<'a>(paths: impl IntoIterator<Item = &'a String>) -> Result<(), FileError> {
        let empty = |path: &String| (path.clone(), Vec::new());
        Self::new(paths.into_iter().map(empty).collect()).map(drop)
    }

    /// Replaces all files at once: the process sees either all old or all new ones. What it has open
    /// keeps the old content, as when the kubelet updates a volume. A file whose content does not
    /// change keeps its time.
    ///
    /// # Errors
    /// Returns a [`FileError`] for the first impossible path, and replaces nothing.
    pub fn replace(&self, files: BTreeMap<String, Vec<u8>>) -> Result<(), FileError> {
        let mut tree = self.0.tree.lock();
        let new = Tree::of(files, Some(&tree))?;
        *tree = new;
        Ok(())
    }
}

impl EmptyDir {
    /// Returns a folder for at most `max_bytes` in at most `max_entries` files and folders. Files
    /// that were removed count as long as they are open. A file that grows can take up to twice its
    /// size of the host's memory.
    pub fn new(max_bytes: u64, max_entries: u64) -> Self {
        Self::charged(max_bytes, max_entries, None)
    }

    /// The same, with what it holds charged to a budget. A write for which the budget has no room
    /// fails as one for which the folder has none.
    pub fn charged(max_bytes: u64, max_entries: u64, memory: Option<Bytes>) -> Self {
        let usage = Usage {
            max_bytes,
            max_entries,
            bytes: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            memory: memory.map(Mutex::new),
        };
        Self(Arc::new(Volume {
            tree: Mutex::new(Tree::empty()),
            usage: Some(Arc::new(usage)),
        }))
    }

    /// The bytes in all files.
    pub fn used_bytes(&self) -> u64 {
        let usage = self.0.usage.as_ref();
        usage.map_or(0, |usage| usage.bytes.load(Ordering::Relaxed))
    }

    /// Creates the folders of a path within the volume that do not exist, as the kubelet does for a
    /// `subPath`.
    pub(super) fn create_folders(&self, path: &Path) -> Result<(), Errno> {
        for length in 1..=path.len() {
            match self.0.create_folder(&path[..length]) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// One volume.
#[derive(Debug)]
pub(super) struct Volume {
    tree: Mutex<Tree>,
    /// None for a volume that cannot be written.
    usage: Option<Arc<Usage>>,
}

/// What an `emptyDir` holds, against its limits.
#[derive(Debug)]
struct Usage {
    max_bytes: u64,
    max_entries: u64,
    bytes: AtomicU64,
    entries: AtomicU64,
    /// The charge for all of it; None without one.
    memory: Option<Mutex<Bytes>>,
}

/// About what a file or a folder takes besides its content, in bytes.
const ENTRY_BYTES: u64 = 512;

impl Usage {
    fn take_bytes(&self, more: u64) -> Result<(), Errno> {
        take(&self.bytes, more, self.max_bytes)?;
        self.charge(more).inspect_err(|_| {
            self.bytes.fetch_sub(more, Ordering::Relaxed);
        })
    }

    fn give_bytes(&self, less: u64) {
        self.bytes.fetch_sub(less, Ordering::Relaxed);
        self.discharge(less);
    }

    fn take_entry(&self) -> Result<(), Errno> {
        take(&self.entries, 1, self.max_entries)?;
        self.charge(ENTRY_BYTES).inspect_err(|_| {
            self.entries.fetch_sub(1, Ordering::Relaxed);
        })
    }

    fn give_entry(&self) {
        self.entries.fetch_sub(1, Ordering::Relaxed);
        self.discharge(ENTRY_BYTES);
    }

    fn charge(&self, bytes: u64) -> Result<(), Errno> {
        match &self.memory {
            Some(memory) => memory.lock().take(bytes).map_err(|_| Errno::NOSPC),
            None => Ok(()),
        }
    }

    fn discharge(&self, bytes: u64) {
        if let Some(memory) = &self.memory {
            memory.lock().give(bytes);
        }
    }
}

fn take(used: &AtomicU64, more: u64, max: u64) -> Result<(), Errno> {
    let fits = |used: u64| used.checked_add(more).filter(|after| *after <= max);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        .map(drop)
        .map_err(|_| Errno::NOSPC)
}

/// One file or folder in the count of its volume.
#[derive(Debug)]
struct Counted(Option<Arc<Usage>>);

impl Counted {
    fn new(usage: Option<&Arc<Usage>>) -> Result<Self, Errno> {
        if let Some(usage) = usage {
            usage.take_entry()?;
        }
        Ok(Self(usage.cloned()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(usage) = &self.0 {
            usage.give_entry();
        }
    }
}

/// A file, which lives as long as it has a name or is open.
#[derive(Debug)]
pub(super) struct File {
    inode: u64,
    content: Mutex<Content>,
    counted: Counted,
}

#[derive(Debug)]
struct Content {
    bytes: Vec<u8>,
    /// In nanoseconds since 1970.
    modified: u64,
}

/// What is known of a file without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub inode: u64,
    pub is_directory: bool,
    /// In bytes.
    pub size: u64,
    /// In nanoseconds since 1970.
    pub modified: u64,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub name: String,
    pub inode: u64,
    pub is_directory: bool,
}

impl File {
    fn new(bytes: Vec<u8>, usage: Option<&Arc<Usage>>) -> Result<Arc<Self>, Errno> {
        Ok(Arc::new(Self {
            inode: next_inode(),
            content: Mutex::new(Content {
                bytes,
                modified: wall_clock(),
            }),
            counted: Counted::new(usage)?,
        }))
    }

    pub fn stat(&self) -> Stat {
        let content = self.content.lock();
        Stat {
            inode: self.inode,
            is_directory: false,
            size: content.bytes.len() as u64,
            modified: content.modified,
        }
    }

    /// Reads at an offset; 0 at the end.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let content = self.content.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = content.bytes.get(start..).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        length
    }

    /// Writes at an offset, or at the end. Returns the offset behind the last byte.
    ///
    /// # Errors
    /// [`Errno::NOSPC`] if the volume has no room for all of it. Nothing is written then.
    pub fn write_at(&self, offset: Option<u64>, bytes: &[u8]) -> Result<u64, Errno> {
        let mut content = self.content.lock();
        let start = offset.unwrap_or(content.bytes.len() as u64);
        let end = start.checked_add(bytes.len() as u64).ok_or(Errno::NOSPC)?;
        if end > content.bytes.len() as u64 {
            self.resize(&mut content, end)?;
        }

        // It fits: the file is that long by now.
        let start = usize::try_from(start).map_err(|_| Errno::NOSPC)?;
        if let Some(place) = content.bytes.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        content.modified = wall_clock();
        Ok(end)
    }

    /// Cuts the file or fills it with zeros.
    ///
    /// # Errors
    /// [`Errno::NOSPC`] if the volume has no room.
    pub fn set_size(&self, size: u64) -> Result<(), Errno> {
        let mut content = self.content.lock();
        self.resize(&mut content, size)?;
        content.modified = wall_clock();
        Ok(())
    }

    /// Sets the time of the last change, in nanoseconds since 1970.
    ///
    /// # Errors
    /// [`Errno::ROFS`] in a volume that cannot be written.
    pub fn set_modified(&self, modified: u64) -> Result<(), Errno> {
        self.counted.0.as_ref().ok_or(Errno::ROFS)?;
        self.content.lock().modified = modified;
        Ok(())
    }

    fn resize(&self, content: &mut MutexGuard<'_, Content>, size: u64) -> Result<(), Errno> {
        let usage = self.counted.0.as_ref().ok_or(Errno::ROFS)?;
        let before = content.bytes.len() as u64;
        let length = usize::try_from(size).map_err(|_| Errno::NOSPC)?;

        if size > before {
            usage.take_bytes(size - before)?;
        } else {
            usage.give_bytes(before - size);
        }
        content.bytes.resize(length, 0);
        if size < before {
            content.bytes.shrink_to_fit();
        }
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(usage) = &self.counted.0 {
            let length = self.content.get_mut().bytes.len() as u64;
            usage.give_bytes(length);
        }
    }
}

#[derive(Debug)]
enum Node {
    Folder(Folder),
    File(Arc<File>),
}

#[derive(Debug)]
struct Folder {
    children: BTreeMap<String, u64>,
    modified: u64,
    _counted: Counted,
}

#[derive(Debug)]
struct Tree {
    nodes: HashMap<u64, Node>,
    root: u64,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenOptions {
    pub create: bool,
    /// Fails if it exists.
    pub exclusive: bool,
    pub truncate: bool,
    pub write: bool,
    /// Fails if it is no folder.
    pub directory: bool,
}

/// What was opened.
#[derive(Debug)]
pub(super) enum Opened {
    Folder,
    File(Arc<File>),
}

/// A path below a volume's root.
type Path = [String];

impl Tree {
    fn empty() -> Self {
        let root = next_inode();
        let folder = Folder {
            children: BTreeMap::new(),
            modified: wall_clock(),
            _counted: Counted(None),
        };
        Self {
            nodes: HashMap::from([(root, Node::Folder(folder))]),
            root,
        }
    }

    /// A tree with these files. Files that `old` has with the same path and content are kept.
    fn of(files: BTreeMap<String, Vec<u8>>, old: Option<&Self>) -> Result<Self, FileError> {
        let mut tree = Self::empty();
        for (path, bytes) in files {
            let refused = |why| FileError {
                path: path.clone(),
                why,
            };
            let names: Vec<String> = path.split('/').map(str::to_owned).collect();
            for name in &names {
                check_name(name).map_err(&refused)?;
            }

            let same = old.and_then(|old| match old.node(&names) {
                Ok((_, Node::File(file))) if file.content.lock().bytes == bytes => {
                    Some(file.clone())
                }
                _ => None,
            });
            let file = match same {
                Some(file) => file,
                None => File::new(bytes, None).map_err(|_| refused("there is no room"))?,
            };

            tree.project(&names, file)
                .ok_or_else(|| refused("another file has the name of its folder, or of itself"))?;
        }
        Ok(tree)
    }

    fn project(&mut self, names: &Path, file: Arc<File>) -> Option<()> {
        let (name, folders) = names.split_last()?;
        let mut at = self.root;
        for folder in folders {
            let known = match self.nodes.get(&at)? {
                Node::Folder(parent) => parent.children.get(folder).copied(),
                Node::File(_) => return None,
            };
            at = match known {
                Some(inode) => inode,
                None => {
                    let new = Folder {
                        children: BTreeMap::new(),
                        modified: wall_clock(),
                        _counted: Counted(None),
                    };
                    self.insert(at, folder, next_inode(), Node::Folder(new))
                        .ok()?
                }
            };
        }

        let inode = file.inode;
        self.insert(at, name, inode, Node::File(file))
            .ok()
            .map(drop)
    }

    fn insert(&mut self, folder: u64, name: &str, inode: u64, node: Node) -> Result<u64, Errno> {
        let Some(Node::Folder(folder)) = self.nodes.get_mut(&folder) else {
            return Err(Errno::NOTDIR);
        };
        match folder.children.entry(name.to_owned()) {
            Entry::Occupied(_) => return Err(Errno::EXIST),
            Entry::Vacant(vacant) => {
                vacant.insert(inode);
            }
        }
        folder.modified = wall_clock();
        self.nodes.insert(inode, node);
        Ok(inode)
    }

    fn node(&self, path: &Path) -> Result<(u64, &Node), Errno> {
        let mut inode = self.root;
        for name in path {
            inode = match self.nodes.get(&inode) {
                Some(Node::Folder(folder)) => *folder.children.get(name).ok_or(Errno::NOENT)?,
                Some(Node::File(_)) => return Err(Errno::NOTDIR),
                None => return Err(Errno::NOENT),
            };
        }
        let node = self.nodes.get(&inode).ok_or(Errno::NOENT)?;
        Ok((inode, node))
    }

    /// Returns the inode of the folder that a path is in, and the path's last name.
    fn parent<'p>(&self, path: &'p Path) -> Result<(u64, &'p String), Errno> {
        let (name, parent) = path.split_last().ok_or(Errno::BUSY)?;
        match self.node(parent)? {
            (inode, Node::Folder(_)) => Ok((inode, name)),
            (_, Node::File(_)) => Err(Errno::NOTDIR),
        }
    }

    /// Takes a name out of a folder, and what it stood for out of the table.
    fn take_out(&mut self, folder: u64, name: &str) -> Option<(u64, Node)> {
        let Some(Node::Folder(folder)) = self.nodes.get_mut(&folder) else {
            return None;
        };
        let inode = folder.children.remove(name)?;
        folder.modified = wall_clock();
        let node = self.nodes.remove(&inode)?;
        Some((inode, node))
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" | "." | ".." => Err("an empty name, `.` and `..` name no file"),
        name if name.len() > 255 => Err("a name has at most 255 bytes"),
        name if name.contains('\0') => Err("a name has no zero byte"),
        _ => Ok(()),
    }
}

impl Volume {
    fn usage(&self) -> Result<&Arc<Usage>, Errno> {
        self.usage.as_ref().ok_or(Errno::ROFS)
    }

    pub fn stat(&self, path: &Path) -> Result<Stat, Errno> {
        let tree = self.tree.lock();
        Ok(match tree.node(path)? {
            (_, Node::File(file)) => file.stat(),
            (inode, Node::Folder(folder)) => Stat {
                inode,
                is_directory: true,
                size: 0,
                modified: folder.modified,
            },
        })
    }

    /// The entries of a folder, in the order of their names.
    pub fn list(&self, path: &Path) -> Result<Vec<Listed>, Errno> {
        let tree = self.tree.lock();
        let (_, Node::Folder(folder)) = tree.node(path)? else {
            return Err(Errno::NOTDIR);
        };
        let children = folder.children.iter().map(|(name, inode)| Listed {
            name: name.clone(),
            inode: *inode,
            is_directory: matches!(tree.nodes.get(inode), Some(Node::Folder(_))),
        });
        Ok(children.collect())
    }

    pub fn open(&self, path: &Path, options: OpenOptions) -> Result<Opened, Errno> {
        let mut tree = self.tree.lock();
        let found = match tree.node(path) {
            Ok((_, Node::Folder(_))) => Some(Opened::Folder),
            Ok((_, Node::File(file))) => Some(Opened::File(file.clone())),
            Err(Errno::NOENT) if options.create => None,
            Err(error) => return Err(error),
        };

        match found {
            Some(_) if options.create && options.exclusive => Err(Errno::EXIST),
            Some(Opened::Folder) if options.truncate || options.write && !options.directory => {
                Err(Errno::ISDIR)
            }
            Some(Opened::Folder) => Ok(Opened::Folder),
            Some(Opened::File(_)) if options.directory => Err(Errno::NOTDIR),
            Some(Opened::File(file)) => {
                if options.write || options.truncate {
                    self.usage()?;
                }
                if options.truncate {
                    file.set_size(0)?;
                }
                Ok(Opened::File(file))
            }
            None => {
                let usage = self.usage()?;
                if options.directory {
                    return Err(Errno::INVAL);
                }

                let (folder, name) = tree.parent(path)?;
                check_name(name).map_err(|_| Errno::INVAL)?;
                let file = File::new(Vec::new(), Some(usage))?;
                tree.insert(folder, name, file.inode, Node::File(file.clone()))?;
                Ok(Opened::File(file))
            }
        }
    }

    pub fn create_folder(&self, path: &Path) -> Result<(), Errno> {
        let mut tree = self.tree.lock();
        if tree.node(path).is_ok() {
            return Err(Errno::EXIST);
        }
        let usage = self.usage()?;
        let (folder, name) = tree.parent(path)?;
        check_name(name).map_err(|_| Errno::INVAL)?;

        let new = Folder {
            children: BTreeMap::new(),
            modified: wall_clock(),
            _counted: Counted::new(Some(usage))?,
        };
        tree.insert(folder, name, next_inode(), Node::Folder(new))?;
        Ok(())
    }

    /// Removes a file, or an empty folder.
    pub fn remove(&self, path: &Path, is_folder: bool) -> Result<(), Errno> {
        let mut tree = self.tree.lock();
        match tree.node(path)?.1 {
            Node::File(_) if is_folder => return Err(Errno::NOTDIR),
            Node::Folder(_) if !is_folder => return Err(Errno::ISDIR),
            Node::Folder(folder) if !folder.children.is_empty() => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        self.usage()?;

        let (folder, name) = tree.parent(path)?;
        let removed = tree.take_out(folder, name);
        drop(tree);
        drop(removed);
        Ok(())
    }

    /// Moves a file or a folder. It replaces a file, or an empty folder.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.usage()?;
        let mut tree = self.tree.lock();
        let (inode, node) = tree.node(from)?;
        let is_folder = matches!(node, Node::Folder(_));
        if is_folder && to.len() > from.len() && to.starts_with(from) {
            return Err(Errno::INVAL);
        }

        match tree.node(to) {
            Ok((same, _)) if same == inode => return Ok(()),
            Ok((_, Node::Folder(_))) if !is_folder => return Err(Errno::ISDIR),
            Ok((_, Node::Folder(folder))) if !folder.children.is_empty() => {
                return Err(Errno::NOTEMPTY);
            }
            Ok((_, Node::File(_))) if is_folder => return Err(Errno::NOTDIR),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }

        // Everything is checked before the first change.
        let (old_folder, old_name) = tree.parent(from)?;
        let (new_folder, new_name) = tree.parent(to)?;
        check_name(new_name).map_err(|_| Errno::INVAL)?;
        let replaced = tree.take_out(new_folder, new_name);
        if let Some((inode, node)) = tree.take_out(old_folder, old_name) {
            tree.insert(new_folder, new_name, inode, node)?;
        }
        drop(tree);
        drop(replaced);
        Ok(())
    }
}

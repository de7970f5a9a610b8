//! `wasi:filesystem`: the files of a command, which are the volumes of its [`Files`]. All are in
//! memory, so no function here waits.
//!
//! [`Files`]: crate::process::Files

use bytes::Bytes;
use wasmtime::{Result, component::Resource};
use wasmtime_wasi::{
    async_trait,
    p2::{
        DynInputStream, DynOutputStream, FsError, FsResult, InputStream, OutputStream, Pollable,
        StreamError, StreamResult,
        bindings::{
            clocks::wall_clock::Datetime,
            filesystem::{
                preopens,
                types::{
                    self, Advice, Descriptor, DescriptorFlags, DescriptorStat, DescriptorType,
                    DirectoryEntry, DirectoryEntryStream, ErrorCode, Filesize, MetadataHashValue,
                    NewTimestamp, OpenFlags, PathFlags,
                },
            },
        },
    },
};

use super::{Command, Counted, entry, owned_entry, resource};
use crate::process::{
    errno::Errno,
    files::{Directory, Entry, Listed, OpenFile, OpenOptions, Stat},
    time::wall_clock,
};

/// The most bytes of one read, and of one write to a stream.
const MAX_TRANSFER: usize = 256 << 10;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// What is open.
struct Opened {
    entry: Entry,
    _counted: Counted,
}

/// The rest of a listing.
struct Listing(std::vec::IntoIter<Listed>);

/// Why a stream of a file failed.
#[derive(Debug, thiserror::Error)]
#[error("the file system failed with {0:?}")]
struct FileFailed(Errno);

fn code(error: Errno) -> ErrorCode {
    match error {
        Errno::ACCES => ErrorCode::Access,
        Errno::BADF => ErrorCode::BadDescriptor,
        Errno::BUSY => ErrorCode::Busy,
        Errno::EXIST => ErrorCode::Exist,
        Errno::ILSEQ => ErrorCode::IllegalByteSequence,
        Errno::INVAL => ErrorCode::Invalid,
        Errno::ISDIR => ErrorCode::IsDirectory,
        // WASI 0.2 has no code for too many open files.
        Errno::MFILE => ErrorCode::InsufficientMemory,
        Errno::NAMETOOLONG => ErrorCode::NameTooLong,
        Errno::NOENT => ErrorCode::NoEntry,
        Errno::NOSPC => ErrorCode::InsufficientSpace,
        Errno::NOTDIR => ErrorCode::NotDirectory,
        Errno::NOTEMPTY => ErrorCode::NotEmpty,
        Errno::NOTSUP | Errno::NOSYS => ErrorCode::Unsupported,
        Errno::PERM => ErrorCode::NotPermitted,
        Errno::ROFS => ErrorCode::ReadOnly,
        Errno::SPIPE => ErrorCode::InvalidSeek,
        Errno::XDEV => ErrorCode::CrossDevice,
        _ => ErrorCode::Io,
    }
}

fn failed(error: Errno) -> FsError {
    code(error).into()
}

fn type_of(is_directory: bool) -> DescriptorType {
    if is_directory {
        DescriptorType::Directory
    } else {
        DescriptorType::RegularFile
    }
}

fn stat_of(stat: Stat) -> DescriptorStat {
    let time = Datetime {
        seconds: stat.modified / NANOS_PER_SECOND,
        nanoseconds: (stat.modified % NANOS_PER_SECOND) as u32,
    };
    DescriptorStat {
        type_: type_of(stat.is_directory),
        link_count: 1,
        size: stat.size,
        data_access_timestamp: Some(time),
        data_modification_timestamp: Some(time),
        status_change_timestamp: Some(time),
    }
}

/// The new time of a file's last change, if it is to change.
fn new_time(time: NewTimestamp) -> Option<u64> {
    match time {
        NewTimestamp::NoChange => None,
        NewTimestamp::Now => Some(wall_clock()),
        NewTimestamp::Timestamp(time) => {
            let seconds = time.seconds.saturating_mul(NANOS_PER_SECOND);
            Some(seconds.saturating_add(time.nanoseconds.into()))
        }
    }
}

/// A file is known by its inode, which is never used again.
fn hash_of(stat: Stat) -> MetadataHashValue {
    MetadataHashValue {
        lower: stat.inode,
        upper: 0,
    }
}

impl Command {
    fn opened(&self, this: &Resource<Descriptor>) -> FsResult<&Entry> {
        Ok(&self.table.get(&entry::<Opened, _>(this))?.entry)
    }

    fn file(&self, this: &Resource<Descriptor>) -> FsResult<&OpenFile> {
        match self.opened(this)? {
            Entry::File(file) => Ok(file),
            Entry::Directory(_) => Err(ErrorCode::IsDirectory.into()),
        }
    }

    fn directory(&self, this: &Resource<Descriptor>) -> FsResult<&Directory> {
        match self.opened(this)? {
            Entry::Directory(directory) => Ok(directory),
            Entry::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// The path from the root of a path below a folder.
    fn path(&self, this: &Resource<Descriptor>, path: &str) -> FsResult<Vec<String>> {
        self.directory(this)?.resolve(path).map_err(failed)
    }

    fn stat_opened(&self, this: &Resource<Descriptor>) -> FsResult<Stat> {
        match self.opened(this)? {
            Entry::File(file) => Ok(file.stat()),
            Entry::Directory(directory) => self.files.stat(directory.path()).map_err(failed),
        }
    }

    fn stat_path(&self, this: &Resource<Descriptor>, path: &str) -> FsResult<Stat> {
        let path = self.path(this, path)?;
        self.files.stat(&path).map_err(failed)
    }

    fn add_opened(&mut self, opened: Entry) -> FsResult<Resource<Descriptor>> {
        let opened = Opened {
            entry: opened,
            _counted: self.open.one_more().map_err(failed)?,
        };
        let opened = self.table.push(opened)?;
        Ok(resource(&opened))
    }

    fn add_writer(&mut self, file: OpenFile) -> FsResult<Resource<DynOutputStream>> {
        if !file.can_write() {
            return Err(ErrorCode::BadDescriptor.into());
        }
        let writer: DynOutputStream = Box::new(Writer(file));
        Ok(self.table.push(writer)?)
    }
}

impl preopens::Host for Command {
    fn get_directories(&mut self) -> Result<Vec<(Resource<Descriptor>, String)>> {
        let root = Entry::Directory(Directory::root());
        match self.add_opened(root) {
            Ok(root) => Ok(vec![(root, "/".to_owned())]),
            // Without room for a descriptor the process has no files.
            Err(_) => Ok(Vec::new()),
        }
    }
}

impl types::Host for Command {
    fn convert_error_code(&mut self, error: FsError) -> Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> Result<Option<ErrorCode>> {
        let error = self.table.get(&error)?;
        Ok(error
            .downcast_ref::<FileFailed>()
            .map(|FileFailed(errno)| code(*errno)))
    }
}

impl types::HostDescriptor for Command {
    fn read_via_stream(
        &mut self,
        this: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        let reader: DynInputStream = Box::new(Reader(self.file(&this)?.at(offset)));
        Ok(self.table.push(reader)?)
    }

    fn write_via_stream(
        &mut self,
        this: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        let file = self.file(&this)?.at(offset);
        self.add_writer(file)
    }

    fn append_via_stream(
        &mut self,
        this: Resource<Descriptor>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let mut file = self.file(&this)?.at(0);
        file.appends = true;
        self.add_writer(file)
    }

    async fn advise(
        &mut self,
        this: Resource<Descriptor>,
        _: Filesize,
        _: Filesize,
        _: Advice,
    ) -> FsResult<()> {
        self.file(&this).map(drop)
    }

    async fn sync_data(&mut self, this: Resource<Descriptor>) -> FsResult<()> {
        self.opened(&this).map(drop)
    }

    async fn sync(&mut self, this: Resource<Descriptor>) -> FsResult<()> {
        self.opened(&this).map(drop)
    }

    async fn get_flags(&mut self, this: Resource<Descriptor>) -> FsResult<DescriptorFlags> {
        let more = match self.opened(&this)? {
            Entry::Directory(_) => DescriptorFlags::MUTATE_DIRECTORY,
            Entry::File(file) if file.can_write() => DescriptorFlags::WRITE,
            Entry::File(_) => DescriptorFlags::empty(),
        };
        Ok(DescriptorFlags::READ | more)
    }

    async fn get_type(&mut self, this: Resource<Descriptor>) -> FsResult<DescriptorType> {
        let is_directory = matches!(self.opened(&this)?, Entry::Directory(_));
        Ok(type_of(is_directory))
    }

    async fn set_size(&mut self, this: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        self.file(&this)?.set_size(size).map_err(failed)
    }

    async fn set_times(
        &mut self,
        this: Resource<Descriptor>,
        _: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        match (self.opened(&this)?, new_time(modified)) {
            (Entry::File(file), Some(modified)) => file.set_modified(modified).map_err(failed),
            _ => Ok(()),
        }
    }

    async fn read(
        &mut self,
        this: Resource<Descriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(MAX_TRANSFER)];
        let read = self.file(&this)?.read_at(offset, &mut bytes);
        let is_end = read == 0 && length > 0;
        bytes.truncate(read);
        Ok((bytes, is_end))
    }

    async fn write(
        &mut self,
        this: Resource<Descriptor>,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        self.file(&this)?.write_at(offset, &bytes).map_err(failed)?;
        Ok(bytes.len() as u64)
    }

    async fn read_directory(
        &mut self,
        this: Resource<Descriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        let listed = self.files.list(self.directory(&this)?.path(), 0);
        let listing = Listing(listed.map_err(failed)?.into_iter());
        let listing = self.table.push(listing)?;
        Ok(resource(&listing))
    }

    async fn create_directory_at(
        &mut self,
        this: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        let path = self.path(&this, &path)?;
        self.files.create_folder(&path).map_err(failed)
    }

    async fn stat(&mut self, this: Resource<Descriptor>) -> FsResult<DescriptorStat> {
        self.stat_opened(&this).map(stat_of)
    }

    async fn stat_at(
        &mut self,
        this: Resource<Descriptor>,
        _: PathFlags,
        path: String,
    ) -> FsResult<DescriptorStat> {
        self.stat_path(&this, &path).map(stat_of)
    }

    async fn set_times_at(
        &mut self,
        this: Resource<Descriptor>,
        _: PathFlags,
        path: String,
        _: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let path = self.path(&this, &path)?;
        match new_time(modified) {
            Some(modified) => self.files.set_modified(&path, modified),
            None => self.files.stat(&path).map(drop),
        }
        .map_err(failed)
    }

    async fn link_at(
        &mut self,
        this: Resource<Descriptor>,
        _: PathFlags,
        old_path: String,
        new_directory: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        self.path(&this, &old_path)?;
        self.path(&new_directory, &new_path)?;
        Err(ErrorCode::Unsupported.into())
    }

    async fn open_at(
        &mut self,
        this: Resource<Descriptor>,
        _: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let path = self.path(&this, &path)?;
        // Checked first: a file that was created and not opened would be left behind.
        drop(self.open.one_more().map_err(failed)?);

        let options = OpenOptions {
            create: open.contains(OpenFlags::CREATE),
            exclusive: open.contains(OpenFlags::EXCLUSIVE),
            truncate: open.contains(OpenFlags::TRUNCATE),
            directory: open.contains(OpenFlags::DIRECTORY),
            write: flags.contains(DescriptorFlags::WRITE),
        };
        let opened = self.files.open(path, options).map_err(failed)?;
        self.add_opened(opened)
    }

    /// There are no links, so nothing that exists is one.
    async fn readlink_at(&mut self, this: Resource<Descriptor>, path: String) -> FsResult<String> {
        self.stat_path(&this, &path)?;
        Err(ErrorCode::Invalid.into())
    }

    async fn remove_directory_at(
        &mut self,
        this: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        let path = self.path(&this, &path)?;
        self.files.remove(&path, true).map_err(failed)
    }

    async fn rename_at(
        &mut self,
        this: Resource<Descriptor>,
        old_path: String,
        new_directory: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let from = self.path(&this, &old_path)?;
        let to = self.path(&new_directory, &new_path)?;
        self.files.rename(&from, &to).map_err(failed)
    }

    async fn symlink_at(
        &mut self,
        this: Resource<Descriptor>,
        _: String,
        path: String,
    ) -> FsResult<()> {
        self.path(&this, &path)?;
        Err(ErrorCode::Unsupported.into())
    }

    async fn unlink_file_at(&mut self, this: Resource<Descriptor>, path: String) -> FsResult<()> {
        let path = self.path(&this, &path)?;
        self.files.remove(&path, false).map_err(failed)
    }

    async fn is_same_object(
        &mut self,
        this: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> Result<bool> {
        match (self.stat_opened(&this), self.stat_opened(&other)) {
            (Ok(one), Ok(other)) => Ok(one.inode == other.inode),
            _ => Ok(false),
        }
    }

    async fn metadata_hash(&mut self, this: Resource<Descriptor>) -> FsResult<MetadataHashValue> {
        self.stat_opened(&this).map(hash_of)
    }

    async fn metadata_hash_at(
        &mut self,
        this: Resource<Descriptor>,
        _: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        self.stat_path(&this, &path).map(hash_of)
    }

    fn drop(&mut self, this: Resource<Descriptor>) -> Result<()> {
        self.table.delete(owned_entry::<Opened, _>(&this))?;
        Ok(())
    }
}

impl types::HostDirectoryEntryStream for Command {
    async fn read_directory_entry(
        &mut self,
        this: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = self.table.get_mut(&entry::<Listing, _>(&this))?;
        Ok(listing.0.next().map(|listed| DirectoryEntry {
            type_: type_of(listed.is_directory),
            name: listed.name,
        }))
    }

    fn drop(&mut self, this: Resource<DirectoryEntryStream>) -> Result<()> {
        self.table.delete(owned_entry::<Listing, _>(&this))?;
        Ok(())
    }
}

/// A stream that reads a file from some position on.
struct Reader(OpenFile);

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {}
}

#[async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }

        let mut bytes = vec![0; size.min(MAX_TRANSFER)];
        match self.0.read(&mut bytes) {
            0 => Err(StreamError::Closed),
            length => {
                bytes.truncate(length);
                Ok(bytes.into())
            }
        }
    }
}

/// A stream that writes a file from some position on, or at its end.
struct Writer(OpenFile);

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > MAX_TRANSFER {
            return Err(StreamError::trap(
                "the process wrote more to a file than check-write allowed",
            ));
        }
        let written = self.0.write(&bytes);
        written.map_err(|error| StreamError::LastOperationFailed(FileFailed(error).into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_TRANSFER)
    }
}

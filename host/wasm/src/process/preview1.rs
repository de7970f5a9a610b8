//! The functions of WASI preview 1, for a process. None of them waits: `poll.rs` has the one that
//! does.
//! <https://github.com/WebAssembly/WASI/blob/wasi-0.1/preview1/docs.md>
//!
//! They are written by hand. wasmtime-wasi's `p1` implements the same functions, but its
//! descriptors are files of the host, reached by blocking calls on other threads; its sockets
//! answer `NOTSOCK`, and its poll waits on WASI 0.2 pollables only. There is no place to plug a
//! descriptor of one's own into it. `wiggle`, which generates its reading of arguments from the
//! witx files, would need as many lines of configuration and conversion as the checked reads in
//! `guest.rs` take.

use std::time::Duration;

use operetta_core::nondeterminism;
use wasmtime::Caller;

use super::{
    descriptor::{Descriptor, FileType},
    errno::Errno,
    files::{Directory, Entry, MAX_PATH, OpenOptions, Stat},
    guest::{Buffer, Guest},
    state::{MAX_TRANSFER, Output, State, enter},
    time::{nanos, wall_clock},
};

type Result<T = ()> = std::result::Result<T, Errno>;

/// The bits of `fdflags`.
const APPEND: u16 = 1;
const NONBLOCK: u16 = 4;

/// The bits of `oflags`.
const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const EXCLUSIVE: u32 = 4;
const TRUNCATE: u32 = 8;

/// The right to write, the only one of a descriptor's that matters here.
const RIGHT_WRITE: u64 = 1 << 6;

/// The bits of `fstflags`.
const SET_MODIFIED: u32 = 4;
const SET_MODIFIED_NOW: u32 = 8;

/// The clocks.
pub(super) const REALTIME: u32 = 0;
pub(super) const MONOTONIC: u32 = 1;

/// How much randomness is made before other tasks of the thread get a turn, in bytes.
const RANDOM_PIECE: u32 = 64 << 10;

/// Fills a buffer with random bytes.
pub(super) async fn random_get(mut caller: Caller<'_, State>, buffer: u32, length: u32) -> Result {
    // All of it is checked before the first byte is written.
    enter(&mut caller)?.0.bytes(buffer, length)?;

    let mut rest = Buffer { at: buffer, length };
    while rest.length > 0 {
        let piece = rest.length.min(RANDOM_PIECE);
        let (mut guest, _) = enter(&mut caller)?;
        nondeterminism::source().random(guest.bytes_mut(rest.at, piece)?);
        rest = rest.skip(piece as usize);
        if rest.length > 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Moves bytes between buffers and a descriptor. `one` moves some bytes of one buffer. The first
/// buffer that is not moved as a whole is the last, and so is one with an error, if something was
/// moved before.
fn transfer(
    buffers: impl Iterator<Item = Buffer>,
    mut one: impl FnMut(Buffer) -> Result<usize>,
) -> Result<u32> {
    let mut moved = 0_u32;
    for buffer in buffers {
        let buffer = Buffer {
            length: buffer.length.min(MAX_TRANSFER - moved),
            ..buffer
        };
        if buffer.length == 0 {
            continue;
        }

        match one(buffer) {
            Ok(length) => {
                let length = u32::try_from(length).unwrap_or(buffer.length);
                moved += length.min(buffer.length);
                if length < buffer.length {
                    break;
                }
            }
            Err(_) if moved > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(moved)
}

/// Writes texts, each with a zero byte behind it, and a table of their addresses.
fn put_texts(guest: &mut Guest<'_>, texts: &[Vec<u8>], table: u32, mut at: u32) -> Result {
    for (index, text) in (0_u32..).zip(texts) {
        let entry = index
            .checked_mul(4)
            .and_then(|offset| table.checked_add(offset));
        guest.put_u32(entry.ok_or(Errno::FAULT)?, at)?;
        guest.put(at, text)?;
        let length = u32::try_from(text.len()).map_err(|_| Errno::FAULT)?;
        let end = at.checked_add(length).ok_or(Errno::FAULT)?;
        guest.put(end, &[0])?;
        at = end.checked_add(1).ok_or(Errno::FAULT)?;
    }
    Ok(())
}

fn put_sizes(guest: &mut Guest<'_>, texts: &[Vec<u8>], count: u32, size: u32) -> Result {
    let bytes: usize = texts.iter().map(|text| text.len() + 1).sum();
    let number = |number: usize| u32::try_from(number).map_err(|_| Errno::TOO_BIG);
    guest.put_u32(count, number(texts.len())?)?;
    guest.put_u32(size, number(bytes)?)
}

/// Writes a `filestat`, of 64 bytes.
fn put_stat(guest: &mut Guest<'_>, at: u32, file_type: FileType, stat: Option<Stat>) -> Result {
    let (inode, size, time) = stat.map_or((0, 0, 0), |stat| (stat.inode, stat.size, stat.modified));
    let mut bytes = [0; 64];
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, 1);
    put(8, inode);
    put(16, (file_type as u8).into());
    put(24, 1);
    put(32, size);
    for at in [40, 48, 56] {
        put(at, time);
    }
    guest.put(at, &bytes)
}

fn type_of(stat: Stat) -> FileType {
    if stat.is_directory {
        FileType::Directory
    } else {
        FileType::RegularFile
    }
}

impl State {
    pub(super) fn args_get(&mut self, guest: &mut Guest<'_>, table: u32, texts: u32) -> Result {
        put_texts(guest, &self.args, table, texts)
    }

    pub(super) fn args_sizes_get(
        &mut self,
        guest: &mut Guest<'_>,
        count: u32,
        size: u32,
    ) -> Result {
        put_sizes(guest, &self.args, count, size)
    }

    pub(super) fn environ_get(&mut self, guest: &mut Guest<'_>, table: u32, texts: u32) -> Result {
        put_texts(guest, &self.env, table, texts)
    }

    pub(super) fn environ_sizes_get(
        &mut self,
        guest: &mut Guest<'_>,
        count: u32,
        size: u32,
    ) -> Result {
        put_sizes(guest, &self.env, count, size)
    }

    pub(super) fn clock_res_get(
        &mut self,
        guest: &mut Guest<'_>,
        clock: u32,
        resolution: u32,
    ) -> Result {
        match clock {
            REALTIME | MONOTONIC => guest.put_u64(resolution, nanos(Duration::from_micros(1))),
            _ => Err(Errno::INVAL),
        }
    }

    pub(super) fn clock_time_get(
        &mut self,
        guest: &mut Guest<'_>,
        clock: u32,
        _precision: u64,
        time: u32,
    ) -> Result {
        let now = match clock {
            REALTIME => wall_clock(),
            MONOTONIC => self.monotonic(),
            _ => return Err(Errno::INVAL),
        };
        guest.put_u64(time, now)
    }

    pub(super) fn fd_advise(
        &mut self,
        _: &mut Guest<'_>,
        fd: u32,
        _offset: u64,
        _length: u64,
        _advice: u32,
    ) -> Result {
        self.descriptors.get(fd).map(drop)
    }

    pub(super) fn fd_allocate(
        &mut self,
        _: &mut Guest<'_>,
        fd: u32,
        _offset: u64,
        _length: u64,
    ) -> Result {
        self.descriptors.get(fd)?;
        Err(Errno::NOTSUP)
    }

    pub(super) fn fd_close(&mut self, _: &mut Guest<'_>, fd: u32) -> Result {
        self.descriptors.remove(fd).map(drop)
    }

    pub(super) fn fd_datasync(&mut self, _: &mut Guest<'_>, fd: u32) -> Result {
        self.descriptors.get(fd).map(drop)
    }

    pub(super) fn fd_sync(&mut self, _: &mut Guest<'_>, fd: u32) -> Result {
        self.descriptors.get(fd).map(drop)
    }

    /// Sockets are non-blocking from the start, because Go polls only for descriptors that are.
    pub(super) fn fd_fdstat_get(&mut self, guest: &mut Guest<'_>, fd: u32, stat: u32) -> Result {
        let descriptor = self.descriptors.get(fd)?;
        let flags = match descriptor {
            Descriptor::Socket(_)
            | Descriptor::Listener(_)
            | Descriptor::Lookup(_)
            | Descriptor::Signals(_) => NONBLOCK,
            Descriptor::File(file) if file.appends => APPEND,
            _ => 0,
        };
        let read_only = matches!(descriptor, Descriptor::File(file) if !file.can_write());
        let rights = if read_only { !RIGHT_WRITE } else { u64::MAX };

        let mut bytes = [0; 24];
        bytes[0] = descriptor.file_type() as u8;
        bytes[2..4].copy_from_slice(&flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&rights.to_le_bytes());
        bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        guest.put(stat, &bytes)
    }

    pub(super) fn fd_fdstat_set_flags(&mut self, _: &mut Guest<'_>, fd: u32, flags: u32) -> Result {
        if let Descriptor::File(file) = self.descriptors.get(fd)? {
            file.appends = flags & u32::from(APPEND) != 0;
        }
        Ok(())
    }

    pub(super) fn fd_fdstat_set_rights(
        &mut self,
        _: &mut Guest<'_>,
        fd: u32,
        _base: u64,
        _inheriting: u64,
    ) -> Result {
        self.descriptors.get(fd).map(drop)
    }

    pub(super) fn fd_filestat_get(&mut self, guest: &mut Guest<'_>, fd: u32, stat: u32) -> Result {
        let descriptor = self.descriptors.get(fd)?;
        let known = match descriptor {
            Descriptor::File(file) => Some(file.stat()),
            Descriptor::Directory(directory) => Some(self.files.stat(directory.path())?),
            _ => None,
        };
        put_stat(guest, stat, descriptor.file_type(), known)
    }

    pub(super) fn fd_filestat_set_size(&mut self, _: &mut Guest<'_>, fd: u32, size: u64) -> Result {
        match self.descriptors.get(fd)? {
            Descriptor::File(file) => file.set_size(size),
            _ => Err(Errno::INVAL),
        }
    }

    pub(super) fn fd_filestat_set_times(
        &mut self,
        _: &mut Guest<'_>,
        fd: u32,
        _accessed: u64,
        modified: u64,
        flags: u32,
    ) -> Result {
        if let Descriptor::File(file) = self.descriptors.get(fd)?
            && let Some(modified) = new_time(modified, flags)
        {
            file.set_modified(modified)?;
        }
        Ok(())
    }

    pub(super) fn fd_prestat_get(&mut self, guest: &mut Guest<'_>, fd: u32, at: u32) -> Result {
        self.preopen(fd)?;
        // A folder, whose name has one byte.
        guest.put_u64(at, 1 << 32)
    }

    pub(super) fn fd_prestat_dir_name(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        name: u32,
        length: u32,
    ) -> Result {
        self.preopen(fd)?;
        if length < 1 {
            return Err(Errno::NAMETOOLONG);
        }
        guest.put(name, b"/")
    }

    /// Whether a descriptor is the preopened folder. Programs ask for all from 3 on, until
    /// [`Errno::BADF`].
    fn preopen(&mut self, fd: u32) -> Result {
        match self.descriptors.get(fd)? {
            Descriptor::Directory(directory) if fd == 3 && directory.path().is_empty() => Ok(()),
            _ => Err(Errno::BADF),
        }
    }

    pub(super) fn fd_read(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        buffers: u32,
        count: u32,
        read: u32,
    ) -> Result {
        let descriptor = self.descriptors.get(fd)?;
        guest.bytes(read, 4)?;
        let buffers = guest.buffers(buffers, count)?;

        let length = transfer(buffers, |buffer| {
            let into = guest.bytes_mut(buffer.at, buffer.length)?;
            match descriptor {
                Descriptor::Stdin => Ok(0),
                Descriptor::File(file) => Ok(file.read(into)),
                Descriptor::Socket(socket) => socket.read(into),
                Descriptor::Lookup(lookup) => lookup.read(into),
                Descriptor::Signals(signals) => signals.read(into),
                Descriptor::Directory(_) => Err(Errno::ISDIR),
                Descriptor::Listener(_) => Err(Errno::NOTCONN),
                Descriptor::Stdout | Descriptor::Stderr => Err(Errno::BADF),
            }
        })?;

        guest.put_u32(read, length)
    }

    pub(super) fn fd_pread(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        buffers: u32,
        count: u32,
        offset: u64,
        read: u32,
    ) -> Result {
        let file = match self.descriptors.get(fd)? {
            Descriptor::File(file) => file,
            Descriptor::Directory(_) => return Err(Errno::ISDIR),
            _ => return Err(Errno::SPIPE),
        };

        guest.bytes(read, 4)?;
        let buffers = guest.buffers(buffers, count)?;

        let mut at = offset;
        let length = transfer(buffers, |buffer| {
            let length = file.read_at(at, guest.bytes_mut(buffer.at, buffer.length)?);
            at = at.saturating_add(length as u64);
            Ok(length)
        })?;

        guest.put_u32(read, length)
    }

    pub(super) fn fd_write(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        buffers: u32,
        count: u32,
        written: u32,
    ) -> Result {
        let descriptor = self.descriptors.get(fd)?;
        guest.bytes(written, 4)?;
        let buffers = guest.buffers(buffers, count)?;

        let length = transfer(buffers, |buffer| {
            let bytes = guest.bytes(buffer.at, buffer.length)?;
            match descriptor {
                Descriptor::Stdout => self.life.output.lock().write(Output::STDOUT, bytes),
                Descriptor::Stderr => self.life.output.lock().write(Output::STDERR, bytes),
                Descriptor::File(file) => file.write(bytes)?,
                Descriptor::Socket(socket) => return socket.write(bytes),
                Descriptor::Listener(_) => return Err(Errno::NOTCONN),
                Descriptor::Stdin
                | Descriptor::Directory(_)
                | Descriptor::Lookup(_)
                | Descriptor::Signals(_) => return Err(Errno::BADF),
            }
            Ok(bytes.len())
        })?;

        guest.put_u32(written, length)
    }

    pub(super) fn fd_pwrite(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        buffers: u32,
        count: u32,
        offset: u64,
        written: u32,
    ) -> Result {
        let Descriptor::File(file) = self.descriptors.get(fd)? else {
            return Err(Errno::SPIPE);
        };

        guest.bytes(written, 4)?;
        let buffers = guest.buffers(buffers, count)?;

        let mut at = offset;
        let length = transfer(buffers, |buffer| {
            let bytes = guest.bytes(buffer.at, buffer.length)?;
            file.write_at(at, bytes)?;
            at = at.saturating_add(bytes.len() as u64);
            Ok(bytes.len())
        })?;

        guest.put_u32(written, length)
    }

    pub(super) fn fd_seek(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        offset: i64,
        whence: u32,
        position: u32,
    ) -> Result {
        let Descriptor::File(file) = self.descriptors.get(fd)? else {
            return Err(Errno::SPIPE);
        };
        guest.bytes(position, 8)?;
        let now = file.seek(offset, whence)?;
        guest.put_u64(position, now)
    }

    pub(super) fn fd_tell(&mut self, guest: &mut Guest<'_>, fd: u32, position: u32) -> Result {
        self.fd_seek(guest, fd, 0, 1, position)
    }

    pub(super) fn fd_renumber(&mut self, _: &mut Guest<'_>, from: u32, to: u32) -> Result {
        self.descriptors.renumber(from, to)
    }

    /// Writes entries until the buffer is full. As the specification has it, the last one may be
    /// cut: its reader asks again with a larger buffer.
    pub(super) fn fd_readdir(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        buffer: u32,
        length: u32,
        cookie: u64,
        used: u32,
    ) -> Result {
        let path = self.directory(fd)?.path().to_vec();
        guest.bytes(used, 4)?;
        let into = guest.bytes_mut(buffer, length)?;

        let mut filled = 0;
        for entry in self.files.list(&path, cookie)? {
            let kind = if entry.is_directory {
                FileType::Directory
            } else {
                FileType::RegularFile
            };
            let mut bytes = [0; 24];
            bytes[..8].copy_from_slice(&entry.inode.to_le_bytes());
            bytes[8..16].copy_from_slice(&entry.inode.to_le_bytes());
            // A name has at most 255 bytes.
            bytes[16..20].copy_from_slice(&(entry.name.len() as u32).to_le_bytes());
            bytes[20] = kind as u8;

            for part in [&bytes[..], entry.name.as_bytes()] {
                let room = &mut into[filled..];
                let fits = part.len().min(room.len());
                room[..fits].copy_from_slice(&part[..fits]);
                filled += fits;
            }
            if filled == into.len() {
                break;
            }
        }
        // No more than `length`.
        guest.put_u32(used, filled as u32)
    }

    fn directory(&mut self, fd: u32) -> Result<&Directory> {
        match self.descriptors.get(fd)? {
            Descriptor::Directory(directory) => Ok(directory),
            _ => Err(Errno::NOTDIR),
        }
    }

    /// Returns the path from the root of a path below a folder.
    fn path(&mut self, guest: &Guest<'_>, fd: u32, path: u32, length: u32) -> Result<Vec<String>> {
        let directory = self.directory(fd)?;
        directory.resolve(guest.text(path, length, MAX_PATH)?)
    }

    pub(super) fn path_create_directory(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        path: u32,
        length: u32,
    ) -> Result {
        let path = self.path(guest, fd, path, length)?;
        self.files.create_folder(&path)
    }

    pub(super) fn path_filestat_get(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        _flags: u32,
        path: u32,
        length: u32,
        at: u32,
    ) -> Result {
        let path = self.path(guest, fd, path, length)?;
        let stat = self.files.stat(&path)?;
        put_stat(guest, at, type_of(stat), Some(stat))
    }

    #[expect(clippy::too_many_arguments, reason = "preview 1 has them")]
    pub(super) fn path_filestat_set_times(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        _flags: u32,
        path: u32,
        length: u32,
        _accessed: u64,
        modified: u64,
        what: u32,
    ) -> Result {
        let path = self.path(guest, fd, path, length)?;
        match new_time(modified, what) {
            Some(modified) => self.files.set_modified(&path, modified),
            None => self.files.stat(&path).map(drop),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "preview 1 has them")]
    pub(super) fn path_link(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        _flags: u32,
        path: u32,
        length: u32,
        to_fd: u32,
        to: u32,
        to_length: u32,
    ) -> Result {
        self.path(guest, fd, path, length)?;
        self.path(guest, to_fd, to, to_length)?;
        Err(Errno::NOTSUP)
    }

    #[expect(clippy::too_many_arguments, reason = "preview 1 has them")]
    pub(super) fn path_open(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        _lookup: u32,
        path: u32,
        length: u32,
        open: u32,
        rights: u64,
        _inheriting: u64,
        flags: u32,
        opened: u32,
    ) -> Result {
        let path = self.path(guest, fd, path, length)?;
        guest.bytes(opened, 4)?;
        self.descriptors.check_room()?;

        let options = OpenOptions {
            create: open & CREATE != 0,
            directory: open & DIRECTORY != 0,
            exclusive: open & EXCLUSIVE != 0,
            truncate: open & TRUNCATE != 0,
            write: rights & RIGHT_WRITE != 0,
        };

        let descriptor = match self.files.open(path, options)? {
            Entry::Directory(directory) => Descriptor::Directory(directory),
            Entry::File(mut file) => {
                file.appends = flags & u32::from(APPEND) != 0;
                Descriptor::File(file)
            }
        };
        let number = self.descriptors.add(descriptor)?;
        guest.put_u32(opened, number.0)
    }

    /// There are no links, so nothing that exists is one.
    #[expect(clippy::too_many_arguments, reason = "preview 1 has them")]
    pub(super) fn path_readlink(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        path: u32,
        length: u32,
        _buffer: u32,
        _size: u32,
        _used: u32,
    ) -> Result {
        let path = self.path(guest, fd, path, length)?;
        self.files.stat(&path)?;
        Err(Errno::INVAL)
    }

    pub(super) fn path_remove_directory(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        path: u32,
        length: u32,
    ) -> Result {
        let path = self.path(guest, fd, path, length)?;
        self.files.remove(&path, true)
    }

    #[expect(clippy::too_many_arguments, reason = "preview 1 has them")]
    pub(super) fn path_rename(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        from: u32,
        length: u32,
        to_fd: u32,
        to: u32,
        to_length: u32,
    ) -> Result {
        let from = self.path(guest, fd, from, length)?;
        let to = self.path(guest, to_fd, to, to_length)?;
        self.files.rename(&from, &to)
    }

    pub(super) fn path_symlink(
        &mut self,
        guest: &mut Guest<'_>,
        _target: u32,
        _target_length: u32,
        fd: u32,
        path: u32,
        length: u32,
    ) -> Result {
        self.path(guest, fd, path, length)?;
        Err(Errno::NOTSUP)
    }

    pub(super) fn path_unlink_file(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        path: u32,
        length: u32,
    ) -> Result {
        let path = self.path(guest, fd, path, length)?;
        self.files.remove(&path, false)
    }

    pub(super) fn proc_raise(&mut self, _: &mut Guest<'_>, _signal: u32) -> Result {
        Err(Errno::NOSYS)
    }

    /// The epoch makes a guest yield, and nobody else runs in the process.
    pub(super) fn sched_yield(&mut self, _: &mut Guest<'_>) -> Result {
        Ok(())
    }

    pub(super) fn sock_accept(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        _flags: u32,
        accepted: u32,
    ) -> Result {
        let listener = match self.descriptors.get(fd)? {
            Descriptor::Listener(listening) => listening.listener.clone(),
            Descriptor::Socket(_) => return Err(Errno::INVAL),
            _ => return Err(Errno::NOTSOCK),
        };
        guest.bytes(accepted, 4)?;
        // Checked first: an accepted connection without a number would be lost.
        self.descriptors.check_room()?;
        let socket = listener.accept()?;
        let number = self.descriptors.add(Descriptor::Socket(Box::new(socket)))?;
        guest.put_u32(accepted, number.0)
    }

    #[expect(clippy::too_many_arguments, reason = "preview 1 has them")]
    pub(super) fn sock_recv(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        buffers: u32,
        count: u32,
        flags: u32,
        read: u32,
        out_flags: u32,
    ) -> Result {
        self.check_socket(fd)?;
        if flags != 0 {
            return Err(Errno::NOTSUP);
        }
        guest.put(out_flags, &[0, 0])?;
        self.fd_read(guest, fd, buffers, count, read)
    }

    pub(super) fn sock_send(
        &mut self,
        guest: &mut Guest<'_>,
        fd: u32,
        buffers: u32,
        count: u32,
        _flags: u32,
        written: u32,
    ) -> Result {
        self.check_socket(fd)?;
        self.fd_write(guest, fd, buffers, count, written)
    }

    fn check_socket(&mut self, fd: u32) -> Result {
        match self.descriptors.get(fd)? {
            Descriptor::Socket(_) => Ok(()),
            _ => Err(Errno::NOTSOCK),
        }
    }

    pub(super) fn sock_shutdown(&mut self, _: &mut Guest<'_>, fd: u32, how: u32) -> Result {
        let (read, write) = match how {
            1 => (true, false),
            2 => (false, true),
            3 => (true, true),
            _ => return Err(Errno::INVAL),
        };
        match self.descriptors.get(fd)? {
            Descriptor::Socket(socket) => socket.shutdown(read, write),
            // Go shuts a listener down before it closes it.
            Descriptor::Listener(_) => Ok(()),
            _ => Err(Errno::NOTSOCK),
        }
    }
}

/// The new time of a file's last change, if it is to change.
fn new_time(modified: u64, flags: u32) -> Option<u64> {
    if flags & SET_MODIFIED_NOW != 0 {
        Some(wall_clock())
    } else {
        (flags & SET_MODIFIED != 0).then_some(modified)
    }
}

//! The descriptors of a process: what its small numbers stand for.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    errno::Errno,
    files::{Directory, OpenFile},
    signals::OpenSignals,
    socket::{Listening, Lookup, Ready, Socket},
};

/// A descriptor's number: as POSIX has it, a new one is the lowest that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fd(pub u32);

/// What a descriptor stands for.
#[derive(Debug)]
pub(super) enum Descriptor {
    /// Has nothing to read.
    Stdin,
    Stdout,
    Stderr,
    Directory(Directory),
    File(OpenFile),
    Socket(Box<Socket>),
    Listener(Listening),
    Lookup(Box<Lookup>),
    Signals(OpenSignals),
}

/// The types of files in preview 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FileType {
    Unknown = 0,
    CharacterDevice = 2,
    Directory = 3,
    RegularFile = 4,
    SocketStream = 6,
}

impl Descriptor {
    pub fn file_type(&self) -> FileType {
        match self {
            Self::Stdin | Self::Stdout | Self::Stderr => FileType::CharacterDevice,
            Self::Directory(_) => FileType::Directory,
            Self::File(_) => FileType::RegularFile,
            // Go's net.FileConn and net.FileListener take no other type.
            Self::Socket(_) | Self::Listener(_) => FileType::SocketStream,
            Self::Lookup(_) | Self::Signals(_) => FileType::Unknown,
        }
    }

    /// What a read or an accept would find; None if it would wait.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for a descriptor that is never read.
    pub fn readable(&mut self) -> Result<Option<Ready>, Errno> {
        let always = Some(Ready {
            bytes: 1,
            has_ended: false,
        });
        match self {
            Self::Stdin => Ok(Some(Ready {
                bytes: 0,
                has_ended: true,
            })),
            Self::File(_) => Ok(always),
            Self::Socket(socket) => Ok(socket.readable()),
            Self::Listener(listening) => Ok(listening.listener.readable()),
            Self::Lookup(lookup) => Ok(lookup.readable()),
            Self::Signals(signals) => Ok(signals.readable()),
            Self::Stdout | Self::Stderr | Self::Directory(_) => Err(Errno::INVAL),
        }
    }

    /// The same for a write, or for the end of connecting.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for a descriptor that is never written.
    pub fn writable(&mut self) -> Result<Option<Ready>, Errno> {
        let always = Some(Ready {
            bytes: 1,
            has_ended: false,
        });
        match self {
            Self::Stdout | Self::Stderr | Self::File(_) => Ok(always),
            Self::Socket(socket) => Ok(socket.writable()),
            Self::Stdin
            | Self::Listener(_)
            | Self::Lookup(_)
            | Self::Signals(_)
            | Self::Directory(_) => Err(Errno::INVAL),
        }
    }
}

/// The descriptors of one process.
#[derive(Debug)]
pub(super) struct Descriptors {
    open: Vec<Option<Descriptor>>,
    /// The free numbers below the length of `open`.
    free: BinaryHeap<Reverse<u32>>,
    limit: u32,
}

impl Descriptors {
    /// A table for at most `limit` descriptors.
    pub fn new(limit: u32) -> Self {
        Self {
            open: Vec::new(),
            free: BinaryHeap::new(),
            limit,
        }
    }

    /// Whether one more fits. To be asked before making something that would be lost without a
    /// number.
    ///
    /// # Errors
    /// [`Errno::MFILE`] at the limit.
    pub fn check_room(&self) -> Result<(), Errno> {
        if self.free.is_empty() && self.open.len() >= self.limit as usize {
            return Err(Errno::MFILE);
        }
        Ok(())
    }

    /// Adds a descriptor under the lowest free number.
    ///
    /// # Errors
    /// [`Errno::MFILE`] at the limit.
    pub fn add(&mut self, descriptor: Descriptor) -> Result<Fd, Errno> {
        self.check_room()?;

        if let Some(Reverse(number)) = self.free.pop() {
            if let Some(slot) = self.open.get_mut(number as usize) {
                *slot = Some(descriptor);
            }
            return Ok(Fd(number));
        }

        let number = u32::try_from(self.open.len()).map_err(|_| Errno::MFILE)?;
        self.open.push(Some(descriptor));
        Ok(Fd(number))
    }

    /// # Errors
    /// [`Errno::BADF`] if the number is not open.
    pub fn get(&mut self, number: u32) -> Result<&mut Descriptor, Errno> {
        self.open
            .get_mut(number as usize)
            .and_then(Option::as_mut)
            .ok_or(Errno::BADF)
    }

    /// Closes a descriptor.
    ///
    /// # Errors
    /// [`Errno::BADF`] if the number is not open.
    pub fn remove(&mut self, number: u32) -> Result<Descriptor, Errno> {
        let removed = self
            .open
            .get_mut(number as usize)
            .and_then(Option::take)
            .ok_or(Errno::BADF)?;
        self.free.push(Reverse(number));
        Ok(removed)
    }

    /// Moves a descriptor to the number of another one, and closes that.
    ///
    /// # Errors
    /// [`Errno::BADF`] if one of them is not open.
    pub fn renumber(&mut self, from: u32, to: u32) -> Result<(), Errno> {
        self.get(from)?;
        self.get(to)?;
        if from == to {
            return Ok(());
        }
        let moved = self.remove(from)?;
        *self.get(to)? = moved;
        Ok(())
    }

    /// The number of open descriptors.
    pub fn count(&self) -> usize {
        self.open.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_lowest_free_ones_up_to_the_limit() {
        let mut table = Descriptors::new(4);
        for number in 0..4 {
            assert_eq!(table.add(Descriptor::Stdin), Ok(Fd(number)));
        }
        assert_eq!(table.add(Descriptor::Stdin), Err(Errno::MFILE));

        table.remove(2).expect("open");
        table.remove(1).expect("open");
        assert_eq!(table.remove(1).err(), Some(Errno::BADF));
        assert_eq!(table.count(), 2);
        assert_eq!(table.add(Descriptor::Stdout), Ok(Fd(1)));
        assert_eq!(table.add(Descriptor::Stdout), Ok(Fd(2)));
        assert_eq!(table.add(Descriptor::Stdout), Err(Errno::MFILE));
    }

    #[test]
    fn numbers_that_were_never_open_are_refused() {
        let mut table = Descriptors::new(4);
        table.add(Descriptor::Stdin).expect("room");
        for number in [1, 4, u32::MAX] {
            assert_eq!(table.get(number).err(), Some(Errno::BADF));
            assert_eq!(table.remove(number).err(), Some(Errno::BADF));
            assert_eq!(table.renumber(0, number), Err(Errno::BADF));
            assert_eq!(table.renumber(number, 0), Err(Errno::BADF));
        }
        assert_eq!(table.renumber(0, 0), Ok(()));
        assert_eq!(table.count(), 1);
    }
}

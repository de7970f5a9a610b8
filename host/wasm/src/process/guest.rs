//! The guest's memory, with every access checked.
//!
//! Addresses and lengths come from the guest. Whatever they are, an access is inside the memory, or
//! fails with [`Errno::FAULT`].

use super::errno::Errno;

/// The linear memory of a guest during one host call.
pub(super) struct Guest<'a>(&'a mut [u8]);

/// A buffer of the guest: an address and a length in bytes. Not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    pub at: u32,
    pub length: u32,
}

impl Buffer {
    /// The size of a `ciovec` or an `iovec` in memory, in bytes.
    const SIZE: u32 = 8;

    /// The most buffers in one call, as Linux has it (`IOV_MAX`).
    const MAX: u32 = 1024;

    /// Returns the part after the first `skipped` bytes.
    pub fn skip(self, skipped: usize) -> Self {
        let skipped = u32::try_from(skipped).unwrap_or(u32::MAX).min(self.length);
        Self {
            at: self.at.saturating_add(skipped),
            length: self.length - skipped,
        }
    }
}

impl<'a> Guest<'a> {
    pub fn new(memory: &'a mut [u8]) -> Self {
        Self(memory)
    }

    /// Returns bytes of the memory.
    pub fn bytes(&self, at: u32, length: u32) -> Result<&[u8], Errno> {
        let end = (at as usize).checked_add(length as usize);
        end.and_then(|end| self.0.get(at as usize..end))
            .ok_or(Errno::FAULT)
    }

    /// Returns bytes of the memory, to be written.
    pub fn bytes_mut(&mut self, at: u32, length: u32) -> Result<&mut [u8], Errno> {
        let end = (at as usize).checked_add(length as usize);
        end.and_then(|end| self.0.get_mut(at as usize..end))
            .ok_or(Errno::FAULT)
    }

    fn array<const N: usize>(&self, at: u32) -> Result<[u8; N], Errno> {
        let end = (at as usize).checked_add(N);
        end.and_then(|end| self.0.get(at as usize..end))
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(Errno::FAULT)
    }

    pub fn u8(&self, at: u32) -> Result<u8, Errno> {
        self.array(at).map(u8::from_le_bytes)
    }

    pub fn u16(&self, at: u32) -> Result<u16, Errno> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub fn u32(&self, at: u32) -> Result<u32, Errno> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub fn u64(&self, at: u32) -> Result<u64, Errno> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// Writes bytes, or nothing.
    pub fn put(&mut self, at: u32, bytes: &[u8]) -> Result<(), Errno> {
        let length = u32::try_from(bytes.len()).map_err(|_| Errno::FAULT)?;
        self.bytes_mut(at, length)?.copy_from_slice(bytes);
        Ok(())
    }

    pub fn put_u32(&mut self, at: u32, value: u32) -> Result<(), Errno> {
        self.put(at, &value.to_le_bytes())
    }

    pub fn put_u64(&mut self, at: u32, value: u64) -> Result<(), Errno> {
        self.put(at, &value.to_le_bytes())
    }

    /// Returns a text of at most `max` bytes.
    ///
    /// # Errors
    /// [`Errno::NAMETOOLONG`] for a longer one, [`Errno::ILSEQ`] for one that is not UTF-8.
    pub fn text(&self, at: u32, length: u32, max: u32) -> Result<&str, Errno> {
        if length > max {
            return Err(Errno::NAMETOOLONG);
        }
        std::str::from_utf8(self.bytes(at, length)?).map_err(|_| Errno::ILSEQ)
    }

    /// Returns the buffers of a vectored read or write. The buffers themselves are checked where
    /// they are used.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for more than [`Buffer::MAX`] of them.
    pub fn buffers(
        &self,
        at: u32,
        count: u32,
    ) -> Result<impl Iterator<Item = Buffer> + use<>, Errno> {
        if count > Buffer::MAX {
            return Err(Errno::INVAL);
        }

        // At most 8 KiB, copied so that the caller may write to the memory meanwhile.
        let table = self.bytes(at, count * Buffer::SIZE)?.to_vec();
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        Ok((0..count as usize).map(move |index| {
            let entry = &table[index * 8..][..8];
            Buffer {
                at: word(&entry[..4]),
                length: word(&entry[4..]),
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_outside_memory_is_a_fault() {
        let mut memory = [0; 16];
        let mut guest = Guest::new(&mut memory);
        for (at, length) in [(16, 1), (15, 2), (0, 17), (u32::MAX, 1), (1, u32::MAX)] {
            assert_eq!(guest.bytes(at, length), Err(Errno::FAULT), "{at} {length}");
            assert!(guest.bytes_mut(at, length).is_err(), "{at} {length}");
        }
        assert_eq!(guest.u32(13), Err(Errno::FAULT));
        assert_eq!(guest.u64(u32::MAX - 3), Err(Errno::FAULT));
        assert_eq!(guest.put_u64(9, 1), Err(Errno::FAULT));
        assert_eq!(guest.bytes(16, 0), Ok(&[][..]), "nothing, at the end");
        assert!(memory.iter().all(|byte| *byte == 0), "nothing is written");
    }

    #[test]
    fn buffers_are_bounded() {
        let mut memory = [1; 64];
        let guest = Guest::new(&mut memory);
        assert_eq!(guest.buffers(0, 9).err(), Some(Errno::FAULT));
        assert_eq!(guest.buffers(0, Buffer::MAX + 1).err(), Some(Errno::INVAL));
        assert_eq!(guest.buffers(0, u32::MAX).err(), Some(Errno::INVAL));
        assert_eq!(guest.buffers(0, 8).expect("fits").count(), 8);
    }

    #[test]
    fn skipping_stays_inside_the_buffer() {
        let buffer = Buffer {
            at: u32::MAX,
            length: 3,
        };
        assert_eq!(buffer.skip(usize::MAX).length, 0);
        assert_eq!(
            Buffer { at: 8, length: 3 }.skip(2),
            Buffer { at: 10, length: 1 }
        );
    }
}

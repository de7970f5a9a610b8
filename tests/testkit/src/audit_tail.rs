//! Reads the audit log of a long run while it grows: an hour of load writes several gigabytes.

use std::{fs::File, io, path::PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use crate::{AuditLog, ControlPlane, audit::read_from};

/// Reads each line of an audit log once, and frees the disk space of what it has read. Offsets in
/// the file stay the same. Nobody else can read the freed lines, so a test that uses this does not
/// use [`ControlPlane::audit`].
#[derive(Debug)]
pub struct AuditTail {
    path: PathBuf,
    /// The offset up to which all lines were read. A line begins here.
    read: u64,
}

impl ControlPlane {
    /// Returns a reader of the whole audit log.
    pub fn audit_tail(&self) -> AuditTail {
        AuditTail {
            path: self.audit_path(),
            read: 0,
        }
    }
}

impl AuditTail {
    /// Returns the complete lines since the last call. Blocks.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub fn read_new(&mut self) -> io::Result<AuditLog> {
        let mut file = File::options().read(true).write(true).open(&self.path)?;
        let mut bytes = read_from(&mut file, self.read)?;

        bytes.truncate(
            bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1),
        );

        let length = bytes.len() as u64;
        if length > 0 {
            // The API server may write at its own offset, so the file is not truncated. A file
            // system without holes keeps the bytes.
            let _kept = fallocate(
                &file,
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                self.read,
                length,
            );
            self.read += length;
        }

        Ok(AuditLog::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Returns the size of all lines read so far.
    pub fn bytes(&self) -> u64 {
        self.read
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, os::unix::fs::MetadataExt};

    use super::*;

    #[test]
    fn reads_each_line_once_and_frees_its_space() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.log");
        let mut log = File::create(&path).expect("a file");
        let line = |id: usize| format!("{{\"auditID\":\"{id}\",\"stage\":\"ResponseComplete\"}}\n");
        let first: String = (0..10_000).map(line).collect();
        let half = line(10_000);
        let (half, rest) = half.split_at(20);
        log.write_all((first.clone() + half).as_bytes())
            .expect("written");

        let mut tail = AuditTail {
            path: path.clone(),
            read: 0,
        };
        let ids = |log: AuditLog| -> Vec<String> {
            log.done_by(|_| true)
                .map(|event| event.audit_id.clone())
                .collect()
        };

        let blocks = || fs::metadata(&path).expect("a file").blocks();
        log.sync_all().expect("written");
        let before = blocks();

        assert_eq!(ids(tail.read_new().expect("read")).len(), 10_000);
        assert_eq!(tail.bytes(), first.len() as u64);
        assert!(
            blocks() * 10 < before,
            "{} of {before} blocks are left",
            blocks()
        );

        log.write_all((rest.to_owned() + &line(10_001)).as_bytes())
            .expect("written");
        assert_eq!(ids(tail.read_new().expect("read")), ["10000", "10001"]);
        assert!(ids(tail.read_new().expect("read")).is_empty());
    }
}

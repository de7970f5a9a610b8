//! Errors of the store.

use std::{io, path::PathBuf};

/// A refused read or write. The server answers with a `Status`, and the client decides whether to
/// retry.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An object of this name already exists.
    #[error("object exists")]
    AlreadyExists,
    /// There is no object of this name.
    #[error("object not found")]
    NotFound,
    /// The object does not have the revision that the writer expects.
    #[error("object has revision {current}")]
    Conflict {
        /// The revision it has.
        current: u64,
    },
    /// The revision is older than the window.
    #[error("revision {requested} was compacted; the oldest is {oldest}")]
    Compacted {
        /// The revision that was asked for.
        requested: u64,
        /// The first revision that can be answered.
        oldest: u64,
    },
    /// The revision does not exist yet.
    #[error("revision {requested} is yet to come; the current one is {current}")]
    FutureRevision {
        /// The revision that was asked for.
        requested: u64,
        /// The revision of the last change.
        current: u64,
    },
    /// The change could not be written to the file, and did not happen.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A file that cannot be used. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read or written.
    #[error("failed to {action} {}: {source}", path.display())]
    Io {
        /// A verb, such as `open`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not a log of this program.
    #[error("{} is not a data file of operetta", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file has the format of another version of this program.
    #[error("{} has version {found}, this program reads version {}; move the file away or use that program", path.display(), expected)]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that the file names.
        found: String,
        /// The version of this program.
        expected: u32,
    },
    /// A record in the middle of the file is damaged.
    #[error("{} is damaged at byte {offset}: {reason}; restore a copy, or move the file away", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset of the record.
        offset: u64,
        /// The reason.
        reason: String,
    },
    /// The file ends in the middle of a record, and the remains of an earlier such record are still
    /// there.
    #[error("{} is cut short at byte {offset}, and {} exists; move that file away", path.display(), aside.display())]
    CutShort {
        /// The file.
        path: PathBuf,
        /// The offset of the record.
        offset: u64,
        /// The file to which the bytes would be moved.
        aside: PathBuf,
    },
}

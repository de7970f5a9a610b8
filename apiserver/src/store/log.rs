//! The store's file: an append-only log of changes.
//!
//! The file begins with a line that names its version. Each record has its length, a checksum of the
//! length and one of its content, so that a truncated record can be told from a damaged one. The
//! content is a line of JSON and, for a stored object, its bytes.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{
    error::LogError,
    key::ObjectKey,
    object::{Draft, StoredObject},
};
use crate::apimachinery::group_resource::GroupResource;

const VERSION: u32 = 1;
const MAGIC: &str = "operetta-apiserver-data ";
/// The length, its checksum and the content's checksum.
const FRAME: usize = 12;
/// A log is rewritten once it has grown by this much and is twice as long as what it holds.
const MIN_GROWTH: u64 = 4 << 20;

/// What was found in an opened file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The number of objects.
    pub objects: usize,
    /// The revision of the last change.
    pub revision: u64,
    /// The last record, if it was truncated.
    pub cut_short: Option<CutShort>,
}

/// A truncated last record: a change that was never acknowledged.
#[derive(Debug, PartialEq, Eq)]
pub struct CutShort {
    /// The offset of the record.
    pub offset: u64,
    /// The file to which its bytes were moved.
    pub moved_to: PathBuf,
}

/// The objects of a store at one revision.
pub(super) struct Snapshot {
    pub revision: u64,
    pub objects: Vec<(GroupResource, Arc<StoredObject>)>,
}

/// What receives the changes in a log.
pub(super) trait Replayer {
    fn put(&mut self, resource: &GroupResource, object: StoredObject);
    fn remove(&mut self, resource: &GroupResource, key: &ObjectKey);
    /// Sets the revision, with an empty window.
    fn resume_at(&mut self, revision: u64);
    fn snapshot(&self) -> Snapshot;
}

/// The JSON line of a record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Line {
    Put {
        revision: u64,
        group: String,
        resource: String,
        key: String,
        fields: BTreeMap<String, String>,
    },
    Delete {
        revision: u64,
        group: String,
        resource: String,
        key: String,
    },
    Revision {
        revision: u64,
    },
}

/// A change in its written form.
pub(super) struct Record {
    line: Line,
    tail: Bytes,
}

impl Record {
    pub fn put(resource: &GroupResource, object: &StoredObject) -> Self {
        let draft = object.draft();
        let line = Line::Put {
            revision: object.revision(),
            group: resource.group().to_owned(),
            resource: resource.resource().to_owned(),
            key: object.key().as_str().to_owned(),
            fields: draft
                .fields()
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
        };

        Self {
            line,
            tail: draft.tail().clone(),
        }
    }

    pub fn delete(revision: u64, resource: &GroupResource, key: &ObjectKey) -> Self {
        let line = Line::Delete {
            revision,
            group: resource.group().to_owned(),
            resource: resource.resource().to_owned(),
            key: key.as_str().to_owned(),
        };

        Self {
            line,
            tail: Bytes::new(),
        }
    }

    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut out = vec![0; FRAME];
        serde_json::to_writer(&mut out, &self.line)?;
        out.push(b'\n');
        out.extend_from_slice(&self.tail);

        let length = u32::try_from(out.len() - FRAME)
            .map_err(io::Error::other)?
            .to_le_bytes();
        let sum = crc32fast::hash(&out[FRAME..]).to_le_bytes();

        out[..4].copy_from_slice(&length);
        out[4..8].copy_from_slice(&crc32fast::hash(&length).to_le_bytes());
        out[8..12].copy_from_slice(&sum);

        Ok(out)
    }

    fn replay(content: &[u8], replayer: &mut dyn Replayer) -> Result<u64, String> {
        let end = content
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or("no line")?;

        let line = serde_json::from_slice(&content[..end]).map_err(|error| error.to_string())?;
        match line {
            Line::Put {
                revision,
                group,
                resource,
                key,
                fields,
            } => {
                let tail = Bytes::copy_from_slice(&content[end + 1..]);
                let draft = Draft::from_tail(tail, fields).map_err(|error| error.to_string())?;
                let object = StoredObject::new(ObjectKey::from(key.as_str()), revision, draft);

                replayer.put(&GroupResource::new(&group, &resource), object);
                Ok(revision)
            }
            Line::Delete {
                revision,
                group,
                resource,
                key,
            } => {
                replayer.remove(
                    &GroupResource::new(&group, &resource),
                    &ObjectKey::from(key.as_str()),
                );
                Ok(revision)
            }
            Line::Revision { revision } => Ok(revision),
        }
    }
}

/// An open log, locked against other processes.
pub(super) struct Log {
    path: PathBuf,
    file: File,
    /// The length of the file up to its last whole record.
    length: u64,
    /// The length when it was last rewritten or opened.
    base: u64,
}

impl Log {
    /// Opens or creates the file, and replays it into an empty store.
    pub fn open(path: &Path, replayer: &mut dyn Replayer) -> Result<(Self, Opened), LogError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let mut log = Self {
            file: file.map_err(io_error("open", path))?,
            path: path.to_owned(),
            length: 0,
            base: 0,
        };
        log.lock()?;

        let mut bytes = Vec::new();
        log.file
            .read_to_end(&mut bytes)
            .map_err(io_error("read", path))?;

        if bytes.is_empty() {
            let snapshot = replayer.snapshot();
            log.rewrite(&snapshot)?;
            return Ok((
                log,
                Opened {
                    revision: snapshot.revision,
                    ..Opened::default()
                },
            ));
        }

        let start = check_version(&bytes, path)?;
        let end = replay(&bytes, start, replayer, path)?;
        let cut_short = log.set_aside(&bytes, end)?;

        log.length = end as u64;
        log.base = log.length / 2;
        log.file
            .seek(SeekFrom::Start(log.length))
            .map_err(io_error("read", path))?;

        let snapshot = replayer.snapshot();
        Ok((
            log,
            Opened {
                objects: snapshot.objects.len(),
                revision: snapshot.revision,
                cut_short,
            },
        ))
    }

    fn lock(&self) -> Result<(), LogError> {
        self.file
            .try_lock()
            .map_err(|error| io_error("lock", &self.path)(error.into()))
    }

    /// Moves what follows the last whole record to a file beside the log.
    fn set_aside(&mut self, bytes: &[u8], end: usize) -> Result<Option<CutShort>, LogError> {
        if end == bytes.len() {
            return Ok(None);
        }

        let aside = with_suffix(&self.path, ".cut-short");
        let offset = end as u64;

        let mut copy = match OpenOptions::new().write(true).create_new(true).open(&aside) {
            Ok(copy) => copy,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(LogError::CutShort {
                    path: self.path.clone(),
                    offset,
                    aside,
                });
            }
            Err(error) => return Err(io_error("create", &aside)(error)),
        };

        copy.write_all(&bytes[end..])
            .and_then(|()| copy.sync_all())
            .map_err(io_error("write", &aside))?;

        self.file
            .set_len(offset)
            .map_err(io_error("truncate", &self.path))?;

        Ok(Some(CutShort {
            offset,
            moved_to: aside,
        }))
    }

    /// Appends a record to the file.
    pub fn append(&mut self, record: &Record) -> Result<(), LogError> {
        let written = record
            .encode()
            .and_then(|bytes| self.file.write_all(&bytes).map(|()| bytes.len()));

        match written {
            Ok(bytes) => {
                self.length += bytes as u64;
                Ok(())
            }
            Err(error) => {
                // The next record must not follow half of this one.
                let length = self.length;
                self.file
                    .set_len(length)
                    .and_then(|()| self.file.seek(SeekFrom::Start(length)))
                    .map_err(io_error("truncate", &self.path))?;
                Err(io_error("write", &self.path)(error))
            }
        }
    }

    /// Reports whether most of the file consists of past changes.
    pub fn is_bloated(&self) -> bool {
        self.length > self.base * 2 && self.length - self.base > MIN_GROWTH
    }

    /// Replaces the file by one with every object once.
    pub fn rewrite(&mut self, snapshot: &Snapshot) -> Result<(), LogError> {
        self.base = self.length;

        let path = with_suffix(&self.path, ".new");
        let (file, length) = write_snapshot(&path, snapshot).map_err(io_error("write", &path))?;
        std::fs::rename(&path, &self.path).map_err(io_error("replace", &self.path))?;

        self.file = file;
        self.length = length;
        self.base = length;

        self.lock()
    }
}

fn write_snapshot(path: &Path, snapshot: &Snapshot) -> io::Result<(File, u64)> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;

    let mut out = BufWriter::new(file);
    writeln!(out, "{MAGIC}{VERSION}")?;

    let revision = Record {
        line: Line::Revision {
            revision: snapshot.revision,
        },
        tail: Bytes::new(),
    };
    out.write_all(&revision.encode()?)?;

    for (resource, object) in &snapshot.objects {
        out.write_all(&Record::put(resource, object).encode()?)?;
    }

    let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    let length = file.stream_position()?;
    Ok((file, length))
}

/// Checks the first line, and returns where the records begin.
fn check_version(bytes: &[u8], path: &Path) -> Result<usize, LogError> {
    let foreign = || LogError::Foreign {
        path: path.to_owned(),
    };

    let rest = bytes.strip_prefix(MAGIC.as_bytes()).ok_or_else(foreign)?;
    let end = rest
        .iter()
        .take(20)
        .position(|byte| *byte == b'\n')
        .ok_or_else(foreign)?;

    let found = String::from_utf8_lossy(&rest[..end]).into_owned();
    if found != VERSION.to_string() {
        return Err(LogError::Version {
            path: path.to_owned(),
            found,
            expected: VERSION,
        });
    }

    Ok(MAGIC.len() + end + 1)
}

/// Replays the records, and returns where the last whole one ends.
fn replay(
    bytes: &[u8],
    start: usize,
    replayer: &mut dyn Replayer,
    path: &Path,
) -> Result<usize, LogError> {
    let mut position = start;
    let mut revision = 0;

    loop {
        let damaged = |reason: String| LogError::Damaged {
            path: path.to_owned(),
            offset: position as u64,
            reason,
        };
        match next_record(&bytes[position..]).map_err(damaged)? {
            None => break,
            Some(content) => {
                revision = revision.max(Record::replay(content, replayer).map_err(damaged)?);
                position += FRAME + content.len();
            }
        }
    }

    replayer.resume_at(revision);
    Ok(position)
}

/// The content of the next record; `None` at the end or if the record is truncated.
fn next_record(bytes: &[u8]) -> Result<Option<&[u8]>, String> {
    let Some((frame, rest)) = bytes.split_at_checked(FRAME) else {
        return Ok(None);
    };

    let word =
        |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    if crc32fast::hash(&frame[..4]) != word(4) {
        return Err("the length of a record is wrong".into());
    }
    let Some(content) = rest.get(..word(0) as usize) else {
        return Ok(None);
    };
    if crc32fast::hash(content) != word(8) {
        return Err("the checksum of a record is wrong".into());
    }

    Ok(Some(content))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path: Arc<Path> = path.into();
    move |source| LogError::Io {
        action,
        path: path.to_path_buf(),
        source,
    }
}

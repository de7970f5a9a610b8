//! The history of a run: each request, its fate and its response, each event of a watch, and each
//! action of the user.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// A write that the API server has accepted or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The method and the path.
    pub request: String,
    /// The user, or the ServiceAccount that the host impersonates.
    pub user: String,
    /// The status with which the API server has answered, whatever the host received.
    pub status: u16,
    /// Reports whether the host got another answer, or none.
    pub is_disturbed: bool,
    /// Reports whether the object belonged to an owner that no longer existed.
    pub is_late: bool,
}

/// The recorder of a history.
pub struct History {
    began: Instant,
    lines: Mutex<Vec<String>>,
    writes: Mutex<Vec<Write>>,
}

impl History {
    /// Creates an empty history that begins now.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            lines: Mutex::default(),
            writes: Mutex::default(),
        })
    }

    /// Adds a line, with the time since the beginning.
    pub fn record(&self, what: impl AsRef<str>) {
        self.lines.lock().push(format!(
            "{:10.3} {}",
            self.began.elapsed().as_secs_f64(),
            what.as_ref()
        ));
    }

    /// Adds a write.
    pub fn record_write(&self, write: Write) {
        self.writes.lock().push(write);
    }

    /// Returns the writes so far.
    pub fn writes(&self) -> Vec<Write> {
        self.writes.lock().clone()
    }

    /// Returns the lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }
}

/// Returns a short hash of bytes, which is the same in each process.
pub fn short_hash(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{:08x}", hasher.finish() as u32)
}

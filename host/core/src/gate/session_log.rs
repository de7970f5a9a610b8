//! The log of a reconcile. Its size is limited, and one notice replaces the lines over the limit.

use std::time::Duration;

use crate::{
    gate::{Session, operation::Verb},
    ports::{LogLevel, LogRecord},
};

/// The bytes that a log field is charged in addition to its text.
pub const FIELD_BYTES: usize = size_of::<(String, String)>();

impl Session {
    /// Reports whether a log line of this level would be kept. The call is not counted, because it exists to save work.
    pub fn log_enabled(&self, level: LogLevel) -> bool {
        self.gate.logs.enabled(level)
    }

    /// Returns the bytes that the next log line may have, including [`FIELD_BYTES`] per field. A longer line is
    /// dropped.
    pub fn log_room(&self) -> usize {
        self.gate.limits.log_bytes.saturating_sub(self.log_bytes)
    }

    /// Writes one log line. Over the limit the line is dropped; the first dropped line is replaced by a notice.
    pub fn log(&mut self, level: LogLevel, message: String, fields: Vec<(String, String)>) {
        let bytes =
            message.len() + fields.iter().map(|(name, value)| FIELD_BYTES + name.len() + value.len()).sum::<usize>();
        if self.admit_log(level, bytes) {
            self.keep_line(level, message, fields);
        }
    }

    /// Counts a log line that is longer than [`Session::log_room`] as dropped, without reading it.
    pub fn drop_log(&mut self, level: LogLevel) {
        let kept = self.admit_log(level, usize::MAX);
        debug_assert!(!kept, "nothing has room for it");
    }

    /// Reports whether a line of this size is kept. Counts it, and logs a notice when the limit is reached.
    fn admit_log(&mut self, level: LogLevel, bytes: usize) -> bool {
        if !self.log_enabled(level) {
            return false;
        }
        if self.admit(Verb::Log, 0).is_err() {
            self.meter(Duration::ZERO, true);
            return false;
        }
        let limit = self.gate.limits.log_bytes;
        let before = self.log_bytes;
        let after = self.log_bytes.saturating_add(bytes);
        self.log_bytes = after;
        if before <= limit && after > limit {
            let words = format!("log limit of {limit} bytes per reconcile reached, rest dropped");
            self.keep_line(LogLevel::Warn, words, vec![]);
        }
        after <= limit
    }

    fn keep_line(&self, level: LogLevel, message: String, fields: Vec<(String, String)>) {
        self.gate.logs.write(LogRecord { level, message, fields, reconcile: self.reconcile.clone() });
    }
}

//! The output of a guest to stdout and stderr, on its way to the plugin's log.
//!
//! A WASI stream cannot reach the session, so it collects lines under a lock. Before each host
//! call, and when the call ends, the lines go to the session and count against its limits. The
//! buffer is bounded: one write has at most [`MAX_WRITE`] bytes, an unfinished line at most
//! [`MAX_LINE`].

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use operetta_core::{gate::Session, ports::LogLevel};
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamError, StreamResult},
};

use super::trap_message::{TrapMessage, TrapMessageReader};

/// The maximum length of a line in bytes. Longer lines are split.
const MAX_LINE: usize = 4096;

/// The maximum size of a write in bytes.
const MAX_WRITE: usize = 16 * 1024;

/// The output of one call. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Output(Arc<Mutex<Lines>>);

/// Bytes on their way to become lines of a log.
#[derive(Default)]
pub(crate) struct Lines {
    /// The complete lines of both streams, in the order they were written.
    complete: Vec<(LogLevel, String)>,
    /// The unfinished line of stdout; never more than `MAX_LINE` bytes.
    stdout: Vec<u8>,
    /// The unfinished line of stderr; never more than `MAX_LINE` bytes.
    stderr: Vec<u8>,
    trap_message: TrapMessageReader,
}

impl Output {
    /// Returns the stream logged at this level.
    pub(crate) fn stream(&self, level: LogLevel) -> Stream {
        Stream {
            output: self.clone(),
            level,
        }
    }

    /// Passes the complete lines to the log.
    pub(crate) fn drain(&self, session: &mut Session) {
        let lines = self.0.lock().take_complete();
        for (level, line) in lines {
            session.log(level, line, vec![]);
        }
    }

    /// Passes all lines to the log, including unfinished ones. Returns the trap message in stderr.
    pub(crate) fn finish(&self, session: &mut Session) -> Option<TrapMessage> {
        {
            let mut lines = self.0.lock();
            for level in [LogLevel::Info, LogLevel::Warn] {
                lines.end_line(level);
            }
        }
        self.drain(session);
        self.0.lock().take_message()
    }
}

impl Lines {
    /// Takes the complete lines.
    pub(crate) fn take_complete(&mut self) -> Vec<(LogLevel, String)> {
        std::mem::take(&mut self.complete)
    }

    /// Takes the sentence in stderr that explains a crash.
    pub(crate) fn take_message(&mut self) -> Option<TrapMessage> {
        self.trap_message.take()
    }

    fn unfinished(&mut self, level: LogLevel) -> &mut Vec<u8> {
        if level == LogLevel::Warn {
            &mut self.stderr
        } else {
            &mut self.stdout
        }
    }

    pub(crate) fn write(&mut self, level: LogLevel, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            self.extend(level, text);
            if ends {
                self.end_line(level);
            }
        }
    }

    fn extend(&mut self, level: LogLevel, text: &[u8]) {
        for byte in text {
            let line = self.unfinished(level);
            // Splits the line where a character starts, or at most three bytes later if the text is
            // not UTF-8.
            if line.len() >= MAX_LINE - 3 && (byte & 0xC0) != 0x80 || line.len() >= MAX_LINE {
                self.end_line(level);
            }
            self.unfinished(level).push(*byte);
        }
    }

    /// Ends the line of a stream that has no end yet.
    pub(crate) fn end_line(&mut self, level: LogLevel) {
        let bytes = std::mem::take(self.unfinished(level));
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim_end();
        if line.is_empty() {
            return;
        }

        if level == LogLevel::Warn {
            self.trap_message.read_line(line);
        }
        self.complete.push((level, line.to_owned()));
    }
}

/// One of the two output streams of WASI. It is always ready, and never a terminal.
pub(crate) struct Stream {
    output: Output,
    level: LogLevel,
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.output.stream(self.level))
    }

    /// Discards the output: only WASI 0.3 calls this, and it is not linked.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }
}

#[async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > MAX_WRITE {
            return Err(StreamError::trap(
                "the guest wrote more to a stream than check-write allowed",
            ));
        }
        self.output.0.lock().write(self.level, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(writes: &[(LogLevel, &[u8])]) -> Vec<String> {
        let mut lines = Lines::default();
        for (level, bytes) in writes {
            lines.write(*level, bytes);
        }
        lines.end_line(LogLevel::Info);
        lines.end_line(LogLevel::Warn);
        lines.complete.into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn lines_join_across_writes_per_stream() {
        let writes: &[(LogLevel, &[u8])] = &[
            (LogLevel::Info, b"a"),
            (LogLevel::Warn, b"x\r\n\n"),
            (LogLevel::Info, b"b\nc"),
        ];
        assert_eq!(lines(writes), ["x", "ab", "c"]);
    }

    #[test]
    fn splits_endless_line_between_characters() {
        let text = "é".repeat(MAX_LINE);
        let lines = lines(&[(LogLevel::Info, text.as_bytes())]);
        assert!(lines.len() > 1);
        assert!(
            lines
                .iter()
                .all(|line| line.len() <= MAX_LINE && line.chars().all(|c| c == 'é')),
            "a character is split"
        );
        assert_eq!(lines.concat(), text);
    }

    #[test]
    fn replaces_invalid_utf_8_within_bounds() {
        let lines = lines(&[(LogLevel::Info, &[0x80; 3 * MAX_LINE])]);
        assert_eq!(lines.len(), 3);
        assert!(
            lines
                .iter()
                .all(|line| line.chars().all(|c| c == char::REPLACEMENT_CHARACTER))
        );
    }
}

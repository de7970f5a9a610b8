//! The standard output and error of a command, which go to its log.

use std::sync::Arc;

use bytes::Bytes;
use operetta_core::ports::LogLevel;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    async_trait,
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamError, StreamResult},
};

use crate::process::state::Output;

/// The most bytes of one write.
const MAX_WRITE: usize = 64 << 10;

/// One of the two streams. It is always ready, and never a terminal.
pub(super) struct Printed {
    output: Arc<Mutex<Output>>,
    stream: LogLevel,
}

impl Printed {
    pub fn new(output: &Arc<Mutex<Output>>, stream: LogLevel) -> Self {
        Self {
            output: output.clone(),
            stream,
        }
    }
}

impl IsTerminal for Printed {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Printed {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(Self::new(&self.output, self.stream))
    }

    /// Discards the output: only WASI 0.3 calls this, and it is not linked.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }
}

#[async_trait]
impl Pollable for Printed {
    async fn ready(&mut self) {}
}

#[async_trait]
impl OutputStream for Printed {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > MAX_WRITE {
            return Err(StreamError::trap(
                "the process wrote more to a stream than check-write allowed",
            ));
        }
        self.output.lock().write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE)
    }
}

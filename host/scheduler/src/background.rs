//! Threads for guests that keep theirs for long: everything else goes before them.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// The niceness of these threads (nice(2)): to busy threads of the host they leave nine tenths of a processor.
const NICENESS: i32 = 10;

/// A runtime of threads of a lower priority, without timers and sockets. Dropping it ends them, each at the end of its
/// poll, and drops what they had left.
pub struct Background {
    handle: Handle,
    /// None only while dropping.
    runtime: Option<Runtime>,
}

impl Background {
    /// With so many threads.
    ///
    /// # Errors
    /// A thread does not start.
    pub fn start(threads: usize) -> io::Result<Self> {
        let give_way = || {
            // Of this thread only; a kernel that refuses leaves it as it is.
            let _niceness = rustix::process::nice(NICENESS);
        };
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(threads).thread_name("operetta-background").on_thread_start(give_way);
        let runtime = runtime.event_interval(1).global_queue_interval(1).build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Returns the runtime that runs futures on these threads.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

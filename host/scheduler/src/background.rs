//! Threads of lower priority for guests with long polls.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// The niceness of these threads (nice(2)). They leave nine tenths of a processor to busy threads
/// of the host.
const NICENESS: i32 = 10;

/// A runtime of threads of a lower priority, without timers and sockets. Dropping it ends each
/// thread after its current poll, and drops their tasks.
pub struct Background {
    handle: Handle,
    /// None only while dropping.
    runtime: Option<Runtime>,
}

impl Background {
    /// Starts this number of threads.
    ///
    /// # Errors
    /// Fails if a thread does not start.
    pub fn start(threads: usize) -> io::Result<Self> {
        let renice = || {
            // Applies to this thread only. If the kernel refuses, the thread keeps its priority.
            let _niceness = rustix::process::nice(NICENESS);
        };
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime
            .worker_threads(threads)
            .thread_name("operetta-background")
            .on_thread_start(renice);
        let runtime = runtime.event_interval(1).global_queue_interval(1).build()?;

        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
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

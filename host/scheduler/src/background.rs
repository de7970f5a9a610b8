//! Low-priority threads for guests with long polls.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// nice(2) value of these threads. At 10, busy host threads get nine tenths of a processor and
/// these threads the rest.
const NICENESS: i32 = 10;

/// A runtime of low-priority threads, without timers or sockets. Dropping it stops each thread
/// after its current poll and drops the tasks.
pub struct Background {
    handle: Handle,
    /// None only while dropping.
    runtime: Option<Runtime>,
}

impl Background {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// Fails if a thread does not start.
    pub fn start(threads: usize) -> io::Result<Self> {
        let renice = || {
            // Linux applies this to the calling thread only. If the kernel refuses, the thread
            // simply keeps its priority.
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

    /// The runtime to spawn background futures on.
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

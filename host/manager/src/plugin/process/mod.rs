//! Runs a Plugin's program as a kubelet runs a container: restarts it with a growing delay when it
//! ends, and sends SIGTERM before it stops or replaces it.
//!
//! One task supervises a process. It follows the [`Definition`] that is wanted, and never runs two
//! processes of a shard at once: a new version starts when the old one has ended, as with a
//! Deployment's strategy `Recreate`.

pub mod definition;
pub mod dial;
pub mod inputs;
mod leases;
pub mod network;
mod probes;
pub mod sources;
pub mod state;
pub mod volumes;

use std::{sync::Arc, time::Duration};

use operetta_core::ports::LogLevel;
use operetta_wasm::process::{Exit, ExitReason, Process, SIGTERM};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout},
};

use self::{
    definition::Definition,
    probes::ProbeFailure,
    state::{ProcessState, StateSender, describe, termination},
};
use crate::{logs::store::PluginLog, plugin::crd::Metrics};

/// The longest time between two starts, as the kubelet's.
const MAX_BACKOFF: Duration = Duration::from_secs(300);
/// The delay before the second restart, as the kubelet's.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
/// A process that ran for this long restarts without delay, as the kubelet's.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// A supervised process. Dropping it kills the process.
pub struct Supervisor {
    wanted: watch::Sender<Option<Arc<Definition>>>,
    state: watch::Receiver<ProcessState>,
    running: Running,
    log: Arc<PluginLog>,
    metrics_error: Arc<Mutex<Option<String>>>,
    task: JoinHandle<()>,
}

/// The process that runs, if one does, and what it was started as.
type Running = Arc<Mutex<Option<(Process, Arc<Definition>)>>>;

/// The metrics that a process serves.
pub struct Served {
    /// The process.
    pub process: Process,
    /// Where it serves them.
    pub metrics: Metrics,
    /// The number of their port.
    pub port: u16,
    /// Its log.
    pub log: Arc<PluginLog>,
    /// Why they could not be read the last time.
    pub last_error: Arc<Mutex<Option<String>>>,
}

impl Supervisor {
    /// Starts supervising. Calls `changed` whenever the state has changed.
    pub fn start(log: Arc<PluginLog>, changed: impl Fn() + Send + Sync + 'static) -> Self {
        let (wanted, follow) = watch::channel(None);
        let (sender, state) = state::channel(changed);
        let running = Running::default();
        let task = tokio::spawn(supervise(follow, sender, log.clone(), running.clone()));
        Self {
            wanted,
            state,
            running,
            log,
            metrics_error: Arc::default(),
            task,
        }
    }

    /// Runs this program from now on, or none. A process of another one is ended first.
    pub fn want(&self, definition: Option<Arc<Definition>>) {
        self.wanted.send_if_modified(|wanted| {
            let is_same = match (&*wanted, &definition) {
                (Some(before), Some(after)) => before.is_same(after),
                (None, None) => true,
                _ => false,
            };
            if !is_same {
                *wanted = definition;
            }
            !is_same
        });
    }

    /// The state of the process.
    pub fn state(&self) -> ProcessState {
        self.state.borrow().clone()
    }

    /// The metrics that the process serves; None while it does not run, or has none.
    pub fn served(&self) -> Option<Served> {
        let running = self.running.lock();
        let (process, definition) = running.as_ref()?;
        let metrics = definition.spec.metrics.clone()?;
        Some(Served {
            process: process.clone(),
            port: definition.spec.port_number(&metrics.port)?,
            metrics,
            log: self.log.clone(),
            last_error: self.metrics_error.clone(),
        })
    }

    /// Asks the process to end, and waits until it has, which takes at most its grace period.
    /// Reports whether none runs any more.
    pub async fn stop(&self) -> bool {
        self.want(None);
        let mut state = self.state.clone();
        let stopped = state.wait_for(|state| !state.is_running());
        stopped.await.is_ok()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows what is wanted until nobody wants anything.
async fn supervise(
    mut wanted: watch::Receiver<Option<Arc<Definition>>>,
    state: StateSender,
    log: Arc<PluginLog>,
    running: Running,
) {
    let mut backoff = Backoff::default();
    loop {
        if wanted.wait_for(Option::is_some).await.is_err() {
            return;
        }

        // Before the definition is taken: whoever calls `stop` meanwhile waits for what starts
        // here.
        let unready = match &*wanted.borrow() {
            Some(definition) => probes::unready_at_start(&definition.spec),
            None => None,
        };
        state.started(unready);

        let Some(definition) = wanted.borrow_and_update().clone() else {
            state.idle();
            continue;
        };

        let started = Instant::now();
        let mut sources = definition.sources.clone();
        sources.mark_unchanged();
        log.write_host_line(LogLevel::Info, format!("started {}", definition.digest()));

        let (exit, cause) = run(&definition, &mut wanted, &state, &running).await;
        *running.lock() = None;

        let was_asked = matches!(cause, Cause::Asked);
        let end = match &cause {
            Cause::Probe(failed) => termination(&exit, Some(failed)),
            Cause::Own | Cause::Asked => termination(&exit, None),
        };

        let level = if was_asked {
            LogLevel::Info
        } else {
            LogLevel::Warn
        };
        log.write_host_line(level, describe(&end));

        if was_asked {
            // Its requests are refused only now: it may have had some to send while it was ending.
            definition.retire();
            state.stopped(end);
            backoff = Backoff::default();
            continue;
        }

        let delay = backoff.next(started.elapsed());
        state.ended(end, delay);
        if delay > Duration::ZERO {
            let line = format!("starting again in {} s", delay.as_secs());
            log.write_host_line(LogLevel::Info, line);
        }

        let lacks_something = exit.reason == ExitReason::StartError;
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            // Other code or another spec starts without delay.
            _ = wanted.changed() => backoff = Backoff::default(),
            // What was missing may be there now.
            Ok(()) = sources.changed(), if lacks_something => {}
        }

        if wanted.borrow().is_none() {
            state.idle();
        }
    }
}

/// Why a process ended.
enum Cause {
    /// By itself, or it could not start.
    Own,
    /// Another one is wanted, or none.
    Asked,
    /// It was asked to, because a probe had failed.
    Probe(ProbeFailure),
}

/// Runs one process to its end.
async fn run(
    definition: &Arc<Definition>,
    wanted: &mut watch::Receiver<Option<Arc<Definition>>>,
    state: &StateSender,
    slot: &Running,
) -> (Exit, Cause) {
    // The last one has ended, here or in a replica whose writes are fenced.
    leases::release(definition).await;

    let (process, running, mut volumes) = match definition.start() {
        Ok(started) => started,
        Err(problem) => return (Exit::not_started(problem.message), Cause::Own),
    };

    let _task = AbortOnDrop(tokio::spawn(running));
    *slot.lock() = Some((process.clone(), definition.clone()));

    let dial = |port| dial::connect(&process, port);

    let cause = tokio::select! {
        exit = process.exited() => return (exit, Cause::Own),
        // Also when the supervisor is gone, so that nobody can want anything.
        _ = wanted.changed() => Cause::Asked,
        failed = probes::watch(&definition.spec, &dial, state, &definition.log) => {
            definition.log.write_host_line(LogLevel::Warn, failed.to_string());
            Cause::Probe(failed)
        }
        never = volumes.follow(definition) => match never {},
    };

    let grace = match &cause {
        Cause::Probe(failed) => failed.grace,
        Cause::Own | Cause::Asked => None,
    };
    let exit = terminate(&process, grace.unwrap_or_else(|| definition.grace())).await;
    (exit, cause)
}

/// Asks a process to end, and kills it after its grace period. A process that does not handle
/// signals ends at once, as it would in a container.
async fn terminate(process: &Process, grace: Duration) -> Exit {
    if process.signal(SIGTERM)
        && let Ok(exit) = timeout(grace, process.exited()).await
    {
        return exit;
    }
    process.kill();
    process.exited().await
}

/// The delays between starts.
#[derive(Default)]
struct Backoff {
    /// None before the first end.
    last: Option<Duration>,
}

impl Backoff {
    /// The delay after a process that ran for this long.
    fn next(&mut self, ran: Duration) -> Duration {
        let next = match self.last {
            _ if ran >= FORGOTTEN => Duration::ZERO,
            None => Duration::ZERO,
            Some(Duration::ZERO) => FIRST_BACKOFF,
            Some(last) => (last * 2).min(MAX_BACKOFF),
        };
        self.last = Some(next);
        next
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_as_those_of_a_container() {
        let mut backoff = Backoff::default();
        let short = Duration::from_secs(1);
        let delays: Vec<u64> = (0..8).map(|_| backoff.next(short).as_secs()).collect();
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);

        assert_eq!(backoff.next(FORGOTTEN), Duration::ZERO);
        assert_eq!(backoff.next(short), FIRST_BACKOFF);
    }
}

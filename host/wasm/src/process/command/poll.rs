//! `wasi:io/poll`: where a command waits. wasmtime-wasi's own, around which the host notes that the
//! process waits, and sends what its connections still hold.

use std::{future::poll_fn, pin::pin, sync::Arc};

use wasmtime::{Result, component::Resource};
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi_io::bindings::wasi::io::poll;

use super::{Command, Unsent};
use crate::process::{state::Door, wake::ProcessWaker};

impl Command {
    fn waits(&self) -> Waiting {
        self.life.shared.polled();
        self.publish();
        Waiting {
            waker: self.life.shared.waker.clone(),
            unsent: self.unsent.clone(),
        }
    }
}

/// What has to happen while a process waits.
struct Waiting {
    waker: Arc<ProcessWaker>,
    unsent: Unsent,
}

impl Waiting {
    async fn until<F: Future>(self, done: F) -> F::Output {
        let mut done = pin!(done);
        poll_fn(|context| {
            // Before the look, so that whatever happens after it wakes the process.
            self.waker.register(context.waker());
            self.unsent.send();
            done.as_mut().poll(context)
        })
        .await
    }
}

impl poll::Host for Command {
    async fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> Result<Vec<u32>> {
        let waiting = self.waits();
        let ready = waiting
            .until(poll::Host::poll(&mut self.table, pollables))
            .await;
        self.life.waited();
        ready
    }
}

impl poll::HostPollable for Command {
    async fn block(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        let waiting = self.waits();
        let ready = waiting
            .until(poll::HostPollable::block(&mut self.table, pollable))
            .await;
        self.life.waited();
        ready
    }

    async fn ready(&mut self, pollable: Resource<DynPollable>) -> Result<bool> {
        poll::HostPollable::ready(&mut self.table, pollable).await
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        poll::HostPollable::drop(&mut self.table, pollable)
    }
}

//! Entries of the scheduler's state.

use std::collections::VecDeque;

use crate::run_queue::{RunQueue, Tenant};

/// Identifies a request for a slot, from `State::want` or `State::done` until the slot is taken or
/// the request cancelled. Never reused.
pub type Ticket = u64;

#[derive(Debug)]
pub(super) struct Waiter<W> {
    pub(super) ticket: Ticket,
    pub(super) since: u64,
    /// For how long limits had throttled its account and its group when it began to wait.
    pub(super) throttled_before: u64,
    pub(super) wake: W,
}

#[derive(Debug)]
pub(super) struct Account<W> {
    pub(super) tenant: Tenant,
    pub(super) group: usize,
    /// Sorted by ticket.
    pub(super) waiting: VecDeque<Waiter<W>>,
    /// For how many nanoseconds its group's limit has kept waiters back, in all times that it was
    /// ready.
    pub(super) throttled_by_group: u64,
    /// For how long that limit had throttled the group when the account became ready; None while it
    /// is not.
    pub(super) ready_since: Option<u64>,
}

/// A slot that can still be taken back.
#[derive(Debug)]
pub(super) struct Granted<W> {
    pub(super) account: usize,
    pub(super) waiter: Waiter<W>,
    /// True for a background poll, which can lose its slot at any time. Otherwise the woken task
    /// has not reached a thread yet.
    pub(super) in_background: bool,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) tenant: Tenant,
    /// The run queue of the group's accounts. They stay in it while the group itself is throttled.
    pub(super) queue: RunQueue,
}

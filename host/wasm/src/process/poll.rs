//! `poll_oneoff`: the only call in which a process waits.
//!
//! It is level-triggered: it asks each descriptor whether it is ready, and asks again when
//! something has woken the process. So a call costs time in proportion to its subscriptions, and
//! nothing is kept between calls. A process that waits without a clock has no timer.

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use tokio::time::{Instant, Sleep, sleep_until};
use wasmtime::Caller;

use super::{
    errno::Errno,
    guest::Guest,
    preview1::{MONOTONIC, REALTIME},
    socket::Ready,
    state::{Door, State, enter},
    time::wall_clock,
};

/// The most subscriptions of a call. Go has a limit of 65,535.
const MAX_SUBSCRIPTIONS: u32 = 1 << 16;

/// The sizes of a `subscription` and an `event`, in bytes.
const SUBSCRIPTION: u32 = 48;
const EVENT: u32 = 32;

/// The type of a subscription and of its event.
const CLOCK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;

/// A bit of a clock's flags: its timeout is a time of that clock.
const ABSOLUTE: u16 = 1;

/// A bit of an event's flags: the peer has ended.
const HANGUP: u16 = 1;

/// When a call began, on both clocks.
#[derive(Clone, Copy)]
struct Began {
    at: Instant,
    /// In nanoseconds since 1970.
    wall: u64,
}

/// Waits until at least one subscription is ready, and writes an event for each that is. An error
/// of one subscription goes into its event, because Go's runtime takes any error of the whole call
/// but EINTR for fatal.
pub(super) async fn poll_oneoff(
    mut caller: Caller<'_, State>,
    subscriptions: u32,
    events: u32,
    count: u32,
    ready: u32,
) -> Result<(), Errno> {
    if count == 0 || count > MAX_SUBSCRIPTIONS {
        return Err(Errno::INVAL);
    }

    let (guest, state) = enter(&mut caller)?;
    guest.bytes(subscriptions, count * SUBSCRIPTION)?;
    guest.bytes(events, count * EVENT)?;
    guest.bytes(ready, 4)?;
    state.life.shared.polled();
    state.publish();

    let began = Began {
        at: Instant::now(),
        wall: wall_clock(),
    };
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    let found = poll_fn(|cx| {
        loop {
            let (guest, state) = match enter(&mut caller) {
                Ok(entered) => entered,
                Err(error) => return Poll::Ready(Err(error)),
            };

            // Before the look, so that whatever happens after it wakes the process.
            state.life.shared.waker.register(cx.waker());
            let (found, deadline) = match look(&guest, state, subscriptions, count, began) {
                Ok(looked) => looked,
                Err(error) => return Poll::Ready(Err(error)),
            };
            if !found.is_empty() {
                state.life.shared.waker.clear();
                return Poll::Ready(Ok(found));
            }

            let Some(deadline) = deadline else {
                return Poll::Pending;
            };
            let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    });
    let found = found.await?;

    let (mut guest, state) = enter(&mut caller)?;
    state.life.waited();
    for (index, event) in (0_u32..).zip(&found) {
        // In bounds: the space for all events was checked above.
        guest.put(events + index * EVENT, event)?;
    }
    guest.put_u32(ready, found.len() as u32)
}

type Event = [u8; EVENT as usize];

/// Returns an event for each subscription that is ready, and when the next clock is.
fn look(
    guest: &Guest<'_>,
    state: &mut State,
    subscriptions: u32,
    count: u32,
    began: Began,
) -> Result<(Vec<Event>, Option<Instant>), Errno> {
    let mut events = Vec::new();
    let mut next: Option<Instant> = None;
    let mut now = None;

    for index in 0..count {
        let at = subscriptions + index * SUBSCRIPTION;
        let user_data = guest.u64(at)?;
        let kind = guest.u8(at + 8)?;

        let outcome = match kind {
            CLOCK => match clock(guest, state, at, began)? {
                Ok(Some(due)) if due <= *now.get_or_insert_with(Instant::now) => {
                    Ok(Some(Ready::default()))
                }
                Ok(Some(due)) => {
                    next = Some(next.map_or(due, |next| next.min(due)));
                    Ok(None)
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            },
            READ | WRITE => {
                let descriptor = state.descriptors.get(guest.u32(at + 16)?);
                descriptor.and_then(|descriptor| {
                    if kind == READ {
                        descriptor.readable()
                    } else {
                        descriptor.writable()
                    }
                })
            }
            _ => Err(Errno::INVAL),
        };

        match outcome {
            Ok(None) => {}
            Ok(Some(ready)) => events.push(event(user_data, kind, Ok(ready))),
            Err(error) => events.push(event(user_data, kind, Err(error))),
        }
    }
    Ok((events, next))
}

/// Returns when a clock's subscription is due; None if that is never. The outer error is one of the
/// guest's memory.
fn clock(
    guest: &Guest<'_>,
    state: &State,
    at: u32,
    began: Began,
) -> Result<Result<Option<Instant>, Errno>, Errno> {
    let clock = guest.u32(at + 16)?;
    let timeout = guest.u64(at + 24)?;
    let is_absolute = guest.u16(at + 40)? & ABSOLUTE != 0;

    Ok(match (clock, is_absolute) {
        (REALTIME | MONOTONIC, false) => Ok(began.at.checked_add(Duration::from_nanos(timeout))),
        (MONOTONIC, true) => Ok(state.at_monotonic(timeout)),
        (REALTIME, true) => {
            let rest = timeout.saturating_sub(began.wall);
            Ok(began.at.checked_add(Duration::from_nanos(rest)))
        }
        // The clocks of processor time, and those that do not exist.
        _ => Err(Errno::INVAL),
    })
}

fn event(user_data: u64, kind: u8, outcome: Result<Ready, Errno>) -> Event {
    let mut bytes = [0; EVENT as usize];
    bytes[..8].copy_from_slice(&user_data.to_le_bytes());
    bytes[10] = kind;
    match outcome {
        Ok(ready) => {
            bytes[16..24].copy_from_slice(&ready.bytes.to_le_bytes());
            let flags = if ready.has_ended { HANGUP } else { 0 };
            bytes[24..26].copy_from_slice(&flags.to_le_bytes());
        }
        Err(error) => bytes[8..10].copy_from_slice(&error.0.to_le_bytes()),
    }
    bytes
}

//! Tests of futures, wakers, permits and the alarm, with paused time and a clock that only guests
//! advance.

use std::{
    future::{pending, poll_fn},
    pin::Pin,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    task::{Context, Poll, Wake, Waker},
};

use tokio::time::sleep;

use crate::*;

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A clock of tokio's paused time plus the guests' busy time, in nanoseconds.
#[derive(Clone)]
pub(super) struct Fake(Arc<AtomicU64>, Instant);

impl Fake {
    pub(super) fn new() -> Self {
        Self(Arc::default(), Instant::now())
    }

    pub(super) fn busy(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for Fake {
    fn now(&self) -> u64 {
        self.1.elapsed().as_nanos() as u64 + self.0.load(Ordering::SeqCst)
    }
}

pub(super) fn host(slots: usize) -> (Arc<FairScheduler>, Fake) {
    let clock = Fake::new();
    (FairScheduler::with_clock(slots, None, clock.clone()), clock)
}

fn account(scheduler: &Arc<FairScheduler>, share: Share) -> Arc<Account> {
    scheduler.group("tenant", Share::default()).account(share)
}

/// Spins for `polls` polls of `nanos` each; between them it wakes itself and yields.
pub(super) async fn spin(clock: Fake, nanos: u64, mut polls: u64) {
    poll_fn(|cx| {
        clock.busy(nanos);
        polls -= 1;
        if polls == 0 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A waker that only counts.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns a waker and its count.
fn waker() -> (Waker, Arc<Count>) {
    let count = Arc::new(Count::default());
    (count.clone().into(), count)
}

impl Count {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// Spins on the real clock.
pub(super) fn burn(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[tokio::test(start_paused = true)]
async fn polls_at_once_when_slot_free_and_charges_time() {
    let (scheduler, clock) = host(1);
    let account = account(&scheduler, Share::default());
    account.run(spin(clock.clone(), 3 * MS, 5)).await;
    account.run(async { clock.busy(7) }).await;
    let polled = Duration::from_nanos(15 * MS + 7);
    let usage = Usage {
        polled,
        polls: 6,
        ..Usage::default()
    };
    assert_eq!((account.usage(), account.group().usage()), (usage, usage));
    assert_eq!(scheduler.counts().0, 1);
}

#[tokio::test(start_paused = true)]
async fn spinning_accounts_share_slot_by_weight() {
    let (scheduler, clock) = host(1);
    let [light, heavy] = [100, 300].map(|weight| {
        account(
            &scheduler,
            Share {
                weight,
                ..Share::default()
            },
        )
    });
    let spinning = tokio::spawn(light.run(spin(clock.clone(), MS, 1_000_000)));
    tokio::spawn(heavy.run(spin(clock, MS, 3000)))
        .await
        .expect("no panic");
    let polls = light.usage().polls;
    assert!((950..=1050).contains(&polls), "{polls}");
    spinning.abort();
}

#[tokio::test(start_paused = true)]
async fn waiting_future_holds_no_slot() {
    let (scheduler, clock) = host(1);
    let account = account(&scheduler, Share::default());
    let waiting = tokio::spawn(account.run(sleep(SECOND)));
    let never = tokio::spawn(account.run(pending::<()>()));
    tokio::task::yield_now().await;
    timeout(SECOND / 2, account.run(spin(clock, MS, 10)))
        .await
        .expect("a slot is free");
    waiting.await.expect("no panic");
    assert_eq!(account.usage().polls, 13);
    never.abort();
}

#[tokio::test(start_paused = true)]
async fn dropped_waiters_let_next_waiter_proceed() {
    let (scheduler, clock) = host(1);
    let account = account(&scheduler, Share::default());
    let (waker, woken) = waker();
    let mut holder = Box::pin(account.run(spin(clock, MS, 100)));
    assert!(poll(holder.as_mut(), &waker).is_pending());
    assert_eq!(woken.take(), 1, "it spins without other waiters");
    let mut waiters: Vec<_> = (0..4).map(|_| Box::pin(account.run(async {}))).collect();
    for waiter in &mut waiters {
        assert!(poll(waiter.as_mut(), &waker).is_pending());
    }
    assert_eq!((woken.take(), scheduler.counts().1), (0, 4));
    drop(waiters.remove(1));
    assert!(poll(holder.as_mut(), &waker).is_pending());
    assert_eq!(
        (woken.take(), scheduler.counts().1),
        (1, 3),
        "the first waiter has the slot"
    );
    drop(waiters.remove(0));
    assert_eq!(
        (woken.take(), scheduler.counts().1),
        (1, 2),
        "the second waiter has the slot"
    );
    assert!(
        poll(holder.as_mut(), &waker).is_pending()
            && poll(waiters[1].as_mut(), &waker).is_pending()
    );
    assert!(poll(waiters[0].as_mut(), &waker).is_ready());
    drop(holder);
    assert!(poll(waiters[1].as_mut(), &waker).is_ready());
    assert_eq!(scheduler.counts(), (1, 0, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn panicking_poll_is_charged_and_returns_slot() {
    let (scheduler, clock) = host(1);
    let account = account(&scheduler, Share::default());
    let panicking = account.run(async move {
        clock.busy(MS);
        panic!("a guest's host call");
    });
    assert!(tokio::spawn(panicking).await.is_err());
    assert_eq!(
        (account.usage().polls, account.usage().polled),
        (1, Duration::from_millis(1))
    );
    account.run(async {}).await;
    assert_eq!(scheduler.counts().0, 1);
}

#[tokio::test(start_paused = true)]
async fn wakes_task_that_polled_last() {
    let (scheduler, clock) = host(1);
    let account = account(&scheduler, Share::default());
    let (first, first_woken) = waker();
    let (second, second_woken) = waker();
    let mut holder = Box::pin(account.run(spin(clock, MS, 100)));
    let mut waiter = Box::pin(account.run(async {}));
    assert!(poll(holder.as_mut(), &first).is_pending());
    assert!(
        poll(waiter.as_mut(), &first).is_pending() && poll(waiter.as_mut(), &second).is_pending()
    );
    first_woken.take();
    drop(holder);
    assert_eq!((first_woken.take(), second_woken.take()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn wake_while_waiting_is_not_lost() {
    let (scheduler, clock) = host(1);
    let account = account(&scheduler, Share::default());
    let (waker, woken) = waker();
    let inner = Arc::new(Mutex::new(None::<Waker>));
    let kept = inner.clone();
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = polls.clone();
    let mut guest = Box::pin(account.run(poll_fn(move |cx| {
        *kept.lock() = Some(cx.waker().clone());
        if counted.fetch_add(1, Ordering::SeqCst) < 2 {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })));
    let wake = || inner.lock().as_ref().expect("polled").wake_by_ref();
    assert!(poll(guest.as_mut(), &waker).is_pending());
    wake();
    wake();
    assert_eq!(woken.take(), 1, "the second wake-up changes nothing");
    let mut holder = Box::pin(account.run(spin(clock, MS, 100)));
    assert!(poll(holder.as_mut(), Waker::noop()).is_pending());
    assert!(
        poll(guest.as_mut(), &waker).is_pending(),
        "it waits for the slot"
    );
    wake();
    assert_eq!((woken.take(), polls.load(Ordering::SeqCst)), (0, 1));
    drop(holder);
    assert_eq!(woken.take(), 1);
    assert!(poll(guest.as_mut(), &waker).is_pending());
    wake();
    assert_eq!(woken.take(), 1);
    assert!(poll(guest.as_mut(), &waker).is_ready());
    drop(guest);
    wake();
    assert_eq!(woken.take(), 0, "the task is gone");
}

#[tokio::test(start_paused = true)]
async fn account_over_limit_sleeps_until_allowed() {
    let (scheduler, clock) = host(2);
    let account = account(
        &scheduler,
        Share {
            cpu_limit: Some(0.25),
            ..Share::default()
        },
    );
    let guests: Vec<_> = (0..4)
        .map(|_| tokio::spawn(account.run(spin(clock.clone(), MS, 250))))
        .collect();
    for guest in guests {
        guest.await.expect("no panic");
    }
    let seconds = clock.now() as f64 / 1e9;
    assert!(
        (3.6 * 0.95..3.6 * 1.05).contains(&seconds),
        "{seconds} s: a tenth of a second at once, the rest at a quarter"
    );
    let usage = account.usage();
    assert_eq!(usage.polled, SECOND);
    assert!(
        usage.throttled > 100 && usage.throttled_time > 2 * SECOND,
        "{usage:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn lifted_limit_frees_waiters_at_once() {
    let (scheduler, clock) = host(1);
    let group = scheduler.group(
        "tenant",
        Share {
            cpu_limit: Some(0.001),
            ..Share::default()
        },
    );
    let account = group.account(Share::default());
    account.run(spin(clock.clone(), 100 * MS, 10)).await;
    let start = Instant::now();
    let guest = tokio::spawn(account.run(async {}));
    sleep(SECOND).await;
    assert!(!guest.is_finished());
    scheduler.group("tenant", Share::default());
    guest.await.expect("no panic");
    assert!(start.elapsed() < 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn permits_are_first_come_first_served() {
    let (scheduler, _) = host(1);
    let limit = |concurrency| Share {
        concurrency: Some(concurrency),
        ..Share::default()
    };
    let group = scheduler.group("tenant", limit(3));
    let [one, other] = [group.account(limit(2)), group.account(Share::default())];
    let mut permits = vec![one.enter().await, one.enter().await];
    let mut third = Box::pin(one.enter());
    assert!(
        timeout(SECOND, &mut third).await.is_err(),
        "the account has two permits"
    );
    permits.push(other.enter().await);
    let mut fourth = Box::pin(other.enter());
    assert!(
        timeout(SECOND, &mut fourth).await.is_err(),
        "the group has three permits"
    );
    drop(permits.remove(0));
    timeout(SECOND, &mut fourth)
        .await
        .map(|permit| permits.push(permit))
        .expect("the first waiter has a permit");
    assert!(
        timeout(SECOND, &mut third).await.is_err(),
        "it has the account's permit and waits for the group's"
    );
    drop(third);
    permits.clear();
    let _both = [one.enter().await, one.enter().await];
}

#[tokio::test(start_paused = true)]
async fn waits_to_begin_are_counted_by_limit() {
    let (scheduler, _) = host(1);
    let limit = |concurrency| Share {
        concurrency: Some(concurrency),
        ..Share::default()
    };
    let group = scheduler.group("tenant", limit(2));
    let [one, other] = [group.account(limit(1)), group.account(Share::default())];
    let _first = one.enter().await;
    assert!(timeout(SECOND, one.enter()).await.is_err());
    let _second = other.enter().await;
    assert!(timeout(2 * SECOND, other.enter()).await.is_err());

    let own = EntryWaits {
        account: SECOND,
        group: Duration::ZERO,
    };
    let shared = EntryWaits {
        account: Duration::ZERO,
        group: 2 * SECOND,
    };
    assert_eq!((one.entry_waits(), other.entry_waits()), (own, shared));
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_processor_are_counted_by_cause() {
    let (scheduler, clock) = host(1);
    let limited = Share {
        cpu_limit: Some(0.25),
        ..Share::default()
    };
    let throttled = scheduler.group("tenant", limited).account(Share::default());
    throttled.run(spin(clock.clone(), MS, 1_000)).await;
    let usage = throttled.usage();
    assert!(
        usage.throttled_by_group > 2 * SECOND && usage.throttled_time.is_zero(),
        "{usage:?}"
    );
    assert!(usage.turn_wait < SECOND / 10, "{usage:?}");
    drop(throttled);

    let both = [(); 2].map(|()| account(&scheduler, Share::default()));
    let guests = both
        .each_ref()
        .map(|account| tokio::spawn(account.run(spin(clock.clone(), MS, 200))));
    for guest in guests {
        guest.await.expect("no panic");
    }
    for account in both {
        let usage = account.usage();
        assert!(usage.turn_wait > SECOND / 10, "{usage:?}");
        assert!(usage.throttled_by_group.is_zero(), "{usage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrency_limit_changes_while_permits_are_taken() {
    let (scheduler, _) = host(1);
    let limit = |concurrency| Share {
        concurrency,
        ..Share::default()
    };
    let account = account(&scheduler, limit(Some(4)));
    let free = async || {
        let mut permits = Vec::new();
        while permits.len() < 20 {
            let Ok(permit) = timeout(SECOND, account.enter()).await else {
                break;
            };
            permits.push(permit);
        }
        permits.len()
    };
    let mut permits = vec![
        account.enter().await,
        account.enter().await,
        account.enter().await,
    ];
    assert_eq!(free().await, 1);
    account.set_share(limit(Some(1)));
    assert_eq!(free().await, 0);
    permits.pop();
    assert_eq!(free().await, 0);
    account.set_share(limit(Some(3)));
    assert_eq!(free().await, 1);
    account.set_share(limit(None));
    assert_eq!(free().await, 20);
    account.set_share(limit(Some(0)));
    permits.clear();
    assert_eq!(free().await, 0);
    account.set_share(limit(Some(2)));
    assert_eq!(free().await, 2);
}

#[tokio::test(start_paused = true)]
async fn group_lives_as_long_as_its_users() {
    let (scheduler, clock) = host(1);
    let account = account(
        &scheduler,
        Share {
            cpu_limit: Some(0.001),
            ..Share::default()
        },
    );
    let again = scheduler.group("tenant", Share::default());
    assert!(Arc::ptr_eq(&again, account.group()) && again.name() == "tenant");
    drop(again);
    account.run(spin(clock, 50 * MS, 3)).await;
    let throttled = tokio::spawn(account.run(async {}));
    sleep(SECOND).await;
    let fair = Box::pin(account.run(async {}));
    drop(account);
    assert_eq!(
        scheduler.counts(),
        (1, 1, 1, 1),
        "the futures keep it alive"
    );
    throttled.abort();
    drop((throttled.await, fair));
    assert_eq!(
        (scheduler.counts(), scheduler.shared.lock().groups.len()),
        ((1, 0, 0, 0), 0)
    );
    let weak = Arc::downgrade(&scheduler);
    drop(scheduler);
    sleep(SECOND).await;
    assert!(weak.upgrade().is_none(), "no task keeps it alive");
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

//! Stress tests with many guests, at random and on many threads: no wake-up and no slot is lost.
//!
//! A failing random run prints its seed; `OPERETTA_SEED` repeats it.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use operetta_scheduler::{Account, Clock, FairScheduler, Share};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};

const MS: u64 = 1_000_000;
const SECOND: Duration = Duration::from_secs(1);

/// A clock of tokio's paused time plus the guests' busy time, in nanoseconds.
#[derive(Clone)]
struct Fake(Arc<AtomicU64>, Instant);

impl Fake {
    fn new() -> Self {
        Self(Arc::default(), Instant::now())
    }

    fn busy(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for Fake {
    fn now(&self) -> u64 {
        self.1.elapsed().as_nanos() as u64 + self.0.load(Ordering::SeqCst)
    }
}

fn host(slots: usize) -> (Arc<FairScheduler>, Fake) {
    let clock = Fake::new();
    (FairScheduler::with_clock(slots, None, clock.clone()), clock)
}

/// Spins for `polls` polls of `nanos` each; between them it wakes itself and yields.
async fn spin(clock: Fake, nanos: u64, mut polls: u64) {
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

/// Invariants: every future that is not dropped ends, whatever other futures do and however shares
/// change. Then all slots are free and there are no waiters.
#[tokio::test(start_paused = true)]
async fn random_drops_panics_and_shares_lose_no_wake_up() {
    let seed = std::env::var("OPERETTA_SEED")
        .ok()
        .map(|text| text.parse().expect("OPERETTA_SEED is a number"));
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("OPERETTA_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..20 {
        let slots = random.random_range(1..4);
        let (scheduler, clock) = host(slots);
        let accounts: Vec<_> = (0..6)
            .map(|at| {
                scheduler
                    .group(format!("tenant {}", at % 3), Share::default())
                    .account(Share::default())
            })
            .collect();
        let mut tasks = Vec::new();
        for _ in 0..300 {
            let account = accounts[random.random_range(0..accounts.len())].clone();
            match random.random_range(0..20) {
                0 => account.set_share(share(&mut random)),
                1 => account.group().set_share(share(&mut random)),
                2..6 => sleep(Duration::from_micros(random.random_range(0..5000))).await,
                _ => {
                    let limit_millis = random.random_bool(0.3).then(|| random.random_range(0..20));
                    let in_background = random.random_bool(0.3);
                    let guest = guest(StdRng::seed_from_u64(random.random()), clock.clone());
                    tasks.push(tokio::spawn(async move {
                        let permit = account.enter().await;
                        let run = if in_background {
                            account.run_in_background(guest)
                        } else {
                            account.run(guest)
                        };
                        let run = pin!(run);
                        match limit_millis {
                            Some(millis) => drop(timeout(Duration::from_millis(millis), run).await),
                            None => run.await,
                        }
                        drop(permit);
                    }));
                }
            }
        }
        accounts.iter().for_each(|account| {
            account.set_share(Share {
                cpu_limit: Some(0.5),
                ..Share::default()
            });
            account.group().set_share(Share::default());
        });
        for task in tasks {
            let ended = timeout(10_000 * SECOND, task).await;
            assert!(
                ended.is_ok(),
                "a task never ended: {:?}",
                scheduler.counts()
            );
        }
        let (free, waiting, ..) = scheduler.counts();
        assert_eq!((free, waiting), (slots, 0));
    }
}

fn share(random: &mut StdRng) -> Share {
    Share {
        weight: random.random_range(1..1000),
        cpu_limit: random
            .random_bool(0.5)
            .then(|| random.random_range(0.01..2.0)),
        concurrency: random.random_bool(0.5).then(|| random.random_range(1..4)),
    }
}

/// Works, yields, sleeps and sometimes panics.
async fn guest(mut random: StdRng, clock: Fake) {
    for _ in 0..random.random_range(0..20) {
        clock.busy(random.random_range(0..2 * MS));
        match random.random_range(0..40) {
            0 => panic!("a guest's host call"),
            1..20 => {
                spin(
                    clock.clone(),
                    random.random_range(0..MS),
                    random.random_range(1..4),
                )
                .await;
            }
            20..30 => sleep(Duration::from_micros(random.random_range(0..3000))).await,
            30..35 => tokio::task::yield_now().await,
            _ => {}
        }
    }
}

/// Spins on the real clock.
fn burn(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn quiet_account_keeps_polling_beside_spinners() {
    const SLOTS: usize = 2;
    const ROUNDS: u64 = 30;
    let scheduler = FairScheduler::new(SLOTS);
    let polling = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let inside = move |time| {
        assert!(
            polling.fetch_add(1, Ordering::SeqCst) < SLOTS,
            "more polls than slots"
        );
        burn(time);
        polling.fetch_sub(1, Ordering::SeqCst);
    };
    let mut noisy = Vec::new();
    for at in 0..3 {
        let share = Share {
            cpu_limit: (at == 2).then_some(0.1),
            ..Share::default()
        };
        let account = scheduler
            .group(format!("noisy {at}"), Share::default())
            .account(share);
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let inside = inside.clone();
                let stop = stop.clone();
                let mut polls = 0_u64;
                tokio::spawn(account.run(poll_fn(move |cx| {
                    inside(Duration::from_millis(1));
                    polls += 1;
                    if stop.load(Ordering::SeqCst) {
                        return Poll::Ready(polls);
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })))
            })
            .collect();
        noisy.push((account, tasks));
    }
    let quiet = scheduler
        .group("quiet", Share::default())
        .account(Share::default());
    for _ in 0..ROUNDS {
        sleep(Duration::from_millis(10)).await;
        let inside = inside.clone();
        tokio::spawn(quiet.run(async move { inside(Duration::from_micros(50)) }))
            .await
            .expect("no panic");
    }
    stop.store(true, Ordering::SeqCst);
    assert_eq!(quiet.usage().polls, ROUNDS);
    for (account, tasks) in noisy {
        // The debt depends on the load of the machine, because the clock is real.
        account.set_share(Share::default());
        let mut polls = 0;
        for task in tasks {
            polls += timeout(300 * SECOND, task)
                .await
                .expect("every task ends")
                .expect("no panic");
        }
        let usage = account.usage();
        assert_eq!(usage.polls, polls);
        assert!(usage.polled >= Duration::from_millis(polls), "{usage:?}");
    }
    assert_eq!((scheduler.counts().0, scheduler.counts().1), (SLOTS, 0));
}

/// Spawns guests that spin until they are dropped, each in its own task, with polls of duration
/// `turn`.
fn spinning(
    account: &Arc<Account>,
    count: usize,
    turn: Duration,
    begins: impl Fn() + Clone + Send + 'static,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let begins = begins.clone();
        tasks.spawn(account.run(poll_fn(move |cx| {
            begins();
            burn(turn);
            cx.waker().wake_by_ref();
            Poll::Pending
        })));
    }
    tasks
}

/// Builds a runtime as the host does, with one thread per slot.
fn runtime(threads: usize) -> Runtime {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime
        .worker_threads(threads)
        .event_interval(1)
        .global_queue_interval(1);
    runtime.enable_all().build().expect("there are threads")
}

#[test]
fn underserved_account_never_waits_for_a_slot() {
    const SLOTS: usize = 2;
    runtime(SLOTS).block_on(async {
        let scheduler = FairScheduler::new(SLOTS);
        let [quiet, noisy] = ["quiet", "noisy"].map(|name| {
            scheduler
                .group(name, Share::default())
                .account(Share::default())
        });
        let _tasks = spinning(&noisy, 20, Duration::from_millis(1), || ());
        while noisy.usage().polled < Duration::from_millis(50) {
            sleep(Duration::from_millis(1)).await;
        }
        for _ in 0..100 {
            sleep(Duration::from_millis(3)).await;
            tokio::spawn(quiet.run(async { burn(Duration::from_micros(50)) }))
                .await
                .expect("no panic");
        }
        assert_eq!(
            (quiet.usage().polls, quiet.usage().wait),
            (100, Duration::ZERO)
        );
    });
}

/// Asserts that at most one poll begins on the only thread between the time when a timer is due and
/// the time when it is served.
fn assert_timers_are_served(
    neighbour: impl FnOnce(&Arc<Account>, Arc<dyn Fn() + Send + Sync>) -> JoinSet<()> + Send + 'static,
) {
    // Timers are exact to a millisecond, and rounded up.
    const TOLERANCE: Duration = Duration::from_millis(2);
    const PERIOD: Duration = Duration::from_millis(3);
    let timers = async {
        let account = FairScheduler::new(1)
            .group("noisy", Share::default())
            .account(Share::default());
        let due = Arc::new(Mutex::new(None::<Instant>));
        let late = Arc::new(AtomicUsize::new(0));
        let seen = due.clone();
        let counted = late.clone();
        let begins = move || {
            if seen.lock().is_some_and(|due| due.elapsed() > TOLERANCE) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        };
        let _tasks = neighbour(&account, Arc::new(begins));
        for _ in 0..100 {
            late.store(0, Ordering::SeqCst);
            let at = Instant::now() + PERIOD;
            *due.lock() = Some(at);
            // The same instant: between two the machine may stop this thread.
            sleep_until(at).await;
            *due.lock() = None;
            let late = late.load(Ordering::SeqCst);
            assert!(late <= 1, "{late} polls began after the timer was due");
        }
    };
    // On a worker thread.
    let runtime = runtime(1);
    runtime.block_on(runtime.spawn(timers)).expect("no panic");
}

#[test]
fn timers_run_between_spinning_polls() {
    assert_timers_are_served(|account, begins| {
        spinning(account, 20, Duration::from_micros(500), move || begins())
    });
}

#[test]
fn timers_run_between_busy_reconciles() {
    assert_timers_are_served(|account, begins| {
        let mut tasks = JoinSet::new();
        let account = account.clone();
        tasks.spawn(async move {
            loop {
                let turn = async {
                    begins();
                    burn(Duration::from_micros(500));
                };
                account.run(turn).await;
                operetta_core::controller::give_way().await;
            }
        });
        tasks
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_wakes_and_drops_lose_no_task() {
    let scheduler = FairScheduler::new(3);
    let accounts: Vec<_> = (0..4)
        .map(|at| {
            scheduler
                .group(format!("tenant {}", at % 2), Share::default())
                .account(Share::default())
        })
        .collect();
    let tasks: Vec<_> = (0..32_u64)
        .map(|task| {
            let account = accounts[task as usize % 4].clone();
            let other = accounts[(task as usize + 1) % 4].clone();
            tokio::spawn(async move {
                for round in 0..150_u64 {
                    let (ask, answer) = tokio::sync::oneshot::channel();
                    let answers = tokio::spawn(other.run(async move {
                        tokio::task::yield_now().await;
                        ask.send(round).ok();
                    }));
                    // Some run as background polls, on any thread.
                    let asks = if (task ^ round) % 3 == 0 {
                        account.run_in_background(answer)
                    } else {
                        account.run(answer)
                    };
                    match (task + round) % 5 {
                        0 => drop(timeout(Duration::from_micros(round), asks).await),
                        1 => {
                            let cpu_limit = (round % 2 == 0).then_some(0.5);
                            account.set_share(Share {
                                cpu_limit,
                                ..Share::default()
                            });
                            assert_eq!(asks.await, Ok(round));
                        }
                        2 => answers.abort(),
                        _ => assert_eq!(asks.await, Ok(round)),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(300 * SECOND, task)
            .await
            .expect("every task ends")
            .expect("no panic");
    }
    timeout(300 * SECOND, async {
        while (scheduler.counts().0, scheduler.counts().1) != (3, 0) {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("every slot is returned");
}

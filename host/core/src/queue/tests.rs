//! Tests of client-go's documented behaviours, one each, with paused time.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::time::{advance, timeout};

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Returns the next key, or None if there is none now.
async fn get_now<K: Clone + Eq + Hash + Send + 'static>(queue: &WorkQueue<K>) -> Option<K> {
    timeout(Duration::ZERO, queue.get()).await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn hands_out_keys_in_order_of_adds() {
    let queue = WorkQueue::new();
    ["a", "b", "c"].into_iter().for_each(|key| queue.add(key));
    assert_eq!(queue.len(), 3);
    for key in ["a", "b", "c"] {
        assert_eq!(queue.get().await, Some(key));
    }
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn key_added_twice_is_processed_once() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add("b");
    queue.add("a");
    assert_eq!(queue.len(), 2);
    assert_eq!(
        (queue.get().await, queue.get().await),
        (Some("a"), Some("b"))
    );
    queue.done(&"a");
    queue.done(&"b");
    assert_eq!(get_now(&queue).await, None);
    assert_eq!(queue.stats().adds_total, 2);
}

#[tokio::test(start_paused = true)]
async fn requeues_key_added_while_processing_after_done() {
    let queue = WorkQueue::new();
    queue.add("a");
    assert_eq!(queue.get().await, Some("a"));
    queue.add("a");
    queue.add("a");
    assert_eq!((queue.len(), queue.stats().depth), (0, 1));
    assert_eq!(get_now(&queue).await, None, "it is being processed");
    queue.add("b");
    queue.done(&"a");
    assert_eq!(
        (queue.get().await, queue.get().await),
        (Some("b"), Some("a")),
        "at the end of the queue"
    );
    queue.done(&"a");
    assert_eq!(get_now(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn ignores_done_for_key_not_processing() {
    let queue = WorkQueue::new();
    queue.done(&"a");
    queue.add("a");
    queue.done(&"a");
    assert_eq!(queue.len(), 1);
    assert_eq!(queue.get().await, Some("a"));
    queue.done(&"a");
    queue.done(&"a");
    assert_eq!(get_now(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn events_during_backoff_spend_no_tokens_of_other_keys() {
    let queue = WorkQueue::with_rate_limiter(MaxOfRateLimiter::new(vec![
        Box::new(ItemExponentialFailureRateLimiter::new(
            SECOND,
            1000 * SECOND,
        )),
        Box::new(BucketRateLimiter::new(1, 1)),
    ]));

    // Each event reconciles the key at once, and that fails.
    for _ in 0..500 {
        queue.add("eventful");
        assert_eq!(queue.get().await, Some("eventful"));
        queue.add_rate_limited("eventful");
        queue.done(&"eventful");
    }
    assert_eq!(queue.num_requeues(&"eventful"), 500);

    queue.add("other");
    assert_eq!(queue.get().await, Some("other"));
    queue.add_rate_limited("other");
    queue.done(&"other");

    let start = Instant::now();
    assert_eq!(queue.get().await, Some("eventful"));
    assert_eq!(queue.get().await, Some("other"));
    assert!(start.elapsed() <= 2 * SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn retry_failed_ends_backoff_and_no_other_delay() {
    let queue = WorkQueue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(
        SECOND,
        1000 * SECOND,
    ));
    for key in ["often", "in flight"] {
        for _ in 0..9 {
            queue.add_rate_limited(key);
            advance(300 * SECOND).await;
            assert_eq!(queue.get().await, Some(key));
            queue.done(&key);
        }
    }
    queue.add("in flight");
    assert_eq!(queue.get().await, Some("in flight"));
    queue.add_rate_limited("often");
    queue.add_after("planned", 5 * SECOND);
    assert_eq!(get_now(&queue).await, None, "it waits for 512 s");

    assert_eq!(queue.retry_failed(), 1);
    assert_eq!(get_now(&queue).await, Some("often"));
    assert_eq!(get_now(&queue).await, None);
    assert_eq!(
        (
            queue.num_requeues(&"often"),
            queue.num_requeues(&"in flight")
        ),
        (0, 0)
    );
    assert_eq!(queue.stats().waiting, 1, "the planned one");
    queue.add_rate_limited("often");
    queue.done(&"often");
    advance(SECOND).await;
    assert_eq!(
        get_now(&queue).await,
        Some("often"),
        "its backoff begins anew"
    );
    assert_eq!(queue.retry_failed(), 0);
}

#[tokio::test(start_paused = true)]
async fn retry_wakes_a_waiting_consumer() {
    let queue = WorkQueue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(
        SECOND,
        1000 * SECOND,
    ));
    for _ in 0..9 {
        queue.add_rate_limited("a");
    }
    let start = Instant::now();
    let get = || {
        let queue = queue.clone();
        tokio::spawn(async move { queue.get().await })
    };
    let consumer = get();
    tokio::task::yield_now().await;
    queue.retry(&"a");
    assert_eq!(
        (consumer.await.expect("ended"), queue.num_requeues(&"a")),
        (Some("a"), 0)
    );
    queue.done(&"a");
    assert!(!queue.has(&"a"));
    queue.add_rate_limited("a");
    assert!(queue.has(&"a"));
    let consumer = get();
    tokio::task::yield_now().await;
    assert_eq!(queue.retry_failed(), 1);
    assert_eq!(consumer.await.expect("ended"), Some("a"));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn every_waiting_consumer_gets_a_key_of_its_own() {
    let queue = WorkQueue::new();
    let consumers: Vec<_> = (0..5)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await })
        })
        .collect();
    tokio::task::yield_now().await;
    for key in 0..3 {
        queue.add(key);
    }
    queue.add_after(3, SECOND);
    queue.add_after(4, 2 * SECOND);
    let mut keys = Vec::new();
    for consumer in consumers {
        keys.extend(consumer.await.expect("no panic"));
    }
    keys.sort_unstable();
    assert_eq!(keys, [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn dropped_get_takes_no_key_and_no_wakeup() {
    let queue = WorkQueue::new();
    let mut dropped = Box::pin(queue.get());
    assert!(timeout(MS, &mut dropped).await.is_err());
    let other = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await }
    });
    tokio::task::yield_now().await;
    queue.add("a");
    drop(dropped);
    assert_eq!(
        timeout(SECOND, other)
            .await
            .expect("woken")
            .expect("no panic"),
        Some("a")
    );
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_when_its_delay_is_over() {
    let queue = WorkQueue::new();
    queue.add_after("a", 50 * MS);
    assert_eq!((queue.len(), queue.stats().waiting), (0, 1));
    advance(49 * MS).await;
    assert_eq!(queue.len(), 0);
    advance(MS).await;
    assert_eq!((queue.len(), queue.stats().waiting), (1, 0));
    assert_eq!(queue.get().await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_zero_adds_at_once() {
    let queue = WorkQueue::new();
    queue.add_after("a", Duration::ZERO);
    assert_eq!((queue.len(), queue.stats().retries_total), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn consumer_sleeps_until_earliest_delay() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    queue.add_after("late", 10 * SECOND);
    queue.add_after("never", Duration::MAX);
    let consumer = tokio::spawn({
        let queue = queue.clone();
        async move { (queue.get().await, queue.get().await, Instant::now()) }
    });
    tokio::task::yield_now().await;
    queue.add_after("early", SECOND);
    let (first, second, end) = consumer.await.expect("no panic");
    assert_eq!(
        (first, second, end - start),
        (Some("early"), Some("late"), 10 * SECOND)
    );
}

#[tokio::test(start_paused = true)]
async fn earlier_of_two_delays_of_a_key_counts() {
    let queue = WorkQueue::new();
    queue.add_after("a", 5 * SECOND);
    queue.add_after("a", SECOND);
    queue.add_after("a", 3 * SECOND);
    advance(SECOND).await;
    assert_eq!(queue.get().await, Some("a"));
    queue.done(&"a");
    advance(10 * SECOND).await;
    assert_eq!(get_now(&queue).await, None, "the later delays are gone");
}

#[tokio::test(start_paused = true)]
async fn a_plain_add_does_not_end_a_running_delay() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND);
    queue.add("a");
    assert_eq!(queue.get().await, Some("a"));
    queue.done(&"a");
    assert_eq!(get_now(&queue).await, None);
    advance(SECOND).await;
    assert_eq!(queue.get().await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn due_key_waits_until_processing_is_done() {
    let queue = WorkQueue::new();
    queue.add("a");
    assert_eq!(queue.get().await, Some("a"));
    queue.add_after("a", SECOND);
    advance(2 * SECOND).await;
    assert_eq!(get_now(&queue).await, None);
    queue.done(&"a");
    assert_eq!(queue.get().await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_come_in_due_order() {
    let queue = WorkQueue::new();
    queue.add_after("second", 2 * SECOND);
    queue.add_after("first", SECOND);
    advance(3 * SECOND).await;
    queue.add("third");
    for key in ["first", "second", "third"] {
        assert_eq!(queue.get().await, Some(key));
    }
}

#[tokio::test(start_paused = true)]
async fn only_rate_limited_adds_count_as_failures() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add_after("a", SECOND);
    assert_eq!(queue.num_requeues(&"a"), 0);
    queue.add_rate_limited("a");
    queue.add_rate_limited("a");
    queue.add("a");
    assert_eq!((queue.num_requeues(&"a"), queue.num_requeues(&"b")), (2, 0));
    assert_eq!(queue.stats().retries_total, 3);
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn each_failure_of_a_key_doubles_its_wait() {
    let queue = WorkQueue::new();
    let mut waits = Vec::new();
    queue.add("a");
    for _ in 0..5 {
        let start = Instant::now();
        let key = queue.get().await.expect("a key");
        waits.push(start.elapsed().as_millis());
        queue.add_rate_limited(key);
        queue.done(&key);
    }
    assert_eq!(waits, [0, 5, 10, 20, 40]);
}

#[tokio::test(start_paused = true)]
async fn new_rate_limiter_starts_counting_from_zero() {
    let queue = WorkQueue::new();
    queue.add_rate_limited("a");
    queue.set_rate_limiter(ItemExponentialFailureRateLimiter::new(SECOND, SECOND));
    assert_eq!(queue.num_requeues(&"a"), 0);
    assert_eq!(
        timeout(5 * MS, queue.get()).await,
        Ok(Some("a")),
        "the running delay goes on"
    );
}

#[tokio::test(start_paused = true)]
async fn low_priority_key_waits_until_raised() {
    let queue = WorkQueue::new();
    queue.add_with_priority("low", Priority::Low);
    queue.add_with_priority("raised", Priority::Low);
    queue.add("normal");
    queue.add("raised");
    queue.add_with_priority("normal", Priority::Low);
    for key in ["normal", "raised", "low"] {
        assert_eq!(queue.get().await, Some(key));
    }
}

#[tokio::test(start_paused = true)]
async fn key_readded_while_processing_keeps_highest_priority() {
    let queue = WorkQueue::new();
    queue.add("a");
    assert_eq!(queue.get().await, Some("a"));
    queue.add_with_priority("a", Priority::Low);
    queue.add("a");
    queue.add_with_priority("low", Priority::Low);
    queue.done(&"a");
    assert_eq!(queue.get().await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn shut_down_hands_out_remaining_keys_only() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add_after("delayed", MS);
    queue.shut_down();
    assert!(queue.shutting_down());
    queue.add("b");
    queue.add_after("c", MS);
    queue.add_rate_limited("d");
    assert_eq!(queue.get().await, Some("a"));
    queue.add("a");
    queue.done(&"a");
    advance(SECOND).await;
    assert_eq!((queue.get().await, queue.get().await), (None, None));
    assert_eq!(queue.stats().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn shut_down_ends_every_waiting_get() {
    let queue = WorkQueue::<&str>::new();
    let consumers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.shut_down();
    for consumer in consumers {
        assert_eq!(
            timeout(SECOND, consumer)
                .await
                .expect("ended")
                .expect("no panic"),
            None
        );
    }
}

#[tokio::test(start_paused = true)]
async fn shut_down_with_drain_waits_for_processing_keys() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add("b");
    assert_eq!(
        (queue.get().await, queue.get().await),
        (Some("a"), Some("b"))
    );
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!(timeout(SECOND, &mut drain).await.is_err());
    queue.done(&"a");
    assert!(timeout(SECOND, &mut drain).await.is_err());
    queue.done(&"b");
    timeout(SECOND, drain).await.expect("drained");
    queue.shut_down_with_drain().await;
    assert_eq!(queue.get().await, None);
}

#[tokio::test(start_paused = true)]
async fn shut_down_with_drain_waits_for_requeued_keys() {
    let queue = WorkQueue::new();
    queue.add("a");
    assert_eq!(queue.get().await, Some("a"));
    queue.add("a");
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!(timeout(SECOND, &mut drain).await.is_err());
    queue.done(&"a");
    assert!(
        timeout(SECOND, &mut drain).await.is_err(),
        "it is queued again"
    );
    assert_eq!(queue.get().await, Some("a"));
    queue.add("a");
    queue.done(&"a");
    timeout(SECOND, drain).await.expect("drained");
    assert_eq!(queue.get().await, None);
}

#[tokio::test(start_paused = true)]
async fn shut_down_ends_a_waiting_drain() {
    let queue = WorkQueue::new();
    queue.add("a");
    assert_eq!(queue.get().await, Some("a"));
    let drains: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.shut_down_with_drain().await })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.shut_down();
    for drain in drains {
        timeout(SECOND, drain)
            .await
            .expect("ended")
            .expect("no panic");
    }
}

#[tokio::test(start_paused = true)]
async fn stats_report_how_long_work_is_running() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add("b");
    queue.get().await;
    advance(3 * SECOND).await;
    queue.get().await;
    advance(2 * SECOND).await;
    queue.add("a");
    queue.add_after("c", SECOND);
    let histogram = |durations: &[Duration]| {
        let mut histogram = DurationHistogram::default();
        durations
            .iter()
            .for_each(|duration| histogram.observe(*duration));
        histogram
    };
    let stats = Stats {
        depth: 1,
        depth_low: 0,
        waiting: 1,
        processing: 2,
        adds_total: 3,
        retries_total: 1,
        unfinished_work: 7 * SECOND,
        longest_running: 5 * SECOND,
        queue_durations: histogram(&[Duration::ZERO, 3 * SECOND]),
        work_durations: histogram(&[]),
    };
    assert_eq!(queue.stats(), stats);
    queue.done(&"a");
    assert_eq!(
        (queue.stats().longest_running, queue.stats().depth),
        (2 * SECOND, 1)
    );
    assert_eq!(queue.stats().work_durations, histogram(&[5 * SECOND]));
    advance(4 * SECOND).await;
    assert_eq!(queue.get().await, Some("a"));
    let waited = histogram(&[Duration::ZERO, 3 * SECOND, 4 * SECOND]);
    assert_eq!(
        queue.stats().queue_durations,
        waited,
        "since it was added, not since it was done"
    );
    assert_eq!(queue.get().await, Some("c"));
    assert_eq!(
        queue.stats().queue_durations.sum(),
        10 * SECOND,
        "since its delay ended"
    );
    assert_eq!(
        ["a", "c", "none"].map(|key| queue.queue_duration(&key)),
        [Some(4 * SECOND), Some(3 * SECOND), None]
    );
    queue.done(&"a");
    assert_eq!(queue.queue_duration(&"a"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_lose_no_key_and_never_share_one() {
    const KEYS: usize = 64;
    const ROUNDS: u32 = 300;
    let queue = WorkQueue::<usize>::new();
    // Per key: the number of adds, the number that a consumer has seen, and the number of consumers
    // that hold it.
    let asked: Arc<Vec<AtomicU32>> = Arc::new((0..KEYS).map(|_| AtomicU32::new(0)).collect());
    let seen: Arc<Vec<AtomicU32>> = Arc::new((0..KEYS).map(|_| AtomicU32::new(0)).collect());
    let held: Arc<Vec<AtomicU32>> = Arc::new((0..KEYS).map(|_| AtomicU32::new(0)).collect());
    let consumers: Vec<_> = (0..8)
        .map(|_| {
            let queue = queue.clone();
            let asked = asked.clone();
            let seen = seen.clone();
            let held = held.clone();
            tokio::spawn(async move {
                while let Some(key) = queue.get().await {
                    assert_eq!(
                        held[key].fetch_add(1, Ordering::SeqCst),
                        0,
                        "{key} twice at once"
                    );
                    seen[key].store(asked[key].load(Ordering::SeqCst), Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    held[key].fetch_sub(1, Ordering::SeqCst);
                    queue.done(&key);
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..4)
        .map(|producer| {
            let queue = queue.clone();
            let asked = asked.clone();
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let key = (round as usize * 7 + producer * 13) % KEYS;
                    asked[key].fetch_add(1, Ordering::SeqCst);
                    match round % 3 {
                        0 => queue.add(key),
                        1 => queue.add_with_priority(key, Priority::Low),
                        _ => queue.add_after(key, Duration::from_micros(u64::from(round) * 10)),
                    }
                    if round % 16 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.expect("no panic");
    }
    while queue.stats().waiting > 0 {
        tokio::time::sleep(MS).await;
    }
    timeout(30 * SECOND, queue.shut_down_with_drain())
        .await
        .expect("every key is processed");
    for consumer in consumers {
        consumer.await.expect("no panic");
    }
    for key in 0..KEYS {
        assert_eq!(
            seen[key].load(Ordering::SeqCst),
            asked[key].load(Ordering::SeqCst),
            "a change of {key} is lost"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn oldest_key_is_the_one_that_waits_longest() {
    let queue = WorkQueue::new();
    assert_eq!(queue.oldest(), None);
    queue.add("first");
    advance(Duration::from_secs(3)).await;
    queue.add("second");
    queue.add("first");
    advance(Duration::from_secs(1)).await;
    assert_eq!(queue.oldest(), Some(Duration::from_secs(4)));
    assert_eq!(get_now(&queue).await, Some("first"));
    assert_eq!(
        queue.oldest(),
        Some(Duration::from_secs(1)),
        "a key that is being processed does not wait"
    );
}

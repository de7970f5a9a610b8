//! Tests of the behaviours that controller-runtime's priorityqueue documents beyond client-go's
//! queue, one each, and of unusual keys and delays.

use tokio::time::{advance, timeout};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Returns the next key, or None if there is none now.
async fn get_now(queue: &WorkQueue<&'static str>) -> Option<&'static str> {
    timeout(Duration::ZERO, queue.get()).await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn retried_initial_key_stays_behind_changes() {
    let queue =
        WorkQueue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(SECOND, SECOND));
    for key in ["fails", "polls"] {
        queue.add_with_priority(key, Priority::Low);
        assert_eq!(queue.get().await, Some(key));
    }
    queue.add_rate_limited("fails");
    queue.add_after("polls", SECOND);
    queue.done(&"fails");
    queue.done(&"polls");
    advance(SECOND).await;
    queue.add("changed");
    for key in ["changed", "fails", "polls"] {
        assert_eq!(queue.get().await, Some(key));
    }
}

#[tokio::test(start_paused = true)]
async fn key_added_while_processing_keeps_its_priority() {
    let queue = WorkQueue::new();
    queue.add_with_priority("low", Priority::Low);
    assert_eq!(queue.get().await, Some("low"));
    queue.add_after("low", Duration::ZERO);
    queue.done(&"low");
    queue.add("normal");
    assert_eq!(
        (queue.get().await, queue.get().await),
        (Some("normal"), Some("low"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_that_nobody_processes_is_normal() {
    let queue = WorkQueue::new();
    queue.add_with_priority("low", Priority::Low);
    queue.add_after("delayed", SECOND);
    advance(SECOND).await;
    assert_eq!(
        (queue.get().await, queue.get().await),
        (Some("delayed"), Some("low"))
    );
}

#[tokio::test(start_paused = true)]
async fn higher_priority_of_two_delays_wins() {
    for (first, second) in [(1, 2), (2, 1)] {
        let queue = WorkQueue::new();
        queue.add_with_priority("a", Priority::Low);
        assert_eq!(queue.get().await, Some("a"));
        queue.add_after("a", first * SECOND);
        queue.done(&"a");
        queue.add_after("a", second * SECOND);
        queue.add_with_priority("low", Priority::Low);
        advance(SECOND).await;
        assert_eq!(
            (queue.get().await, queue.get().await),
            (Some("a"), Some("low")),
            "{first} s, then {second} s"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn forget_neither_removes_key_nor_replaces_done() {
    let queue = WorkQueue::new();
    queue.add("a");
    queue.add_rate_limited("waits");
    queue.forget(&"a");
    queue.forget(&"waits");
    assert_eq!(queue.get().await, Some("a"));
    queue.add("a");
    queue.forget(&"a");
    assert_eq!(get_now(&queue).await, None, "it is not done");
    queue.done(&"a");
    assert_eq!(queue.get().await, Some("a"));
    assert_eq!(timeout(SECOND, queue.get()).await, Ok(Some("waits")));
}

#[tokio::test(start_paused = true)]
async fn depth_excludes_waiting_keys() {
    let queue = WorkQueue::new();
    queue.add_after("a", SECOND);
    queue.add("b");
    assert_eq!(
        (queue.len(), queue.stats().depth, queue.stats().waiting),
        (1, 1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn thousand_delays_share_one_timer_in_order() {
    let queue = WorkQueue::new();
    let start = Instant::now();
    // A permutation in which neighbours are far apart.
    for at in 0..1000_u32 {
        queue.add_after(
            at * 617 % 1000,
            Duration::from_millis(u64::from(at * 617 % 1000) + 1),
        );
    }
    for expected in 0..1000 {
        assert_eq!(queue.get().await, Some(expected));
        assert_eq!(
            start.elapsed(),
            Duration::from_millis(u64::from(expected) + 1)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn delays_beyond_every_clock_never_end() {
    let queue = WorkQueue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(
        Duration::MAX,
        Duration::MAX,
    ));
    queue.add_after("far", Duration::MAX);
    queue.add_after("far too", Duration::from_secs(u64::MAX / 2));
    queue.add_rate_limited("farther");
    queue.add_rate_limited("farther");
    queue.add_after("soon", SECOND);
    assert_eq!(timeout(2 * SECOND, queue.get()).await, Ok(Some("soon")));
    advance(Duration::from_secs(10 * 365 * 24 * 3600)).await;
    assert_eq!((get_now(&queue).await, queue.stats().waiting), (None, 3));
    queue.add_after("far", SECOND);
    assert_eq!(
        timeout(2 * SECOND, queue.get()).await,
        Ok(Some("far")),
        "an earlier delay counts"
    );
}

#[tokio::test(start_paused = true)]
async fn keys_of_any_characters_are_kept_apart() {
    let queue = WorkQueue::new();
    let keys = [
        "",
        " ",
        "a/b",
        "a\u{0}b",
        "\n",
        "ä",
        "a\u{308}",
        "\u{202e}x",
        "..",
        "{}\"'",
    ];
    for key in keys {
        queue.add(key);
        queue.add(key);
        queue.add_rate_limited(key);
    }
    for key in keys {
        assert_eq!(
            (queue.get().await, queue.num_requeues(&key)),
            (Some(key), 1),
            "{key:?}"
        );
    }
    assert_eq!(queue.stats().processing, keys.len());
}

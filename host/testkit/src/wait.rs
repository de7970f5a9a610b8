//! Waiting for something to become so: a poll that ends, and that says what was missing when it ends in vain.
//!
//! Limits are generous, for a busy machine: they tell "never" from "later" and measure nothing.

use std::time::{Duration, Instant};

/// How long [`eventually`] waits.
const LIMIT: Duration = Duration::from_secs(150);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks until `look` returns Ok, for `LIMIT` at most: the largest plugins compile one after another, and give way.
///
/// # Panics
/// When the time is over, with `what` and the last Err.
pub async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Result<T, String>) -> T {
    within(LIMIT, what, look).await
}

/// As [`eventually`], with another limit.
///
/// # Panics
/// As [`eventually`].
pub async fn within<T>(limit: Duration, what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + limit;
    let mut last = "the first look did not end".to_owned();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(found)) => return found,
            // A look that never waits is not cut off by the time-out: it is the loop that must end.
            Ok(Err(reason)) if !left.is_zero() => last = reason,
            Ok(Err(last)) => panic!("{what}: not within {limit:?}; last seen: {last}"),
            Err(_elapsed) => panic!("{what}: not within {limit:?}; last seen: {last}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// As [`eventually`], for what takes effect within a time: a look that begins later than that decides, however long it
/// takes. A busy machine makes looks slow, not what they look at late.
///
/// # Panics
/// When a look that began after `limit` returns Err, with `what` and that.
pub async fn in_effect_after<T>(limit: Duration, what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + limit;
    loop {
        let late = Instant::now() >= end;
        match look().await {
            Ok(found) => return found,
            Err(reason) if late => panic!("{what}: not in effect after {limit:?}: {reason}"),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Looks again and again for a while: what must not happen later either.
///
/// # Panics
/// When `look` returns Err, with `what` and that.
pub async fn throughout(period: Duration, what: &str, mut look: impl AsyncFnMut() -> Result<(), String>) {
    let end = Instant::now() + period;
    while Instant::now() < end {
        if let Err(reason) = look().await {
            panic!("{what}: {reason}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_look_that_began_in_time_is_looked_again() {
        let mut looks = 0;
        let slow = async || {
            looks += 1;
            tokio::time::sleep(Duration::from_millis(30)).await;
            if looks > 1 { Ok(()) } else { Err("not yet".to_owned()) }
        };
        in_effect_after(Duration::from_millis(10), "it", slow).await;
        assert_eq!(looks, 2);
    }

    #[tokio::test]
    #[should_panic(expected = "a change: not in effect after 100ms: still nothing")]
    async fn a_look_that_began_late_decides() {
        in_effect_after(Duration::from_millis(100), "a change", async || Err::<(), _>("still nothing".to_owned()))
            .await;
    }

    #[tokio::test]
    #[should_panic(expected = "a miracle: not within 100ms; last seen: still nothing")]
    async fn a_wait_in_vain_says_what_was_seen_last() {
        let look = async || Err::<(), _>("still nothing".to_owned());
        within(Duration::from_millis(100), "a miracle", look).await;
    }
}

//! Polls a condition until it holds, and reports what was missing if it does not within a limit.
//!
//! Limits are generous, for a busy machine: they tell "never" from "later" and measure nothing.

use std::time::{Duration, Instant};

/// The limit of [`eventually`].
const LIMIT: Duration = Duration::from_secs(150);

/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(50);

/// Calls `check` until it returns Ok, for `LIMIT` at most: the largest plugins compile one after
/// another, at low priority.
///
/// # Panics
/// Panics after the limit, with `what` and the last Err.
pub async fn eventually<T>(what: &str, check: impl AsyncFnMut() -> Result<T, String>) -> T {
    within(LIMIT, what, check).await
}

/// Waits as [`eventually`] does, with this limit.
///
/// # Panics
/// Panics as [`eventually`] does.
pub async fn within<T>(
    limit: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + limit;
    let mut last = "the first check did not end".to_owned();

    loop {
        let left = end.saturating_duration_since(Instant::now());
        match tokio::time::timeout(left, check()).await {
            Ok(Ok(found)) => return found,
            // A check that never yields is not stopped by the timeout, so the loop must end here.
            Ok(Err(reason)) if !left.is_zero() => last = reason,
            Ok(Err(last)) => panic!("{what}: not within {limit:?}; last seen: {last}"),
            Err(_elapsed) => panic!("{what}: not within {limit:?}; last seen: {last}"),
        }

        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits for a change that must take effect within `limit`. A check that begins after the limit
/// decides, however long it takes: a busy machine slows the checks, not the change.
///
/// # Panics
/// Panics if a check that began after `limit` returns Err, with `what` and that Err.
pub async fn in_effect_after<T>(
    limit: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let end = Instant::now() + limit;
    loop {
        let late = Instant::now() >= end;
        match check().await {
            Ok(found) => return found,
            Err(reason) if late => panic!("{what}: not in effect after {limit:?}: {reason}"),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Checks repeatedly for a period that a condition continues to hold.
///
/// # Panics
/// Panics if `check` returns Err, with `what` and that Err.
pub async fn throughout(
    period: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> Result<(), String>,
) {
    let end = Instant::now() + period;
    while Instant::now() < end {
        if let Err(reason) = check().await {
            panic!("{what}: {reason}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn repeats_slow_check_that_began_in_time() {
        let mut checks = 0;
        let slow = async || {
            checks += 1;
            tokio::time::sleep(Duration::from_millis(30)).await;
            if checks > 1 {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        };
        in_effect_after(Duration::from_millis(10), "it", slow).await;
        assert_eq!(checks, 2);
    }

    #[tokio::test]
    #[should_panic(expected = "a change: not in effect after 100ms: still nothing")]
    async fn check_that_begins_late_decides() {
        in_effect_after(Duration::from_millis(100), "a change", async || {
            Err::<(), _>("still nothing".to_owned())
        })
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "a miracle: not within 100ms; last seen: still nothing")]
    async fn timeout_reports_last_error() {
        let check = async || Err::<(), _>("still nothing".to_owned());
        within(Duration::from_millis(100), "a miracle", check).await;
    }
}

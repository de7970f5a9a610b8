//! Catches and logs panics that must not take their caller down: in a handler, an observer, a
//! reconciler.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// Calls a function and catches its panic. The caller must not use anything it left half changed.
///
/// # Errors
/// Returns the panic's message.
pub fn catch<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| message(&*panic))
}

/// Runs a future and catches its panic. After a panic it is not polled again.
///
/// # Errors
/// Returns the panic's message.
pub async fn catch_async<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| match catch(|| future.as_mut().poll(cx)) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(message) => Poll::Ready(Err(message)),
    })
    .await
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_becomes_an_error_with_its_message() {
        assert_eq!(catch(|| 1), Ok(1));
        assert_eq!(catch::<()>(|| panic!("at {}", 7)), Err("at 7".to_owned()));
        assert_eq!(catch_async(async { 1 }).await, Ok(1));
        let late = async {
            tokio::task::yield_now().await;
            panic!("late");
        };
        assert_eq!(catch_async::<()>(late).await, Err("late".to_owned()));
    }
}

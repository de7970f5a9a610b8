//! Warnings of the API server about a guest's requests, kept for the guest until it takes them.
//!
//! The client of a request knows the warnings, the session of the reconcile keeps them. Like the
//! bytes of a call ([`super::bytes`]), they reach the session through the task that runs the call.

use std::cell::RefCell;

/// The maximum number of warnings that are kept.
const MAX_WARNINGS: usize = 64;

/// The maximum size of the kept warnings together, in bytes. The API server cuts those of one
/// response to some 4 KiB.
const MAX_WARNING_BYTES: usize = 16 << 10;

/// The warnings of the calls since the guest last took them, in order. One that does not fit is
/// dropped.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    texts: Vec<String>,
    bytes: usize,
}

impl Warnings {
    fn add(&mut self, text: &str) {
        let bytes = self.bytes.saturating_add(text.len());
        if self.texts.len() < MAX_WARNINGS && bytes <= MAX_WARNING_BYTES {
            self.texts.push(text.to_owned());
            self.bytes = bytes;
        }
    }

    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(self).texts
    }
}

tokio::task_local! {
    /// The warnings of the reconcile whose call runs on this task.
    static CALL: RefCell<Warnings>;
}

/// Runs a call and adds the warnings noted by [`note`] to these.
pub(super) async fn collected<T>(warnings: &mut Warnings, call: impl Future<Output = T>) -> T {
    let scope = RefCell::new(std::mem::take(warnings));
    CALL.scope(scope, async {
        let result = call.await;
        *warnings = CALL.with(RefCell::take);
        result
    })
    .await
}

/// Keeps a warning for the guest whose call runs on this task. Does nothing outside of a call.
pub fn note(text: &str) {
    let _outside = CALL.try_with(|call| call.borrow_mut().add(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn warnings_of_calls_are_kept_in_order_until_they_are_taken() {
        note("outside of a call");
        let mut warnings = Warnings::default();
        collected(&mut warnings, async {
            note("one");
            tokio::task::yield_now().await;
            note("two");
        })
        .await;
        collected(&mut warnings, async { note("three") }).await;

        assert_eq!(warnings.take(), ["one", "two", "three"]);
        assert!(warnings.take().is_empty());
    }

    #[tokio::test]
    async fn warnings_beyond_a_limit_are_dropped() {
        let mut many = Warnings::default();
        let mut long = Warnings::default();
        collected(&mut many, async {
            (0..1_000).for_each(|at| note(&at.to_string()));
        })
        .await;
        collected(&mut long, async {
            note(&"x".repeat(MAX_WARNING_BYTES));
            note("y");
        })
        .await;

        let many = many.take();
        assert_eq!((many.len(), many[63].as_str()), (MAX_WARNINGS, "63"));
        assert_eq!(long.take().concat().len(), MAX_WARNING_BYTES);

        collected(&mut long, async { note("room again") }).await;
        assert_eq!(long.take(), ["room again"]);
    }
}

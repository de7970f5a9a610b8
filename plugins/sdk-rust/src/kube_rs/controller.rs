//! Reconcilers in the form of kube-rs's `Controller`: `async fn(Arc<Object>, Arc<Data>) ->
//! Result<Action, Error>`.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::executor::block_on;
use super::kind_of;
#[cfg(target_arch = "wasm32")]
use crate::backend::Backend;
use crate::json::decode;
use crate::options::Read;
use crate::{Context, Controller, Error, Request, Source};

/// The next step for an object (`kube::runtime::controller::Action`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    requeue_after: Option<Duration>,
}

impl Action {
    /// Reconciles the object again after this time, even if nothing changes. A change enqueues it
    /// earlier.
    #[must_use]
    pub const fn requeue(duration: Duration) -> Self {
        Self {
            requeue_after: Some(duration),
        }
    }

    /// Waits for the next change.
    #[must_use]
    pub const fn await_change() -> Self {
        Self {
            requeue_after: None,
        }
    }
}

impl From<Action> for crate::Action {
    fn from(action: Action) -> Self {
        action
            .requeue_after
            .map_or(Self::done(), Self::requeue_after)
    }
}

impl Controller {
    /// Returns a controller with the function and the error policy that
    /// `kube::runtime::Controller::run` takes. `data` builds the function's context for each
    /// reconcile: `|ctx| Data { client: ctx.kube_client() }`.
    ///
    /// As in kube-rs, the function is not called for a deleted object, and the error policy decides
    /// when an object that failed is reconciled again. The host counts such a reconcile as failed
    /// and reports the error as any other; an error for which the policy awaits a change is
    /// terminal. [`Controller::kube_with_backoff`] leaves the delay to the host.
    pub fn kube<K, Data, E, Fut>(
        name: impl Into<String>,
        reconcile: impl Fn(Arc<K>, Arc<Data>) -> Fut + 'static,
        error_policy: impl Fn(Arc<K>, &E, Arc<Data>) -> Action + 'static,
        data: impl Fn(&Context) -> Data + 'static,
    ) -> Self
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + 'static,
        Data: 'static,
        E: StdError + 'static,
        Fut: Future<Output = Result<Action, E>> + 'static,
    {
        let run = move |ctx: &Context, object: Arc<K>| {
            let data = Arc::new(data(ctx));
            let result = block_on(reconcile(Arc::clone(&object), Arc::clone(&data)))?;

            let error = match result {
                Ok(action) => return Ok(action.into()),
                Err(error) => error,
            };

            match error_policy(object, &error, data).requeue_after {
                Some(delay) => {
                    ctx.backend.fail(&message(&error));
                    Ok(crate::Action::requeue_after(delay))
                }
                None => Err(Error::terminal(message(&error))),
            }
        };

        Self::with_async(name, run)
    }

    /// Returns a controller like [`Controller::kube`], but without an error policy: a failed
    /// reconcile is reported in the Plugin's status and retried after the rate limiter's delay,
    /// which grows with each consecutive failure.
    pub fn kube_with_backoff<K, Data, E, Fut>(
        name: impl Into<String>,
        reconcile: impl Fn(Arc<K>, Arc<Data>) -> Fut + 'static,
        data: impl Fn(&Context) -> Data + 'static,
    ) -> Self
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + 'static,
        Data: 'static,
        E: StdError + 'static,
        Fut: Future<Output = Result<Action, E>> + 'static,
    {
        let run = move |ctx: &Context, object: Arc<K>| {
            let action = block_on(reconcile(object, Arc::new(data(ctx))))?
                .map_err(|error| Error::msg(message(&error)))?;

            Ok(action.into())
        };

        Self::with_async(name, run)
    }

    fn with_async<K>(
        name: impl Into<String>,
        run: impl Fn(&Context, Arc<K>) -> Result<crate::Action, Error> + 'static,
    ) -> Self
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned + 'static,
    {
        let by_request = move |ctx: &Context, request: &Request| {
            let kind = kind_of::<K>();
            match ctx.read_text(&kind, &request.key, Read::Cached) {
                Ok(text) => {
                    let object =
                        decode(&kind, &text).map_err(|error| Error::from(error).into_terminal())?;
                    run(ctx, Arc::new(object))
                }
                Err(error) if error.is_not_found() => Ok(crate::Action::done()),
                Err(error) => Err(error.into()),
            }
        };

        Self::new(name, by_request).for_source(Source::resource::<K>())
    }
}

/// Describes an error with its causes. Many of kube-rs's errors contain the message of their cause,
/// which is not repeated. For an error of the API server this is its message; kube-rs also prints
/// the whole `Status`, twice.
fn message(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = Some(error);

    while let Some(error) = next {
        let more = error.to_string();
        if let Some(kube::Error::Api(status)) = error.downcast_ref() {
            let short = if status.message.is_empty() {
                &status.reason
            } else {
                &status.message
            };

            match text.contains(&more) {
                true => text = text.replace(&more, short),
                false if text.contains(short.as_str()) => {}
                false => text = format!("{text}: {short}"),
            }

            break;
        }

        if !text.contains(&more) {
            let _infallible = write!(text, ": {more}");
        }

        next = error.source();
    }

    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(&'static str, kube::Error);

    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            if self.0.is_empty() {
                write!(f, "failed: {}", self.1)
            } else {
                f.write_str(self.0)
            }
        }
    }

    impl StdError for Outer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn message_of_the_api_server_is_without_its_status() {
        let denied = || {
            let status =
                kube::core::Status::failure("pods \"a\" is forbidden", "Forbidden").with_code(403);
            kube::Error::Api(Box::new(status))
        };

        assert_eq!(message(&denied()), "pods \"a\" is forbidden");
        assert_eq!(
            message(&Outer("", denied())),
            "failed: pods \"a\" is forbidden"
        );
        assert_eq!(
            message(&Outer("no", denied())),
            "no: pods \"a\" is forbidden"
        );

        let other = kube::Error::LinesCodecMaxLineLengthExceeded;
        assert_eq!(
            message(&Outer("no", other)),
            "no: Error finding newline character"
        );
    }
}

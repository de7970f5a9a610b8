//! Requests beyond the help of a retry. A reconcile that failed because of one is not retried until
//! its object changes: client-go's backoff would send the same request again and again, and nobody
//! would look at an object whose next try is a quarter of an hour away.
//!
//! - **What cannot exist**: the gate itself refuses a request for an object with an impossible
//!   name, such as `a/b`. That is final right away.
//! - **What the API server rejects**: a write is answered with 422, and the next try of the same
//!   key sends the same bytes and gets the same answer. The first failure is retried, because the
//!   cache may have been behind. JSON patches don't count: a failed `test` operation is a 422 as
//!   well, and depends on the object.
//!
//! A request caused a reconcile to fail only if the reconcile's error contains the words of the
//! refusal. A reconciler may well ignore a refusal and fail for another reason, which must be
//! retried.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use parking_lot::Mutex;
use serde::Deserialize;

use crate::{
    controller::request::{Action, Failure, ReconcileRequest},
    gate::{
        operation::{PatchBody, Write, WriteAction},
        raw_request::{RawRequest, RawResponse},
    },
    object::ObjectKey,
    status::{ApiError, ErrorKind},
};

/// How many failing keys per plugin we remember; others are retried with backoff.
const REMEMBERED: usize = 10_000;

/// How many refusals per reconcile we keep.
const OF_RECONCILE: usize = 16;

/// How much of a refusal's message must appear in an error, in bytes: long errors are cut.
const COMPARED: usize = 512;

/// The rejected writes of a plugin's failing keys.
#[derive(Default)]
pub(super) struct RejectedWrites {
    /// For each key of a controller, the hash of its last rejected write.
    by_key: Mutex<HashMap<(String, ObjectKey), u64>>,
    hasher: RandomState,
}

impl RejectedWrites {
    /// A write's hash; None if its validity depends on the object.
    pub fn hash_of(&self, write: &Write) -> Option<u64> {
        match &write.action {
            WriteAction::Patch {
                body: PatchBody::Json(_),
                ..
            } => None,
            action => Some(self.hasher.hash_one((&write.kind, action, &write.options))),
        }
    }

    /// A raw write's hash, like [`Self::hash_of`].
    pub fn hash_of_raw(&self, request: &RawRequest) -> Option<u64> {
        let content_type = request.content_type.as_deref().unwrap_or_default();
        let RawRequest {
            method,
            path,
            query,
            body,
            ..
        } = request;
        let is_json_patch = content_type.starts_with("application/json-patch+json");
        (!is_json_patch).then(|| {
            self.hasher
                .hash_one((method, path, query, content_type, body))
        })
    }

    /// Remembers a key's rejected write. Reports whether the previous one was the same.
    fn is_repeated(&self, request: &ReconcileRequest, hash: u64) -> bool {
        let key = (request.controller.clone(), request.key.clone());
        let mut by_key = self.by_key.lock();
        if by_key.len() >= REMEMBERED && !by_key.contains_key(&key) {
            return false;
        }
        by_key.insert(key, hash) == Some(hash)
    }

    fn forget(&self, request: &ReconcileRequest) {
        let mut by_key = self.by_key.lock();
        // Most reconciles succeed, so don't bother cloning their keys.
        if !by_key.is_empty() {
            by_key.remove(&(request.controller.clone(), request.key.clone()));
        }
    }
}

#[derive(Default)]
pub(super) struct Refusals(Vec<Refusal>);

struct Refusal {
    message: String,
    /// Hash of a write rejected by the API server; None if the object cannot exist.
    rejected: Option<u64>,
}

impl Refusals {
    /// Records a request for an object that cannot exist.
    pub fn impossible_name(&mut self, error: &ApiError) {
        self.add(&error.status.message, None);
    }

    /// Records the API server's answer to a write.
    pub fn answered<T>(&mut self, write: Option<u64>, result: &Result<T, ApiError>) {
        if let (Some(write), Err(error)) = (write, result)
            && error.kind == ErrorKind::Invalid
        {
            self.add(&error.status.message, Some(write));
        }
    }

    /// Records the API server's answer to a raw write.
    pub fn answered_raw(&mut self, write: Option<u64>, response: &RawResponse) {
        #[derive(Deserialize)]
        struct Status {
            message: String,
        }

        if let Some(write) = write.filter(|_| response.status == 422)
            && let Ok(Status { message }) = serde_json::from_str(&response.body)
        {
            self.add(&message, Some(write));
        }
    }

    fn add(&mut self, message: &str, rejected: Option<u64>) {
        if !message.is_empty() && self.0.len() < OF_RECONCILE {
            let end = message.floor_char_boundary(COMPARED);
            self.0.push(Refusal {
                message: message[..end].to_owned(),
                rejected,
            });
        }
    }

    /// Makes a failure terminal if a retry cannot change it; returns other results as they are.
    pub fn settle(
        &self,
        request: &ReconcileRequest,
        rejected: &RejectedWrites,
        result: Result<Action, Failure>,
    ) -> Result<Action, Failure> {
        let Err(Failure::Retry(message) | Failure::RetryAfter(message, _)) = &result else {
            rejected.forget(request);
            return result;
        };
        let is_cause = |refusal: &&Refusal| {
            // A client of raw requests may print the answer's body, where the message is escaped.
            let escaped = serde_json::Value::from(refusal.message.as_str()).to_string();
            message.contains(&refusal.message) || message.contains(escaped.trim_matches('"'))
        };
        let Some(cause) = self.0.iter().find(is_cause) else {
            rejected.forget(request);
            return result;
        };

        let why = match cause.rejected {
            None => "no such object can exist",
            Some(hash) if rejected.is_repeated(request, hash) => {
                "the API server rejected the same request twice"
            }
            Some(_) => return result,
        };
        Err(Failure::Terminal(format!(
            "{message} (not retried until the object changes: {why})"
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{gate::operation::WriteOptions, object::kind::GroupVersionKind, status::Status};

    fn request(name: &str) -> ReconcileRequest {
        ReconcileRequest {
            controller: "c".to_owned(),
            key: ObjectKey::namespaced("n", name),
            retries: 0,
            reconcile_id: "r".to_owned(),
            record: None,
        }
    }

    fn create(object: &str) -> Write {
        Write {
            kind: GroupVersionKind::new("v1", "ConfigMap"),
            action: WriteAction::Create {
                namespace: Some("n".to_owned()),
                object: object.to_owned(),
            },
            options: WriteOptions::default(),
        }
    }

    fn error(code: u16, message: &str) -> ApiError {
        ApiError::from_status(Status {
            code,
            message: message.to_owned(),
            ..Status::default()
        })
    }

    /// A reconcile whose write gets this answer, and that fails with this error.
    fn reconcile(
        rejected: &RejectedWrites,
        write: &Write,
        answer: ApiError,
        failure: Failure,
    ) -> Failure {
        let mut refusals = Refusals::default();
        refusals.answered::<()>(rejected.hash_of(write), &Err(answer));
        refusals
            .settle(&request("a"), rejected, Err(failure))
            .expect_err("a failure")
    }

    fn retry(message: &str) -> Failure {
        Failure::Retry(message.to_owned())
    }

    fn is_terminal(failure: &Failure) -> bool {
        matches!(failure, Failure::Terminal(_))
    }

    #[test]
    fn same_rejection_of_the_same_write_is_terminal() {
        let rejected = RejectedWrites::default();
        let invalid = || error(422, "label is too long");
        let failed = || retry("create: Invalid: label is too long");

        let first = reconcile(&rejected, &create("1"), invalid(), failed());
        assert_eq!(first, failed(), "the cache may have been behind");

        let second = reconcile(&rejected, &create("1"), invalid(), failed());
        assert!(is_terminal(&second), "{second}");
        assert!(
            second
                .to_string()
                .starts_with("create: Invalid: label is too long (not retried"),
            "{second}"
        );

        let later = Failure::RetryAfter("label is too long".to_owned(), Duration::from_secs(60));
        let third = reconcile(&rejected, &create("1"), invalid(), later);
        assert!(
            is_terminal(&third),
            "an event came, and nothing has changed"
        );

        let other = reconcile(&rejected, &create("2"), invalid(), failed());
        assert_eq!(other, failed(), "the object has changed");
    }

    #[test]
    fn other_failures_are_retried() {
        let rejected = RejectedWrites::default();
        for _ in 0..3 {
            for (answer, failure) in [
                (error(409, "conflict"), retry("conflict")),
                (error(503, "unavailable"), retry("unavailable")),
                // The rejection was ignored.
                (error(422, "no"), retry("the Deployment is not ready")),
            ] {
                let failed = reconcile(&rejected, &create("1"), answer, failure.clone());
                assert_eq!(failed, failure);
            }
        }

        let json_patch = Write {
            action: WriteAction::Patch {
                key: ObjectKey::namespaced("n", "a"),
                subresource: None,
                body: PatchBody::Json("[]".to_owned()),
                force: false,
            },
            ..create("1")
        };
        for _ in 0..3 {
            let failed = reconcile(&rejected, &json_patch, error(422, "test"), retry("test"));
            assert_eq!(failed, retry("test"), "it depends on the object");
        }
    }

    #[test]
    fn success_and_another_failure_between_forget_the_rejection() {
        let rejected = RejectedWrites::default();
        let invalid = || error(422, "too long");
        let nothing = Refusals::default();
        for between in [Ok(Action::Done), Err(retry("conflict"))] {
            reconcile(&rejected, &create("1"), invalid(), retry("too long"));
            let _settled = nothing.settle(&request("a"), &rejected, between);
            let failed = reconcile(&rejected, &create("1"), invalid(), retry("too long"));
            assert!(!is_terminal(&failed));
            rejected.forget(&request("a"));
        }
        assert!(rejected.by_key.lock().is_empty());
    }

    #[test]
    fn name_that_no_object_can_have_is_terminal_at_once() {
        let rejected = RejectedWrites::default();
        let mut refusals = Refusals::default();
        refusals.impossible_name(&ApiError::new(ErrorKind::BadRequest, "no object can have"));
        let failed = refusals.settle(
            &request("a/b"),
            &rejected,
            Err(retry("get: no object can have")),
        );
        assert!(is_terminal(&failed.expect_err("a failure")));
    }

    #[test]
    fn error_may_have_the_answer_in_json() {
        let rejected = RejectedWrites::default();
        let mut refusals = Refusals::default();
        let error = ApiError::new(
            ErrorKind::BadRequest,
            r#"no object can have the name "a/b""#,
        );
        refusals.impossible_name(&error);
        let body = RawResponse::of_error(&error).body;
        let failed = refusals.settle(&request("a"), &rejected, Err(retry(&body)));
        assert!(is_terminal(&failed.expect_err("a failure")));
    }

    #[test]
    fn raw_writes_are_compared_by_what_is_sent() {
        let rejected = RejectedWrites::default();
        let post = |body: &str, content_type: Option<&str>| RawRequest {
            method: "POST".to_owned(),
            path: "/api/v1/namespaces/n/configmaps".to_owned(),
            content_type: content_type.map(str::to_owned),
            body: Some(body.to_owned()),
            ..RawRequest::default()
        };
        let one = rejected.hash_of_raw(&post("1", None));
        assert_eq!(one, rejected.hash_of_raw(&post("1", None)));
        assert_ne!(one, rejected.hash_of_raw(&post("2", None)));
        assert_eq!(
            rejected.hash_of_raw(&post("1", Some("application/json-patch+json"))),
            None
        );

        let response = RawResponse::of_error(&error(422, "too long"));
        for terminal in [false, true] {
            let mut refusals = Refusals::default();
            refusals.answered_raw(one, &response);
            let failed = refusals.settle(&request("a"), &rejected, Err(retry("too long")));
            assert_eq!(is_terminal(&failed.expect_err("a failure")), terminal);
        }
    }
}

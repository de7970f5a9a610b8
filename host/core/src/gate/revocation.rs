//! The revocation of a plugin's permission to act: a token that is checked last, before a request is sent.
//!
//! Tokens form a chain: the token of a version of the code ends with the plugin's token, and all end with the host's. A
//! component that learns that a plugin must stop revokes its token directly and waits for nothing. The host's token also has
//! the [`Fence`] of the replica, so that no request is sent when its Lease may have ended.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    replicas::Fence,
    status::{ApiError, ErrorKind},
};

/// A token that permits acting until it is revoked.
#[derive(Debug, Default)]
pub struct Revocation {
    revoked: AtomicBool,
    refusal: Mutex<Option<ApiError>>,
    /// The parent token, with which this one ends.
    parent: Option<Arc<Self>>,
    /// The fence of the replica.
    fence: Option<Arc<Fence>>,
}

impl Revocation {
    /// Creates a valid token.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Creates a valid token that permits nothing while the fence is closed.
    pub fn fenced(fence: Arc<Fence>) -> Arc<Self> {
        Arc::new(Self { fence: Some(fence), ..Self::default() })
    }

    /// Creates a token that ends when this one ends, or before.
    pub fn child(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self { parent: Some(self.clone()), ..Self::default() })
    }

    /// Revokes the token: every later [`Revocation::check`] fails with `Forbidden` and this message. A second
    /// revocation does not change the message.
    pub fn revoke(&self, why: &str) {
        self.refuse(ErrorKind::Forbidden, why);
    }

    /// Pauses the token until [`Revocation::resume`]: checks fail with `Unavailable` and this message.
    pub fn pause(&self, why: &str) {
        self.refuse(ErrorKind::Unavailable, why);
    }

    fn refuse(&self, kind: ErrorKind, why: &str) {
        let mut refusal = self.refusal.lock();
        if refusal.is_none() {
            *refusal = Some(ApiError::new(kind, why));
            self.revoked.store(true, Ordering::Release);
        }
    }

    /// Makes a paused token valid again. A revoked token stays revoked.
    pub fn resume(&self) {
        let mut refusal = self.refusal.lock();
        if refusal.take_if(|refusal| refusal.kind == ErrorKind::Unavailable).is_some() {
            self.revoked.store(false, Ordering::Release);
        }
    }

    /// Reports whether the token itself is revoked.
    pub fn is_own_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Reports whether the token or one of its parents is revoked.
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire) || self.parent.as_ref().is_some_and(|parent| parent.is_revoked())
    }

    /// Checks that neither the token nor one of its parents is revoked.
    ///
    /// # Errors
    /// `Forbidden` with the message of the revocation; `Unavailable` while the token is paused or its fence is closed.
    pub fn check(&self) -> Result<(), ApiError> {
        self.deadline().map(|_within| ())
    }

    /// Checks as [`Revocation::check`] does, and returns the time within which a request must end; None if any time is
    /// permitted.
    ///
    /// # Errors
    /// Fails as [`Revocation::check`] does.
    pub fn deadline(&self) -> Result<Option<Duration>, ApiError> {
        if self.revoked.load(Ordering::Acquire)
            && let Some(refusal) = self.refusal.lock().clone()
        {
            return Err(refusal);
        }
        let own = self.fence.as_ref().map(|fence| fence.check()).transpose()?;
        let inherited = self.parent.as_ref().map(|parent| parent.deadline()).transpose()?.flatten();
        Ok(own.into_iter().chain(inherited).min())
    }

    /// Returns the time for which the fence permits requests; zero if it is closed, and None without a fence.
    pub fn lease(&self) -> Option<Duration> {
        let own = self.fence.as_ref().map(|fence| fence.check().unwrap_or_default());
        own.into_iter().chain(self.parent.as_ref().and_then(|parent| parent.lease())).min()
    }

    /// Returns the time since the Lease of the fence ended; zero if it has not, or without a fence.
    pub fn overdue(&self) -> Duration {
        let own = self.fence.as_ref().map(|fence| fence.overdue()).unwrap_or_default();
        own.max(self.parent.as_ref().map(|parent| parent.overdue()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_fence_stops_all_children_until_it_is_extended() {
        let fence = Fence::new(|| Duration::from_secs(100));
        let plugin = Revocation::fenced(fence.clone()).child();
        assert_eq!(plugin.check().expect_err("not held yet").kind, ErrorKind::Unavailable);
        fence.extend(Duration::from_secs(104));
        let four = Some(Duration::from_secs(4));
        assert_eq!((plugin.deadline(), plugin.lease()), (Ok(four), four));
        fence.close();
        assert_eq!(plugin.child().check().expect_err("closed").kind, ErrorKind::Unavailable);
        plugin.revoke("no consent");
        assert_eq!(plugin.check().expect_err("revoked").kind, ErrorKind::Forbidden);
        assert_eq!(plugin.child().lease(), Some(Duration::ZERO));
        assert_eq!((Revocation::new().child().deadline(), Revocation::new().child().lease()), (Ok(None), None));
    }

    #[test]
    fn a_child_ends_with_its_parent_and_alone() {
        let host = Revocation::new();
        let plugin = host.child();
        let code = plugin.child();
        assert_eq!(code.check(), Ok(()));
        code.revoke("replaced");
        code.revoke("too late");
        assert_eq!(code.check().expect_err("revoked").status.message, "replaced");
        assert_eq!(plugin.check(), Ok(()));
        let next = plugin.child();
        host.pause("the watch is stale");
        assert!(next.is_revoked());
        assert_eq!(next.check().expect_err("paused").kind, ErrorKind::Unavailable);
        host.resume();
        assert_eq!(next.check(), Ok(()));
        plugin.revoke("no consent");
        plugin.resume();
        assert_eq!(next.check().expect_err("revoked").kind, ErrorKind::Forbidden);
        assert_eq!(next.check().expect_err("revoked").status.message, "no consent");
    }
}

//! A plugin's permit to send requests, checked last, right before each request.
//!
//! Permits form a chain: the permit of one version of the code ends with the plugin's, and all end
//! with the host's. Whoever learns that a plugin must stop revokes its permit directly, without
//! waiting for anything. The host's permit also has the replica's [`Fence`], so that no request is
//! sent once its Lease may have ended.

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

/// Permits requests until revoked.
#[derive(Debug, Default)]
pub struct RequestPermit {
    revoked: AtomicBool,
    refusal: Mutex<Option<ApiError>>,
    /// If set, this permit ends with its parent.
    parent: Option<Arc<Self>>,
    fence: Option<Arc<Fence>>,
}

impl RequestPermit {
    /// Creates a valid permit.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Creates a valid permit that refuses everything while `fence` is closed.
    pub fn fenced(fence: Arc<Fence>) -> Arc<Self> {
        Arc::new(Self {
            fence: Some(fence),
            ..Self::default()
        })
    }

    /// Creates a permit that ends with this one, or earlier.
    pub fn child(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self {
            parent: Some(self.clone()),
            ..Self::default()
        })
    }

    /// Revokes the permit: from now on, [`RequestPermit::check`] fails with `Forbidden` and this
    /// message. Revoking again does not change the message.
    pub fn revoke(&self, why: &str) {
        self.refuse(ErrorKind::Forbidden, why);
    }

    /// Pauses the permit until [`RequestPermit::resume`]: checks fail with `Unavailable` and this
    /// message.
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

    /// Resumes a paused permit. A revoked one stays revoked.
    pub fn resume(&self) {
        let mut refusal = self.refusal.lock();
        if refusal
            .take_if(|refusal| refusal.kind == ErrorKind::Unavailable)
            .is_some()
        {
            self.revoked.store(false, Ordering::Release);
        }
    }

    /// Whether this permit itself is revoked.
    pub fn is_own_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Whether this permit or any of its parents is revoked.
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
            || self
                .parent
                .as_ref()
                .is_some_and(|parent| parent.is_revoked())
    }

    /// Checks that neither this permit nor any of its parents is revoked.
    ///
    /// # Errors
    /// `Forbidden` with the message of the revocation; `Unavailable` while the permit is paused or
    /// its fence is closed.
    pub fn check(&self) -> Result<(), ApiError> {
        self.deadline().map(|_within| ())
    }

    /// Like [`RequestPermit::check`], and returns how long a request may take; None for no limit.
    ///
    /// # Errors
    /// Same as [`RequestPermit::check`].
    pub fn deadline(&self) -> Result<Option<Duration>, ApiError> {
        if self.revoked.load(Ordering::Acquire)
            && let Some(refusal) = self.refusal.lock().clone()
        {
            return Err(refusal);
        }

        let own = self.fence.as_ref().map(|fence| fence.check()).transpose()?;
        let inherited = self
            .parent
            .as_ref()
            .map(|parent| parent.deadline())
            .transpose()?
            .flatten();

        Ok(own.into_iter().chain(inherited).min())
    }

    /// How long the fence still permits requests; zero if it is closed, None without a fence.
    pub fn lease(&self) -> Option<Duration> {
        let own = self
            .fence
            .as_ref()
            .map(|fence| fence.check().unwrap_or_default());
        own.into_iter()
            .chain(self.parent.as_ref().and_then(|parent| parent.lease()))
            .min()
    }

    /// How long ago the fence's Lease ended; zero if it has not, or without a fence.
    pub fn overdue(&self) -> Duration {
        let own = self
            .fence
            .as_ref()
            .map(|fence| fence.overdue())
            .unwrap_or_default();

        own.max(
            self.parent
                .as_ref()
                .map(|parent| parent.overdue())
                .unwrap_or_default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_fence_stops_all_children_until_it_is_extended() {
        let fence = Fence::new(|| Duration::from_secs(100));
        let plugin = RequestPermit::fenced(fence.clone()).child();
        assert_eq!(
            plugin.check().expect_err("not held yet").kind,
            ErrorKind::Unavailable
        );
        fence.extend(Duration::from_secs(104));
        let four = Some(Duration::from_secs(4));
        assert_eq!((plugin.deadline(), plugin.lease()), (Ok(four), four));
        fence.close();
        assert_eq!(
            plugin.child().check().expect_err("closed").kind,
            ErrorKind::Unavailable
        );
        plugin.revoke("no consent");
        assert_eq!(
            plugin.check().expect_err("revoked").kind,
            ErrorKind::Forbidden
        );
        assert_eq!(plugin.child().lease(), Some(Duration::ZERO));
        assert_eq!(
            (
                RequestPermit::new().child().deadline(),
                RequestPermit::new().child().lease()
            ),
            (Ok(None), None)
        );
    }

    #[test]
    fn a_child_ends_with_its_parent_and_alone() {
        let host = RequestPermit::new();
        let plugin = host.child();
        let code = plugin.child();
        assert_eq!(code.check(), Ok(()));
        code.revoke("replaced");
        code.revoke("too late");
        assert_eq!(
            code.check().expect_err("revoked").status.message,
            "replaced"
        );
        assert_eq!(plugin.check(), Ok(()));
        let next = plugin.child();
        host.pause("the watch is stale");
        assert!(next.is_revoked());
        assert_eq!(
            next.check().expect_err("paused").kind,
            ErrorKind::Unavailable
        );
        host.resume();
        assert_eq!(next.check(), Ok(()));
        plugin.revoke("no consent");
        plugin.resume();
        assert_eq!(
            next.check().expect_err("revoked").kind,
            ErrorKind::Forbidden
        );
        assert_eq!(
            next.check().expect_err("revoked").status.message,
            "no consent"
        );
    }
}

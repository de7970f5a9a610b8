//! The revocation of a plugin's rights to act: one token that is looked at last, before a request leaves.
//!
//! Tokens form a chain: that of a version of the code ends with the plugin's, and all end with the host's. Whoever learns
//! that a plugin may not act any more revokes its token directly, and waits for nobody.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

use crate::status::{ApiError, ErrorKind};

/// A token that permits to act until it is revoked.
#[derive(Debug, Default)]
pub struct Revocation {
    revoked: AtomicBool,
    refusal: Mutex<Option<ApiError>>,
    /// The token with which this one ends as well.
    parent: Option<Arc<Self>>,
}

impl Revocation {
    /// Creates a token that is not revoked.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Creates a token that ends with this one at the latest.
    pub fn child(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self { parent: Some(self.clone()), ..Self::default() })
    }

    /// Revokes the token: every later [`Revocation::check`] fails with `Forbidden` and this text. The first text stays.
    pub fn revoke(&self, why: &str) {
        self.refuse(ErrorKind::Forbidden, why);
    }

    /// Revokes the token until [`Revocation::resume`]: checks fail with `Unavailable` and this text.
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

    /// Makes a paused token valid again. One that was revoked stays revoked.
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

    /// Reports whether the token, or one with which it ends, is revoked.
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire) || self.parent.as_ref().is_some_and(|parent| parent.is_revoked())
    }

    /// Checks that neither the token nor one with which it ends is revoked.
    ///
    /// # Errors
    /// `Forbidden` with the text that it was revoked with; `Unavailable` while it is paused.
    pub fn check(&self) -> Result<(), ApiError> {
        if self.revoked.load(Ordering::Acquire)
            && let Some(refusal) = self.refusal.lock().clone()
        {
            return Err(refusal);
        }
        self.parent.as_ref().map_or(Ok(()), |parent| parent.check())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

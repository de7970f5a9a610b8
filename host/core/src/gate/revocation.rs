//! The revocation of a plugin's permission to act: a token that is checked last, before a request is sent.
//!
//! Tokens form a chain: the token of a version of the code ends with the plugin's token, and all end with the host's. A
//! component that learns that a plugin must stop revokes its token directly and waits for nothing.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

use crate::status::{ApiError, ErrorKind};

/// A token that permits acting until it is revoked.
#[derive(Debug, Default)]
pub struct Revocation {
    revoked: AtomicBool,
    refusal: Mutex<Option<ApiError>>,
    /// The parent token, with which this one ends.
    parent: Option<Arc<Self>>,
}

impl Revocation {
    /// Creates a valid token.
    pub fn new() -> Arc<Self> {
        Arc::default()
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
    /// `Forbidden` with the message of the revocation; `Unavailable` while the token is paused.
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

//! The host's own permissions: in which namespaces it may watch, and which ServiceAccounts it may
//! act as.
//!
//! They only decide what the host tries: the API server checks each of its requests again. A
//! decision is used until a change of a binding or a role concerns the host's user or one of its
//! groups, for at most [`HostPermissions::KEEP_WATCHED`]. While changes are not watched, and where
//! authorizers besides RBAC exist ([`Grants::with`]), it is used for [`HostPermissions::KEEP`].

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    authz::{
        access::Access,
        access_review::{Grants, PermissionChanges},
        decisions::{Lifetimes, Subject},
    },
    status::ApiError,
};

/// The host's cached permissions.
#[derive(Clone)]
pub struct HostPermissions(Arc<Grants>);

impl HostPermissions {
    /// How long a decision may be used while changes are not watched. Long enough for many plugins
    /// starting at once to share a review.
    pub const KEEP: Duration = Duration::from_secs(2);
    /// How long a decision may be used while changes are watched.
    pub const KEEP_WATCHED: Duration = Duration::from_secs(600);

    /// Lifetimes of decisions not kept beyond [`Self::KEEP`].
    const RECENT: Lifetimes = Lifetimes {
        unwatched: Self::KEEP,
        watched: Self::KEEP,
    };

    /// Caches the decisions of the reviewer in `grants`, and learns of changes from there.
    pub fn new(grants: Arc<Grants>) -> Self {
        Self(grants)
    }

    /// Sets the host's user and groups. Until then, every change of permissions ends the decisions.
    pub fn set_user(&self, user: &str, groups: &[String]) {
        self.0.set_host(
            groups
                .iter()
                .cloned()
                .chain([user.to_owned()])
                .collect::<BTreeSet<_>>(),
        );
    }

    /// Whether the API server would allow the host's request.
    ///
    /// # Errors
    /// `Unavailable` if the API server cannot be asked.
    pub async fn allows(&self, access: &Access) -> Result<bool, ApiError> {
        Ok(self
            .0
            .decide(&Subject::Host, access, self.lifetimes())
            .await?
            .allowed)
    }

    /// Whether the API server would allow the host's request, by a decision not older than
    /// [`Self::KEEP`].
    ///
    /// # Errors
    /// `Unavailable` if the API server cannot be asked.
    pub async fn allows_now(&self, access: &Access) -> Result<bool, ApiError> {
        Ok(self
            .0
            .decide(&Subject::Host, access, Self::RECENT)
            .await?
            .allowed)
    }

    /// Whether a cached decision allows the host's request.
    pub fn is_known_allowed(&self, access: &Access) -> bool {
        self.0
            .known(&Subject::Host, access, self.lifetimes())
            .is_some_and(|decision| decision.allowed)
    }

    /// A counter of changes of the host's permissions.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes_of(&Subject::Host)
    }

    /// The changes of the host's permissions, with their causes.
    pub fn permission_changes(&self) -> PermissionChanges {
        PermissionChanges::of(&self.0, Subject::Host)
    }

    fn lifetimes(&self) -> Lifetimes {
        let watched = if self.0.is_exact() {
            Self::KEEP
        } else {
            Self::KEEP_WATCHED
        };
        Lifetimes {
            unwatched: Self::KEEP,
            watched,
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;

    use super::*;
    use crate::{
        authz::{
            access::{AccessVerb, ReadVerb, ServiceAccount},
            access_review::{AccessReviewer, BindingText},
        },
        object::ObjectKey,
    };

    /// A reviewer of the host that counts the requests.
    #[derive(Default)]
    struct Host {
        allowed: Mutex<bool>,
        asked: Mutex<usize>,
    }

    #[async_trait]
    impl AccessReviewer for Host {
        async fn review(&self, _: &ServiceAccount, _: &Access) -> Result<bool, ApiError> {
            unreachable!("the host only")
        }

        async fn review_host(&self, _: &Access) -> Result<bool, ApiError> {
            *self.asked.lock() += 1;
            Ok(*self.allowed.lock())
        }
    }

    impl Host {
        fn asked(&self) -> usize {
            std::mem::take(&mut *self.asked.lock())
        }
    }

    /// The permissions of a host that is a ServiceAccount, watched for long enough.
    async fn permissions(exact: bool) -> (Arc<Host>, Arc<Grants>, HostPermissions) {
        let host = Arc::new(Host {
            allowed: Mutex::new(true),
            ..Host::default()
        });
        let grants = Grants::with(host.clone(), exact);
        let permissions = HostPermissions::new(grants.clone());
        let account = ServiceAccount {
            namespace: "home".into(),
            name: "host".into(),
        };
        permissions.set_user(&account.user(), &account.groups());
        grants.set_watched(true);
        tokio::time::sleep(HostPermissions::KEEP_WATCHED).await;
        (host, grants, permissions)
    }

    fn watch_pods() -> Access {
        Access {
            verb: AccessVerb::Read(ReadVerb::Watch),
            group: String::new(),
            version: "v1".into(),
            resource: "pods".into(),
            namespace: None,
            name: None,
        }
    }

    fn bind(grants: &Grants, binding: &str, role: &str, subject: &str) {
        let role = format!(r#"{{"kind":"ClusterRole","name":"{role}"}}"#);
        let text = BindingText {
            subjects: &format!("[{subject}]"),
            role: &role,
        };
        grants.binding_changed(&ObjectKey::cluster_scoped(binding), Some(text));
    }

    const OWN: &str = r#"{"kind":"ServiceAccount","namespace":"home","name":"host"}"#;
    const OTHER: &str = r#"{"kind":"ServiceAccount","namespace":"team","name":"plugin"}"#;

    #[tokio::test(start_paused = true)]
    async fn decision_lasts_until_change_concerns_host() {
        let (host, grants, permissions) = permissions(false).await;
        let pods = watch_pods();
        assert!(permissions.allows(&pods).await.expect("asked"));
        bind(&grants, "plugin", "edit", OTHER);
        grants.role_changed(&ObjectKey::cluster_scoped("edit"));
        tokio::time::sleep(HostPermissions::KEEP_WATCHED / 4).await;
        assert!(permissions.allows(&pods).await.expect("kept"));
        assert_eq!(host.asked(), 1, "changes of others are not the host's");

        *host.allowed.lock() = false;
        let group = |name: &str| format!(r#"{{"kind":"Group","name":"{name}"}}"#);
        let subjects = [
            OWN.to_owned(),
            group("system:serviceaccounts:home"),
            group("system:serviceaccounts"),
            group("system:authenticated"),
        ];
        for (at, subject) in subjects.iter().enumerate() {
            bind(&grants, &format!("own-{at}"), "view", subject);
            assert!(!permissions.is_known_allowed(&pods), "{subject}");
            assert!(
                !permissions.allows(&pods).await.expect("asked"),
                "{subject}"
            );
            assert_eq!(host.asked(), 1, "{subject}");
            *host.allowed.lock() = true;
            // An aggregated role is such a change as well: the API server's controller writes the
            // rules into it.
            grants.role_changed(&ObjectKey::cluster_scoped("view"));
            assert!(permissions.allows(&pods).await.expect("asked"), "{subject}");
            assert_eq!(host.asked(), 1, "{subject}");
            *host.allowed.lock() = false;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn decision_is_short_lived_without_watch_or_beside_authorizers() {
        let pods = watch_pods();
        for (exact, watched) in [(false, false), (true, true), (true, false)] {
            let (host, grants, permissions) = permissions(exact).await;
            grants.set_watched(watched);
            assert!(permissions.allows(&pods).await.expect("asked"));
            *host.allowed.lock() = false;
            tokio::time::sleep(HostPermissions::KEEP).await;
            assert!(
                !permissions.allows(&pods).await.expect("asked again"),
                "{exact} {watched}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn decision_of_host_with_unknown_user_ends_with_each_change() {
        let host = Arc::new(Host {
            allowed: Mutex::new(true),
            ..Host::default()
        });
        let grants = Grants::new(host.clone());
        grants.set_watched(true);
        let permissions = HostPermissions::new(grants.clone());
        tokio::time::sleep(HostPermissions::KEEP_WATCHED).await;
        assert!(permissions.allows(&watch_pods()).await.expect("asked"));
        *host.allowed.lock() = false;
        bind(&grants, "plugin", "edit", OTHER);
        assert!(
            !permissions
                .allows(&watch_pods())
                .await
                .expect("asked again")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn decision_is_requested_again_after_ten_minutes() {
        let (host, _grants, permissions) = permissions(false).await;
        assert!(permissions.allows(&watch_pods()).await.expect("asked"));
        *host.allowed.lock() = false;
        tokio::time::sleep(HostPermissions::KEEP_WATCHED).await;
        assert!(!permissions.is_known_allowed(&watch_pods()));
        assert!(
            !permissions
                .allows(&watch_pods())
                .await
                .expect("asked again")
        );
        assert!(!permissions.allows_now(&watch_pods()).await.expect("known"));
        *host.allowed.lock() = true;
        tokio::time::sleep(HostPermissions::KEEP).await;
        assert!(
            permissions
                .allows_now(&watch_pods())
                .await
                .expect("asked again")
        );
    }
}

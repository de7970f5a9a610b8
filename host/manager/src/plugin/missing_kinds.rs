//! Waiting for the kinds that a plugin's controllers need and the API server does not serve.

use std::{collections::BTreeMap, time::Duration};

use operetta_core::{
    authz::access_review::ServiceAccount,
    object::{ObjectKey, kind::GroupVersionKind},
};
use tokio::task::JoinSet;

use crate::{context::Context, plugin::hosted_plugin::MissingKinds};

/// The number of missing kinds for which the status suggests another one.
const MAX_SUGGESTIONS: usize = 5;

/// The timeout of the search for similar kinds.
const SUGGESTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Enqueues the Plugin again once the API server serves a missing kind. If other kinds are missing than before, or for
/// another account, it also looks for similar ones, as `account`.
pub(super) async fn wait_for_kinds(
    context: &Context,
    key: &ObjectKey,
    account: &ServiceAccount,
    kinds: Vec<GroupVersionKind>,
    missing: &mut MissingKinds,
) {
    // A task that found its kind may be followed by another one: the kind may be gone again.
    while missing.waiters.try_join_next().is_some() {}
    let is_known = missing.kinds == kinds && missing.account.as_ref() == Some(account);
    if is_known && missing.waiters.len() == kinds.len() {
        return;
    }
    missing.waiters = JoinSet::new();
    missing.kinds.clone_from(&kinds);
    missing.account = Some(account.clone());
    missing.similar = similar_kinds(context, account, &kinds).await;
    for kind in kinds {
        let discovery = context.cluster.discovery.clone();
        let queue = context.queue.clone();
        let key = key.clone();
        missing.waiters.spawn(async move {
            discovery.wait_for(&kind).await;
            queue.enqueue(&key);
        });
    }
}

/// Finds served kinds with names similar to the missing ones. Reads the API server's discovery as the ServiceAccount, so
/// that the status names no kind that is hidden from it. Returns no suggestion if the API server does not respond.
async fn similar_kinds(
    context: &Context,
    account: &ServiceAccount,
    missing: &[GroupVersionKind],
) -> BTreeMap<GroupVersionKind, GroupVersionKind> {
    let mut similar = BTreeMap::new();
    let search = async {
        for kind in missing.iter().take(MAX_SUGGESTIONS) {
            match context.cluster.similar_kinds.find(account, kind).await {
                Ok(Some(found)) => drop(similar.insert(kind.clone(), found)),
                Ok(None) => {}
                Err(error) => return tracing::debug!(%kind, %error, "failed to look for a similar kind"),
            }
        }
    };
    if tokio::time::timeout(SUGGESTION_TIMEOUT, search).await.is_err() {
        tracing::debug!(?missing, "timed out looking for similar kinds");
    }
    similar
}

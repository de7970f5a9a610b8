//! The kinds of a plugin's controllers that the API server does not serve.

use std::{collections::BTreeMap, time::Duration};

use operetta_core::{
    authz::access_review::ServiceAccount,
    object::{ObjectKey, kind::GroupVersionKind},
};
use tokio::task::JoinSet;

use crate::context::Context;

/// The number of missing kinds for which the status suggests another one.
const MAX_SUGGESTIONS: usize = 5;

/// The timeout of the search for similar kinds.
const SUGGESTION_TIMEOUT: Duration = Duration::from_secs(2);

/// The kinds of a plugin's controllers that the API server does not serve.
#[derive(Default)]
pub struct MissingKinds {
    /// The kinds, sorted.
    pub kinds: Vec<GroupVersionKind>,
    /// The similar served kind for each missing kind.
    pub(in crate::plugin) similar: BTreeMap<GroupVersionKind, GroupVersionKind>,
    /// The ServiceAccount that looked for similar kinds.
    account: Option<ServiceAccount>,
    /// The tasks that wait for them; they end with this.
    waiters: JoinSet<()>,
}

impl MissingKinds {
    /// Enqueues the Plugin again once the API server serves a missing kind. If other kinds are
    /// missing than before, or for another account, it also looks for similar ones, as `account`.
    pub(in crate::plugin) async fn wait_for(
        &mut self,
        context: &Context,
        plugin: &ObjectKey,
        account: &ServiceAccount,
        kinds: Vec<GroupVersionKind>,
    ) {
        // A kind that was found may be gone again, and is then waited for by another task.
        while self.waiters.try_join_next().is_some() {}
        let is_known = self.kinds == kinds && self.account.as_ref() == Some(account);
        if is_known && self.waiters.len() == kinds.len() {
            return;
        }

        self.waiters = JoinSet::new();
        self.kinds.clone_from(&kinds);
        self.account = Some(account.clone());
        self.similar = similar_kinds(context, account, &kinds).await;
        for kind in kinds {
            let discovery = context.cluster.discovery.clone();
            let queue = context.queue.clone();
            let plugin = plugin.clone();
            self.waiters.spawn(async move {
                discovery.wait_for(&kind).await;
                queue.enqueue(&plugin);
            });
        }
    }

    /// Stops waiting, because the controllers are stopped.
    pub(in crate::plugin) fn forget_kinds(&mut self) {
        self.kinds.clear();
        self.similar.clear();
        self.waiters = JoinSet::new();
    }
}

/// Finds served kinds with names similar to the missing ones. Reads the API server's discovery as
/// the ServiceAccount, so that the status names no kind that is hidden from it. Returns no
/// suggestion if the API server does not respond.
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
                Err(error) => {
                    return tracing::debug!(%kind, %error, "failed to look for a similar kind");
                }
            }
        }
    };

    let searched = tokio::time::timeout(SUGGESTION_TIMEOUT, search).await;
    if searched.is_err() {
        tracing::debug!(?missing, "timed out looking for similar kinds");
    }
    similar
}

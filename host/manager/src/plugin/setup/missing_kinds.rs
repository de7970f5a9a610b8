//! Kinds of a plugin's controllers that the API server doesn't serve.

use std::{collections::BTreeMap, time::Duration};

use operetta_core::{
    authz::access_review::ServiceAccount,
    object::{ObjectKey, kind::GroupVersionKind},
};
use operetta_kube::discovery::Suggestion;
use tokio::task::JoinSet;

use crate::context::Context;

/// For how many missing kinds the status suggests another.
const MAX_SUGGESTIONS: usize = 5;

/// Timeout of the search for similar kinds.
const SUGGESTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Kinds of a plugin's controllers that the API server doesn't serve.
#[derive(Default)]
pub struct MissingKinds {
    /// Sorted.
    pub kinds: Vec<GroupVersionKind>,
    /// What is served instead of each missing kind, if anything was found.
    pub(in crate::plugin) similar: BTreeMap<GroupVersionKind, Suggestion>,
    /// The ServiceAccount used to look for similar kinds.
    account: Option<ServiceAccount>,
    /// Tasks that wait for the kinds. Dropping this aborts them.
    waiters: JoinSet<()>,
}

impl MissingKinds {
    /// Enqueues the Plugin again when the API server serves a missing kind. If the missing kinds or
    /// the account have changed, it also looks for similar kinds as `account`.
    pub(in crate::plugin) async fn wait_for(
        &mut self,
        context: &Context,
        plugin: &ObjectKey,
        account: &ServiceAccount,
        kinds: Vec<GroupVersionKind>,
    ) {
        // A kind may have been found and be missing again. Its task has ended, so it needs a new
        // one.
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

    /// Stops waiting, because the controllers are being stopped.
    pub(in crate::plugin) fn forget_kinds(&mut self) {
        self.kinds.clear();
        self.similar.clear();
        self.waiters = JoinSet::new();
    }
}

/// Finds what is served instead of the missing kinds. Reads discovery as the
/// ServiceAccount, so that the status doesn't reveal kinds hidden from it. Returns no suggestions
/// if the API server doesn't respond.
async fn similar_kinds(
    context: &Context,
    account: &ServiceAccount,
    missing: &[GroupVersionKind],
) -> BTreeMap<GroupVersionKind, Suggestion> {
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

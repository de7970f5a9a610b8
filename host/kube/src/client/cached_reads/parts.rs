//! Lists of all namespaces when the host may not watch the kind in all of them: the objects visible
//! to both the host and the plugin, from one cache per namespace. A page is consistent within each
//! namespace, but not across namespaces.

use std::sync::Arc;

use operetta_core::{
    authz::access_review::Access,
    gate::operation::{Item, ListOptions, Page},
    status::ApiError,
};

use crate::client::cached_reads::{Lister, Parts, listable, not_watchable, wait_synced};
use crate::{
    client::object_api::PluginApi,
    discovery::ApiResource,
    store::cache::{item, key_of_token, token_of},
};

impl PluginApi {
    /// Lists all namespaces the plugin may list and the host may watch, in the order of keys. The
    /// resourceVersion is the lowest of the caches'.
    pub(super) async fn list_parts(
        &self,
        resource: &Arc<ApiResource>,
        options: &ListOptions,
        access: &Access,
        refusal: ApiError,
    ) -> Result<Page, ApiError> {
        let Some(grants) = &self.grants else {
            return Err(refusal);
        };

        let candidates = self
            .registry
            .watch_scope
            .candidates(Some(&grants.subject().namespace));
        let namespaces = listable(candidates, access, grants).await?;
        if namespaces.is_empty() {
            return Err(refusal);
        }

        let after = options
            .continue_token
            .as_deref()
            .map(key_of_token)
            .transpose()?;
        let mut parts = Vec::new();

        for namespace in namespaces {
            let of_namespace = ListOptions {
                namespace: Some(namespace),
                ..options.clone()
            };

            match self.lister(resource, &of_namespace).await? {
                Lister::Informer(informer, options) => parts.push((informer, options)),
                Lister::NotWatchable => {}
                Lister::ApiServer => {
                    self.throttle().await;
                    return self.list_live(resource, options).await;
                }
            }
        }

        if parts.is_empty() {
            return Err(not_watchable(resource, None));
        }

        // One more than the page, to find out whether there is another page.
        let wanted = options.limit.map(|limit| limit.max(1).saturating_add(1));
        let mut found = Vec::new();
        let mut revision = u64::MAX;

        for (informer, options) in parts {
            wait_synced(&informer).await?;
            revision = revision.min(informer.cache.store.revision());
            if after
                .as_ref()
                .is_some_and(|after| after.namespace > options.namespace)
            {
                continue;
            }

            let limit = wanted.map(|wanted| {
                wanted.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX))
            });

            if limit == Some(0) {
                break;
            }

            let options = ListOptions {
                limit,
                projection: vec![],
                ..options
            };

            found.extend(
                self.list_cached(&informer, &options, Parts::All)
                    .await?
                    .items,
            );
        }

        let limit = options
            .limit
            .map_or(usize::MAX, |limit| limit.max(1) as usize);
        let more = found.len() > limit;
        found.truncate(limit);
        let continue_token = match found.last() {
            Some(Item::Whole(last)) if more => Some(token_of(last.key())),
            _ => None,
        };
        let projected = |found: Item| match found {
            Item::Whole(object) => item(object, &options.projection),
            projected @ Item::Projected(_) => projected,
        };
        let items = found.into_iter().map(projected).collect();

        Ok(Page {
            items,
            resource_version: revision.to_string(),
            continue_token,
        })
    }
}

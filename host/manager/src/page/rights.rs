//! The Plugins and namespaces that a user may see: those whose Plugins the user may list.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};

use super::{failure::Failure, session::Session, state::Page};
use crate::admin::access::Required;

/// The maximum number of namespaces for which a user without a right in all of them is reviewed.
const MAX_NAMESPACES: usize = 500;
/// The maximum number of concurrent reviews for one request.
const AT_ONCE: usize = 4;

/// The namespaces that a user may see.
pub(super) struct Visible {
    /// None for all.
    namespaces: Option<BTreeSet<String>>,
    /// The right that is missing.
    pub forbidden: Option<String>,
}

impl Visible {
    /// Finds out which of these namespaces a user may see.
    pub(super) async fn of(
        page: &Page,
        session: &Session,
        all: BTreeSet<String>,
    ) -> Result<Self, Failure> {
        let forbidden = match session
            .check(page, Some(&Required::list_plugins(None)))
            .await
        {
            Ok(()) => {
                return Ok(Self {
                    namespaces: None,
                    forbidden: None,
                });
            }
            Err(failure) if failure.status == 403 => failure.message,
            Err(failure) => return Err(failure),
        };

        let reviews =
            stream::iter(all.into_iter().take(MAX_NAMESPACES)).map(|namespace| async move {
                let required = Required::list_plugins(Some(&namespace));
                (session.check(page, Some(&required)).await, namespace)
            });
        let reviewed: Vec<_> = reviews.buffer_unordered(AT_ONCE).collect().await;
        let mut namespaces = BTreeSet::new();

        for (result, namespace) in reviewed {
            match result {
                Ok(()) => {
                    namespaces.insert(namespace);
                }
                Err(failure) if failure.status == 403 => {}
                Err(failure) => return Err(failure),
            }
        }

        Ok(Self {
            namespaces: Some(namespaces),
            forbidden: Some(forbidden),
        })
    }

    /// Reports whether the user may see a namespace.
    pub(super) fn has(&self, namespace: &str) -> bool {
        self.namespaces
            .as_ref()
            .is_none_or(|namespaces| namespaces.contains(namespace))
    }

    /// Splits items into those that the user may see and the number of the others.
    pub(super) fn split<T>(
        &self,
        items: Vec<T>,
        namespace: impl Fn(&T) -> &str,
    ) -> (Vec<T>, usize) {
        let all = items.len();
        let shown: Vec<T> = items
            .into_iter()
            .filter(|item| self.has(namespace(item)))
            .collect();
        let hidden = all - shown.len();
        (shown, hidden)
    }
}

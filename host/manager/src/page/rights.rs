//! The Plugins and namespaces a user may see: those in which the user may list Plugins.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};

use super::{failure::Failure, session::Session, state::Page};
use crate::admin::access::Required;

/// How many namespaces are reviewed for a user who may not list Plugins in all of them.
const MAX_NAMESPACES: usize = 500;
/// The maximum number of concurrent reviews per request.
const AT_ONCE: usize = 4;

/// The namespaces a user may see.
pub(super) struct Visible {
    /// None for all.
    namespaces: Option<BTreeSet<String>>,
    /// The missing permission.
    pub forbidden: Option<String>,
}

impl Visible {
    /// Checks which of these namespaces a user may see.
    pub(super) async fn of(
        page: &Page,
        session: &Session,
        all: BTreeSet<String>,
    ) -> Result<Self, Failure> {
        let mut forbidden = match session
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

        forbidden += &unreviewed(all.len());
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

    pub(super) fn has(&self, namespace: &str) -> bool {
        self.namespaces
            .as_ref()
            .is_none_or(|namespaces| namespaces.contains(namespace))
    }

    /// Returns the items the user may see, and the number of the others.
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

/// Returns what to add to the message about a missing permission in all namespaces, if there are
/// too many to review one by one.
fn unreviewed(namespaces: usize) -> String {
    match namespaces.checked_sub(MAX_NAMESPACES) {
        None | Some(0) => String::new(),
        Some(more) => format!(
            "; only the first {MAX_NAMESPACES} of {namespaces} namespaces were reviewed, so {more} may be left out although you may list their Plugins"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_that_were_not_reviewed_are_not_called_forbidden() {
        assert_eq!(unreviewed(0), "");
        assert_eq!(unreviewed(MAX_NAMESPACES), "");
        let more = unreviewed(MAX_NAMESPACES + 20);
        assert!(
            more.contains("first 500 of 520 namespaces") && more.contains("20 may be left out"),
            "{more}"
        );
    }
}

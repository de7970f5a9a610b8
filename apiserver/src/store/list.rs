//! Lists, now or at a past revision.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use super::{
    error::StoreError,
    inner::{Inner, Objects},
    key::ObjectKey,
    object::StoredObject,
};
use crate::apimachinery::group_resource::GroupResource;

/// A predicate of objects.
pub type Filter<'a> = &'a (dyn Fn(&StoredObject) -> bool + 'a);

/// What a list asks for.
#[derive(Clone, Copy, Default)]
pub struct ListQuery<'a> {
    /// The namespace, or all of them.
    pub namespace: Option<&'a str>,
    /// The revision, or the current one.
    pub revision: Option<u64>,
    /// The first key, which need not exist.
    pub start: Option<&'a str>,
    /// The most objects to return; 0 means no limit.
    pub limit: usize,
    /// Selects objects, or all of them.
    pub filter: Option<Filter<'a>>,
}

/// The objects of one page of a list.
#[derive(Debug)]
pub struct Listing {
    /// The revision of the list.
    pub revision: u64,
    /// The objects, in the order of their keys.
    pub items: Vec<Arc<StoredObject>>,
    /// Whether more objects follow, selected or not.
    pub more: bool,
    /// How many objects follow, if the list has no filter.
    pub remaining: usize,
}

pub(super) fn list(
    inner: &Inner,
    resource: &GroupResource,
    query: &ListQuery<'_>,
) -> Result<Listing, StoreError> {
    let revision = query.revision.unwrap_or(inner.revision());
    if revision > inner.revision() {
        return Err(StoreError::FutureRevision {
            requested: revision,
            current: inner.revision(),
        });
    }

    inner.check_window(resource, revision)?;

    let undone = undo(inner, resource, revision);
    let empty = Objects::new();
    let objects = inner.objects(resource).unwrap_or(&empty);

    let mut page = Page {
        query,
        listing: Listing {
            revision,
            items: Vec::new(),
            more: false,
            remaining: 0,
        },
    };

    let current = range(objects, query).map(|(key, object)| (key, Some(object)));
    if undone.is_empty() {
        current.for_each(|(_, object)| page.add(object));
    } else {
        let past = range(&undone, query).map(|(key, object)| (key, object.as_ref()));
        merge(current, past, |object| page.add(object));
    }

    Ok(page.listing)
}

/// The states at `revision` of all objects that changed after it.
fn undo(
    inner: &Inner,
    resource: &GroupResource,
    revision: u64,
) -> BTreeMap<ObjectKey, Option<Arc<StoredObject>>> {
    let later = inner.events().after(resource, revision).rev();
    later
        .map(|event| (event.object.key().clone(), event.previous.clone()))
        .collect()
}

/// The entries of a query's namespace, from its start on.
fn range<'a, V>(
    map: &'a BTreeMap<ObjectKey, V>,
    query: &ListQuery<'_>,
) -> impl Iterator<Item = (&'a ObjectKey, &'a V)> + use<'a, V> {
    let prefix = query
        .namespace
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    let start = query.start.unwrap_or_default().max(&prefix).to_owned();

    map.range::<str, _>((Bound::Included(start.as_str()), Bound::Unbounded))
        .take_while(move |(key, _)| key.as_str().starts_with(&prefix))
}

/// Visits the entries of two sorted sequences in order. If both have a key, the second one counts.
fn merge<'a>(
    current: impl Iterator<Item = (&'a ObjectKey, Option<&'a Arc<StoredObject>>)>,
    past: impl Iterator<Item = (&'a ObjectKey, Option<&'a Arc<StoredObject>>)>,
    mut visit: impl FnMut(Option<&'a Arc<StoredObject>>),
) {
    let mut past = past.peekable();
    for (key, object) in current {
        while let Some((_, earlier)) = past.next_if(|(other, _)| *other < key) {
            visit(earlier);
        }

        match past.next_if(|(other, _)| *other == key) {
            Some((_, state)) => visit(state),
            None => visit(object),
        }
    }

    past.for_each(|(_, state)| visit(state));
}

struct Page<'a, 'q> {
    query: &'a ListQuery<'q>,
    listing: Listing,
}

impl Page<'_, '_> {
    fn add<'o>(&mut self, object: impl Into<Option<&'o Arc<StoredObject>>>) {
        let Some(object) = object.into() else { return };
        if self.query.limit > 0 && self.listing.items.len() >= self.query.limit {
            self.listing.more = true;
            self.listing.remaining += 1;
        } else if self.query.filter.is_none_or(|filter| filter(object)) {
            self.listing.items.push(Arc::clone(object));
        }
    }
}

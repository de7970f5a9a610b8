//! The order of items in a merged list.

use std::collections::{BTreeSet, VecDeque};

use crate::apply::fieldpath::PathElement;

/// An item of a merged list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergedItem {
    /// An index into the old list; the new list does not have this item.
    Old(usize),
    /// An index into the new list; merged with the old list's item.
    New(usize),
}

/// Orders the items of two merged lists.
///
/// The new list's items keep their order. The others stay before the items that they preceded in the
/// old list, which may have duplicates. Upstream is `visitListItems` in
/// <https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.0/typed/merge.go>.
pub(super) fn merge_order(old: &[PathElement], new: &[PathElement]) -> Vec<MergedItem> {
    let in_old: BTreeSet<_> = old.iter().collect();
    let in_new: BTreeSet<_> = new.iter().collect();
    let mut shared: VecDeque<_> = new
        .iter()
        .filter(|element| in_old.contains(element))
        .collect();

    let mut merged = BTreeSet::new();
    let mut order = Vec::with_capacity(old.len().max(new.len()));
    let mut old_at = 0;
    let mut new_at = 0;

    while old_at < old.len() || new_at < new.len() {
        if let (Some(old), Some(new)) = (old.get(old_at), new.get(new_at)) {
            if old == new {
                order.push(MergedItem::New(new_at));
                merged.insert(new);
                shared.pop_front();
                old_at += 1;
                new_at += 1;
                continue;
            }

            if in_new.contains(old) && shared.front().is_some_and(|next| *next != old) {
                // The new list has it at a later place.
                old_at += 1;
                continue;
            }
        }

        if let Some(element) = old.get(old_at) {
            if !in_new.contains(element) {
                order.push(MergedItem::Old(old_at));
                old_at += 1;
                continue;
            }

            if merged.contains(element) {
                old_at += 1;
            }
        }

        if let Some(element) = new.get(new_at) {
            order.push(MergedItem::New(new_at));
            merged.insert(element);
            new_at += 1;
            if shared.front() == Some(&element) {
                shared.pop_front();
            }
        }
    }

    order
}

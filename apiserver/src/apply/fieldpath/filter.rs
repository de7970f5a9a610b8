//! Filters of the fields that an endpoint may set.

use super::{element::PathElement, set::FieldSet};

/// A filter of the fields that count in a request.
///
/// The endpoint's strategy resets the other fields, so writing them must not change their managers.
#[derive(Clone, Debug)]
pub enum FieldFilter {
    /// Drops these fields and all below them.
    Exclude(FieldSet),
    /// Keeps only the fields that match.
    Include(SetMatcher),
}

impl FieldFilter {
    /// Returns the fields that count.
    pub fn filter(&self, set: &FieldSet) -> FieldSet {
        match self {
            Self::Exclude(excluded) => set.recursive_difference(excluded),
            Self::Include(matcher) => matcher.filter(set),
        }
    }
}

/// A pattern of sets of fields.
#[derive(Clone, Debug)]
pub enum SetMatcher {
    /// Matches everything.
    Any,
    /// Matches the members that one of these patterns matches, and below each of them what the
    /// pattern's second half matches.
    Members(Vec<(ElementMatcher, SetMatcher)>),
}

/// A pattern of path elements.
#[derive(Clone, Debug)]
pub enum ElementMatcher {
    /// Matches each element.
    Any,
    /// Matches this element.
    Is(PathElement),
}

impl ElementMatcher {
    fn matches(&self, element: &PathElement) -> bool {
        match self {
            Self::Any => true,
            Self::Is(expected) => expected == element,
        }
    }
}

impl SetMatcher {
    /// Creates a matcher of all fields below a path.
    pub fn prefix(
        path: impl IntoIterator<Item = ElementMatcher, IntoIter: DoubleEndedIterator>,
    ) -> Self {
        path.into_iter().rev().fold(Self::Any, |below, element| {
            Self::Members(vec![(element, below)])
        })
    }

    /// Combines two matchers: fields match when either matches.
    ///
    /// As in structured-merge-diff, patterns of any element are not combined: the first one counts.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let (Self::Members(mut ours), Self::Members(theirs)) = (self, other) else {
            return Self::Any;
        };

        for (element, below) in theirs {
            let same = ours
                .iter_mut()
                .find(|(existing, _)| match (existing, &element) {
                    (ElementMatcher::Is(existing), ElementMatcher::Is(element)) => {
                        existing == element
                    }
                    _ => false,
                });

            match same {
                Some((_, existing)) => {
                    *existing = std::mem::replace(existing, Self::Any).merge(below);
                }
                None => ours.push((element, below)),
            }
        }

        ours.sort_by_key(|(element, _)| matches!(element, ElementMatcher::Is(_)));
        Self::Members(ours)
    }

    /// Returns the fields of a set that match.
    pub fn filter(&self, set: &FieldSet) -> FieldSet {
        let Self::Members(patterns) = self else {
            return set.clone();
        };

        let find = |element: &PathElement| {
            patterns
                .iter()
                .find(|(pattern, _)| pattern.matches(element))
        };

        let members = set
            .members
            .iter()
            .filter(|member| find(member).is_some())
            .cloned()
            .collect();

        let children = set.children.iter().filter_map(|(element, child)| {
            let kept = find(element)?.1.filter(child);
            (!kept.is_empty()).then(|| (element.clone(), kept))
        });

        FieldSet {
            members,
            children: children.collect(),
        }
    }
}

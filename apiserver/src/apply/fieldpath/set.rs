//! A set of fields.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{element::PathElement, path::FieldPath};

/// A set of fields: a tree of path elements, of which some are members.
///
/// No subtree is empty, so that sets with the same members are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// The elements that are members themselves.
    pub(super) members: BTreeSet<PathElement>,
    /// The elements below which there are members.
    pub(super) children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a set from its direct members and the subtrees below elements.
    pub(crate) fn from_parts(
        members: BTreeSet<PathElement>,
        children: BTreeMap<PathElement, FieldSet>,
    ) -> Self {
        Self { members, children }
    }

    /// Adds a field, without the fields that contain it. The empty path is the whole object, which
    /// nobody owns.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                if !self.members.contains(last) {
                    self.members.insert(last.clone());
                }
            }
            [first, rest @ ..] => match self.children.get_mut(first) {
                Some(child) => child.insert(rest),
                None => self.children.entry(first.clone()).or_default().insert(rest),
            },
        }
    }

    /// Reports whether a field is a member.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self
                .children
                .get(first)
                .is_some_and(|child| child.contains(rest)),
        }
    }

    /// Reports whether an element directly below the root is a member.
    pub fn has_member(&self, element: &PathElement) -> bool {
        self.members.contains(element)
    }

    /// The subtree below an element, if there is one.
    pub fn child(&self, element: &PathElement) -> Option<&FieldSet> {
        self.children.get(element)
    }

    /// Iterates over the members directly below the root.
    pub fn members(&self) -> impl Iterator<Item = &PathElement> {
        self.members.iter()
    }

    /// Iterates over the elements with members below them.
    pub fn children(&self) -> impl Iterator<Item = (&PathElement, &FieldSet)> {
        self.children.iter()
    }

    /// Reports whether the set has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len() + self.children.values().map(Self::len).sum::<usize>()
    }

    /// The paths of all members, those of each level before those below it.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut paths = Vec::with_capacity(self.len());
        self.push_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn push_paths(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<FieldPath>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            paths.push(FieldPath(path));
        }

        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.push_paths(prefix, paths);
            prefix.pop();
        }
    }
}

impl FromIterator<FieldPath> for FieldSet {
    fn from_iter<T: IntoIterator<Item = FieldPath>>(paths: T) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }
}

impl fmt::Display for FieldSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.paths().iter().map(FieldPath::to_string).collect();
        formatter.write_str(&paths.join("\n"))
    }
}

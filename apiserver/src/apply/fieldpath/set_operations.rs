//! Union, intersection and differences of sets of fields.

use super::set::FieldSet;

impl FieldSet {
    /// Returns the fields that are in either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        union.extend(other);
        union
    }

    /// Adds the fields of another set.
    pub fn extend(&mut self, other: &Self) {
        self.members.extend(other.members.iter().cloned());

        for (element, theirs) in &other.children {
            match self.children.get_mut(element) {
                Some(ours) => ours.extend(theirs),
                None => {
                    self.children.insert(element.clone(), theirs.clone());
                }
            }
        }
    }

    /// Returns the fields that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, ours)| {
            let common = ours.intersection(other.children.get(element)?);
            (!common.is_empty()).then(|| (element.clone(), common))
        });

        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Returns the fields of this set without those of the other. Fields below one of the other stay.
    pub fn difference(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, ours)| {
            let rest = match other.children.get(element) {
                Some(theirs) => ours.difference(theirs),
                None => ours.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });

        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Returns the fields that are neither in the other set nor below one of its fields.
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let children = self
            .children
            .iter()
            .filter(|(element, _)| !other.members.contains(element))
            .filter_map(|(element, ours)| {
                let rest = match other.children.get(element) {
                    Some(theirs) => ours.recursive_difference(theirs),
                    None => ours.clone(),
                };
                (!rest.is_empty()).then(|| (element.clone(), rest))
            });

        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// Returns the members that have no members below them.
    pub fn leaves(&self) -> Self {
        let members = self
            .members
            .iter()
            .filter(|member| !self.children.contains_key(*member))
            .cloned()
            .collect();

        let children = self
            .children
            .iter()
            .map(|(element, child)| (element.clone(), child.leaves()))
            .collect();

        Self { members, children }
    }
}

//! The differing fields of two versions of an object, found by a single pass over the two texts
//! side by side. We build no trees, because every write of a plugin and every event of a watch
//! passes through here.
//!
//! The texts are untrusted. The time is linear in their sizes: only fields with differing names or
//! order are read again, within a budget, and looked up by sorting.
//! [`MAX_DEPTH`](super::scanner::MAX_DEPTH) bounds the nesting.

use std::{borrow::Cow, fmt};

use crate::object::{
    scanner::Scanner,
    value::{Budget, Field, equal},
};

/// How many changes are named; further ones are only counted.
pub(crate) const MAX_CHANGES: usize = 32;
/// Maximum bytes of a path. Longer ones are cut: the writer chooses the names of fields.
const MAX_PATH: usize = 256;
/// The fields of `metadata` changed by every write.
const EVERY_WRITE: [&str; 3] = ["resourceVersion", "generation", "managedFields"];
/// Stands for an absent value.
const ABSENT: &str = "null";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change<'a> {
    pub(crate) path: Path<'a>,
    /// Text of the value before the change; `null` if the field was absent.
    pub(crate) before: &'a str,
    /// Text of the value after the change; `null` if the field is absent.
    pub(crate) after: &'a str,
}

/// The field names leading to a field: `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Path<'a>(pub(super) Vec<Cow<'a, str>>);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| write!(f, ".{step}"))
    }
}

impl<'a> Path<'a> {
    #[cfg(test)]
    pub(crate) fn of(steps: &[&'a str]) -> Self {
        Self(steps.iter().map(|step| Cow::Borrowed(*step)).collect())
    }

    /// Whether the path leads to this top-level field, or a part of it.
    pub(crate) fn is_below(&self, field: &str) -> bool {
        self.0.first().is_some_and(|first| first == field)
    }

    /// The path as text. Beyond [`MAX_PATH`] bytes, only its beginning and length: `.data.aaaa…
    /// (70000 bytes)`.
    fn shortened(&self) -> String {
        let bytes: usize = self.0.iter().map(|step| 1 + step.len()).sum();
        if bytes <= MAX_PATH {
            return self.to_string();
        }

        let mut text = String::new();
        for step in &self.0 {
            text.push('.');
            text.push_str(&step[..step.floor_char_boundary(MAX_PATH)]);
            if text.len() > MAX_PATH {
                break;
            }
        }

        text.truncate(text.floor_char_boundary(MAX_PATH));
        format!("{text}… ({bytes} bytes)")
    }
}

/// The differing fields of two versions of an object, in the order of the later text. A removed
/// field keeps its place from the earlier text.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    /// The first [`MAX_CHANGES`].
    pub(crate) named: Vec<Change<'a>>,
    count: usize,
}

impl Changes<'_> {
    /// The paths. Those beyond `max_bytes` are only counted: `and 7 more`.
    pub(crate) fn paths(&self, max_bytes: usize) -> Vec<String> {
        let mut room = max_bytes;
        let fits = |path: &String| {
            room.checked_sub(path.len())
                .map(|left| room = left)
                .is_some()
        };

        let mut paths: Vec<String> = self
            .named
            .iter()
            .map(|change| change.path.shortened())
            .take_while(fits)
            .collect();
        if self.count > paths.len() {
            paths.push(format!("and {} more", self.count - paths.len()));
        }

        paths
    }
}

/// Finds the differing fields of two objects, except those changed by every write. A list counts as
/// one field, as does an added or removed object. A null field counts as absent. How values are
/// spelled doesn't matter (see [`super::value`]). None if a text has more than `max_bytes`, is not
/// JSON or would take too long.
pub(crate) fn changes<'a>(
    before: &'a str,
    after: &'a str,
    max_bytes: usize,
) -> Option<Changes<'a>> {
    if before.len().max(after.len()) > max_bytes {
        return None;
    }

    let mut walk = Walk {
        path: Vec::new(),
        found: Changes::default(),
        budget: Budget::default(),
    };
    let mut old = Scanner::new(before);
    let mut new = Scanner::new(after);
    walk.value(&mut old, &mut new, 0)?;
    old.end().and(new.end()).ok()?;

    Some(walk.found)
}

/// A walk over two texts. Its functions return None to give up.
struct Walk<'a> {
    path: Vec<Cow<'a, str>>,
    found: Changes<'a>,
    budget: Budget,
}

impl<'a> Walk<'a> {
    /// Compares the next values, inside of `depth` levels, and skips them.
    fn value(&mut self, old: &mut Scanner<'a>, new: &mut Scanner<'a>, depth: usize) -> Option<()> {
        if old.peek() == Some(b'{') && new.peek() == Some(b'{') {
            return self.object(old, new, depth + 1);
        }

        let before = old.value_text(depth).ok()?;
        if !new.skip_same(before) {
            let after = new.value_text(depth).ok()?;
            if !equal(before, after, &mut self.budget)? {
                self.add(before, after);
            }
        }

        Some(())
    }

    /// Compares two objects at nesting level `depth`. The API server writes an object's fields in
    /// the same order each time, so we compare them in step until the first differing name, and
    /// look up the rest.
    fn object(&mut self, old: &mut Scanner<'a>, new: &mut Scanner<'a>, depth: usize) -> Option<()> {
        old.open(depth).ok()?;
        new.open(depth).ok()?;
        let is_metadata = matches!(&self.path[..], [only] if only == "metadata");
        let mut is_first_of_old = true;
        let mut is_first_of_new = true;

        loop {
            let name = next_field(old, &mut is_first_of_old, is_metadata, depth)?;
            let new_name = next_field(new, &mut is_first_of_new, is_metadata, depth)?;
            if name != new_name {
                let mut old = Field::rest(old, name, depth, &mut self.budget)?;
                let mut new = Field::rest(new, new_name, depth, &mut self.budget)?;
                if is_metadata {
                    old.retain(|field| !EVERY_WRITE.contains(&&*field.name));
                    new.retain(|field| !EVERY_WRITE.contains(&&*field.name));
                }
                return self.fields(&old, &new, depth);
            }

            let Some(name) = name else { return Some(()) };
            self.path.push(name);
            self.value(old, new, depth)?;
            self.path.pop();
        }
    }

    /// Compares fields of an object at nesting level `depth`, where names or order differ.
    fn fields(&mut self, old: &[Field<'a>], new: &[Field<'a>], depth: usize) -> Option<()> {
        let places = Field::places(old, new);
        let mut is_removed = vec![true; old.len()];
        places
            .iter()
            .flatten()
            .for_each(|place| is_removed[*place] = false);
        let mut next = 0;

        for (field, place) in new.iter().zip(places) {
            // An added field comes after the fields removed at its position.
            let is_kept = |at: &usize| !is_removed[*at];
            let until =
                place.unwrap_or_else(|| (next..old.len()).find(is_kept).unwrap_or(old.len()));
            self.removed(old, &is_removed, next..until);
            next = next.max(until);
            self.path.push(field.name.clone());

            match place {
                Some(place) => {
                    self.value(
                        &mut Scanner::new(old[place].value),
                        &mut Scanner::new(field.value),
                        depth,
                    )?;
                }
                None => self.add(ABSENT, field.value),
            }

            self.path.pop();
        }

        self.removed(old, &is_removed, next..old.len());
        Some(())
    }

    /// Adds the removed fields in a range.
    fn removed(&mut self, old: &[Field<'a>], is_removed: &[bool], range: std::ops::Range<usize>) {
        for at in range.filter(|at| is_removed[*at]) {
            self.path.push(old[at].name.clone());
            self.add(old[at].value, ABSENT);
            self.path.pop();
        }
    }

    fn add(&mut self, before: &'a str, after: &'a str) {
        if before == after {
            return;
        }

        self.found.count += 1;
        if self.found.named.len() < MAX_CHANGES {
            self.found.named.push(Change {
                path: Path(self.path.clone()),
                before,
                after,
            });
        }
    }
}

/// Reads the name of an object's next field, skipping those changed by every write. The inner None
/// is the object's end.
fn next_field<'a>(
    scanner: &mut Scanner<'a>,
    is_first: &mut bool,
    is_metadata: bool,
    depth: usize,
) -> Option<Option<Cow<'a, str>>> {
    loop {
        let Some(name) = scanner.field(is_first).ok()? else {
            return Some(None);
        };
        let name = scanner.text_of(&name);
        if !is_metadata || !EVERY_WRITE.contains(&&*name) {
            return Some(Some(name));
        }
        scanner.value(depth).ok()?;
    }
}

//! The bytes of one object: its JSON text, and the offsets of the fields needed by the host.
//!
//! [`RawObject::read`] needs one pass. It checks the JSON, finds the fields of `metadata`, and
//! copies the text without pruned fields into one allocation of exact size. Texts in which one of
//! the host's fields occurs twice are rejected. A name, uid or label with an escape (`"\u0061"`) is
//! unescaped in the copy, so that it can be read in place; if the result would need an escape, the
//! text is rejected.
//!
//! A compressing store uses [`RawObject::strip`] to split the text into its metadata, which stays
//! readable, and the rest. [`RawObject::restore`] joins them again.

use triomphe::{Arc, HeaderSlice};

use crate::object::{
    error::ObjectError,
    kind::GroupVersionKind,
    metadata::{DELETION, GENERATION, LABELS, MARKS, Marks, Metadata, NAMESPACE, OWNERS},
    owner_reference::OwnerReference,
    prune::Prune,
    reading::Reading,
    scanner::Scanner,
    signs::{next_sign, sign},
};

/// An object's text and marks in one allocation, shared by clones.
#[derive(Clone, Debug)]
pub struct RawObject(Arc<HeaderSlice<Marks, str>>);

impl RawObject {
    /// Reads an object's text, as described in the module. If it lacks apiVersion or kind, as do
    /// items of typed lists, that of `kind` is inserted.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON or longer than 4 GiB, has no metadata.name, or a
    /// metadata field has the wrong type or occurs twice.
    pub fn read(
        text: &str,
        kind: Option<&GroupVersionKind>,
        prune: &Prune,
    ) -> Result<Self, ObjectError> {
        let (copy, marks) = Reading::new(text, prune)?.copy(kind, true);
        Ok(Self::of(&copy, marks))
    }

    /// Reads an object's text once, and returns it both complete and pruned. Both share one copy if
    /// nothing is pruned.
    ///
    /// # Errors
    /// Same as [`RawObject::read`].
    pub fn read_whole_and_pruned(
        text: &str,
        kind: Option<&GroupVersionKind>,
        prune: &Prune,
    ) -> Result<(Self, Self), ObjectError> {
        let reading = Reading::new(text, prune)?;
        let (copy, marks) = reading.copy(kind, false);
        let full = Self::of(&copy, marks);
        if !reading.has_cuts() {
            return Ok((full.clone(), full));
        }
        let (copy, marks) = reading.copy(kind, true);
        Ok((full, Self::of(&copy, marks)))
    }

    fn of(text: &str, marks: Marks) -> Self {
        Self(Arc::from_header_and_str(marks, text))
    }

    fn marks(&self) -> &Marks {
        &self.0.header
    }

    /// The full text.
    pub fn text(&self) -> &str {
        &self.0.slice
    }

    /// The metadata.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata {
            text: self.text(),
            marks: *self.marks(),
        }
    }

    /// metadata.generation; 0 for kinds without one.
    pub fn generation(&self) -> i64 {
        let Some(at) = self.marks().at(GENERATION) else {
            return 0;
        };
        let rest = &self.text()[at..];
        let end = rest
            .bytes()
            .position(|byte| byte != b'-' && !byte.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse().unwrap_or_default()
    }

    /// metadata.ownerReferences.
    pub fn owners(&self) -> Box<[OwnerReference]> {
        let Some(at) = self.marks().at(OWNERS) else {
            return Box::default();
        };
        let mut scanner = Scanner::at(self.text(), at);
        // Already checked when the text was read.
        scanner
            .value(0)
            .ok()
            .and_then(|list| serde_json::from_str(&self.text()[list]).ok())
            .unwrap_or_default()
    }

    /// Whether metadata.deletionTimestamp is set.
    pub fn deleting(&self) -> bool {
        self.marks().at(DELETION).is_some()
    }

    /// Bytes in memory, without the allocator's rounding.
    pub fn heap_bytes(&self) -> usize {
        size_of::<usize>() + size_of::<Marks>() + self.text().len()
    }

    /// Whether both share the same allocation.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Splits the object into metadata for [`Metadata::of_stripped`], and the text without the
    /// values in that metadata.
    ///
    /// Each removed value leaves a control character, 1 to 8 by its mark; JSON contains none. The
    /// first byte is the number of marks.
    pub fn strip(&self) -> (String, String) {
        let metadata = self.metadata();
        let labels = self.marks().at(LABELS).map(|at| {
            let mut scanner = Scanner::at(self.text(), at);
            scanner.value(0).unwrap_or(at..at)
        });
        let labels = labels.map(|range| &self.text()[range]).unwrap_or_default();

        let taken = [
            metadata.name(),
            metadata.string(NAMESPACE).unwrap_or_default(),
            metadata.uid(),
            metadata.resource_version(),
            labels,
        ];

        let mut positions: Vec<(usize, usize)> = (0..MARKS)
            .filter_map(|mark| Some((self.marks().at(mark)?, mark)))
            .collect();
        positions.sort_unstable();
        let mut rest = String::with_capacity(self.text().len() + MARKS);
        rest.push(sign(positions.len()));
        let mut from = 0;

        for (at, mark) in positions {
            rest.push_str(&self.text()[from..at]);
            rest.push(sign(mark + 1));
            from = at + taken.get(mark).map_or(0, |value| value.len());
        }

        rest.push_str(&self.text()[from..]);
        (taken.join("\""), rest)
    }

    /// Joins the parts of [`RawObject::strip`]; None for other texts. `text` is a reusable buffer.
    pub fn restore(metadata: &str, rest: &str, text: &mut String) -> Option<Self> {
        let known = Metadata::of_stripped(metadata);
        let taken = [
            known.name(),
            known.string(NAMESPACE)?,
            known.uid(),
            known.resource_version(),
            known.marks.at(LABELS).map_or("", |at| &metadata[at..]),
        ];

        let count = usize::from(*rest.as_bytes().first()?);
        let mut rest = rest.get(1..)?;
        text.clear();
        let mut marks = Marks::NONE;

        for _ in 0..count {
            let at = next_sign(rest.as_bytes())?;
            text.push_str(&rest[..at]);
            let mark = usize::from(rest.as_bytes()[at]) - 1;
            marks.set(mark, text.len());
            text.push_str(taken.get(mark).copied().unwrap_or_default());
            rest = &rest[at + 1..];
        }

        text.push_str(rest);
        Some(Self::of(text, marks))
    }
}

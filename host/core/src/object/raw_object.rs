//! The bytes of one object: its JSON text, and the offsets of the fields that the host reads.
//!
//! [`RawObject::read`] reads a text in one pass. It checks the JSON, finds the fields of
//! `metadata`, and copies the text without pruned fields into one allocation of exact size. A text
//! in which a field that the host reads occurs twice is rejected. A name, uid or label with an
//! escape (`"\u0061"`) is unescaped in the copy, so that it can be read in place; if the result
//! would need an escape, the text is rejected.
//!
//! A store that compresses uses [`RawObject::strip`], which splits the text into its metadata,
//! which stays readable, and the rest. [`RawObject::restore`] joins both again.

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

/// An object's text and its marks in one allocation. Clones share it.
#[derive(Clone, Debug)]
pub struct RawObject(Arc<HeaderSlice<Marks, str>>);

impl RawObject {
    /// Reads an object's text, as the module describes. If the text has no apiVersion or kind, as
    /// in items of a typed list, that of `kind` is inserted.
    ///
    /// # Errors
    /// Returns an error when the text is not JSON or longer than 4 GiB, has no metadata.name, or a
    /// metadata field has the wrong type or occurs twice.
    pub fn read(
        text: &str,
        kind: Option<&GroupVersionKind>,
        prune: &Prune,
    ) -> Result<Self, ObjectError> {
        let (copy, marks) = Reading::new(text, prune)?.copy(kind, true);
        Ok(Self::of(&copy, marks))
    }

    /// Reads an object's text once, and returns it whole and pruned. Both share one copy if nothing
    /// is pruned.
    ///
    /// # Errors
    /// Fails as [`RawObject::read`] does.
    pub fn read_whole_and_pruned(
        text: &str,
        kind: Option<&GroupVersionKind>,
        prune: &Prune,
    ) -> Result<(Self, Self), ObjectError> {
        let reading = Reading::new(text, prune)?;
        let (copy, marks) = reading.copy(kind, false);
        let whole = Self::of(&copy, marks);
        if !reading.has_cuts() {
            return Ok((whole.clone(), whole));
        }
        let (copy, marks) = reading.copy(kind, true);
        Ok((whole, Self::of(&copy, marks)))
    }

    fn of(text: &str, marks: Marks) -> Self {
        Self(Arc::from_header_and_str(marks, text))
    }

    fn marks(&self) -> &Marks {
        &self.0.header
    }

    /// Returns the whole text.
    pub fn text(&self) -> &str {
        &self.0.slice
    }

    /// Returns the metadata.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata {
            text: self.text(),
            marks: *self.marks(),
        }
    }

    /// Returns metadata.generation; 0 for kinds that have none.
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

    /// Returns metadata.ownerReferences.
    pub fn owners(&self) -> Box<[OwnerReference]> {
        let Some(at) = self.marks().at(OWNERS) else {
            return Box::default();
        };
        let mut scanner = Scanner::at(self.text(), at);
        // They were checked when the text was read.
        scanner
            .value(0)
            .ok()
            .and_then(|list| serde_json::from_str(&self.text()[list]).ok())
            .unwrap_or_default()
    }

    /// Reports whether metadata.deletionTimestamp is set.
    pub fn deleting(&self) -> bool {
        self.marks().at(DELETION).is_some()
    }

    /// Returns the number of bytes in memory, without the allocator's rounding.
    pub fn heap_bytes(&self) -> usize {
        size_of::<usize>() + size_of::<Marks>() + self.text().len()
    }

    /// Reports whether both share the same allocation.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the metadata for [`Metadata::of_stripped`], and the text without the values in that
    /// metadata.
    ///
    /// Each removed value leaves a control character, 1 to 8 by its mark, which JSON does not
    /// contain. The first byte is their number.
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

    /// Joins the parts of [`RawObject::strip`]; None for other texts. `text` is a buffer that
    /// callers can reuse.
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

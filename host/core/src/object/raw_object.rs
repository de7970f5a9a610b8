//! The bytes of one object: its JSON text, and where in it the fields stand that the host itself looks at.
//!
//! [`RawObject::read`] goes over a text once. It checks that it is JSON, finds the fields of `metadata`, and copies the text,
//! without what is to be left out, into one piece of memory of just its size. Of two fields of one name that the host
//! reads it takes neither: the text is refused. A name, uid or label with an escape in it (`"\u0061"`) is written plainly
//! in the copy, so that whoever reads it can do so in place; one that cannot be is refused.
//!
//! For a store that compresses, [`RawObject::strip`] parts a raw into its metadata, which stays readable, and the rest, and
//! [`RawObject::restore`] puts both together again.

use triomphe::{Arc, HeaderSlice};

use crate::object::{
    ObjectError, OwnerReference,
    kind::GroupVersionKind,
    metadata::{DELETION, GENERATION, LABELS, MARKS, Marks, Metadata, NAMESPACE, OWNERS},
    prune::Prune,
    reading::Reading,
    scanner::Scanner,
    signs::{next_sign, sign},
};

/// An object's text, and its marks, in one piece of memory. Cheap to clone: the clones share it.
#[derive(Clone, Debug)]
pub struct RawObject(Arc<HeaderSlice<Marks, str>>);

impl RawObject {
    /// Reads an object's text: see the module. `kind` is written in front of a text that has no apiVersion or kind, as
    /// items of a typed list have none.
    ///
    /// # Errors
    /// When the text is not JSON or longer than 4 GiB, has no metadata.name, or a metadata field has the wrong type or
    /// stands there twice.
    pub fn read(text: &str, kind: Option<&GroupVersionKind>, prune: &Prune) -> Result<Self, ObjectError> {
        let (copy, marks) = Reading::new(text, prune)?.copy(kind, true);
        Ok(Self::of(&copy, marks))
    }

    /// Reads an object's text once, and returns it whole and pruned. Both share one copy if there was nothing to prune.
    ///
    /// # Errors
    /// As [`RawObject::read`].
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

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.0.slice
    }

    /// Returns the metadata.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata { text: self.text(), marks: *self.marks() }
    }

    /// metadata.generation; 0 for kinds that have none.
    pub fn generation(&self) -> i64 {
        let Some(at) = self.marks().at(GENERATION) else { return 0 };
        let rest = &self.text()[at..];
        let end = rest.bytes().position(|byte| byte != b'-' && !byte.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().unwrap_or_default()
    }

    /// metadata.ownerReferences.
    pub fn owners(&self) -> Box<[OwnerReference]> {
        let Some(at) = self.marks().at(OWNERS) else { return Box::default() };
        let mut scanner = Scanner::at(self.text(), at);
        // They were read before, when the text was.
        scanner.value(0).ok().and_then(|list| serde_json::from_str(&self.text()[list]).ok()).unwrap_or_default()
    }

    /// Reports whether metadata.deletionTimestamp is set.
    pub fn deleting(&self) -> bool {
        self.marks().at(DELETION).is_some()
    }

    /// Bytes it holds in memory, without the allocator's rounding.
    pub fn heap_bytes(&self) -> usize {
        size_of::<usize>() + size_of::<Marks>() + self.text().len()
    }

    /// Reports whether both are the same piece of memory.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its metadata for [`Metadata::of_stripped`], and the text without what is in the metadata.
    ///
    /// What is taken out leaves a control character behind, 1 to 8 by the mark: JSON has none. The first byte tells how
    /// many there are.
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
        let mut positions: Vec<(usize, usize)> =
            (0..MARKS).filter_map(|mark| Some((self.marks().at(mark)?, mark))).collect();
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

    /// The raw that [`RawObject::strip`] has parted. None for other texts. `text` is room to write in, to be used again.
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

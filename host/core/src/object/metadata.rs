//! The metadata fields needed by the host, found by their offsets in an object's text.

use crate::object::scanner::{self, Scanner};

/// Where the values of fields begin in a text (for strings, after the quote); [`NONE`] for a
/// missing or null field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks(pub(crate) [u32; MARKS]);

pub(crate) const MARKS: usize = 8;
pub(crate) const NAME: usize = 0;
pub(crate) const NAMESPACE: usize = 1;
pub(crate) const UID: usize = 2;
pub(crate) const REVISION: usize = 3;
pub(crate) const LABELS: usize = 4;
// Stripping removes the values above from the text. Of the fields below, only the offset is stored.
pub(crate) const GENERATION: usize = 5;
pub(crate) const OWNERS: usize = 6;
pub(crate) const DELETION: usize = 7;
pub(crate) const NONE: u32 = u32::MAX;

/// An object's metadata, readable without the rest of the text.
#[derive(Clone, Copy)]
pub struct Metadata<'a> {
    pub(crate) text: &'a str,
    pub(crate) marks: Marks,
}

impl<'a> Metadata<'a> {
    pub(crate) fn string(&self, mark: usize) -> Option<&'a str> {
        let at = self.marks.at(mark)?;
        let rest = &self.text[at..];
        // Reading an object unescapes these strings, so the first quote ends them.
        Some(&rest[..scanner::plain(rest.as_bytes())])
    }

    fn is_string(&self, mark: usize, value: &str) -> bool {
        let rest = self
            .marks
            .at(mark)
            .and_then(|at| self.text.as_bytes().get(at..))
            .unwrap_or_default();
        rest.strip_prefix(value.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&b'"'))
    }

    /// Whether the object has this namespace and name.
    pub fn is(&self, namespace: Option<&str>, name: &str) -> bool {
        let named = self.is_string(NAME, name);
        named
            && namespace.map_or_else(
                || self.namespace().is_none(),
                |namespace| self.is_string(NAMESPACE, namespace),
            )
    }

    /// metadata.name.
    pub fn name(&self) -> &'a str {
        self.string(NAME).unwrap_or_default()
    }

    /// metadata.namespace; None if empty.
    pub fn namespace(&self) -> Option<&'a str> {
        self.string(NAMESPACE)
            .filter(|namespace| !namespace.is_empty())
    }

    /// metadata.uid; empty if missing.
    pub fn uid(&self) -> &'a str {
        self.string(UID).unwrap_or_default()
    }

    /// metadata.resourceVersion; empty if missing.
    pub fn resource_version(&self) -> &'a str {
        self.string(REVISION).unwrap_or_default()
    }

    /// The resourceVersion as a number; None if it is not one.
    pub fn revision(&self) -> Option<u64> {
        self.resource_version().parse().ok()
    }

    /// metadata.labels, in the order of the text.
    pub fn labels(&self) -> Labels<'a> {
        let scanner = self
            .marks
            .at(LABELS)
            .map(|at| Scanner::at(self.text, at + 1));
        Labels {
            text: self.text,
            scanner,
            first: true,
        }
    }

    /// The value of a label. If a label occurs twice, the last value counts, as in Go.
    pub fn label(&self, name: &str) -> Option<&'a str> {
        self.labels()
            .filter(|(label, _)| *label == name)
            .last()
            .map(|(_, value)| value)
    }

    /// Reads the metadata written by [`RawObject::strip`](crate::object::RawObject::strip).
    pub fn of_stripped(metadata: &'a str) -> Self {
        let mut marks = Marks::NONE;
        let mut at = 0;
        for mark in [NAME, NAMESPACE, UID, REVISION] {
            marks.set(mark, at);
            at += metadata[at..]
                .bytes()
                .position(|byte| byte == b'"')
                .map_or(metadata.len() - at, |end| end + 1);
        }

        if at < metadata.len() {
            marks.set(LABELS, at);
        }

        Self {
            text: metadata,
            marks,
        }
    }
}

/// The labels of an object.
pub struct Labels<'a> {
    text: &'a str,
    scanner: Option<Scanner<'a>>,
    first: bool,
}

impl<'a> Iterator for Labels<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let mut scanner = self.scanner.take()?;
        let name = scanner.field(&mut self.first).ok()??;
        scanner.peek();
        let value = scanner.string().ok()?;
        self.scanner = Some(scanner);
        Some((&self.text[name.inside], &self.text[value.inside]))
    }
}

impl Marks {
    pub(crate) const NONE: Self = Self([NONE; MARKS]);

    pub(crate) fn at(&self, mark: usize) -> Option<usize> {
        Some(self.0[mark])
            .filter(|at| *at != NONE)
            .map(|at| at as usize)
    }

    pub(crate) fn set(&mut self, mark: usize, at: usize) {
        // Longer texts were rejected earlier.
        self.0[mark] = u32::try_from(at).unwrap_or(NONE);
    }
}

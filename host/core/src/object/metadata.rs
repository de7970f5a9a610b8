//! The metadata fields that the host reads in an object's text, found by their offsets.

use crate::object::scanner::{self, Scanner};

/// The offsets at which the values of fields begin in a text, for strings behind the quote; [`NONE`] for a field that
/// is missing or null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks(pub(crate) [u32; MARKS]);

pub(crate) const MARKS: usize = 8;
pub(crate) const NAME: usize = 0;
pub(crate) const NAMESPACE: usize = 1;
pub(crate) const UID: usize = 2;
pub(crate) const REVISION: usize = 3;
pub(crate) const LABELS: usize = 4;
// The values of those above are taken out of a stripped text; of those below only the place is kept.
pub(crate) const GENERATION: usize = 5;
pub(crate) const OWNERS: usize = 6;
pub(crate) const DELETION: usize = 7;
pub(crate) const NONE: u32 = u32::MAX;

/// The metadata of an object, which can be read without its whole text.
#[derive(Clone, Copy)]
pub struct Metadata<'a> {
    pub(crate) text: &'a str,
    pub(crate) marks: Marks,
}

impl<'a> Metadata<'a> {
    pub(crate) fn string(&self, mark: usize) -> Option<&'a str> {
        let at = self.marks.at(mark)?;
        let rest = &self.text[at..];
        // There is no escape in it, and nothing else that would end it.
        Some(&rest[..scanner::plain(rest.as_bytes())])
    }

    fn is_string(&self, mark: usize, value: &str) -> bool {
        let rest = self.marks.at(mark).and_then(|at| self.text.as_bytes().get(at..)).unwrap_or_default();
        rest.strip_prefix(value.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'"'))
    }

    /// Reports whether this is the object of that key.
    pub fn is(&self, namespace: Option<&str>, name: &str) -> bool {
        let named = self.is_string(NAME, name);
        named && namespace.map_or_else(|| self.namespace().is_none(), |namespace| self.is_string(NAMESPACE, namespace))
    }

    /// metadata.name.
    pub fn name(&self) -> &'a str {
        self.string(NAME).unwrap_or_default()
    }

    /// metadata.namespace; None if it is empty.
    pub fn namespace(&self) -> Option<&'a str> {
        self.string(NAMESPACE).filter(|namespace| !namespace.is_empty())
    }

    /// metadata.uid; empty if the server sent none.
    pub fn uid(&self) -> &'a str {
        self.string(UID).unwrap_or_default()
    }

    /// metadata.resourceVersion; empty if the server sent none.
    pub fn resource_version(&self) -> &'a str {
        self.string(REVISION).unwrap_or_default()
    }

    /// The resourceVersion as a number. None if it is none.
    pub fn revision(&self) -> Option<u64> {
        self.resource_version().parse().ok()
    }

    /// metadata.labels, as they stand in the text.
    pub fn labels(&self) -> Labels<'a> {
        let scanner = self.marks.at(LABELS).map(|at| Scanner::at(self.text, at + 1));
        Labels { text: self.text, scanner, first: true }
    }

    /// The value of a label: as in Go, of two of one name the last.
    pub fn label(&self, name: &str) -> Option<&'a str> {
        self.labels().filter(|(label, _)| *label == name).last().map(|(_, value)| value)
    }

    /// The metadata of a text that [`RawObject::strip`](crate::object::RawObject::strip) has made.
    pub fn of_stripped(metadata: &'a str) -> Self {
        let mut marks = Marks::NONE;
        let mut at = 0;
        for mark in [NAME, NAMESPACE, UID, REVISION] {
            marks.set(mark, at);
            at += metadata[at..].bytes().position(|byte| byte == b'"').map_or(metadata.len() - at, |end| end + 1);
        }
        if at < metadata.len() {
            marks.set(LABELS, at);
        }
        Self { text: metadata, marks }
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
        Some(self.0[mark]).filter(|at| *at != NONE).map(|at| at as usize)
    }

    pub(crate) fn set(&mut self, mark: usize, at: usize) {
        // A text that is longer is refused before.
        self.0[mark] = u32::try_from(at).unwrap_or(NONE);
    }
}

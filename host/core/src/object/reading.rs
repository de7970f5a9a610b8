//! One pass over an object's text, checking the JSON and finding the fields needed by the host.

use std::ops::Range;

use crate::object::{
    error::ObjectError,
    kind::GroupVersionKind,
    metadata::{
        DELETION, GENERATION, LABELS, MARKS, Marks, NAME, NAMESPACE, NONE, OWNERS, REVISION, UID,
    },
    owner_reference::OwnerReference,
    prune::Prune,
    scanner::{Quoted, Scanner},
};

/// The text to insert after the first brace.
fn front(kind: &GroupVersionKind, has: [bool; 2]) -> String {
    let mut front = String::new();
    for ((name, value), has) in [("apiVersion", &kind.api_version), ("kind", &kind.kind)]
        .into_iter()
        .zip(has)
    {
        if !has {
            front.push_str(&format!(
                "\"{name}\":{},",
                serde_json::Value::from(value.as_str())
            ));
        }
    }

    front
}

/// Which JSON object is being read.
enum Inside {
    Top,
    Metadata,
    Other,
}

/// A text after one pass: the fields found, and the parts to leave out of copies.
pub(super) struct Reading<'a> {
    text: &'a str,
    /// Offset of the first brace.
    start: usize,
    scanner: Scanner<'a>,
    marks: Marks,
    /// Replacements of parts of the text, in order.
    edits: Vec<Edit>,
    /// Whether the text has an apiVersion, and a kind.
    typed: [bool; 2],
    /// The fields seen in the text, one bit each: the marks, and after them metadata itself.
    seen: u16,
}

impl<'a> Reading<'a> {
    /// Reads the text once.
    pub fn new(text: &'a str, prune: &Prune) -> Result<Self, ObjectError> {
        if u32::try_from(text.len()).is_err() {
            return Err(ObjectError::TooLong);
        }

        let mut reading = Self {
            scanner: Scanner::new(text),
            text,
            start: 0,
            marks: Marks::NONE,
            edits: vec![],
            typed: [false; 2],
            seen: 0,
        };

        let paths: Vec<&str> = prune.paths.iter().map(String::as_str).collect();
        if reading.scanner.peek() != Some(b'{') {
            reading.scanner.value(0)?;
            return Err(ObjectError::wrong("the text", "a JSON object"));
        }

        reading.start = reading.scanner.at;
        reading.object(&Inside::Top, 1, &paths)?;
        reading.scanner.end()?;
        reading.check_owners()?;
        reading.check_name()?;

        Ok(reading)
    }

    /// Reads an object starting here, at nesting level `depth`, and cuts out the fields of `paths`.
    fn object(&mut self, inside: &Inside, depth: usize, paths: &[&str]) -> Result<(), ObjectError> {
        self.scanner.open(depth)?;
        let mut first = true;
        let mut any_kept = false;
        // Where the last field ends, and where the first one starts if all fields so far are cut
        // out.
        let mut end = self.scanner.at;
        let mut cut = None;

        while let Some(name) = self.scanner.field(&mut first)? {
            let field = self.scanner.text_of(&name);
            let from = name.inside.start - 1;
            if let Some(cut) = cut.take() {
                self.edits.push((cut..from, String::new()));
            }

            let (is_pruned, deeper) = below(paths, &field);
            if is_pruned {
                self.scanner.value(depth)?;
                if any_kept {
                    self.edits.push((end..self.scanner.at, String::new()));
                } else {
                    cut = Some(from);
                }
            } else {
                any_kept = true;
                match inside {
                    Inside::Top => self.top_field(&field, depth, &deeper)?,
                    Inside::Metadata => self.metadata_field(&field, depth, &deeper)?,
                    Inside::Other => self.other(depth, &deeper)?,
                }
            }

            end = self.scanner.at;
        }

        if let Some(cut) = cut {
            self.edits.push((cut..end, String::new()));
        }

        Ok(())
    }

    fn other(&mut self, depth: usize, deeper: &[&str]) -> Result<(), ObjectError> {
        if !deeper.is_empty() && self.scanner.peek() == Some(b'{') {
            return self.object(&Inside::Other, depth + 1, deeper);
        }
        self.scanner.value(depth)?;
        Ok(())
    }

    fn top_field(&mut self, field: &str, depth: usize, deeper: &[&str]) -> Result<(), ObjectError> {
        match field {
            "apiVersion" => self.typed[0] = true,
            "kind" => self.typed[1] = true,
            "metadata" => {
                self.once(MARKS, "metadata")?;
                return match self.scanner.peek() {
                    Some(b'{') => self.object(&Inside::Metadata, depth + 1, deeper),
                    _ => self.null("metadata", "an object", depth),
                };
            }
            _ => {}
        }

        self.other(depth, deeper)
    }

    fn metadata_field(
        &mut self,
        field: &str,
        depth: usize,
        deeper: &[&str],
    ) -> Result<(), ObjectError> {
        let (mark, field, begins, expected): (_, _, fn(u8) -> bool, _) = match field {
            "name" => (NAME, "metadata.name", is_quote, "a string"),
            "namespace" => (NAMESPACE, "metadata.namespace", is_quote, "a string"),
            "uid" => (UID, "metadata.uid", is_quote, "a string"),
            "resourceVersion" => (REVISION, "metadata.resourceVersion", is_quote, "a string"),
            "deletionTimestamp" => (DELETION, "metadata.deletionTimestamp", is_quote, "a string"),
            "labels" => (
                LABELS,
                "metadata.labels",
                |byte| byte == b'{',
                "an object of strings",
            ),
            "ownerReferences" => (
                OWNERS,
                "metadata.ownerReferences",
                |byte| byte == b'[',
                "a list",
            ),
            "generation" => (
                GENERATION,
                "metadata.generation",
                |byte| byte == b'-' || byte.is_ascii_digit(),
                "a whole number",
            ),
            _ => return self.other(depth, deeper),
        };

        self.once(mark, field)?;
        if !self.scanner.peek().is_some_and(begins) {
            return self.null(field, expected, depth);
        }

        match mark {
            LABELS => {
                self.marks.set(mark, self.scanner.at);
                self.labels(depth + 1)
            }
            OWNERS | GENERATION => {
                let value = self.scanner.value(depth)?;
                self.marks.set(mark, value.start);
                if mark == GENERATION && self.text[value].parse::<i64>().is_err() {
                    return Err(ObjectError::wrong(field, expected));
                }
                Ok(())
            }
            _ => {
                let value = self.scanner.string()?;
                self.marks.set(mark, value.inside.start);
                self.plainly(field, value)
            }
        }
    }

    fn once(&mut self, bit: usize, field: &'static str) -> Result<(), ObjectError> {
        if self.seen & (1 << bit) != 0 {
            return Err(ObjectError::Twice(field));
        }
        self.seen |= 1 << bit;
        Ok(())
    }

    fn labels(&mut self, depth: usize) -> Result<(), ObjectError> {
        self.scanner.open(depth)?;
        let mut first = true;
        while let Some(name) = self.scanner.field(&mut first)? {
            self.plainly("metadata.labels", name)?;
            if self.scanner.peek() != Some(b'"') {
                self.scanner.value(depth)?;
                return Err(ObjectError::wrong(
                    "metadata.labels",
                    "an object of strings",
                ));
            }
            let value = self.scanner.string()?;
            self.plainly("metadata.labels", value)?;
        }

        Ok(())
    }

    /// Accepts a null as a missing value; any other value has the wrong type.
    fn null(
        &mut self,
        field: &'static str,
        expected: &'static str,
        depth: usize,
    ) -> Result<(), ObjectError> {
        let value = self.scanner.value(depth)?;
        if &self.text[value] == "null" {
            Ok(())
        } else {
            Err(ObjectError::wrong(field, expected))
        }
    }

    /// Makes the copy contain a string's plain text instead of its escapes.
    fn plainly(&mut self, field: &'static str, string: Quoted) -> Result<(), ObjectError> {
        if !string.escaped {
            return Ok(());
        }

        let text = self.scanner.text_of(&string).into_owned();
        if text
            .bytes()
            .any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\')
        {
            return Err(ObjectError::Unreadable {
                field,
                value: self.text[string.inside].to_owned(),
            });
        }

        self.edits.push((string.inside, text));
        Ok(())
    }

    fn check_owners(&self) -> Result<(), ObjectError> {
        let Some(at) = self.marks.at(OWNERS) else {
            return Ok(());
        };
        let list = Scanner::at(self.text, at).value(0)?;
        let owners: Result<Vec<OwnerReference>, _> = serde_json::from_str(&self.text[list]);
        owners
            .map(drop)
            .map_err(|error| ObjectError::Owners(error.to_string()))
    }

    fn check_name(&self) -> Result<(), ObjectError> {
        // The mark points behind the opening quote.
        let named = self
            .marks
            .at(NAME)
            .is_some_and(|at| !self.text[at..].starts_with('"'));
        if named {
            Ok(())
        } else {
            Err(ObjectError::Unnamed)
        }
    }

    /// Whether the pruned copy differs from the complete one.
    pub fn has_cuts(&self) -> bool {
        self.edits.iter().any(is_cut)
    }

    /// Copies the text, without pruned fields if `pruned`, and returns the copy's marks. If the
    /// text lacks apiVersion or kind, that of `kind` is inserted.
    pub fn copy(&self, kind: Option<&GroupVersionKind>, pruned: bool) -> (String, Marks) {
        let edits = || self.edits.iter().filter(|edit| pruned || !is_cut(edit));
        let front = kind.map(|kind| front(kind, self.typed)).unwrap_or_default();
        let less: usize = edits().map(|(range, _)| range.len()).sum();
        let more: usize = edits().map(|(_, with)| with.len()).sum();
        let end = self.text[..self.scanner.at].trim_end().len();
        let mut copy = String::with_capacity(end - self.start - less + more + front.len());
        copy.push('{');
        copy.push_str(&front);
        let mut from = self.start + 1;
        let mut marks = self.marks;
        let mut moved = Marks::NONE;

        let mut move_marks = |copy: &str, from: usize, to: usize| {
            // Moves the marks within the part to be copied next.
            for mark in 0..MARKS {
                if let Some(at) = marks.at(mark).filter(|at| (from..=to).contains(at)) {
                    moved.set(mark, copy.len() + at - from);
                    marks.0[mark] = NONE;
                }
            }
        };

        for (range, with) in edits() {
            move_marks(&copy, from, range.start);
            copy.push_str(&self.text[from..range.start]);
            copy.push_str(with);
            from = range.end;
        }

        move_marks(&copy, from, end);
        copy.push_str(&self.text[from..end]);
        (copy, moved)
    }
}

/// Replaces a part of the text.
type Edit = (Range<usize>, String);

/// Whether an edit cuts out a pruned field. Replacements of escaped strings are never empty.
fn is_cut((_, with): &Edit) -> bool {
    with.is_empty()
}

fn is_quote(byte: u8) -> bool {
    byte == b'"'
}

/// Whether a path leads to this field, and the rest of the paths leading into it.
fn below<'p>(paths: &[&'p str], field: &str) -> (bool, Vec<&'p str>) {
    let mut is_this = false;
    let mut deeper = Vec::new();
    for path in paths {
        match path.strip_prefix(field) {
            Some("") => is_this = true,
            Some(rest) => deeper.extend(rest.strip_prefix('.')),
            None => {}
        }
    }
    (is_this, deeper)
}

//! The record that `operetta build` leaves in a component about its snapshot, and `operetta check`
//! reads.
//!
//! It is a custom section of the component, which neither the host nor the guest reads.

use std::borrow::Cow;

use wasm_encoder::{ComponentSection, CustomSection};
use wasmparser::{Parser, Payload};

/// The name of the custom section.
const SECTION: &str = "operetta:snapshot";

/// The text of a record about a snapshot that was taken.
const TAKEN: &str = "taken";

/// The start of a record about a snapshot that was skipped; the reason follows.
const SKIPPED: &str = "skipped: ";

/// The maximum length of a record, in bytes.
const MAX_RECORD: usize = 4096;

/// The outcome of the snapshot at build time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotRecord {
    /// The component holds the memory after the runtime's initialization.
    Taken,
    /// Each reconcile initializes the runtime, for this reason.
    Skipped(String),
}

impl SnapshotRecord {
    /// Appends the record to a component.
    pub fn append_to(&self, component: &mut Vec<u8>) {
        let text = match self {
            Self::Taken => TAKEN.to_owned(),
            Self::Skipped(reason) => {
                let room = reason.floor_char_boundary(MAX_RECORD - SKIPPED.len());
                format!("{SKIPPED}{}", &reason[..room])
            }
        };

        let section = CustomSection {
            name: SECTION.into(),
            data: Cow::Borrowed(text.as_bytes()),
        };

        section.append_to_component(component);
    }

    /// Reads the record of a component. Returns None if it has none, or an unknown one.
    pub fn read(component: &[u8]) -> Option<Self> {
        let mut depth = 0_usize;

        for payload in Parser::new(0).parse_all(component) {
            match payload.ok()? {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                Payload::CustomSection(section) if depth == 1 && section.name() == SECTION => {
                    let text = std::str::from_utf8(section.data())
                        .ok()
                        .filter(|text| text.len() <= MAX_RECORD)?;
                    return match text.strip_prefix(SKIPPED) {
                        Some(reason) => Some(Self::Skipped(reason.to_owned())),
                        None => (text == TAKEN).then_some(Self::Taken),
                    };
                }
                _ => {}
            }
        }

        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NESTED: &str = r#"(component (component (@custom "operetta:snapshot" "taken")))"#;

    #[test]
    fn record_is_read_back_from_a_valid_component() {
        let component = wat::parse_str("(component (core module))").expect("a component");
        assert_eq!(SnapshotRecord::read(&component), None);

        let long = SnapshotRecord::Skipped("é".repeat(MAX_RECORD));
        for record in [
            SnapshotRecord::Taken,
            SnapshotRecord::Skipped("it is too large".to_owned()),
            long,
        ] {
            let mut recorded = component.clone();
            record.append_to(&mut recorded);
            wasmparser::validate(&recorded).expect("still a component");

            match (SnapshotRecord::read(&recorded), record) {
                (Some(SnapshotRecord::Skipped(read)), SnapshotRecord::Skipped(written)) => {
                    assert!(!read.is_empty() && written.starts_with(&read), "{read}");
                }
                (read, written) => assert_eq!(read, Some(written)),
            }
        }
    }

    #[test]
    fn record_of_a_nested_component_or_of_another_form_is_ignored() {
        let other = r#"(component (@custom "operetta:snapshot" "perhaps"))"#;

        for text in [NESTED, other] {
            assert_eq!(
                SnapshotRecord::read(&wat::parse_str(text).expect("a component")),
                None,
                "{text}"
            );
        }

        assert_eq!(SnapshotRecord::read(b"hello"), None);
    }
}

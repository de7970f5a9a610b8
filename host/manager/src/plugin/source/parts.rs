//! A component that is too large for one ConfigMap: its bytes are split over several, in any order of arrival.
//!
//! The first part is the ConfigMap that people name; its annotation says how many parts there are. Each further part is
//! `NAME-part-N`, labelled with the first one's name, so that the host hears when it comes. All carry the digest of the
//! whole file, so that parts of two versions are never joined.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::ConfigMap};

pub use operetta_api::annotations::{DIGEST, PART, PARTS};
pub use operetta_api::labels::PART_OF;

use operetta_api::reasons;

/// More parts than any component that a host takes can need.
const MAX_PARTS: u32 = 256;

/// The annotations of the first part, which describe all parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    name: String,
    count: u32,
    digest: String,
}

/// The reason why parts cannot be joined.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PartsError {
    /// The annotations of the first part are wrong. Its author has to change them.
    #[error("ConfigMap {name:?}: {message}")]
    Annotation {
        /// The first part.
        name: String,
        /// The mistake.
        message: String,
    },
    /// Not all parts are there yet, or some are of another version.
    #[error("of the {count} parts of ConfigMap {name:?} {}: apply all of them", .missing.join(", "))]
    Incomplete {
        /// The first part.
        name: String,
        /// The expected number of parts.
        count: u32,
        /// The parts that are missing, each with the reason.
        missing: Vec<String>,
    },
    /// All parts say the same digest, but it is not that of their bytes.
    #[error("the parts of ConfigMap {name:?} join to a file with the digest {found}, not {digest}: bundle it again")]
    WrongDigest {
        /// The first part.
        name: String,
        /// The digest in the annotation.
        digest: String,
        /// The digest of the joined parts.
        found: String,
    },
}

impl PartsError {
    /// A CamelCase word for conditions and Events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Annotation { .. } => reasons::INVALID_PARTS,
            Self::Incomplete { .. } => reasons::PARTS_MISSING,
            Self::WrongDigest { .. } => reasons::WRONG_DIGEST,
        }
    }
}

impl Split {
    /// Reads the annotations about parts; None when the ConfigMap is whole.
    ///
    /// # Errors
    /// [`PartsError::Annotation`].
    pub fn of(first: &ConfigMap) -> Result<Option<Self>, PartsError> {
        let name = first.metadata.name.clone().unwrap_or_default();
        let none = BTreeMap::new();
        let annotations = first.metadata.annotations.as_ref().unwrap_or(&none);
        let Some(count) = annotations.get(PARTS) else { return Ok(None) };
        let wrong = |message: String| PartsError::Annotation { name: name.clone(), message };
        let count = match count.parse() {
            Ok(1) => return Ok(None),
            Ok(count @ 2..=MAX_PARTS) => count,
            _ => return Err(wrong(format!("annotation {PARTS} is {count:?}, not a number from 1 to {MAX_PARTS}"))),
        };
        let digest = annotations.get(DIGEST).filter(|digest| digest.starts_with("sha256:"));
        let digest = digest.ok_or_else(|| wrong(format!("annotation {DIGEST} has no sha256:... of the whole file")))?;
        Ok(Some(Self { digest: digest.clone(), name, count }))
    }

    /// The names of the parts after the first.
    pub fn names(&self) -> impl Iterator<Item = String> {
        (2..=self.count).map(|part| part_name(&self.name, part))
    }

    /// Joins the parts: the first one comes back with the whole file under `key`, or under its only key. `rest` has the
    /// others in order, None for those that are not there.
    ///
    /// # Errors
    /// [`PartsError::Incomplete`], [`PartsError::WrongDigest`].
    pub fn join(&self, mut first: ConfigMap, rest: Vec<Option<ConfigMap>>) -> Result<ConfigMap, PartsError> {
        let Some((key, bytes)) = first.binary_data.iter_mut().flatten().next() else { return Ok(first) };
        let mut missing = Vec::new();
        for (name, part) in self.names().zip(rest) {
            let Some(part) = part else {
                missing.push(format!("{name} is missing"));
                continue;
            };
            let annotations = part.metadata.annotations.unwrap_or_default();
            if annotations.get(DIGEST) != Some(&self.digest) {
                missing.push(format!("{name} is of another version (its {DIGEST} differs)"));
                continue;
            }
            match part.binary_data.unwrap_or_default().remove(key) {
                Some(ByteString(more)) => bytes.0.extend(more),
                None => missing.push(format!("{name} has no key {key:?}")),
            }
        }
        let Self { name, count, digest } = self.clone();
        if !missing.is_empty() {
            return Err(PartsError::Incomplete { name, count, missing });
        }
        let found = operetta_wasm::digest(&bytes.0);
        if found == digest { Ok(first) } else { Err(PartsError::WrongDigest { name, digest, found }) }
    }
}

/// The name of a part after the first.
pub fn part_name(first: &str, part: u32) -> String {
    format!("{first}-part-{part}")
}

#[cfg(test)]
mod tests {
    use operetta_wasm::digest;

    use super::*;

    fn part(name: &str, bytes: &[u8], annotations: &[(&str, &str)]) -> ConfigMap {
        let mut part = ConfigMap::default();
        part.metadata.name = Some(name.into());
        part.metadata.annotations = Some(annotations.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect());
        part.binary_data = Some([("a.wasm".to_owned(), ByteString(bytes.to_vec()))].into());
        part
    }

    #[test]
    fn parts_join_in_their_order() {
        let digest = digest(b"abcdef");
        let first = part("p", b"ab", &[(PARTS, "3"), (DIGEST, &digest)]);
        let split = Split::of(&first).expect("valid").expect("split");
        assert_eq!(split.names().collect::<Vec<_>>(), ["p-part-2", "p-part-3"]);
        let rest = [b"cd", b"ef"].map(|bytes| Some(part("x", bytes, &[(DIGEST, &digest)])));
        let whole = split.join(first, rest.into()).expect("whole");
        assert_eq!(whole.binary_data.expect("data")["a.wasm"].0, b"abcdef");
    }

    #[test]
    fn what_is_missing_or_of_another_version_is_named() {
        let digest = digest(b"abcdef");
        let first = part("p", b"ab", &[(PARTS, "4"), (DIGEST, &digest)]);
        let split = Split::of(&first).expect("valid").expect("split");
        let other = part("x", b"cd", &[(DIGEST, "sha256:0")]);
        let mut empty = part("x", b"", &[(DIGEST, &digest)]);
        empty.binary_data = None;
        let error = split.join(first.clone(), vec![Some(other), None, Some(empty)]).expect_err("incomplete");
        let text = error.to_string();
        for words in ["4 parts", "p-part-2 is of another version", "p-part-3 is missing", "p-part-4 has no key"] {
            assert!(text.contains(words), "{text}");
        }
        let rest = vec![Some(part("x", b"XX", &[(DIGEST, &digest)])); 3];
        assert_eq!(split.join(first, rest).expect_err("damaged").reason(), "WrongDigest");
    }

    #[test]
    fn annotations_that_make_no_sense_are_refused() {
        for annotations in [
            &[(PARTS, "two"), (DIGEST, "sha256:0")][..],
            &[(PARTS, "0"), (DIGEST, "sha256:0")],
            &[(PARTS, "100000"), (DIGEST, "sha256:0")],
            &[(PARTS, "2")],
            &[(PARTS, "2"), (DIGEST, "md5:0")],
        ] {
            let error = Split::of(&part("p", b"", annotations)).expect_err("refused");
            assert_eq!(error.reason(), "InvalidParts", "{error}");
        }
        assert_eq!(Split::of(&part("p", b"", &[])), Ok(None));
        assert_eq!(Split::of(&part("p", b"", &[(PARTS, "1")])), Ok(None));
    }
}

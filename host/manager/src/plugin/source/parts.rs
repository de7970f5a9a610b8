//! A component too large for one ConfigMap: its bytes are split over several, which may be created
//! in any order.
//!
//! The first part is the ConfigMap in the Plugin's spec; its annotation has the number of parts.
//! Each further part is called `NAME-part-N` and labelled with the first one's name, so that the
//! host watches it. All parts carry the digest of the complete file, so that parts of two versions
//! are never joined.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::ConfigMap};

pub use operetta_api::annotations::{DIGEST, PART, PARTS};
pub use operetta_api::labels::PART_OF;

use operetta_api::reasons::{self, Reason};

/// The maximum number of parts; no component within the limits needs more.
const MAX_PARTS: u32 = 256;

/// What the first part's annotations say about all parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    name: String,
    count: u32,
    digest: String,
}

/// Why parts can't be joined.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PartsError {
    /// The annotations of the first part are invalid; its author must change them.
    #[error("ConfigMap {name:?}: {message}")]
    Annotation {
        /// The first part.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// Parts are missing or from another version.
    #[error("ConfigMap {name:?} has {count} parts, but {}: apply all of them", .missing.join(", "))]
    Incomplete {
        /// The first part.
        name: String,
        /// The expected number of parts.
        count: u32,
        /// The missing parts, each with the reason.
        missing: Vec<String>,
    },
    /// All parts carry the same digest, but their bytes have another one.
    #[error(
        "the joined parts of ConfigMap {name:?} have the digest {found}, not {digest}: bundle it again"
    )]
    WrongDigest {
        /// The first part.
        name: String,
        /// The digest in the annotation.
        digest: String,
        /// The digest of the joined parts.
        found: String,
    },
    /// Together, the parts exceed the host's limit, compressed or not.
    #[error(
        "the parts of ConfigMap {name:?} exceed the host's limit of {limit} bytes (maxWasmBytes)"
    )]
    TooLarge {
        /// The first part.
        name: String,
        /// The limit.
        limit: usize,
    },
}

impl PartsError {
    /// Returns the reason for conditions and Events.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Annotation { .. } => reasons::INVALID_PARTS,
            Self::Incomplete { .. } => reasons::PARTS_MISSING,
            Self::WrongDigest { .. } => reasons::WRONG_DIGEST,
            Self::TooLarge { .. } => reasons::TOO_LARGE,
        }
    }
}

impl Split {
    /// Reads the annotations about parts. None if the ConfigMap isn't split.
    ///
    /// # Errors
    /// [`PartsError::Annotation`].
    pub fn of(first: &ConfigMap) -> Result<Option<Self>, PartsError> {
        let name = first.metadata.name.clone().unwrap_or_default();
        let none = BTreeMap::new();
        let annotations = first.metadata.annotations.as_ref().unwrap_or(&none);
        let Some(count) = annotations.get(PARTS) else {
            return Ok(None);
        };

        let wrong = |message: String| PartsError::Annotation {
            name: name.clone(),
            message,
        };
        let count = match count.parse() {
            Ok(1) => return Ok(None),
            Ok(count @ 2..=MAX_PARTS) => count,
            _ => {
                return Err(wrong(format!(
                    "annotation {PARTS} is {count:?}, not a number from 1 to {MAX_PARTS}"
                )));
            }
        };

        let digest = annotations
            .get(DIGEST)
            .filter(|digest| digest.starts_with("sha256:"));
        let digest = digest.ok_or_else(|| {
            wrong(format!(
                "annotation {DIGEST} has no sha256:... of the whole file"
            ))
        })?;

        Ok(Some(Self {
            digest: digest.clone(),
            name,
            count,
        }))
    }

    /// Returns the names of the parts after the first.
    pub fn names(&self) -> impl Iterator<Item = String> {
        (2..=self.count).map(|part| part_name(&self.name, part))
    }

    /// Joins the parts. `rest` are those after the first, in order, with None for missing ones.
    ///
    /// # Errors
    /// [`PartsError`].
    pub fn join(
        &self,
        mut first: ConfigMap,
        rest: Vec<Option<ConfigMap>>,
        limit: usize,
    ) -> Result<ConfigMap, PartsError> {
        let Some(mut joining) = self.begin(&mut first, limit) else {
            return Ok(first);
        };
        for (name, part) in self.names().zip(rest) {
            joining.add(&name, part)?;
        }
        joining.finish(first)
    }

    /// Starts joining the parts of a component of at most `limit` bytes. None if the first part has
    /// no file.
    pub fn begin(&self, first: &mut ConfigMap, limit: usize) -> Option<Joining<'_>> {
        let (key, bytes) = first.binary_data.iter_mut().flatten().next()?;
        let bytes = std::mem::take(&mut bytes.0);
        Some(Joining {
            split: self,
            key: key.clone(),
            bytes,
            limit,
            missing: Vec::new(),
        })
    }
}

/// The bytes joined so far, never more than the host's limit plus one part.
pub struct Joining<'a> {
    split: &'a Split,
    /// The key of the bytes in each part.
    key: String,
    bytes: Vec<u8>,
    limit: usize,
    /// The missing parts, each with the reason.
    missing: Vec<String>,
}

impl Joining<'_> {
    /// Adds the next part, called `name`; None if it doesn't exist.
    ///
    /// # Errors
    /// [`PartsError::TooLarge`]: don't read further parts.
    pub fn add(&mut self, name: &str, part: Option<ConfigMap>) -> Result<(), PartsError> {
        let Some(part) = part else {
            self.missing.push(format!("{name} is missing"));
            return Ok(());
        };
        if part.metadata.annotations.unwrap_or_default().get(DIGEST) != Some(&self.split.digest) {
            self.missing.push(format!(
                "{name} is of another version (its {DIGEST} differs)"
            ));
            return Ok(());
        }

        let Some(ByteString(more)) = part.binary_data.unwrap_or_default().remove(&self.key) else {
            self.missing
                .push(format!("{name} has no key {:?}", self.key));
            return Ok(());
        };

        // Compression may make incompressible bytes a little longer.
        if self.bytes.len() + more.len() > zstd::zstd_safe::compress_bound(self.limit) {
            return Err(PartsError::TooLarge {
                name: self.split.name.clone(),
                limit: self.limit,
            });
        }

        self.bytes.extend(more);
        Ok(())
    }

    /// Returns the first part with the complete file under its key.
    ///
    /// # Errors
    /// [`PartsError::Incomplete`], [`PartsError::WrongDigest`].
    pub fn finish(self, mut first: ConfigMap) -> Result<ConfigMap, PartsError> {
        let Split {
            name,
            count,
            digest,
        } = self.split.clone();
        if !self.missing.is_empty() {
            return Err(PartsError::Incomplete {
                name,
                count,
                missing: self.missing,
            });
        }

        let found = operetta_wasm::digest(&self.bytes);
        if found != digest {
            return Err(PartsError::WrongDigest {
                name,
                digest,
                found,
            });
        }

        first
            .binary_data
            .get_or_insert_default()
            .insert(self.key, ByteString(self.bytes));
        Ok(first)
    }
}

/// Returns the name of a part after the first.
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
        part.metadata.annotations = Some(
            annotations
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
        );
        part.binary_data = Some([("a.wasm".to_owned(), ByteString(bytes.to_vec()))].into());

        part
    }

    #[test]
    fn parts_over_max_wasm_bytes_are_not_joined() {
        let bytes = vec![7; 1 << 10];
        let whole = vec![7; 256 << 10];
        let digest = digest(&whole);
        let first = part("p", &bytes, &[(PARTS, "256"), (DIGEST, &digest)]);
        let split = Split::of(&first).expect("valid").expect("split");
        let rest = || vec![Some(part("x", &bytes, &[(DIGEST, &digest)])); 255];
        let mut joining = split.begin(&mut first.clone(), 4 << 10).expect("a file");

        let added = rest()
            .into_iter()
            .map_while(|part| joining.add("x", part).ok())
            .count();
        assert_eq!(added, 3, "parts of 1 KiB after the first");
        assert_eq!(
            split
                .join(first.clone(), rest(), 4 << 10)
                .expect_err("too large")
                .reason(),
            "TooLarge"
        );

        let exact = split.join(first, rest(), 256 << 10).expect("whole");
        assert_eq!(exact.binary_data.expect("data")["a.wasm"].0, whole);
    }

    #[test]
    fn parts_join_in_their_order() {
        let digest = digest(b"abcdef");
        let first = part("p", b"ab", &[(PARTS, "3"), (DIGEST, &digest)]);
        let split = Split::of(&first).expect("valid").expect("split");
        assert_eq!(split.names().collect::<Vec<_>>(), ["p-part-2", "p-part-3"]);
        let rest = [b"cd", b"ef"].map(|bytes| Some(part("x", bytes, &[(DIGEST, &digest)])));
        let whole = split.join(first, rest.into(), 100).expect("whole");
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

        let error = split
            .join(first.clone(), vec![Some(other), None, Some(empty)], 100)
            .expect_err("incomplete");
        let text = error.to_string();

        for words in [
            "4 parts",
            "p-part-2 is of another version",
            "p-part-3 is missing",
            "p-part-4 has no key",
        ] {
            assert!(text.contains(words), "{text}");
        }

        let rest = vec![Some(part("x", b"XX", &[(DIGEST, &digest)])); 3];
        assert_eq!(
            split.join(first, rest, 100).expect_err("damaged").reason(),
            "WrongDigest"
        );
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

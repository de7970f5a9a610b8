//! Finds a component in a ConfigMap or file, and decompresses it.

use std::io::Read;

use k8s_openapi::{ByteString, api::core::v1::ConfigMap};

pub use operetta_api::labels::PLUGIN as PLUGIN_LABEL;

use operetta_api::reasons::{self, Reason};

/// The suffixes of a component's file or key.
pub const ENDINGS: &str = ".wasm or .wasm.zst";

/// Why a ConfigMap or a file has no valid component. The author must change it; retrying doesn't
/// help.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ArtifactError {
    /// No key in binaryData has a component's suffix.
    #[error(
        "ConfigMap {name:?} has no key ending in .wasm or .wasm.zst in its binaryData (it has: {found})"
    )]
    NoWasm {
        /// The ConfigMap.
        name: String,
        /// Its keys.
        found: String,
    },
    /// Several keys in binaryData have a component's suffix.
    #[error(
        "ConfigMap {name:?} has several components ({found}): keep one, or name one in spec.source.configMap.key"
    )]
    SeveralWasm {
        /// The ConfigMap.
        name: String,
        /// Those keys.
        found: String,
    },
    /// The key named by the Plugin doesn't exist.
    #[error("ConfigMap {name:?} has no key {key:?} in its binaryData (it has: {found})")]
    NoSuchKey {
        /// The ConfigMap.
        name: String,
        /// The key.
        key: String,
        /// Its keys.
        found: String,
    },
    /// The compressed file is damaged or truncated.
    #[error("failed to decompress {what}: {message}")]
    Damaged {
        /// The key or file.
        what: String,
        /// zstd's message.
        message: String,
    },
    /// The component is larger than the host allows.
    #[error("{what} exceeds the host's limit of {} bytes ({})", limit.bytes, limit.setting)]
    TooLarge {
        /// The key or file.
        what: String,
        /// The limit.
        limit: SizeLimit,
    },
}

impl ArtifactError {
    /// Returns the reason for conditions and Events.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NoWasm { .. } | Self::NoSuchKey { .. } => reasons::NO_WASM_IN_CONFIG_MAP,
            Self::SeveralWasm { .. } => reasons::SEVERAL_WASM_IN_CONFIG_MAP,
            Self::Damaged { .. } => reasons::DAMAGED_ARCHIVE,
            Self::TooLarge { .. } => reasons::TOO_LARGE,
        }
    }
}

/// How large a component may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimit {
    /// The bytes of the component, decompressed.
    pub bytes: usize,
    /// The name of the limit in the host's configuration.
    pub setting: &'static str,
}

/// A component as stored, possibly compressed.
pub struct Stored {
    /// The key or file, for messages.
    what: String,
    is_compressed: bool,
    bytes: Vec<u8>,
}

impl Stored {
    /// Creates it from the content of a file or key called `name`, and `what` in messages.
    pub fn new(what: String, name: &str, bytes: Vec<u8>) -> Self {
        Self {
            what,
            is_compressed: name.ends_with(".zst"),
            bytes,
        }
    }

    /// Returns the digest of the compressed bytes, or None if they aren't compressed.
    pub fn compressed_digest(&self) -> Option<String> {
        self.is_compressed
            .then(|| operetta_wasm::digest(&self.bytes))
    }

    /// Returns the component. Whatever the archive claims, this never allocates much more than
    /// the limit's bytes: zstd refuses archives with a larger window.
    ///
    /// # Errors
    /// [`ArtifactError::Damaged`] and [`ArtifactError::TooLarge`].
    pub fn decompress(self, limit: SizeLimit) -> Result<Vec<u8>, ArtifactError> {
        let Self {
            what,
            is_compressed,
            bytes,
        } = self;
        let decompressed = if is_compressed {
            decompress(&bytes, limit.bytes)
        } else {
            Ok(bytes)
        };
        match decompressed {
            Err(error) => Err(ArtifactError::Damaged {
                what,
                message: error.to_string(),
            }),
            Ok(bytes) if bytes.len() > limit.bytes => Err(ArtifactError::TooLarge { what, limit }),
            Ok(bytes) => Ok(bytes),
        }
    }
}

/// Returns the component in a ConfigMap. `key` selects it; without a key there must be exactly one.
///
/// # Errors
/// [`ArtifactError`], which names the ConfigMap and what it has.
pub fn stored(mut config_map: ConfigMap, key: Option<&str>) -> Result<Stored, ArtifactError> {
    let name = config_map.metadata.name.clone().unwrap_or_default();
    let key = choose(&config_map, &name, key)?;
    let ByteString(bytes) = config_map
        .binary_data
        .as_mut()
        .and_then(|data| data.remove(&key))
        .unwrap_or_default();
    Ok(Stored::new(
        format!("{key} of ConfigMap {name:?}"),
        &key,
        bytes,
    ))
}

/// Reports whether a file or key with this name has a component.
pub fn is_component(name: &str) -> bool {
    name.ends_with(".wasm") || name.ends_with(".wasm.zst")
}

/// Decompresses at most `limit` bytes and one more.
fn decompress(archive: &[u8], limit: usize) -> std::io::Result<Vec<u8>> {
    let mut decoder = zstd::stream::Decoder::new(archive)?;
    decoder.window_log_max(window_log(limit))?;
    let mut bytes = Vec::new();
    decoder.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns log2 of the smallest window for `limit` bytes, at least 8 MiB, which decoders should
/// support ([RFC 8878](https://www.rfc-editor.org/rfc/rfc8878#section-3.1.1.1.2)), and at most 128
/// MiB, zstd's own limit.
fn window_log(limit: usize) -> u32 {
    limit.max(1).next_power_of_two().ilog2().clamp(23, 27)
}

fn choose(config_map: &ConfigMap, name: &str, key: Option<&str>) -> Result<String, ArtifactError> {
    let data = config_map.binary_data.iter().flatten().map(|(key, _)| key);
    // Whoever creates a Plugin may not be allowed to read the ConfigMap, so list only keys of
    // components.
    let all = || {
        let keys = || config_map.binary_data.iter().flatten().map(|(key, _)| key);
        // Putting a component into `data` is a common mistake.
        let text = config_map
            .data
            .iter()
            .flatten()
            .map(|(key, _)| key)
            .filter(|key| is_component(key));
        let components: Vec<String> = keys()
            .filter(|key| is_component(key))
            .cloned()
            .chain(text.map(|key| format!("{key} in its data, which is for text")))
            .collect();
        match components.is_empty() {
            true => "no component".to_owned(),
            false => components.join(", "),
        }
    };

    let found: Vec<&String> = match key {
        Some(wanted) => data.filter(|key| *key == wanted).collect(),
        None => data.filter(|key| is_component(key)).collect(),
    };
    match (found.as_slice(), key) {
        ([key], _) => Ok((*key).clone()),
        ([], Some(key)) => Err(ArtifactError::NoSuchKey {
            name: name.to_owned(),
            key: key.to_owned(),
            found: all(),
        }),
        ([], None) => Err(ArtifactError::NoWasm {
            name: name.to_owned(),
            found: all(),
        }),
        (several, _) => {
            let found = several
                .iter()
                .map(|key| key.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            Err(ArtifactError::SeveralWasm {
                name: name.to_owned(),
                found,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_map(files: &[(&str, Vec<u8>)]) -> ConfigMap {
        let mut config_map = ConfigMap::default();
        config_map.metadata.name = Some("cm".into());
        let files = files
            .iter()
            .map(|(key, bytes)| ((*key).to_owned(), ByteString(bytes.clone())));
        config_map.binary_data = Some(files.collect());
        config_map
    }

    fn component(
        config_map: &ConfigMap,
        key: Option<&str>,
        limit: usize,
    ) -> Result<Vec<u8>, ArtifactError> {
        let limit = SizeLimit {
            bytes: limit,
            setting: "maxWasmBytes",
        };
        stored(config_map.clone(), key)?.decompress(limit)
    }

    fn zst(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 3).expect("compress")
    }

    #[test]
    fn the_one_component_is_found_plain_or_compressed() {
        assert_eq!(
            component(&config_map(&[("a.wasm", vec![1, 2])]), None, 10),
            Ok(vec![1, 2])
        );
        let mixed = config_map(&[("a.wasm.zst", zst(&[1, 2])), ("README", vec![0])]);
        assert_eq!(component(&mixed, None, 10), Ok(vec![1, 2]));
    }

    #[test]
    fn what_is_not_exactly_one_component_is_refused_by_name() {
        let several = config_map(&[("a.wasm", vec![1]), ("b.wasm", vec![2])]);
        let error = component(&several, None, 10).expect_err("two");
        assert!(error.to_string().contains("a.wasm, b.wasm"), "{error}");
        assert_eq!(component(&several, Some("b.wasm"), 10), Ok(vec![2]));

        let error = component(&several, Some("c.wasm"), 10).expect_err("none");
        assert!(error.to_string().contains("no key \"c.wasm\""), "{error}");

        let mut secretive = config_map(&[("customers.txt", vec![1])]);
        let error = component(&secretive, None, 10)
            .expect_err("none")
            .to_string();
        assert!(
            error.contains("it has: no component") && !error.contains("customers"),
            "{error}"
        );

        secretive.data = Some([("a.wasm".to_owned(), "text".to_owned())].into());
        let error = component(&secretive, None, 10)
            .expect_err("none")
            .to_string();
        assert!(
            error.contains("it has: a.wasm in its data, which is for text"),
            "{error}"
        );
    }

    #[test]
    fn refuses_truncated_and_oversized_archives() {
        let mut cut = zst(&vec![7; 10_000]);
        cut.truncate(cut.len() - 4);
        let error =
            component(&config_map(&[("a.wasm.zst", cut)]), None, 100_000).expect_err("damaged");
        assert_eq!(error.reason(), "DamagedArchive");

        let bomb = zst(&vec![0; 50_000_000]);
        assert!(bomb.len() < 10_000);

        let error =
            component(&config_map(&[("a.wasm.zst", bomb)]), None, 1_000).expect_err("too large");
        assert!(
            error
                .to_string()
                .contains("limit of 1000 bytes (maxWasmBytes)"),
            "{error}"
        );
    }

    #[test]
    fn refuses_archive_with_oversized_window() {
        let packed = |window_log| {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).expect("an encoder");
            encoder.window_log(window_log).expect("a window");
            std::io::Write::write_all(&mut encoder, b"small").expect("written");
            config_map(&[("a.wasm.zst", encoder.finish().expect("packed"))])
        };
        let error = component(&packed(24), None, 8 << 20).expect_err("16 MiB");
        assert_eq!(error.reason(), "DamagedArchive");
        assert!(error.to_string().contains("too much memory"), "{error}");
        assert_eq!(component(&packed(23), None, 8 << 20), Ok(b"small".to_vec()));
        assert_eq!(component(&packed(24), None, 9 << 20), Ok(b"small".to_vec()));
    }
}

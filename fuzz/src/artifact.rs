//! Components from ConfigMaps: plain, compressed, in parts. The unpacked component is never larger
//! than the limit. A complete set of parts joins to the original file. An incomplete set, or one
//! with a part of another file, is refused.
//!
//! The input: the key, the annotations `operetta.dev/parts` and `operetta.dev/digest` (empty for
//! the correct one) and the limit in bytes, one on each line, and the file.

use k8s_openapi::{ByteString, api::core::v1::ConfigMap};
use operetta_manager::plugin::source::{
    artifact::{ArtifactError, SizeLimit, stored},
    parts::{DIGEST, PARTS, PartsError, Split},
};

use crate::cut;

/// Checks the module's invariants on one input.
pub fn artifact(data: &[u8]) {
    let (key, rest) = cut(data, b'\n');
    let (count, rest) = cut(rest, b'\n');
    let (digest, rest) = cut(rest, b'\n');
    let (limit, file) = cut(rest, b'\n');
    let [key, count, digest, limit] =
        [key, count, digest, limit].map(|text| String::from_utf8_lossy(text).into_owned());
    let limit = limit.parse::<usize>().unwrap_or(4096).min(1 << 20);
    let right = operetta_wasm::digest(file);
    let digest = if digest.is_empty() {
        right.clone()
    } else {
        digest
    };

    let pieces: Vec<&[u8]> = match count.parse::<usize>() {
        Ok(count @ 2..=256) => {
            let length = file.len() / count;
            let longer = file.len() % count;
            let mut rest = file;
            (0..count)
                .map(|at| {
                    rest.split_off(..length + usize::from(at < longer))
                        .expect("enough")
                })
                .collect()
        }
        _ => vec![file],
    };
    let first = part(&key, pieces[0], [(PARTS, &count), (DIGEST, &digest)]);
    let whole = match Split::of(&first) {
        Ok(None) => first,
        Ok(Some(split)) => {
            assert_eq!(split.names().count() + 1, pieces.len());
            let parts = |digest: &String| -> Vec<Option<ConfigMap>> {
                pieces[1..]
                    .iter()
                    .map(|piece| Some(part(&key, piece, [(DIGEST, digest)])))
                    .collect()
            };
            let mut one_less = parts(&digest);
            one_less[pieces.len() / 2 - 1] = None;
            let missing = split.join(first.clone(), one_less, usize::MAX >> 1);
            assert!(
                matches!(missing, Err(PartsError::Incomplete { .. })),
                "{missing:?}"
            );
            let others = split.join(first.clone(), parts(&format!("{digest}0")), usize::MAX >> 1);
            assert!(
                matches!(others, Err(PartsError::Incomplete { .. })),
                "{others:?}"
            );
            match split.join(first, parts(&digest), usize::MAX >> 1) {
                Ok(whole) => whole,
                Err(PartsError::WrongDigest { .. }) if digest != right => return,
                Err(error) => panic!("{error}"),
            }
        }
        Err(error) => {
            assert_eq!(error.reason(), "InvalidParts");
            return;
        }
    };
    assert_eq!(
        whole
            .binary_data
            .as_ref()
            .and_then(|data| data.get(&key))
            .map(|bytes| bytes.0.as_slice()),
        Some(file)
    );
    unpacked(&whole, &key, file, limit);
}

fn part<'a>(
    key: &str,
    bytes: &[u8],
    annotations: impl IntoIterator<Item = (&'a str, &'a String)>,
) -> ConfigMap {
    let mut part = ConfigMap::default();
    part.metadata.name = Some("p".to_owned());
    let annotations = annotations
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.clone()));
    part.metadata.annotations = Some(annotations.collect());
    part.binary_data = Some([(key.to_owned(), ByteString(bytes.to_vec()))].into());
    part
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

fn unpacked(config_map: &ConfigMap, key: &str, file: &[u8], limit: usize) {
    let named = component(config_map, Some(key), limit);
    let found = component(config_map, None, limit);
    if key.ends_with(".wasm") || key.ends_with(".wasm.zst") {
        assert_eq!(
            found, named,
            "the only component is not found without its key"
        );
    } else {
        assert!(
            matches!(found, Err(ArtifactError::NoWasm { .. })),
            "{found:?}"
        );
    }
    match named {
        Ok(bytes) => {
            assert!(bytes.len() <= limit);
            assert!(key.ends_with(".zst") || bytes == file);
        }
        Err(ArtifactError::TooLarge { .. }) => assert!(key.ends_with(".zst") || file.len() > limit),
        Err(ArtifactError::Damaged { .. }) => assert!(key.ends_with(".zst")),
        Err(error) => panic!("{error}"),
    }
    if !key.ends_with(".zst") {
        // Compressing and decompressing the file returns it unchanged.
        let packed = zstd::encode_all(file, 1).expect("compresses");
        let config_map = part("a.wasm.zst", &packed, []);
        let expected = if file.len() <= limit {
            Ok(file.to_vec())
        } else {
            Err("TooLarge")
        };
        assert_eq!(
            component(&config_map, None, limit).map_err(|error| error.reason().as_str()),
            expected
        );
    }
}

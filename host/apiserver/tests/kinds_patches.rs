//! Compares random strategic merge patches with the results of the real library: see scripts/kinds-data/patches.

use operetta_apiserver::kinds::{merge_with_schema, schema_of_kind};
use serde_json::Value;

const RECORDED: &[u8] = include_bytes!("kinds_patches.zst");

#[test]
fn random_patches_have_the_results_of_the_real_library() {
    let text = zstd::bulk::decompress(RECORDED, 64 << 20).expect("the recorded patches decompress");
    let cases: Vec<(Value, Value, Value, String)> = serde_json::from_slice(&text).expect("the patches are JSON");
    let schema = schema_of_kind("v1", "Pod");
    let mut same_words = 0;
    let mut rejected = 0;
    for (index, (original, patch, result, error)) in cases.iter().enumerate() {
        match merge_with_schema(schema, original, patch) {
            Ok(merged) => assert_eq!((&merged, ""), (result, error.as_str()), "{index}: {original} {patch}"),
            Err(own) => {
                assert!(!error.is_empty(), "{index}: {own} for {original} {patch}");
                rejected += 1;
                same_words += usize::from(own.to_string() == *error);
            }
        }
    }
    assert!(cases.len() >= 1000 && rejected > 100);
    // A patch with several faults is rejected for any of them, in the random order of Go's maps.
    assert!(same_words * 10 > rejected * 8, "{same_words} of {rejected} errors have the same words");
}

//! Compares random strategic merge patches with the results of the real library, recorded by
//! scripts/kinds-data/patches.

use operetta_apiserver::builtin::{merge_with_schema, schema_of_kind};
use serde_json::Value;

const RECORDED: &[u8] = include_bytes!("kinds_patches.zst");

#[test]
fn random_patches_have_the_results_of_the_real_library() {
    let text = zstd::bulk::decompress(RECORDED, 64 << 20).expect("the recorded patches decompress");
    let cases: Vec<(Value, Value, Value, String)> =
        serde_json::from_slice(&text).expect("the patches are JSON");

    let schema = schema_of_kind("v1", "Pod");
    let mut same_words = 0;
    let mut rejected = 0;
    let mut differences = Vec::new();

    for (index, (original, patch, result, error)) in cases.iter().enumerate() {
        match merge_with_schema(schema, original, patch) {
            Ok(merged) if merged == *result && error.is_empty() => {}
            Ok(merged) => differences.push(format!(
                "{index}: {original} {patch}: {result} {error}, own {merged}"
            )),
            Err(own) if error.is_empty() => {
                differences.push(format!("{index}: {original} {patch}: {result}, own {own}"));
            }
            Err(own) => {
                rejected += 1;
                same_words += usize::from(own.to_string() == *error);
            }
        }
    }

    differences.truncate(8);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(cases.len() >= 1000 && rejected > 100);

    // A patch with several faults is rejected for any one of them, since Go's maps have a random order.
    assert!(
        same_words * 10 > rejected * 8,
        "{same_words} of {rejected} errors have the same words"
    );
}

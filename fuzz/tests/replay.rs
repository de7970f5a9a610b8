//! Runs each fuzz target on its corpus and on random mutations of it, which takes a few seconds.
//! `make fuzz` searches further, by coverage. An input that violates an invariant is kept in
//! fuzz/artifacts/. The printed seed repeats a run with `OPERETTA_SEED`.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::PathBuf,
};

use operetta_fuzz as fuzz;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Tokens of the formats, which mutations insert.
const TOKENS: &[&str] = &[
    "\"",
    "\\",
    "\\u0061",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\n",
    "\r\n",
    " ",
    "null",
    "true",
    "-0",
    "1e9",
    "é",
    "{}",
    "[]",
    "\"metadata\":",
    "# TYPE ",
    "_total",
    "_bucket{le=\"1\"",
    "plugin=\"x\",",
    "\"name\":\"a\"",
    "\"labels\":{",
    "\"items\":[",
    "\"object\":",
    "(",
    ")",
    "!",
    "=",
    "==",
    "!=",
    " in ",
    "notin",
    ">",
    "<",
    "$",
    "..",
    "*",
    "?@",
    "||",
    "&&",
    "/",
    "//",
    "/..",
    "%2f",
    "%",
    "?",
    "#",
    "|",
    "&",
    "watch=1",
    "namespaces",
    "status",
    ".zst",
    "\0",
    "\u{7f}",
    "9223372036854775808",
    "&a ",
    "*a",
    "- ",
    ": ",
    "@sha256:",
];

fn folder(name: &str) -> PathBuf {
    PathBuf::from(name)
}

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder("corpus").join(target)).expect("a corpus");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
        .into_iter()
        .map(|file| (file.clone(), fs::read(file).expect("a seed")))
        .collect()
}

/// Calls `body` with each file of the target's corpus, and with this number of random mutations of
/// the files.
fn replay(target: &str, body: fn(&[u8]), mutations: u32) {
    replay_with_seed(target, body, mutations, rand::random());
}

/// Does the same with the mutations of this seed, or of the one in `OPERETTA_SEED`.
fn replay_with_seed(target: &str, body: fn(&[u8]), mutations: u32, seed: u64) {
    let seed: u64 =
        std::env::var("OPERETTA_SEED").map_or(seed, |seed| seed.parse().expect("a seed"));
    println!("OPERETTA_SEED={seed}");
    let seeds = corpus(target);
    assert!(!seeds.is_empty(), "the corpus is empty");
    for (file, bytes) in &seeds {
        println!("{}", file.display());
        body(bytes);
    }
    let mut chance = StdRng::seed_from_u64(seed);
    for _ in 0..mutations {
        let bytes = mutated(&seeds, &mut chance);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(&bytes))) {
            let kept = folder("artifacts").join(target);
            fs::create_dir_all(&kept).expect("a folder");
            let kept = kept.join(format!("replay-{seed}"));
            fs::write(&kept, &bytes).expect("kept");
            println!(
                "the input is kept as {}; in fuzz/corpus/{target}/ it runs each time",
                kept.display()
            );
            resume_unwind(panic);
        }
    }
}

fn mutated(seeds: &[(PathBuf, Vec<u8>)], chance: &mut StdRng) -> Vec<u8> {
    let pick = |chance: &mut StdRng| &seeds[chance.random_range(0..seeds.len())].1;
    let part = |bytes: &[u8], chance: &mut StdRng| {
        let from = chance.random_range(0..=bytes.len());
        let to = chance.random_range(from..=bytes.len().min(from + 40));
        from..to
    };
    let mut bytes = pick(chance).clone();
    for _ in 0..chance.random_range(1..5) {
        let range = part(&bytes, chance);
        let with = match chance.random_range(0..6) {
            0 => Vec::new(),
            1 => vec![chance.random()],
            2 | 3 => TOKENS[chance.random_range(0..TOKENS.len())]
                .as_bytes()
                .to_vec(),
            4 => bytes[range.clone()].repeat(chance.random_range(2..4)),
            _ => {
                let other = pick(chance);
                other[part(other, chance)].to_vec()
            }
        };
        // Replaces the bytes at this position, or inserts before them.
        let end = if chance.random() {
            range.end.min(range.start + with.len().max(1))
        } else {
            range.start
        };
        bytes.splice(range.start..end, with);
    }
    bytes
}

#[test]
fn refuses_config_map_component_beyond_limit() {
    replay("artifact", fuzz::artifact, 4000);
}

#[test]
fn refuses_non_plugin_before_compiling() {
    replay("component", fuzz::component, 4000);
}

#[test]
fn parsed_configuration_is_bounded() {
    replay("config", fuzz::config, 8000);
}

#[test]
fn consent_permits_only_named_digests() {
    replay("consent", fuzz::consent, 8000);
}

#[test]
fn json_and_yaml_are_what_go_makes_of_them() {
    // Always the same mutations: what else differs from Go is for `make fuzz` to find, not for a
    // change of something else.
    replay_with_seed("golang", fuzz::golang, 8000, 1);
}

#[test]
fn json_path_agrees_with_serde_json_path() {
    replay("jsonpath", fuzz::jsonpath, 4000);
}

#[test]
fn list_does_not_depend_on_chunk_boundaries() {
    replay("list", fuzz::list, 4000);
}

#[test]
fn loads_or_refuses_any_component_in_time() {
    replay("load", fuzz::load, 80);
}

#[test]
fn parsed_manifest_is_valid_by_schema() {
    replay("manifest", fuzz::manifest, 4000);
}

#[test]
fn metrics_of_a_process_change_nothing_of_the_hosts() {
    replay("metrics", fuzz::metrics, 8000);
}

#[test]
fn object_agrees_with_serde_json() {
    replay("object", fuzz::object, 4000);
}

#[test]
fn checked_names_address_only_their_object() {
    replay("path", fuzz::path, 8000);
}

#[test]
fn gate_and_api_server_agree_on_target_of_raw_request() {
    replay("raw", fuzz::raw, 8000);
}

#[test]
fn selector_selects_by_its_requirements() {
    replay("selector", fuzz::selector, 8000);
}

#[test]
fn watch_does_not_depend_on_chunk_boundaries() {
    replay("watch", fuzz::watch, 4000);
}

#[test]
fn every_target_has_corpus_and_test() {
    let names = |name: &str| {
        let files = fs::read_dir(folder(name)).expect(name);
        let mut names: Vec<_> = files
            .map(|file| {
                file.expect("a file")
                    .path()
                    .file_stem()
                    .map(ToOwned::to_owned)
            })
            .collect();
        names.sort();
        names
    };
    let targets = names("fuzz_targets");
    assert_eq!(targets, names("corpus"));
    for target in targets.iter().flatten() {
        let replayed = format!("(\"{}\", fuzz::", target.display());
        assert!(
            include_str!("replay.rs").contains(&replayed),
            "{}",
            target.display()
        );
    }
}

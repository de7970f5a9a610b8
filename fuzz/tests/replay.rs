//! The corpus of each fuzz target, and random mutations of it, in a few seconds: what coverage has not led to, `make fuzz`
//! finds. An input that breaks a promise is kept in fuzz/artifacts/; the seed is printed, and `OPERETTA_SEED` repeats it.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::PathBuf,
};

use operetta_fuzz as fuzz;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// What the formats are made of.
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
    files.into_iter().map(|file| (file.clone(), fs::read(file).expect("a seed"))).collect()
}

/// Calls the body with each file of its corpus, and with so many mutations of them.
fn replay(target: &str, body: fn(&[u8]), mutations: u32) {
    let seed: u64 =
        std::env::var("OPERETTA_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a seed"));
    println!("OPERETTA_SEED={seed}");
    let seeds = corpus(target);
    assert!(!seeds.is_empty(), "nothing to begin with");
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
            println!("the input is kept as {}; in fuzz/corpus/{target}/ it is tried each time", kept.display());
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
            2 | 3 => TOKENS[chance.random_range(0..TOKENS.len())].as_bytes().to_vec(),
            4 => bytes[range.clone()].repeat(chance.random_range(2..4)),
            _ => {
                let other = pick(chance);
                other[part(other, chance)].to_vec()
            }
        };
        // In place of what is there, or before it.
        let end = if chance.random() { range.end.min(range.start + with.len().max(1)) } else { range.start };
        bytes.splice(range.start..end, with);
    }
    bytes
}

#[test]
fn component_of_a_config_map_is_within_limit_or_refused() {
    replay("artifact", fuzz::artifact, 4000);
}

#[test]
fn refuses_non_plugin_before_compiling() {
    replay("component", fuzz::component, 4000);
}

#[test]
fn configuration_that_is_read_is_bounded() {
    replay("config", fuzz::config, 8000);
}

#[test]
fn consent_allows_no_digest_that_it_does_not_name() {
    replay("consent", fuzz::consent, 8000);
}

#[test]
fn json_path_answers_as_over_the_whole_object() {
    replay("jsonpath", fuzz::jsonpath, 4000);
}

#[test]
fn a_list_is_the_same_wherever_its_pieces_end() {
    replay("list", fuzz::list, 4000);
}

#[test]
fn a_component_loads_or_is_refused_whatever_its_code_does() {
    replay("load", fuzz::load, 80);
}

#[test]
fn a_manifest_that_is_read_is_one_by_the_schema() {
    replay("manifest", fuzz::manifest, 4000);
}

#[test]
fn object_reads_as_serde_json_reads_it() {
    replay("object", fuzz::object, 4000);
}

#[test]
fn checked_names_lead_to_their_object_only() {
    replay("path", fuzz::path, 8000);
}

#[test]
fn a_raw_request_goes_where_the_gate_thinks_it_goes() {
    replay("raw", fuzz::raw, 8000);
}

#[test]
fn a_selector_selects_what_its_requirements_say() {
    replay("selector", fuzz::selector, 8000);
}

#[test]
fn a_watch_is_the_same_wherever_its_chunks_end() {
    replay("watch", fuzz::watch, 4000);
}

#[test]
fn every_target_has_a_corpus_and_is_replayed_here() {
    let names = |name: &str| {
        let files = fs::read_dir(folder(name)).expect(name);
        let mut names: Vec<_> =
            files.map(|file| file.expect("a file").path().file_stem().map(ToOwned::to_owned)).collect();
        names.sort();
        names
    };
    let targets = names("fuzz_targets");
    assert_eq!(targets, names("corpus"));
    for target in targets.iter().flatten() {
        let replayed = format!("replay(\"{}\", fuzz::", target.display());
        assert!(include_str!("replay.rs").contains(&replayed), "{}", target.display());
    }
}

//! What must hold of bytes that others send, whatever they are: each function here takes some, and panics where the host
//! breaks a promise. The first lines of each file say which.
//!
//! Three call them: the targets in fuzz_targets/ (`make fuzz`), with inputs that libFuzzer finds by coverage;
//! tests/replay.rs (`make test`), with the corpus and random mutations of it; and whoever debugs a finding.

mod artifact;
mod component;
mod config;
mod consent;
mod jsonpath;
mod list;
mod load;
mod manifest;
mod object;
mod path;
mod raw;
mod selector;
mod watch;

pub use self::{
    artifact::artifact, component::component, config::config, consent::consent, jsonpath::jsonpath, list::list,
    load::load, manifest::manifest, object::object, path::path, raw::raw, selector::selector, watch::watch,
};

/// The part before the first such byte, and the part behind it; all and nothing when there is none.
fn cut(data: &[u8], at: u8) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == at) {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[]),
    }
}

/// The pieces in which an answer might come: single bytes, and lengths that the seed draws.
fn chunkings(data: &[u8], seed: u8) -> [Vec<&[u8]>; 2] {
    let mut drawn = Vec::new();
    let mut rest = data;
    let mut state = u32::from(seed);
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = ((state >> 24) as usize % 23 + 1).min(rest.len());
        drawn.push(&rest[..length]);
        rest = &rest[length..];
    }
    [data.chunks(1).collect(), drawn]
}

//! The bodies of the fuzz targets, one for each parser of untrusted bytes. Each function takes an
//! input and panics if the host violates an invariant. The first lines of each file state the
//! invariants.
//!
//! The targets in fuzz_targets/ (`make fuzz`) call the functions with inputs that libFuzzer finds
//! by coverage. tests/replay.rs (`make test`) calls them with the corpus and random mutations of
//! it. To debug a finding, call the function directly.

mod artifact;
mod component;
mod config;
mod consent;
mod golang;
mod jsonpath;
mod list;
mod load;
mod manifest;
mod metrics;
mod object;
mod path;
mod raw;
mod selector;
mod watch;

pub use self::{
    artifact::artifact, component::component, config::config, consent::consent, golang::golang,
    jsonpath::jsonpath, list::list, load::load, manifest::manifest, metrics::metrics,
    object::object, path::path, raw::raw, selector::selector, watch::watch,
};

/// Splits the input at the first byte `at`, which belongs to neither part. Without that byte, the
/// second part is empty.
fn cut(data: &[u8], at: u8) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == at) {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[]),
    }
}

/// Splits an answer into chunks in two ways: single bytes, and lengths drawn from the seed.
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

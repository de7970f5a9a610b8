//! The file of the real server's answers.

use std::{
    collections::HashMap,
    io::Write,
    path::PathBuf,
    sync::atomic::{AtomicI64, Ordering},
};

use jiff::Timestamp;
use regex::Captures;

use crate::{exchange::Step, values::UID};

/// The time of a replay, in milliseconds since 1970.
static NOW: AtomicI64 = AtomicI64::new(0);

/// Sets the time of a replay, to the real server's at the recording.
pub fn set_now(milliseconds: i64) {
    NOW.store(milliseconds, Ordering::Relaxed);
}

pub fn now() -> Timestamp {
    Timestamp::from_millisecond(NOW.load(Ordering::Relaxed)).expect("a time")
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/differential/recorded.zst")
}

/// Writes the steps of a run. UIDs are replaced by numbers to keep the file small.
pub fn write(steps: &[Step]) {
    let mut uids = HashMap::new();

    let lines: Vec<String> = steps
        .iter()
        .map(|step| {
            let text = serde_json::to_string(step).expect("JSON");
            let number = |found: &Captures<'_>| {
                let next = uids.len() + 1;
                let number = *uids.entry(found[0].to_owned()).or_insert(next);
                format!("00000000-0000-4000-8000-{number:012}")
            };

            UID.replace_all(&text, number).into_owned()
        })
        .collect();

    let mut encoder = zstd::Encoder::new(Vec::new(), 22).expect("an encoder");
    encoder
        .long_distance_matching(true)
        .and_then(|()| encoder.window_log(27))
        .expect("a window");
    encoder
        .write_all(lines.join("\n").as_bytes())
        .expect("compressed");

    std::fs::write(file(), encoder.finish().expect("compressed")).expect("written");
}

/// Reads the steps of the recorded run.
pub fn read() -> Vec<Step> {
    let packed = std::fs::read(file()).expect("recorded.zst");
    let text = zstd::bulk::decompress(&packed, 256 << 20).expect("the recording decompresses");
    let text = String::from_utf8(text).expect("a text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a step"))
        .collect()
}

//! The texts of `tests/data/go_json.jsonl`, with what Go makes of them.
//!
//! `deploy/controlplane/json` recorded them with the modules of Kubernetes 1.36. In that folder's
//! parent:
//!
//! ```text
//! go run ./json <../../apiserver/tests/data/go_json.jsonl >new.jsonl
//! ```

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;

/// A text and what Go makes of it. Strings are empty where a case has no such answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Case {
    kind: String,
    text: String,
    base64: String,

    /// The bytes of the input.
    #[serde(skip)]
    pub input: Vec<u8>,
    /// What it is as the JSON of a custom resource, or converted from YAML.
    pub json: String,
    /// What `json` is after it was stored and read back.
    pub stored: String,
    /// What strict field validation reports.
    pub strict: Vec<String>,
    pub error: String,
}

/// Returns the cases of a kind, `json` or `yaml`.
pub(crate) fn cases(kind: &str) -> Vec<Case> {
    include_str!("../../tests/data/go_json.jsonl")
        .lines()
        .map(|line| {
            let mut case: Case = serde_json::from_str(line).expect("a case");
            case.input = match case.base64.as_str() {
                "" => case.text.clone().into_bytes(),
                encoded => BASE64_STANDARD.decode(encoded).expect("base64"),
            };
            case
        })
        .filter(|case| case.kind == kind)
        .collect()
}

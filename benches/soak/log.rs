//! The host's log.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// The time after an outage in which errors are still its consequences, such as the end of a pause
/// between two attempts.
const AFTER: Duration = Duration::from_secs(60);

/// The times when the API server was killed and when it was ready again.
pub type Outage = (Timestamp, Timestamp);

/// Counts warnings and errors by message, without the values of a plugin's messages.
pub fn counts(log: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines(log).filter(|line| line["level"] == "WARN" || line["level"] == "ERROR") {
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        let message = text("message");
        let message = message.split(" error=").next().unwrap_or_default();
        *counts
            .entry(format!("{} {message}", text("level")))
            .or_default() += 1;
    }
    counts
}

/// Returns the errors of the host that no outage explains. Those of reconciles count as retries.
pub fn errors(log: &str, outages: &[Outage]) -> Vec<String> {
    let is_explained = |line: &Value| {
        let at = line["timestamp"]
            .as_str()
            .and_then(|at| at.parse::<Timestamp>().ok());
        at.is_some_and(|at| {
            outages
                .iter()
                .any(|(killed, ready)| *killed <= at && at <= *ready + AFTER)
        })
    };
    let is_of_plugin = |line: &Value| line["target"] == "plugin";
    let errors = lines(log)
        .filter(|line| line["level"] == "ERROR" && !is_of_plugin(line) && !is_explained(line));
    errors.map(|line| line.to_string()).collect()
}

fn lines(log: &str) -> impl Iterator<Item = Value> {
    log.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
}

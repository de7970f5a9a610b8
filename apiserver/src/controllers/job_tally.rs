//! Counts a Job's Pods: each once, whatever happens to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    job_pods::{TRACKING, index_of},
    object::{count, has_finalizer, is_terminating, number, set_count, text, time, uid},
    pod_control::{has_ended, is_active, is_ready, phase},
};
use crate::server::format_time;

/// The counts of a Job's Pods.
pub(super) struct Tally {
    /// How many Pods succeeded, and how many failed.
    pub succeeded: i64,
    pub failed: i64,
    /// The Pods that run or will run.
    pub active: Vec<Arc<Value>>,
    /// How many Pods are being deleted and have not ended.
    pub terminating: i64,
    /// The counted Pods that still have the finalizer.
    pub counted_pods: Vec<Arc<Value>>,
    /// The indexes that succeeded.
    pub indexes: BTreeSet<i64>,
    /// How many Pods failed since the last success, and when the last one did, in seconds.
    pub failures: (i64, Option<i64>),
    ready: i64,
    /// How many Pods succeeded and failed, without those below.
    settled: (i64, i64),
    /// The UIDs of counted Pods that still have the finalizer: succeeded and failed ones.
    uncounted: (BTreeSet<String>, BTreeSet<String>),
}

impl Tally {
    pub fn count(job: &Value, pods: &[Arc<Value>]) -> Self {
        let by_uid: BTreeMap<&str, &Arc<Value>> = pods.iter().map(|pod| (uid(pod), pod)).collect();

        let mut tally = Self {
            succeeded: 0,
            failed: 0,
            active: pods.iter().filter(|pod| is_active(pod)).cloned().collect(),
            terminating: count(pods.iter().filter(|pod| is_ending(pod)).count()),
            counted_pods: Vec::new(),
            indexes: parse_indexes(text(job, &["status", "completedIndexes"])),
            failures: (0, None),
            ready: count(
                pods.iter()
                    .filter(|pod| is_active(pod) && is_ready(pod))
                    .count(),
            ),
            settled: (
                number(job, "/status/succeeded", 0),
                number(job, "/status/failed", 0),
            ),
            uncounted: (BTreeSet::new(), BTreeSet::new()),
        };
        tally.settle(job, &by_uid);

        let only_failed = text(job, &["spec", "podReplacementPolicy"]) == "Failed";
        for pod in pods.iter().filter(|pod| has_finalizer(pod, TRACKING)) {
            let counted = match phase(pod) {
                "Succeeded" => &mut tally.uncounted.0,
                "Failed" => &mut tally.uncounted.1,
                _ if is_terminating(pod) && !only_failed => &mut tally.uncounted.1,
                _ => continue,
            };
            counted.insert(uid(pod).to_owned());
            tally.counted_pods.push(Arc::clone(pod));
        }

        tally.count_indexes(job, pods);
        tally.succeeded = tally.settled.0 + count(tally.uncounted.0.len());
        tally.failed = tally.settled.1 + count(tally.uncounted.1.len());
        tally.find_failures(pods);

        tally
    }

    /// Moves Pods that lost their finalizer to the settled counts.
    fn settle(&mut self, job: &Value, pods: &BTreeMap<&str, &Arc<Value>>) {
        let waiting = &job["status"]["uncountedTerminatedPods"];
        let uids = |list: &str| {
            waiting[list]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
        };
        let is_held = |uid: &&str| {
            pods.get(uid)
                .is_some_and(|pod| has_finalizer(pod, TRACKING))
        };

        let counts = [
            ("succeeded", &mut self.uncounted.0, &mut self.settled.0),
            ("failed", &mut self.uncounted.1, &mut self.settled.1),
        ];

        for (list, held, settled) in counts {
            let (waiting, gone): (Vec<&str>, Vec<&str>) = uids(list).partition(is_held);
            held.extend(waiting.into_iter().map(str::to_owned));
            *settled += count(gone.len());
        }
    }

    fn count_indexes(&mut self, job: &Value, pods: &[Arc<Value>]) {
        if text(job, &["spec", "completionMode"]) != "Indexed" {
            return;
        }
        self.indexes.extend(
            pods.iter()
                .filter(|pod| phase(pod) == "Succeeded")
                .filter_map(|pod| index_of(pod)),
        );

        // An index that succeeded twice counts once.
        self.uncounted.0.clear();
        self.settled.0 = count(self.indexes.len());
    }

    fn find_failures(&mut self, pods: &[Arc<Value>]) {
        let end = |pod: &Arc<Value>| {
            let containers = pod["status"]["containerStatuses"]
                .as_array()
                .into_iter()
                .flatten();
            let ends = containers.filter_map(|one| time(&one["state"]["terminated"]["finishedAt"]));

            let end = ends
                .max()
                .or_else(|| time(&pod["metadata"]["deletionTimestamp"]));
            end.or_else(|| time(&pod["metadata"]["creationTimestamp"]))
                .map(|time| time.as_second())
        };

        let ended = |wanted: &'static str| {
            pods.iter()
                .filter(move |pod| phase(pod) == wanted)
                .filter_map(end)
        };

        let success = ended("Succeeded").max();
        let failures =
            ended("Failed").filter(|failure| success.is_none_or(|success| *failure > success));
        let failures: Vec<i64> = failures.collect();

        self.failures = (count(failures.len()), failures.into_iter().max());
    }

    /// The indexes that neither have a Pod nor have succeeded.
    pub fn free_indexes(&self, job: &Value) -> Vec<i64> {
        let taken: BTreeSet<i64> = self.active.iter().filter_map(|pod| index_of(pod)).collect();
        let all = 0..number(job, "/spec/completions", 0);
        all.filter(|index| !taken.contains(index) && !self.indexes.contains(index))
            .collect()
    }

    /// Reports whether all ended Pods are counted.
    pub fn is_counted(&self) -> bool {
        self.counted_pods.is_empty() && self.uncounted.0.is_empty() && self.uncounted.1.is_empty()
    }

    /// The Job's status with these counts.
    pub fn status(&self, job: &Value, now: Timestamp) -> Value {
        let mut status = job["status"].clone();
        if status.is_null() {
            status = json!({});
        }

        if !status["startTime"].is_string() && job["spec"]["suspend"] != true {
            status["startTime"] = format_time(now).into();
        }

        set_count(&mut status, "active", count(self.active.len()));
        set_count(&mut status, "succeeded", self.settled.0);
        set_count(&mut status, "failed", self.settled.1);
        status["ready"] = self.ready.into();
        status["terminating"] = self.terminating.into();

        let mut uncounted = json!({});
        for (name, uids) in [
            ("succeeded", &self.uncounted.0),
            ("failed", &self.uncounted.1),
        ] {
            if !uids.is_empty() {
                uncounted[name] = json!(uids);
            }
        }

        status["uncountedTerminatedPods"] = uncounted;
        if text(job, &["spec", "completionMode"]) == "Indexed" && !self.indexes.is_empty() {
            status["completedIndexes"] = format_indexes(&self.indexes).into();
        }

        status
    }
}

fn is_ending(pod: &Value) -> bool {
    is_terminating(pod) && !has_ended(pod)
}

/// Parses indexes such as `0,2-4`.
fn parse_indexes(text: &str) -> BTreeSet<i64> {
    let ranges = text.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<i64>().ok()?..=last.parse::<i64>().ok()?)
    });
    ranges.flatten().collect()
}

/// Formats indexes, such as `0,2-4`.
fn format_indexes(indexes: &BTreeSet<i64>) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }

    let ranges = ranges.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    ranges.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_ranges() {
        for text in ["0", "0,1", "0-2", "0,2-4,7", ""] {
            assert_eq!(format_indexes(&parse_indexes(text)), text);
        }
    }
}

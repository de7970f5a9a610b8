//! Checks what several replicas did, from their logs and the API server's audit log.
//!
//! The replicas log each reconcile (`operetta_manager::plugin::traced=debug`), and their writes
//! carry their epochs. All clocks are those of one machine; a replica's log may be off by whole
//! hours, because a test has stepped its clock ([`SteppedClock`](crate::SteppedClock)). The
//! promises:
//!
//! - no key of a plugin is reconciled by two replicas at once;
//! - no write of an epoch ends after another epoch has begun to reconcile for the same plugin. A
//!   sharded plugin is reconciled by several replicas at a time: then no write to an object ends
//!   after another epoch has begun to reconcile its key. So the plugin in such a test writes to the
//!   objects of its keys.
//!
//! Whether a key was lost is for the test to check: every object is reconciled in the end.
//! [`pauses`] measures how long that took.
//!
//! # What guarantees them
//!
//! | when the former owner | its reconcile ends by | its write is kept out by |
//! |---|---|---|
//! | is killed | its end | the same. One that the API server had begun to process ends with its `timeout`, before another may act |
//! | stops, or is upgraded | the hand-over, which waits for it | the same |
//! | is partitioned, or the API server is slow | its fence, 200 ms before its Lease may be taken | its fence and the `timeout`. One that the network delays for longer than the Lease: only the API server's policy on epochs |
//! | is stopped for longer than its Lease | its fence, at the next instruction that yields | its fence. One stopped between the last check and the socket: only the policy |
//! | has its Lease or the group's deleted or edited by hand | its fence, or its next renewal, which fails | the others wait for the Lease's duration before they act |
//! | has its clock stepped | as before: no decision uses CLOCK_REALTIME | the same |
//!
//! So two things are not proven here, and cannot be without the policy: a process that is stopped
//! between two instructions may go on with the computation of a reconcile for a millisecond, and a
//! write that is under way arrives late. Hence a reconcile that was in flight when its process was
//! stopped for longer than its Lease counts until the stop ([`Life::stops`]); one that begins
//! afterwards counts, and so does every accepted write. In the same way, one that the fence ends
//! counts until the Lease's end if the process got the processor within a second of it.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{AuditEvent, AuditLog};

/// The log filter under which a replica logs what the history needs.
pub const LOG: &str = "info,operetta_manager::plugin::traced=debug";

/// How long a busy machine may keep a process from running.
const STALL: SignedDuration = SignedDuration::from_secs(1);

/// The times of a process, by the correct clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// A time before it was started.
    pub started: Timestamp,
    /// A time after it had ended.
    pub ended: Timestamp,
    /// The times at which it was stopped (SIGSTOP) for longer than its Lease.
    pub stops: Vec<Timestamp>,
}

impl Life {
    /// Corrects a time of the process's clock, which may be off by whole hours. A history is
    /// shorter than half an hour.
    fn right(&self, time: Timestamp) -> Timestamp {
        let hours = (time.duration_since(self.started).as_secs_f64() / 3600.0).round();
        time - SignedDuration::from_hours(hours as i64)
    }

    /// When a reconcile ended, unless a stop ended it earlier.
    fn end_of(&self, began: Timestamp, ended: Timestamp) -> Timestamp {
        let stops = self
            .stops
            .iter()
            .filter(|stop| (began..ended).contains(stop));
        stops.min().copied().unwrap_or(ended)
    }
}

/// What one process did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The epoch of its membership.
    pub epoch: u64,
    /// Its reconciles, in the order in which they began.
    pub reconciles: Vec<Reconcile>,
}

/// One reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconcile {
    /// The Plugin, as namespace/name.
    pub plugin: String,
    /// The shard, as number/count.
    pub shard: String,
    /// The key of the object.
    pub key: String,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
}

impl Reconcile {
    /// Reports whether the plugin was split.
    fn is_of_shard(&self) -> bool {
        !self.shard.ends_with("/1")
    }
}

impl Process {
    /// Reads the log of a process. None if it never joined.
    ///
    /// # Panics
    /// Panics if a line lacks a field that the host writes.
    pub fn read(log: &str, life: &Life) -> Option<Self> {
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());

        let mut epoch = None;
        let mut reconciles: BTreeMap<(Timestamp, String), Reconcile> = BTreeMap::new();
        let mut open: BTreeMap<String, Timestamp> = BTreeMap::new();
        let mut fenced: BTreeMap<String, Timestamp> = BTreeMap::new();

        for line in lines {
            let text = |name: &str| {
                line[name]
                    .as_str()
                    .unwrap_or_else(|| panic!("no {name} in {line}"))
                    .to_owned()
            };

            let time = || life.right(text("timestamp").parse().expect("a time"));

            match line["message"].as_str() {
                Some("joined the group") => epoch = text("epoch").parse().ok(),
                Some("reconcile began") => {
                    let began = time();
                    open.insert(text("reconcile"), began);
                    let ended = life.end_of(began, life.ended.max(began));
                    let reconcile = Reconcile {
                        plugin: text("plugin"),
                        shard: text("shard"),
                        key: text("key"),
                        began,
                        ended,
                    };
                    reconciles.insert((began, text("reconcile")), reconcile);
                }

                Some("the Lease has ended during a reconcile") => {
                    let overdue = SignedDuration::from_millis(
                        line["overdue_ms"].as_i64().expect("milliseconds"),
                    );

                    if overdue <= STALL {
                        fenced.insert(text("reconcile"), time() - overdue);
                    }
                }
                Some("reconcile ended") => {
                    let id = text("reconcile");
                    let began = open
                        .remove(&id)
                        .unwrap_or_else(|| panic!("{id} ended and never began"));

                    let ended = fenced.remove(&id).unwrap_or_else(time).max(began);
                    if let Some(reconcile) = reconciles.get_mut(&(began, id)) {
                        reconcile.ended = life.end_of(began, ended);
                    }
                }
                _ => {}
            }
        }

        Some(Self {
            epoch: epoch?,
            reconciles: reconciles.into_values().collect(),
        })
    }
}

/// Describes each broken promise.
pub fn breaches(processes: &[Process], audit: &AuditLog) -> Vec<String> {
    let mut breaches = overlaps(processes);
    breaches.extend(late_writes(processes, audit));
    breaches
}

/// Returns how long each object waited from its creation to the first accepted write of a plugin,
/// with its name, in the order of the writes. `prefix` is the prefix of the names.
pub fn pauses<'a>(
    audit: &'a AuditLog,
    namespaces: &[&str],
    prefix: &str,
) -> Vec<(&'a str, SignedDuration)> {
    let is_write = |event: &AuditEvent| {
        let object = &event.object_ref;
        let is_ours = namespaces.contains(&object.namespace.as_str());
        is_ours
            && event.response_status.code < 300
            && ["create", "update", "patch"].contains(&event.verb.as_str())
    };

    let mut created: BTreeMap<(&str, &str), Timestamp> = BTreeMap::new();
    let mut pauses = Vec::new();

    let mut events: Vec<&AuditEvent> = audit.done_by(is_write).collect();
    events.sort_by_key(|event| event.at());

    for event in events {
        let object = &event.object_ref;
        let key = (object.namespace.as_str(), object.name.as_str());
        let is_of_plugin = !event.impersonated_user.username.is_empty();

        if event.verb == "create" && !is_of_plugin && key.1.starts_with(prefix) {
            created.insert(key, event.at());
        } else if let Some(since) = created.remove(&key).filter(|_| is_of_plugin) {
            pauses.push((key.1, event.at().duration_since(since)));
        }
    }

    pauses
}

/// Finds keys that two processes reconcile at once.
fn overlaps(processes: &[Process]) -> Vec<String> {
    let mut by_key: BTreeMap<(&str, &str), Vec<(u64, &Reconcile)>> = BTreeMap::new();

    for process in processes {
        for reconcile in &process.reconciles {
            by_key
                .entry((&reconcile.plugin, &reconcile.key))
                .or_default()
                .push((process.epoch, reconcile));
        }
    }

    let mut breaches = Vec::new();
    for ((plugin, key), mut reconciles) in by_key {
        reconciles.sort_by_key(|(_, reconcile)| reconcile.began);
        for pair in reconciles.windows(2) {
            let [(first, before), (second, after)] = pair else {
                continue;
            };

            if first != second && after.began < before.ended {
                let text = format!(
                    "epochs {first} and {second} reconcile {key} for {plugin} at once: the one until {}, the other from {}",
                    before.ended, after.began
                );
                breaches.push(text);
            }
        }
    }

    breaches
}

/// Finds writes of an epoch that end after another epoch has begun to reconcile for the plugin. A
/// plugin may come back to an epoch, which then begins again.
fn late_writes(processes: &[Process], audit: &AuditLog) -> Vec<String> {
    let is_write = |event: &AuditEvent| {
        event.response_status.code < 300
            && ["create", "update", "patch", "delete"].contains(&event.verb.as_str())
    };

    let mut by_manager: BTreeMap<String, Vec<(&Reconcile, u64)>> = BTreeMap::new();
    for process in processes {
        for reconcile in &process.reconciles {
            let manager = format!(
                "fieldManager=operetta%3A{}",
                reconcile.plugin.replace('/', "%2F")
            );

            by_manager
                .entry(manager)
                .or_default()
                .push((reconcile, process.epoch));
        }
    }

    let mut breaches = Vec::new();
    for event in audit.done_by(is_write) {
        let epoch = event
            .impersonated_user
            .extra
            .get("operetta.dev/epoch")
            .and_then(|values| values.first());
        let Some(epoch) = epoch.and_then(|epoch| epoch.parse::<u64>().ok()) else {
            continue;
        };

        let begun = event
            .request_uri
            .split(['?', '&'])
            .find_map(|parameter| by_manager.get(parameter));
        let key = format!("{}/{}", event.object_ref.namespace, event.object_ref.name);

        let concerns = |reconcile: &Reconcile| {
            reconcile.began < event.at() && (!reconcile.is_of_shard() || reconcile.key == key)
        };

        let earlier = begun
            .into_iter()
            .flatten()
            .filter(|(reconcile, _)| concerns(reconcile));
        let last = earlier.max_by_key(|(reconcile, epoch)| (reconcile.began, *epoch));

        if let Some((reconcile, other)) = last.filter(|(_, other)| *other != epoch) {
            let began = reconcile.began;
            breaches.push(format!(
                "a write of epoch {epoch} to {key} ended at {}, after epoch {other} began at {began}",
                event.at()
            ));
        }
    }

    breaches
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn process(epoch: u64, reconciles: &[[i64; 2]]) -> Process {
        process_of_shard("0/1", epoch, reconciles)
    }

    fn process_of_shard(shard: &str, epoch: u64, reconciles: &[[i64; 2]]) -> Process {
        let line = |time: i64, message: &str, id: usize| {
            json!({
                "timestamp": at(time).to_string(), "message": message, "epoch": epoch.to_string(),
                "plugin": "team/touch", "shard": shard, "key": "team/a", "reconcile": id.to_string(),
            })
            .to_string()
        };

        let mut lines = vec![line(0, "joined the group", 0)];
        for (id, [began, ended]) in reconciles.iter().enumerate() {
            lines.push(line(*began, "reconcile began", id));
            if *ended < 90 {
                lines.push(line(*ended, "reconcile ended", id));
            }
        }

        Process::read(&lines.join("\n"), &life(&[])).expect("it has joined")
    }

    fn life(stops: &[i64]) -> Life {
        Life {
            started: at(0),
            ended: at(90),
            stops: stops.iter().map(|stop| at(*stop)).collect(),
        }
    }

    fn write(epoch: &str, second: i64) -> AuditLog {
        write_to("a", epoch, second)
    }

    fn write_to(name: &str, epoch: &str, second: i64) -> AuditLog {
        let line = json!({
            "stage": "ResponseComplete", "verb": "update", "responseStatus": {"code": 200},
            "objectRef": {"namespace": "team", "name": name},
            "requestURI": "/api/v1/x?timeout=3s&fieldManager=operetta%3Ateam%2Ftouch",
            "impersonatedUser": {"extra": {"operetta.dev/epoch": [epoch]}}, "stageTimestamp": at(second).to_string(),
        });
        AuditLog::parse(&line.to_string())
    }

    #[test]
    fn two_replicas_at_once_are_a_breach() {
        let none = AuditLog::default();
        assert_eq!(
            breaches(&[process(1, &[[1, 3]]), process(2, &[[3, 4]])], &none),
            Vec::<String>::new()
        );

        let found = breaches(&[process(1, &[[1, 3]]), process(2, &[[2, 4]])], &none);
        assert!(
            found.len() == 1 && found[0].contains("epochs 1 and 2 reconcile team/a"),
            "{found:?}"
        );

        // One that has no end lasts until the end of the process.
        assert_eq!(
            breaches(&[process(1, &[[1, 99]]), process(2, &[[2, 4]])], &none).len(),
            1
        );

        assert_eq!(Process::read("{}", &life(&[])), None);
    }

    #[test]
    fn reconcile_that_its_fence_ends_in_time_counts_until_the_lease_ends() {
        let end_of = |overdue_ms: u64| {
            let line = |time: i64, message: &str| {
                json!({
                    "timestamp": at(time).to_string(), "message": message, "epoch": "1", "overdue_ms": overdue_ms,
                    "plugin": "team/touch", "shard": "0/1", "key": "team/a", "reconcile": "r",
                })
                .to_string()
            };

            let fenced = line(9, "the Lease has ended during a reconcile");
            let lines = [
                line(0, "joined the group"),
                line(2, "reconcile began"),
                fenced,
                line(9, "reconcile ended"),
            ];

            Process::read(&lines.join("\n"), &life(&[]))
                .expect("it has joined")
                .reconciles[0]
                .ended
        };

        assert_eq!(end_of(1_000), at(8));
        assert_eq!(end_of(1_001), at(9), "it was late for another reason");
    }

    #[test]
    fn times_are_those_of_the_right_clock() {
        let life = life(&[7, 5]);

        assert_eq!(
            [3_602, -3_597, 4].map(|time| life.right(at(time))),
            [at(2), at(3), at(4)]
        );

        let ends = [[1, 4], [1, 9], [6, 9], [8, 9]]
            .map(|[began, ended]| life.end_of(at(began), at(ended)));
        assert_eq!(
            ends,
            [at(4), at(5), at(7), at(9)],
            "a stop ends what is in flight"
        );
    }

    #[test]
    fn pause_is_from_creation_to_the_first_write_of_a_plugin() {
        let event = |verb: &str, name: &str, second: i64, user: &str| {
            json!({
                "stage": "ResponseComplete", "verb": verb, "responseStatus": {"code": 200},
                "objectRef": {"resource": "configmaps", "namespace": "team", "name": name},
                "impersonatedUser": {"username": user}, "stageTimestamp": at(second).to_string(),
            })
            .to_string()
        };

        let events = [
            event("create", "object-1", 1, ""),
            event("create", "other", 1, ""),
            event("update", "object-1", 4, "plugin"),
            event("update", "object-1", 9, "plugin"),
            event("create", "object-2", 5, ""),
        ];

        let log = AuditLog::parse(&events.join("\n"));
        assert_eq!(
            pauses(&log, &["team"], "object-"),
            [("object-1", SignedDuration::from_secs(3))]
        );

        assert_eq!(pauses(&log, &["other"], "object-"), []);
    }

    #[test]
    fn write_after_its_epoch_is_a_breach() {
        let processes = [process(1, &[[1, 3]]), process(2, &[[5, 6]])];
        assert_eq!(breaches(&processes, &write("1", 4)), Vec::<String>::new());
        assert_eq!(breaches(&processes, &write("2", 9)), Vec::<String>::new());
        assert_eq!(breaches(&processes, &write("1", 6)).len(), 1);
    }

    #[test]
    fn write_for_a_key_of_another_shard_is_no_breach() {
        let processes = [
            process_of_shard("0/2", 1, &[[1, 9]]),
            process_of_shard("1/2", 2, &[[5, 6]]),
        ];

        assert_eq!(
            breaches(&processes, &write_to("b", "1", 7)).len(),
            1,
            "only the overlap"
        );

        let processes = [
            process_of_shard("0/2", 1, &[[1, 3]]),
            process_of_shard("0/2", 2, &[[5, 6]]),
        ];

        assert_eq!(
            breaches(&processes, &write_to("b", "1", 7)),
            Vec::<String>::new()
        );
        assert_eq!(breaches(&processes, &write_to("a", "1", 7)).len(), 1);
    }
}

//! Explains changes of an object: who wrote, in which reconcile, triggered by what, and so on, back
//! to something outside.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;

pub use super::explanation::{Because, Explanation, Named, PluginWriter, ReadBefore, Step, Writer};
use super::{
    facts::{Facts, WriteFact},
    record::{CallRecord, Cause, Change, ObjectRef, Trigger},
};

/// How many steps we go back from a change towards its cause.
const MAX_DEPTH: usize = 16;
/// How many steps an explanation may have.
const MAX_STEPS: usize = 500;

/// Names a retry by its number, which is that of the failures in a row before it.
///
/// ```
/// use operetta_core::recorder::explain::nth_retry;
///
/// assert_eq!(nth_retry(15), "the 15th retry");
/// ```
pub fn nth_retry(retries: u32) -> String {
    let suffix = match (retries % 10, retries % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("the {retries}{suffix} retry")
}

/// Facts about objects, as far as the asker may see them.
#[async_trait]
pub trait FactSource: Send + Sync {
    /// The facts about an object; None if the asker may not read it.
    async fn facts(&self, object: &ObjectRef) -> Option<Facts>;
}

/// A question about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The object.
    pub object: ObjectRef,
    /// The field, such as `.spec.replicas`; None for all.
    pub field: Option<String>,
    /// How many changes of the object to explain, newest first.
    pub limit: usize,
}

/// Explains an object's changes. Returns None if the asker may not read it.
pub async fn explain(source: &dyn FactSource, question: &Question) -> Option<Explanation> {
    let mut chain = Chain {
        source,
        known: HashMap::new(),
        seen: HashSet::new(),
        hidden: 0,
        steps: 0,
    };

    let facts = chain.facts(&question.object).await?;
    let all: Vec<&Fact> = facts
        .iter()
        .filter(|fact| fact.concerns(question.field.as_deref()))
        .collect();
    let older = all.len().saturating_sub(question.limit);
    let mut changes = Vec::new();

    for fact in all.into_iter().take(question.limit) {
        changes.push(chain.step(&question.object, fact, 0).await);
    }

    Some(Explanation {
        changes,
        older,
        hidden: chain.hidden,
        silent: Vec::new(),
    })
}

/// One version of an object, as seen by a watch, as returned to its writer, or both.
struct Fact {
    change: Option<Change>,
    write: Option<WriteFact>,
}

/// Joins the changes seen by watches with the writes behind them, by resourceVersion; newest first.
fn merged(facts: Facts) -> Vec<Fact> {
    let Facts { changes, writes } = facts;
    // Writes by their resourceVersion. Deletions are under None, because their response does not
    // have the event's version.
    let mut by_version: HashMap<Option<String>, VecDeque<WriteFact>> = HashMap::new();

    for write in writes {
        let Some(call) = write.call() else { continue };
        let version = (call.verb != "delete").then(|| call.resource_version.clone());
        by_version.entry(version).or_default().push_back(write);
    }

    let mut all = Vec::new();
    for change in changes {
        let version = (change.cause != Cause::Deleted).then(|| change.resource_version.clone());
        let write = by_version.get_mut(&version).and_then(VecDeque::pop_front);
        all.push(Fact {
            change: Some(change),
            write,
        });
    }

    let writes = by_version.into_values().flatten();
    all.extend(writes.map(|write| Fact {
        change: None,
        write: Some(write),
    }));
    all.sort_by_key(|fact| std::cmp::Reverse(fact.at()));

    all
}

impl Fact {
    fn call(&self) -> Option<&CallRecord> {
        self.write.as_ref()?.call()
    }

    /// When it was written, or else seen.
    fn at(&self) -> Duration {
        let written = self.write.as_ref().zip(self.call()).map(|(write, call)| {
            write.reconcile.started + call.began + call.took.unwrap_or_default()
        });
        written
            .or_else(|| self.change.as_ref().map(|change| change.at))
            .unwrap_or_default()
    }

    fn resource_version(&self) -> String {
        let of_write = || self.call().map(|call| call.resource_version.clone());
        self.change
            .as_ref()
            .map(|change| change.resource_version.clone())
            .or_else(of_write)
            .unwrap_or_default()
    }

    fn paths(&self) -> Option<&Vec<String>> {
        let of_change = self
            .change
            .as_ref()
            .and_then(|change| change.paths.as_ref());
        of_change.or_else(|| self.call()?.paths.as_ref())
    }

    fn what(&self) -> &'static str {
        let verb = self.call().map(|call| &*call.verb);
        match (self.change.as_ref().map(|change| change.cause), verb) {
            (Some(Cause::Added), _) | (None, Some("create")) => "created",
            (Some(Cause::Deleted), _) | (None, Some("delete")) => "deleted",
            _ => "changed",
        }
    }

    /// Whether it may have changed a field: the field itself, a part of it, or something around it.
    fn concerns(&self, field: Option<&str>) -> bool {
        let (Some(field), Some(paths)) = (field, self.paths()) else {
            return true;
        };
        let is_part = |outer: &str, part: &str| {
            part.strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        paths
            .iter()
            .any(|path| is_part(path, field) || is_part(field, path) || path.starts_with("and "))
    }
}

/// The way back from changes to their causes.
struct Chain<'a> {
    source: &'a dyn FactSource,
    /// The facts of each object, asked for once; None for objects the asker may not read.
    known: HashMap<ObjectRef, Option<Arc<[Fact]>>>,
    /// The versions of objects explained so far.
    seen: HashSet<(ObjectRef, String)>,
    /// How many objects were left out, and changes whose Plugin was.
    hidden: usize,
    steps: usize,
}

impl Chain<'_> {
    /// The facts of an object; None if the asker may not read it.
    async fn facts(&mut self, object: &ObjectRef) -> Option<Arc<[Fact]>> {
        if let Some(known) = self.known.get(object) {
            return known.clone();
        }
        let facts = self
            .source
            .facts(object)
            .await
            .map(|facts| merged(facts).into());
        self.known.insert(object.clone(), facts.clone());
        facts
    }

    /// The recorded versions of an object after `after` and up to `last`, oldest first. If the
    /// asker may not read the object, only `last`.
    async fn versions(&mut self, object: &ObjectRef, after: u64, last: u64) -> Vec<String> {
        let Some(facts) = self.facts(object).await else {
            return vec![last.to_string()];
        };
        let versions = facts.iter().rev().map(Fact::resource_version);
        versions
            .filter(|version| {
                number(version).is_some_and(|version| version > after && version <= last)
            })
            .collect()
    }

    async fn step(&mut self, object: &ObjectRef, fact: &Fact, depth: usize) -> Step {
        self.steps += 1;
        self.seen.insert((object.clone(), fact.resource_version()));
        let mut step = Step {
            at: u64::try_from(fact.at().as_millis()).unwrap_or(u64::MAX),
            object: object.into(),
            change: fact.what().to_owned(),
            resource_version: fact.resource_version(),
            paths: fact.paths().cloned(),
            by: Writer::Outside {
                managers: managers(fact.change.as_ref()),
            },
            because: Vec::new(),
        };

        let Some(write) = &fact.write else {
            return step;
        };

        if write.is_hidden {
            self.hidden += 1;
            step.by = Writer::HiddenPlugin;
            return step;
        }

        self.hidden += write.left_out;
        step.by = Writer::Plugin(Box::new(writer(write)));
        let reconcile = &write.reconcile;
        // A retry has the triggers of the reconciles that failed, and may come long after them.
        if reconcile.retries > 0 {
            step.because.push(Because::Other {
                text: nth_retry(reconcile.retries),
            });
        } else if reconcile.triggers.is_empty() {
            step.because.push(Because::Other {
                text: "the last reconcile asked to be repeated".to_owned(),
            });
        }

        for trigger in &reconcile.triggers {
            step.because.push(self.because(trigger, depth).await);
        }

        for ReadLater {
            object,
            after,
            read,
        } in read_after_triggers(write, object)
        {
            for resource_version in self.versions(&object, after, read).await {
                step.because.extend(
                    self.because_of_change(&object, resource_version, depth)
                        .await,
                );
            }
        }

        if reconcile.more_triggers > 0 {
            step.because.push(Because::Other {
                text: format!("{} further events", reconcile.more_triggers),
            });
        }

        step
    }

    async fn because(&mut self, trigger: &Trigger, depth: usize) -> Because {
        let Some(object) = &trigger.object else {
            return Because::Other {
                text: words(trigger.cause).to_owned(),
            };
        };

        if matches!(trigger.cause, Cause::Initial | Cause::Resync) {
            return Because::Other {
                text: words(trigger.cause).to_owned(),
            };
        }

        match self
            .because_of_change(object, trigger.resource_version.clone(), depth)
            .await
        {
            Some(because) => because,
            None => Because::Unrecorded {
                object: object.into(),
                resource_version: trigger.resource_version.clone(),
            },
        }
    }

    /// Explains a version of an object; None if it is not recorded.
    async fn because_of_change(
        &mut self,
        object: &ObjectRef,
        resource_version: String,
        depth: usize,
    ) -> Option<Because> {
        if self
            .seen
            .contains(&(object.clone(), resource_version.clone()))
            || depth >= MAX_DEPTH
            || self.steps >= MAX_STEPS
        {
            return Some(Because::Seen {
                object: object.into(),
                resource_version,
            });
        }

        let Some(facts) = self.facts(object).await else {
            self.hidden += 1;
            return Some(Because::Hidden);
        };

        let fact = facts
            .iter()
            .find(|fact| fact.resource_version() == resource_version)?;
        Some(Because::Change(Box::new(
            Box::pin(self.step(object, fact, depth + 1)).await,
        )))
    }
}

/// A read of a version newer than all triggers of the reconcile.
#[derive(PartialEq, Eq)]
struct ReadLater {
    object: ObjectRef,
    /// The newest resourceVersion among the triggers.
    after: u64,
    /// The resourceVersion read.
    read: u64,
}

fn number(resource_version: &str) -> Option<u64> {
    resource_version.parse().ok()
}

/// Finds the objects read before a write in a version newer than all triggers of the reconcile. The
/// changes up to that version came while the key was waiting or being reconciled, so they are
/// causes as well. `written` is the object of the write.
fn read_after_triggers(write: &WriteFact, written: &ObjectRef) -> Vec<ReadLater> {
    let reconcile = &write.reconcile;
    let triggers = reconcile
        .triggers
        .iter()
        .map(|trigger| number(&trigger.resource_version));

    // If any trigger has no version, as when a controller starts, everything is newer.
    let Some(newest) = triggers
        .collect::<Option<Vec<u64>>>()
        .and_then(|all| all.into_iter().max())
    else {
        return Vec::new();
    };

    let mut known = vec![reconcile.object(), written.clone()];
    known.extend(
        reconcile
            .triggers
            .iter()
            .filter_map(|trigger| trigger.object.clone()),
    );

    let mut found: Vec<ReadLater> = Vec::new();
    for call in reconcile
        .calls
        .iter()
        .take(write.at)
        .filter(|call| call.verb == "get")
    {
        let Some(read) = number(&call.resource_version).filter(|version| *version > newest) else {
            continue;
        };

        // A raw request does not name the kind.
        let object = match call.is_raw {
            true => known.iter().find(|object| call.is_about(object)).cloned(),
            false => call.object(),
        };
        let later = object.map(|object| ReadLater {
            object,
            after: newest,
            read,
        });

        found.extend(later.filter(|later| !found.contains(later)));
    }

    found
}

fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::Initial => "the controller started here, or its code or configuration is new",
        Cause::Resync => "the controller's resync",
        Cause::Retry => "operetta retry",
        Cause::Added | Cause::Modified | Cause::Deleted => "an event",
    }
}

fn managers(change: Option<&Change>) -> Vec<String> {
    let writers = change
        .map(|change| change.writers.as_slice())
        .unwrap_or_default();
    let text = |writer: &super::record::FieldWriter| match writer.subresource.as_str() {
        "" => writer.manager.clone(),
        subresource => format!("{}/{subresource}", writer.manager),
    };
    writers.iter().map(text).collect()
}

fn writer(write: &WriteFact) -> PluginWriter {
    let WriteFact {
        plugin,
        source,
        reconcile,
        at,
        ..
    } = write;

    let verb = write.call().map(CallRecord::verb_and_subresource);
    let reads = reconcile
        .calls
        .iter()
        .take(*at)
        .filter(|call| matches!(&*call.verb, "get" | "list"));

    let reads = reads.map(|read| ReadBefore {
        text: match (&read.namespace, &read.name) {
            (Some(namespace), Some(name)) => {
                format!("{} {} {namespace}/{name}", read.verb, read.resource)
            }
            (None, Some(name)) | (Some(name), None) => {
                format!("{} {} {name}", read.verb, read.resource)
            }
            (None, None) => format!("{} {}", read.verb, read.resource),
        },
        resource_version: read.resource_version.clone(),
        is_cached: read.is_cached,
    });

    PluginWriter {
        plugin: plugin.to_string(),
        controller: reconcile.controller.clone(),
        object: (&reconcile.object()).into(),
        reconcile: reconcile.id.clone(),
        verb: verb.unwrap_or_default(),
        digest: source.digest.clone(),
        service_account: source.service_account.clone(),
        reads: reads.collect(),
    }
}

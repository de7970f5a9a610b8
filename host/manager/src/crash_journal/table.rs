//! The table of the crash journal: work in flight, and the deaths of the host that each work may
//! have caused. A pure state machine, tested as a table; [`super::CrashJournal`] keeps it in a
//! file.

use serde::{Deserialize, Serialize};

/// The most entries that the table holds.
const MAX_ENTRIES: usize = 128;

/// The longest text of an entry, in bytes. Names of objects and digests are shorter.
const MAX_TEXT: usize = 256;

/// Deaths of the host in a row after which the work is not tried again.
const MAX_DEATHS: u32 = 2;

/// The same where other work was in flight at the last death, which may have been the cause.
const MAX_DEATHS_IN_COMPANY: u32 = 3;

/// A step in which the host handles bytes that a tenant wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// The configuration in a drop-in ConfigMap is parsed.
    ParseDropIn,
    /// A Plugin's compressed component is decompressed.
    Decompress,
    /// The ConfigMaps and Secrets in a Plugin's `spec.configFrom` are parsed.
    ParseConfig,
    /// A Plugin's component is checked, compiled, linked and described.
    Load,
}

impl Step {
    /// Returns its name in the journal and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ParseDropIn => "parseDropIn",
            Self::Decompress => "decompress",
            Self::ParseConfig => "parseConfig",
            Self::Load => "load",
        }
    }
}

/// One work on one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Work {
    /// The step.
    pub step: Step,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The version of the bytes: their digest, or the uid and resourceVersion of the object that
    /// has them.
    pub version: String,
    /// The value of the annotation with which an administrator asks for another try; empty without
    /// it.
    pub retry: String,
}

/// The decision whether a work may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The work may begin at any time.
    Ordinary,
    /// The host died during this work: it is done last, and after the namespace's other suspects.
    Suspect,
    /// The host died during this work twice in a row, or three times if other work was in flight as
    /// well: it is not done.
    Quarantined,
}

/// An entry: a work that is in flight, or during which the host died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The work.
    #[serde(flatten)]
    pub work: Work,
    /// The host's deaths in a row while the work was in flight.
    pub deaths: u32,
    /// True from its beginning to its end.
    pub in_flight: bool,
    /// True if other work was in flight at the host's last death.
    #[serde(default)]
    pub in_company: bool,
}

/// The table: at most one entry for each step and object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// The entries, in the order of their beginning.
    entries: Vec<Entry>,
}

impl Work {
    /// Creates a work. Overlong texts are cut.
    pub fn new(step: Step, namespace: &str, name: &str, version: &str, retry: &str) -> Self {
        let cut = |text: &str| text[..text.floor_char_boundary(MAX_TEXT)].to_owned();
        Self {
            step,
            namespace: cut(namespace),
            name: cut(name),
            version: cut(version),
            retry: cut(retry),
        }
    }

    /// Returns the work as it follows "while the host".
    pub fn past_tense(&self) -> String {
        let version = &self.version;
        match self.step {
            Step::ParseDropIn => "parsed the configuration in a drop-in ConfigMap".to_owned(),
            Step::Decompress => format!("decompressed {version}"),
            Step::ParseConfig => "parsed spec.configFrom".to_owned(),
            Step::Load => format!("loaded {version}"),
        }
    }

    fn is_on_same_object(&self, other: &Self) -> bool {
        self.step == other.step && self.namespace == other.namespace && self.name == other.name
    }
}

impl Entry {
    fn is_proven(&self) -> bool {
        self.deaths
            >= if self.in_company {
                MAX_DEATHS_IN_COMPANY
            } else {
                MAX_DEATHS
            }
    }
}

impl Table {
    /// Takes up the table of a host that died: each work in flight may be the cause.
    pub fn after_death(mut self) -> Self {
        let in_company = self.entries.iter().filter(|entry| entry.in_flight).count() > 1;
        for entry in self.entries.iter_mut().filter(|entry| entry.in_flight) {
            entry.deaths = entry.deaths.saturating_add(1);
            entry.in_flight = false;
            entry.in_company = in_company;
        }
        self.entries.retain(|entry| entry.deaths > 0);
        self.entries.truncate(MAX_ENTRIES);
        self
    }

    /// Decides about a work. A changed source or a new request of an administrator ends a
    /// quarantine, not the suspicion.
    pub fn verdict(&self, work: &Work) -> Verdict {
        match self.find(work) {
            None | Some(Entry { deaths: 0, .. }) => Verdict::Ordinary,
            Some(entry) if entry.work == *work && entry.is_proven() => Verdict::Quarantined,
            Some(_) => Verdict::Suspect,
        }
    }

    /// Notes that a work begins. Reports whether the table has room for it.
    pub fn begin(&mut self, work: &Work) -> bool {
        let earlier = self.find(work).map(|entry| {
            if entry.work == *work {
                entry.deaths
            } else {
                entry.deaths.min(1)
            }
        });

        self.entries
            .retain(|entry| !entry.work.is_on_same_object(work));
        if self.entries.len() >= MAX_ENTRIES && !self.make_room() {
            return false;
        }

        self.entries.push(Entry {
            work: work.clone(),
            deaths: earlier.unwrap_or_default(),
            in_flight: true,
            in_company: false,
        });
        true
    }

    /// Records that work has ended with the host alive, which clears it of all suspicion.
    pub fn end(&mut self, work: &Work) {
        self.entries.retain(|entry| entry.work != *work);
    }

    /// Notes that the host stops in an orderly way: no work in flight will be blamed.
    pub fn stop(&mut self) {
        self.entries.retain(|entry| entry.deaths > 0);
        for entry in &mut self.entries {
            entry.in_flight = false;
        }
    }

    /// Reports whether some work is in flight.
    pub fn is_busy(&self) -> bool {
        self.entries.iter().any(|entry| entry.in_flight)
    }

    /// Returns the work that the host crashed on.
    pub fn suspects(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.deaths > 0)
    }

    /// Reports whether the table has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn find(&self, work: &Work) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.work.is_on_same_object(work))
    }

    /// Drops the oldest entry with the fewest deaths that is not in flight. Reports whether there
    /// was one.
    fn make_room(&mut self) -> bool {
        let idle = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| !entry.in_flight);
        let oldest = idle.min_by_key(|(_, entry)| entry.deaths).map(|(at, _)| at);
        oldest.map(|at| self.entries.remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &str, version: &str) -> Work {
        Work::new(Step::Load, "team", name, version, "")
    }

    #[test]
    fn work_is_suspect_after_one_death_quarantined_after_two() {
        let bad = load("bad", "sha256:1");
        let mut table = Table::default();
        assert_eq!(table.verdict(&bad), Verdict::Ordinary);
        assert!(table.begin(&bad) && table.begin(&load("other", "sha256:2")));

        let mut table = table.after_death();
        assert_eq!(table.verdict(&bad), Verdict::Suspect);
        assert!(!table.is_busy());

        // Another death while it waits for the others is not held against it.
        table.begin(&load("third", "sha256:3"));
        let mut table = table.after_death();
        assert_eq!(table.verdict(&bad), Verdict::Suspect);

        table.begin(&bad);
        let table = table.after_death();
        assert_eq!(table.verdict(&bad), Verdict::Quarantined);
        assert_eq!(table.verdict(&load("other", "sha256:2")), Verdict::Suspect);
        assert_eq!(
            table.verdict(&load("fine", "sha256:1")),
            Verdict::Ordinary,
            "the name counts, too"
        );
    }

    #[test]
    fn work_in_company_is_quarantined_after_three_deaths() {
        let (one, other) = (load("one", "sha256:1"), load("other", "sha256:2"));
        let mut table = Table::default();
        for verdict in [Verdict::Suspect, Verdict::Suspect, Verdict::Quarantined] {
            table.begin(&one);
            table.begin(&other);
            table = table.after_death();
            assert_eq!([&one, &other].map(|work| table.verdict(work)), [verdict; 2]);
        }

        let mut table = Table::default();
        table.begin(&one);
        table.begin(&other);
        table = table.after_death();
        table.begin(&one);
        let table = table.after_death();
        assert_eq!(
            table.verdict(&one),
            Verdict::Quarantined,
            "at last it was alone"
        );
    }

    #[test]
    fn work_that_ended_is_forgotten() {
        let work = load("a", "sha256:1");
        let mut table = Table::default();
        table.begin(&work);

        let mut table = table.after_death();
        table.begin(&work);
        table.end(&work);
        assert_eq!(
            (table.verdict(&work), table.is_empty()),
            (Verdict::Ordinary, true)
        );
    }

    #[test]
    fn changed_source_or_request_ends_quarantine_on_probation() {
        let work = load("a", "sha256:1");
        let mut table = Table::default();
        table.begin(&work);

        let mut table = table.after_death();
        table.begin(&work);
        let table = table.after_death();

        for changed in [
            load("a", "sha256:2"),
            Work::new(Step::Load, "team", "a", "sha256:1", "again"),
        ] {
            assert_eq!(table.verdict(&changed), Verdict::Suspect);
            let mut table = table.clone();
            table.begin(&changed);
            let table = table.after_death();
            assert_eq!(
                table.verdict(&changed),
                Verdict::Quarantined,
                "one death more is enough"
            );
        }
    }

    #[test]
    fn orderly_stop_blames_nothing() {
        let mut table = Table::default();
        table.begin(&load("a", "sha256:1"));
        let mut dead = table.clone().after_death();
        dead.begin(&load("b", "sha256:2"));
        dead.stop();
        assert_eq!(
            dead.clone().after_death(),
            dead,
            "a stop leaves what was known before"
        );
        assert_eq!(dead.suspects().count(), 1);
    }

    #[test]
    fn table_is_bounded_and_keeps_the_worst() {
        let mut table = Table::default();
        let worst = load("worst", "sha256:0");
        table.begin(&worst);
        table = table.after_death();
        table.begin(&worst);
        table = table.after_death();

        for number in 0..MAX_ENTRIES {
            let work = load(&format!("p{number}"), "sha256:1");
            table.begin(&work);
            table = table.after_death();
        }

        assert_eq!(
            (table.entries.len(), table.verdict(&worst)),
            (MAX_ENTRIES, Verdict::Quarantined)
        );

        let mut full = Table::default();
        for number in 0..MAX_ENTRIES {
            assert!(full.begin(&load(&format!("p{number}"), "sha256:1")));
        }
        assert!(
            !full.begin(&load("more", "sha256:1")),
            "what is in flight is not dropped"
        );

        let long = Work::new(Step::Load, "team", "a", "sha256:1", &"é".repeat(1000));
        assert_eq!(long.retry.len(), MAX_TEXT);
    }
}

//! The crash journal's table: work in flight, and the host's deaths each piece of work may have
//! caused. A pure state machine, tested as a table; [`super::CrashJournal`] stores it in a file.

use serde::{Deserialize, Serialize};

const MAX_ENTRIES: usize = 128;

/// The longest text of an entry, in bytes. Object names and digests are shorter.
const MAX_TEXT: usize = 256;

/// How many deaths in a row quarantine the work.
const MAX_DEATHS: u32 = 2;

/// The same where other work was in flight at the last death, which may have been the cause.
const MAX_DEATHS_IN_COMPANY: u32 = 3;

/// A step in which the host handles bytes that a tenant wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// Parsing the configuration in a drop-in ConfigMap.
    ParseDropIn,
    /// Decompressing a Plugin's component.
    Decompress,
    /// Parsing the ConfigMaps and Secrets in a Plugin's `spec.configFrom`.
    ParseConfig,
    /// Checking, linking and describing a Plugin's component, and compiling it where no worker does.
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

/// A piece of work: one step for one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Work {
    /// The step.
    pub step: Step,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The version of the bytes: their digest, or the uid and resourceVersion of the object they
    /// are in.
    pub version: String,
    /// The value of the annotation that asks for another try; empty without it.
    pub retry: String,
}

/// Whether a piece of work may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may start at any time.
    Ordinary,
    /// The host died during this work: it is done last, and after the namespace's other suspects.
    Suspect,
    /// The host died during this work twice in a row, or three times if other work was in flight as
    /// well: it is not done.
    Quarantined,
}

/// Work that is in flight or that the host died during.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The work.
    #[serde(flatten)]
    pub work: Work,
    /// How often in a row the host died during the work.
    pub deaths: u32,
    /// True while the work is in flight.
    pub in_flight: bool,
    /// True if other work was in flight at the host's last death.
    #[serde(default)]
    pub in_company: bool,
}

/// At most one entry per step and object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// Oldest first.
    entries: Vec<Entry>,
}

impl Work {
    /// Creates a piece of work. Long texts are cut.
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

    /// Returns the work in words that follow "while the host".
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
    /// Turns the table of a host that died into that of its successor: any work in flight may be
    /// the cause.
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

    /// Decides whether work may start. A changed source or an administrator's new request ends a
    /// quarantine, but the work stays suspect.
    pub fn verdict(&self, work: &Work) -> Verdict {
        match self.find(work) {
            None | Some(Entry { deaths: 0, .. }) => Verdict::Ordinary,
            Some(entry) if entry.work == *work && entry.is_proven() => Verdict::Quarantined,
            Some(_) => Verdict::Suspect,
        }
    }

    /// Records that work starts. Returns false if the table has no room for it.
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

    /// Records that work goes on outside of the host's process, where it can't kill it. Its deaths
    /// stay until [`Table::begin`].
    pub fn pause(&mut self, work: &Work) {
        self.entries
            .retain(|entry| entry.work != *work || entry.deaths > 0);
        let of_work = |entry: &&mut Entry| entry.work == *work;
        if let Some(entry) = self.entries.iter_mut().find(of_work) {
            entry.in_flight = false;
        }
    }

    /// Records that work ended and the host is still alive, which clears it of all suspicion.
    pub fn end(&mut self, work: &Work) {
        self.entries.retain(|entry| entry.work != *work);
    }

    /// Records a graceful stop: work in flight isn't to blame.
    pub fn stop(&mut self) {
        self.entries.retain(|entry| entry.deaths > 0);
        for entry in &mut self.entries {
            entry.in_flight = false;
        }
    }

    /// Whether a suspect of this namespace is in flight.
    pub fn has_suspect_in_flight(&self, namespace: &str) -> bool {
        self.suspects()
            .any(|entry| entry.in_flight && entry.work.namespace == namespace)
    }

    /// Reports whether any work is in flight.
    pub fn is_busy(&self) -> bool {
        self.entries.iter().any(|entry| entry.in_flight)
    }

    /// Returns the work the host died during.
    pub fn suspects(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.deaths > 0)
    }

    /// Reports whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn find(&self, work: &Work) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.work.is_on_same_object(work))
    }

    /// Drops the oldest entry with the fewest deaths, except work in flight. Reports whether there
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
    fn paused_work_is_not_blamed_and_keeps_its_deaths() {
        let (suspect, other) = (load("suspect", "sha256:1"), load("other", "sha256:2"));
        let mut table = Table::default();
        table.begin(&suspect);
        let mut table = table.after_death();

        table.begin(&suspect);
        table.begin(&other);
        table.pause(&suspect);
        table.pause(&other);
        assert!(!table.is_busy() && !table.has_suspect_in_flight("team"));
        let mut table = table.after_death();
        assert_eq!(table.verdict(&suspect), Verdict::Suspect, "still one death");
        assert_eq!(table.verdict(&other), Verdict::Ordinary);

        table.begin(&suspect);
        table.pause(&suspect);
        table.begin(&suspect);
        let table = table.after_death();
        assert_eq!(table.verdict(&suspect), Verdict::Quarantined);
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

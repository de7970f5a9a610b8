//! The crash journal: what the host was parsing, decompressing or loading when it crashed.
//!
//! A host that is killed (by the OOM killer, say) cannot tell what killed it. So it records in a
//! file which tenant's bytes it is working on, and erases the record at the end. After a crash,
//! that work is done last, one suspect of a namespace at a time: a tenant's suspects hold up no other
//! work. What the host crashed on twice in a row is not tried again until its source changes, or an
//! administrator asks for it with the annotation `operetta.dev/retry`; where other work was in flight
//! as well, it takes a third crash.
//!
//! What a compile worker does in a process of its own cannot kill the host, so a component is noted
//! before and after it is compiled there, and not meanwhile: a compilation takes longest of all, and
//! whatever else killed the host would have it as company.
//!
//! The file is rewritten and renamed, without `fsync`: the page cache outlives the process. A power
//! loss may lose the file, and then nobody is blamed.

mod table;

use std::{
    collections::HashSet,
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use operetta_core::object::ObjectKey;
use parking_lot::Mutex;

use table::Table;
pub use table::{Entry, Step, Verdict, Work};

/// The largest file to read.
const MAX_BYTES: u64 = 1 << 20;

/// How soon to ask again after [`CrashJournal::begin`] returned None.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// How often paused work that the host died during before asks whether it may go on.
const RESUME_INTERVAL: Duration = Duration::from_millis(100);

/// When a suspect is tried even if others are still being loaded.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// When to remove another cluster's journal.
const ABANDONED: Duration = Duration::from_secs(30 * 24 * 3600);

/// The file name's prefix; the cluster's id follows.
const PREFIX: &str = "crash-journal-";

/// The journal of one host.
pub struct CrashJournal {
    /// None if nothing is saved.
    file: Option<PathBuf>,
    table: Mutex<Table>,
    start: Mutex<Start>,
}

struct Start {
    began: Instant,
    /// The Plugins reconciled so far; None once nobody waits for the others.
    attempted: Option<HashSet<ObjectKey>>,
    /// True after a failed write was logged, until a write succeeds.
    unwritable: bool,
}

/// Work that the journal records as in flight. Dropping it erases the record.
pub struct InFlight {
    journal: Arc<CrashJournal>,
    work: Work,
    is_paused: AtomicBool,
}

impl CrashJournal {
    /// Opens this cluster's journal in a directory that only this user may access. Without a
    /// directory, nothing is saved beyond this process.
    pub fn open(directory: Option<&Path>, cluster: &str) -> Arc<Self> {
        let id: String = cluster
            .chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
            .collect();
        let file = directory.map(|directory| directory.join(format!("{PREFIX}{id}.json")));
        let table = file.as_deref().map(read).unwrap_or_default().after_death();
        for Entry { work, deaths, .. } in table.suspects() {
            let object = format!("{}/{}", work.namespace, work.name);
            tracing::warn!(
                plugin = object,
                version = work.version,
                deaths,
                "the host crashed while it {}",
                work.past_tense()
            );
        }

        let attempted = (!table.is_empty()).then(HashSet::new);
        let start = Start {
            began: Instant::now(),
            attempted,
            unwritable: false,
        };
        let journal = Self {
            file,
            table: Mutex::new(table),
            start: Mutex::new(start),
        };
        journal.remove_abandoned();
        journal.write(&journal.table.lock());

        Arc::new(journal)
    }

    /// Decides whether work may begin.
    pub fn verdict(&self, work: &Work) -> Verdict {
        self.table.lock().verdict(work)
    }

    /// Notes that a work begins. Returns None if it must wait: a suspect for another one of its
    /// namespace.
    pub fn begin(self: &Arc<Self>, work: Work) -> Option<InFlight> {
        self.note(&work).then(|| InFlight {
            journal: self.clone(),
            work,
            is_paused: AtomicBool::new(false),
        })
    }

    /// Notes that a work begins, unless it must wait. Reports whether it did.
    fn note(&self, work: &Work) -> bool {
        let mut table = self.table.lock();
        let is_suspect = table.verdict(work) != Verdict::Ordinary;
        if is_suspect && table.has_suspect_in_flight(&work.namespace) {
            return false;
        }

        if table.begin(work) {
            self.write(&table);
        }
        true
    }

    /// Records that a Plugin was reconciled since the start.
    pub fn record_attempt(&self, plugin: &ObjectKey) {
        if let Some(attempted) = &mut self.start.lock().attempted {
            attempted.insert(plugin.clone());
        }
    }

    /// Reports whether startup is over: each of these Plugins was reconciled and no work is in
    /// flight, or a minute has passed. Once true, it stays true.
    pub fn are_others_loaded(&self, mut plugins: impl Iterator<Item = ObjectKey>) -> bool {
        let busy = self.table.lock().is_busy();
        let mut start = self.start.lock();
        let Some(attempted) = &start.attempted else {
            return true;
        };

        let late = start.began.elapsed() >= LONGEST_WAIT;
        let over = !busy && plugins.all(|plugin| attempted.contains(&plugin));
        if over || late {
            start.attempted = None;
        }

        over || late
    }

    /// Returns the work the host died during.
    pub fn suspects(&self) -> Vec<Entry> {
        self.table.lock().suspects().cloned().collect()
    }

    /// Records a graceful stop.
    pub fn stop(&self) {
        let mut table = self.table.lock();
        table.stop();
        self.write(&table);
    }

    /// Replaces the file. A failure doesn't stop the work and is logged once.
    fn write(&self, table: &Table) {
        let Some(file) = &self.file else { return };
        let written = replace(file, table);
        let mut start = self.start.lock();
        if let (Err(error), false) = (&written, start.unwritable) {
            let file = file.display();
            tracing::warn!(%file, %error, "failed to write the crash journal: a plugin that kills the host is not recorded");
        }
        start.unwritable = written.is_err();
    }

    /// Removes old journals of clusters that this user's hosts no longer serve.
    fn remove_abandoned(&self) {
        let Some(directory) = self.file.as_deref().and_then(Path::parent) else {
            return;
        };
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let age = entry
                .metadata()
                .and_then(|metadata| metadata.modified())
                .ok()
                .and_then(|time| time.elapsed().ok());
            if name.to_string_lossy().starts_with(PREFIX) && age.is_some_and(|age| age > ABANDONED)
            {
                let _removed = fs::remove_file(entry.path());
            }
        }
    }
}

impl InFlight {
    /// Records that the work goes on outside of this process, until [`InFlight::resume`].
    pub fn pause(&self) {
        if self.is_paused.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut table = self.journal.table.lock();
        table.pause(&self.work);
        self.journal.write(&table);
    }

    /// Records that the work comes back into this process, once it may: a suspect waits for another
    /// one of its namespace.
    pub async fn resume(&self) {
        if !self.is_paused.load(Ordering::Acquire) {
            return;
        }
        while !self.journal.note(&self.work) {
            tokio::time::sleep(RESUME_INTERVAL).await;
        }
        self.is_paused.store(false, Ordering::Release);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut table = self.journal.table.lock();
        table.end(&self.work);
        self.journal.write(&table);
    }
}

/// Reads a table. A missing file counts as empty; so does an unreadable one, with a log line.
fn read(file: &Path) -> Table {
    let parsed = || -> io::Result<Table> {
        let size = fs::symlink_metadata(file)?.len();
        if size > MAX_BYTES {
            return Err(io::Error::other(format!("it has {size} bytes")));
        }
        Ok(serde_json::from_slice(&fs::read(file)?)?)
    };
    match parsed() {
        Ok(table) => table,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Table::default(),
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "failed to read the crash journal: starting with an empty one");
            Table::default()
        }
    }
}

/// Replaces a table's file atomically, or removes it if the table is empty.
fn replace(file: &Path, table: &Table) -> io::Result<()> {
    if table.is_empty() {
        return match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }

    let directory = file.parent().unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new()
        .prefix(PREFIX)
        .tempfile_in(directory)?;
    temporary.write_all(&serde_json::to_vec(table)?)?;
    temporary.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(name: &str) -> Work {
        Work::new(Step::Load, "team", name, "sha256:1", "")
    }

    fn begin(journal: &Arc<CrashJournal>, name: &str) -> InFlight {
        journal.begin(work(name)).expect("admitted")
    }

    /// The journal of a host that died while it loaded `bad`.
    fn after_death(place: &Path) -> Arc<CrashJournal> {
        // As after a kill: nothing is dropped.
        std::mem::forget(begin(&CrashJournal::open(Some(place), "uid-1"), "bad"));
        CrashJournal::open(Some(place), "uid-1")
    }

    #[test]
    fn note_survives_death_and_is_erased_at_the_end() {
        let place = tempfile::tempdir().expect("a directory");
        let journal = after_death(place.path());
        drop(begin(&journal, "good"));
        assert_eq!(journal.verdict(&work("bad")), Verdict::Suspect);
        assert_eq!(journal.verdict(&work("good")), Verdict::Ordinary);
        assert_eq!(
            CrashJournal::open(Some(place.path()), "uid-2").suspects(),
            [],
            "another cluster's host"
        );

        drop(begin(&journal, "bad"));
        assert_eq!(
            CrashJournal::open(Some(place.path()), "uid-1").suspects(),
            []
        );
        assert_eq!(
            fs::read_dir(place.path()).expect("a directory").count(),
            0,
            "no entry, no file"
        );
    }

    #[test]
    fn damaged_file_blames_nobody() {
        let place = tempfile::tempdir().expect("a directory");
        fs::write(
            place.path().join("crash-journal-a.json"),
            b"{\"entries\":[{\"st",
        )
        .expect("written");
        assert_eq!(CrashJournal::open(Some(place.path()), "a").suspects(), []);
        assert_eq!(CrashJournal::open(None, "a").suspects(), []);
    }

    #[test]
    fn suspects_hold_up_only_those_of_their_namespace() {
        let place = tempfile::tempdir().expect("a directory");
        let suspects = ["one", "two"];
        let other = Work::new(Step::Load, "other", "bad", "sha256:1", "");
        let journal = CrashJournal::open(Some(place.path()), "uid-1");
        // As after a kill: nothing is dropped.
        for name in suspects {
            std::mem::forget(begin(&journal, name));
        }
        std::mem::forget(journal.begin(other.clone()));
        let journal = CrashJournal::open(Some(place.path()), "uid-1");

        let one = begin(&journal, "one");
        assert!(journal.begin(work("two")).is_none(), "one at a time");
        let _ordinary = begin(&journal, "good");
        let _other = journal.begin(other).expect("of another namespace");
        drop(one);
        drop(begin(&journal, "two"));
    }

    #[tokio::test(start_paused = true)]
    async fn suspects_hold_up_nobody_while_a_worker_compiles_them() {
        let place = tempfile::tempdir().expect("a directory");
        let journal = CrashJournal::open(Some(place.path()), "uid-1");
        // As after a kill: nothing is dropped.
        for name in ["one", "two"] {
            std::mem::forget(begin(&journal, name));
        }
        let journal = CrashJournal::open(Some(place.path()), "uid-1");

        let one = begin(&journal, "one");
        one.resume().await;
        one.pause();
        let two = begin(&journal, "two");
        let comes_back = tokio::time::timeout(5 * RESUME_INTERVAL, one.resume()).await;
        assert!(comes_back.is_err(), "the other suspect is in flight");
        two.pause();
        one.resume().await;
        assert!(journal.begin(work("two")).is_none(), "one at a time again");

        std::mem::forget((one, two));
        let deaths = |name: &str| {
            let journal = CrashJournal::open(Some(place.path()), "uid-1");
            let suspects = journal.suspects();
            let of_name = suspects.iter().find(|entry| entry.work.name == name);
            of_name.map(|entry| entry.deaths)
        };
        assert_eq!((deaths("one"), deaths("two")), (Some(2), Some(1)));
    }

    #[test]
    fn suspects_wait_for_the_first_round_of_others() {
        let place = tempfile::tempdir().expect("a directory");
        let journal = after_death(place.path());
        let keys = || {
            ["a", "b"]
                .map(|name| ObjectKey::namespaced("team", name))
                .into_iter()
        };
        assert!(!journal.are_others_loaded(keys()));

        keys().for_each(|key| journal.record_attempt(&key));
        let busy = begin(&journal, "a");
        assert!(
            !journal.are_others_loaded(keys()),
            "one is still being loaded"
        );

        drop(busy);
        assert!(journal.are_others_loaded(keys()));
        assert!(
            journal.are_others_loaded([ObjectKey::namespaced("team", "new")].into_iter()),
            "the start is over"
        );
    }
}

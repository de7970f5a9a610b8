//! An overlay of the host's own writes: what their answers tell about objects until the watch has
//! caught up, so that no reconciler acts on a cache without its own writes.
//!
//! The rules, in terms of resourceVersions, which are ordered across all objects of a resource:
//!
//! - **Reads are not older than answered writes.** Once a write is answered, a read shows the
//!   object as the write left it, or later. Sometimes the answer does not show the object: for
//!   `scale`, an eviction, the deletion of a collection, a write in another version of the API, or
//!   a write without an answer. A read is then [`Sight::Unknown`] until the watch has brought the
//!   change, or until the API server was asked again ([`Overlay::asked`]).
//! - **Writes without names.** Sometimes not even the objects are known: after a deleted collection
//!   whose answer names none, or a create with `generateName` without an answer. The author's next
//!   read then takes a list of the namespace's metadata ([`Overlay::listed`]). Until the watch has
//!   reached its resourceVersion R, that list decides for the whole namespace: what it has is shown
//!   in that state or a later one, and what it doesn't have isn't shown in any state up to R.
//! - **Incarnations are ordered.** Objects of one name follow each other. Once an incarnation is
//!   deleted, neither it nor an earlier one is shown again, whatever the watch still has to send. A
//!   later one is recognized by a higher resourceVersion than any of the deleted one.
//! - **Nothing stays.** A watch sends the events of one resource in the order of their
//!   resourceVersions, so an entry of resourceVersion R ends with the first event of R or later. If
//!   the watch has overtaken an answer, the answer makes no entry.
//!
//! Readers read the overlay first and the store second: an entry is removed only once the store has
//! its object.
//!
//! A list shows no object created and deleted before it. If the host created such an object while
//! the watch was interrupted, only the overlay knows of it; the informer then reports its deletion.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use operetta_core::object::{Object, ObjectKey};
use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as Turn, Notify},
    time::Instant,
};

use crate::store::{Entry as Stored, Lookup, Store, key};

/// How long an entry lives if the watch may never show its end: the object left the view of a
/// selecting informer earlier, or the write turned out to change nothing.
const UNCONFIRMED_AGE: Duration = Duration::from_secs(300);

/// How many of the watch's deletions are remembered. An answer is rarely later than that; if it is,
/// the next read of a new object of this name asks the API server.
const SEEN_DELETIONS: usize = 1_024;

/// What the host knows of an object beyond the store.
#[derive(Clone, Debug)]
enum Known {
    /// The object as stored by the API server.
    Present(Arc<Object>),
    /// There was no such object at this resourceVersion.
    Absent { at: u64 },
    /// The incarnation with this uid was deleted, at a resourceVersion missing from the answer.
    Deleted {
        /// Empty if the API server named none.
        uid: String,
        existed: Existed,
    },
    /// A write has changed the object, or may have, and the answer does not show how.
    Changed(Until),
}

/// What we know about when a deleted incarnation existed.
#[derive(Clone, Copy, Debug)]
enum Existed {
    /// It existed at this resourceVersion, so another incarnation with a higher one is later.
    At(u64),
    /// The watch had reached this resourceVersion without bringing the deletion, so everything up
    /// to it is earlier.
    After(u64),
}

/// When the watch has caught up with a change not shown by any answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// Once it has reached this resourceVersion.
    Reached(u64),
    /// Once it has shown this incarnation being deleted, or gone, after this state.
    Left {
        /// The object's uid.
        uid: String,
        /// The resourceVersion before the change.
        revision: u64,
    },
    /// No way to tell: the API server has to be asked.
    Asked {
        /// False if the write may not have reached the API server.
        certain: bool,
    },
}

/// What a read of one key shows.
#[derive(Clone, Debug)]
pub enum Sight {
    /// What the store has, if anything.
    Stored,
    /// This object instead.
    Written(Arc<Object>),
    /// No object, whatever the store has.
    Nothing,
    /// The object has changed, and neither the watch nor an answer shows how.
    Unknown,
}

/// What a watch event shows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It exists.
    There,
    /// It exists, but is being deleted.
    Deleting,
    /// It is deleted, or has left the informer's view.
    Gone,
}

impl Seen {
    /// What an added or changed object shows.
    pub fn of(object: &Object) -> Self {
        if object.deleting() {
            Self::Deleting
        } else {
            Self::There
        }
    }
}

/// One version of an object: its uid tells incarnations apart, its revision orders them.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a> {
    uid: &'a str,
    revision: u64,
}

impl<'a> Version<'a> {
    pub(super) fn of(object: &'a Object) -> Self {
        Self {
            uid: object.uid(),
            revision: object.revision().unwrap_or_default(),
        }
    }

    /// Returns the version of an entry of the store.
    pub(super) fn of_stored(entry: &'a Stored) -> Self {
        let metadata = entry.metadata();
        Self {
            uid: metadata.uid(),
            revision: metadata.revision().unwrap_or_default(),
        }
    }
}

/// A plugin, or the host itself, as the author of own writes. Only its own reads wait when nobody
/// knows what they did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author(u64);

impl Author {
    /// Returns an author different from all others of this process.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What the host's writes did to one key.
#[derive(Clone, Debug)]
pub struct OwnWrite {
    known: Known,
    /// An object written by the host, if the watch may never have seen it.
    unseen: Option<Arc<Object>>,
    since: Instant,
    authors: Vec<Author>,
}

impl OwnWrite {
    /// Whether a plugin, or the host, is an author of these writes.
    pub fn is_by(&self, author: Author) -> bool {
        self.authors.contains(&author)
    }

    /// Whether the watch will show what became of the object. It doesn't end an entry that waits
    /// for the API server's word, whatever event it brings.
    pub fn is_shown_by_watch(&self) -> bool {
        !matches!(self.known, Known::Changed(Until::Asked { .. }))
    }

    /// What a read shows if the store has this version of the object.
    pub fn sight(&self, stored: Option<Version<'_>>) -> Sight {
        match (&self.known, stored) {
            (Known::Present(object), Some(stored))
                if stored.revision >= Version::of(object).revision =>
            {
                Sight::Stored
            }
            (Known::Present(object), _) => Sight::Written(object.clone()),
            (Known::Absent { .. } | Known::Deleted { .. }, None) => Sight::Nothing,
            (Known::Absent { at }, Some(stored)) if stored.revision > *at => Sight::Stored,
            (Known::Absent { .. }, Some(_)) => Sight::Nothing,
            (Known::Deleted { uid, existed }, Some(stored)) => match existed {
                _ if stored.uid == uid => Sight::Nothing,
                Existed::At(revision) if stored.revision > *revision => Sight::Stored,
                Existed::After(revision) if stored.revision > *revision => Sight::Unknown,
                _ => Sight::Nothing,
            },
            (Known::Changed(_), _) => Sight::Unknown,
        }
    }
}

/// A write to objects that neither the request nor the answer names.
struct Collection {
    /// Where the objects are; None for all namespaces, and for cluster-scoped objects.
    namespace: Option<String>,
    /// False if the write may not have reached the API server.
    certain: bool,
    since: Instant,
    author: Author,
    /// Taken by the read that lists the namespace: one list is enough for all reads that wait.
    turn: Arc<Turn<()>>,
}

/// What a list says of a namespace, or of all, until the watch has reached its resourceVersion.
#[derive(Debug)]
struct Listed {
    namespace: Option<String>,
    began: Instant,
    /// How far the watch was when the list was compared with the store.
    from: u64,
    /// The list's resourceVersion.
    at: u64,
    /// The listed objects that the watch was still to bring.
    later: HashSet<ObjectKey>,
}

impl Listed {
    /// Whether an object in this state is gone according to the list. States up to `from` were
    /// compared with it, and so were listed objects: if they differ, the key has an entry.
    fn hides(&self, namespace: Option<&str>, name: &str, revision: u64) -> bool {
        let is_concerned = self.namespace.is_none() || self.namespace.as_deref() == namespace;
        if !is_concerned || revision <= self.from || revision > self.at {
            return false;
        }

        let key = ObjectKey {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        };
        !self.later.contains(&key)
    }
}

/// The lists that the watch has not caught up with.
#[derive(Clone, Debug, Default)]
pub struct Lists(Vec<Arc<Listed>>);

impl Lists {
    /// Whether the watch has caught up with all lists.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object in this state is hidden, because it is gone according to a later list.
    pub fn hide(&self, namespace: Option<&str>, name: &str, revision: u64) -> bool {
        let mut lists = self.0.iter();
        lists.any(|list| list.hides(namespace, name, revision))
    }
}

/// The writes not yet received by a store's watch.
#[derive(Default)]
pub struct Overlay {
    entries: Mutex<Entries>,
    /// Number of entries, collections and lists. Most reads find 0 here and go on without locking.
    len: AtomicUsize,
    /// Notified when entries end.
    caught_up: Notify,
    /// Whether the informer selects objects. An object leaving its view then looks deleted to the
    /// watch, and may come back.
    selects: bool,
}

#[derive(Default)]
struct Entries {
    by_key: BTreeMap<ObjectKey, OwnWrite>,
    /// Entries that end once the watch has reached a resourceVersion, sorted by it.
    ends: BTreeSet<(u64, ObjectKey)>,
    /// Writes whose objects are yet to be found by a list; at most one of an author and namespace.
    collections: Vec<Collection>,
    lists: Lists,
    /// The watch's last deletions: hashes of the uids, and when they came.
    seen_deletions: VecDeque<(u64, Instant)>,
    /// Since when no deletion is missing above. Deletions before a list are not shown by it.
    complete_since: Option<Instant>,
    hasher: RandomState,
}

impl Entries {
    fn put(&mut self, key: &ObjectKey, known: Known, author: Option<Author>) {
        let mut unseen = None;
        let mut authors = Vec::new();
        if let Some(before) = self.remove(key) {
            unseen = match before.known {
                Known::Present(object) => Some(object),
                _ => before.unseen,
            };
            authors = before.authors;
        }
        if let Some(author) = author.filter(|author| !authors.contains(author)) {
            authors.push(author);
        }

        if let Some(end) = known.end() {
            self.ends.insert((end, key.clone()));
        }
        self.by_key.insert(
            key.clone(),
            OwnWrite {
                known,
                unseen,
                since: Instant::now(),
                authors,
            },
        );
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<OwnWrite> {
        let removed = self.by_key.remove(key)?;
        if let Some(end) = removed.known.end() {
            self.ends.remove(&(end, key.clone()));
        }
        Some(removed)
    }

    /// Removes entries that are over once the watch has reached a resourceVersion.
    fn reached(&mut self, revision: u64) {
        while let Some((end, key)) = self.ends.pop_first() {
            if end > revision {
                self.ends.insert((end, key));
                break;
            }
            self.by_key.remove(&key);
        }
        self.lists.0.retain(|list| list.at > revision);
    }

    fn len(&self) -> usize {
        self.by_key.len() + self.collections.len() + self.lists.0.len()
    }

    /// Compares what is known of a key with a list of resourceVersion `at`, which has it with the
    /// resourceVersion `listed`. The list began at `began`, and the watch has reached `from`.
    fn compare(
        &mut self,
        key: &ObjectKey,
        listed: Option<u64>,
        (began, from, at): (Instant, u64, u64),
        author: Author,
    ) {
        let is_past = self.by_key.get(key).is_none_or(|own| match &own.known {
            Known::Present(object) => {
                let revision = Version::of(object).revision;
                revision <= at && listed.is_none_or(|listed| listed > revision)
            }
            Known::Absent { at: revision } | Known::Changed(Until::Reached(revision)) => {
                *revision <= at
            }
            Known::Deleted { .. } | Known::Changed(_) => own.since <= began,
        });
        // A write that was answered while the list was under way comes before it or after it.
        let is_either = !is_past
            && matches!(
                self.known(key),
                Some(Known::Deleted { .. } | Known::Changed(Until::Left { .. }))
            );

        let known = match listed {
            _ if is_either => Known::Changed(Until::Asked { certain: true }),
            _ if !is_past => return,
            // The store has it in this state.
            Some(revision) if revision <= from => {
                self.remove(key);
                return;
            }
            Some(revision) => Known::Changed(Until::Reached(revision)),
            None => Known::Absent { at },
        };
        self.put(key, known, Some(author));
    }

    fn known(&self, key: &ObjectKey) -> Option<&Known> {
        self.by_key.get(key).map(|entry| &entry.known)
    }

    fn has_seen_deletion(&self, uid: &str) -> bool {
        let hash = self.hasher.hash_one(uid);
        let mut seen = self.seen_deletions.iter();
        !uid.is_empty() && seen.any(|(seen, _)| *seen == hash)
    }
}

impl Overlay {
    /// Creates the overlay of an informer, which may select objects.
    pub fn of(selects: bool) -> Self {
        Self {
            selects,
            ..Self::default()
        }
    }

    /// Adds the answer to a create, update or patch. `is_in_view` tells whether the informer
    /// selects the object.
    pub fn wrote(&self, object: Arc<Object>, is_in_view: bool, author: Author, store: &Store) {
        let Some(revision) = object.revision() else {
            return;
        };

        self.change(|entries| {
            let key = object.key().clone();
            let is_past = entries
                .lists
                .hide(key.namespace.as_deref(), &key.name, revision);
            if is_past || store.revision() >= revision {
                return;
            }

            let stored = if is_in_view {
                Known::Present(object.clone())
            } else {
                Known::Absent { at: revision }
            };
            let known = match entries.known(&key) {
                None => stored,
                Some(Known::Present(kept)) if kept.revision() < Some(revision) => stored,
                Some(Known::Absent { at }) if *at < revision => stored,
                Some(Known::Deleted { uid, existed }) if *uid != object.uid() => match existed {
                    Existed::At(existed) if *existed < revision => stored,
                    // The answer may belong to an earlier incarnation or to a later one.
                    Existed::After(floor) if *floor < revision => {
                        Known::Changed(Until::Asked { certain: true })
                    }
                    _ => return,
                },
                Some(Known::Changed(Until::Reached(changed))) if *changed <= revision => stored,
                Some(Known::Changed(Until::Left {
                    uid,
                    revision: left,
                })) if *left < revision => {
                    if uid == object.uid() {
                        // The change may come before this write or after it.
                        Known::Changed(Until::Asked { certain: true })
                    } else {
                        stored
                    }
                }
                // The API server's answer to a question already asked may not include this write.
                Some(Known::Changed(until)) => Known::Changed(until.clone()),
                Some(_) => return,
            };
            entries.put(&key, known, Some(author));
        });
    }

    /// Adds the deletion of an object, requested at `sent`. `uid` is empty if the API server named
    /// none; `existed` is a resourceVersion of this incarnation, if the answer has one.
    pub fn deleted(
        &self,
        key: &ObjectKey,
        uid: &str,
        existed: Option<u64>,
        sent: Instant,
        author: Author,
        store: &Store,
    ) {
        self.change(|entries| {
            if !self.selects && entries.has_seen_deletion(uid) {
                return;
            }

            let stored = store.snapshot(|stored| {
                let version = stored.get(key).map(Version::of_stored)?;
                Some((version.uid.to_owned(), version.revision))
            });
            let is_it = |other: &str| uid.is_empty() || uid == other;

            // The last known state of this incarnation.
            let mut last = existed;
            let mut name = uid;
            if let Some((stored_uid, revision)) = &stored
                && is_it(stored_uid)
            {
                name = stored_uid;
                last = last.max(Some(*revision));
            }
            let known = entries.known(key).cloned();
            match &known {
                Some(Known::Present(object)) if is_it(object.uid()) => {
                    name = object.uid();
                    last = last.max(object.revision());
                }
                Some(
                    Known::Deleted {
                        uid: other,
                        existed: Existed::At(at),
                    }
                    | Known::Changed(Until::Left {
                        uid: other,
                        revision: at,
                    }),
                ) if is_it(other) => {
                    name = other;
                    last = last.max(Some(*at));
                }
                _ => {}
            }

            // Whether this deletion comes after everything known so far.
            let mut floor = store.revision();
            let is_last = match &known {
                None => true,
                Some(Known::Present(object)) => object.uid() == name || last > object.revision(),
                Some(Known::Absent { at }) => {
                    if !self.selects && last.is_some_and(|last| last <= *at) {
                        return;
                    }
                    // An object may have been deleted some time after leaving the view.
                    last = last.map(|last| last.max(*at));
                    last.is_some()
                }
                Some(Known::Deleted {
                    uid: other,
                    existed,
                }) if other == name => {
                    if let Existed::After(at) = existed {
                        floor = floor.max(*at);
                    }
                    true
                }
                Some(Known::Deleted { existed, .. }) => match (existed, last) {
                    (Existed::At(at), Some(last)) if last <= *at => return,
                    (Existed::At(_), Some(_)) => true,
                    _ => false,
                },
                Some(Known::Changed(Until::Left {
                    uid: other,
                    revision,
                })) => other == name || last > Some(*revision),
                Some(Known::Changed(Until::Reached(revision))) => last > Some(*revision),
                Some(Known::Changed(Until::Asked { .. })) => false,
            };

            // The watch would have brought this deletion before a later incarnation.
            let would_have_seen =
                !self.selects && entries.complete_since.is_none_or(|since| since <= sent);
            let is_last = is_last
                && match &stored {
                    Some((stored_uid, revision)) if stored_uid != name => match last {
                        Some(last) if *revision > last => return,
                        Some(_) => true,
                        None => would_have_seen,
                    },
                    _ => true,
                };

            let known = if is_last {
                Known::Deleted {
                    uid: name.to_owned(),
                    existed: last.map_or(Existed::After(floor), Existed::At),
                }
            } else {
                Known::Changed(Until::Asked { certain: true })
            };
            entries.put(key, known, Some(author));
        });
    }

    /// Adds a change not shown by any answer.
    pub fn changed(&self, key: &ObjectKey, until: Until, author: Author, store: &Store) {
        self.change(|entries| {
            let has_caught_up = match &until {
                Until::Reached(revision) => store.revision() >= *revision,
                Until::Left { uid, revision } => {
                    (!self.selects && entries.has_seen_deletion(uid))
                        || store.get(key).is_some_and(|stored| {
                            let is_gone = stored.uid() != uid || stored.deleting();
                            is_gone && stored.revision() > Some(*revision)
                        })
                }
                Until::Asked { .. } => false,
            };
            if has_caught_up {
                return;
            }

            let known = match (entries.known(key), until) {
                (None, until) => until,
                (Some(Known::Present(object)), Until::Reached(revision)) => {
                    if object.revision() >= Some(revision) {
                        return;
                    }
                    Until::Reached(revision)
                }
                (Some(Known::Absent { at }), Until::Reached(revision)) => {
                    if *at >= revision {
                        return;
                    }
                    Until::Reached(revision)
                }
                (Some(Known::Changed(Until::Reached(other))), Until::Reached(revision)) => {
                    Until::Reached(revision.max(*other))
                }
                (Some(Known::Deleted { uid: gone, .. }), Until::Left { uid, .. })
                    if *gone == uid =>
                {
                    return;
                }
                // An uncertain write may come after a certain one, and that one must be shown.
                (Some(before), Until::Asked { certain: false }) => Until::Asked {
                    certain: !matches!(before, Known::Changed(Until::Asked { certain: false })),
                },
                (Some(_), _) => Until::Asked { certain: true },
            };
            entries.put(key, Known::Changed(known), Some(author));
        });
    }

    /// Adds what the API server answered when asked for an object: at resourceVersion `at` it had
    /// this state, or was not in the informer's view. The request began at `began`.
    pub fn asked(
        &self,
        key: &ObjectKey,
        began: Instant,
        at: u64,
        object: Option<Arc<Object>>,
        store: &Store,
    ) {
        self.change(|entries| {
            let is_answered = entries
                .by_key
                .get(key)
                .is_some_and(|entry| entry.since <= began);
            if !is_answered {
                return;
            }

            let revision = object.as_ref().map_or(Some(at), |object| object.revision());
            if revision.is_none_or(|revision| store.revision() >= revision) {
                entries.remove(key);
            } else {
                let known = object.map_or(Known::Absent { at }, Known::Present);
                entries.put(key, known, None);
            }
        });
        self.caught_up.notify_waiters();
    }

    /// Adds a write to objects of a namespace, or of all, that neither the request nor the answer
    /// names. It is not `certain` if it may not have reached the API server.
    pub fn changed_some(&self, namespace: Option<&str>, certain: bool, author: Author) {
        self.change(|entries| {
            let mut collections = entries.collections.iter_mut();
            let same = collections.find(|collection| {
                collection.author == author && collection.namespace.as_deref() == namespace
            });
            match same {
                Some(collection) => {
                    collection.certain |= certain;
                    collection.since = Instant::now();
                }
                None => entries.collections.push(Collection {
                    namespace: namespace.map(str::to_owned),
                    certain,
                    since: Instant::now(),
                    author,
                    turn: Arc::default(),
                }),
            }
        });
    }

    /// The namespaces of the author's writes without names that a read of a namespace, or of all,
    /// may concern. None stands for all namespaces.
    pub fn unlisted(&self, author: Author, namespace: Option<&str>) -> Vec<Option<String>> {
        if self.is_empty() {
            return Vec::new();
        }
        let entries = self.entries.lock();
        let concerned = entries.collections.iter().filter(|collection| {
            collection.author == author
                && (namespace.is_none()
                    || collection.namespace.is_none()
                    || collection.namespace.as_deref() == namespace)
        });
        concerned
            .map(|collection| collection.namespace.clone())
            .collect()
    }

    /// Whose turn it is to list a namespace of [`Self::unlisted`]; None if nobody needs to any more.
    pub fn turn(&self, author: Author, namespace: Option<&str>) -> Option<Arc<Turn<()>>> {
        let entries = self.entries.lock();
        let mut collections = entries.collections.iter();
        let same = collections.find(|collection| {
            collection.author == author && collection.namespace.as_deref() == namespace
        });
        same.map(|collection| collection.turn.clone())
    }

    /// Adds a list of a namespace, or of all, for the author of writes without names: at
    /// resourceVersion `at`, the informer's view had these objects with these resourceVersions. The
    /// list began at `began`.
    pub fn listed(
        &self,
        author: Author,
        namespace: Option<&str>,
        began: Instant,
        at: u64,
        objects: &BTreeMap<ObjectKey, u64>,
        store: &Store,
    ) {
        // Sort the keys before readers and the watch have to wait for the locks.
        store.keep_order();
        self.change(|entries| {
            entries.collections.retain(|collection| {
                collection.author != author
                    || collection.namespace.as_deref() != namespace
                    || collection.since > began
            });

            let (from, mut keys) = store.snapshot(|stored| {
                let walked = stored.walk(&Lookup::All, namespace, None);
                let keys = walked.map(|entry| key(&entry.metadata()));
                let unlisted = keys.filter(|key| !objects.contains_key(key));
                (stored.revision(), unlisted.collect::<BTreeSet<ObjectKey>>())
            });
            if from >= at {
                return;
            }

            let written = entries.by_key.keys();
            let concerned =
                written.filter(|key| namespace.is_none() || key.namespace.as_deref() == namespace);
            keys.extend(concerned.cloned());
            let later = objects.iter().filter(|(_, revision)| **revision > from);
            let later: HashSet<ObjectKey> = later.map(|(key, _)| key.clone()).collect();
            keys.extend(later.iter().cloned());
            for key in keys {
                let listed = objects.get(&key).copied();
                entries.compare(&key, listed, (began, from, at), author);
            }

            entries.lists.0.push(Arc::new(Listed {
                namespace: namespace.map(str::to_owned),
                began,
                from,
                at,
                later,
            }));
        });
        self.caught_up.notify_waiters();
    }

    /// Drops a write without names that may not have reached the API server, if the API server
    /// cannot be asked about it. Reports whether there is no other.
    pub fn gave_up_listing(&self, author: Author, namespace: Option<&str>) -> bool {
        let mut gave_up = true;
        self.change(|entries| {
            entries.collections.retain(|collection| {
                let is_it =
                    collection.author == author && collection.namespace.as_deref() == namespace;
                gave_up &= !(is_it && collection.certain);
                !is_it || collection.certain
            });
        });
        gave_up
    }

    /// Drops the entry of a write that may not have reached the API server, if the API server
    /// cannot be asked about it. Reports whether the key had no other.
    pub fn gave_up(&self, key: &ObjectKey) -> bool {
        let mut gave_up = false;
        self.change(|entries| {
            gave_up = match entries.known(key) {
                Some(Known::Changed(Until::Asked { certain })) => !certain,
                Some(_) => false,
                None => true,
            };
            if gave_up {
                entries.remove(key);
            }
        });
        gave_up
    }

    /// Removes the entries with which the watch has caught up by an event. The event is already in
    /// the store.
    pub fn watched(&self, key: &ObjectKey, uid: &str, revision: u64, seen: Seen) {
        if self.is_empty() && seen != Seen::Gone {
            return;
        }

        self.change(|entries| {
            if seen == Seen::Gone {
                if entries.seen_deletions.len() == SEEN_DELETIONS {
                    let forgotten = entries.seen_deletions.pop_front();
                    entries.complete_since = forgotten.map(|(_, at)| at);
                }
                let hash = entries.hasher.hash_one(uid);
                entries.seen_deletions.push_back((hash, Instant::now()));
            }
            let known = entries.known(key);
            // An object leaving a selecting informer's view looks gone as well.
            let is_deleted = seen == Seen::Gone && !self.selects;
            let is_shown = known.is_some_and(|known| match known {
                Known::Deleted { uid: gone, existed } if gone != uid => {
                    matches!(existed, Existed::At(at) if revision > *at)
                }
                Known::Deleted { .. } => is_deleted,
                Known::Changed(Until::Left {
                    uid: left,
                    revision: before,
                }) => {
                    let is_left = left != uid || is_deleted || seen == Seen::Deleting;
                    is_left && revision > *before
                }
                _ => false,
            });
            if is_shown {
                entries.remove(key);
            }
            entries.reached(revision);
        });
        self.caught_up.notify_waiters();
    }

    /// Removes entries after the watch has received everything up to this resourceVersion.
    pub fn passed(&self, revision: u64) {
        if self.is_empty() {
            return;
        }
        self.change(|entries| {
            entries.reached(revision);
            let is_old = |own: &OwnWrite| own.since.elapsed() >= UNCONFIRMED_AGE;
            entries
                .by_key
                .retain(|_, own| own.known.end().is_some() || !is_old(own));
            entries
                .collections
                .retain(|collection| collection.since.elapsed() < UNCONFIRMED_AGE);
        });
        self.caught_up.notify_waiters();
    }

    /// Removes entries after a list of this resourceVersion, started at `began`, once its objects
    /// are in the store. It contains every write answered before it began. Returns the objects of
    /// the removed entries missing from the list, in the order of keys.
    pub fn relisted(&self, began: Instant, revision: u64, store: &Store) -> Vec<Arc<Object>> {
        let mut gone = Vec::new();
        self.change(|entries| {
            entries.complete_since = Some(Instant::now());
            entries
                .collections
                .retain(|collection| collection.since >= began);
            let is_later = |list: &Arc<Listed>| list.began >= began && list.at > revision;
            entries.lists.0.retain(is_later);
            let ends = &mut entries.ends;
            entries.by_key.retain(|key, own| {
                let end = own.known.end();
                if own.since >= began && end.is_none_or(|end| end > revision) {
                    return true;
                }

                if let Some(end) = end {
                    ends.remove(&(end, key.clone()));
                }
                let object = match &own.known {
                    Known::Present(object) => Some(object),
                    _ => own.unseen.as_ref(),
                };
                gone.extend(object.filter(|object| !store.has(object)).cloned());
                false
            });
        });
        self.caught_up.notify_waiters();

        gone
    }

    /// What is known of a key beyond the store.
    pub fn get(&self, key: &ObjectKey) -> Option<OwnWrite> {
        if self.is_empty() {
            return None;
        }
        self.entries.lock().by_key.get(key).cloned()
    }

    /// All entries, in the order of keys.
    pub fn snapshot(&self) -> Vec<(ObjectKey, OwnWrite)> {
        if self.is_empty() {
            return Vec::new();
        }
        let entries = self.entries.lock();
        entries
            .by_key
            .iter()
            .map(|(key, own)| (key.clone(), own.clone()))
            .collect()
    }

    /// The lists that the watch has not caught up with.
    pub fn lists(&self) -> Lists {
        if self.is_empty() {
            return Lists::default();
        }
        self.entries.lock().lists.clone()
    }

    /// Whether the watch has received all writes.
    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// Waits until entries end.
    pub fn caught_up(&self) -> impl Future<Output = ()> + '_ {
        self.caught_up.notified()
    }

    fn change(&self, change: impl FnOnce(&mut Entries)) {
        let mut entries = self.entries.lock();
        // Pretend there is one more entry, so that an event reaching the store while `change` runs
        // waits for the lock, and then removes what it has overtaken.
        self.len.store(entries.len() + 1, Ordering::Release);
        change(&mut entries);
        self.len.store(entries.len(), Ordering::Release);
    }
}

impl Known {
    /// The resourceVersion at which the watch has caught up; None if none is known.
    fn end(&self) -> Option<u64> {
        match self {
            Self::Present(object) => Some(Version::of(object).revision),
            Self::Absent { at: revision } | Self::Changed(Until::Reached(revision)) => {
                Some(*revision)
            }
            Self::Deleted { .. } | Self::Changed(Until::Left { .. } | Until::Asked { .. }) => None,
        }
    }
}

//! Watches that an informer serves as the API server's watch cache does ([`cacher.go`]), for
//! processes. docs/decisions/0049-a-watch-cache-for-processes.md says what is served.
//!
//! A [`Window`] keeps the informer's last changes, so that a watch can begin at the
//! resourceVersion of an earlier list. It is changed under the informer's dispatch lock, together
//! with the store, so each watcher gets each change once:
//!
//! - a watcher gets the changes after its resourceVersion, in their order, as far as they concern
//!   its selectors: an object that begins to match is ADDED, and one that no longer matches is
//!   DELETED, with its last matching state and the resourceVersion of the change;
//! - a watch that the window does not reach back to is not served;
//! - if the informer may have missed a change, or has learned of one only by a list, all watchers
//!   end. A watcher that falls behind ends as well. Clients go on where they were.
//!
//! [`cacher.go`]: https://github.com/kubernetes/apiserver/blob/v0.36.2/pkg/storage/cacher/cacher.go

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll},
};

use futures::task::AtomicWaker;
use operetta_core::object::{
    Object,
    selector::{LabelSelector, MetadataFieldSelector},
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::Informer;
use crate::store::{Entry, Lookup};

/// How many changes are kept, and how many bytes their objects may have.
const KEPT: (usize, usize) = (1_024, 4 << 20);

/// How many changes a watcher may leave waiting, and how many bytes their objects may have. The
/// objects are those of the store and of the window, unless they change at a high rate.
const WAITING: (usize, usize) = (1_000, 256 << 10);

/// How much is charged for a watcher, in bytes.
pub(crate) const WATCHER_BYTES: u64 = WAITING.1 as u64;

/// Which objects a watcher sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// The namespace; None for all.
    pub namespace: Option<String>,
    pub labels: LabelSelector,
    pub fields: MetadataFieldSelector,
}

/// What a watcher gets.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// The state of an object that begins to match.
    Added(Arc<Object>),
    /// The new state of an object that matched before.
    Modified(Arc<Object>),
    /// The last state of an object that matched before.
    Deleted {
        object: Arc<Object>,
        /// The resourceVersion of the change, which the object may not have.
        revision: u64,
    },
    /// Nothing up to this resourceVersion is missing.
    Bookmark(u64),
}

/// The last changes, and who watches.
pub(super) struct Window {
    changes: VecDeque<Change>,
    bytes: usize,
    /// The window has all changes after this resourceVersion; None before the first list.
    after: Option<u64>,
    watchers: Vec<Arc<Watcher>>,
    /// Up to which resourceVersion the store is complete.
    reached: watch::Sender<u64>,
}

/// A change of one object.
#[derive(Clone)]
struct Change {
    revision: u64,
    /// The state before, or at the deletion; None for a new object.
    old: Option<Arc<Object>>,
    /// The state after; None for a deletion.
    new: Option<Arc<Object>>,
}

struct Watcher {
    selection: Selection,
    bookmarks: bool,
    waiting: Mutex<Waiting>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Waiting {
    told: VecDeque<Told>,
    bytes: usize,
    has_ended: bool,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With the objects that there are, as additions.
    Objects,
    /// With the changes after this resourceVersion.
    After(u64),
}

/// A watch. Dropping it ends it.
pub(crate) struct Watch {
    informer: Arc<Informer>,
    watcher: Arc<Watcher>,
    /// The objects to begin with.
    objects: std::vec::IntoIter<Entry>,
    /// The changes to begin with. They are the window's own, and count for nothing.
    changes: std::vec::IntoIter<Told>,
}

impl Selection {
    fn has(&self, object: &Object) -> bool {
        let is_here = self.namespace.is_none()
            || self.namespace.as_deref() == object.key().namespace.as_deref();
        is_here && self.labels.matches(object) && self.fields.matches(object)
    }

    /// What a change is to somebody who sees only the selected objects; None if it is nothing.
    fn told(&self, change: &Change) -> Option<Told> {
        let old = change.old.as_ref().filter(|old| self.has(old));
        let new = change.new.as_ref().filter(|new| self.has(new));
        match (old, new) {
            (None, None) => None,
            (None, Some(new)) => Some(Told::Added(new.clone())),
            (Some(_), Some(new)) => Some(Told::Modified(new.clone())),
            (Some(old), None) => Some(Told::Deleted {
                object: old.clone(),
                revision: change.revision,
            }),
        }
    }
}

impl Change {
    fn bytes(&self) -> usize {
        let states = [&self.old, &self.new].into_iter().flatten();
        states.map(|object| object.json().len()).sum()
    }
}

impl Told {
    fn bytes(&self) -> usize {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted { object, .. } => {
                object.json().len()
            }
            Self::Bookmark(_) => 0,
        }
    }
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            changes: VecDeque::new(),
            bytes: 0,
            after: None,
            watchers: Vec::new(),
            reached: watch::Sender::new(0),
        }
    }

    pub(super) fn watchers(&self) -> usize {
        self.watchers.len()
    }

    /// Takes in a change that the informer's watch has received, with the object's states before
    /// and after.
    pub(super) fn changed(&mut self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let Some(revision) = new.or(old).and_then(|object| object.revision()) else {
            // Nobody could begin a watch behind it.
            return self.begin_anew(None);
        };
        let change = Change {
            revision,
            old: old.cloned(),
            new: new.cloned(),
        };

        self.watchers.retain(|watcher| {
            let told = watcher.selection.told(&change);
            told.is_none_or(|told| watcher.tell(told))
        });

        self.bytes += change.bytes();
        self.changes.push_back(change);
        while self.changes.len() > KEPT.0 || self.bytes > KEPT.1 {
            let Some(oldest) = self.changes.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes();
            self.after = Some(oldest.revision);
        }
        self.reach(revision);
    }

    /// Notes that there is no other change up to this resourceVersion.
    pub(super) fn passed(&mut self, revision: u64) {
        self.watchers
            .retain(|watcher| !watcher.bookmarks || watcher.tell(Told::Bookmark(revision)));
        self.reach(revision);
    }

    /// Ends all watchers: changes up to this resourceVersion may be missing. With None, so may later
    /// ones, until the next list.
    pub(super) fn begin_anew(&mut self, after: Option<u64>) {
        self.changes.clear();
        self.bytes = 0;
        self.after = after;
        for watcher in self.watchers.drain(..) {
            watcher.end();
        }
        if let Some(revision) = after {
            // A list may show an earlier state than the watch before it, if the API server's
            // storage was restored.
            self.reached.send_replace(revision);
        }
    }

    /// Ends all watchers: the informer may not see their objects any more.
    pub(super) fn interrupt(&mut self) {
        let reached = *self.reached.borrow();
        self.begin_anew(self.after.map(|_| reached));
    }

    fn reach(&self, revision: u64) {
        self.reached.send_if_modified(|reached| {
            let is_later = revision > *reached;
            *reached = revision.max(*reached);
            is_later
        });
    }
}

impl Watcher {
    /// Reports whether the watcher goes on.
    fn tell(&self, told: Told) -> bool {
        let mut waiting = self.waiting.lock();
        let bytes = told.bytes();
        // A single object may be larger.
        let has_room = waiting.told.is_empty()
            || (waiting.told.len() < WAITING.0 && waiting.bytes + bytes <= WAITING.1);

        if has_room {
            waiting.bytes += bytes;
            waiting.told.push_back(told);
        } else {
            waiting.has_ended = true;
        }
        drop(waiting);
        self.waker.wake();
        has_room
    }

    fn end(&self) {
        self.waiting.lock().has_ended = true;
        self.waker.wake();
    }
}

impl Informer {
    /// Waits until the store is complete up to this resourceVersion. To cancel, drop the future.
    pub(crate) async fn reached(&self, revision: u64) {
        let reached = {
            let dispatch = self.dispatch.lock();
            let window = dispatch.window.as_ref();
            window.map(|window| window.reached.subscribe())
        };
        match reached {
            // The sender lives in `self`, so it cannot be closed.
            Some(mut reached) => drop(reached.wait_for(|reached| *reached >= revision).await),
            None => std::future::pending().await,
        }
    }

    /// Begins a watch; None if this informer can't serve it, or not exactly.
    pub(crate) fn watch(
        self: &Arc<Self>,
        selection: Selection,
        from: Start,
        bookmarks: bool,
    ) -> Option<Watch> {
        if !self.is_exact() {
            return None;
        }

        let mut dispatch = self.dispatch.lock();
        let window = dispatch.window.as_mut()?;
        let after = window.after?;
        let (mut objects, mut changes) = (Vec::new(), Vec::new());
        match from {
            Start::Objects => {
                objects = self.selected(&selection).1;
            }
            Start::After(revision) => {
                if revision < after || revision > *window.reached.borrow() {
                    return None;
                }
                let later = window.changes.iter();
                let later = later.filter(|change| change.revision > revision);
                changes = later.filter_map(|change| selection.told(change)).collect();
            }
        }

        let watcher = Arc::new(Watcher {
            selection,
            bookmarks,
            waiting: Mutex::default(),
            waker: AtomicWaker::new(),
        });
        window.watchers.push(watcher.clone());
        drop(dispatch);

        Some(Watch {
            informer: self.clone(),
            watcher,
            objects: objects.into_iter(),
            changes: changes.into_iter(),
        })
    }

    /// The selected objects in the order of the API server's keys, and the resourceVersion at which
    /// the store had them. None if this informer can't tell exactly.
    pub(crate) fn snapshot(&self, selection: &Selection) -> Option<(u64, Vec<Entry>)> {
        let has_window = self.dispatch.lock().window.as_ref()?.after.is_some();
        (has_window && self.is_exact()).then(|| self.selected(selection))
    }

    fn selected(&self, selection: &Selection) -> (u64, Vec<Entry>) {
        let (revision, mut found) = self.cache.store.snapshot(|stored| {
            let is_selected = |entry: &&Entry| {
                let metadata = entry.metadata();
                selection.labels.matches(&metadata) && selection.fields.matches(&metadata)
            };
            let namespace = selection.namespace.as_deref();
            let all = stored.walk(&Lookup::All, namespace, None);
            let found: Vec<Entry> = all.filter(is_selected).cloned().collect();
            (stored.revision(), found)
        });

        // Keys are `namespace/name` there, so that `a-b` comes before `a`.
        found.sort_by(|one, other| path(one).cmp(path(other)));
        (revision, found)
    }

    /// Whether the store has all objects, and goes on having them.
    fn is_exact(&self) -> bool {
        let state = self.state.borrow();
        state.synced && state.error.is_none() && self.unreadable.lock().is_empty()
    }
}

fn path(entry: &Entry) -> impl Iterator<Item = u8> + '_ {
    let (namespace, name) = entry.key();
    let namespace = namespace.map(|namespace| namespace.bytes().chain(*b"/"));
    namespace.into_iter().flatten().chain(name.bytes())
}

impl Watch {
    /// Up to which resourceVersion this watch has sent everything; None if something is waiting.
    pub(crate) fn reached(&self) -> Option<u64> {
        let dispatch = self.informer.dispatch.lock();
        let window = dispatch.window.as_ref()?;
        let waiting = self.watcher.waiting.lock();
        let has_all = self.objects.as_slice().is_empty() && waiting.told.is_empty();
        (has_all && !waiting.has_ended).then(|| *window.reached.borrow())
    }

    /// The informer that serves it.
    pub(crate) fn informer(&self) -> &Arc<Informer> {
        &self.informer
    }

    /// The next thing to send; None at the end.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Told>> {
        if let Some(entry) = self.objects.next() {
            let object = self.informer.cache.store.open(&entry);
            return Poll::Ready(Some(Told::Added(object)));
        }
        if let Some(told) = self.changes.next() {
            return Poll::Ready(Some(told));
        }

        // Before looking, so that nothing comes unnoticed in between.
        self.watcher.waker.register(context.waker());
        let mut waiting = self.watcher.waiting.lock();
        match waiting.told.pop_front() {
            Some(told) => {
                waiting.bytes -= told.bytes();
                Poll::Ready(Some(told))
            }
            None if waiting.has_ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut dispatch = self.informer.dispatch.lock();
        if let Some(window) = &mut dispatch.window {
            window
                .watchers
                .retain(|watcher| !Arc::ptr_eq(watcher, &self.watcher));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::object;

    fn watcher(labels: &str, bookmarks: bool) -> Arc<Watcher> {
        Arc::new(Watcher {
            selection: Selection {
                labels: LabelSelector::parse(labels).expect("a selector"),
                ..Selection::default()
            },
            bookmarks,
            waiting: Mutex::default(),
            waker: AtomicWaker::new(),
        })
    }

    /// What waits for a watcher: `+a 3`, `~a 4`, `-a 5`, `b 6`.
    fn waiting(watcher: &Watcher) -> Vec<String> {
        let waiting = watcher.waiting.lock();
        let text = |told: &Told| {
            let (sign, object, revision) = match told {
                Told::Added(object) => ('+', object, object.revision()),
                Told::Modified(object) => ('~', object, object.revision()),
                Told::Deleted { object, revision } => ('-', object, Some(*revision)),
                Told::Bookmark(revision) => return format!("b {revision}"),
            };
            format!(
                "{sign}{} {}",
                object.key().name,
                revision.unwrap_or_default()
            )
        };
        waiting.told.iter().map(text).collect()
    }

    fn has_ended(watcher: &Watcher) -> bool {
        watcher.waiting.lock().has_ended
    }

    /// An object with this value of the label `l`.
    fn labelled(name: &str, revision: u64, value: &str) -> Arc<Object> {
        let kind = operetta_core::object::kind::GroupVersionKind::new("v1", "Pod");
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"{revision}","labels":{{"l":"{value}"}}}}}}"#
        );
        let keep = operetta_core::object::ManagedFields::Keep;
        Arc::new(Object::from_json(&text, &kind, keep).expect("an object"))
    }

    #[test]
    fn watcher_sees_what_its_selector_makes_of_a_change() {
        let mut window = Window::new();
        window.begin_anew(Some(1));
        let selected = watcher("l=x", true);
        window.watchers.push(selected.clone());

        let states = [
            labelled("a", 2, "y"),
            labelled("a", 3, "x"),
            labelled("a", 4, "x"),
            labelled("a", 5, "y"),
            labelled("a", 6, "x"),
        ];
        window.changed(None, Some(&states[0]));
        for pair in states.windows(2) {
            window.changed(Some(&pair[0]), Some(&pair[1]));
        }
        window.passed(9);
        window.changed(Some(&labelled("a", 10, "x")), None);
        assert_eq!(
            waiting(&selected),
            ["+a 3", "~a 4", "-a 5", "+a 6", "b 9", "-a 10"]
        );
        assert_eq!(*window.reached.borrow(), 10);
    }

    #[test]
    fn window_forgets_the_oldest_and_knows_how_far_it_reaches() {
        let mut window = Window::new();
        window.begin_anew(Some(1));
        let kept = KEPT.0 as u64;
        for revision in 2..kept + 5 {
            window.changed(None, Some(&labelled("a", revision, "x")));
        }
        assert_eq!(window.changes.len() as u64, kept);
        assert_eq!(window.after, Some(4), "2 to 4 are forgotten");

        let large = "x".repeat(KEPT.1 / 2);
        for revision in 5_000..5_003 {
            window.changed(None, Some(&labelled("a", revision, &large)));
        }
        assert!(window.bytes <= KEPT.1 && window.changes.len() == 1);
        let counted: usize = window.changes.iter().map(Change::bytes).sum();
        assert_eq!(window.bytes, counted);

        window.begin_anew(Some(6_000));
        assert!(window.changes.is_empty() && window.bytes == 0);
        assert_eq!(window.after, Some(6_000));
    }

    #[test]
    fn watcher_that_takes_nothing_ends_and_others_go_on() {
        let mut window = Window::new();
        window.begin_anew(Some(1));
        let slow = watcher("", false);
        let other = watcher("l=y", false);
        window.watchers.extend([slow.clone(), other.clone()]);

        for revision in 2..1_500 {
            window.changed(None, Some(&labelled("a", revision, "x")));
        }
        assert!(has_ended(&slow) && waiting(&slow).len() <= WAITING.0);
        assert_eq!(window.watchers(), 1);

        window.changed(None, Some(&labelled("b", 2_000, "y")));
        assert_eq!(waiting(&other), ["+b 2000"]);

        // One object that is larger than the limit has room.
        let large = "y".repeat(WAITING.1);
        let third = watcher("", false);
        window.watchers.push(third.clone());
        window.changed(None, Some(&labelled("c", 2_001, &large)));
        assert!(!has_ended(&third));
        window.changed(None, Some(&labelled("d", 2_002, "y")));
        assert!(has_ended(&third) && waiting(&third) == ["+c 2001"]);
    }

    #[test]
    fn list_in_between_ends_all_watchers() {
        let mut window = Window::new();
        window.begin_anew(Some(1));
        let one = watcher("", false);
        window.watchers.push(one.clone());
        window.changed(None, Some(&object("n", "a", 2, "o", "x")));
        window.begin_anew(Some(8));
        assert!(has_ended(&one) && window.watchers() == 0);
        assert_eq!(waiting(&one), ["+a 2"], "it still gets what it was told");

        // The host may not watch any more.
        window.watchers.push(one);
        window.interrupt();
        assert_eq!((window.watchers(), window.after), (0, Some(8)));
    }
}

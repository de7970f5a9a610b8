//! The store of the API server: objects, one revision for all of them, and a window of past changes.
//!
//! A [`Store`] promises what the API server expects of etcd:
//!
//! - **one revision**: each change gets the next revision, which becomes the object's
//!   `resourceVersion`;
//! - **conditional writes**: [`Store::update`] and [`Store::delete`] name the revision that they
//!   replace;
//! - **past lists**: [`Store::list`] answers for any revision in the window, so that the pages of a
//!   list are consistent;
//! - **watches**: a [`Watcher`] sees each change after its revision, once and in order. It reads the
//!   window and has no queue of its own, so a slow watcher costs no memory: it ends with
//!   [`StoreError::Compacted`] once the window has moved past it;
//! - **compaction**: the window holds a bounded number of changes and bytes ([`Window`]), until they
//!   are compacted ([`Store::compact_to`]), and older revisions are refused. A resource that has not
//!   changed since is still answered, because its answer is exact.
//!
//! Objects are stored as compact JSON without `kind`, `apiVersion` and `resourceVersion`. The server
//! writes these in front of the stored bytes ([`StoredObject::write_json`]), so one copy serves all
//! versions of the API, lists and watch events.
//!
//! A store can write each change to a file before acknowledging it ([`Store::open`]). Reads share a
//! lock, writes are exclusive.
//!
//! ```
//! use operetta_apiserver::store::{Draft, GroupResource, ObjectKey, Store, Window};
//!
//! let store = Store::new(Window::default());
//! let configmaps = GroupResource::new("", "configmaps");
//! let draft = Draft::from_metadata_and_rest(&serde_json::json!({"name": "a", "uid": "1"}), &serde_json::json!({}));
//! let created = store.create(&configmaps, &ObjectKey::namespaced("default", "a"), draft)?;
//! assert_eq!(store.revision(), created.revision());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod follow;
mod inner;
mod key;
mod list;
mod log;
mod object;
#[cfg(test)]
mod tests;
mod watch;
mod window;

use std::{path::Path, sync::Arc};

use parking_lot::RwLock;

pub use crate::apimachinery::group_resource::GroupResource;

pub use self::{
    error::{LogError, StoreError},
    follow::Follower,
    key::ObjectKey,
    list::{ListQuery, Listing},
    log::{CutShort, Opened},
    object::{Draft, StoredObject},
    watch::{Batch, Watcher},
    window::{Event, EventKind, Window},
};
use self::{inner::Inner, log::Log};

/// The objects of an API server. Clones share them.
#[derive(Clone)]
pub struct Store {
    inner: Arc<RwLock<Inner>>,
}

impl Store {
    /// Creates an empty store in memory.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self {
            inner: Arc::new(RwLock::new(Inner::new(window))),
        }
    }

    /// Copies the store into memory, with its objects but without its past. The two are independent
    /// afterwards.
    #[must_use]
    pub fn copy(&self, window: Window) -> Self {
        Self {
            inner: Arc::new(RwLock::new(self.inner.read().copy(window))),
        }
    }

    /// Opens the store in the file `path`, or creates it.
    ///
    /// The file is an append-only log of changes after a line that names its version. Like etcd, the
    /// store writes each change before it becomes visible. It does not flush to disk for each one, as
    /// with etcd's `--unsafe-no-fsync`: a crash of the process loses nothing, a crash of the machine
    /// may lose the last changes.
    ///
    /// The window is not persistent: watches and continue tokens from before a restart get
    /// [`StoreError::Compacted`].
    ///
    /// A truncated last record was never acknowledged. Like etcd, the store continues without it; it
    /// moves the bytes to a file beside the log and reports them in [`Opened::cut_short`]. Any other
    /// damage is refused, and the file stays untouched.
    ///
    /// # Errors
    ///
    /// [`LogError`], when the file belongs to another program or version, is damaged, or cannot be
    /// read or written.
    pub fn open(path: &Path, window: Window) -> Result<(Self, Opened), LogError> {
        let mut inner = Inner::new(window);
        let (log, opened) = Log::open(path, &mut inner)?;
        inner.attach(log);

        Ok((
            Self {
                inner: Arc::new(RwLock::new(inner)),
            },
            opened,
        ))
    }

    /// Returns the revision of the last change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.read().revision()
    }

    /// Returns the first revision for which lists and watches of a resource are possible.
    #[must_use]
    pub fn oldest(&self, resource: &GroupResource) -> u64 {
        self.inner.read().compacted(resource)
    }

    /// Returns an object.
    #[must_use]
    pub fn get(&self, resource: &GroupResource, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        self.inner.read().get(resource, key)
    }

    /// Returns an object together with the revision at which it was read.
    #[must_use]
    pub fn get_with_revision(
        &self,
        resource: &GroupResource,
        key: &ObjectKey,
    ) -> (Option<Arc<StoredObject>>, u64) {
        let inner = self.inner.read();
        (inner.get(resource, key), inner.revision())
    }

    /// Creates an object.
    ///
    /// # Errors
    ///
    /// [`StoreError::AlreadyExists`]; [`StoreError::Log`] when the file cannot be written.
    pub fn create(
        &self,
        resource: &GroupResource,
        key: &ObjectKey,
        draft: Draft,
    ) -> Result<Arc<StoredObject>, StoreError> {
        self.inner.write().create(resource, key, draft)
    }

    /// Replaces the object that has the revision `expected`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`]; [`StoreError::Conflict`] if the object has another revision: read it
    /// again and decide.
    pub fn update(
        &self,
        resource: &GroupResource,
        key: &ObjectKey,
        draft: Draft,
        expected: u64,
    ) -> Result<Arc<StoredObject>, StoreError> {
        self.inner.write().update(resource, key, draft, expected)
    }

    /// Deletes the object that has the revision `expected`. Returns it as watchers see it, with the
    /// revision of its deletion.
    ///
    /// # Errors
    ///
    /// As [`Store::update`].
    pub fn delete(
        &self,
        resource: &GroupResource,
        key: &ObjectKey,
        expected: u64,
    ) -> Result<Arc<StoredObject>, StoreError> {
        self.inner.write().delete(resource, key, expected)
    }

    /// Lists objects in the order of their keys, now or at a past revision.
    ///
    /// # Errors
    ///
    /// [`StoreError::Compacted`] if the revision is older than the window,
    /// [`StoreError::FutureRevision`] if it does not exist yet.
    pub fn list(
        &self,
        resource: &GroupResource,
        query: &ListQuery<'_>,
    ) -> Result<Listing, StoreError> {
        list::list(&self.inner.read(), resource, query)
    }

    /// Watches a resource for the changes after a revision.
    ///
    /// # Errors
    ///
    /// [`StoreError::Compacted`] when the revision is older than the window.
    pub fn watch(&self, resource: &GroupResource, revision: u64) -> Result<Watcher, StoreError> {
        let signal = self.inner.write().subscribe(resource, revision)?;
        Ok(Watcher::new(
            self.clone(),
            resource.clone(),
            revision,
            signal,
        ))
    }

    /// Lists objects as they are now and watches from there on: no change is missed or seen twice.
    ///
    /// # Errors
    ///
    /// As [`Store::list`].
    pub fn list_and_watch(
        &self,
        resource: &GroupResource,
        query: &ListQuery<'_>,
    ) -> Result<(Listing, Watcher), StoreError> {
        let mut inner = self.inner.write();
        let listing = list::list(&inner, resource, query)?;
        let signal = inner.subscribe(resource, listing.revision)?;
        let watcher = Watcher::new(self.clone(), resource.clone(), listing.revision, signal);
        Ok((listing, watcher))
    }

    /// Removes all past changes from the window, like etcd's compaction at the current revision.
    pub fn compact(&self) {
        self.inner.write().compact();
    }

    /// Removes the changes up to a revision from the window, like etcd's compaction at that revision.
    /// A watch that has yet to see one of them ends with [`StoreError::Compacted`].
    pub fn compact_to(&self, revision: u64) {
        self.inner.write().compact_to(revision);
    }

    /// Replaces the log by a new file that holds all objects and no past changes.
    ///
    /// # Errors
    ///
    /// [`LogError`] when the file cannot be written; the old one stays.
    pub fn compact_file(&self) -> Result<(), LogError> {
        self.inner.write().compact_file()
    }

    /// Returns the revision of a resource's last change; 0 if it has not changed since the store was
    /// opened.
    #[must_use]
    pub fn changed(&self, resource: &GroupResource) -> u64 {
        self.inner.read().changed(resource)
    }

    /// Returns how many objects a resource has.
    #[must_use]
    pub fn count(&self, resource: &GroupResource) -> usize {
        self.inner.read().count(resource)
    }
}

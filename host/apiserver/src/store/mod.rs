//! The store of the API server: objects, one revision for all of them, and a window of past changes.
//!
//! A [`Store`] promises what the API server expects of etcd:
//!
//! - **one revision**: each change gets the next revision, which becomes the object's `resourceVersion`;
//! - **conditional writes**: [`Store::update`] and [`Store::delete`] name the revision that they replace;
//! - **past lists**: [`Store::list`] answers for any revision in the window, so that pages of a list are consistent;
//! - **watches**: a [`Watcher`] sees each change after its revision, once and in order. It reads the window and owns no
//!   queue, so a slow watcher costs no memory: it ends with [`StoreError::Compacted`] when the window has moved past it;
//! - **compaction**: the window holds a bounded number of changes and of bytes ([`Window`]). What is older is refused. A
//!   resource that did not change since then is still answered, because its answer is exact.
//!
//! Objects are compact JSON without `kind`, `apiVersion` and `resourceVersion`, which the server writes in front of the
//! stored bytes ([`StoredObject::write_json`]): one copy serves every version of the API, lists and watch events.
//!
//! A store may write each change to a file before it answers ([`Store::open`]). Reads share a lock, writes take turns.
//!
//! ```
//! use operetta_apiserver::store::{Draft, GroupResource, ObjectKey, Store, Window};
//!
//! let store = Store::new(Window::default());
//! let configmaps = GroupResource::new("", "configmaps");
//! let draft = Draft::from_metadata_and_rest(&serde_json::json!({"name": "a", "uid": "1"}), &serde_json::json!({}))?;
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

pub use self::{
    error::{LogError, StoreError},
    follow::Follower,
    key::{GroupResource, ObjectKey},
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
        Self { inner: Arc::new(RwLock::new(Inner::new(window))) }
    }

    /// Returns a store in memory with the objects of this one, and without its past. Later changes of one are not in the other.
    #[must_use]
    pub fn copy(&self, window: Window) -> Self {
        Self { inner: Arc::new(RwLock::new(self.inner.read().copy(window))) }
    }

    /// Opens the store that is kept in the file `path`, or creates it.
    ///
    /// The file is an append-only log of changes behind a line that names its version. Each change is written to it
    /// before it is visible, as etcd does. It is not flushed to the disk for each change, as with etcd's
    /// `--unsafe-no-fsync`: a crash of the process loses nothing, a crash of the machine may lose the last changes.
    ///
    /// The window is not kept: watches and continue tokens of before a restart get [`StoreError::Compacted`].
    ///
    /// A last record that is cut short was never answered. As etcd does, the store goes on without it; it moves the
    /// bytes to a file beside the log and reports them in [`Opened::cut_short`]. All other damage is refused, and the file
    /// stays as it is.
    ///
    /// # Errors
    ///
    /// [`LogError`], when the file belongs to another program or version, is damaged, or cannot be read or written.
    pub fn open(path: &Path, window: Window) -> Result<(Self, Opened), LogError> {
        let mut inner = Inner::new(window);
        let (log, opened) = Log::open(path, &mut inner)?;
        inner.attach(log);
        Ok((Self { inner: Arc::new(RwLock::new(inner)) }, opened))
    }

    /// Returns the revision of the last change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.read().revision()
    }

    /// Returns the first revision for which lists and watches of a resource are answered.
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
    pub fn get_with_revision(&self, resource: &GroupResource, key: &ObjectKey) -> (Option<Arc<StoredObject>>, u64) {
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
    /// [`StoreError::NotFound`]; [`StoreError::Conflict`] when the object has another revision: read it again and decide.
    pub fn update(
        &self,
        resource: &GroupResource,
        key: &ObjectKey,
        draft: Draft,
        expected: u64,
    ) -> Result<Arc<StoredObject>, StoreError> {
        self.inner.write().update(resource, key, draft, expected)
    }

    /// Deletes the object that has the revision `expected`. Returns it as watchers see it, at the revision of its deletion.
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
    /// [`StoreError::Compacted`] when the revision is older than the window, [`StoreError::FutureRevision`] when it is yet
    /// to come.
    pub fn list(&self, resource: &GroupResource, query: &ListQuery<'_>) -> Result<Listing, StoreError> {
        list::list(&self.inner.read(), resource, query)
    }

    /// Watches a resource for the changes after a revision.
    ///
    /// # Errors
    ///
    /// [`StoreError::Compacted`] when the revision is older than the window.
    pub fn watch(&self, resource: &GroupResource, revision: u64) -> Result<Watcher, StoreError> {
        let signal = self.inner.write().subscribe(resource, revision)?;
        Ok(Watcher::new(self.clone(), resource.clone(), revision, signal))
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

    /// Removes all past changes from the window, as etcd's compaction at the current revision does.
    pub fn compact(&self) {
        self.inner.write().compact();
    }

    /// Writes all objects to a new file and replaces the log with it, so that the file does not hold past changes.
    ///
    /// # Errors
    ///
    /// [`LogError`] when the file cannot be written; the old one stays.
    pub fn compact_file(&self) -> Result<(), LogError> {
        self.inner.write().compact_file()
    }

    /// Returns the revision of the last change of a resource; 0 when it did not change since the store was opened.
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

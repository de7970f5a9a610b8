//! What the watch has brought: objects by key, in order, with indexes. The informer is its only writer.
//!
//! [`Writer`] is not `Clone` and there is one per store; any number of readers share the [`Store`]. Keys are ordered by
//! namespace, then name, so one namespace is a range: that is the namespace index.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::{Arc, PoisonError, RwLock},
};

use operetta_core::{
    manifest::IndexKey,
    object::{Object, ObjectKey},
};

/// The objects of one informer.
#[derive(Default)]
pub struct Store {
    inner: RwLock<Inner>,
}

/// The right to change a store.
pub struct Writer {
    store: Arc<Store>,
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// By the uid of the controlling owner.
    by_owner: HashMap<Box<str>, BTreeSet<ObjectKey>>,
    /// By declared index, then by the value it takes. Every object that has one is in it.
    by_index: HashMap<IndexKey, HashMap<String, BTreeSet<ObjectKey>>>,
    /// The highest resourceVersion the watch has brought; it may fall only on a relist.
    revision: u64,
    /// Sum of `heap_bytes` over `objects`.
    bytes: usize,
}

/// Which objects of a store are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// All of them.
    All,
    /// Those with this uid as controlling owner.
    Owner(String),
    /// Those with this value in this index, which must have been declared with [`Store::declare_index`].
    Index {
        /// The index.
        key: IndexKey,
        /// The value.
        value: String,
    },
}

impl Store {
    /// An empty store and the right to fill it.
    pub fn new() -> (Arc<Self>, Writer) {
        let store = Arc::new(Self::default());
        (store.clone(), Writer { store })
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.read(|inner| inner.objects.get(key).cloned())
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read(|inner| inner.objects.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes the objects hold in memory.
    pub fn bytes(&self) -> usize {
        self.read(|inner| inner.bytes)
    }

    /// The highest resourceVersion that the watch has brought; 0 before the first.
    pub fn revision(&self) -> u64 {
        self.read(|inner| inner.revision)
    }

    /// The objects of one namespace, or of all, in the order of their keys, beginning after `after`.
    pub fn list(&self, lookup: &Lookup, namespace: Option<&str>, after: Option<&ObjectKey>) -> Vec<Arc<Object>> {
        let first = ObjectKey { namespace: namespace.map(Into::into), name: String::new() };
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None if namespace.is_some() => Bound::Included(&first),
            None => Bound::Unbounded,
        };
        let inside = |key: &ObjectKey| namespace.is_none() || key.namespace.as_deref() == namespace;
        self.read(|inner| {
            let keys = match lookup {
                Lookup::All => {
                    let range = inner.objects.range::<ObjectKey, _>((from, Bound::Unbounded));
                    return range.take_while(|(key, _)| inside(key)).map(|(_, object)| object.clone()).collect();
                }
                Lookup::Owner(uid) => inner.by_owner.get(uid.as_str()),
                Lookup::Index { key, value } => inner.by_index.get(key).and_then(|values| values.get(value)),
            };
            let Some(keys) = keys else { return Vec::new() };
            let range = keys.range::<ObjectKey, _>((from, Bound::Unbounded));
            range.take_while(|key| inside(key)).filter_map(|key| inner.objects.get(key).cloned()).collect()
        })
    }

    /// The namespaces that there are objects of.
    pub fn namespaces(&self) -> BTreeSet<String> {
        self.read(|inner| {
            let mut found = BTreeSet::new();
            let mut last = None;
            for namespace in inner.objects.keys().map(|key| key.namespace.as_ref()) {
                // In order: the same ones stand together.
                if namespace != last {
                    found.extend(namespace.cloned());
                    last = namespace;
                }
            }
            found
        })
    }

    /// Every key, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.read(|inner| inner.objects.keys().cloned().collect())
    }

    /// Begins an index, over what is there and what comes.
    pub fn declare_index(&self, index: &IndexKey) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.by_index.contains_key(index) {
            return;
        }
        let mut values: HashMap<String, BTreeSet<ObjectKey>> = HashMap::new();
        for (key, object) in &inner.objects {
            if let Some(value) = index.value(object) {
                values.entry(value).or_default().insert(key.clone());
            }
        }
        inner.by_index.insert(index.clone(), values);
    }

    fn read<T>(&self, look: impl FnOnce(&Inner) -> T) -> T {
        look(&self.inner.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Writer {
    /// The store it writes.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Puts an object in and returns the one it replaces.
    pub fn apply(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let mut inner = self.store.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.raise_revision(&object);
        inner.put(object)
    }

    /// Takes an object out and returns it as it was. `seen` is the watch's last word on it.
    pub fn remove(&mut self, seen: &Object) -> Option<Arc<Object>> {
        let mut inner = self.store.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.raise_revision(seen);
        inner.take(&seen.header.key)
    }

    /// The watch has brought everything up to this resourceVersion.
    pub fn reached(&mut self, revision: u64) {
        let mut inner = self.store.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.revision = inner.revision.max(revision);
    }

    /// Makes the store what a relist found. Returns what each object was before, and what is no longer there.
    #[allow(clippy::type_complexity, reason = "two lists that only the informer takes apart")]
    pub fn replace(
        &mut self,
        objects: BTreeMap<ObjectKey, Arc<Object>>,
    ) -> (Vec<(Option<Arc<Object>>, Arc<Object>)>, Vec<Arc<Object>>) {
        let mut inner = self.store.inner.write().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<ObjectKey> = inner.objects.keys().filter(|key| !objects.contains_key(key)).cloned().collect();
        let gone = gone.iter().filter_map(|key| inner.take(key)).collect();
        inner.revision = 0;
        let found = objects.into_values().map(|object| {
            inner.raise_revision(&object);
            (inner.put(object.clone()), object)
        });
        (found.collect(), gone)
    }
}

impl Inner {
    fn raise_revision(&mut self, object: &Object) {
        self.revision = self.revision.max(object.header.revision().unwrap_or_default());
    }

    fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let key = object.header.key.clone();
        let old = self.take(&key);
        if let Some(owner) = object.header.controller() {
            self.by_owner.entry(owner.uid.as_str().into()).or_default().insert(key.clone());
        }
        for (index, values) in &mut self.by_index {
            if let Some(value) = index.value(&object) {
                values.entry(value).or_default().insert(key.clone());
            }
        }
        self.bytes += object.heap_bytes();
        self.objects.insert(key, object);
        old
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Arc<Object>> {
        let old = self.objects.remove(key)?;
        self.bytes -= old.heap_bytes();
        if let Some(owner) = old.header.controller() {
            unlist(&mut self.by_owner, owner.uid.as_str(), key);
        }
        for (index, values) in &mut self.by_index {
            if let Some(value) = index.value(&old) {
                unlist(values, value.as_str(), key);
            }
        }
        Some(old)
    }
}

fn unlist<Q, K>(index: &mut HashMap<K, BTreeSet<ObjectKey>>, value: &Q, key: &ObjectKey)
where
    K: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
{
    if let Some(keys) = index.get_mut(value) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(value);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use operetta_core::{kind::GroupVersionKind, object::ManagedFields};

    pub(crate) fn object(namespace: &str, name: &str, revision: u64, owner: &str, node: &str) -> Arc<Object> {
        let text = format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"uid-{name}","resourceVersion":"{revision}","labels":{{"app":"{node}"}},
            "ownerReferences":[{{"apiVersion":"v1","kind":"X","name":"x","uid":"{owner}","controller":true}}]}},"spec":{{"nodeName":"{node}"}}}}"#
        );
        let kind = GroupVersionKind::new("v1", "Pod");
        Arc::new(Object::from_json(&text, &kind, ManagedFields::Drop).expect("object"))
    }

    fn names(objects: &[Arc<Object>]) -> Vec<String> {
        objects.iter().map(|object| object.header.key.to_string()).collect()
    }

    #[test]
    fn lists_come_in_order_by_namespace_owner_and_declared_path_and_resume_after_a_key() {
        let (store, mut writer) = Store::new();
        for (namespace, name, owner, node) in
            [("b", "1", "o1", "n1"), ("a", "2", "o1", "n2"), ("a", "1", "o2", "n1"), ("c", "1", "o2", "n1")]
        {
            writer.apply(object(namespace, name, 1, owner, node));
        }
        let by_node = IndexKey::Path(".spec.nodeName".into());
        store.declare_index(&by_node);
        assert_eq!(names(&store.list(&Lookup::All, None, None)), ["a/1", "a/2", "b/1", "c/1"]);
        assert_eq!(names(&store.list(&Lookup::All, Some("a"), None)), ["a/1", "a/2"]);
        let after = ObjectKey::namespaced("a", "1");
        assert_eq!(names(&store.list(&Lookup::All, Some("a"), Some(&after))), ["a/2"]);
        assert_eq!(names(&store.list(&Lookup::Owner("o1".into()), None, None)), ["a/2", "b/1"]);
        assert_eq!(names(&store.list(&Lookup::Owner("o1".into()), Some("b"), None)), ["b/1"]);
        let path = Lookup::Index { key: by_node, value: "n1".into() };
        assert_eq!(names(&store.list(&path, None, Some(&after))), ["b/1", "c/1"]);
        writer.apply(object("b", "1", 2, "o2", "n9"));
        assert_eq!(names(&store.list(&path, None, None)), ["a/1", "c/1"], "a changed value leaves the index");
        assert_eq!(names(&store.list(&Lookup::Owner("o1".into()), None, None)), ["a/2"]);
    }

    #[test]
    fn a_relist_tells_what_is_new_what_changed_and_what_vanished_and_bytes_add_up() {
        let (store, mut writer) = Store::new();
        writer.apply(object("a", "kept", 1, "o", "n"));
        writer.apply(object("a", "gone", 2, "o", "n"));
        let relisted = [object("a", "kept", 3, "o", "n"), object("a", "new", 4, "o", "n")];
        let relisted = relisted.into_iter().map(|object| (object.header.key.clone(), object)).collect();
        let (found, gone) = writer.replace(relisted);
        assert_eq!(names(&gone), ["a/gone"]);
        let found: Vec<_> = found.iter().map(|(old, new)| (old.is_some(), new.header.key.name.as_str())).collect();
        assert_eq!(found, [(true, "kept"), (false, "new")]);
        assert_eq!((store.len(), store.revision()), (2, 4));
        for object in store.list(&Lookup::All, None, None) {
            writer.remove(&object);
        }
        assert_eq!((store.len(), store.bytes()), (0, 0));
    }
}

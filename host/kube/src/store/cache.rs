//! Reads from a store: its objects, overlaid with the host's own writes, and reduced to what a list
//! requests.

use std::{cmp::Ordering, collections::BTreeSet, sync::Arc};

use operetta_core::{
    gate::{
        bytes::{NoRoom, charge},
        operation::{Item, Page},
    },
    manifest::IndexKey,
    object::{
        Metadata, Object, ObjectKey,
        projection::project,
        prune::Prune,
        selector::{LabelSelector, MetadataFieldSelector},
    },
    status::{ApiError, ErrorKind},
};

use crate::store::{
    Entry, Lookup, Snapshot, Store,
    overlay::{Author, Lists, Overlay, OwnWrite, Sight, Version},
};

/// A store, and the writes its watch has not received yet.
pub struct Cache {
    /// The objects received by the watch.
    pub store: Arc<Store>,
    /// The host's own writes not yet received by the watch.
    pub overlay: Overlay,
    /// The namespace watched by the informer; None for all.
    pub namespace: Option<String>,
    /// The informer's label selector. An own write that doesn't match is outside its view.
    pub selects: LabelSelector,
    /// Whether the watch delivers only metadata.
    pub metadata_only: bool,
    /// Fields missing from all objects in the cache. The watch's objects are read without them.
    pub prune: Prune,
}

/// The parsed options of a cached list.
pub struct Query<'a> {
    /// Which objects to select.
    pub lookup: Lookup,
    /// The namespace; None for all namespaces.
    pub namespace: Option<&'a str>,
    /// A label selector.
    pub labels: LabelSelector,
    /// A selector by name and namespace.
    pub fields: MetadataFieldSelector,
    /// The maximum number of objects.
    pub limit: Option<usize>,
    /// The last key of the previous page.
    pub after: Option<ObjectKey>,
    /// Field paths to keep.
    pub projection: &'a [String],
    /// The visible namespaces; None for all.
    pub visible: Option<BTreeSet<String>>,
}

/// Objects whose state nothing in a cache shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// The watch will show it.
    pub by_watch: Vec<ObjectKey>,
    /// No event tells whether it comes before or after the write: only the API server can.
    pub by_question: Vec<ObjectKey>,
    /// A list of these namespaces has to tell which objects there are; None for all namespaces.
    pub by_list: Vec<Option<String>>,
}

impl Unknown {
    /// Whether the state of all objects is known.
    pub fn is_empty(&self) -> bool {
        self.by_watch.is_empty() && self.by_question.is_empty() && self.by_list.is_empty()
    }
}

impl Cache {
    /// An object in the state of the watch, or of a later write of the host. For one of
    /// [`Self::unknown`], that is merely the watch's last state.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        // Read the overlay first: see its module.
        let own = self.overlay.get(key);
        let lists = self.overlay.lists();
        let stored = self.store.get(key);
        let stored = stored.filter(|object| !is_hidden(&lists, &object.raw().metadata()));
        self.newer(own, stored)
    }

    /// The objects changed by the author's writes in a way nothing in the cache shows: in a
    /// namespace, or in all, or the one called `name`.
    pub fn unknown(&self, author: Author, namespace: Option<&str>, name: Option<&str>) -> Unknown {
        if self.overlay.is_empty() {
            return Unknown::default();
        }

        let own = match name {
            Some(name) => {
                let key = ObjectKey {
                    namespace: namespace.map(str::to_owned),
                    name: name.to_owned(),
                };
                let own = self.overlay.get(&key);
                own.map(|own| (key, own)).into_iter().collect()
            }
            None => self.overlay.snapshot(),
        };
        let by_list = self.overlay.unlisted(author, namespace);
        self.store.snapshot(|stored| {
            let is_unknown = |(key, own): &(ObjectKey, OwnWrite)| {
                let stored = stored.get(key).map(Version::of_stored);
                own.is_by(author)
                    && (namespace.is_none() || key.namespace.as_deref() == namespace)
                    && matches!(own.sight(stored), Sight::Unknown)
            };
            let unknown = own.into_iter().filter(is_unknown);
            let (by_watch, by_question): (Vec<_>, Vec<_>) =
                unknown.partition(|(_, own)| own.is_shown_by_watch());
            let keys = |own: Vec<(ObjectKey, OwnWrite)>| own.into_iter().map(|(key, _)| key);
            Unknown {
                by_watch: keys(by_watch).collect(),
                by_question: keys(by_question).collect(),
                by_list,
            }
        })
    }

    /// Returns one page in the order of keys. Its objects and its resourceVersion are consistent:
    /// the store at that resourceVersion, overlaid with the host's own writes not yet received by
    /// the watch. Each page has its own state: changes behind the last key become visible from one
    /// page to the next, and objects existing all the time are neither missed nor repeated.
    ///
    /// # Errors
    /// [`NoRoom`] if the page's objects exceed the memory budget of the reading plugin.
    pub fn list(&self, query: &Query<'_>) -> Result<Page, NoRoom> {
        let written = self.overlay.snapshot();
        let lists = self.overlay.lists();
        let limit = query.limit.unwrap_or(usize::MAX);
        let lookup = self.store.snapshot(|stored| narrowed(query, stored));

        if lookup == Lookup::All {
            self.store.keep_order();
        }

        let (revision, mut found) = self.store.snapshot(|stored| {
            let selected = |metadata: &Metadata<'_>| {
                is_visible(metadata.namespace(), query.visible.as_ref())
                    && query.labels.matches(metadata)
                    && query.fields.matches(metadata)
            };
            let in_range = |key: &ObjectKey| {
                query.after.as_ref().is_none_or(|after| key > after)
                    && (query.namespace.is_none() || key.namespace.as_deref() == query.namespace)
            };
            let mut written = written
                .into_iter()
                .filter(|(key, _)| in_range(key))
                .peekable();
            let mut stored_ones = stored
                .walk(&lookup, query.namespace, query.after.as_ref())
                .filter(|entry| !is_hidden(&lists, &entry.metadata()))
                .peekable();
            let mut found = Vec::new();
            // One more than the page, to find out whether there is another page.
            while found.len() <= limit {
                let order = match (written.peek(), stored_ones.peek()) {
                    (None, None) => break,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some((key, _)), Some(entry)) => {
                        let metadata = entry.metadata();
                        (key.namespace.as_deref(), key.name.as_str())
                            .cmp(&(metadata.namespace(), metadata.name()))
                    }
                };
                if order != Ordering::Less {
                    let entry = stored_ones.next();
                    if order == Ordering::Greater {
                        found.extend(
                            entry
                                .filter(|entry| selected(&entry.metadata()))
                                .map(|entry| Found::Stored(entry.clone())),
                        );
                        continue;
                    }
                }
                let Some((key, written)) = written.next() else {
                    break;
                };
                let entry = stored.get(&key);
                let entry = entry.filter(|entry| !is_hidden(&lists, &entry.metadata()));
                let now = self.newer(Some(written), entry.map(|entry| self.store.open(entry)));
                let now = now.filter(|object| {
                    found_by(&query.lookup, object) && selected(&object.raw().metadata())
                });
                found.extend(now.map(Found::Written));
            }
            (stored.revision(), found)
        });

        let more = found.len() > limit;
        found.truncate(limit);
        let open = |found: Found| {
            let object = found.open(&self.store);
            charge(object.json().len()).map(|()| object)
        };
        let page: Vec<Arc<Object>> = found.into_iter().map(open).collect::<Result<_, _>>()?;

        Ok(Page {
            continue_token: page
                .last()
                .filter(|_| more)
                .map(|object| token_of(object.key())),
            resource_version: revision.to_string(),
            items: page
                .into_iter()
                .map(|object| item(object, query.projection))
                .collect(),
        })
    }

    /// The namespaces of the objects.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let written = self.overlay.snapshot();
        self.store.keep_order();
        let mut namespaces = self.store.namespaces();
        let present = written
            .into_iter()
            .filter(|(_, own)| matches!(own.sight(None), Sight::Written(_)));
        namespaces.extend(present.filter_map(|(key, _)| key.namespace));
        namespaces
    }

    /// Adds the response to a write to the overlay, if it is in this informer's view. Reports
    /// whether it is.
    pub fn wrote(&self, object: &Arc<Object>, author: Author) -> bool {
        let elsewhere = self.namespace.is_some() && self.namespace != object.key().namespace;
        if elsewhere {
            return false;
        }

        // Where only metadata is stored, the object must not be stored in full.
        let is_known = self
            .store
            .snapshot(|stored| stored.get(object.key()).is_some());
        if self.metadata_only && !is_known {
            return false;
        }

        let is_in_view = self.selects.matches(object.as_ref());
        self.overlay
            .wrote(self.pruned(object), is_in_view, author, &self.store);

        is_in_view || is_known
    }

    /// The object without the pruned fields.
    pub fn pruned(&self, object: &Arc<Object>) -> Arc<Object> {
        if self.prune.is_plain() {
            object.clone()
        } else {
            object.clone().pruned(&self.prune)
        }
    }

    fn newer(&self, own: Option<OwnWrite>, stored: Option<Arc<Object>>) -> Option<Arc<Object>> {
        let Some(own) = own else {
            return stored;
        };

        match own.sight(stored.as_deref().map(Version::of)) {
            Sight::Stored | Sight::Unknown => stored,
            Sight::Written(object) => Some(object),
            Sight::Nothing => None,
        }
    }
}

/// An object found by a list, still compressed.
enum Found {
    Stored(Entry),
    Written(Arc<Object>),
}

impl Found {
    fn open(self, store: &Store) -> Arc<Object> {
        match self {
            Self::Stored(entry) => store.open(&entry),
            Self::Written(object) => object,
        }
    }
}

/// The part of the store to search: one value of an index, if the labels ask for it.
fn narrowed(query: &Query<'_>, stored: &Snapshot<'_>) -> Lookup {
    if query.lookup != Lookup::All {
        return query.lookup.clone();
    }

    let indexes = query
        .labels
        .equalities()
        .map(|(label, value)| (IndexKey::Label(label.to_owned()), value));
    let index = indexes.into_iter().find(|(key, _)| stored.has_index(key));

    index.map_or(Lookup::All, |(key, value)| Lookup::Index {
        key,
        value: value.to_owned(),
    })
}

/// Whether a stored object is gone according to a list that the watch has not caught up with.
fn is_hidden(lists: &Lists, metadata: &Metadata<'_>) -> bool {
    !lists.is_empty()
        && metadata
            .revision()
            .is_some_and(|revision| lists.hide(metadata.namespace(), metadata.name(), revision))
}

fn is_visible(namespace: Option<&str>, visible: Option<&BTreeSet<String>>) -> bool {
    visible.is_none_or(|visible| namespace.is_some_and(|namespace| visible.contains(namespace)))
}

fn found_by(lookup: &Lookup, object: &Object) -> bool {
    match lookup {
        Lookup::All => true,
        Lookup::Owner(uid) => object.controller().is_some_and(|owner| owner.uid == *uid),
        Lookup::Index { key, value } => key.value(object).as_ref() == Some(value),
    }
}

pub(crate) fn item(object: Arc<Object>, projection: &[String]) -> Item {
    if projection.is_empty() {
        Item::Whole(object)
    } else {
        Item::Projected(project(object.json(), projection))
    }
}

/// A page's continue token, which is its last key: `namespace/name`, or only the name.
pub(crate) fn token_of(key: &ObjectKey) -> String {
    key.to_string()
}

/// Parses a continue token.
///
/// # Errors
/// `BadRequest` for a token not returned by any cached list.
pub fn key_of_token(token: &str) -> Result<ObjectKey, ApiError> {
    let key = match token.split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster_scoped(token),
    };

    operetta_core::gate::path::check_key(&key).map_err(|_| {
        ApiError::new(
            ErrorKind::BadRequest,
            format!("{token:?} is not a continue token of a cached list"),
        )
    })?;

    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    };

    use tokio::time::Instant;

    use super::*;
    use crate::store::{
        Writer,
        overlay::{Seen, Until},
        tests::object,
    };

    fn cache(selects: &str) -> (Cache, Writer) {
        let (store, writer) = Store::new();
        let selects = LabelSelector::parse(selects).expect("selector");
        (
            Cache {
                store,
                overlay: Overlay::default(),
                namespace: None,
                selects,
                metadata_only: false,
                prune: Prune::managed_fields(),
            },
            writer,
        )
    }

    fn names(cache: &Cache, lookup: Lookup) -> Vec<String> {
        let page = cache.list(&query(lookup, None, None)).expect("room");
        page.items
            .iter()
            .map(|item| {
                serde_json::from_str::<serde_json::Value>(item.json()).expect("json")["metadata"]["name"]
                    .as_str()
                    .expect("name")
                    .to_owned()
            })
            .collect()
    }

    fn query<'a>(lookup: Lookup, limit: Option<usize>, after: Option<ObjectKey>) -> Query<'a> {
        let labels = LabelSelector::default();
        let fields = MetadataFieldSelector::default();
        Query {
            lookup,
            namespace: Some("n"),
            labels,
            fields,
            limit,
            after,
            projection: &[],
            visible: None,
        }
    }

    fn author() -> Author {
        static AUTHOR: std::sync::LazyLock<Author> = std::sync::LazyLock::new(Author::unique);
        *AUTHOR
    }

    fn wrote(cache: &Cache, object: &Arc<Object>) {
        cache.wrote(object, author());
    }

    /// An object of one name with this uid.
    fn incarnation(uid: &str, revision: u64) -> Arc<Object> {
        let kind = operetta_core::object::kind::GroupVersionKind::new("v1", "Pod");
        let text = object("n", "a", revision, "o", "x")
            .json()
            .replace("uid-a", uid);
        let read = Object::from_json(&text, &kind, operetta_core::object::ManagedFields::Drop);
        Arc::new(read.expect("object"))
    }

    fn watch(cache: &Cache, writer: &mut Writer, object: &Arc<Object>) {
        writer.apply(object.clone());
        cache.overlay.watched(
            object.key(),
            object.uid(),
            object.revision().expect("revision"),
            Seen::of(object),
        );
    }

    #[test]
    fn read_sees_own_create_before_the_watch() {
        let (cache, mut writer) = cache("");
        let made = object("n", "a", 10, "o", "x");
        wrote(&cache, &made);
        assert_eq!(cache.get(made.key()), Some(made.clone()));
        assert_eq!(
            names(&cache, Lookup::Owner("o".into())),
            ["a"],
            "by owner, too: or a second child would be made"
        );
        watch(&cache, &mut writer, &made);
        assert_eq!(names(&cache, Lookup::All), ["a"]);
        assert!(cache.overlay.snapshot().is_empty());
    }

    #[test]
    fn answer_overtaken_by_the_watch_is_dropped() {
        let (cache, mut writer) = cache("");
        let made = object("n", "a", 10, "o", "x");
        watch(&cache, &mut writer, &made);
        let last = object("n", "a", 11, "o", "x");
        writer.remove(&last);
        wrote(&cache, &made);
        assert_eq!(cache.get(made.key()), None);
    }

    #[test]
    fn the_newer_of_watch_and_answer_wins() {
        let (cache, mut writer) = cache("");
        watch(&cache, &mut writer, &object("n", "a", 5, "o", "old"));
        wrote(&cache, &object("n", "a", 9, "o", "mine"));
        wrote(&cache, &object("n", "a", 7, "o", "mine, earlier"));
        let node = |cache: &Cache| {
            cache
                .get(&ObjectKey::namespaced("n", "a"))
                .and_then(|found| found.scalar_at(".spec.nodeName"))
        };
        assert_eq!(node(&cache).as_deref(), Some("mine"));
        watch(&cache, &mut writer, &object("n", "b", 8, "o", "x"));
        assert_eq!(
            node(&cache).as_deref(),
            Some("mine"),
            "an event of another key that is older keeps it"
        );
        watch(&cache, &mut writer, &object("n", "a", 12, "o", "theirs"));
        assert_eq!(node(&cache).as_deref(), Some("theirs"));
    }

    #[test]
    fn deleted_object_is_gone_and_successor_seen() {
        let (cache, mut writer) = cache("");
        let old = object("n", "a", 5, "o", "x");
        watch(&cache, &mut writer, &old);
        cache.overlay.deleted(
            old.key(),
            "uid-a",
            None,
            Instant::now(),
            author(),
            &cache.store,
        );
        assert_eq!(cache.get(old.key()), None);
        assert!(names(&cache, Lookup::All).is_empty());
        let next = incarnation("uid-2", 9);
        wrote(&cache, &next);
        assert_eq!(cache.get(old.key()), Some(next));
    }

    #[test]
    fn no_earlier_incarnation_is_seen_after_a_deletion() {
        let (cache, mut writer) = cache("");
        let first = incarnation("uid-1", 5);
        watch(&cache, &mut writer, &first);
        let key = first.key();

        // The host replaces it twice, before the watch has anything of that.
        cache
            .overlay
            .deleted(key, "uid-1", None, Instant::now(), author(), &cache.store);
        let second = incarnation("uid-2", 7);
        wrote(&cache, &second);
        cache
            .overlay
            .deleted(key, "uid-2", None, Instant::now(), author(), &cache.store);
        assert_eq!(cache.get(key), None, "neither the first nor the second");

        // The watch brings the past.
        writer.remove(&incarnation("uid-1", 6));
        cache.overlay.watched(key, "uid-1", 6, Seen::Gone);
        watch(&cache, &mut writer, &second);
        assert_eq!(cache.get(key), None);
        assert!(cache.unknown(author(), None, None).is_empty());

        let third = incarnation("uid-3", 11);
        watch(&cache, &mut writer, &third);
        assert_eq!(cache.get(key), Some(third), "somebody else's");
        assert!(cache.overlay.is_empty());
    }

    #[test]
    fn what_no_answer_shows_is_unknown_until_the_watch_or_the_api_server_shows_it() {
        let (cache, mut writer) = cache("");
        let old = object("n", "a", 5, "o", "x");
        watch(&cache, &mut writer, &old);
        let key = old.key();
        let of_key = |cache: &Cache| cache.unknown(author(), Some("n"), Some("a"));
        let unknown = |cache: &Cache| of_key(cache).by_watch == [key.clone()];

        // A patch of its scale, whose answer has the resourceVersion.
        cache
            .overlay
            .changed(key, Until::Reached(8), author(), &cache.store);
        assert!(unknown(&cache));
        watch(&cache, &mut writer, &object("n", "b", 7, "o", "x"));
        assert!(unknown(&cache), "the watch is not there yet");
        watch(&cache, &mut writer, &object("n", "a", 8, "o", "y"));
        assert!(of_key(&cache).is_empty());

        // The deletion of a collection, whose answer has its objects before the deletion.
        let left = Until::Left {
            uid: "uid-a".into(),
            revision: 8,
        };
        cache
            .overlay
            .changed(key, left.clone(), author(), &cache.store);
        watch(&cache, &mut writer, &object("n", "b", 9, "o", "x"));
        assert!(unknown(&cache));
        let last = object("n", "a", 10, "o", "y");
        writer.remove(&last);
        cache.overlay.watched(key, "uid-a", 10, Seen::Gone);
        assert!(of_key(&cache).is_empty());
        cache.overlay.changed(key, left, author(), &cache.store);
        assert!(
            cache.overlay.is_empty(),
            "the watch was faster than the answer"
        );

        // An eviction, whose answer says nothing.
        let asked = Until::Asked { certain: true };
        cache.overlay.changed(key, asked, author(), &cache.store);
        let before = Instant::now();
        let asked = Unknown {
            by_question: vec![key.clone()],
            ..Unknown::default()
        };
        assert_eq!(of_key(&cache), asked);
        cache.overlay.asked(key, before, 12, None, &cache.store);
        assert!(of_key(&cache).is_empty());
        watch(&cache, &mut writer, &object("n", "a", 11, "o", "y"));
        assert_eq!(cache.get(key), None, "it was gone at 12");
        watch(&cache, &mut writer, &object("n", "a", 13, "o", "y"));
        assert!(cache.get(key).is_some());
        assert!(cache.overlay.is_empty());
    }

    /// The namespace's objects in a list, by their resourceVersions.
    fn listed(objects: &[(&str, u64)]) -> BTreeMap<ObjectKey, u64> {
        let of = |(name, revision): &(&str, u64)| (ObjectKey::namespaced("n", *name), *revision);
        objects.iter().map(of).collect()
    }

    #[test]
    fn write_without_names_is_unknown_until_a_list_shows_it() {
        let (cache, mut writer) = cache("");
        for (name, revision) in [("a", 5), ("b", 6)] {
            watch(&cache, &mut writer, &object("n", name, revision, "o", "x"));
        }
        let key = |name: &str| ObjectKey::namespaced("n", name);
        let unknown = |cache: &Cache| cache.unknown(author(), Some("n"), None);

        // A collection is deleted at 11, and nobody knows what was in it.
        cache.overlay.changed_some(Some("n"), true, author());
        assert_eq!(unknown(&cache).by_list, [Some("n".to_owned())]);
        let elsewhere = cache.unknown(author(), Some("m"), Some("a"));
        assert!(elsewhere.is_empty(), "another namespace");
        let others = cache.unknown(Author::unique(), Some("n"), None);
        assert!(others.is_empty(), "another author");

        // `a` is gone, `c` is what somebody created in the meantime.
        let at_12 = listed(&[("b", 6), ("c", 9)]);
        let (overlay, store) = (&cache.overlay, &cache.store);
        overlay.listed(author(), Some("n"), Instant::now(), 12, &at_12, store);
        let only_c = Unknown {
            by_watch: vec![key("c")],
            ..Unknown::default()
        };
        assert_eq!(unknown(&cache), only_c);
        assert_eq!(cache.get(&key("a")), None);
        assert_eq!(names(&cache, Lookup::All), ["b"]);

        // What the watch brings late was gone at 12, too, and so was what an answer brings.
        watch(&cache, &mut writer, &object("n", "d", 8, "o", "x"));
        wrote(&cache, &object("n", "e", 10, "o", "x"));
        assert_eq!(cache.get(&key("d")), None);
        assert_eq!(cache.get(&key("e")), None);
        assert_eq!(names(&cache, Lookup::All), ["b"]);
        watch(&cache, &mut writer, &object("m", "d", 8, "o", "x"));
        let elsewhere = ObjectKey::namespaced("m", "d");
        assert!(cache.get(&elsewhere).is_some(), "another namespace");

        watch(&cache, &mut writer, &object("n", "c", 9, "o", "x"));
        assert!(unknown(&cache).is_empty());
        assert_eq!(names(&cache, Lookup::All), ["b", "c"]);
        for name in ["a", "d"] {
            let last = object("n", name, 11, "o", "x");
            writer.remove(&last);
            overlay.watched(last.key(), last.uid(), 11, Seen::Gone);
        }

        // A later incarnation is shown.
        watch(&cache, &mut writer, &object("n", "d", 13, "o", "x"));
        assert_eq!(names(&cache, Lookup::All), ["b", "c", "d"]);
        assert!(overlay.is_empty(), "the watch has overtaken the list");
    }

    #[test]
    fn write_without_names_ends_with_a_relist_and_with_the_watch_that_overtakes_its_list() {
        let (cache, mut writer) = cache("");
        let (overlay, store) = (&cache.overlay, &cache.store);
        overlay.changed_some(Some("n"), true, author());
        let relist = writer.begin_relist();
        writer.finish(relist);
        assert!(
            overlay.relisted(Instant::now(), 3, store).is_empty() && overlay.is_empty(),
            "a list that began later contains the write"
        );

        overlay.changed_some(None, true, author());
        let began = Instant::now();
        watch(&cache, &mut writer, &object("n", "a", 5, "o", "x"));
        overlay.listed(author(), None, began, 4, &listed(&[]), store);
        assert!(overlay.is_empty(), "the store is later than the list");
        assert!(cache.get(&ObjectKey::namespaced("n", "a")).is_some());
    }

    /// Own writes to the objects of a list: the later of both is shown.
    #[test]
    fn list_and_answers_are_ordered() {
        let (cache, mut writer) = cache("");
        watch(&cache, &mut writer, &object("n", "z", 1, "o", "x"));
        let (overlay, store) = (&cache.overlay, &cache.store);
        let key = |name: &str| ObjectKey::namespaced("n", name);
        for (name, revision) in [("old", 8), ("same", 9), ("new", 15)] {
            wrote(&cache, &object("n", name, revision, "o", "x"));
        }
        let asked = Until::Asked { certain: false };
        overlay.changed(&key("z"), asked, author(), store);

        overlay.changed_some(Some("n"), true, author());
        let began = Instant::now();
        let meanwhile = Until::Left {
            uid: "uid-left".to_owned(),
            revision: 7,
        };
        overlay.changed(&key("left"), meanwhile, author(), store);
        let at_12 = listed(&[("same", 9), ("z", 1)]);
        overlay.listed(author(), Some("n"), began, 12, &at_12, store);

        assert_eq!(names(&cache, Lookup::All), ["new", "same", "z"]);
        let unknown = cache.unknown(author(), Some("n"), None);
        assert_eq!(unknown.by_question, [key("left")], "answered meanwhile");
        assert!(unknown.by_watch.is_empty() && unknown.by_list.is_empty());
    }

    #[test]
    fn namespace_of_deleted_objects_only_is_not_listed() {
        let (cache, mut writer) = cache("");
        let old = object("n", "a", 5, "o", "x");
        watch(&cache, &mut writer, &old);
        cache.overlay.deleted(
            old.key(),
            "uid-a",
            None,
            Instant::now(),
            author(),
            &cache.store,
        );
        writer.remove(&old);
        assert!(
            cache.namespaces().is_empty(),
            "the watch has not confirmed the deletion to the overlay"
        );
        wrote(&cache, &object("m", "b", 9, "o", "x"));
        assert_eq!(cache.namespaces(), BTreeSet::from(["m".to_owned()]));
    }

    #[test]
    fn deletion_leaves_nothing_behind_once_the_watch_has_it() {
        let (cache, mut writer) = cache("");
        for at in 0..20_000 {
            let old = object("n", "a", 2 * at + 1, "o", "x");
            watch(&cache, &mut writer, &old);
            let began = AtomicBool::new(false);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    began.store(true, Release);
                    cache.overlay.deleted(
                        old.key(),
                        "uid-a",
                        None,
                        Instant::now(),
                        author(),
                        &cache.store,
                    );
                });
                while !began.load(Acquire) {
                    std::hint::spin_loop();
                }
                (0..at % 50).for_each(|_| std::hint::spin_loop());
                writer.remove(&old);
                cache
                    .overlay
                    .watched(old.key(), old.uid(), 2 * at + 2, Seen::Gone);
            });
            assert!(cache.overlay.snapshot().is_empty(), "round {at}");
        }
    }

    #[test]
    fn write_that_leaves_selector_leaves_view() {
        let (cache, mut writer) = cache("app=x");
        watch(&cache, &mut writer, &object("n", "a", 5, "o", "x"));
        wrote(&cache, &object("n", "a", 6, "o", "y"));
        wrote(&cache, &object("n", "b", 7, "o", "y"));
        assert!(names(&cache, Lookup::All).is_empty());
    }

    #[test]
    fn namespace_cache_sees_only_its_writes() {
        let (mut cache, _writer) = cache("");
        cache.namespace = Some("n".to_owned());
        let here = object("n", "a", 10, "o", "x");
        let there = object("m", "a", 11, "o", "x");
        wrote(&cache, &here);
        wrote(&cache, &there);
        assert_eq!(cache.get(here.key()), Some(here));
        assert_eq!(cache.get(there.key()), None);
    }

    #[test]
    fn pages_join_without_gap_or_repeat() {
        let (cache, mut writer) = cache("");
        for name in ["a", "c", "e"] {
            watch(&cache, &mut writer, &object("n", name, 5, "o", "x"));
        }
        wrote(&cache, &object("n", "b", 7, "o", "x"));
        let mut after = None;
        let mut seen = Vec::new();
        loop {
            let page = cache
                .list(&query(Lookup::All, Some(1), after.take()))
                .expect("room");
            seen.extend(page.items.iter().map(|item| match item {
                Item::Whole(object) => object.key().name.clone(),
                Item::Projected(_) => String::new(),
            }));
            let Some(token) = page.continue_token else {
                break;
            };
            after = Some(key_of_token(&token).expect("token"));
        }
        assert_eq!(seen, ["a", "b", "c", "e"]);
        assert_eq!(
            key_of_token("../x/y").expect_err("refused").kind,
            ErrorKind::BadRequest
        );
    }
}

//! Server-side apply: the managers of an object's fields, and the result of one manager's apply.
//!
//! A field is a leaf: a scalar, an empty map, or a list. Labels, finalizers and the like are leaves each, and so is
//! each ownerReference. A list is one leaf, as it is in a custom resource whose schema does not say otherwise. The
//! schemas of the built-in kinds say which of their lists are merged item by item. The kit has no schemas: it refuses
//! an apply that would have to merge a list.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::{ApiError, Cause, ErrorKind, Status};

/// The names and keys on the way to a leaf.
type Path = Vec<String>;

/// Fields of the API server, and fields that name the object: they have no manager.
const SYSTEM: [&str; 10] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// A field manager. An apply and an update of the same name are two managers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) applies: bool,
}

/// The fields of an object by their managers. Fields that the test added have none.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners(BTreeMap<Manager, BTreeSet<Path>>);

impl Owners {
    /// Records the fields that a write other than an apply changed: its manager alone owns them afterwards.
    pub(super) fn record(&mut self, manager: Manager, old: Option<&Value>, new: &Value) {
        let before = old.map(leaves).unwrap_or_default();
        let after = leaves(new);
        let changed: BTreeSet<Path> = after
            .iter()
            .filter(|(path, value)| before.get(*path) != Some(*value))
            .map(|(path, _)| path.clone())
            .collect();
        for fields in self.0.values_mut() {
            fields.retain(|path| after.contains_key(path) && !changed.contains(path));
        }
        self.0.entry(manager).or_default().extend(changed);
        self.0.retain(|_, fields| !fields.is_empty());
    }

    /// Returns the object after an apply, and records its fields.
    ///
    /// # Errors
    /// Returns a conflict with the fields of other managers unless `force` is set, and an unsupported error if a list
    /// of a built-in kind would have to be merged.
    pub(super) fn apply(
        &mut self,
        manager: &Manager,
        current: &Value,
        applied: &Value,
        force: bool,
        built_in: bool,
    ) -> Result<Value, ApiError> {
        let before = leaves(current);
        let wanted = leaves(applied);
        let mut conflicts = Vec::new();
        for (other, fields) in self.0.iter().filter(|(other, _)| *other != manager) {
            for path in fields {
                let clashes = wanted.iter().any(|(leaf, value)| {
                    (leaf == path && before.get(path) != Some(value)) || (leaf != path && overlaps(leaf, path))
                });
                if clashes {
                    conflicts.push((other.clone(), path.clone()));
                }
            }
        }
        if !conflicts.is_empty() && !force {
            return Err(conflict(&conflicts, &current["apiVersion"]));
        }
        let mine = self.0.get(manager).cloned().unwrap_or_default();
        for (path, value) in &wanted {
            let stored = before.get(path);
            if built_in && value.is_array() && stored.is_some_and(|stored| stored != value) && !mine.contains(path) {
                let what = format!("server-side apply that merges the list {}", dotted(path));
                return Err(super::errors::unsupported(&what));
            }
        }
        for (other, path) in conflicts {
            if let Some(fields) = self.0.get_mut(&other) {
                fields.remove(&path);
            }
        }
        let mut object = current.clone();
        let owned_by_others =
            |path: &Path| self.0.iter().any(|(other, fields)| other != manager && fields.contains(path));
        for path in mine.iter().filter(|path| !wanted.contains_key(*path) && !owned_by_others(path)) {
            remove(&mut object, path);
        }
        for (path, value) in &wanted {
            set(&mut object, path, value.clone());
        }
        self.0.insert(manager.clone(), wanted.into_keys().collect());
        self.0.retain(|_, fields| !fields.is_empty());
        Ok(object)
    }
}

fn conflict(conflicts: &[(Manager, Path)], api_version: &Value) -> ApiError {
    let using = api_version.as_str().unwrap_or_default();
    let cause = |(manager, path): &(Manager, Path)| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {:?} using {using}", manager.name),
        field: dotted(path),
    };
    let causes: Vec<Cause> = conflicts.iter().map(cause).collect();
    let each: Vec<_> = causes.iter().map(|cause| format!("{}: {}", cause.message, cause.field)).collect();
    let plural = if each.len() == 1 { "conflict" } else { "conflicts" };
    let message = format!("Apply failed with {} {plural}: {}", each.len(), each.join(", "));
    let status = ApiError::new(ErrorKind::Conflict, message).status().clone();
    ApiError::with_status(ErrorKind::Conflict, Status { causes, ..status })
}

fn dotted(path: &Path) -> String {
    path.iter().map(|step| format!(".{step}")).collect()
}

/// Reports whether one of two paths leads through the other.
fn overlaps(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// Returns the function that returns an item's key, for a list of the metadata that is merged item by item.
fn keyed(path: &[String]) -> Option<fn(&Value) -> String> {
    match path {
        [metadata, list] if metadata == "metadata" && list == "finalizers" => {
            Some(|item| item.as_str().unwrap_or_default().to_owned())
        }
        [metadata, list] if metadata == "metadata" && list == "ownerReferences" => {
            Some(|item| item["uid"].as_str().unwrap_or_default().to_owned())
        }
        _ => None,
    }
}

fn leaves(object: &Value) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        match (name.as_str(), value) {
            ("apiVersion" | "kind", _) => {}
            ("metadata", Value::Object(members)) => {
                for (name, value) in members.iter().filter(|(name, _)| !SYSTEM.contains(&name.as_str())) {
                    collect(value, vec!["metadata".to_owned(), name.clone()], &mut found);
                }
            }
            _ => collect(value, vec![name.clone()], &mut found),
        }
    }
    found
}

fn collect(value: &Value, path: Path, found: &mut BTreeMap<Path, Value>) {
    match (value, keyed(&path)) {
        (Value::Object(members), _) if !members.is_empty() => {
            for (name, value) in members {
                collect(value, [path.clone(), vec![name.clone()]].concat(), found);
            }
        }
        (Value::Array(items), Some(key)) => {
            found.extend(items.iter().map(|item| ([path.clone(), vec![key(item)]].concat(), item.clone())));
        }
        _ => {
            found.insert(path, value.clone());
        }
    }
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let Some((last, before)) = path.split_last() else { return };
    let mut parent = object;
    for step in before {
        if !parent[step].is_object() && keyed(before).is_none() {
            parent[step] = Value::Object(Map::new());
        }
        parent = &mut parent[step];
    }
    let Some(key) = keyed(before) else {
        parent[last] = value;
        return;
    };
    if !parent.is_array() {
        *parent = Value::Array(Vec::new());
    }
    let items = parent.as_array_mut().into_iter();
    for items in items {
        match items.iter_mut().find(|item| key(item) == *last) {
            Some(item) => *item = value.clone(),
            None => items.push(value.clone()),
        }
    }
}

/// Removes a leaf, and the maps and lists that become empty.
fn remove(object: &mut Value, path: &[String]) {
    let Some((last, before)) = path.split_last() else { return };
    let pointer: String =
        before.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
    let emptied = match object.pointer_mut(&pointer) {
        Some(Value::Object(members)) => {
            members.remove(last);
            members.is_empty()
        }
        Some(Value::Array(items)) => {
            if let Some(key) = keyed(before) {
                items.retain(|item| key(item) != *last);
            }
            items.is_empty()
        }
        _ => false,
    };
    if emptied && !before.is_empty() && before != ["metadata"] {
        remove(object, before);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use crate::testing::Cluster;
    use crate::{ApiError, Context, DynamicObject, GroupVersionKind, Kind, Patch, WriteOptions};

    const KEY: (&str, &str) = ("ns", "a");

    fn apply(ctx: &Context, manager: &str, force: bool, object: serde_json::Value) -> Result<ConfigMap, ApiError> {
        let patch = Patch::apply(&object).options(WriteOptions::new().field_manager(manager));
        ctx.patch(KEY, if force { patch.force() } else { patch })
    }

    fn data(map: &ConfigMap) -> Vec<String> {
        map.data.iter().flatten().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn apply_creates_changes_and_removes_dropped_fields() {
        let cluster = Cluster::new();
        let ctx = cluster.context();
        let made = apply(&ctx, "m", false, json!({"data": {"a": "1", "b": "1"}})).expect("creates");
        assert_eq!(data(&made), ["a=1", "b=1"]);
        ctx.patch::<ConfigMap>(KEY, Patch::merge(&json!({"data": {"c": "1"}}))).expect("someone else");
        let changed = apply(&ctx, "m", false, json!({"data": {"a": "2"}})).expect("changes");
        assert_eq!(data(&changed), ["a=2", "c=1"], "b went, c is someone else's");
        let again = apply(&ctx, "m", false, json!({"data": {"a": "2"}})).expect("says it again");
        assert_eq!(again.metadata.resource_version, changed.metadata.resource_version, "nothing was written");
    }

    #[test]
    fn field_of_other_manager_conflicts_unless_forced() {
        let ctx = Cluster::new().context();
        apply(&ctx, "first", false, json!({"data": {"a": "1"}})).expect("creates");
        apply(&ctx, "second", false, json!({"data": {"a": "1"}})).expect("two may say the same");
        let error = apply(&ctx, "second", false, json!({"data": {"a": "2"}})).expect_err("owned");
        assert!(error.is_conflict());
        assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"first\" using v1: .data.a");
        assert_eq!(error.status().causes[0].field, ".data.a");
        let taken = apply(&ctx, "second", true, json!({"data": {"a": "2"}})).expect("takes it");
        assert_eq!(data(&taken), ["a=2"]);
        let left = apply(&ctx, "first", false, json!({"metadata": {"labels": {"x": "y"}}})).expect("lets go");
        assert_eq!(data(&left), ["a=2"], "it is the other's now");
    }

    #[test]
    fn merges_finalizers_and_owners_item_by_item() {
        let ctx = Cluster::new().context();
        let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid});
        let metadata = |name: &str| json!({"metadata": {"finalizers": [name], "ownerReferences": [owner(name)]}});
        apply(&ctx, "first", false, metadata("e.dev/1")).expect("creates");
        let both = apply(&ctx, "second", false, metadata("e.dev/2")).expect("adds");
        assert_eq!(both.metadata.finalizers.expect("two"), ["e.dev/1", "e.dev/2"]);
        let one = apply(&ctx, "first", false, json!({})).expect("lets go");
        assert_eq!(one.metadata.finalizers.expect("one"), ["e.dev/2"]);
        assert_eq!(one.metadata.owner_references.expect("one").len(), 1);
    }

    #[test]
    fn replaces_custom_lists_and_refuses_to_merge_built_in_ones() {
        let kind = GroupVersionKind::new("e.dev/v1", "Foo");
        let foo = DynamicObject::new(&kind, KEY).with("spec", json!({"items": [1, 2]}));
        let pod = json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}});
        let deployment = DynamicObject::new(&Deployment::gvk(), KEY).with("spec", pod["spec"].clone());
        let ctx = Cluster::new().with(foo).with(deployment).context();
        let apply = Patch::apply(&json!({"spec": {"items": [3]}})).force();
        let applied = ctx.dynamic(&kind).patch(KEY, apply).expect("replaces");
        assert_eq!(applied.pointer("/spec/items"), Some(&json!([3])));
        let containers = json!({"spec": {"template": {"spec": {"containers": [{"name": "b"}]}}}});
        let error = ctx.patch::<Deployment>(KEY, Patch::apply(&containers).force()).expect_err("a merge");
        assert!(error.to_string().contains("merges the list .spec.template.spec.containers"), "{error}");
    }
}

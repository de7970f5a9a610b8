//! What an event tells about a change: the fields that differ, and the writers by managedFields. Both are found by scanning the
//! texts: no tree is built, because every event of every watch passes here.

use std::borrow::Cow;

use super::record::FieldWriter;
use crate::gate::changes::EVERY_WRITE;
use crate::object::{
    Object,
    scanner::{Fields, Items, field},
};

/// The maximum number of paths of one change; further ones are counted only.
const MAX_PATHS: usize = 32;
/// The maximum length of one path in bytes. A longer one is cut.
const MAX_PATH: usize = 256;
/// The maximum size of an object whose versions are compared, in bytes.
const MAX_COMPARED: usize = 256 << 10;
/// The maximum number of writers of the latest time that are kept.
const MAX_WRITERS: usize = 4;

/// A field that differs: the names that lead to it.
type Steps<'a> = Vec<Cow<'a, str>>;

/// The fields in which two versions of an object differ.
#[derive(Default)]
pub(crate) struct Changed<'a> {
    fields: Vec<Steps<'a>>,
    /// The number of fields beyond [`MAX_PATHS`].
    more: usize,
}

/// Returns the fields in which two versions of an object differ, except those that every write changes. A list counts as one
/// field, and so does an object that was added or removed. None if they are too large to compare.
pub(crate) fn changed<'a>(before: &'a Object, after: &'a Object) -> Option<Changed<'a>> {
    if before.json().len().max(after.json().len()) > MAX_COMPARED {
        return None;
    }
    let mut found = Changed::default();
    compare(before.json(), after.json(), &mut Vec::new(), &mut found);
    Some(found)
}

impl<'a> Changed<'a> {
    fn add(&mut self, field: &Steps<'a>) {
        match self.fields.len() < MAX_PATHS {
            true => self.fields.push(field.clone()),
            false => self.more += 1,
        }
    }

    /// Returns the paths: `.spec.replicas`. Long ones are cut.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.fields.iter().map(|field| path(field)).collect();
        if self.more > 0 {
            paths.push(format!("and {} more", self.more));
        }
        paths
    }
}

fn path(field: &[Cow<'_, str>]) -> String {
    let path: String = field.iter().flat_map(|step| [".", step]).collect();
    let end = path.floor_char_boundary(MAX_PATH);
    if end < path.len() { format!("{}… ({} bytes)", &path[..end], path.len()) } else { path }
}

/// Compares two JSON texts. The API server writes the fields of an object in the same order each time, so two walks side by side
/// find most pairs; the others are looked up.
fn compare<'a>(before: &'a str, after: &'a str, at: &mut Steps<'a>, found: &mut Changed<'a>) {
    if before == after {
        return;
    }
    let (Some(old), Some(new)) = (Fields::of(before), Fields::of(after)) else {
        return found.add(at);
    };
    let old: Vec<_> = old.collect();
    let is_metadata = matches!(&at[..], [only] if only == "metadata");
    let is_of_every_write = |name: &str| is_metadata && EVERY_WRITE.contains(&name);
    let mut next = 0;
    let mut is_found = vec![false; old.len()];
    for (name, value) in new {
        let place = match old.get(next) {
            Some((same, _)) if *same == name => Some(next),
            _ => old.iter().position(|(other, _)| *other == name),
        };
        if let Some(place) = place {
            is_found[place] = true;
            next = place + 1;
        }
        if is_of_every_write(&name) {
            continue;
        }
        at.push(name);
        match place {
            Some(place) => compare(old[place].1, value, at, found),
            None => found.add(at),
        }
        at.pop();
    }
    let gone = old.into_iter().zip(is_found).filter(|(_, is_found)| !is_found).map(|(field, _)| field);
    for (name, _) in gone.filter(|(name, _)| !is_of_every_write(name)) {
        at.push(name);
        found.add(at);
        at.pop();
    }
}

/// Returns the text of an object's managedFields; None if it has none.
pub fn managed_fields(json: &str) -> Option<&str> {
    field(field(json, "metadata")?, "managedFields")
}

/// An entry of managedFields.
struct Entry<'a> {
    writer: FieldWriter,
    fields: &'a str,
}

/// Returns the writers that may have made a change, by the object's managedFields after it. Whoever changes a field owns it from
/// then on, so it is an owner of the changed fields. Without one, as after the removal of a field, it is a writer of the latest
/// time; several write in one second. An entry may have no time, as those of the subresource `scale`.
pub(crate) fn writers(managed_fields: &str, changed: Option<&Changed<'_>>) -> Vec<FieldWriter> {
    let Some(entries) = Items::of(managed_fields) else { return Vec::new() };
    let mut candidates: Vec<Entry<'_>> = entries.filter_map(read_entry).collect();
    let fields = changed.map(|changed| changed.fields.as_slice()).unwrap_or_default();
    let is_owned = |field: &&Steps<'_>| candidates.iter().any(|entry| owns(entry.fields, field));
    let owned: Vec<&Steps<'_>> = fields.iter().filter(is_owned).collect();
    if !owned.is_empty() {
        let owns_all = |entry: &Entry<'_>| owned.iter().all(|field| owns(entry.fields, field));
        let owns_any = |entry: &Entry<'_>| owned.iter().any(|field| owns(entry.fields, field));
        match candidates.iter().any(owns_all) {
            true => candidates.retain(owns_all),
            false => candidates.retain(owns_any),
        }
    }
    if owned.is_empty() && !fields.is_empty() {
        // Fields below status are written through the subresource, and others are not.
        let is_status = fields.iter().all(|field| field.first().is_some_and(|first| first == "status"));
        let fits = |entry: &Entry<'_>| (entry.writer.subresource == "status") == is_status;
        if candidates.iter().any(fits) {
            candidates.retain(fits);
        }
    }
    let latest = candidates.iter().map(|entry| entry.writer.time.clone()).max().unwrap_or_default();
    candidates.retain(|entry| {
        let is_undated = entry.writer.time.is_empty() && !owned.is_empty();
        entry.writer.time == latest || is_undated
    });
    candidates.truncate(MAX_WRITERS);
    candidates.into_iter().map(|entry| entry.writer).collect()
}

fn read_entry(entry: &str) -> Option<Entry<'_>> {
    let mut writer = FieldWriter { manager: String::new(), subresource: String::new(), time: String::new() };
    let mut fields = "";
    for (name, value) in Fields::of(entry)? {
        let text = || serde_json::from_str::<String>(value).unwrap_or_default();
        match &*name {
            "manager" => writer.manager = text(),
            "subresource" => writer.subresource = text(),
            "time" => writer.time = text(),
            "fieldsV1" => fields = value,
            _ => {}
        }
    }
    Some(Entry { writer, fields })
}

/// Reports whether a field set (FieldsV1: `{"f:spec": {"f:replicas": {}}}`) contains a field, a part of it, or an atomic field that
/// contains it.
fn owns(set: &str, steps: &[Cow<'_, str>]) -> bool {
    let mut node = set;
    for (at, step) in steps.iter().enumerate() {
        let Some(mut members) = Fields::of(node) else { return false };
        let found = members.find(|(name, _)| name.strip_prefix("f:") == Some(step));
        match found {
            Some((_, value)) => node = value,
            None => return at > 0 && Fields::of(node).is_some_and(|mut members| members.next().is_none()),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{ManagedFields, kind::GroupVersionKind};

    fn paths(before: &str, after: &str) -> Vec<String> {
        let read = |spec: &str, version: u32| {
            let text = format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}},"spec":{spec}}}"#);
            Object::from_json(&text, &GroupVersionKind::new("v1", "Pod"), ManagedFields::Keep).expect("an object")
        };
        changed(&read(before, 1), &read(after, 2)).expect("small enough").paths()
    }

    #[test]
    fn differing_fields_are_named_without_those_of_every_write() {
        assert_eq!(paths("{}", "{}"), [""; 0]);
        assert_eq!(
            paths(r#"{"a":1,"b":{"c":1,"d":[1]}}"#, r#"{"a":1,"b":{"c":2,"d":[1,2]}}"#),
            [".spec.b.c", ".spec.b.d"]
        );
        assert_eq!(paths(r#"{"a":1,"gone":true}"#, r#"{"new":{"x":1},"a":1}"#), [".spec.new", ".spec.gone"]);
        assert_eq!(paths(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#), [""; 0], "in another order");
        assert_eq!(paths(r#"{"a":{"b":1}}"#, r#"{"a":[1]}"#), [".spec.a"], "of another type");
    }

    #[test]
    fn many_and_long_paths_are_bounded() {
        let fields = |value: u32| {
            let fields: Vec<String> = (0..40).map(|number| format!(r#""f{number:02}":{value}"#)).collect();
            format!("{{{}}}", fields.join(","))
        };
        let found = paths(&fields(1), &fields(2));
        assert_eq!((found.len(), &*found[32]), (33, "and 8 more"));
        let long = "é".repeat(4096);
        let found = paths("{}", &format!(r#"{{"{long}":1}}"#));
        assert!(found[0].len() < 300 && found[0].ends_with("(8198 bytes)"), "{}", found[0]);
    }

    /// Returns an entry of managedFields. The time has seconds only; empty leaves it out.
    fn entry(manager: &str, second: &str, subresource: &str, fields: &str) -> String {
        let time = if second.is_empty() { String::new() } else { format!(r#","time":"2026-01-01T00:00:{second}Z""#) };
        format!(
            r#"{{"fieldsType":"FieldsV1","fieldsV1":{fields},"manager":"{manager}","operation":"Update","subresource":"{subresource}"{time}}}"#
        )
    }

    /// Returns the writers of a change of these fields.
    fn writers_of(entries: &[String], fields: &[&[&str]]) -> Vec<String> {
        let fields = fields.iter().map(|steps| steps.iter().map(|step| Cow::Borrowed(*step)).collect()).collect();
        let found = writers(&format!("[{}]", entries.join(",")), Some(&Changed { fields, more: 0 }));
        found.into_iter().map(|writer| format!("{}/{}", writer.manager, writer.subresource)).collect()
    }

    #[test]
    fn writer_is_the_owner_of_the_changed_fields() {
        let entries = [
            entry("controller", "09", "status", r#"{"f:status":{"f:replicas":{},"f:conditions":{"k:{}":{}}}}"#),
            entry(
                "create",
                "09",
                "",
                r#"{"f:spec":{"f:template":{"f:spec":{}},"f:selector":{}},"f:data":{"f:a.b/c":{}}}"#,
            ),
            entry("kubectl", "", "scale", r#"{"f:spec":{"f:replicas":{}}}"#),
        ];
        assert_eq!(writers_of(&entries, &[&["spec", "replicas"]]), ["kubectl/scale"], "its entry has no time");
        assert_eq!(writers_of(&entries, &[&["status", "replicas"], &["status", "conditions"]]), ["controller/status"]);
        assert_eq!(
            writers_of(&entries, &[&["spec", "selector", "matchLabels"]]),
            ["create/"],
            "a part of an atomic field"
        );
        assert_eq!(writers_of(&entries, &[&["data", "a.b/c"]]), ["create/"], "dots in names");
        assert_eq!(writers_of(&entries, &[&["spec", "template"], &["metadata", "labels"]]), ["create/"]);
    }

    #[test]
    fn without_an_owner_writers_of_the_latest_second_are_named() {
        let entries = [
            entry("a", "09", "", r#"{"f:spec":{"f:x":{}}}"#),
            entry("old", "01", "", r#"{"f:spec":{"f:x":{}}}"#),
            entry("b", "09", "status", "{}"),
        ];
        assert_eq!(writers_of(&entries, &[&["spec", "gone"]]), ["a/"]);
        assert_eq!(writers_of(&entries, &[&["status", "gone"]]), ["b/status"]);
        assert_eq!(writers_of(&entries, &[]), ["a/", "b/status"]);
        assert_eq!(writers_of(&entries, &[&["spec", "x"]]), ["a/"], "the later of two owners");
        assert_eq!(writers_of(&[], &[]), [""; 0]);
        assert!(writers("{}", None).is_empty());
    }

    #[test]
    fn managed_fields_are_found_in_the_text() {
        assert_eq!(managed_fields(r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[1]}}"#), Some("[1]"));
        assert_eq!(managed_fields(r#"{"metadata":{"name":"a"}}"#), None);
        assert_eq!(managed_fields("[]"), None);
    }
}

//! Who manages which fields of an object, according to its [managedFields]. Found by a single pass
//! over the text.
//!
//! [managedFields]: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management

use std::borrow::Cow;

use crate::object::{
    changes::{Change, MAX_CHANGES},
    fields::{seek, string},
    scanner::Scanner,
};

/// A set of changes, one bit each.
type Set = u32;
const _: () = assert!(MAX_CHANGES <= Set::BITS as usize, "a bit for each change");

#[derive(Debug, Default)]
pub(crate) struct FieldManager<'a> {
    /// None if the entry names no manager.
    pub(crate) manager: Option<Cow<'a, str>>,
    /// Empty for the object itself.
    pub(crate) subresource: Cow<'a, str>,
    /// Time of the last write; empty if unknown. It is RFC 3339 in UTC with seconds, so times sort
    /// as text.
    pub(crate) time: Cow<'a, str>,
    /// The changes covered by the entry: it contains their field, a part of it, or an atomic field
    /// around it.
    pub(crate) owned: Set,
}

impl FieldManager<'_> {
    /// Whether the manager owns the field of the change at this position.
    pub(crate) fn owns(&self, change: usize) -> bool {
        (self.owned >> change) & 1 == 1
    }
}

/// The text of an object's managedFields; None if it has none.
pub fn managed_fields(json: &str) -> Option<&str> {
    seek(json, &["metadata", "managedFields"])?
        .value_text(0)
        .ok()
}

/// Reads the entries of managedFields, with the changes they own. Ends early if the text is not
/// JSON. Changes beyond [`MAX_CHANGES`] have no owner.
pub(crate) fn field_managers<'a>(
    managed_fields: &'a str,
    changes: &[Change<'_>],
) -> Vec<FieldManager<'a>> {
    read(Scanner::new(managed_fields), changes)
}

/// The entries of an object's managedFields, latest first; none if it has none.
pub(crate) fn field_managers_of<'a>(
    json: &'a str,
    changes: &[Change<'_>],
) -> Vec<FieldManager<'a>> {
    let scanner = seek(json, &["metadata", "managedFields"]);
    let mut entries = scanner
        .map(|scanner| read(scanner, changes))
        .unwrap_or_default();
    entries.sort_by(|one, other| other.time.cmp(&one.time));
    entries
}

fn read<'a>(mut scanner: Scanner<'a>, changes: &[Change<'_>]) -> Vec<FieldManager<'a>> {
    let mut entries = Vec::new();
    if scanner.peek() != Some(b'[') {
        return entries;
    }

    scanner.at += 1;
    let changes = &changes[..changes.len().min(MAX_CHANGES)];
    let mut is_first = true;

    while scanner.item(&mut is_first) == Ok(true) {
        let Some(entry) = read_entry(&mut scanner, changes) else {
            break;
        };
        entries.extend(entry);
    }

    entries
}

/// Reads an entry; the inner None stands for null. The outer None means the text is not JSON.
fn read_entry<'a>(
    scanner: &mut Scanner<'a>,
    changes: &[Change<'_>],
) -> Option<Option<FieldManager<'a>>> {
    if scanner.peek() != Some(b'{') {
        scanner.value(0).ok()?;
        return Some(None);
    }

    scanner.open(1).ok()?;
    let mut entry = FieldManager::default();
    let mut is_first = true;

    while let Some(name) = scanner.field(&mut is_first).ok()? {
        match &*scanner.text_of(&name) {
            "manager" => entry.manager = string(scanner.value_text(1).ok()?),
            "subresource" => {
                entry.subresource = string(scanner.value_text(1).ok()?).unwrap_or_default();
            }
            "time" => entry.time = string(scanner.value_text(1).ok()?).unwrap_or_default(),
            "fieldsV1" => {
                let all = changes
                    .iter()
                    .enumerate()
                    .fold(0, |all, (at, _)| all | (1 << at));
                entry.owned = owned(scanner, changes, all, 0)?;
            }
            _ => _ = scanner.value(1).ok()?,
        }
    }

    Some(Some(entry))
}

/// Reads a node of a field set ([FieldsV1]: `{"f:spec": {"f:replicas": {}}}`). Returns which of the
/// changes `among` it contains: their field, a part of it, or an atomic field around it. `at` steps
/// of their paths lead to the node. None if the text is not JSON.
///
/// [FieldsV1]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/apis/meta/v1/types.go
fn owned(scanner: &mut Scanner<'_>, changes: &[Change<'_>], among: Set, at: usize) -> Option<Set> {
    let those = |is_one: &dyn Fn(&[Cow<'_, str>]) -> bool, among: Set| {
        let found = changes
            .iter()
            .enumerate()
            .filter(|(bit, change)| (among >> bit) & 1 == 1 && is_one(&change.path.0));
        found.fold(0, |all: Set, (bit, _)| all | (1 << bit))
    };

    // This is the node of the field itself.
    let mut owned = those(&|path| path.len() == at, among);
    let among = among & !owned;
    if among == 0 || scanner.peek() != Some(b'{') {
        scanner.value(at).ok()?;
        return Some(owned);
    }

    scanner.open(at + 1).ok()?;
    let mut is_first = true;
    let mut is_empty = true;

    while let Some(name) = scanner.field(&mut is_first).ok()? {
        is_empty = false;
        let name = scanner.text_of(&name);
        let below = name
            .strip_prefix("f:")
            .map_or(0, |step| those(&|path| path[at] == step, among));
        match below {
            0 => _ = scanner.value(at + 1).ok()?,
            below => owned |= self::owned(scanner, changes, below, at + 1)?,
        }
    }

    Some(if is_empty && at > 0 {
        owned | among
    } else {
        owned
    })
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};
    use serde_json::{Value, json};

    use super::*;
    use crate::object::changes::Path;

    /// Returns the managers that own a field, the latest first.
    fn owners(object: &Value, path: &[&str]) -> Vec<String> {
        let change = Change {
            path: Path::of(path),
            before: "1",
            after: "2",
        };
        // The second of three.
        let other = Change {
            path: Path::of(&["other"]),
            before: "1",
            after: "2",
        };
        let text = object.to_string();
        let entries = field_managers_of(&text, &[other.clone(), change, other]);
        assert!(entries.iter().all(|entry| !entry.owns(0) && !entry.owns(2)));
        let owners = entries.iter().filter(|entry| entry.owns(1));
        owners
            .filter_map(|entry| entry.manager.as_deref())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn finds_field_owner_despite_dots_in_names() {
        let fields = |fields: Value| json!({"metadata": {"managedFields": fields}});
        let entry = |manager: &str, time: &str, set: Value| json!({"manager": manager, "time": time, "fieldsV1": set});
        let object = fields(json!([
            entry("early", "2026-01-01T00:00:00Z", json!({"f:data": {".": {}, "f:a.b/c": {}}})),
            entry("late", "2026-01-01T00:00:09Z", json!({"f:data": {"f:a.b/c": {}, "f:x": {}}})),
            entry("whole", "2026-01-01T00:00:05Z", json!({"f:spec": {"f:selector": {}}})),
            {"manager": "nothing"},
        ]));
        let of = |path: &[&str]| owners(&object, path);
        assert_eq!(of(&["data", "a.b/c"]), ["late", "early"]);
        assert_eq!(of(&["data"]), ["late", "early"], "a part of it");
        assert_eq!(
            of(&["spec", "selector", "app"]),
            ["whole"],
            "a part of something atomic"
        );
        assert_eq!(of(&["data", "y"]), [""; 0]);
        assert_eq!(of(&["spec"]), ["whole"]);
        assert_eq!(of(&["none"]), [""; 0]);
        assert!(field_managers_of(&fields(json!([])).to_string(), &[]).is_empty());
        assert!(field_managers_of("{}", &[]).is_empty());
    }

    #[test]
    fn empty_set_owns_nothing() {
        let entry = |set: &str| {
            format!(r#"{{"metadata":{{"managedFields":[{{"manager":"m","fieldsV1":{set}}}]}}}}"#)
        };
        for (set, is_owner) in [
            ("{}", false),
            (r#"{"f:a":{}}"#, true),
            (r#"{"f:a":{"f:b":{}}}"#, false),
            (r#"{"a":{}}"#, false),
            ("[]", false),
        ] {
            let change = Change {
                path: Path::of(&["a", "x"]),
                before: "1",
                after: "2",
            };
            let text = entry(set);
            let entries = field_managers_of(&text, &[change]);
            assert_eq!(
                entries
                    .iter()
                    .map(|entry| entry.owns(0))
                    .collect::<Vec<_>>(),
                [is_owner],
                "{set}"
            );
        }
    }

    /// Reports whether the tree of a field set contains a field.
    fn has(set: &Value, path: &[&str]) -> bool {
        let mut node = set;
        for (at, step) in path.iter().enumerate() {
            if at > 0 && node.as_object().is_some_and(serde_json::Map::is_empty) {
                return true;
            }
            match node.get(format!("f:{step}")) {
                Some(next) => node = next,
                None => return false,
            }
        }
        true
    }

    fn random_set(chance: &mut StdRng, depth: u32) -> Value {
        let fields = chance.random_range(0..if depth > 3 { 1 } else { 4 });
        let names = ["f:a", "f:b", "f:a.b/\"c", ".", "k:{\"a\":1}", "a"];
        let name = |chance: &mut StdRng| names[chance.random_range(0..names.len())].to_owned();
        Value::Object(
            (0..fields)
                .map(|_| (name(chance), random_set(chance, depth + 1)))
                .collect(),
        )
    }

    #[test]
    fn agrees_with_trees_of_field_sets() {
        let seed: u64 = std::env::var("OPERETTA_SEED")
            .map_or_else(|_| rand::random(), |seed| seed.parse().expect("seed"));
        println!("OPERETTA_SEED={seed}");
        let mut chance = StdRng::seed_from_u64(seed);
        let mut counts = [0; 2];
        for _ in 0..2_000 {
            let set = random_set(&mut chance, 0);
            let names = ["a", "b", "a.b/\"c"];
            let mut path = || {
                (0..chance.random_range(0..5))
                    .map(|_| names[chance.random_range(0..3)])
                    .collect()
            };
            let paths: Vec<Vec<&'static str>> = (0..8).map(|_| path()).collect();
            let change = |path: &Vec<&'static str>| Change {
                path: Path::of(path),
                before: "1",
                after: "2",
            };
            let changes: Vec<_> = paths.iter().map(change).collect();
            let text = json!([{"fieldsV1": set}]).to_string();
            let entries = field_managers(&text, &changes);
            for (at, path) in paths.iter().enumerate() {
                let is_owner = entries[0].owns(at);
                assert_eq!(is_owner, has(&set, path), "{path:?} {text}");
                counts[usize::from(is_owner)] += 1;
            }
        }
        assert!(
            counts.iter().all(|count| *count > 500),
            "both happen: {counts:?}"
        );
    }

    #[test]
    fn many_changes_have_one_owner_each() {
        let names: Vec<String> = (0..40).map(|at| format!("f{at}")).collect();
        let mut changes = Vec::new();
        for name in &names {
            changes.push(Change {
                path: Path::of(&[name]),
                before: "1",
                after: "2",
            });
        }
        let entry = |name: &String| json!({"manager": name, "fieldsV1": {format!("f:{name}"): {}}});
        let text = Value::from(names.iter().map(entry).collect::<Vec<_>>()).to_string();
        let entries = field_managers(&text, &changes);
        let owned: Vec<u32> = entries
            .iter()
            .map(|entry| entry.owned.count_ones())
            .collect();
        assert_eq!(
            owned,
            [[1; 32].as_slice(), &[0; 8]].concat(),
            "the first 32"
        );
        assert!((0..32).all(|at| entries[at].owns(at)));
    }

    #[test]
    fn invalid_managed_fields_end_early() {
        for text in [
            "",
            "{}",
            "[",
            "[1]",
            "[{]",
            r#"[{"fieldsV1":{"f:a":}}]"#,
            r#"[{"manager":"a\"#,
        ] {
            assert!(field_managers(text, &[]).is_empty(), "{text}");
        }
        let deep = format!(
            r#"[{{"manager":"a","fieldsV1":{}"#,
            r#"{"f:a":"#.repeat(100_000)
        );
        let steps = vec!["a"; 100_000];
        let change = Change {
            path: Path::of(&steps),
            before: "1",
            after: "2",
        };
        assert!(field_managers(&deep, &[change]).is_empty());
        let half = r#"[{"manager":"a","fieldsV1":{"f:a":{}}},{"manager":1},{"#;
        let found: Vec<_> = field_managers(half, &[])
            .into_iter()
            .map(|entry| entry.manager)
            .collect();
        assert_eq!(found, [Some("a".into()), None]);
    }

    #[test]
    fn managed_fields_are_found_in_the_text() {
        assert_eq!(
            managed_fields(r#"{"kind":"Pod","metadata":{"name":"a","managedFields":[1]}}"#),
            Some("[1]")
        );
        assert_eq!(managed_fields(r#"{"metadata":{"name":"a"}}"#), None);
        assert_eq!(managed_fields("[]"), None);
    }
}

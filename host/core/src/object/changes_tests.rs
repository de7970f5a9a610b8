//! Which fields differ and how they are named, and random objects against a comparison of trees.

use std::{collections::BTreeSet, fmt::Write, hash::RandomState};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};

use super::{
    changes::{Changes, changes},
    scanner::MAX_DEPTH,
    value::hash,
};

fn compare<'a>(before: &'a str, after: &'a str) -> Changes<'a> {
    changes(before, after, usize::MAX).unwrap_or_else(|| panic!("not compared: {before} {after}"))
}

fn paths(before: &str, after: &str) -> Vec<String> {
    compare(before, after).paths(usize::MAX)
}

fn paths_of(before: &Value, after: &Value) -> Vec<String> {
    paths(&before.to_string(), &after.to_string())
}

/// Returns the changed paths of two objects with these specs.
fn paths_of_specs(before: &str, after: &str) -> Vec<String> {
    let text = |spec: &str, version: u32| {
        format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}},"spec":{spec}}}"#)
    };
    paths(&text(before, 1), &text(after, 2))
}

#[test]
fn names_differences_except_those_of_every_write() {
    let before = json!({"metadata": {"name": "a", "resourceVersion": "1", "generation": 1},
        "spec": {"a": 1, "b": [1], "gone": true}});
    let after = json!({"metadata": {"name": "a", "resourceVersion": "2", "generation": 2, "managedFields": []},
        "spec": {"a": 2, "b": [1, 2], "c": {"d": 1}}});
    assert_eq!(
        paths_of(&before, &after),
        [".spec.a", ".spec.b", ".spec.gone", ".spec.c"]
    );
    assert_eq!(paths_of(&before, &before), [""; 0]);
    let both = json!({"generation": 1});
    assert_eq!(
        paths_of(&both, &json!({"generation": 2})),
        [".generation"],
        "only those of metadata"
    );
    let nested = json!({"spec": {"metadata": {"generation": 1}}});
    assert_eq!(
        paths_of(&nested, &json!({"spec": {"metadata": {}}})),
        [".spec.metadata.generation"]
    );
    let labelled = r#"{"metadata":{"labels":{"a":"1"},"managedFields":[1],"name":"a"}}"#;
    assert_eq!(
        paths(r#"{"metadata":{"generation":1,"name":"a"}}"#, labelled),
        [".metadata.labels"]
    );
    assert_eq!(
        paths(labelled, r#"{"metadata":{"name":"a","generation":1}}"#),
        [".metadata.labels"]
    );
}

#[test]
fn differing_fields_are_named_without_those_of_every_write() {
    assert_eq!(paths_of_specs("{}", "{}"), [""; 0]);
    assert_eq!(
        paths_of_specs(
            r#"{"a":1,"b":{"c":1,"d":[1]}}"#,
            r#"{"a":1,"b":{"c":2,"d":[1,2]}}"#
        ),
        [".spec.b.c", ".spec.b.d"]
    );
    assert_eq!(
        paths_of_specs(r#"{"a":1,"gone":true}"#, r#"{"new":{"x":1},"a":1}"#),
        [".spec.new", ".spec.gone"]
    );
    assert_eq!(
        paths_of_specs(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
        [""; 0],
        "in another order"
    );
    assert_eq!(
        paths_of_specs(r#"{"a":{"b":1}}"#, r#"{"a":[1]}"#),
        [".spec.a"],
        "of another type"
    );
    assert_eq!(
        paths_of_specs(r#"{"a":12}"#, r#"{"a":1}"#),
        [".spec.a"],
        "begins with the other number"
    );
    assert_eq!(
        paths_of_specs(r#"{"a":1}"#, r#"{"a":12}"#),
        [".spec.a"],
        "begins with the other number"
    );
    assert_eq!(paths("1", "{}"), [""], "no fields at all");
}

#[test]
fn spelling_of_values_does_not_count() {
    let plain = r#"{"A":"B","c":[{"d":1,"e":1.0}]}"#;
    let spelled = r#" { "\u0041" : "\u0042", "c" : [ {"e":1.00, "d":1} ] } "#;
    assert_eq!(paths(plain, spelled), [""; 0]);
    assert_eq!(
        paths(r#"{"a":1}"#, r#"{"a":1.0}"#),
        [".a"],
        "as Go's unstructured objects"
    );
}

#[test]
fn null_counts_as_absent() {
    assert_eq!(
        paths(r#"{"a":null,"b":1,"c":{}}"#, r#"{"b":1,"d":null}"#),
        [".c"]
    );
    assert_eq!(paths(r#"{"a":null}"#, r#"{"a":{"b":1}}"#), [".a"]);
}

#[test]
fn values_of_absent_fields_are_null() {
    let found = compare(r#"{"a":{"x":"gone"},"b":1}"#, r#"{"b":2,"c":[3]}"#);
    let found: Vec<_> = found
        .named
        .iter()
        .map(|change| (change.path.to_string(), change.before, change.after))
        .collect();
    let expected = [
        (".a", r#"{"x":"gone"}"#, "null"),
        (".b", "1", "2"),
        (".c", "null", "[3]"),
    ];
    assert_eq!(
        found,
        expected.map(|(path, before, after)| (path.to_owned(), before, after))
    );
}

#[test]
fn many_and_long_paths_are_bounded() {
    let fields = |value: u32| {
        let fields: Vec<String> = (0..40)
            .map(|number| format!(r#""f{number:02}":{value}"#))
            .collect();
        format!("{{{}}}", fields.join(","))
    };
    let found = paths_of_specs(&fields(1), &fields(2));
    assert_eq!((found.len(), &*found[32]), (33, "and 8 more"));
    let long = "é".repeat(4096);
    let found = paths_of_specs("{}", &format!(r#"{{"{long}":1}}"#));
    assert!(
        found[0].len() < 300 && found[0].ends_with("(8198 bytes)"),
        "{}",
        found[0]
    );
}

#[test]
fn long_paths_are_cut_between_characters() {
    let field = "é".repeat(1 << 20);
    let after = json!({"data": {&field: 1}, "x": 1});
    let paths = paths_of(&json!({"data": {}}), &after);
    assert_eq!(
        paths,
        [
            format!(".data.{}… (2097158 bytes)", "é".repeat(125)),
            ".x".to_owned()
        ]
    );
}

#[test]
fn paths_of_one_record_are_bounded_together() {
    let deep = (0..32).map(|number| (format!("{}{number:02}", "f".repeat(1 << 16)), number.into()));
    let after = Value::Object(deep.collect()).to_string();
    let paths = compare("{}", &after).paths(4096);
    let bytes: usize = paths.iter().map(String::len).sum();
    assert!(bytes < 4096 + 32, "{bytes} bytes");
    assert_eq!(
        paths.last().map(String::as_str),
        Some(&*format!("and {} more", 33 - paths.len()))
    );
}

#[test]
fn endless_changes_are_counted() {
    let fields = (0..100)
        .map(|number| format!(r#""f{number:02}":{number}"#))
        .collect::<Vec<_>>()
        .join(",");
    let paths = paths("{}", &format!("{{{fields}}}"));
    assert_eq!(
        (paths.len(), paths[0].as_str(), paths[32].as_str()),
        (33, ".f00", "and 68 more")
    );
}

#[test]
fn gives_up_on_large_deep_and_invalid_texts() {
    assert!(changes("{}", r#"{"a":1}"#, 7).is_some());
    assert!(changes("{}", r#"{"a":1}"#, 6).is_none());
    for invalid in [
        "",
        "a",
        "{",
        r#"{"a":1"#,
        r#"{"a":1}}"#,
        r#"{"a":1,}"#,
        r#"{"a":01}"#,
        r#"{"a" 1}"#,
        "[1,2",
        "<html>",
    ] {
        assert!(
            changes(r#"{"a":1}"#, invalid, usize::MAX).is_none(),
            "{invalid}"
        );
        assert!(
            changes(invalid, r#"{"a":1}"#, usize::MAX).is_none(),
            "{invalid}"
        );
    }
    let nest = |open: &str, close: &str, depth: usize, end: u8| {
        format!("{}{end}{}", open.repeat(depth), close.repeat(depth))
    };
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let compared = |depth| {
            changes(
                &nest(open, close, depth, 1),
                &nest(open, close, depth, 2),
                usize::MAX,
            )
            .map(|found| found.named.len())
        };
        assert_eq!(
            (
                compared(MAX_DEPTH),
                compared(MAX_DEPTH + 1),
                compared(100_000)
            ),
            (Some(1), None, None)
        );
    }
}

/// Fields with other names at each level are read again and again; the sum is bounded.
#[test]
fn gives_up_if_a_comparison_takes_too_long() {
    let nest = |bytes: usize, first: bool| {
        let mut text = format!(r#""{}""#, "x".repeat(bytes));
        for _ in 0..100 {
            text = if first {
                format!(r#"{{"a":1,"b":{text}}}"#)
            } else {
                format!(r#"{{"b":{text}}}"#)
            };
        }
        text
    };
    assert_eq!(
        compare(&nest(1 << 10, true), &nest(1 << 10, false))
            .named
            .len(),
        32
    );
    assert!(changes(&nest(1 << 20, true), &nest(1 << 20, false), usize::MAX).is_none());
    assert!(
        changes(&nest(1 << 20, true), &nest(1 << 20, true), usize::MAX).is_some(),
        "read once"
    );
    let lists = |first: bool| {
        let mut text = format!(r#""{}""#, "x".repeat(1 << 20));
        for _ in 0..60 {
            text = if first {
                format!(r#"[{{"a":1,"b":{text}}}]"#)
            } else {
                format!(r#"[{{"b":{text},"a":1}}]"#)
            };
        }
        text
    };
    assert!(changes(&lists(true), &lists(false), usize::MAX).is_none());
}

/// A comparison of trees: the paths, and the values before and after.
fn tree_changes(
    before: &Value,
    after: &Value,
    path: &str,
    found: &mut Vec<(String, Value, Value)>,
) {
    let every_write = [
        ".metadata.resourceVersion",
        ".metadata.generation",
        ".metadata.managedFields",
    ];
    if before == after || every_write.contains(&path) {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return found.push((path.to_owned(), before.clone(), after.clone()));
    };
    for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let value = |of: &serde_json::Map<String, Value>| of.get(name).cloned().unwrap_or_default();
        tree_changes(&value(old), &value(new), &format!("{path}.{name}"), found);
    }
}

const NAMES: [&str; 9] = [
    "a",
    "b",
    "metadata",
    "generation",
    "managedFields",
    "é",
    "a.b/c",
    "q\"\\",
    "",
];

fn random_value(chance: &mut StdRng, depth: u32) -> Value {
    match chance.random_range(0..if depth > 4 { 6 } else { 12 }) {
        0 => Value::Null,
        1 => chance.random_range(0..2).into(),
        2 => [0.0, 1.0, -0.5, 1e30][chance.random_range(0..4)].into(),
        3 => [u64::MAX, 1 << 53, (1 << 53) + 1][chance.random_range(0..3)].into(),
        4 => (chance.random_range(0..2) == 0).into(),
        5 => ["", "1", "é\n", "\\\"", "x"][chance.random_range(0..5)].into(),
        6 | 7 => (0..chance.random_range(0..4))
            .map(|_| random_value(chance, depth + 1))
            .collect(),
        _ => {
            let fields = chance.random_range(0..6);
            let name = |chance: &mut StdRng| NAMES[chance.random_range(0..NAMES.len())].to_owned();
            Value::Object(
                (0..fields)
                    .map(|_| (name(chance), random_value(chance, depth + 1)))
                    .collect(),
            )
        }
    }
}

/// Changes a value at a few positions.
fn mutate(chance: &mut StdRng, value: &mut Value, depth: u32) {
    match value {
        Value::Object(fields) if !fields.is_empty() && chance.random_range(0..8) > 0 => {
            let at = chance.random_range(0..fields.len());
            let name = fields.keys().nth(at).cloned().unwrap_or_default();
            match chance.random_range(0..6) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(
                    NAMES[chance.random_range(0..9)].to_owned(),
                    random_value(chance, depth + 1),
                )),
                _ => fields
                    .get_mut(&name)
                    .into_iter()
                    .for_each(|value| mutate(chance, value, depth + 1)),
            }
        }
        Value::Array(items) if !items.is_empty() && chance.random_range(0..4) > 0 => {
            let at = chance.random_range(0..items.len());
            mutate(chance, &mut items[at], depth + 1);
        }
        _ => *value = random_value(chance, depth),
    }
}

/// Writes a value in a random spelling: blanks, escapes and the order of fields.
fn spell(chance: &mut StdRng, value: &Value, text: &mut String) {
    let blank = |chance: &mut StdRng, text: &mut String| {
        text.push_str(["", "", "", " ", "\n\t"][chance.random_range(0..5)]);
    };
    let string = |chance: &mut StdRng, of: &str, text: &mut String| match chance.random_range(0..4)
    {
        0 => {
            text.push('"');
            of.encode_utf16()
                .for_each(|unit| write!(text, "\\u{unit:04x}").expect("text"));
            text.push('"');
        }
        _ => text.push_str(&Value::from(of).to_string()),
    };
    blank(chance, text);
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            if chance.random_range(0..3) == 0 {
                fields.shuffle(chance);
            }
            text.push('{');
            for (at, (name, value)) in fields.into_iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                string(chance, name, text);
                blank(chance, text);
                text.push(':');
                spell(chance, value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, value) in items.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                spell(chance, value, text);
            }
            text.push(']');
        }
        Value::String(of) => string(chance, of, text),
        other => text.push_str(&other.to_string()),
    }
    blank(chance, text);
}

#[test]
fn agrees_with_comparison_of_trees() {
    let seed: u64 = std::env::var("OPERETTA_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("seed"));
    println!("OPERETTA_SEED={seed}");
    let mut chance = StdRng::seed_from_u64(seed);
    let hasher = RandomState::new();
    let mut counts = [0; 3];
    for _ in 0..20_000 {
        let mut before =
            json!({"metadata": random_value(&mut chance, 1), "spec": random_value(&mut chance, 1)});
        if chance.random_range(0..4) == 0 {
            before = random_value(&mut chance, 0);
        }
        let mut after = before.clone();
        (0..chance.random_range(0..5)).for_each(|_| mutate(&mut chance, &mut after, 0));
        let [old, new] = [&before, &after].map(|value| {
            let mut text = String::new();
            spell(&mut chance, value, &mut text);
            text
        });
        let mut expected = Vec::new();
        tree_changes(&before, &after, "", &mut expected);
        expected.sort_by(|one, other| one.0.cmp(&other.0));
        let found = compare(&old, &new);
        let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let mut named: Vec<_> = found
            .named
            .iter()
            .map(|change| {
                (
                    change.path.to_string(),
                    value(change.before),
                    value(change.after),
                )
            })
            .collect();
        named.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(named, expected, "{old} {new}");
        for change in &found.named {
            let is_same = value(change.before) == value(change.after);
            assert_eq!(
                hash(change.before, &hasher) == hash(change.after, &hasher),
                is_same,
                "{old} {new}"
            );
        }
        assert_eq!(
            hash(&old, &hasher) == hash(&new, &hasher),
            before == after,
            "{old} {new}"
        );
        counts[named.len().min(2)] += 1;
    }
    assert!(
        counts.iter().all(|count| *count > 1_000),
        "no, one and more changes: {counts:?}"
    );
}

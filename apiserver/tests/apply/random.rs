//! Laws that hold for all sets, objects and requests, checked on random ones. Failures name their
//! seed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use operetta_apiserver::apply::{
    fieldpath::{FieldSet, PathElement},
    manager::{CustomTypes, FieldManager, decode_managed_fields},
    schema::custom_resource_schema,
    typed::{Duplicates, TypedValue},
    value::equal,
};
use serde_json::{Map, Value, json};

const API_VERSION: &str = "test.example.com/v1";

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }

    fn one<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    fn element(&mut self) -> PathElement {
        let names = ["a", "b", "c.d", "e\"<"];

        match self.below(4) {
            0 => PathElement::key([
                ("name".to_owned(), json!(self.one(&names))),
                ("n".to_owned(), json!(self.below(2))),
            ]),
            1 => PathElement::Value(
                [json!("x<"), json!(1), json!(1.5), json!(true)][self.below(4)].clone(),
            ),
            2 => PathElement::Index(self.below(3) as i64),
            _ => PathElement::field(*self.one(&names)),
        }
    }

    fn set(&mut self) -> FieldSet {
        let mut set = FieldSet::new();
        for _ in 0..self.below(12) {
            let path: Vec<_> = (0..=self.below(3)).map(|_| self.element()).collect();
            set.insert(&path);
        }
        set
    }

    /// Any JSON value, as an invalid input.
    fn json(&mut self, depth: usize) -> Value {
        let words = [
            "metadata",
            "managedFields",
            "spec",
            "items",
            "name",
            "f:spec",
            "k:{",
            "v:1",
            "annotations",
        ];

        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.below(3)),
            3 => json!(1.5),
            4 => json!(self.one(&words)),
            5 | 6 => Value::Array((0..self.below(3)).map(|_| self.json(depth - 1)).collect()),
            _ => (0..self.below(4))
                .map(|_| ((*self.one(&words)).to_owned(), self.json(depth - 1)))
                .collect(),
        }
    }

    fn object(&mut self) -> Value {
        let mut spec = Map::new();
        let names = ["x", "y", "z"];

        if self.below(2) == 0 {
            spec.insert("replicas".into(), json!(self.below(3)));
        }
        if self.below(2) == 0 {
            spec.insert("order".into(), json!([self.below(2).to_string()]));
        }

        let picked: Vec<_> = names.iter().filter(|_| self.below(2) == 0).collect();
        // A list that becomes empty disappears, and the next apply of an empty list brings it back,
        // as in the API server.
        if !picked.is_empty() {
            spec.insert("tags".into(), json!(picked));

            let items = picked
                .iter()
                .rev()
                .map(|name| json!({"name": name, "value": self.below(2).to_string()}));
            let items: Vec<_> = items.collect();
            spec.insert("items".into(), json!(items));
        }

        if self.below(2) == 0 {
            spec.insert(
                "free".into(),
                json!({ *self.one(&names): {"deep": self.below(2)} }),
            );
        }

        json!({"apiVersion": API_VERSION, "kind": "Widget", "metadata": {"name": "w", "uid": "1"}, "spec": spec})
    }
}

fn schema() -> Value {
    let recording: Value =
        serde_json::from_str(include_str!("data/recorded.json")).expect("a recording");
    recording["schema"].clone()
}

fn now(second: u64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second as i64).expect("a time")
}

#[test]
fn set_operations_obey_the_laws_of_sets() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let (a, b, c) = (random.set(), random.set(), random.set());

        assert_eq!(a.union(&b), b.union(&a), "seed {seed}");
        assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)), "seed {seed}");
        assert_eq!(a.intersection(&b), b.intersection(&a), "seed {seed}");

        assert_eq!(
            a.difference(&b).union(&a.intersection(&b)),
            a,
            "seed {seed}"
        );
        assert!(a.difference(&b).intersection(&b).is_empty(), "seed {seed}");

        assert_eq!(
            a.union(&b).len() + a.intersection(&b).len(),
            a.len() + b.len(),
            "seed {seed}"
        );

        let rest = a.recursive_difference(&b);
        assert_eq!(
            rest.difference(&a.difference(&b)),
            FieldSet::new(),
            "seed {seed}"
        );

        assert_eq!(a.leaves().difference(&a), FieldSet::new(), "seed {seed}");
        assert_eq!(
            a.paths().into_iter().collect::<FieldSet>(),
            a,
            "seed {seed}"
        );
    }
}

#[test]
fn sets_survive_their_encoding() {
    for seed in 0..2000 {
        let set = Random::new(seed).set();
        let text = set.to_fields_text();
        let fields: Value = serde_json::from_str(&text).expect("JSON");

        assert_eq!(fields, set.to_fields(), "seed {seed}");
        assert_eq!(
            FieldSet::from_fields(&fields).expect("a set"),
            set,
            "seed {seed}: {text}"
        );
    }
}

#[test]
fn merged_and_compared_objects_obey_their_laws() {
    let object_type = custom_resource_schema(Some(&schema()), false).expect("a type");
    for seed in 0..500 {
        let mut random = Random::new(seed);

        let mut typed = || {
            TypedValue::new(
                random.object().into(),
                object_type.clone(),
                Duplicates::Deny,
            )
            .expect("a valid object")
        };
        let (a, b) = (typed(), typed());

        let comparison = a.compare(&b).expect("a comparison");
        let back = b.compare(&a).expect("a comparison");
        assert_eq!(
            (&comparison.added, &comparison.modified),
            (&back.removed, &back.modified),
            "seed {seed}"
        );

        let merged = a.merge(&b).expect("a merge");
        assert!(
            merged
                .compare(&b)
                .expect("a comparison")
                .modified
                .is_empty(),
            "seed {seed}: b wins"
        );
        assert!(
            merged.compare(&b).expect("a comparison").added.is_empty(),
            "seed {seed}: nothing is lost"
        );
        assert!(
            a.compare(&merged).expect("a comparison").removed.is_empty(),
            "seed {seed}: nothing is removed"
        );
        assert!(
            equal(merged.merge(&b).expect("a merge").value(), merged.value()),
            "seed {seed}: twice is once"
        );

        let fields = a.field_set().expect("a set");
        let rest = a.compare(&a.extract(&fields, false)).expect("a comparison");
        assert!(
            rest.added.is_empty() && rest.modified.is_empty(),
            "seed {seed}: an extract is a part"
        );
    }
}

#[test]
fn histories_of_requests_keep_the_managers_consistent() {
    let schema = schema();
    let types = CustomTypes::new("Widget", [(API_VERSION.to_owned(), Some(&schema))], false)
        .expect("types");

    let filters = BTreeMap::new();
    let manager = FieldManager {
        types: &types,
        api_version: API_VERSION,
        kind: "Widget",
        subresource: "",
        filters: &filters,
    };

    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut live = manager.update(None, random.object(), "creator", now(0));

        for step in 1..8 {
            let name = *random.one(&["a", "b", "c"]);
            if random.below(3) == 0 {
                let mut new = random.object();
                new["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
                live = manager.update(Some(&live), new, name, now(step));
                continue;
            }

            let applied = random.object();
            let result = manager.apply(Some(&live), &applied, (name, false), now(step));

            let conflicts = result.is_err();
            let forced = manager
                .apply(Some(&live), &applied, (name, true), now(step))
                .expect("a forced apply");

            match result {
                Ok(object) => assert_eq!(
                    object, forced,
                    "seed {seed} step {step}: there was nothing to force"
                ),
                Err(error) => assert_eq!(error.code, 409, "seed {seed} step {step}: {error}"),
            }

            let again = manager
                .apply(Some(&forced), &applied, (name, false), now(step + 1))
                .expect("no conflict");
            assert_eq!(
                again, forced,
                "seed {seed} step {step}: a repeated apply changes nothing, not even times"
            );

            let other = manager
                .apply(Some(&forced), &applied, ("d", false), now(step + 1))
                .expect("equal values");
            assert!(
                equal(&other["spec"], &forced["spec"]),
                "seed {seed} step {step}: shared values do not conflict"
            );

            live = if conflicts && random.below(2) == 0 {
                live
            } else {
                forced
            };
        }

        check_managers(&live, &types, seed);
    }
}

/// Checks that each managed field exists in the object.
fn check_managers(live: &Value, types: &CustomTypes, seed: u64) {
    use operetta_apiserver::apply::manager::TypeConverter;
    let object_type = types.object_type(API_VERSION, "Widget").expect("a type");

    let typed = TypedValue::new(live.clone().into(), object_type, Duplicates::Allow)
        .expect("a valid object");
    let present = typed.ensure_named_fields(&typed.field_set().expect("a set"));

    let entries = live["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();

    for (manager, fields) in decode_managed_fields(&entries).expect("valid entries").sets {
        let absent = typed.ensure_named_fields(&fields.set).difference(&present);
        assert!(
            absent.is_empty(),
            "seed {seed}: {manager:?} manages {absent}, which is not in {live}"
        );
    }
}

#[test]
fn malformed_objects_are_refused_without_a_panic() {
    let schema = schema();
    let types = CustomTypes::new("Widget", [(API_VERSION.to_owned(), Some(&schema))], false)
        .expect("types");
    let filters = BTreeMap::new();
    let manager = FieldManager {
        types: &types,
        api_version: API_VERSION,
        kind: "Widget",
        subresource: "",
        filters: &filters,
    };

    let mut refused = 0;
    for seed in 0..1000 {
        let mut random = Random::new(seed);

        let mut object = || {
            let mut object = random.json(4);
            if let Value::Object(fields) = &mut object {
                fields.insert("apiVersion".into(), json!(API_VERSION));
                fields.insert("kind".into(), json!("Widget"));
            }
            object
        };

        let (live, new) = (object(), object());
        refused += usize::from(
            manager
                .apply(Some(&live), &new, ("a", false), now(0))
                .is_err(),
        );
        refused += usize::from(
            manager
                .try_update(Some(&live), new.clone(), "a", now(0))
                .is_err(),
        );

        let _ = manager.apply(None, &new, ("kubectl", true), now(0));
        let _ = FieldSet::from_fields(&new);
    }
    assert!(refused > 400, "{refused} were refused");
}

//! Label and field selectors in a guest's reads. White space around a selector changes nothing. Two
//! selectors joined by a comma select the objects that both select. A selector made of requirements
//! selects the objects that meet all of them.
//!
//! The input: two selectors on two lines. The same bytes also draw the requirements of a third
//! selector.

use arbitrary::{Result, Unstructured};
use operetta_core::object::{
    ManagedFields, Object,
    kind::GroupVersionKind,
    selector::{LabelSelector, MetadataFieldSelector},
};

use crate::cut;

const KEYS: [&str; 4] = ["app", "tier", "x.io/in", "notin"];
const VALUES: [&str; 5] = ["", "db", "5", "in", "a-b_c.D"];

/// Checks the module's invariants on one input.
pub fn selector(data: &[u8]) {
    let objects = [
        r#"{"metadata":{"name":"a"}}"#,
        r#"{"metadata":{"name":"a","namespace":"n","labels":{"app":"db","tier":"5","x.io/in":""}}}"#,
        r#"{"metadata":{"name":"b","namespace":"m","labels":{"app":"in","tier":"-9223372036854775808","notin":"a-b_c.D"}}}"#,
    ];
    let kind = GroupVersionKind::new("v1", "Pod");
    let objects =
        objects.map(|text| Object::from_json(text, &kind, ManagedFields::Keep).expect("an object"));
    if let Ok(text) = std::str::from_utf8(data) {
        let (one, other) = text.split_once('\n').unwrap_or((text, ""));
        labels(one, other, &objects);
        fields(one, other, &objects);
    }
    // An error means that there were too few bytes.
    let _drawn = drawn(&mut Unstructured::new(cut(data, b'\n').0), &objects);
}

fn labels(one: &str, other: &str, objects: &[Object]) {
    let Ok(first) = LabelSelector::parse(one) else {
        return;
    };
    assert_eq!(
        LabelSelector::parse(&format!(" {one}\t")).as_ref(),
        Ok(&first)
    );
    for (at, _) in one.match_indices('(') {
        let before = one[..at].split_whitespace().next_back();
        assert!(
            matches!(before, Some("in" | "notin")),
            "{one:?} has values after {before:?}"
        );
    }
    for object in objects {
        let equal = first
            .equalities()
            .all(|(name, value)| object.label(name) == Some(value));
        assert!(
            equal || !first.matches(object),
            "{one:?} selects an object that its equalities exclude"
        );
    }
    let Ok(second) = LabelSelector::parse(other) else {
        return;
    };
    if !one.trim().is_empty() && !other.trim().is_empty() {
        let both = LabelSelector::parse(&format!("{one},{other}")).expect("a joined selector");
        for object in objects {
            assert_eq!(
                both.matches(object),
                first.matches(object) && second.matches(object),
                "{one:?} and {other:?}"
            );
        }
    }
}

fn fields(one: &str, other: &str, objects: &[Object]) {
    let (Ok(first), Ok(second)) = (
        MetadataFieldSelector::parse(one),
        MetadataFieldSelector::parse(other),
    ) else {
        return;
    };
    let both = MetadataFieldSelector::parse(&format!("{one},{other}")).expect("a joined selector");
    for object in objects {
        assert_eq!(
            both.matches(object),
            first.matches(object) && second.matches(object),
            "{one:?} and {other:?}"
        );
    }
}

/// Draws a selector of several requirements, each in one of its notations, and checks which objects
/// it selects.
fn drawn(bytes: &mut Unstructured<'_>, objects: &[Object]) -> Result<()> {
    let mut text = String::new();
    let mut expected = vec![true; objects.len()];
    for at in 0..bytes.int_in_range(1..=4)? {
        let key = *bytes.choose(&KEYS)?;
        let blank = if bytes.ratio(1, 2)? { " " } else { "" };
        let value = *bytes.choose(&VALUES)?;
        let second = *bytes.choose(&VALUES)?;
        let bound = bytes.int_in_range(-9..=9_i64)?;
        let in_list = |found: &str| found == value || found == second;
        let number = |found: Option<&str>| found.and_then(|found| found.parse::<i64>().ok());
        type Test<'t> = Box<dyn Fn(Option<&str>) -> bool + 't>;
        let (requirement, test): (String, Test<'_>) = match bytes.int_in_range(0..=8)? {
            0 => (key.to_owned(), Box::new(|found| found.is_some())),
            1 => (format!("!{blank}{key}"), Box::new(|found| found.is_none())),
            2 => (
                format!("{key}{blank}={blank}{value}"),
                Box::new(|found| found == Some(value)),
            ),
            3 => (
                format!("{key}{blank}=={blank}{value}"),
                Box::new(|found| found == Some(value)),
            ),
            4 => (
                format!("{key}{blank}!={blank}{value}"),
                Box::new(|found| found != Some(value)),
            ),
            5 => (
                format!("{key} in{blank}({value},{blank}{second})"),
                Box::new(|found| found.is_some_and(in_list)),
            ),
            6 => (
                format!("{key} notin{blank}({value}{blank},{second})"),
                Box::new(|found| !found.is_some_and(in_list)),
            ),
            7 => (
                format!("{key}{blank}>{blank}{bound}"),
                Box::new(|found| number(found).is_some_and(|n| n > bound)),
            ),
            _ => (
                format!("{key}{blank}<{blank}{bound}"),
                Box::new(|found| number(found).is_some_and(|n| n < bound)),
            ),
        };
        text = if at == 0 {
            requirement
        } else {
            format!("{text},{blank}{requirement}")
        };
        for (object, expected) in objects.iter().zip(&mut expected) {
            *expected &= test(object.label(key));
        }
    }
    let selector = LabelSelector::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    for (object, expected) in objects.iter().zip(expected) {
        assert_eq!(selector.matches(object), expected, "{text:?} on {object:?}");
    }
    Ok(())
}

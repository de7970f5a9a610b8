//! Tests of the selectors.

use super::{FieldSelector, LabelSelector};

fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
    let parsed = LabelSelector::parse(selector).expect("valid selector");
    parsed.matches(|name| {
        labels
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    })
}

#[test]
fn label_selector_selects_as_the_api_server() {
    let labels = [("app", "web"), ("n", "3"), ("empty", "")];
    let cases = [
        ("", true),
        ("app", true),
        ("!app", false),
        ("app=web", true),
        ("app==web,n=3", true),
        ("app!=web", false),
        ("missing!=web", true),
        ("missing notin (web)", true),
        ("app in (api, web)", true),
        ("app notin (api,web)", false),
        ("n>2", true),
        ("n<3", false),
        ("app>2", false),
        ("empty=", true),
        ("empty in ()", true),
        ("in", false),
        ("in=in", false),
        ("x in (in,notin)", false),
    ];
    for (selector, expected) in cases {
        assert_eq!(matches(selector, &labels), expected, "{selector}");
    }
}

#[test]
fn malformed_label_selectors_are_refused() {
    for selector in [
        "app=web,", "a b", "a in (", "a in (b", "(", "=", "a>b", "!", "a==!b", "é=1", "a=b=c",
        "!a=b",
    ] {
        assert!(LabelSelector::parse(selector).is_err(), "{selector}");
    }
}

#[test]
fn parsers_survive_arbitrary_text() {
    let alphabet = [
        'a', '=', '!', '(', ')', ',', '<', '>', ' ', 'i', 'n', '\\', 'é', '/', '-',
    ];
    let mut seed = 7_u64;
    for _ in 0..20_000 {
        let text: String = (0..8)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                alphabet[(seed >> 33) as usize % alphabet.len()]
            })
            .collect();
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }
}

#[test]
fn field_selector_names_its_fields() {
    let selector =
        FieldSelector::parse("metadata.name=a,status.phase!=Running").expect("valid selector");
    assert_eq!(
        selector.fields().collect::<Vec<_>>(),
        ["metadata.name", "status.phase"]
    );
    assert_eq!(selector.required_name(), Some("a"));
}

//! Reading and writing JSON agree with serde_json, for values of every form and for broken texts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

use super::*;

fn typed(text: &str) -> String {
    with_type(text.to_owned(), &GroupVersionKind::new("e.dev/v1", "Foo")).expect(text)
}

#[test]
fn adds_missing_api_version_and_kind() {
    for (given, sent) in [
        (
            r#"{"spec":1}"#,
            r#"{"apiVersion":"e.dev/v1","kind":"Foo","spec":1}"#,
        ),
        ("{}", r#"{"apiVersion":"e.dev/v1","kind":"Foo"}"#),
        (
            r#"{"kind":"Bar"}"#,
            r#"{"apiVersion":"e.dev/v1","kind":"Bar"}"#,
        ),
        (
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
            r#"{"apiVersion":"v1","kind":"Pod"}"#,
        ),
        (
            r#"{"apiVersion":"v1","a":"b"}"#,
            r#"{"kind":"Foo","apiVersion":"v1","a":"b"}"#,
        ),
    ] {
        assert_eq!(typed(given), sent);
    }

    assert!(with_type("[]".to_owned(), &GroupVersionKind::new("v1", "Pod")).is_err());
}

#[test]
fn absent_null_and_empty_are_equal() {
    for (a, b, equal) in [
        (json!({}), json!({"a": null, "b": [], "c": {"d": {}}}), true),
        (json!({"a": [1, {"b": []}]}), json!({"a": [1, {}]}), true),
        (json!({"a": 0}), json!({}), false),
        (json!({"a": ""}), json!({}), false),
        (json!({"a": [1]}), json!({"a": [1, 1]}), false),
        (json!({"a": [null]}), json!({"a": []}), false),
    ] {
        assert_eq!(same(&a, &b), equal, "{a} {b}");
        assert_eq!(same(&b, &a), equal, "{b} {a}");
    }
}

/// Something of every form that serde has.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Form {
    Unit,
    Newtype(i64),
    Tuple(u8, String),
    Struct { flag: bool },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(f64),
    Texts(Vec<String>),
    Object { a: Option<i32> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Every<'a> {
    form: Vec<Form>,
    untagged: Vec<Untagged>,
    #[serde(borrow)]
    borrowed: Cow<'a, str>,
    number: (i8, u64, i128, f32),
    keys: BTreeMap<u16, char>,
    flags: BTreeMap<bool, ()>,
    none: Option<String>,
    #[serde(default)]
    absent: Vec<u8>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

const EVERY: &str = r#"{"form":["Unit",{"Newtype":-7},{"Tuple":[1,"é\n"]},{"Struct":{"flag":true}}],"untagged":[0.5,["a"],{"a":1}],"borrowed":"b","number":[-128,18446744073709551615,-170141183460469231731687303715884105728,0.1],"keys":{"1":"x","65535":"\""},"flags":{"true":null},"none":null,"absent":[],"more":{"deep":[1,-2,3.5,null,true,"\u0001"]}}"#;

const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{}}},"manager":"x"}],"name":"web"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":1},"type":"RollingUpdate"},"template":{"spec":{"containers":[{"image":"a:1","name":"a","resources":{"limits":{"cpu":"500m"}}}]}}}}"#;

fn agrees<'a, T: Deserialize<'a> + Serialize + PartialEq + Debug>(text: &'a str) {
    let ours: T = from_str(text).expect(text);
    assert_eq!(ours, serde_json::from_str(text).expect(text));

    assert_eq!(
        to_string(&ours).expect(text),
        serde_json::to_string(&ours).expect(text)
    );
}

#[test]
fn reads_and_writes_as_serde_json_does() {
    agrees::<Every<'_>>(EVERY);
    agrees::<Value>(EVERY);
    agrees::<Deployment>(DEPLOYMENT);

    for text in [
        "null",
        " true ",
        "[]",
        "{}",
        "-0",
        "0",
        "1e2",
        "-1.5E-3",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        r#""\ud83d\ude00\/\b\f\t\r""#,
        "\"a text of more than eight bytes, \u{e9}\"",
        "[[[1,[]],{\"a\":{}}]]\n",
    ] {
        agrees::<Value>(text);
    }
}

#[test]
fn reads_and_writes_raw_values() {
    let text = r#"{"a":[1, {"b":  "]"}],"c":1e5}"#;
    let raw: BTreeMap<String, Box<RawValue>> = from_str(text).expect("an object");
    assert_eq!(raw["a"].get(), r#"[1, {"b":  "]"}]"#);
    assert_eq!(to_string(&raw).expect("JSON"), text);

    let borrowed: BTreeMap<&str, &RawValue> = from_str(text).expect("an object");
    assert_eq!(borrowed["c"].get(), "1e5");
}

#[test]
fn quantity_keeps_text_of_number() {
    for (text, quantity) in [
        ("\"500m\"", "500m"),
        ("2", "2"),
        ("-1", "-1"),
        ("0.5", "0.5"),
    ] {
        assert_eq!(
            from_str::<Quantity>(text).expect(text),
            Quantity(quantity.to_owned())
        );
    }

    assert!(from_str::<Quantity>("true").is_err());
}

#[test]
fn broken_texts_are_refused_as_by_serde_json() {
    let mut state: u32 = 1;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };

    let alphabet = br#"{}[]",:0-.e\tnu a"#;
    // serde_json rounds numbers with many digits less exactly.
    let every = EVERY
        .replace("18446744073709551615", "18")
        .replace("-170141183460469231731687303715884105728", "-17");

    let mut refused = 0;
    for round in 0..20_000 {
        let text = if round % 2 == 0 { &*every } else { DEPLOYMENT };
        let mut bytes = text.as_bytes().to_vec();
        let at = next(bytes.len());
        match next(3) {
            0 => bytes.truncate(at),
            1 => drop(bytes.remove(at)),
            _ => bytes[at] = alphabet[next(alphabet.len())],
        }

        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };

        let value = from_str::<Value>(&text).ok();
        assert_eq!(value, serde_json::from_str(&text).ok(), "{text}");
        assert_eq!(
            from_str::<IgnoredAny>(&text).is_ok(),
            value.is_some(),
            "{text}"
        );

        assert_eq!(
            from_str::<Every<'_>>(&text).ok(),
            serde_json::from_str(&text).ok(),
            "{text}"
        );

        refused += usize::from(value.is_none());
    }
    assert!((1000..19_000).contains(&refused), "{refused} of 20,000");
}

#[test]
fn deep_text_is_refused() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(from_str::<Value>(&nested(127)).is_ok());

    let error = from_str::<Value>(&nested(100_000)).expect_err("too deep");
    assert!(
        error
            .to_string()
            .starts_with("recursion limit exceeded at line 1"),
        "{error}"
    );

    // A level that is skipped takes a byte of memory and no stack.
    assert!(from_str::<IgnoredAny>(&nested(100_000)).is_ok());
}

#[test]
fn errors_name_problem_and_position() {
    let error = |text: &str| from_str::<Deployment>(text).expect_err(text).to_string();

    assert_eq!(
        error("{\"spec\":\n{\"replicas\":\"two\"}}"),
        "invalid type: string \"two\", expected i32 at line 2 column 17"
    );
    assert_eq!(
        error("[]"),
        "invalid type: sequence, expected Deployment at line 1 column 0"
    );

    assert_eq!(error("{} x"), "trailing characters at line 1 column 3");
    assert!(
        error("{\"metadata\":{\"creationTimestamp\":\"today\"}}")
            .starts_with("not a time as in RFC 3339")
    );

    assert!(
        error("{\"spec\":{\"replicas\":3000000000}}")
            .starts_with("invalid value: integer `3000000000`")
    );
}

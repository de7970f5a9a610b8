//! JSON and YAML as Go reads and writes them, in requests and answers.

use serde_json::{Value, json};

use crate::{
    client::{Answer, Client},
    custom::define,
};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const YAML: &str = "content-type: application/yaml";
const APPLY: &str = "content-type: application/apply-patch+yaml";

/// A server with widgets, whose spec may have any fields.
async fn with_widgets() -> Client {
    let client = Client::new();
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": any}});
    define(
        &client,
        &json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]),
    )
    .await;
    client
}

fn widget(name: &str, spec: &[u8]) -> Vec<u8> {
    let head = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":"#
    );
    [head.as_bytes(), spec, b"}"].concat()
}

async fn patch(client: &Client, name: &str, media: &str, body: impl Into<bytes::Bytes>) -> Answer {
    let path = format!("{WIDGETS}/{name}?fieldManager=test");
    let media = format!("content-type: application/{media}");
    client.send_bytes("PATCH", &path, &[&media], body).await
}

#[tokio::test]
async fn what_is_no_unicode_becomes_the_replacement_character() {
    let client = with_widgets().await;

    let spec = b"{\"half\":\"\\ud800\",\"byte\":\"a\xffb\",\"cut\":\"\xe2\x82\",\"pair\":\"\\ud83d\\ude00\"}";
    let created = client
        .send_bytes("POST", WIDGETS, &[], widget("a", spec))
        .await;
    assert_eq!(created.code, 201, "{}", created.text());
    let expected = json!({
        "half": "\u{fffd}", "byte": "a\u{fffd}b", "cut": "\u{fffd}\u{fffd}", "pair": "😀",
    });
    assert_eq!(created.json()["spec"], expected);

    let merged = patch(
        &client,
        "a",
        "merge-patch+json",
        &b"{\"spec\":{\"half\":\"x\\udc00\",\"byte\":\"\xfe\"}}"[..],
    )
    .await;
    assert_eq!(merged.code, 200, "{}", merged.text());
    assert_eq!(merged.json()["spec"]["half"], "x\u{fffd}");
    assert_eq!(merged.json()["spec"]["byte"], "\u{fffd}");

    let replaced = patch(
        &client,
        "a",
        "json-patch+json",
        &b"[{\"op\":\"replace\",\"path\":\"/spec/cut\",\"value\":\"\xc3\"}]"[..],
    )
    .await;
    assert_eq!(replaced.code, 200, "{}", replaced.text());
    assert_eq!(replaced.json()["spec"]["cut"], "\u{fffd}");

    let body = b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"\xff\\ud800\"}}";
    let created = client.send_bytes("POST", CONFIG_MAPS, &[], &body[..]).await;
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(created.json()["data"]["k"], "\u{fffd}\u{fffd}");
}

#[tokio::test]
async fn numbers_are_stored_and_shown_as_go_writes_them() {
    let client = with_widgets().await;
    let numbers = |text: &str| {
        let (_, spec) = text.split_once(r#""spec":"#).expect("a spec");
        spec[..=spec.find('}').expect("its end")].to_owned()
    };

    let spec = br#"{"a":1.0,"b":1e+20,"c":1e-6,"d":9223372036854775808,"e":18446744073709551615,"f":-0.0,"g":1e21,"h":1E-7,"i":9223372036854775807,"j":"<&>"}"#;
    let expected = r#"{"a":1,"b":100000000000000000000,"c":0.000001,"d":9223372036854776000,"e":18446744073709552000,"f":0,"g":1e+21,"h":1e-7,"i":9223372036854775807,"j":"\u003c\u0026\u003e"}"#;
    let created = client
        .send_bytes("POST", WIDGETS, &[], widget("a", spec))
        .await;
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(numbers(&created.text()), expected);

    let path = format!("{WIDGETS}/a");
    let read = client.send_bytes("GET", &path, &[], "").await;
    assert_eq!(numbers(&read.text()), expected);
    let list = client.send_bytes("GET", WIDGETS, &[], "").await;
    assert_eq!(numbers(&list.text()), expected);

    let path = format!("{path}?pretty=true");
    let pretty = client.send_bytes("GET", &path, &[], "").await;
    assert!(
        pretty
            .text()
            .contains("\n    \"b\": 100000000000000000000,\n"),
        "{}",
        pretty.text()
    );

    let merged = patch(
        &client,
        "a",
        "merge-patch+json",
        r#"{"spec":{"a":2.50,"b":1e2}}"#,
    )
    .await;
    assert!(
        numbers(&merged.text()).starts_with(r#"{"a":2.5,"b":100,"#),
        "{}",
        merged.text()
    );

    let applied = patch(
        &client,
        "c",
        "apply-patch+yaml",
        widget("c", br#"{"n":9007199254740993,"m":1.0}"#),
    )
    .await;
    assert_eq!(numbers(&applied.text()), r#"{"m":1,"n":9007199254740993}"#);

    let too_large = widget("b", br#"{"a":1e400}"#);
    let refused = client.send_bytes("POST", WIDGETS, &[], too_large).await;
    assert_eq!(refused.code, 400);
    assert_eq!(
        refused.json()["message"],
        "Widget in version \"v1\" cannot be handled as a Widget: json: cannot unmarshal number 1e400 into Go value of \
         type float64"
    );
}

#[tokio::test]
async fn bodies_are_yaml_1_1() {
    let client = with_widgets().await;
    let text = "\
apiVersion: example.com/v1
kind: Widget
metadata: {name: a}
spec:
  enabled: yes
  mode: 0755
  time: 12:30:45
  date: 2024-05-06
  n: y
  version: 1.10
  shared: &shared {x: 1, y: off}
  own:
    <<: *shared
    x: 2
";
    let expected = json!({
        "enabled": true, "mode": 493, "time": "12:30:45", "date": "2024-05-06", "false": true,
        "version": 1.1, "shared": {"x": 1, "true": false}, "own": {"x": 2, "true": false},
    });

    let created = client.send_bytes("POST", WIDGETS, &[YAML], text).await;
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(created.json()["spec"], expected);

    let path = format!("{WIDGETS}/b?fieldManager=test");
    let text = text.replace("name: a", "name: b");
    let applied = client.send_bytes("PATCH", &path, &[APPLY], text).await;
    assert_eq!(applied.code, 201, "{}", applied.text());
    assert_eq!(applied.json()["spec"], expected);

    // What comes back in YAML means the same to a reader of YAML 1.1.
    let texts = json!({"spec": {"a": "yes", "b": "0755", "c": "1e3", "d": "null", "e": "x: y"}});
    client.patch(&format!("{WIDGETS}/a"), &texts).await;
    let path = format!("{WIDGETS}/a");
    let read = client
        .send_bytes("GET", &path, &["accept: application/yaml"], "")
        .await;
    for line in [
        "  a: \"yes\"\n",
        "  b: \"0755\"\n",
        "  c: \"1e3\"\n",
        "  d: \"null\"\n",
        "  e: \"x: y\"\n",
    ] {
        assert!(read.text().contains(line), "{line}: {}", read.text());
    }
}

#[tokio::test]
async fn duplicate_fields_of_yaml_are_reported() {
    let client = with_widgets().await;
    let text = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n  a: x\n  a: z\nwrong: 1\n"
        )
    };
    let send = async |method: &str, path: String, media: &str, name: &str| {
        client.send_bytes(method, &path, &[media], text(name)).await
    };

    let warned = send(
        "POST",
        format!("{CONFIG_MAPS}?fieldValidation=Warn"),
        YAML,
        "a",
    )
    .await;
    assert_eq!(warned.code, 201, "{}", warned.text());
    assert_eq!(warned.json()["data"]["a"], "z");
    assert_eq!(
        warned.warnings,
        [
            r#"299 - "line 6: key \"a\" already set in map""#,
            r#"299 - "unknown field \"wrong\"""#,
        ]
    );

    let strict = send(
        "POST",
        format!("{CONFIG_MAPS}?fieldValidation=Strict"),
        YAML,
        "b",
    )
    .await;
    let duplicate = "yaml: unmarshal errors:\n  line 6: key \"a\" already set in map";
    let expected = format!(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: {duplicate}, unknown field \"wrong\""
    );
    assert_eq!(strict.code, 400);
    assert_eq!(strict.json()["message"], Value::from(expected));

    // An unknown field is an error of its own in an apply.
    let client_path = format!("{CONFIG_MAPS}/c?fieldManager=test&fieldValidation=Strict");
    let known = text("c").replace("wrong: 1\n", "");
    let refused = client
        .send_bytes("PATCH", &client_path, &[APPLY], known.clone())
        .await;
    let expected =
        format!("error strict decoding YAML: error converting YAML to JSON: {duplicate}");
    assert_eq!(refused.code, 400);
    assert_eq!(refused.json()["message"], Value::from(expected));

    let path = client_path.replace("Strict", "Warn");
    let warned = client.send_bytes("PATCH", &path, &[APPLY], known).await;
    assert_eq!(warned.code, 201, "{}", warned.text());
    assert_eq!(
        warned.warnings,
        [r#"299 - "line 6: key \"a\" already set in map""#]
    );
}

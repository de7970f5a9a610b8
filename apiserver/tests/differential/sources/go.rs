//! JSON and YAML as Go reads and writes them, warnings, duplicate owners, and odd paths of printer
//! columns: the cases of `tests/embedded/` and of the tables of custom resources.

use serde_json::{Value, json};

use crate::{exchange::Request, runner::Runner, sources::namespace};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/go.example/v1/namespaces/go/widgets";
const LIMITS: &str = "/apis/go.example/v1/namespaces/go/limits";
const CONFIG_MAPS: &str = "/api/v1/namespaces/go/configmaps";
const PODS: &str = "/api/v1/namespaces/go/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/go/deployments";

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const YAML: &str = "application/yaml";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub async fn run(runner: &mut Runner) {
    namespace(runner, "go").await;
    define(runner, &definition("widgets", "Widget", &any(), &json!([]))).await;

    unicode(runner).await;
    numbers(runner).await;
    yaml(runner).await;
    duplicate_fields(runner).await;
    duplicate_owners(runner).await;
    warnings(runner).await;
    columns(runner).await;
    old_values(runner).await;
}

/// The schema of a spec with any fields.
fn any() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// The definition of a kind whose spec has this schema, with these printer columns.
fn definition(plural: &str, kind: &str, spec: &Value, columns: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
    });

    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.go.example")},
        "spec": {
            "group": "go.example", "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind}, "versions": [version],
        },
    })
}

/// Creates a definition, and waits until both servers serve its kind.
async fn define(runner: &mut Runner, definition: &Value) {
    runner.send(Request::post(CRDS, definition)).await;

    let plural = definition["spec"]["names"]["plural"]
        .as_str()
        .expect("a plural");
    let path = format!("/apis/go.example/v1/namespaces/go/{plural}");
    runner.wait(&path, 200, "", &Value::Null).await;

    // The real server's handler of patches knows the schema a moment later.
    runner.settle(1000).await;
}

/// A widget whose spec is this JSON.
fn widget(name: &str, spec: &[u8]) -> Vec<u8> {
    let head = format!(
        r#"{{"apiVersion":"go.example/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":"#
    );
    [head.as_bytes(), spec, b"}"].concat()
}

async fn create_widget(runner: &mut Runner, name: &str, spec: &[u8]) {
    let request = Request::new("POST", WIDGETS).bytes(&widget(name, spec));
    runner.send(request.literal()).await;
}

async fn patch_widget(runner: &mut Runner, name: &str, media: &str, body: &[u8]) {
    let path = format!("{WIDGETS}/{name}?fieldManager=test");
    let request = Request::new("PATCH", path)
        .bytes(body)
        .header("Content-Type", media);
    runner.send(request.literal()).await;
}

/// Halves of surrogates, bytes that are no UTF-8, and characters that are cut off.
async fn unicode(runner: &mut Runner) {
    let spec = b"{\"half\":\"\\ud800\",\"byte\":\"a\xffb\",\"cut\":\"\xe2\x82\",\"pair\":\"\\ud83d\\ude00\"}";
    create_widget(runner, "unicode", spec).await;

    let merge = b"{\"spec\":{\"half\":\"x\\udc00\",\"byte\":\"\xfe\"}}";
    patch_widget(runner, "unicode", MERGE, merge).await;

    let replace = b"[{\"op\":\"replace\",\"path\":\"/spec/cut\",\"value\":\"\xc3\"}]";
    patch_widget(runner, "unicode", JSON_PATCH, replace).await;

    let applied = widget(
        "applied-unicode",
        b"{\"half\":\"\\udc00\",\"byte\":\"\xff\"}",
    );
    patch_widget(runner, "applied-unicode", APPLY, &applied).await;

    let map = b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"unicode\"},\"data\":{\"k\":\"\xff\\ud800\"}}";
    runner
        .send(Request::new("POST", CONFIG_MAPS).bytes(map))
        .await;

    let merge = b"{\"data\":{\"k\":\"\xe2\x82\\udc00\"}}";
    let path = format!("{CONFIG_MAPS}/unicode");
    let request = Request::new("PATCH", path).bytes(merge);
    runner.send(request.header("Content-Type", MERGE)).await;
}

/// Integers that no int64 holds, and floats, which are rounded and written as Go does.
async fn numbers(runner: &mut Runner) {
    let spec = br#"{"a":1.0,"b":1e+20,"c":1e-6,"d":9223372036854775808,"e":18446744073709551615,"f":-0.0,"g":1e21,"h":1E-7,"i":9223372036854775807,"j":"<&>"}"#;
    create_widget(runner, "numbers", spec).await;

    let path = format!("{WIDGETS}/numbers");
    for request in [
        Request::get(&path),
        Request::get(format!("{path}?pretty=true")),
        Request::get(&path).header("Accept", YAML),
        Request::get(WIDGETS),
    ] {
        runner.send(request.literal()).await;
    }

    let merge = br#"{"spec":{"a":2.50,"b":1e2}}"#;
    patch_widget(runner, "numbers", MERGE, merge).await;

    let applied = widget("applied-numbers", br#"{"n":9007199254740993,"m":1.0}"#);
    patch_widget(runner, "applied-numbers", APPLY, &applied).await;

    create_widget(runner, "too-large", br#"{"a":1e400}"#).await;
}

/// Booleans, octal and sexagesimal numbers, and merges of YAML 1.1.
async fn yaml(runner: &mut Runner) {
    let text = |name: &str| {
        format!(
            "\
apiVersion: go.example/v1
kind: Widget
metadata: {{name: {name}}}
spec:
  enabled: yes
  mode: 0755
  time: 12:30:45
  date: 2024-05-06
  n: y
  version: 1.10
  shared: &shared {{x: 1, y: off}}
  own:
    <<: *shared
    x: 2
"
        )
    };

    let request = Request::new("POST", WIDGETS).text(&text("yaml"));
    runner
        .send(request.header("Content-Type", YAML).literal())
        .await;
    patch_widget(
        runner,
        "applied-yaml",
        APPLY,
        text("applied-yaml").as_bytes(),
    )
    .await;

    // Texts that YAML 1.1 takes for something else unless they are quoted.
    let texts = json!({"spec": {"a": "yes", "b": "0755", "c": "1e3", "d": "null", "e": "x: y"}});
    patch_widget(runner, "yaml", MERGE, texts.to_string().as_bytes()).await;
    let request = Request::get(format!("{WIDGETS}/yaml")).header("Accept", YAML);
    runner.send(request.literal()).await;
}

/// Fields that YAML has twice, and unknown ones.
async fn duplicate_fields(runner: &mut Runner) {
    let known = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n  a: x\n  a: z\n"
        )
    };

    for (name, validation) in [
        ("ignored-twice", "Ignore"),
        ("warned-twice", "Warn"),
        ("strict-twice", "Strict"),
    ] {
        let path = format!("{CONFIG_MAPS}?fieldValidation={validation}");
        let unknown = known(name) + "wrong: 1\n";
        let request = Request::new("POST", path).text(&unknown);
        runner.send(request.header("Content-Type", YAML)).await;

        let path =
            format!("{CONFIG_MAPS}/applied-{name}?fieldManager=test&fieldValidation={validation}");
        let request = Request::new("PATCH", path).text(&known(&format!("applied-{name}")));
        runner.send(request.header("Content-Type", APPLY)).await;
    }
}

/// Owners that an object has twice.
async fn duplicate_owners(runner: &mut Runner) {
    let owner = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let owners = json!([
        owner("a", "1"),
        owner("b", "2"),
        owner("a", "1"),
        owner("c", "2"),
        owner("a", "1")
    ]);
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "owned", "ownerReferences": owners},
    });
    let path = format!("{CONFIG_MAPS}/owned");

    runner.send(Request::post(CONFIG_MAPS, &object)).await;
    runner.send(Request::put(&path, &object)).await;

    let patch = json!({"metadata": {"ownerReferences": owners}});
    let patched = runner.send(Request::patch(&path, "merge", &patch)).await;
    runner.send(Request::put(&path, &patched.body)).await;
}

/// Pods and templates that are valid, and warned of when they are created.
async fn warnings(runner: &mut Runner) {
    let account = json!({"metadata": {"name": "default"}});
    runner
        .send(Request::post(
            "/api/v1/namespaces/go/serviceaccounts",
            &account,
        ))
        .await;
    runner.settle(1000).await;

    let port = json!({"containerPort": 80});
    let containers = json!([
        {"name": "c", "image": "i", "ports": [port]},
        {"name": "d", "image": "i", "ports": [port]},
    ]);
    let spec = json!({"automountServiceAccountToken": false, "containers": containers});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});

    let mut labelled = runner.send(Request::post(PODS, &pod)).await.body;
    labelled["metadata"]["labels"] = json!({"a": "b"});
    runner
        .send(Request::put(format!("{PODS}/p"), &labelled))
        .await;

    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": -1,
        },
    });
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    runner.send(Request::post(DEPLOYMENTS, &deployment)).await;
}

/// Columns whose paths client-go reads in its own way. A malformed one ends the table.
async fn columns(runner: &mut Runner) {
    const PATHS: [&str; 36] = [
        ".spec.http[].match",
        ".spec.e[].match",
        ".spec range",
        ".spec.last foo",
        ".spec[]",
        ".spec.n",
        ".spec.http[-1:].match",
        ".spec.http[:].match",
        ".spec.http[::2].match",
        ".spec.http[0:].match",
        ".spec.http[0, 1].match",
        ".spec['last']",
        ".spec['a.b']",
        ".spec['a\\.b']",
        "..z",
        ".spec..q",
        "$.spec.last",
        "spec.last",
        ".spec.",
        ".spec.last.",
        ".spec..",
        "'x'",
        "5",
        "1.5",
        "true",
        ".spec.http[?(@.match=='b')].match",
        ".spec.http[?(@.match)]",
        ".spec.http[*].match",
        ".spec.last}x",
        ".spec.last} {.spec.n",
        ".sp\\ec.last",
        ".spec.http[1:0]",
        ".spec.http[9]",
        "['spec'].last",
        ".spec.http.[0].match",
        ".spec-x",
    ];
    let column =
        |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});

    let read: Vec<Value> = PATHS
        .iter()
        .map(|path| column(path, "string", path))
        .collect();
    let ended = json!([
        column("match", "string", ".spec.http[].match"),
        column("word", "string", ".spec range"),
        column("last", "string", ".spec.last"),
        column("malformed", "string", ".spec[x]"),
        column("left-out", "string", ".spec.last"),
    ]);
    let types = ["string", "integer", "number", "boolean", "date"];
    let typed: Vec<Value> = [".spec.i", ".spec.f", ".spec.b", ".spec.l", ".spec.n"]
        .iter()
        .flat_map(|path| types.map(|kind| column(&format!("{path} as {kind}"), kind, path)))
        .collect();

    for (plural, kind, columns) in [
        ("reads", "Read", json!(read)),
        ("ends", "End", ended),
        ("typeds", "Typed", json!(typed)),
    ] {
        define(runner, &definition(plural, kind, &any(), &columns)).await;

        let object = json!({
            "apiVersion": "go.example/v1", "kind": kind, "metadata": {"name": "n"},
            "spec": {
                "a.b": 1, "n": null, "http": [{"match": "a"}, {"match": "b"}], "e": [], "last": "z",
                "m": {"y": [1, {"z": 2}], "x": {"q": "t"}},
                "i": 3, "f": 2.5, "b": true, "l": [1, "x"],
            },
        });
        let path = format!("/apis/go.example/v1/namespaces/go/{plural}");
        runner.send(Request::post(&path, &object)).await;
        for path in [path.clone(), format!("{path}/n")] {
            runner
                .send(Request::get(path).header("Accept", TABLE))
                .await;
        }
    }
}

/// A rule that asks for the type of the old value.
async fn old_values(runner: &mut Runner) {
    let size = json!({"type": "integer", "x-kubernetes-validations": [{
        "rule": "type(oldSelf) == optional_type && self >= oldSelf.orValue(0)",
        "optionalOldSelf": true, "message": "must not shrink",
    }]});
    let spec = json!({"type": "object", "properties": {"size": size}});
    define(runner, &definition("limits", "Limit", &spec, &json!([]))).await;

    let limit = json!({
        "apiVersion": "go.example/v1", "kind": "Limit",
        "metadata": {"name": "a"}, "spec": {"size": 2},
    });
    runner.send(Request::post(LIMITS, &limit)).await;
    for size in [3, 1] {
        let patch = json!({"spec": {"size": size}});
        runner
            .send(Request::patch(format!("{LIMITS}/a"), "merge", &patch))
            .await;
    }
}

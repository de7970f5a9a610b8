//! Random requests.

mod generator;
mod objects;

use serde_json::{Value, json};

pub use self::generator::Random;
use self::objects::{bolts, kinds};
use crate::{
    exchange::{Answer, Request},
    runner::Runner,
    sources::{create, namespace, seed},
};

const REQUESTS: usize = 900;
const NAMESPACE: &str = "random";

struct Run<'a> {
    runner: &'a mut Runner,
    random: Random,
    /// The last object seen of each collection.
    last: Vec<Value>,
    /// The path and the token of the last list that can be continued.
    more: Option<(String, String)>,
}

pub async fn run(runner: &mut Runner) {
    namespace(runner, NAMESPACE).await;

    create(runner, &bolts()).await;
    runner
        .wait("/apis/random.example/v1/bolts", 200, "", &Value::Null)
        .await;
    runner.settle(1000).await;

    let mut run = Run {
        runner,
        random: Random(seed()),
        last: vec![Value::Null; kinds().len()],
        more: None,
    };

    for _ in 0..REQUESTS {
        run.step().await;
    }
}

fn collection(of: &str) -> String {
    let (version, plural) = of.split_once(' ').expect("a version");
    let root = if version.starts_with("api/") {
        "/"
    } else {
        "/apis/"
    };
    format!("{root}{version}/namespaces/{NAMESPACE}/{plural}")
}

impl Run<'_> {
    async fn step(&mut self) {
        let kinds = kinds();
        let kind = self.random.below(kinds.len());
        let path = collection(kinds[kind].0);
        let name = *self.random.of(&["n1", "n2", "n3", "n4"]);
        let object = format!("{path}/{name}");

        let request = match self.random.below(20) {
            0..=4 => self.create(&path, name, &kinds[kind].1),
            5..=6 => self.update(&object, kind, name, &kinds[kind].1),
            7..=10 => self.patch(&object, name, kind, &kinds[kind]),
            11..=12 => Request::get(object),
            13..=15 => self.list(&path),
            16 => self.subresource(&object, kind),
            17..=18 => self.delete(&object, kind),
            _ => self.delete_several(&path),
        };

        let request = self.with_media(request);
        let answer = self.runner.send(request.clone()).await;
        self.remember(kind, &request, &answer);
    }

    fn remember(&mut self, kind: usize, request: &Request, answer: &Answer) {
        if answer.body["metadata"]["uid"].is_string() && answer.code < 300 {
            self.last[kind] = answer.body.clone();
        }

        let is_list = request.method == "GET" && answer.code == 200;
        if let Some(token) = answer.body["metadata"]["continue"]
            .as_str()
            .filter(|token| is_list && !token.is_empty())
        {
            self.more = Some((
                request.path.split('?').next().unwrap_or_default().into(),
                token.into(),
            ));
        }
    }

    /// Adds query parameters that any write may have.
    fn query(&mut self, first: &[String]) -> String {
        let mut parts = first.to_vec();
        if self.random.chance(15) && first.iter().all(|part| !part.starts_with("dryRun")) {
            parts.push(
                self.random
                    .of(&["dryRun=All", "dryRun=Some", "dryRun="])
                    .to_string(),
            );
        }

        if self.random.chance(25) {
            parts.push(
                self.random
                    .of(&[
                        "fieldValidation=Strict",
                        "fieldValidation=Warn",
                        "fieldValidation=Ignore",
                        "fieldValidation=X",
                    ])
                    .to_string(),
            );
        }

        if self.random.chance(20) {
            parts.push(
                self.random
                    .of(&["fieldManager=m1", "fieldManager=m2", "fieldManager=%0A"])
                    .to_string(),
            );
        }

        if parts.is_empty() {
            String::new()
        } else {
            format!("?{}", parts.join("&"))
        }
    }

    fn with_media(&mut self, request: Request) -> Request {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let accept = match self.random.below(30) {
            0..=2 => table,
            3 => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            4 => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            5 => "application/yaml",
            6 => "text/plain",
            7 => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            _ => return request,
        };

        request.header("Accept", accept)
    }

    fn create(&mut self, path: &str, name: &str, object: &Value) -> Request {
        let only_dry = ["dryRun=All".to_owned()];
        let mut body = object.clone();

        match self.random.below(12) {
            0 => body["metadata"] = json!({"generateName": "g-"}),
            1 => body["metadata"] = json!({"name": name, "namespace": "other"}),
            2 => body["metadata"] = json!({"name": "Wrong_Name"}),
            _ => {
                body["metadata"] =
                    json!({"name": name, "labels": {"app": self.random.of(&["x", "y"])}});
            }
        }

        self.add_metadata(&mut body);
        if self.random.chance(40) {
            self.random.mutate(&mut body);
        }

        // Generated names would sort differently on each server.
        let is_generated = body["metadata"].get("generateName").is_some();
        let query = self.query(if is_generated { &only_dry } else { &[] });
        Request::post(format!("{path}{query}"), &body)
    }

    fn add_metadata(&mut self, body: &mut Value) {
        match self.random.below(13) {
            7 => body["metadata"]["finalizers"] = json!(["unqualified", "Wrong_/x"]),
            0 => body["metadata"]["finalizers"] = json!(["example.com/hold"]),
            1 => body["metadata"]["annotations"] = json!({"a/b": "c"}),
            2 => {
                body["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "n1", "uid": "u1"}]);
            }
            3 => body["metadata"]["labels"] = json!({"-": "?"}),
            4 => body["apiVersion"] = json!("v9"),
            5 => body["metadata"]["uid"] = json!("3b6ea1f2-0000-4000-8000-000000000000"),
            6 => body["metadata"]["resourceVersion"] = json!("5"),
            _ => {}
        }
    }

    fn update(&mut self, path: &str, kind: usize, name: &str, object: &Value) -> Request {
        let mut body = if self.last[kind].is_null() || self.random.chance(30) {
            object.clone()
        } else {
            self.last[kind].clone()
        };

        if body["metadata"].is_null() {
            body["metadata"] = json!({"name": name});
        }

        match self.random.below(8) {
            0 => body["metadata"]["resourceVersion"] = json!("1"),
            1 => body["metadata"]["resourceVersion"] = json!("x"),
            2 => body["metadata"]["name"] = json!("another"),
            3 => body["metadata"]["finalizers"] = json!([]),
            _ => {}
        }

        self.random.mutate(&mut body);
        let query = self.query(&[]);
        Request::put(format!("{path}{query}"), &body)
    }

    fn patch(&mut self, path: &str, name: &str, kind: usize, of: &(&str, Value)) -> Request {
        let which = *self.random.of(&["merge", "json", "strategic", "apply"]);
        let (mut body, mut first) = (of.1.clone(), Vec::new());

        match which {
            "json" => body = self.json_patch(),
            "apply" => {
                let version =
                    of.0.split(' ')
                        .next()
                        .unwrap_or_default()
                        .trim_start_matches("api/");
                body["apiVersion"] = version.into();
                let known = self.last[kind]["kind"].as_str().unwrap_or("ConfigMap");
                body["kind"] = known.into();
                body["metadata"] = json!({"name": name, "labels": {"by": "apply"}});

                if !self.random.chance(10) {
                    first.push(format!("fieldManager={}", self.random.of(&["a1", "a2"])));
                }
                if self.random.chance(40) {
                    first.push("force=true".into());
                }
                if self.random.chance(40) {
                    self.random.mutate(&mut body);
                }
            }

            _ => {
                self.random.mutate(&mut body);
                if self.random.chance(30) {
                    body = json!({"metadata": {"labels": {"l": self.random.of(&["1", "2"])}, "finalizers": null}});
                }
                if self.random.chance(10) && body.is_object() {
                    body["metadata"] = json!({"resourceVersion": "1"});
                }
            }
        }

        let query = self.query(&first);
        let sub = if self.random.chance(10) {
            "/status"
        } else {
            ""
        };

        Request::patch(format!("{path}{sub}{query}"), which, &body)
    }

    fn json_patch(&mut self) -> Value {
        let all = [
            json!([{"op": "add", "path": "/metadata/labels", "value": {"j": "1"}}]),
            json!([{"op": "add", "path": "/metadata/labels/k", "value": "1"}]),
            json!([{"op": "remove", "path": "/metadata/labels/k"}]),
            json!([{"op": "remove", "path": "/metadata/annotations/none"}]),
            json!([{"op": "test", "path": "/metadata/name", "value": "n1"}, {"op": "replace", "path": "/metadata/labels", "value": {}}]),
            json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]),
            json!([{"op": "replace", "path": "/spec/replicas", "value": "x"}]),
            json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/more"}]),
            json!([{"op": "move", "from": "/metadata/labels", "path": "/metadata/annotations"}]),
            json!([{"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/copy"}]),
            json!([{"op": "nothing", "path": "/a"}]),
            json!({"op": "add"}),
        ];

        self.random.of(&all).clone()
    }

    fn list(&mut self, path: &str) -> Request {
        if let Some((path, token)) = self.more.clone().filter(|_| self.random.chance(40)) {
            let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            return Request::get(format!(
                "{path}?limit={}&continue={token}",
                1 + self.random.below(3)
            ));
        }

        let mut parts: Vec<String> = Vec::new();
        let selectors = [
            "app%3Dx",
            "app%21%3Dx",
            "app+in+%28x%2Cy%29",
            "%21app",
            "app",
            "app%3D%3Dx%2Cl%3D1",
            "a+b",
            "app%3D%3F",
            "%2C",
        ];
        let fields = [
            "metadata.name%3Dn1",
            "metadata.name%21%3Dn1",
            "metadata.namespace%3Drandom",
            "spec.size%3Dm",
            "status.phase%3DPending",
            "spec.nope%3D1",
            "type%3DOpaque",
            "metadata.name",
            "spec.nodeName%3D",
        ];
        let revisions = ["0", "", "1", "x", "-1", "99999999"];

        if self.random.chance(35) {
            parts.push(format!("labelSelector={}", self.random.of(&selectors)));
        }

        if self.random.chance(25) {
            parts.push(format!("fieldSelector={}", self.random.of(&fields)));
        }
        if self.random.chance(45) {
            parts.push(format!(
                "limit={}",
                self.random.of(&["1", "2", "500", "0", "-1", "x"])
            ));
        }

        if self.random.chance(25) {
            // A list at a past revision would depend on compaction.
            let revision = *self.random.of(&revisions);
            parts.push(format!("resourceVersion={revision}"));
            if self.random.chance(60) {
                parts.push(format!(
                    "resourceVersionMatch={}",
                    self.random.of(&["NotOlderThan", "Exact", "Other"])
                ));
            }
        } else if self.random.chance(10) {
            parts.push("resourceVersionMatch=Exact".into());
        }

        if self.random.chance(4) {
            parts.push("continue=nonsense".into());
        }

        Request::get(format!("{path}?{}", parts.join("&")))
    }

    fn subresource(&mut self, path: &str, kind: usize) -> Request {
        let mut body = self.last[kind].clone();

        match self.random.below(6) {
            0 => Request::get(format!("{path}/scale")),
            1 => Request::get(format!("{path}/status")),
            2 => Request::get(format!("{path}/nothing")),
            3 => Request::patch(
                format!("{path}/scale"),
                "merge",
                &json!({"spec": {"replicas": self.random.of(&[0, 2, -1])}}),
            ),
            4 => Request::put(
                format!("{path}/scale"),
                &json!({"metadata": {"name": "n1"}, "spec": {"replicas": 2}}),
            ),
            _ => {
                body["status"] =
                    json!({"replicas": 1, "phase": "Running", "observedGeneration": 1});
                Request::put(format!("{path}/status"), &body)
            }
        }
    }

    fn delete(&mut self, path: &str, kind: usize) -> Request {
        let metadata = &self.last[kind]["metadata"];

        let options = match self.random.below(10) {
            0 => json!({"preconditions": {"uid": metadata["uid"]}}),
            1 => json!({"preconditions": {"resourceVersion": metadata["resourceVersion"]}}),
            2 => json!({"preconditions": {"uid": "other"}}),
            3 => {
                json!({"propagationPolicy": self.random.of(&["Foreground", "Orphan", "Background", "Other"])})
            }
            4 => json!({"gracePeriodSeconds": self.random.of(&[0, 5, -1])}),
            5 => json!({"dryRun": ["All"]}),
            6 => json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
            _ => {
                return Request::delete(format!(
                    "{path}{}",
                    self.random.of(&[
                        "",
                        "",
                        "?gracePeriodSeconds=0",
                        "?propagationPolicy=Foreground",
                        "?propagationPolicy=X"
                    ])
                ));
            }
        };

        let mut options = options;
        options["kind"] = json!("DeleteOptions");
        options["apiVersion"] = json!("v1");
        Request::delete(path).body(&options)
    }

    fn delete_several(&mut self, path: &str) -> Request {
        let query = *self.random.of(&[
            "labelSelector=app%3Dx",
            "labelSelector=none",
            "fieldSelector=metadata.name%3Dn2",
            "dryRun=All",
            "limit=1",
            "labelSelector=a+b",
        ]);
        Request::delete(format!("{path}?{query}"))
    }
}

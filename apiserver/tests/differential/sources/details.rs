//! Requests that the other sources lack, or that found a difference when they used other seeds.

use serde_json::{Value, json};

use crate::{exchange::Request, runner::Runner, sources::namespace};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/details/deployments/web";
const SCALED: &str = "/apis/details.example/v1/namespaces/details/lamps/red";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub async fn run(runner: &mut Runner) {
    namespace(runner, "details").await;

    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});

    runner
        .send(Request::post(
            parent(DEPLOYMENT),
            &json!({"metadata": {"name": "web"}, "spec": spec}),
        ))
        .await;

    runner.send(Request::post(CRDS, &lamps())).await;
    runner.wait(parent(SCALED), 200, "", &Value::Null).await;

    let lamp = json!({"apiVersion": "details.example/v1", "kind": "Lamp", "metadata": {"name": "red"},
        "spec": {"replicas": 2}});
    runner.send(Request::post(parent(SCALED), &lamp)).await;

    scales(runner).await;
    applied_scales(runner).await;
    patches(runner).await;
    services(runner).await;
    metadata(runner).await;
    lists(runner).await;
    jobs(runner).await;
    agents(runner).await;
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').expect("a path").0
}

fn lamps() -> Value {
    let replicas = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let schema = json!({"type": "object", "properties": {"spec": replicas, "status": replicas}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.details.example"},
        "spec": {"group": "details.example", "scope": "Namespaced", "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}}]}})
}

/// Reads scales in all forms.
async fn scales(runner: &mut Runner) {
    for path in [DEPLOYMENT, SCALED] {
        for form in [
            "Table",
            "PartialObjectMetadata",
            "PartialObjectMetadataList",
        ] {
            let accept = format!("application/json;as={form};v=v1;g=meta.k8s.io");

            for query in [
                "",
                "?includeObject=Object",
                "?includeObject=None",
                "?includeObject=x",
            ] {
                runner
                    .send(Request::get(format!("{path}/scale{query}")).header("Accept", &accept))
                    .await;
            }

            let patch = json!({"spec": {"replicas": 3}});
            runner
                .send(
                    Request::patch(format!("{path}/scale"), "merge", &patch)
                        .header("Accept", &accept),
                )
                .await;
        }
    }
}

/// Applies scales, by several managers.
async fn applied_scales(runner: &mut Runner) {
    let scale = |replicas: Value| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": replicas}});
    for path in [DEPLOYMENT, SCALED] {
        let apply = |query: &str, body: &Value| {
            Request::patch(format!("{path}/scale?{query}"), "apply", body)
        };

        for (query, replicas) in [
            ("fieldManager=a", 4),
            ("fieldManager=b", 5),
            ("fieldManager=b&force=true", 5),
            ("fieldManager=b", -1),
        ] {
            runner.send(apply(query, &scale(json!(replicas)))).await;
            runner.send(Request::get(path)).await;
        }

        let mut named = scale(json!(6));
        named["metadata"] = json!({"name": "other"});
        let other = json!({"apiVersion": "v1", "kind": "Scale", "spec": {"replicas": 1}});

        for body in [
            named,
            other,
            scale(json!("x")),
            scale(json!(null)),
            json!({}),
            json!("x"),
            Value::Null,
        ] {
            runner.send(apply("fieldManager=b", &body)).await;
        }

        let mut whole = scale(json!(6));
        whole["metadata"] = json!({"name": path.rsplit('/').next(), "namespace": "details"});
        runner
            .send(apply("fieldManager=b&force=true", &whole))
            .await;

        runner.send(apply("force=true", &scale(json!(7)))).await;

        runner
            .send(Request::patch(
                format!("{path}/scale"),
                "merge",
                &scale(json!(8)),
            ))
            .await;

        runner.send(Request::get(path)).await;
    }
}

/// Patches that have wrong types, or whose result has.
async fn patches(runner: &mut Runner) {
    let bodies = [
        json!({"spec": {"replicas": 1.5}}),
        json!({"spec": {"replicas": true}}),
        json!({"spec": {"replicas": []}}),
        json!({"spec": {"paused": 1}}),
        json!({"spec": {"template": 3}}),
        json!({"metadata": {"labels": {"a": 1}}}),
        json!({"metadata": {"labels": {"a": 1.5}}}),
        json!({"metadata": {"labels": {"a": true}}}),
        json!({"metadata": {"labels": "x"}}),
        json!({"metadata": {"name": null}}),
        json!({"spec": {"replicas": 2}, "b": {"c": [1, "x y", null, 1.5, true]}, "a": "q\"z"}),
        Value::Null,
        json!({}),
    ];

    for body in &bodies {
        for kind in ["strategic", "merge"] {
            let path = format!("{DEPLOYMENT}?dryRun=All&fieldValidation=Strict");
            runner.send(Request::patch(path, kind, body)).await;
        }
    }

    for path in [DEPLOYMENT, SCALED] {
        let remove = json!([{"op": "remove", "path": "/metadata/name"}]);
        runner.send(Request::patch(path, "json", &remove)).await;

        runner
            .send(Request::patch(path, "json", &Value::Null))
            .await;

        for accept in ["text/plain", "application/json"] {
            runner
                .send(Request::patch(path, "strategic", &json!({})).header("Accept", accept))
                .await;
        }
    }

    let apply = |body: Value| {
        Request::patch(
            "/api/v1/namespaces/details/configmaps/new?fieldManager=a",
            "apply",
            &body,
        )
    };

    runner
        .send(apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}),
        ))
        .await;
    runner
        .send(apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}),
        ))
        .await;

    unusable_configurations(runner).await;

    let metadata = json!({"name": "new", "resourceVersion": "1"});
    runner
        .send(apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
        ))
        .await;
}

/// Applies to objects that do not exist, with another kind or wrong values.
async fn unusable_configurations(runner: &mut Runner) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "none"}, "spec": {"x": 1}});
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "none"}});
    let lamp =
        json!({"apiVersion": "details.example/v1", "kind": "Lamp", "metadata": {"name": "none"}});

    for path in [
        "/api/v1/namespaces/details/services/none",
        "/apis/details.example/v1/namespaces/details/lamps/none",
    ] {
        for body in [&service, &other, &lamp, &json!("x"), &Value::Null] {
            runner
                .send(Request::patch(
                    format!("{path}/status?fieldManager=a"),
                    "apply",
                    body,
                ))
                .await;
        }
    }

    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {"a": "x"}});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "x"},
        "spec": {"hard": {"pods": "zz"}}});

    for (plural, body) in [("secrets", secret), ("resourcequotas", quota)] {
        let path = format!("/api/v1/namespaces/details/{plural}/x?fieldManager=a");
        runner.send(Request::patch(path, "apply", &body)).await;
    }
}

/// Services without a name, and updates that create them.
async fn services(runner: &mut Runner) {
    const SERVICES: &str = "/api/v1/namespaces/details/services";
    let specs = [
        json!({}),
        json!({"clusterIP": "10.0.0.77"}),
        json!({"clusterIP": "10.0.0.77", "type": "NodePort", "ports": [{"port": 4}]}),
        json!({"clusterIP": "None"}),
        json!({"type": "ExternalName"}),
    ];

    for spec in &specs {
        for query in ["", "?dryRun=All"] {
            runner
                .send(Request::post(
                    format!("{SERVICES}{query}"),
                    &json!({"spec": spec}),
                ))
                .await;
        }
    }

    for revision in ["x", "1"] {
        let metadata = json!({"name": "made", "resourceVersion": revision});
        let mut body = json!({"metadata": metadata, "spec": {"ports": [{"port": 1}]}});
        body["metadata"]["uid"] = "3b6ea1f2-0000-4000-8000-000000000000".into();
        runner
            .send(Request::put(format!("{SERVICES}/made"), &body))
            .await;

        body["metadata"]["uid"] = Value::Null;
        runner
            .send(Request::put(format!("{SERVICES}/made"), &body))
            .await;
    }
}

/// Names, labels and finalizers in creates and updates.
async fn metadata(runner: &mut Runner) {
    let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}});
    let once =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"});
    let backend = json!({"service": {"name": "s", "port": {"number": 1}}});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"});

    let kinds = [
        ("api/v1", "limitranges", json!({})),
        ("api/v1", "resourcequotas", json!({})),
        ("api/v1", "endpoints", json!({})),
        ("api/v1", "podtemplates", json!({"template": pod})),
        (
            "api/v1",
            "replicationcontrollers",
            json!({"spec": {"selector": {"a": "b"}, "template": pod}}),
        ),
        ("api/v1", "persistentvolumeclaims", json!({"spec": claim})),
        (
            "api/v1",
            "services",
            json!({"spec": {"ports": [{"port": 1}]}}),
        ),
        ("apis/apps/v1", "deployments", workload.clone()),
        ("apis/apps/v1", "replicasets", workload.clone()),
        ("apis/apps/v1", "daemonsets", workload.clone()),
        ("apis/apps/v1", "statefulsets", workload),
        (
            "apis/apps/v1",
            "controllerrevisions",
            json!({"data": {}, "revision": 1}),
        ),
        ("apis/batch/v1", "jobs", json!({"spec": {"template": once}})),
        (
            "apis/batch/v1",
            "cronjobs",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}}),
        ),
        (
            "apis/networking.k8s.io/v1",
            "ingresses",
            json!({"spec": {"defaultBackend": backend}}),
        ),
        (
            "apis/autoscaling/v2",
            "horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 2, "scaleTargetRef": target}}),
        ),
        (
            "apis/discovery.k8s.io/v1",
            "endpointslices",
            json!({"addressType": "IPv4"}),
        ),
        (
            "apis/rbac.authorization.k8s.io/v1",
            "rolebindings",
            json!({"roleRef": role}),
        ),
        ("api/v1", "configmaps", json!({})),
        ("api/v1", "secrets", json!({})),
        ("api/v1", "serviceaccounts", json!({})),
        (
            "api/v1",
            "pods",
            json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ),
        ("apis/policy/v1", "poddisruptionbudgets", json!({})),
        ("apis/rbac.authorization.k8s.io/v1", "roles", json!({})),
        ("apis/networking.k8s.io/v1", "networkpolicies", json!({})),
        ("apis/coordination.k8s.io/v1", "leases", json!({})),
        (
            "api/v1",
            "events",
            json!({"involvedObject": {"namespace": "details"}}),
        ),
    ];

    for (version, plural, object) in &kinds {
        let path = format!("/{version}/namespaces/details/{plural}");
        for metadata in [
            json!({"name": "Bad_N", "finalizers": ["abc"], "labels": {"-": "?"}}),
            json!({"name": "meta"}),
        ] {
            let mut object = object.clone();
            object["metadata"] = metadata;
            runner.send(Request::post(&path, &object)).await;
        }

        let patch = json!({"metadata": {"finalizers": ["abc"], "labels": {"-": "b"}}});
        for sub in ["", "/status"] {
            runner
                .send(Request::patch(format!("{path}/meta{sub}"), "merge", &patch))
                .await;
        }
    }

    let pod = "/api/v1/namespaces/details/pods/meta";
    for containers in [
        json!([{"name": "C_", "image": ""}, {"name": "d", "image": "x"}]),
        json!([{"name": "c", "image": " x"}]),
    ] {
        runner
            .send(Request::patch(
                pod,
                "merge",
                &json!({"spec": {"containers": containers}}),
            ))
            .await;
    }
}

/// Lists that are empty, have more objects than selected, or get wrong parameters.
async fn lists(runner: &mut Runner) {
    let maps = "/api/v1/namespaces/details/configmaps";

    for (name, label) in [("a", "x"), ("b", "y"), ("c", "y")] {
        runner
            .send(Request::post(
                maps,
                &json!({"metadata": {"name": name, "labels": {"app": label}}}),
            ))
            .await;
    }

    for form in ["Table", "PartialObjectMetadataList"] {
        let accept = format!("application/json;as={form};v=v1;g=meta.k8s.io");

        for query in [
            "labelSelector=none",
            "labelSelector=app%3Dx&limit=1",
            "labelSelector=app%3Dy&limit=1",
        ] {
            runner
                .send(Request::get(format!("{maps}?{query}")).header("Accept", &accept))
                .await;
        }

        let dry = Request::post(
            format!("{maps}?dryRun=All"),
            &json!({"metadata": {"name": "dry"}}),
        );
        runner.send(dry.header("Accept", &accept)).await;
    }

    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles?labelSelector=none";
    runner
        .send(Request::get(roles).header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"))
        .await;

    for revision in ["x", "-1", "0", "5"] {
        runner
            .send(Request::get(format!(
                "{maps}?resourceVersion={revision}&continue=nonsense"
            )))
            .await;
    }

    runner
        .send(Request::get(
            "/apis/batch/v1/namespaces/details/jobs?fieldSelector=spec.none%3Dx",
        ))
        .await;

    runner
        .send(Request::delete(
            "/apis/batch/v1/namespaces/details/jobs?labelSelector=a+b",
        ))
        .await;
}

/// Field managers that are named after the user agent.
async fn agents(runner: &mut Runner) {
    let long = "m".repeat(200);
    for agent in ["kubectl/v1.36 (linux)", "a\tb c/d", &long] {
        let object = json!({"metadata": {"name": "agent"}, "data": {"a": "b"}});
        let request = Request::post("/api/v1/namespaces/details/configmaps?dryRun=All", &object);
        runner.send(request.header("User-Agent", agent)).await;
    }
}

/// Updates a Job without its selector and labels.
async fn jobs(runner: &mut Runner) {
    let jobs = "/apis/batch/v1/namespaces/details/jobs";
    let template = json!({"metadata": {"labels": {"x": "y"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});

    let made = runner
        .send(Request::post(
            jobs,
            &json!({"metadata": {"name": "j"}, "spec": {"template": template}}),
        ))
        .await;

    for field in ["selector", "template"] {
        let mut body = made.body.clone();
        body["spec"][field] = Value::Null;
        runner.send(Request::put(format!("{jobs}/j"), &body)).await;
    }

    let body = json!({"metadata": {"name": "j"}, "spec": {"template": {}}});
    runner.send(Request::put(format!("{jobs}/j"), &body)).await;
}

//! The objects around a Deployment: the two that have to change for the Plugin, and those that are
//! useless without a Pod.

use operetta_api::{annotations::ALLOW_PLUGINS, labels::PLUGINS};
use operetta_apiserver::builtin::resource_of_kind;
use serde_json::{Map, Value, json};

use super::{
    convert::name_of,
    report::{Finding, Verdict},
};

/// Puts a namespaced object into this namespace unless it names one. Returns true if that changed
/// the object.
pub fn place(object: &mut Value, namespace: &str, is_namespaced: bool) -> bool {
    if !is_namespaced || !object["metadata"]["namespace"].is_null() {
        return false;
    }
    object["metadata"]["namespace"] = namespace.into();
    true
}

/// Reports whether objects of this kind are in a namespace: by Kubernetes' own table, by these
/// CustomResourceDefinitions, and for an unknown kind because most kinds are.
pub fn is_namespaced(object: &Value, definitions: &[&Value]) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    if let Some(resource) = resource_of_kind(&version, &kind) {
        return resource.namespaced;
    }

    let group = version.split_once('/').map_or("", |(group, _)| group);
    let defined = definitions.iter().find(|definition| {
        definition["spec"]["group"] == group && definition["spec"]["names"]["kind"] == *kind
    });
    match defined {
        Some(definition) => definition["spec"]["scope"] != "Cluster",
        None => {
            // Built-in kinds that the table above lacks.
            let built_in = !group.contains('.') || group.ends_with(".k8s.io");
            !(built_in && CLUSTER.contains(&kind.as_str()) || kind == "ClusterIssuer")
        }
    }
}

/// Cluster-scoped kinds of Kubernetes.
const CLUSTER: [&str; 10] = [
    "APIService",
    "ClusterTrustBundle",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

const DEFINITION: &str = "CustomResourceDefinition";

/// The kinds of webhook configurations.
const WEBHOOKS: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Makes a ServiceAccount consent to a Plugin, in addition to those it consents to already.
pub fn consent(account: &mut Value, plugin: &str) {
    let allowed = &account["metadata"]["annotations"][ALLOW_PLUGINS];
    let allowed = match allowed.as_str() {
        Some(others) if !others.is_empty() => {
            let known = others.split(',').map(str::trim).any(|other| {
                other == "*" || other == plugin || other.starts_with(&format!("{plugin}@"))
            });
            if known {
                others.to_owned()
            } else {
                format!("{others},{plugin}")
            }
        }
        _ => plugin.to_owned(),
    };
    set(account, "annotations", ALLOW_PLUGINS, &allowed);
}

/// Opts a namespace in, unless it already has the label. Returns true if that changed the object.
pub fn opt_in(namespace: &mut Value) -> bool {
    if !namespace["metadata"]["labels"][PLUGINS].is_null() {
        return false;
    }
    set(namespace, "labels", PLUGINS, "enabled");
    true
}

fn set(object: &mut Value, field: &str, key: &str, value: &str) {
    let field = &mut object["metadata"][field];
    if !field.is_object() {
        *field = Value::Object(Map::new());
    }
    field[key] = json!(value);
}

/// True if a selector that isn't empty matches these labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object();
    wanted.is_some_and(|wanted| {
        !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value)
    })
}

/// Reports whether a webhook's `clientConfig` leads to the operator, which nobody reaches as a
/// process. One that leads to another workload of the manifests, or to a URL, isn't the operator's.
fn leads_here(client: &Value, objects: &[Value], workload: &Value) -> bool {
    let labels = &workload["spec"]["template"]["metadata"]["labels"];
    let named = &client["service"];
    let mut services = objects.iter().filter(|object| {
        let metadata = &object["metadata"];
        let is_there =
            metadata["namespace"].is_null() || metadata["namespace"] == named["namespace"];
        object["kind"] == "Service" && metadata["name"] == named["name"] && is_there
    });
    match services.next() {
        Some(service) => selects(&service["spec"]["selector"], labels),
        None => client["url"].is_null(),
    }
}

/// The webhook configurations that lead to the operator.
pub fn webhooks<'a>(objects: &'a [Value], workload: &Value) -> Vec<&'a Value> {
    let is_own = |configuration: &&Value| {
        let is_kind = WEBHOOKS.iter().any(|kind| configuration["kind"] == *kind);
        let webhooks = configuration["webhooks"].as_array().into_iter().flatten();
        is_kind
            && webhooks
                .map(|webhook| &webhook["clientConfig"])
                .any(|client| leads_here(client, objects, workload))
    };
    objects.iter().filter(is_own).collect()
}

/// The conversions by webhook that lead to the operator: of each CustomResourceDefinition, its name
/// and `spec.conversion`. The whole of it may be too large for an annotation.
pub fn conversions(objects: &[Value], workload: &Value) -> Vec<Value> {
    objects
        .iter()
        .filter(|object| converts_here(object, objects, workload))
        .map(|definition| {
            json!({
                "apiVersion": definition["apiVersion"],
                "kind": definition["kind"],
                "metadata": {"name": definition["metadata"]["name"]},
                "spec": {"conversion": definition["spec"]["conversion"]},
            })
        })
        .collect()
}

fn converts_here(object: &Value, objects: &[Value], workload: &Value) -> bool {
    let conversion = &object["spec"]["conversion"];
    object["kind"] == DEFINITION
        && conversion["strategy"] == "Webhook"
        && leads_here(&conversion["webhook"]["clientConfig"], objects, workload)
}

/// Takes the conversion out of a CustomResourceDefinition if it is one of these. Returns true if
/// that changed the object.
pub fn without_conversion(definition: &mut Value, conversions: &[Value]) -> bool {
    if !is_one_of(definition, conversions) {
        return false;
    }
    // Not left out: the cluster's CustomResourceDefinition may have the other strategy.
    definition["spec"]["conversion"] = json!({"strategy": "None"});
    true
}

/// Reports whether one of these is of the same CustomResourceDefinition.
fn is_one_of(definition: &Value, others: &[Value]) -> bool {
    let name = &definition["metadata"]["name"];
    definition["kind"] == DEFINITION
        && others
            .iter()
            .any(|other| other["kind"] == DEFINITION && other["metadata"]["name"] == *name)
}

/// What becomes of a conversion by the operator's webhook.
fn conversion_finding(definition: &Value, is_left_out: bool) -> Finding {
    let versions = definition["spec"]["versions"].as_array();
    let stored = versions
        .into_iter()
        .flatten()
        .find(|version| version["storage"] == true)
        .and_then(|version| version["name"].as_str())
        .unwrap_or("the stored one");
    let note = if is_left_out {
        format!(
            "strategy Webhook becomes None, since the host serves no webhooks: objects get another apiVersion and keep \
             their fields, and those that the other version doesn't have are lost; use {stored} only; --with-webhooks \
             leaves it as it is"
        )
    } else {
        format!(
            "the host serves no webhooks: until they are served, objects can be read and written as {stored} only"
        )
    };
    Finding::new(
        Verdict::NotYet,
        name_of(definition),
        "spec.conversion",
        note,
    )
}

/// What becomes of the operator's webhooks, which the host does not serve.
fn webhook_finding(configuration: &Value, is_left_out: bool) -> Finding {
    let webhooks = configuration["webhooks"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let required = webhooks
        .iter()
        .filter(|webhook| webhook["failurePolicy"] != "Ignore")
        .count();

    let note = match (is_left_out, required) {
        (true, 0) => {
            "is left out, since the host serves no webhooks; --with-webhooks prints it".to_owned()
        }
        (true, _) => format!(
            "is left out, since the host serves no webhooks: those with failurePolicy Fail ({required}) would refuse every \
             write of their kinds; --with-webhooks prints it"
        ),
        (false, 0) => {
            "the host serves no webhooks: they are skipped (failurePolicy Ignore)".to_owned()
        }
        (false, _) => format!(
            "the host serves no webhooks: until they are served, those with failurePolicy Fail ({required}) refuse every \
             write of their kinds: don't apply this object, or delete it"
        ),
    };
    let place = format!("webhooks ({})", webhooks.len());
    Finding::new(Verdict::NotYet, name_of(configuration), place, note)
}

/// Findings about objects that were made for a Pod, which a process is not. Those in `left_out` aren't
/// printed.
pub fn findings(objects: &[Value], workload: &Value, left_out: &[Value]) -> Vec<Finding> {
    let labels = &workload["spec"]["template"]["metadata"]["labels"];
    let namespace = &workload["metadata"]["namespace"];
    let mut found = Vec::new();

    for object in objects {
        let spec = &object["spec"];
        let here = object["metadata"]["namespace"] == *namespace;
        let mut add = |verdict, place: &str, note: String| {
            found.push(Finding::new(verdict, name_of(object), place, note));
        };

        match object["kind"].as_str().unwrap_or_default() {
            "APIService" if !spec["service"].is_null() => add(
                Verdict::No,
                "spec.service",
                "a process can't serve an API to the API server".to_owned(),
            ),
            "Service" if here && selects(&spec["selector"], labels) => add(
                Verdict::NotYet,
                "spec.selector",
                "no longer selects a Pod, and nobody reaches a process's ports".to_owned(),
            ),
            "ServiceMonitor" | "PodMonitor" => add(
                Verdict::Maybe,
                "",
                "no longer finds a Pod: set spec.process.metrics in the Plugin, and the host's /metrics has the process's"
                    .to_owned(),
            ),
            "PodDisruptionBudget" | "NetworkPolicy"
                if here
                    && (selects(&spec["selector"]["matchLabels"], labels)
                        || selects(&spec["podSelector"]["matchLabels"], labels)) =>
            {
                add(
                    Verdict::Works,
                    "",
                    "no longer selects a Pod, which does no harm".to_owned(),
                );
            }
            "HorizontalPodAutoscaler" | "VerticalPodAutoscaler"
                if here
                    && [&spec["scaleTargetRef"], &spec["targetRef"]].iter().any(|target| {
                        target["kind"] == workload["kind"]
                            && target["name"] == workload["metadata"]["name"]
                    }) =>
            {
                add(
                    Verdict::No,
                    "",
                    "what it scales is gone: delete it".to_owned(),
                );
            }
            _ => {}
        }
    }

    let definitions = objects
        .iter()
        .filter(|object| converts_here(object, objects, workload));
    found.extend(definitions.map(|object| conversion_finding(object, is_one_of(object, left_out))));

    let webhooks = webhooks(objects, workload).into_iter();
    found.extend(webhooks.map(|object| webhook_finding(object, left_out.contains(object))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_is_added_to_what_there_is() {
        for (before, after) in [
            (json!(null), "op"),
            (json!({ALLOW_PLUGINS: ""}), "op"),
            (json!({ALLOW_PLUGINS: "other"}), "other,op"),
            (json!({ALLOW_PLUGINS: "other, op"}), "other, op"),
            (json!({ALLOW_PLUGINS: "op@sha256:1"}), "op@sha256:1"),
            (json!({ALLOW_PLUGINS: "*"}), "*"),
        ] {
            let mut account = json!({"metadata": {"name": "sa", "annotations": before}});
            consent(&mut account, "op");
            assert_eq!(account["metadata"]["annotations"][ALLOW_PLUGINS], after);
        }
    }

    #[test]
    fn namespace_that_has_decided_is_left_alone() {
        let mut undecided = json!({"kind": "Namespace", "metadata": {"name": "a"}});
        assert!(opt_in(&mut undecided));
        assert_eq!(undecided["metadata"]["labels"][PLUGINS], "enabled");
        let mut pinned = json!({"metadata": {"labels": {PLUGINS: "pinned"}}});
        assert!(!opt_in(&mut pinned));
    }

    #[test]
    fn scope_is_kubernetes_or_the_definitions() {
        let definition =
            json!({"spec": {"group": "x.dev", "scope": "Cluster", "names": {"kind": "Farm"}}});
        let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
        for (version, kind, expected) in [
            ("v1", "ServiceAccount", true),
            ("v1", "Namespace", false),
            ("rbac.authorization.k8s.io/v1", "ClusterRole", false),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", false),
            ("x.dev/v1", "Farm", false),
            ("x.dev/v1", "Field", true),
            ("y.dev/v1", "Farm", true),
            ("cert-manager.io/v1", "Issuer", true),
            ("cert-manager.io/v1", "ClusterIssuer", false),
        ] {
            let mut object = object(version, kind);
            let scope = is_namespaced(&object, &[&definition]);
            assert_eq!(scope, expected, "{version} {kind}");
            assert_eq!(place(&mut object, "here", scope), expected);
            assert!(
                !place(&mut object, "there", scope),
                "it has one, or needs none"
            );
        }
    }

    #[test]
    fn objects_without_use_are_named_with_the_field() {
        let workload = json!({
            "kind": "Deployment",
            "metadata": {"name": "op", "namespace": "ns"},
            "spec": {"template": {"metadata": {"labels": {"app": "op", "tier": "x"}}}},
        });
        let object = |kind: &str, namespace: &str, rest: Value| {
            let mut object =
                json!({"kind": kind, "metadata": {"name": "a", "namespace": namespace}});
            for (key, value) in rest.as_object().expect("fields") {
                object[key] = value.clone();
            }
            object
        };
        let selector = |app: &str| json!({"spec": {"selector": {"app": app}}});
        let match_labels = json!({"spec": {"selector": {"matchLabels": {"app": "op"}}}});

        let verdicts = |object: Value| -> Vec<Verdict> {
            let found = findings(&[object], &workload, &[]);
            found.iter().map(|finding| finding.verdict).collect()
        };
        for (object, expected) in [
            (
                object("Service", "ns", selector("op")),
                Some(Verdict::NotYet),
            ),
            (object("Service", "ns", selector("other")), None),
            (object("Service", "elsewhere", selector("op")), None),
            (
                object("Service", "ns", json!({"spec": {"selector": {}}})),
                None,
            ),
            (
                object("PodDisruptionBudget", "ns", match_labels),
                Some(Verdict::Works),
            ),
            (
                object(
                    "HorizontalPodAutoscaler",
                    "ns",
                    json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "op"}}}),
                ),
                Some(Verdict::No),
            ),
            (
                object(
                    "CustomResourceDefinition",
                    "",
                    json!({"spec": {"conversion": {"strategy": "Webhook"}}}),
                ),
                Some(Verdict::NotYet),
            ),
            (
                object(
                    "CustomResourceDefinition",
                    "",
                    json!({"spec": {"conversion": {"strategy": "None"}}}),
                ),
                None,
            ),
        ] {
            let name = object.to_string();
            assert_eq!(verdicts(object).first().copied(), expected, "{name}");
        }
    }

    #[test]
    fn webhooks_are_the_operators_unless_they_lead_elsewhere() {
        let workload = json!({
            "kind": "Deployment",
            "metadata": {"name": "op", "namespace": "ns"},
            "spec": {"template": {"metadata": {"labels": {"app": "op"}}}},
        });
        let service = |name: &str, namespace: Value, app: &str| {
            let metadata = json!({"name": name, "namespace": namespace});
            json!({"kind": "Service", "metadata": metadata, "spec": {"selector": {"app": app}}})
        };
        let services = [
            service("own", json!("ns"), "op"),
            service("placed", Value::Null, "op"),
            service("other", json!("ns"), "other"),
        ];
        let to = |name: &str| json!({"service": {"name": name, "namespace": "ns"}});
        let configuration = |kind: &str, clients: &[Value]| {
            let webhooks: Vec<_> = clients
                .iter()
                .map(|client| json!({ "clientConfig": client }))
                .collect();
            json!({"kind": kind, "metadata": {"name": "a"}, "webhooks": webhooks})
        };

        let url = json!({"url": "https://example.com"});
        for (kind, clients, expected) in [
            (WEBHOOKS[0], vec![to("own")], true),
            (WEBHOOKS[1], vec![to("placed")], true),
            (WEBHOOKS[1], vec![to("other")], false),
            (WEBHOOKS[1], vec![to("other"), to("own")], true),
            (WEBHOOKS[1], vec![to("not-in-the-manifests")], true),
            (WEBHOOKS[1], vec![url], false),
            (WEBHOOKS[1], vec![], false),
            ("ConfigMap", vec![to("own")], false),
        ] {
            let object = configuration(kind, &clients);
            let objects = [&services[..], std::slice::from_ref(&object)].concat();
            let found = webhooks(&objects, &workload);
            assert_eq!(found == [&object], expected, "{object}");
        }
    }

    #[test]
    fn conversion_by_the_operator_is_taken_out_and_kept() {
        let workload = json!({
            "kind": "Deployment",
            "metadata": {"name": "op", "namespace": "ns"},
            "spec": {"template": {"metadata": {"labels": {"app": "op"}}}},
        });
        let definition = |name: &str, client: Value| {
            let conversion = json!({"strategy": "Webhook", "webhook": {"clientConfig": client}});
            json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": name, "annotations": {"large": "x"}},
                "spec": {
                    "conversion": conversion,
                    "versions": [{"name": "v1"}, {"name": "v2", "storage": true}],
                },
            })
        };
        let to = |name: &str| json!({"service": {"name": name, "namespace": "ns"}});
        let mut own = definition("a.x.dev", to("hook"));
        let mut elsewhere = definition("b.x.dev", json!({"url": "https://example.com"}));
        let objects = [own.clone(), elsewhere.clone()];

        let kept = conversions(&objects, &workload);
        let expected = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "a.x.dev"},
            "spec": {"conversion": own["spec"]["conversion"]},
        });
        assert_eq!(kept, [expected]);

        let mut changed = own.clone();
        assert!(without_conversion(&mut changed, &kept));
        assert_eq!(changed["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(changed["spec"]["versions"], own["spec"]["versions"]);
        assert!(!without_conversion(&mut elsewhere, &kept));
        assert!(!without_conversion(&mut own, &[]));

        for (left_out, parts) in [
            (&kept[..], ["use v2 only", "--with-webhooks"]),
            (&[], ["until they are served", "as v2 only"]),
        ] {
            let found = findings(&objects, &workload, left_out);
            let [found] = found.as_slice() else {
                panic!("{found:?}")
            };
            assert_eq!(found.what, "CustomResourceDefinition/a.x.dev");
            for part in parts {
                assert!(found.note.contains(part), "{found:?}");
            }
        }
    }

    #[test]
    fn webhooks_that_fail_closed_are_named_with_what_follows() {
        let workload = json!({"kind": "Deployment", "metadata": {"name": "op"}});
        let client = json!({"service": {"name": "hook", "namespace": "ns"}});
        let object = |first: &str| {
            json!({
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "a"},
                "webhooks": [
                    {"clientConfig": client, "failurePolicy": first},
                    {"clientConfig": client, "failurePolicy": "Ignore"},
                ],
            })
        };

        for (policy, is_left_out, part) in [
            (
                "Fail",
                true,
                "failurePolicy Fail (1) would refuse every write",
            ),
            ("Fail", false, "failurePolicy Fail (1) refuse every write"),
            ("Ignore", true, "is left out"),
            ("Ignore", false, "they are skipped"),
        ] {
            let object = object(policy);
            let left_out: Vec<_> = is_left_out.then(|| object.clone()).into_iter().collect();
            let found = findings(&[object], &workload, &left_out);
            assert_eq!(found[0].place, "webhooks (2)");
            assert!(found[0].note.contains(part), "{found:?}");
            assert_eq!(found[0].note.contains("--with-webhooks"), is_left_out);
        }
    }
}

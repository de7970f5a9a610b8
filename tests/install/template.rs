//! The Pod template of the Deployment. The test knows its fields: one that it does not apply fails
//! it.

use serde_json::{Value, json};

use crate::image::Image;

/// The fields of a Pod that say where and how it is scheduled, or that the API server fills in.
const OF_SCHEDULING: [&str; 9] = [
    "affinity",
    "dnsPolicy",
    "nodeSelector",
    "priorityClassName",
    "restartPolicy",
    "schedulerName",
    "serviceAccount",
    "tolerations",
    "topologySpreadConstraints",
];

/// The fields of a Pod that the test applies.
const APPLIED: [&str; 6] = [
    "containers",
    "enableServiceLinks",
    "securityContext",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "volumes",
];

/// The fields of a container that the test applies, or that only concern the kubelet.
const OF_CONTAINER: [&str; 13] = [
    "args",
    "env",
    "image",
    "imagePullPolicy",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "resources",
    "securityContext",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeMounts",
];

/// Fails if an object has a field that is not in the list.
fn assert_known(object: &Value, known: &[&str]) {
    for field in object.as_object().expect("an object").keys() {
        assert!(
            known.contains(&field.as_str()),
            "the test does not know the field {field} of {object}"
        );
    }
}

/// Fails if the Pod demands something that the test does not apply, or the image does not fit it.
pub fn assert_applied(spec: &Value, image: &Image) {
    assert_known(spec, &[&OF_SCHEDULING[..], &APPLIED[..]].concat());
    assert_eq!(spec["containers"].as_array().map(Vec::len), Some(1));

    let container = &spec["containers"][0];
    assert_known(container, &OF_CONTAINER);
    assert_known(&container["resources"], &["limits", "requests"]);
    assert_known(&container["resources"]["limits"], &["memory"]);

    let security = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
    });
    assert_eq!(container["securityContext"], security);

    let pod = &spec["securityContext"];
    assert_known(
        pod,
        &["runAsNonRoot", "runAsUser", "runAsGroup", "seccompProfile"],
    );
    assert_eq!(pod["runAsNonRoot"], true);

    // The image has the same user, so it does not run as root without the manifest either.
    let config = image.config();
    assert_eq!(
        config["User"],
        json!(format!("{}:{}", pod["runAsUser"], pod["runAsGroup"]))
    );

    assert_eq!(config["Cmd"], Value::Null);
    assert_eq!(config["Volumes"], Value::Null);
}

/// Returns the container's arguments. The tests share one network, so the ports of the manifest may
/// be in use: the addresses are replaced, after a check that they fit the manifest's ports.
pub fn args(container: &Value) -> Vec<String> {
    let port = |name: &str| {
        let ports = container["ports"].as_array().expect("ports").iter();
        let port = ports
            .filter(|port| port["name"] == name)
            .map(|port| port["containerPort"].to_string())
            .next();
        port.unwrap_or_else(|| panic!("no port {name}"))
    };

    let replaced = strings(&container["args"]).map(|arg| {
        let Some((flag, address)) = arg.split_once("-address=") else {
            return arg;
        };
        let expected = match flag {
            "--admin" => "127.0.0.1:8080".to_owned(),
            "--health" => format!("0.0.0.0:{}", port("health")),
            "--secure" => format!("0.0.0.0:{}", port("https")),
            _ => panic!("the test does not know {arg}"),
        };
        assert_eq!(address, expected, "{arg}");
        format!("{flag}-address=127.0.0.1:0")
    });

    replaced.collect()
}

/// Returns the container's own variables, as `NAME=VALUE`.
pub fn variables(container: &Value, namespace: &str, pod: &str) -> Vec<String> {
    let value = |variable: &Value| match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
        None => variable["value"].as_str().unwrap_or_default().to_owned(),
        Some("metadata.name") => pod.to_owned(),
        Some("metadata.namespace") => namespace.to_owned(),
        Some("status.podIP") => "127.0.0.1".to_owned(),
        Some(path) => panic!("the test does not know {path}"),
    };

    let all = container["env"].as_array().into_iter().flatten();
    all.map(|variable| {
        format!(
            "{}={}",
            variable["name"].as_str().expect("a name"),
            value(variable)
        )
    })
    .collect()
}

/// Returns the texts of a list; none for null.
pub fn strings(list: &Value) -> impl Iterator<Item = String> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|item| item.as_str().expect("text").to_owned())
}

//! The fields by which objects of each kind can be selected, and their values.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::{at, text};

const POD: [&str; 10] = [
    "spec.hostNetwork",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.nominatedNodeName",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];
const EVENT: [&str; 11] = [
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const NEW_EVENT: [&str; 10] = [
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// Returns the fields by which objects of a kind can be selected, besides their name and namespace.
pub fn selectable_fields(api_version: &str, kind: &str) -> &'static [&'static str] {
    match (api_version, kind) {
        ("v1", "Pod") => &POD,
        ("v1", "Node") => &["spec.unschedulable"],
        ("v1", "ReplicationController") => &["status.replicas"],
        ("v1", "Event") => &EVENT,
        ("events.k8s.io/v1", "Event") => &NEW_EVENT,
        ("v1", "Namespace") => &["status.phase"],
        ("v1", "Secret") => &["type"],
        ("v1", "Service") => &["spec.clusterIP", "spec.type"],
        ("batch/v1", "Job") => &["status.successful"],
        ("certificates.k8s.io/v1", "CertificateSigningRequest") => &["spec.signerName"],
        ("resource.k8s.io/v1", "ResourceSlice") => &["spec.nodeName", "spec.driver"],
        _ => &[],
    }
}

/// Returns the values of these fields in an object of the kind.
pub fn field_values(api_version: &str, kind: &str, object: &Value) -> BTreeMap<String, String> {
    let fields = selectable_fields(api_version, kind).iter();
    fields
        .map(|field| ((*field).to_owned(), value_of(object, field)))
        .collect()
}

/// Returns the value of a field as a selector sees it.
fn value_of(object: &Value, field: &str) -> String {
    match field {
        "spec.host" => text(object, "spec.nodeName").to_owned(),
        "spec.hostNetwork" | "spec.unschedulable" => {
            (at(object, field) == &Value::Bool(true)).to_string()
        }
        "status.successful" => at(object, "status.succeeded")
            .as_i64()
            .unwrap_or(0)
            .to_string(),
        "status.replicas" => at(object, field).as_i64().unwrap_or(0).to_string(),
        "status.podIP" | "status.podIPs" => {
            let first = at(object, "status.podIPs")
                .get(0)
                .map_or("", |first| text(first, "ip"));
            if first.is_empty() {
                text(object, "status.podIP")
            } else {
                first
            }
            .to_owned()
        }
        "source" => match text(object, "source.component") {
            "" => text(object, "reportingComponent").to_owned(),
            component => component.to_owned(),
        },
        field => text(object, field).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::field_values;

    #[test]
    fn pods_have_their_node_and_phase() {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let values = field_values("v1", "Pod", &pod);
        for (field, value) in [
            ("spec.nodeName", "n"),
            ("status.phase", "Running"),
            ("spec.hostNetwork", "false"),
        ] {
            assert_eq!(values[field], value, "{field}");
        }
        assert!(field_values("v1", "ConfigMap", &pod).is_empty());
    }

    #[test]
    fn event_without_source_has_its_reporter() {
        let event = json!({"reportingComponent": "host"});
        assert_eq!(field_values("v1", "Event", &event)["source"], "host");
    }
}

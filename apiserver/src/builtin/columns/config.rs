//! The cells of configuration, nodes, Events, roles, leases and admission kinds.

use serde_json::Value;

use super::super::object::{fields, has, int, is_true, items, text};
use super::{Printer, format};

pub(super) fn cells(kind: &str, printer: &Printer<'_>) -> Option<Vec<Value>> {
    let named = |cells: Vec<Value>| {
        let mut all = vec![printer.name()];
        all.extend(cells);
        all.push(printer.age());
        all
    };

    Some(match kind {
        "ConfigMap" => {
            let size =
                fields(printer.object, "data").len() + fields(printer.object, "binaryData").len();
            named(vec![size.into()])
        }
        "Secret" => named(vec![
            printer.text("type").into(),
            fields(printer.object, "data").len().into(),
        ]),
        "Namespace" => named(vec![printer.text("status.phase").into()]),
        "ServiceAccount" | "DeviceClass" | "ResourceClaimTemplate" => named(Vec::new()),
        "ResourceQuota" => named(quota(printer.object).to_vec()),
        "Node" => node(printer),
        "Event" => event(printer),
        "ComponentStatus" => return None,
        "RoleBinding" | "ClusterRoleBinding" => role_binding(printer),
        "Lease" => named(vec![printer.text("spec.holderIdentity").into()]),
        "PriorityClass" => vec![
            printer.name(),
            printer.number("value").into(),
            is_true(printer.object, "globalDefault").into(),
            printer.age(),
            printer.text("preemptionPolicy").into(),
        ],
        "RuntimeClass" => named(vec![printer.text("handler").into()]),
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            named(vec![items(printer.object, "webhooks").len().into()])
        }
        "ValidatingAdmissionPolicy" => policy(printer, "spec.validations"),
        "MutatingAdmissionPolicy" => policy(printer, "spec.mutations"),
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            policy_binding(printer)
        }
        "APIService" => named(api_service(printer).to_vec()),
        _ => return None,
    })
}

fn quota(object: &Value) -> [Value; 2] {
    let used = fields(object, "status.used");
    let mut requests = Vec::new();
    let mut limits = Vec::new();

    let mut hard: Vec<_> = fields(object, "status.hard").iter().collect();
    hard.sort_unstable_by_key(|(name, _)| *name);

    for (name, amount) in hard {
        let current = used.get(name).and_then(Value::as_str).unwrap_or("0");

        let list = if name.starts_with("limits.") {
            &mut limits
        } else {
            &mut requests
        };

        list.push(format!(
            "{name}: {current}/{}",
            amount.as_str().unwrap_or("0")
        ));
    }

    [requests.join(", ").into(), limits.join(", ").into()]
}

fn node(printer: &Printer<'_>) -> Vec<Value> {
    const ROLE: &str = "node-role.kubernetes.io/";
    let node = printer.object;

    let ready = items(node, "status.conditions")
        .iter()
        .rev()
        .find(|condition| condition["type"] == "Ready");

    let mut status = match ready.map(|condition| text(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();

    if is_true(node, "spec.unschedulable") {
        status.push_str(",SchedulingDisabled");
    }

    let mut roles: Vec<&str> = fields(node, "metadata.labels")
        .iter()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix(ROLE),
        })
        .filter(|role| !role.is_empty())
        .collect();

    roles.sort_unstable();
    roles.dedup();
    let roles = if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    };

    let address = |kind: &str| {
        let found = items(node, "status.addresses")
            .iter()
            .find(|address| address["type"] == kind);
        found
            .map_or("<none>", |address| text(address, "address"))
            .into()
    };

    let info = |key: &str| printer.text_or(&format!("status.nodeInfo.{key}"), "<unknown>");
    let mut kernel = info("kernelVersion");
    let architecture = printer.text("status.nodeInfo.architecture");
    if !architecture.is_empty() {
        kernel = format!("{} ({architecture})", kernel.as_str().unwrap_or_default()).into();
    }

    vec![
        printer.name(),
        status.into(),
        roles.into(),
        printer.age(),
        printer.text("status.nodeInfo.kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        kernel,
        info("containerRuntimeVersion"),
    ]
}

/// The cells of an Event, of core/v1 or, with other field names, of events.k8s.io/v1.
fn event(printer: &Printer<'_>) -> Vec<Value> {
    let first_of =
        |paths: [&'static str; 2]| paths.into_iter().find(|path| has(printer.object, path));
    let since = |paths| first_of(paths).map(|path| printer.since(path));
    let micro = || {
        if has(printer.object, "eventTime") {
            printer.since("eventTime")
        } else {
            "<unknown>".to_owned()
        }
    };

    let first = since(["firstTimestamp", "deprecatedFirstTimestamp"]).unwrap_or_else(micro);
    let mut last =
        since(["lastTimestamp", "deprecatedLastTimestamp"]).unwrap_or_else(|| first.clone());

    let mut count = int(printer.object, "count")
        .or_else(|| int(printer.object, "deprecatedCount"))
        .unwrap_or(0)
        .max(1);

    if has(printer.object, "series") {
        last = printer.since("series.lastObservedTime");
        count = printer.number("series.count");
    }

    let about = if has(printer.object, "regarding") {
        "regarding"
    } else {
        "involvedObject"
    };
    let about = printer.at(about);

    let kind = text(about, "kind").to_lowercase();
    let target = match text(about, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };

    let text_of = |paths: &[&str]| {
        paths
            .iter()
            .map(|path| printer.text(path))
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    };
    let component = text_of(&[
        "source.component",
        "deprecatedSource.component",
        "reportingComponent",
        "reportingController",
    ]);
    let host = text_of(&["source.host", "deprecatedSource.host", "reportingInstance"]);

    let source = if host.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {host}")
    };

    vec![
        last.into(),
        printer.text("type").into(),
        printer.text("reason").into(),
        target.into(),
        text(about, "fieldPath").into(),
        source.into(),
        text_of(&["message", "note"]).trim().into(),
        first.into(),
        count.into(),
        printer.name(),
    ]
}

fn role_binding(printer: &Printer<'_>) -> Vec<Value> {
    let subjects = items(printer.object, "subjects");
    let names = |kind: &str| {
        let of_kind = subjects.iter().filter(|subject| subject["kind"] == kind);
        let shown = of_kind.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
            _ => text(subject, "name").to_owned(),
        });
        Value::from(shown.collect::<Vec<_>>().join(", "))
    };

    let role = printer.at("roleRef");
    vec![
        printer.name(),
        format!("{}/{}", text(role, "kind"), text(role, "name")).into(),
        printer.age(),
        names("User"),
        names("Group"),
        names("ServiceAccount"),
    ]
}

fn policy(printer: &Printer<'_>, list: &str) -> Vec<Value> {
    let kind = match printer.at("spec.paramKind") {
        Value::Null => "<unset>".to_owned(),
        kind => format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")),
    };

    vec![
        printer.name(),
        items(printer.object, list).len().into(),
        kind.into(),
        printer.age(),
    ]
}

fn policy_binding(printer: &Printer<'_>) -> Vec<Value> {
    let reference = printer.at("spec.paramRef");
    let name = match (text(reference, "name"), text(reference, "namespace")) {
        ("", _) if reference["selector"].is_object() => format::selector(&reference["selector"]),
        ("", _) => "<unset>".to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };

    vec![
        printer.name(),
        printer.text("spec.policyName").into(),
        name.into(),
        printer.age(),
    ]
}

fn api_service(printer: &Printer<'_>) -> [Value; 2] {
    let service = match printer.at("spec.service") {
        Value::Null => "Local".to_owned(),
        service => format!("{}/{}", text(service, "namespace"), text(service, "name")),
    };

    let condition = items(printer.object, "status.conditions")
        .iter()
        .find(|found| found["type"] == "Available");
    let available = match condition {
        None => "Unknown".to_owned(),
        Some(found) if found["status"] == "True" => "True".to_owned(),
        Some(found) => format!("{} ({})", text(found, "status"), text(found, "reason")),
    };

    [service.into(), available.into()]
}

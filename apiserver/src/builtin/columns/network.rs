//! The cells of Services, endpoints, Ingresses and network policies.

use serde_json::Value;

use super::super::object::{fields, int, items, text};
use super::{Printer, format};

/// How many addresses, hosts or ports a cell shows.
const SHOWN: usize = 3;

pub(super) fn cells(kind: &str, printer: &Printer<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "Service" => service(printer),
        "Endpoints" => vec![
            printer.name(),
            endpoints(printer.object).into(),
            printer.age(),
        ],
        "EndpointSlice" => slice(printer),
        "Ingress" => ingress(printer),
        "IngressClass" => ingress_class(printer),
        "NetworkPolicy" => {
            let selector = format::selector_or_none(printer.at("spec.podSelector"));
            vec![printer.name(), selector.into(), printer.age()]
        }
        "ServiceCIDR" => vec![
            printer.name(),
            texts(printer.at("spec.cidrs")).join(",").into(),
            printer.age(),
        ],
        "IPAddress" => vec![printer.name(), parent(printer.at("spec.parentRef")).into()],
        _ => return None,
    })
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn service(printer: &Printer<'_>) -> Vec<Value> {
    let internal = items(printer.object, "spec.clusterIPs")
        .first()
        .and_then(Value::as_str)
        .unwrap_or("<none>");

    let ports: Vec<String> = items(printer.object, "spec.ports")
        .iter()
        .map(|port| {
            let number = int(port, "port").unwrap_or(0);
            let node = int(port, "nodePort")
                .filter(|node| *node > 0)
                .map_or(String::new(), |node| format!(":{node}"));
            format!("{number}{node}/{}", text(port, "protocol"))
        })
        .collect();

    let ports = if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    };

    vec![
        printer.name(),
        printer.text("spec.type").into(),
        internal.into(),
        external_ip(printer.object).into(),
        ports.into(),
        printer.age(),
        format::labels(fields(printer.object, "spec.selector")).into(),
    ]
}

fn external_ip(service: &Value) -> String {
    let external: Vec<String> = items(service, "spec.externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();

    match text(service, "spec.type") {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let mut all = addresses(items(service, "status.loadBalancer.ingress"));
            all.sort_unstable();
            all.dedup();
            all.extend(external);

            if all.is_empty() {
                "<pending>".to_owned()
            } else {
                all.join(",")
            }
        }
        "ExternalName" => text(service, "spec.externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses of a load balancer: IPs, or else hostnames.
fn addresses(points: &[Value]) -> Vec<String> {
    let address = |point: &Value| match text(point, "ip") {
        "" => text(point, "hostname").to_owned(),
        ip => ip.to_owned(),
    };

    points
        .iter()
        .map(address)
        .filter(|address| !address.is_empty())
        .collect()
}

fn endpoints(object: &Value) -> String {
    let subsets = items(object, "subsets");
    if subsets.is_empty() {
        return "<none>".to_owned();
    }

    let mut list = Vec::new();
    for subset in subsets {
        let addresses: Vec<&str> = items(subset, "addresses")
            .iter()
            .map(|point| text(point, "ip"))
            .collect();

        let ports = items(subset, "ports");
        if ports.is_empty() {
            list.extend(addresses.iter().map(ToString::to_string));
        }

        for port in ports {
            let number = int(port, "port").unwrap_or(0);
            list.extend(addresses.iter().map(|address| match address.contains(':') {
                true => format!("[{address}]:{number}"),
                false => format!("{address}:{number}"),
            }));
        }
    }

    format::shortened(&list, SHOWN)
}

fn slice(printer: &Printer<'_>) -> Vec<Value> {
    let ports: Vec<String> = items(printer.object, "ports")
        .iter()
        .map(|port| match int(port, "port") {
            Some(number) => number.to_string(),
            None => "*".to_owned(),
        })
        .collect();

    let ports = if ports.is_empty() {
        "<unset>".to_owned()
    } else {
        format::shortened(&ports, SHOWN)
    };

    let addresses: Vec<String> = items(printer.object, "endpoints")
        .iter()
        .flat_map(|endpoint| texts(&endpoint["addresses"]))
        .collect();

    let addresses = if addresses.is_empty() {
        "<unset>".to_owned()
    } else {
        format::shortened(&addresses, SHOWN)
    };

    vec![
        printer.name(),
        printer.text("addressType").into(),
        ports.into(),
        addresses.into(),
        printer.age(),
    ]
}

fn ingress(printer: &Printer<'_>) -> Vec<Value> {
    let rules = items(printer.object, "spec.rules");

    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == SHOWN;
        let host = text(rule, "host");
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }

    let hosts = match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, false) => hosts.join(","),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - SHOWN),
    };

    let mut points = addresses(items(printer.object, "status.loadBalancer.ingress"));
    points.sort_unstable();
    points.dedup();

    let ports = if items(printer.object, "spec.tls").is_empty() {
        "80"
    } else {
        "80, 443"
    };

    vec![
        printer.name(),
        printer.text_or("spec.ingressClassName", "<none>"),
        hosts.into(),
        points.join(",").into(),
        ports.into(),
        printer.age(),
    ]
}

fn ingress_class(printer: &Printer<'_>) -> Vec<Value> {
    let parameters = printer.at("spec.parameters");

    let shown = match parameters {
        Value::Null => "<none>".to_owned(),
        parameters => {
            let group = parameters["apiGroup"]
                .as_str()
                .map_or(String::new(), |group| format!(".{group}"));
            format!(
                "{}{group}/{}",
                text(parameters, "kind"),
                text(parameters, "name")
            )
        }
    };

    let annotations = fields(printer.object, "metadata.annotations");
    let default = annotations
        .get("ingressclass.kubernetes.io/is-default-class")
        .is_some_and(|value| value == "true");
    let suffix = if default { " (default)" } else { "" };

    vec![
        format!("{}{suffix}", printer.text("metadata.name")).into(),
        printer.text("spec.controller").into(),
        shown.into(),
        printer.age(),
    ]
}

fn parent(reference: &Value) -> String {
    if reference.is_null() {
        return "<none>".to_owned();
    }

    let group = match text(reference, "group") {
        "" => String::new(),
        group => format!(".{group}"),
    };
    let resource = format!("{}{group}", text(reference, "resource")).to_lowercase();

    let namespace = match text(reference, "namespace") {
        "" => String::new(),
        namespace => format!("/{namespace}"),
    };

    format!("{resource}{namespace}/{}", text(reference, "name"))
}

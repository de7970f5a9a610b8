//! The allowed differences. `docs/embedded-api-server.md` lists the same rules, with their reasons.

use serde_json::Value;

use crate::{
    differences::{self, Difference},
    exchange::{Answer, Request},
    values::Values,
};

/// An allowed difference.
pub struct Rule {
    /// The name in the documentation.
    pub name: &'static str,
    /// Removes the difference from both answers.
    remove: fn(&Values, &Request, &mut Answer, &mut Answer),
}

/// All rules, in the order in which they are tried.
pub const RULES: [Rule; 7] = [
    Rule {
        name: "random values",
        remove: random_values,
    },
    Rule {
        name: "not implemented",
        remove: not_implemented,
    },
    Rule {
        name: "texts of Go",
        remove: texts_of_go,
    },
    Rule {
        name: "bookmarks",
        remove: bookmarks,
    },
    Rule {
        name: "discovery",
        remove: discovery,
    },
    Rule {
        name: "order of errors",
        remove: order_of_errors,
    },
    Rule {
        name: "objects of the server",
        remove: objects_of_the_server,
    },
];

/// Returns the rules that allow differences between two answers, and the remaining differences.
pub fn apply(
    values: &Values,
    request: &Request,
    real: &Answer,
    own: &Answer,
) -> (Vec<&'static str>, Vec<Difference>) {
    let (mut real, mut own) = (real.clone(), own.clone());
    let mut left = differences::between(&real, &own);
    let mut used = Vec::new();

    for rule in &RULES {
        if left.is_empty() {
            break;
        }

        let (mut other_real, mut other_own) = (real.clone(), own.clone());
        (rule.remove)(values, request, &mut other_real, &mut other_own);

        let fewer = differences::between(&other_real, &other_own);
        if fewer != left {
            used.push(rule.name);
            (real, own, left) = (other_real, other_own, fewer);
        }
    }

    (used, left)
}

/// Both servers choose generated names, addresses, node ports and tokens at random.
fn random_values(values: &Values, request: &Request, real: &mut Answer, own: &mut Answer) {
    values.random_to_real(&mut own.body);

    let refused =
        regex::Regex::new(r#"failed to allocate IP: IPAddress\.networking\.k8s\.io "[0-9.]+""#);
    let refused = refused.expect("a pattern");
    replace(&mut real.body, &refused, "failed to allocate IP: <address>");
    replace(&mut own.body, &refused, "failed to allocate IP: <address>");

    let body: Value = serde_json::from_str(&request.body.text()).unwrap_or_default();
    if let Some(prefix) = body["metadata"]["generateName"]
        .as_str()
        .filter(|prefix| !prefix.is_empty())
    {
        let prefix: String = prefix.chars().take(58).collect();
        let pattern = format!("{}[b-z2-9]{{5}}", regex::escape(&prefix));
        let pattern = regex::Regex::new(&pattern).expect("a pattern");
        replace(&mut real.body, &pattern, "<generated>");
        replace(&mut own.body, &pattern, "<generated>");
    }
}

fn replace(value: &mut Value, pattern: &regex::Regex, with: &str) {
    match value {
        Value::String(text) => *text = pattern.replace_all(text, with).into_owned(),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| replace(item, pattern, with)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| replace(member, pattern, with)),
        _ => {}
    }
}

/// The embedded server refuses what it does not implement, and says so.
fn not_implemented(values: &Values, request: &Request, real: &mut Answer, own: &mut Answer) {
    let message = own.body["message"].as_str().unwrap_or_default();
    let is_refused = own.code == 501 && message.contains("the embedded API server does not ");
    if is_refused || values.is_refused(request) {
        *own = real.clone();
    }

    for list in ["items", "rows"] {
        if let Some(items) = real.body.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| !values.is_refused_item(request, item));
        }
        if let Some(items) = own.body.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| !values.is_refused_item(request, item));
        }
    }
}

/// Messages about immutable fields print the differing values as Go's internal types.
fn texts_of_go(_: &Values, _: &Request, real: &mut Answer, own: &mut Answer) {
    fn cut(value: &mut Value) {
        match value {
            Value::String(text) => {
                let end = [
                    text.find("\n@@"),
                    text.find("Invalid value: {").map(|at| at + 14),
                ];
                if let Some(end) = end.into_iter().flatten().min() {
                    text.truncate(end);
                }

                if let (Some(start), Some(end)) =
                    (text.find("Invalid value: \"{"), text.rfind("}\": "))
                {
                    text.replace_range(start + 16..=end, "{…}");
                }
            }
            Value::Array(items) => items.iter_mut().for_each(cut),
            Value::Object(members) => members.values_mut().for_each(cut),
            _ => {}
        }
    }

    for answer in [real, own] {
        if answer.body["kind"] == "Status" {
            cut(&mut answer.body);
        }
    }
}

/// The real server sends bookmarks at its own times.
fn bookmarks(_: &Values, request: &Request, real: &mut Answer, own: &mut Answer) {
    let is_timed = |event: &Value| {
        let annotations = &event["object"]["metadata"]["annotations"];
        event["type"] == "BOOKMARK" && annotations["k8s.io/initial-events-end"] != "true"
    };

    for events in [real, own]
        .into_iter()
        .filter_map(|answer| answer.body.as_array_mut())
    {
        if request.is_watch() {
            events.retain(|event| !is_timed(event));
            for event in events
                .iter_mut()
                .filter(|event| event["type"] == "BOOKMARK")
            {
                if let Some(object) = event["object"].as_object_mut() {
                    object.retain(|key, _| {
                        matches!(key.as_str(), "kind" | "apiVersion" | "metadata")
                    });
                }
            }
        }
    }
}

/// Discovery and OpenAPI show what a server serves, and its address.
fn discovery(_: &Values, request: &Request, real: &mut Answer, own: &mut Answer) {
    let path = request.path.split('?').next().unwrap_or_default();
    let depth = path.trim_matches('/').split('/').count();

    let is_discovery = match path.trim_matches('/').split('/').next() {
        Some("api") => depth <= 2,
        Some("apis") => depth <= 3,
        Some("version" | "openapi") => true,
        _ => false,
    };

    if path == "/openapi/v2" && own.body.is_string() {
        // tests/embedded/openapi_v2.rs compares the protobuf, which is only text here.
        own.body = real.body.clone();
    }

    if path == "/openapi/v3"
        && let (Some(real), Some(own)) = (
            real.body["paths"].as_object(),
            own.body["paths"].as_object_mut(),
        )
    {
        own.retain(|path, _| real.contains_key(path) || !is_custom(path));
    }

    if is_discovery && own.code == 200 {
        keep_served(&mut real.body, &own.body);

        let hash = regex::Regex::new(r"\?hash=[0-9A-Za-z-]+").expect("a pattern");
        for body in [&mut real.body, &mut own.body] {
            if let Some(members) = body.as_object_mut() {
                members.remove("serverAddressByClientCIDRs");
            }
            replace(body, &hash, "");
            sort_by_name(body);
        }
    }
}

/// Reports whether a path in OpenAPI's index belongs to a group of CustomResourceDefinitions.
fn is_custom(path: &str) -> bool {
    let group = path
        .strip_prefix("apis/")
        .and_then(|rest| rest.split('/').next())
        .unwrap_or_default();
    group.contains('.') && !group.ends_with(".k8s.io")
}

fn sort_by_name(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(sort_by_name);
            items.sort_by_key(name_of);
        }
        Value::Object(members) => members.values_mut().for_each(sort_by_name),
        _ => {}
    }
}

/// The name of an item in discovery.
fn name_of(item: &Value) -> Option<String> {
    let names = [
        &item["name"],
        &item["metadata"]["name"],
        &item["version"],
        &item["resource"],
        &item["subresource"],
    ];
    names.into_iter().find_map(Value::as_str).map(str::to_owned)
}

/// Removes from the real server's document what the embedded one does not serve.
fn keep_served(real: &mut Value, own: &Value) {
    match (real, own) {
        (Value::Object(real), Value::Object(own)) => {
            real.retain(|key, _| own.contains_key(key));
            for (key, value) in real {
                keep_served(value, &own[key]);
            }
        }
        (Value::Array(real), Value::Array(own)) => {
            real.retain(|item| {
                name_of(item).is_none() || own.iter().any(|other| name_of(other) == name_of(item))
            });

            for item in real {
                if let Some(other) = own.iter().find(|other| name_of(other) == name_of(item)) {
                    keep_served(item, other);
                }
            }
        }
        _ => {}
    }
}

/// The real server iterates over hash tables, so some errors and rules have no order.
fn order_of_errors(_: &Values, request: &Request, real: &mut Answer, own: &mut Answer) {
    real.warnings.sort();
    own.warnings.sort();

    for body in [&mut real.body, &mut own.body] {
        if request.path.ends_with("selfsubjectrulesreviews") {
            for rules in ["/status/resourceRules", "/status/nonResourceRules"] {
                body.pointer_mut(rules).map(sort);
            }
        }

        if body["kind"] == "Status" && body["details"]["causes"].is_array() {
            body.pointer_mut("/details/causes").map(sort);
            let message = body["message"].as_str().unwrap_or_default().to_owned();
            if let Some((first, list)) = message.split_once(": [") {
                let mut errors: Vec<&str> = list.trim_end_matches(']').split(", ").collect();
                errors.sort_unstable();
                body["message"] = format!("{first}: [{}]", errors.join(", ")).into();
            }
        }
    }
}

fn sort(list: &mut Value) {
    if let Some(items) = list.as_array_mut() {
        items.sort_by_key(Value::to_string);
    }
}

/// The real server is the field manager of its own objects, and its repair loops write Events.
fn objects_of_the_server(_: &Values, _: &Request, real: &mut Answer, own: &mut Answer) {
    fn remove(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(remove),
            Value::Object(members) => {
                if let Some(Value::Array(entries)) = members.get_mut("managedFields") {
                    entries.retain(|entry| entry["manager"] != "kube-apiserver");
                    if entries.is_empty() {
                        members.remove("managedFields");
                    }
                }
                members.values_mut().for_each(remove);
            }
            _ => {}
        }
    }

    remove(&mut real.body);
    remove(&mut own.body);

    for list in ["items", "rows"] {
        if let Some(items) = real.body.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| !item.to_string().contains("\"ClusterIPNotAllocated\""));
        }
    }
}

//! The permissions of an operator for kube-rs, as far as its code shows them: the kinds of its controllers, and the methods of
//! each variable of the type `Api<T>`.

use std::collections::{BTreeMap, BTreeSet};

use crate::commands::{
    import::{markers::Markers, source_text::SourceText, unsupported::Finding},
    names::plural,
    roles::About,
};

const READ: &[&str] = &["get", "list", "watch"];

/// The methods of `Api`, the subresource and the verbs that each of them needs. An apply that creates its object needs `create`.
const METHODS: &[(&str, &str, &[&str])] = &[
    ("create", "", &["create"]),
    ("delete", "", &["delete"]),
    ("delete_collection", "", &["deletecollection"]),
    ("entry", "", &["create", "update"]),
    ("get", "", READ),
    ("get_opt", "", READ),
    ("get_status", "/status", &["get"]),
    ("list", "", READ),
    ("patch", "", &["create", "patch"]),
    ("patch_scale", "/scale", &["patch"]),
    ("patch_status", "/status", &["patch"]),
    ("replace", "", &["update"]),
    ("replace_status", "/status", &["update"]),
];

/// The groups of k8s_openapi's modules whose names are not those of the groups.
const GROUPS: &[(&str, &str)] = &[
    ("admissionregistration", "admissionregistration.k8s.io"),
    ("certificates", "certificates.k8s.io"),
    ("coordination", "coordination.k8s.io"),
    ("core", ""),
    ("discovery", "discovery.k8s.io"),
    ("events", "events.k8s.io"),
    ("networking", "networking.k8s.io"),
    ("node", "node.k8s.io"),
    ("rbac", "rbac.authorization.k8s.io"),
    ("scheduling", "scheduling.k8s.io"),
    ("storage", "storage.k8s.io"),
];

/// Returns the rules that the code shows. Kinds whose group is unknown are listed.
pub fn read(texts: &[SourceText], findings: &mut Vec<Finding>) -> Markers {
    let resources = resources(texts);
    let mut markers = Markers::default();
    let mut unknown = BTreeSet::new();
    let mut allow = |kind: &str, subresource: &str, verbs: &[&str]| match resources.get(kind) {
        Some((group, plural)) => markers.allow(&About::resource(group, &format!("{plural}{subresource}")), verbs),
        None => {
            unknown.insert(kind.to_owned());
        }
    };
    for text in texts {
        for kind in watched(text) {
            allow(&kind, "", READ);
        }
        for (variable, kind) in variables(text) {
            for (method, subresource, verbs) in METHODS {
                if !text.find(&format!("{variable}.{method}(")).is_empty()
                    || is_called_on_next_line(text, &variable, method)
                {
                    allow(&kind, subresource, verbs);
                }
            }
            if !text.find(&format!("finalizer(&{variable},")).is_empty() {
                allow(&kind, "", &["patch"]);
            }
        }
    }
    for group in ["", "events.k8s.io"] {
        markers.allow(&About::resource(group, "events"), &["create", "patch"]);
    }
    let about =
        |kind: &String| format!("permissions on {kind}: its API group is not in the code, write them into rbac.yaml");
    findings.extend(unknown.iter().map(|kind| Finding { place: "src".to_owned(), text: about(kind) }));
    let text = "permissions: rbac.yaml has those of the methods of variables of the type Api<T>; `operetta rbac` prints the rest";
    findings.push(Finding { place: "src".to_owned(), text: text.to_owned() });
    markers
}

/// Returns the kinds that the controllers reconcile and own.
fn watched(text: &SourceText) -> Vec<String> {
    let generic = |before: &str| {
        let rest = text.find(before).into_iter().map(|at| &text.code[at + before.len()..]);
        rest.filter_map(|rest| Some(last(rest.split_once('>')?.0))).collect::<Vec<_>>()
    };
    let mut kinds = generic("operetta_sdk::Source::resource::<");
    for at in text.find("operetta_sdk::Controller::kube(") {
        // The first argument is a string, whose content is blank; the second is the reconciler.
        let Some(reconcile) = text.code[at..].split(',').nth(1) else { continue };
        let function = last(reconcile);
        let declared = text.find(&format!("fn {function}(")).first().map(|at| &text.code[*at..]);
        let kind = declared.and_then(|text| text.split_once("Arc<")?.1.split_once('>'));
        kinds.extend(kind.map(|(kind, _)| last(kind)));
    }
    kinds
}

/// Returns the variables and fields of the type `Api<T>`, with `T`.
fn variables(text: &SourceText) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (before, after) in [(": Api<", '>'), (": &Api<", '>'), (" = Api::<", '>')] {
        for at in text.find(before) {
            let name = text.part(text.expression_before(at)..at);
            if let Some((kind, _)) = text.code[at + before.len()..].split_once(after) {
                variables.push((last(name), last(kind)));
            }
        }
    }
    variables
}

fn is_called_on_next_line(text: &SourceText, variable: &str, method: &str) -> bool {
    text.find(variable).iter().any(|at| {
        let rest = &text.code[at + variable.len()..];
        rest.starts_with(['\n', '\r', ' ']) && rest.trim_start().starts_with(&format!(".{method}("))
    })
}

/// Returns the group and the plural of each kind that is derived in the code, or imported from k8s_openapi.
fn resources(texts: &[SourceText]) -> BTreeMap<String, (String, String)> {
    let mut resources = BTreeMap::new();
    for text in texts {
        for at in text.find("k8s_openapi::api::") {
            let item = text.code[at..].split(';').next().unwrap_or_default();
            let mut segments = item.split("::").skip(2);
            let module = segments.next().unwrap_or_default().trim();
            let group = GROUPS.iter().find(|(name, _)| *name == module).map_or(module, |(_, group)| group);
            for kind in item
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
            {
                resources.insert(kind.to_owned(), (group.to_owned(), plural(kind)));
            }
        }
        for at in text.find("#[kube(") {
            let end = text.closing(at + 1).unwrap_or(at);
            let attribute = text.part(at..end);
            let value = |name: &str| {
                let (_, rest) = attribute.split_once(&format!("{name} = \""))?;
                Some(rest.split('"').next()?.to_owned())
            };
            if let (Some(group), Some(kind)) = (value("group"), value("kind")) {
                let plural = value("plural").unwrap_or_else(|| plural(&kind));
                resources.insert(kind, (group, plural));
            }
        }
    }
    resources
}

/// Returns the last segment of a path.
fn last(path: &str) -> String {
    path.rsplit([':', '.', ' ', '&']).next().unwrap_or(path).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::import::markers::Account;

    #[test]
    fn methods_of_each_api_become_verbs() {
        let text = "use k8s_openapi::api::{apps::v1::Deployment};\nuse k8s_openapi::api::core::v1::{ConfigMap, Secret};\n\
                    #[kube(group = \"example.com\", version = \"v1\", kind = \"Foo\", plural = \"fooz\", namespaced)]\nstruct FooSpec {}\n\
                    async fn reconcile(foo: Arc<Foo>, ctx: Arc<Data>) {\n    let foos: Api<Foo> = Api::namespaced(a, b);\n    \
                    let maps = Api::<ConfigMap>::namespaced(a, b);\n    maps.patch(x).await; foos\n        .patch_status(x).await;\n    \
                    let bars: Api<Bar> = x(); bars.get(y);\n    finalizer(&foos, N, foo, f).await;\n}\n\
                    fn c() { operetta_sdk::Controller::kube(\"foo\", reconcile, policy, |ctx| {})\n    \
                    .owns_source(operetta_sdk::Source::resource::<Secret>()) }\n";
        let mut findings = Vec::new();
        let markers = read(&[SourceText::rust(text.to_owned())], &mut findings);
        let yaml = markers.yaml(&Account { name: "x", namespace: None, own_namespace: true }, "");
        for rule in [
            "resources: [configmaps, events]\n    verbs: [create, patch]\n",
            "resources: [secrets]\n    verbs: [get, list, watch]\n",
            "apiGroups: [example.com]\n    resources: [fooz]\n    verbs: [get, list, watch, patch]\n",
            "apiGroups: [example.com]\n    resources: [fooz/status]\n    verbs: [patch]\n",
        ] {
            assert!(yaml.contains(rule), "{rule}\n{yaml}");
        }
        assert!(findings.iter().any(|finding| finding.text.starts_with("permissions on Bar: ")), "{findings:?}");
    }
}

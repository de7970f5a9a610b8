//! `operetta generate rbac FILE.wasm`: the rights that a component needs for what it declares.
//!
//! Of the kinds that it watches in its own namespace, a Role; of those that it watches everywhere, a ClusterRole. What
//! it reads or writes beside what it declares nobody can tell from outside: those rights are for its author to add.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use operetta_core::manifest::{Manifest, Namespaces, Source};

use crate::{
    args::RbacArgs,
    commands::{
        check,
        names::{is_dns_label, plural},
        print,
    },
};

/// Prints the objects as YAML.
pub async fn rbac(args: &RbacArgs) -> Result<()> {
    let bytes = std::fs::read(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let plugin = check::load(bytes).await?;
    let stem = args.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("plugin");
    let name = args.name.clone().unwrap_or_else(|| stem.replace('_', "-").to_lowercase());
    if !is_dns_label(&name) {
        bail!(
            "{name:?} cannot be a plugin's name: lower case letters, digits and '-', at most 63; --name chooses another"
        );
    }
    let mut plurals = BTreeMap::new();
    for pair in &args.resources {
        let (kind, plural) = pair.split_once('=').with_context(|| format!("--resource {pair:?} is not KIND=PLURAL"))?;
        plurals.insert(kind.to_owned(), plural.to_owned());
    }
    print(&yaml(plugin.manifest(), &name, args.namespace.as_deref(), &plurals)?)
}

/// Verbs by resource and group.
type Rules = BTreeMap<(String, String), Vec<&'static str>>;

const WATCH: &[&str] = &["get", "list", "watch"];
/// Beside watching: what a controller does with the kind it is for, with its status, and with what it owns.
const STATUS: &[&str] = &["update", "patch"];
const OWNED: &[&str] = &["create", "update", "patch", "delete"];

fn yaml(
    manifest: &Manifest,
    name: &str,
    namespace: Option<&str>,
    plurals: &BTreeMap<String, String>,
) -> Result<String> {
    let (mut own, mut everywhere) = (Rules::new(), Rules::new());
    let mut allow = |source: &Source, subresource: &str, verbs: &[&'static str]| {
        let kind = source.group_version_kind();
        let resource = plurals.get(&source.kind).cloned().unwrap_or_else(|| plural(&source.kind));
        let group = kind.api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let rules = if source.namespaces == Namespaces::Own { &mut own } else { &mut everywhere };
        let found = rules.entry((group, resource + subresource)).or_default();
        found.extend(verbs.iter().filter(|verb| !found.contains(verb)).copied().collect::<Vec<_>>());
    };
    for controller in &manifest.controllers {
        allow(&controller.for_, "", WATCH);
        allow(&controller.for_, "/status", STATUS);
        for source in &controller.owns {
            allow(source, "", WATCH);
            allow(source, "", OWNED);
        }
        if !controller.owns.is_empty() {
            allow(&controller.for_, "/finalizers", &["update"]);
        }
        for watch in &controller.watches {
            allow(&watch.source, "", WATCH);
        }
    }
    let events = if everywhere.is_empty() { &mut own } else { &mut everywhere };
    for group in ["", "events.k8s.io"] {
        events.insert((group.to_owned(), "events".to_owned()), vec!["create", "patch"]);
    }

    let in_namespace = namespace.map(|namespace| format!("  namespace: {namespace}\n")).unwrap_or_default();
    let mut documents = vec![format!(
        "# As whom the plugin acts, and what that account may do for what the plugin declares. Add what it reads and writes\n\
         # besides.\n\
         apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name}\n{in_namespace}  annotations:\n    \
         operetta.dev/allow-plugins: {name}\n"
    )];
    for (prefix, rules) in [("", own), ("Cluster", everywhere)] {
        if rules.is_empty() {
            continue;
        }
        // Names of ClusterRoles have no namespace to tell them apart.
        let (role, place, subject) = match prefix {
            "" => (name.to_owned(), in_namespace.clone(), namespace.map(str::to_owned)),
            _ => {
                let namespace = namespace.unwrap_or("default");
                (format!("operetta:{namespace}:{name}"), String::new(), Some(namespace.to_owned()))
            }
        };
        let subject = subject.map(|namespace| format!("    namespace: {namespace}\n")).unwrap_or_default();
        documents.push(format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}Role\nmetadata:\n  name: {role}\n{place}rules:\n{}",
            rules.iter().map(rule).collect::<String>()
        ));
        documents.push(format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}RoleBinding\nmetadata:\n  name: {role}\n{place}roleRef:\n  \
             apiGroup: rbac.authorization.k8s.io\n  kind: {prefix}Role\n  name: {role}\nsubjects:\n  - kind: ServiceAccount\n    \
             name: {name}\n{subject}"
        ));
    }
    Ok(documents.join("---\n"))
}

fn rule(((group, resource), verbs): (&(String, String), &Vec<&'static str>)) -> String {
    let group = if group.is_empty() { "\"\"" } else { group };
    format!("  - apiGroups: [{group}]\n    resources: [{resource}]\n    verbs: [{}]\n", verbs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(namespaces: &str) -> Manifest {
        let source = |api: &str, kind: &str| format!(r#"{{"apiVersion":"{api}","kind":"{kind}"{namespaces}}}"#);
        let text = format!(
            r#"{{"apiVersion":"operetta.dev/v1alpha1","kind":"Manifest","controllers":[{{"name":"c","for":{},"owns":[{}],
               "watches":[{{"source":{},"map":{{"type":"SameName"}}}}]}}]}}"#,
            source("example.com/v1", "Policy"),
            source("apps/v1", "Deployment"),
            source("v1", "Secret")
        );
        Manifest::parse(&text).expect("a manifest")
    }

    fn documents(yaml: &str) -> Vec<serde_json::Value> {
        use serde::Deserialize;
        serde_yaml_ng::Deserializer::from_str(yaml).map(|one| Deserialize::deserialize(one).expect("YAML")).collect()
    }

    #[test]
    fn the_plugins_own_namespace_takes_a_role() {
        let made = yaml(&manifest(r#","namespaces":"Own""#), "p", None, &BTreeMap::new()).expect("made");
        let all = documents(&made);
        let kinds: Vec<_> = all.iter().map(|one| one["kind"].as_str().expect("a kind")).collect();
        assert_eq!(kinds, ["ServiceAccount", "Role", "RoleBinding"]);
        assert_eq!(all[0]["metadata"]["annotations"]["operetta.dev/allow-plugins"], "p");
        let rules: Vec<String> = all[1]["rules"]
            .as_array()
            .expect("rules")
            .iter()
            .map(|rule| {
                format!(
                    "{}/{}: {}",
                    rule["apiGroups"][0].as_str().expect("a group"),
                    rule["resources"][0].as_str().expect("a resource"),
                    rule["verbs"]
                        .as_array()
                        .expect("verbs")
                        .iter()
                        .filter_map(|verb| verb.as_str())
                        .collect::<Vec<_>>()
                        .join(",")
                )
            })
            .collect();
        assert_eq!(
            rules,
            [
                "/events: create,patch",
                "/secrets: get,list,watch",
                "apps/deployments: get,list,watch,create,update,patch,delete",
                "events.k8s.io/events: create,patch",
                "example.com/policies: get,list,watch",
                "example.com/policies/finalizers: update",
                "example.com/policies/status: update,patch",
            ]
        );
        assert_eq!(all[2]["subjects"][0], serde_json::json!({"kind": "ServiceAccount", "name": "p"}));
    }

    #[test]
    fn all_namespaces_take_a_cluster_role_bound_to_the_account_of_one() {
        let plurals = BTreeMap::from([("Policy".to_owned(), "policys".to_owned())]);
        let made = yaml(&manifest(""), "p", Some("prod"), &plurals).expect("made");
        let all = documents(&made);
        let kinds: Vec<_> = all.iter().map(|one| one["kind"].as_str().expect("a kind")).collect();
        assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]);
        assert_eq!(all[2]["metadata"]["name"], "operetta:prod:p");
        assert_eq!(all[2]["subjects"][0]["namespace"], "prod");
        assert!(made.contains("resources: [policys/status]"), "{made}");
    }
}

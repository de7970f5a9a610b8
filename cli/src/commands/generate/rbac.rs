//! `operetta generate rbac FILE.wasm`: prints the permissions that a component needs for what it
//! declares.
//!
//! Kinds that it watches in its own namespace need a Role, kinds that it watches everywhere a
//! ClusterRole. Calls that the manifest does not declare are unknown here; the author adds those
//! permissions.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use operetta_api::names::is_dns_subdomain;
use operetta_core::manifest::{Manifest, Namespaces, Source};

use crate::{
    args::RbacArgs,
    commands::{
        check,
        names::{plugin_name, plural},
        print_document,
        roles::{About, Role, Rules, name_elsewhere, plain},
    },
};

/// Prints the ServiceAccount, the role and the binding as YAML.
///
/// # Errors
/// Returns an error if the file cannot be read or the host would refuse it, or an argument is
/// wrong.
pub async fn rbac(args: &RbacArgs) -> Result<()> {
    let bytes = std::fs::read(&args.file)
        .with_context(|| format!("failed to read {}", args.file.display()))?;
    let plugin = check::load(bytes).await?;

    let name = args.name.clone();
    let name = name.unwrap_or_else(|| plugin_name(&args.file));
    if !is_dns_subdomain(&name) {
        bail!(
            "{name:?} is not a valid plugin name: use lower case letters, digits, '-' and '.', at most 253 (--name overrides it)"
        );
    }

    let mut plurals = BTreeMap::new();
    for pair in &args.resources {
        let (kind, plural) = pair
            .split_once('=')
            .with_context(|| format!("--resource {pair:?} is not KIND=PLURAL"))?;
        plurals.insert(kind.to_owned(), plural.to_owned());
    }

    print_document(&yaml(
        plugin.manifest(),
        &name,
        args.namespace.as_deref(),
        &plurals,
    )?)
}

const WATCH: &[&str] = &["get", "list", "watch"];
/// The verbs, besides those of watching, on the status of the kind that a controller reconciles.
const STATUS: &[&str] = &["update", "patch"];
const OWNED: &[&str] = &["create", "update", "patch", "delete"];
/// The verbs that finalizers need on the reconciled kind: the SDKs' helpers patch the object, and
/// in Go it is updated after `AddFinalizer`.
const FINALIZERS: &[&str] = &["update", "patch"];

/// The rules for the plugin's own namespace, and those for all namespaces.
fn declared_rules(manifest: &Manifest, plurals: &BTreeMap<String, String>) -> (Rules, Rules) {
    let mut own = Rules::default();
    let mut everywhere = Rules::default();
    let mut allow = |source: &Source, subresource: &str, verbs: &[&str]| {
        let kind = source.group_version_kind();
        let resource = plurals
            .get(&source.kind)
            .cloned()
            .unwrap_or_else(|| plural(&source.kind));
        let about = About::resource(kind.group(), &(resource + subresource));

        let rules = if source.namespaces == Namespaces::Own {
            &mut own
        } else {
            &mut everywhere
        };

        verbs
            .iter()
            .for_each(|verb| rules.allow(about.clone(), verb));
    };

    for controller in &manifest.controllers {
        allow(&controller.for_, "", WATCH);
        allow(&controller.for_, "/status", STATUS);
        if !controller.finalizers.is_empty() {
            allow(&controller.for_, "", FINALIZERS);
        }

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

    let events = if everywhere.is_empty() {
        &mut own
    } else {
        &mut everywhere
    };

    for group in ["", "events.k8s.io"] {
        ["create", "patch"]
            .iter()
            .for_each(|verb| events.allow(About::resource(group, "events"), verb));
    }

    (own, everywhere)
}

fn yaml(
    manifest: &Manifest,
    name: &str,
    namespace: Option<&str>,
    plurals: &BTreeMap<String, String>,
) -> Result<String> {
    let (own, everywhere) = declared_rules(manifest, plurals);
    let in_namespace = namespace
        .map(|namespace| format!("  namespace: {}\n", plain(namespace)))
        .unwrap_or_default();

    let account = plain(name);
    let mut documents = vec![format!(
        "# The ServiceAccount that the plugin acts as, and its permissions for what the manifest declares.\n\
         # Add permissions for other reads and writes.\n\
         apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {account}\n{in_namespace}  annotations:\n    \
         operetta.dev/allow-plugins: {account}\n"
    )];

    if !own.is_empty() {
        let account = name;
        let account_namespace = namespace;
        let role = Role {
            name,
            managed_by: None,
            cluster: false,
            namespace,
            account,
            account_namespace,
            rules: &own,
        };
        documents.extend(role.documents());
    }

    if !everywhere.is_empty() {
        let home = namespace.unwrap_or("default");
        let account = name;
        let name = &name_elsewhere(home, name);
        let account_namespace = Some(home);
        let role = Role {
            name,
            managed_by: None,
            cluster: true,
            namespace,
            account,
            account_namespace,
            rules: &everywhere,
        };
        documents.extend(role.documents());
    }

    Ok(documents.join("---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(namespaces: &str) -> Manifest {
        let source = |api: &str, kind: &str| {
            format!(r#"{{"apiVersion":"{api}","kind":"{kind}"{namespaces}}}"#)
        };
        let text = format!(
            r#"{{"apiVersion":"operetta.dev/v1alpha1","kind":"Manifest","controllers":[{{"name":"c","for":{},"owns":[{}],
               "watches":[{{"source":{},"map":{{"type":"SameName"}}}}]}}]}}"#,
            source("example.com/v1", "Policy"),
            source("apps/v1", "Deployment"),
            source("v1", "Secret")
        );
        operetta_core::manifest::parse(&text).expect("a manifest")
    }

    fn documents(yaml: &str) -> Vec<serde_json::Value> {
        use serde::Deserialize;
        serde_yaml_ng::Deserializer::from_str(yaml)
            .map(|one| Deserialize::deserialize(one).expect("YAML"))
            .collect()
    }

    /// The rules of a role, one to a line.
    fn rules(role: &serde_json::Value) -> Vec<String> {
        let rule = |rule: &serde_json::Value| {
            let all = |field: &str| {
                let texts = rule[field].as_array().expect("a list").iter();
                texts
                    .map(|text| text.as_str().expect("a text"))
                    .collect::<Vec<_>>()
                    .join(",")
            };

            format!(
                "{}/{}: {}",
                all("apiGroups"),
                all("resources"),
                all("verbs")
            )
        };

        role["rules"]
            .as_array()
            .expect("rules")
            .iter()
            .map(rule)
            .collect()
    }

    #[test]
    fn the_plugins_own_namespace_takes_a_role() {
        let made = yaml(
            &manifest(r#","namespaces":"Own""#),
            "p",
            None,
            &BTreeMap::new(),
        )
        .expect("made");

        let all = documents(&made);
        let kinds: Vec<_> = all
            .iter()
            .map(|one| one["kind"].as_str().expect("a kind"))
            .collect();

        assert_eq!(kinds, ["ServiceAccount", "Role", "RoleBinding"]);
        assert_eq!(
            all[0]["metadata"]["annotations"]["operetta.dev/allow-plugins"],
            "p"
        );

        assert_eq!(
            rules(&all[1]),
            [
                "/secrets: get,list,watch",
                ",events.k8s.io/events: create,patch",
                "apps/deployments: get,list,watch,create,update,patch,delete",
                "example.com/policies: get,list,watch",
                "example.com/policies/finalizers: update",
                "example.com/policies/status: update,patch",
            ]
        );

        assert_eq!(
            all[2]["subjects"][0],
            serde_json::json!({"kind": "ServiceAccount", "name": "p"})
        );
    }

    #[test]
    fn all_namespaces_need_a_cluster_role() {
        let plurals = BTreeMap::from([("Policy".to_owned(), "policys".to_owned())]);
        let made = yaml(&manifest(""), "p", Some("prod"), &plurals).expect("made");

        let all = documents(&made);
        let kinds: Vec<_> = all
            .iter()
            .map(|one| one["kind"].as_str().expect("a kind"))
            .collect();

        assert_eq!(
            kinds,
            ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
        );

        assert_eq!(all[2]["metadata"]["name"], "operetta:prod:p");
        assert_eq!(all[2]["subjects"][0]["namespace"], "prod");
        assert!(made.contains("resources: [policys/status]"), "{made}");
    }

    #[test]
    fn finalizer_needs_writes_of_its_kind_only() {
        let mut manifest = manifest(r#","namespaces":"Own""#);
        manifest.controllers[0].owns.clear();
        let role = |manifest: &Manifest| {
            let made = yaml(manifest, "p", None, &BTreeMap::new()).expect("made");
            rules(&documents(&made)[1])
        };

        let before = role(&manifest);
        assert!(
            before.contains(&"example.com/policies: get,list,watch".to_owned()),
            "{before:?}"
        );

        manifest.controllers[0].finalizers = vec!["example.com/cleanup".to_owned()];
        let after = role(&manifest);

        let added: Vec<_> = after.iter().filter(|rule| !before.contains(rule)).collect();
        assert_eq!(added, ["example.com/policies: get,list,watch,update,patch"]);
        assert_eq!(after.len(), before.len());
    }
}

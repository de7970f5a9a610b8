//! The permissions that a host needs to serve one ServiceAccount: a mirror of what the account
//! itself may do.
//!
//! In each namespace where the account has permissions, the host may make the same requests as the
//! account, and list and watch what the account may list and watch. A wildcard is expanded to the
//! resources that the API server serves now. Sensitive permissions are left out unless the
//! administrator allows them ([`Sensitive`]).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;
use operetta_core::authz::access_review::ServiceAccount;
use operetta_kube::authz::{
    granted_roles::GrantedRole,
    impersonation_refusal::{CONSTRAINED, CONSTRAINED_GROUP, CONSTRAINED_ON, LEGACY},
    rules::all,
};

use crate::{
    args::{ImpersonationMode, Sensitive},
    commands::roles::{About, Rules},
};

/// The verbs of requests. Others, such as `bind`, `escalate` and `impersonate`, are never mirrored.
const VERBS: [&str; 8] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];
/// The subresources that open connections to containers or through the API server.
const STREAMS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];
const RBAC: &str = "rbac.authorization.k8s.io";

/// A resource or subresource that the API server serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, or `resource/subresource`.
    pub resource: String,
    /// True if its objects have a namespace.
    pub namespaced: bool,
}

/// The rules by namespace; None for all namespaces.
pub type Granted = BTreeMap<Option<String>, Rules>;

/// The choices of an administrator.
#[derive(Clone, Debug)]
pub struct Choices {
    /// The form of impersonation.
    pub mode: ImpersonationMode,
    /// The sensitive permissions to mirror as well.
    pub allow: Vec<Sensitive>,
}

/// Derives the rules that let the host act as `account` and watch for it from the account's
/// permissions.
pub fn mirror(
    account: &ServiceAccount,
    held: &[GrantedRole],
    served: &BTreeSet<Served>,
    choices: &Choices,
) -> Granted {
    let mut granted = Granted::new();

    let (verb, group) = match choices.mode {
        ImpersonationMode::Constrained => (CONSTRAINED, CONSTRAINED_GROUP),
        ImpersonationMode::Legacy => (LEGACY, ""),
    };

    let itself = About {
        name: Some(account.name.clone()),
        ..About::resource(group, "serviceaccounts")
    };

    granted
        .entry(Some(account.namespace.clone()))
        .or_default()
        .allow(itself, verb);

    // Permissions that everybody has are in the host's own ClusterRole.
    for held in held.iter().filter(|held| !held.is_default) {
        let mut permissions: BTreeMap<About, BTreeSet<&str>> = BTreeMap::new();
        for rule in &held.rules {
            for about in objects(rule, held.namespace.is_some(), served) {
                permissions.entry(about).or_default().extend(verbs(rule));
            }
        }

        let rules = granted.entry(held.namespace.clone()).or_default();
        for (about, verbs) in permissions {
            add(rules, &about, &verbs, choices);
        }
    }

    granted.retain(|_, rules| !rules.is_empty());
    granted
}

/// Adds the host's part of the account's permissions on one resource.
fn add(rules: &mut Rules, about: &About, verbs: &BTreeSet<&str>, choices: &Choices) {
    let is_allowed = |sensitive: Sensitive| choices.allow.contains(&sensitive);

    if choices.mode == ImpersonationMode::Constrained {
        for verb in verbs
            .iter()
            .filter(|verb| sensitive(about, verb).is_none_or(is_allowed))
        {
            rules.allow(about.clone(), &format!("{CONSTRAINED_ON}{verb}"));
        }
    }

    let is_secret = about.group.is_empty() && about.resource == "secrets";
    let watches = ["list", "watch"].iter().all(|verb| verbs.contains(verb));
    if watches && about.path.is_empty() && (!is_secret || is_allowed(Sensitive::Secrets)) {
        rules.allow(about.clone(), "list");
        rules.allow(about.clone(), "watch");
    }
}

/// The option that allows a permission, if it is a sensitive one.
fn sensitive(about: &About, verb: &str) -> Option<Sensitive> {
    let (resource, subresource) = about
        .resource
        .split_once('/')
        .unwrap_or((&about.resource, ""));

    match about.group.as_str() {
        "" if resource == "serviceaccounts" && subresource == "token" => Some(Sensitive::Token),
        "" if STREAMS.contains(&subresource) => Some(Sensitive::Exec),
        RBAC if !["get", "list", "watch"].contains(&verb) => Some(Sensitive::Rbac),
        _ => None,
    }
}

fn verbs(rule: &PolicyRule) -> impl Iterator<Item = &'static str> {
    VERBS
        .into_iter()
        .filter(|verb| rule.verbs.iter().any(|held| held == "*" || held == verb))
}

/// The resources and paths of a rule, with wildcards expanded.
fn objects(rule: &PolicyRule, in_namespace: bool, served: &BTreeSet<Served>) -> Vec<About> {
    let mut objects = Vec::new();
    for group in all(rule.api_groups.as_ref()) {
        for resource in all(rule.resources.as_ref()) {
            if !group.contains('*') && !resource.contains('*') {
                objects.push(About::resource(group, resource));
                continue;
            }

            let fits = |one: &&Served| {
                (group == "*" || *group == one.group)
                    && (resource == "*"
                        || *resource == one.resource
                        || is_subresource_of_any(resource, &one.resource))
                    && (one.namespaced || !in_namespace)
            };

            objects.extend(
                served
                    .iter()
                    .filter(fits)
                    .map(|one| About::resource(&one.group, &one.resource)),
            );
        }
    }

    let names = all(rule.resource_names.as_ref());
    if !names.is_empty() {
        let named = |about: About| {
            names.iter().map(move |name| About {
                name: Some(name.clone()),
                ..about.clone()
            })
        };
        objects = objects.into_iter().flat_map(named).collect();
    }

    // A binding in a namespace does not grant non-resource paths.
    let paths = all(rule.non_resource_urls.as_ref())
        .iter()
        .filter(|_| !in_namespace);
    objects.extend(paths.map(|path| About {
        path: path.clone(),
        ..About::default()
    }));

    objects
}

/// Reports whether a rule's resource such as `*/status` matches a served one.
fn is_subresource_of_any(of_rule: &str, served: &str) -> bool {
    served
        .split_once('/')
        .is_some_and(|(_, subresource)| of_rule.strip_prefix("*/") == Some(subresource))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn held(namespace: Option<&str>, rules: Value) -> GrantedRole {
        GrantedRole {
            role: String::new(),
            binding: String::new(),
            namespace: namespace.map(str::to_owned),
            rules: serde_json::from_value(rules).expect("rules"),
            is_default: false,
        }
    }

    fn served() -> BTreeSet<Served> {
        let one = |group: &str, resource: &str, namespaced| Served {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespaced,
        };
        BTreeSet::from([
            one("", "pods", true),
            one("", "pods/exec", true),
            one("", "pods/status", true),
            one("", "secrets", true),
            one("", "serviceaccounts", true),
            one("", "serviceaccounts/token", true),
            one("", "nodes", false),
            one(RBAC, "roles", true),
            one("apps", "deployments", true),
        ])
    }

    fn granted(held: &[GrantedRole], mode: ImpersonationMode, allow: &[Sensitive]) -> Granted {
        let account = ServiceAccount {
            namespace: "team".to_owned(),
            name: "p".to_owned(),
        };
        mirror(
            &account,
            held,
            &served(),
            &Choices {
                mode,
                allow: allow.to_vec(),
            },
        )
    }

    fn home(granted: &Granted) -> &Rules {
        &granted[&Some("team".to_owned())]
    }

    fn on(verb: &str) -> String {
        format!("{CONSTRAINED_ON}{verb}")
    }

    const ALL: &str = r#"[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]"#;

    fn everything(namespace: Option<&str>) -> GrantedRole {
        held(namespace, serde_json::from_str(ALL).expect("JSON"))
    }

    #[test]
    fn mirror_of_everything_leaves_out_sensitive_permissions() {
        let found = granted(
            &[everything(Some("team"))],
            ImpersonationMode::Constrained,
            &[],
        );

        let rules = home(&found);
        for (group, resource, verb, wanted) in [
            ("", "pods", "create", true),
            ("", "pods/status", "patch", true),
            ("apps", "deployments", "deletecollection", true),
            ("", "secrets", "get", true),
            (RBAC, "roles", "list", true),
            (RBAC, "roles", "create", false),
            ("", "pods/exec", "create", false),
            ("", "pods/exec", "get", false),
            ("", "serviceaccounts/token", "create", false),
            ("", "nodes", "get", false),
            ("", "pods", "bind", false),
            ("", "pods", "*", false),
        ] {
            assert_eq!(
                rules.allows(&About::resource(group, resource), &on(verb)),
                wanted,
                "{verb} {resource}"
            );
        }

        let yaml = rules.yaml();
        assert!(
            !yaml.contains('*')
                && !yaml.contains("escalate")
                && !yaml.contains("verbs: [impersonate]"),
            "{yaml}"
        );

        let host_watches = |resource| rules.allows(&About::resource("", resource), "watch");
        assert!(host_watches("pods") && !host_watches("secrets"));
    }

    #[test]
    fn sensitive_permissions_are_mirrored_when_asked_for() {
        let all = [
            Sensitive::Secrets,
            Sensitive::Token,
            Sensitive::Exec,
            Sensitive::Rbac,
        ];

        let found = granted(
            &[everything(Some("team"))],
            ImpersonationMode::Constrained,
            &all,
        );

        let rules = home(&found);
        for (group, resource, verb) in [
            ("", "pods/exec", "create"),
            ("", "serviceaccounts/token", "create"),
            (RBAC, "roles", "update"),
        ] {
            assert!(
                rules.allows(&About::resource(group, resource), &on(verb)),
                "{verb} {resource}"
            );
        }

        assert!(rules.allows(&About::resource("", "secrets"), "list"));
    }

    #[test]
    fn account_alone_may_be_impersonated() {
        for (mode, group, verb) in [
            (
                ImpersonationMode::Constrained,
                CONSTRAINED_GROUP,
                CONSTRAINED,
            ),
            (ImpersonationMode::Legacy, "", LEGACY),
        ] {
            let found = granted(&[], mode, &[]);
            assert_eq!(found.len(), 1);

            let yaml = home(&found).yaml();
            let group = if group.is_empty() { "\"\"" } else { group };
            let wanted = format!(
                "  - apiGroups: [{group}]\n    resources: [serviceaccounts]\n    resourceNames: [p]\n    verbs: [{}]\n",
                crate::commands::roles::plain(verb)
            );

            assert_eq!(yaml, wanted);
        }
    }

    #[test]
    fn legacy_grant_has_no_verbs_of_constrained_impersonation() {
        let found = granted(&[everything(Some("team"))], ImpersonationMode::Legacy, &[]);
        let yaml = home(&found).yaml();
        assert!(
            !yaml.contains("impersonate-on") && yaml.contains("verbs: [list, watch]"),
            "{yaml}"
        );
    }

    #[test]
    fn names_and_places_of_the_account_are_kept() {
        let rules = json!([
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get", "update"]},
            {"apiGroups": ["example.com"], "resources": ["foos"], "verbs": ["get", "list", "watch", "bind"]}]);
        let paths = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);

        let mut default = everything(None);
        default.is_default = true;
        let held = [held(Some("other"), rules), held(None, paths), default];
        let found = granted(&held, ImpersonationMode::Constrained, &[]);

        let other = &found[&Some("other".to_owned())];
        let named = About {
            name: Some("a".to_owned()),
            ..About::resource("", "configmaps")
        };
        assert!(
            other.allows(&named, &on("update"))
                && !other.allows(&About::resource("", "configmaps"), &on("update"))
        );

        assert!(
            other.allows(&About::resource("example.com", "foos"), "list"),
            "a kind that is not served yet"
        );
        assert!(!other.yaml().contains("bind"));

        let path = About {
            path: "/metrics".to_owned(),
            ..About::default()
        };

        assert!(found[&None].allows(&path, &on("get")) && !found[&None].yaml().contains("pods"));
        assert!(
            !other.yaml().contains("impersonate:serviceaccount"),
            "only at home"
        );
    }
}

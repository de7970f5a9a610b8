//! The markers `+kubebuilder:rbac` of Go files, as controller-gen reads them, and the YAML of their roles.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::commands::roles::{About, Role, Rules, name_elsewhere, plain};

const MARKER: &str = "+kubebuilder:rbac:";

/// The rules by the namespace of the marker; None for those without one.
#[derive(Debug, Default)]
pub struct Markers(BTreeMap<Option<String>, Rules>);

/// The ServiceAccount that gets the roles.
pub struct Account<'a> {
    /// The name of the plugin and of the ServiceAccount.
    pub name: &'a str,
    /// The namespace; None for that of kubectl.
    pub namespace: Option<&'a str>,
    /// True if the plugin acts in its own namespace only.
    pub own_namespace: bool,
}

impl Markers {
    /// Adds the markers of a file.
    ///
    /// # Errors
    /// Returns an error that names the line of a marker that controller-gen would refuse.
    pub fn read(&mut self, file: &str, text: &str) -> Result<()> {
        for (at, line) in text.lines().enumerate() {
            let comment = line.trim().strip_prefix("//").map(str::trim_start);
            if let Some(marker) = comment.and_then(|comment| comment.strip_prefix(MARKER)) {
                self.add(marker.trim(), &format!("{file}:{}", at + 1))?;
            }
        }
        Ok(())
    }

    fn add(&mut self, marker: &str, place: &str) -> Result<()> {
        let mut lists: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for field in marker.split(',').map(str::trim).filter(|field| !field.is_empty()) {
            let Some((name, values)) = field.split_once('=') else {
                bail!("{place}: {field:?} in the marker {MARKER} is not NAME=VALUES: correct it");
            };
            let known =
                ["groups", "resources", "resourceNames", "verbs", "urls", "namespace", "roleName", "featureGate"];
            if !known.contains(&name) {
                bail!("{place}: the marker {MARKER} has no field {name:?}: use one of {}", known.join(", "));
            }
            let values = values.trim_matches(['{', '}']).split(';');
            lists.insert(name, values.map(|value| value.trim_matches(['"', '`']).to_owned()).collect());
        }
        let list = |name: &str| lists.get(name).cloned().unwrap_or_default();
        let verbs = list("verbs");
        if verbs.is_empty() || (list("resources").is_empty() && list("urls").is_empty()) {
            bail!("{place}: the marker {MARKER} needs verbs, and resources or urls: complete it");
        }
        let namespace = list("namespace").into_iter().next().filter(|namespace| !namespace.is_empty());
        let rules = self.0.entry(namespace).or_default();
        let mut abouts: Vec<About> = list("urls").into_iter().map(|path| About { path, ..About::default() }).collect();
        let groups = if lists.contains_key("groups") { list("groups") } else { vec![String::new()] };
        for group in groups.iter().map(|group| if group == "core" { "" } else { group }) {
            for resource in list("resources") {
                let about = About::resource(group, &resource);
                let named = list("resourceNames").into_iter().map(|name| About { name: Some(name), ..about.clone() });
                abouts.extend(named);
                if !lists.contains_key("resourceNames") {
                    abouts.push(about);
                }
            }
        }
        for about in abouts {
            verbs.iter().for_each(|verb| rules.allow(about.clone(), verb));
        }
        Ok(())
    }

    /// Reports whether there are no markers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a permission in all namespaces, or in the plugin's own.
    pub fn allow(&mut self, about: &About, verbs: &[&str]) {
        let rules = self.0.entry(None).or_default();
        verbs.iter().for_each(|verb| rules.allow(about.clone(), verb));
    }

    /// Returns the ServiceAccount, which consents to the plugin, the roles and their bindings as YAML.
    pub fn yaml(&self, account: &Account<'_>, comment: &str) -> String {
        let Account { name, namespace, own_namespace } = *account;
        let in_namespace =
            namespace.map(|namespace| format!("  namespace: {}\n", plain(namespace))).unwrap_or_default();
        let mut documents = vec![format!(
            "{comment}apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {0}\n{in_namespace}  annotations:\n    # Consent: \
             this plugin may act as this account.\n    operetta.dev/allow-plugins: {0}\n",
            plain(name)
        )];
        let home = namespace.unwrap_or("default");
        let elsewhere = name_elsewhere(home, name);
        for (of, rules) in &self.0 {
            let cluster = of.is_none() && !own_namespace;
            let in_own = of.is_none() && own_namespace;
            let role = Role {
                name: if in_own { name } else { &elsewhere },
                managed_by: None,
                cluster,
                namespace: of.as_deref().or(namespace),
                account: name,
                account_namespace: if in_own { namespace } else { Some(home) },
                rules,
            };
            documents.extend(role.documents());
        }
        documents.join("---\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(own_namespace: bool) -> Account<'static> {
        Account { name: "memcached", namespace: None, own_namespace }
    }

    #[test]
    fn markers_become_the_roles_of_the_plugin() {
        let mut markers = Markers::default();
        let text = "package x\n// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds;memcacheds/status,verbs=get;list\n\
                    //+kubebuilder:rbac:groups=\"\",resources=secrets,resourceNames=one;two,verbs=get\n\
                    \t// +kubebuilder:rbac:groups=core,resources=pods,namespace=system,verbs={list}\n\
                    // +kubebuilder:rbac:urls=/metrics,verbs=get\n// a +kubebuilder:rbac:verbs=x\n";
        markers.read("a.go", text).expect("read");
        let yaml = markers.yaml(&account(false), "");
        for part in [
            "kind: ClusterRole\nmetadata:\n  name: operetta:default:memcached\n",
            "apiGroups: [cache.example.com]\n    resources: [memcacheds, memcacheds/status]\n    verbs: [get, list]",
            "resources: [secrets]\n    resourceNames: [one, two]\n    verbs: [get]",
            "nonResourceURLs: [/metrics]\n    verbs: [get]",
            "kind: Role\nmetadata:\n  name: operetta:default:memcached\n  namespace: system\nrules:\n  - apiGroups: [\"\"]\n    \
             resources: [pods]\n    verbs: [list]",
            "operetta.dev/allow-plugins: memcached",
        ] {
            assert!(yaml.contains(part), "{part}\n{yaml}");
        }
        let own = markers.yaml(&account(true), "");
        assert!(
            !own.contains("ClusterRole") && own.contains("kind: Role\nmetadata:\n  name: memcached\nrules:"),
            "{own}"
        );
    }

    #[test]
    fn invalid_marker_is_named_with_its_line() {
        for (marker, part) in [
            ("groups=a,resources=b", "needs verbs, and resources or urls"),
            ("groups=a,verbs=get", "needs verbs, and resources or urls"),
            ("groups=a,resource=b,verbs=get", "has no field \"resource\": use one of groups, resources"),
            ("groups", "\"groups\" in the marker"),
        ] {
            let text = format!("\n// +kubebuilder:rbac:{marker}\n");
            let error = Markers::default().read("x/a.go", &text).expect_err(marker).to_string();
            assert!(error.starts_with("x/a.go:2: ") && error.contains(part), "{error}");
        }
    }
}

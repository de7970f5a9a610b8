//! Installs the manifests of `deploy/` that a host outside the cluster needs.

use std::fs;

use crate::{ControlPlane, HostOptions, repository};

/// The manifests of a kustomization in `deploy/` that has only resources. kubectl would take a
/// sixth of a second of processor time to render them.
fn manifests(folder: &str) -> Vec<String> {
    let folder = repository().join("deploy").join(folder);
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };

    let kustomization: serde_json::Value =
        serde_yaml_ng::from_str(&read("kustomization.yaml")).expect("YAML");

    let resources = kustomization["resources"].as_array().expect("resources");
    resources
        .iter()
        .map(|name| read(name.as_str().expect("a file")))
        .collect()
}

impl ControlPlane {
    /// Installs the manifests of `deploy/` for hosts with [`HostOptions::is_installed`]. Blocks.
    ///
    /// # Panics
    /// Panics if the API server refuses an object.
    pub fn install_host(&self) {
        install(self, &HostOptions::default());
    }
}

/// Installs the CRD, the host's permissions according to the options, and the admission policies.
pub(crate) fn install(control_plane: &ControlPlane, options: &HostOptions) {
    let unrestricted = (!options.narrow).then_some("components/unrestricted");
    let texts: Vec<_> = ["crd", "rbac"]
        .into_iter()
        .chain(unrestricted)
        .flat_map(manifests)
        .collect();
    control_plane.apply_by_force(&texts.join("\n---\n"));

    if !options.beside_another {
        control_plane.end_epochs("operetta-system");
    }

    // The highest index comes first, because a removal changes the indexes of later rules.
    let mut indexes = options.without_rules.clone();
    indexes.sort_unstable_by(|one, other| other.cmp(one));
    for index in indexes {
        let patch =
            serde_json::json!([{"op": "remove", "path": format!("/rules/{index}")}]).to_string();
        let role = if options.narrow {
            "operetta"
        } else {
            "operetta-unrestricted"
        };
        control_plane.kubectl(&["patch", "clusterrole", role, "--type=json", "-p", &patch]);
    }
}

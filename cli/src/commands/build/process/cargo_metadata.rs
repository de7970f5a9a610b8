//! What cargo knows of a package and its dependencies: `cargo metadata`.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// The output of `cargo metadata --format-version 1`.
#[derive(Debug, Default, Deserialize)]
pub struct Metadata {
    /// With `--filter-platform`, those of that platform.
    pub packages: Vec<Package>,
    pub resolve: Option<Resolve>,
    pub target_directory: PathBuf,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    pub id: String,
    pub name: String,
    pub version: String,
    /// None for a package in a folder.
    pub source: Option<String>,
    pub manifest_path: PathBuf,
    pub default_run: Option<String>,
    #[serde(default)]
    pub targets: Vec<Target>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    pub name: String,
    pub kind: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
pub struct Resolve {
    pub nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
pub struct Node {
    pub id: String,
    pub dependencies: Vec<String>,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

impl Package {
    pub fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    pub fn is_from_registry(&self) -> bool {
        let source = self.source.as_deref().unwrap_or_default();
        source.starts_with("registry+") || source.starts_with("sparse+")
    }

    /// The names of its programs.
    pub fn programs(&self) -> Vec<&str> {
        let programs = self
            .targets
            .iter()
            .filter(|target| target.kind.iter().any(|kind| kind == "bin"));
        programs.map(|target| target.name.as_str()).collect()
    }

    #[cfg(test)]
    pub fn from_registry(name: &str, version: &str, folder: &Path) -> Self {
        Self {
            id: format!("{name}@{version}"),
            name: name.to_owned(),
            version: version.to_owned(),
            source: Some("registry+https://example.com/index".to_owned()),
            manifest_path: folder.join("Cargo.toml"),
            default_run: None,
            targets: Vec::new(),
        }
    }
}

impl Metadata {
    /// The package whose manifest this is.
    pub fn package(&self, manifest: &Path) -> Option<&Package> {
        self.packages
            .iter()
            .find(|package| package.manifest_path == manifest)
    }

    /// How a package came in: the shortest chain of dependencies from one to another, by name.
    pub fn chain(&self, from: &Package, to: &str) -> Vec<String> {
        let nodes: BTreeMap<&str, &Node> = self
            .resolve
            .iter()
            .flat_map(|resolve| &resolve.nodes)
            .map(|node| (node.id.as_str(), node))
            .collect();
        let names: BTreeMap<&str, String> = self
            .packages
            .iter()
            .map(|package| (package.id.as_str(), package.to_string()))
            .collect();
        let is_target = |id: &str| {
            names
                .get(id)
                .is_some_and(|name| name.split('@').next() == Some(to))
        };

        let mut came_by: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next = VecDeque::from([from.id.as_str()]);
        while let Some(id) = next.pop_front() {
            if is_target(id) {
                let mut chain = vec![id];
                let mut at = id;
                while let Some(parent) = came_by.get(at) {
                    chain.push(parent);
                    at = parent;
                }
                chain.reverse();
                return chain
                    .iter()
                    .filter_map(|id| names.get(id).cloned())
                    .collect();
            }
            let Some(node) = nodes.get(id) else {
                continue;
            };
            for dependency in &node.dependencies {
                if dependency != &from.id && !came_by.contains_key(dependency.as_str()) {
                    came_by.insert(dependency, id);
                    next.push_back(dependency);
                }
            }
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_chain_of_dependencies_is_found() {
        let package = |name: &str| Package::from_registry(name, "1.0.0", Path::new("/x"));
        let node = |name: &str, dependencies: &[&str]| Node {
            id: format!("{name}@1.0.0"),
            dependencies: dependencies
                .iter()
                .map(|name| format!("{name}@1.0.0"))
                .collect(),
        };
        let metadata = Metadata {
            packages: ["op", "kube", "rustls", "ring"].map(package).to_vec(),
            resolve: Some(Resolve {
                nodes: vec![
                    node("op", &["kube"]),
                    node("kube", &["rustls", "ring", "op"]),
                    node("rustls", &["ring"]),
                    node("ring", &[]),
                ],
            }),
            ..Metadata::default()
        };

        let op = package("op");
        assert_eq!(
            metadata.chain(&op, "ring"),
            ["op@1.0.0", "kube@1.0.0", "ring@1.0.0"]
        );
        assert_eq!(metadata.chain(&op, "openssl-sys"), [""; 0]);
    }
}

//! The Cargo.toml of an operator, and that of the plugin.

use std::path::Path;

use anyhow::{Context, Result, bail};
use operetta_api::reasons;
use toml::{Table, Value};

use crate::commands::import::{output::Output, source_text::SourceText, unsupported::Finding};

/// The versions that the SDK is built with.
const KUBE: &str = "5";
const K8S_OPENAPI: &str = "0.29";

/// The features of kube that do not compile for WASI, or that the host has.
const NOT_ON_WASI: &[&str] = &[
    "aws-lc-rs",
    "config",
    "default",
    "gzip",
    "http-proxy",
    "oauth",
    "oidc",
    "openssl-tls",
    "ring",
    "runtime",
    "rustls-tls",
    "socks5",
    "unstable-runtime",
    "webpki-roots",
    "ws",
];

/// The crates whose names generated code has.
const OF_DERIVES: &[&str] = &["k8s-openapi", "kube", "schemars", "serde", "serde_json"];

/// The Cargo.toml of an operator.
pub struct Cargo {
    /// The package's name.
    pub name: String,
    edition: String,
    dependencies: Table,
}

impl Cargo {
    /// Reads Cargo.toml.
    ///
    /// # Errors
    /// Returns an error if it does not parse, is no package, does not use kube, or inherits a dependency.
    pub fn read(dir: &Path) -> Result<Self> {
        let file = dir.join("Cargo.toml");
        let shown = file.display();
        let text = std::fs::read_to_string(&file).with_context(|| format!("failed to read {shown}"))?;
        let manifest: Table = toml::from_str(&text).with_context(|| format!("failed to parse {shown}"))?;
        let package = manifest.get("package");
        let Some(name) = package.and_then(|package| package.get("name")?.as_str()) else {
            bail!(reasons::NO_PROJECT.error(format!("{shown} is a workspace: use the folder of one of its packages")));
        };
        let edition = package.and_then(|package| package.get("edition")?.as_str()).unwrap_or("2024");
        let dependencies = manifest.get("dependencies").and_then(Value::as_table).cloned().unwrap_or_default();
        if !dependencies.contains_key("kube") {
            bail!(
                reasons::NO_PROJECT
                    .error(format!("{shown} does not depend on kube: only operators for kube-rs can be imported"))
            );
        }
        let inherits = |(_, value): &(&String, &Value)| value.get("workspace").is_some();
        if let Some((name, _)) = dependencies.iter().find(inherits) {
            bail!("{shown} inherits the dependency {name} from its workspace: write its version there, for the import");
        }
        Ok(Self { name: name.to_owned(), edition: edition.to_owned(), dependencies })
    }

    /// Returns the Cargo.toml of the plugin, with the dependencies that its code names.
    pub fn plugin(
        &self,
        name: &str,
        dir: &Path,
        output: &Output,
        texts: &[SourceText],
        findings: &mut Vec<Finding>,
    ) -> String {
        let mut lines = vec!["operetta-sdk = { path = \"sdk\", features = [\"kube\"] }".to_owned()];
        let mut left_out = Vec::new();
        for (dependency, value) in &self.dependencies {
            let ident = dependency.replace('-', "_");
            let is_named = texts.iter().any(|text| !text.find(&ident).is_empty());
            let line = match dependency.as_str() {
                "kube" => with_features(KUBE, features(value), NOT_ON_WASI, &["client", "derive"]),
                "k8s-openapi" => with_features(K8S_OPENAPI, features(value), &["latest", "earliest", "default"], &[]),
                "tokio" if is_named => with_features("1", vec![], &[], &["macros", "rt", "sync", "time"]),
                dependency if is_named || OF_DERIVES.contains(&dependency) => inline(&rebased(value, dir, output)),
                _ => {
                    left_out.push(dependency.as_str());
                    continue;
                }
            };
            lines.push(format!("{dependency} = {line}"));
        }
        if !left_out.is_empty() {
            let text = format!("the dependencies {}: the plugin's code does not name them", left_out.join(", "));
            findings.push(Finding { place: "Cargo.toml".to_owned(), text });
        }
        format!(
            "[package]\nname = {name:?}\nversion = \"0.1.0\"\nedition = {:?}\npublish = false\n\n[lib]\ncrate-type = \
             [\"cdylib\"]\n\n[dependencies]\n{}\n\n# A workspace of its own, in any folder.\n[workspace]\nexclude = [\"sdk\"]\n\n\
             [profile.release]\nopt-level = \"s\"\nlto = true\ncodegen-units = 1\npanic = \"abort\"\nstrip = true\n\n\
             [profile.release.package.k8s-openapi]\nopt-level = 2\n",
            self.edition,
            lines.join("\n")
        )
    }
}

/// Returns the features of a dependency.
fn features(value: &Value) -> Vec<&str> {
    value.get("features").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns a dependency without default features.
fn with_features(version: &str, own: Vec<&str>, left_out: &[&str], needed: &[&str]) -> String {
    let is_version =
        |feature: &str| feature.strip_prefix("v1_").is_some_and(|minor| minor.bytes().all(|c| c.is_ascii_digit()));
    let own = own
        .into_iter()
        .filter(|feature| !left_out.contains(feature) && !is_version(feature) && !needed.contains(feature));
    let features: Vec<String> = needed.iter().copied().chain(own).map(|feature| format!("{feature:?}")).collect();
    format!("{{ version = {version:?}, default-features = false, features = [{}] }}", features.join(", "))
}

/// Returns a dependency whose path is relative to the plugin's folder.
fn rebased(value: &Value, dir: &Path, output: &Output) -> Value {
    let mut value = value.clone();
    if let Some(Value::String(path)) = value.get_mut("path") {
        let folder = dir.join(&*path);
        *path = output.relative(&folder.canonicalize().unwrap_or(folder));
    }
    value
}

/// Returns a value in one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(values) => format!("[{}]", values.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let fields: Vec<_> = table.iter().map(|(name, value)| format!("{name} = {}", inline(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is) => is.to_string(),
        Value::Datetime(time) => time.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_sdk() {
        let sdk: Table = toml::from_str(include_str!("../../../../../../plugins/sdk-rust/Cargo.toml")).expect("TOML");
        let version = |name: &str| sdk["dependencies"][name]["version"].as_str().map(str::to_owned);
        assert_eq!(version("kube").as_deref(), Some(KUBE));
        assert_eq!(version("k8s-openapi").as_deref(), Some(K8S_OPENAPI));
    }

    #[test]
    fn features_that_do_not_compile_for_wasi_are_left_out() {
        let value: Table =
            toml::from_str("kube = {version = \"4\", features = [\"runtime\", \"derive\", \"jsonpatch\"]}")
                .expect("TOML");
        assert_eq!(
            with_features(KUBE, features(&value["kube"]), NOT_ON_WASI, &["client", "derive"]),
            "{ version = \"5\", default-features = false, features = [\"client\", \"derive\", \"jsonpatch\"] }"
        );
    }

    #[test]
    fn package_without_kube_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        for (text, part) in [
            ("[workspace]", "is a workspace: use the folder of one of its packages"),
            ("[package]\nname = \"x\"", "does not depend on kube"),
            ("[package]\nname = \"x\"\n[dependencies]\nkube = {workspace = true}", "inherits the dependency kube"),
        ] {
            std::fs::write(folder.path().join("Cargo.toml"), text).expect("written");
            let error = Cargo::read(folder.path()).err().expect("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}

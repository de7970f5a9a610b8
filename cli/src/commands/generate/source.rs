//! The schemas of a project's types, as each language's own tool generates them.
//!
//! Every tool prints one JSON object, or a list of them: `{"apiVersion": …, "kind": …, "spec":
//! SCHEMA, "status": SCHEMA}`, where `status` and `scope` are optional.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    args::Language,
    commands::build::{Project, Tools, missing, output_of},
};

/// A kind as the code describes it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kind {
    /// `group/version`.
    pub api_version: String,
    /// The name of the kind.
    pub kind: String,
    /// The scope [default: the existing CRD's, or `Namespaced`].
    #[serde(default)]
    pub scope: Option<Scope>,
    /// The JSON Schema of the spec.
    pub spec: Value,
    /// The JSON Schema of the status; None if the kind has none.
    #[serde(default)]
    pub status: Option<Value>,
    /// True if the schemas are structural already.
    #[serde(skip)]
    pub structural: bool,
}

/// The scope of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Scope {
    /// Objects are in a namespace.
    Namespaced,
    /// Objects are cluster-scoped.
    Cluster,
}

/// Runs the tool of the project's language.
///
/// # Errors
/// Returns an error if the tool is missing or fails, or the language has none.
pub fn kinds(project: &Project) -> Result<Vec<Kind>> {
    let tools = Tools::of(&project.dir);
    match project.language {
        Language::Rust => rust(project, &tools),
        Language::TypeScript => typescript(project, &tools),
        Language::Go if imports_apimachinery(&project.dir) => go(project, &tools),
        Language::Go => bail!(
            "the CRD of a project in Go is written by hand, in its crd.yaml: controller-gen reads types with \
             apimachinery's TypeMeta and ObjectMeta only, and this one has the SDK's own"
        ),
        Language::C | Language::Cpp | Language::Zig | Language::Python => {
            bail!(
                "the CRD of a project in {} is written by hand, in its crd.yaml",
                project.language_name()
            )
        }
    }
}

fn imports_apimachinery(dir: &Path) -> bool {
    std::fs::read_to_string(dir.join("go.mod"))
        .is_ok_and(|text| text.contains("k8s.io/apimachinery "))
}

/// Runs controller-gen, which reads the types and their markers.
fn go(project: &Project, tools: &Tools) -> Result<Vec<Kind>> {
    let install = "`go install sigs.k8s.io/controller-tools/cmd/controller-gen@latest`";

    let generator = match tools.look_for("controller-gen") {
        Some(generator) => generator,
        // `go install` puts it there even if the folder is not in PATH.
        None => {
            let go = tools.find("go", "see https://go.dev/doc/install")?;
            let folder = output_of(
                Command::new(go)
                    .current_dir(&project.dir)
                    .args(["env", "GOPATH"]),
            )?;

            let installed = Path::new(folder.trim()).join("bin/controller-gen");
            if installed.is_file() {
                installed
            } else {
                return Err(missing("controller-gen", install));
            }
        }
    };

    let mut command = Command::new(generator);
    command
        .current_dir(&project.dir)
        .args(["crd", "paths=./...", "output:crd:stdout"]);

    let found =
        definitions(&output_of(&mut command)?).context("controller-gen did not print CRDs")?;

    if found.is_empty() {
        bail!(
            "controller-gen found no kinds in {}: types need the marker +kubebuilder:object:root=true",
            project.dir.display()
        );
    }

    Ok(found)
}

/// The kinds of CRDs, one for each version.
fn definitions(text: &str) -> Result<Vec<Kind>> {
    let mut found = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(text) {
        let crd = Value::deserialize(document)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();

        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            let properties = &version["schema"]["openAPIV3Schema"]["properties"];
            found.push(Kind {
                api_version: format!("{}/{}", text(&crd["spec"]["group"]), text(&version["name"])),
                kind: text(&crd["spec"]["names"]["kind"]),
                scope: Some(Scope::deserialize(&crd["spec"]["scope"])?),
                spec: properties["spec"].clone(),
                status: properties.get("status").cloned(),
                structural: true,
            });
        }
    }

    Ok(found)
}

/// Runs the project's example `crd`, which prints the schemas that schemars generates.
fn rust(project: &Project, tools: &Tools) -> Result<Vec<Kind>> {
    let cargo = tools.find("cargo", "see https://rustup.rs")?;

    if !project.dir.join("examples/crd.rs").is_file() {
        bail!(
            "the project has no examples/crd.rs, which prints the schemas of its types; `operetta new --lang rust` shows one"
        );
    }

    let mut command = Command::new(cargo);
    command
        .args(["run", "--quiet", "--example", "crd"])
        .current_dir(&project.dir);
    parse(&output_of(&mut command)?).context("failed to decode the output of examples/crd.rs")
}

/// A kind in `operetta.kinds` of package.json, with the names of its types.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Listed {
    api_version: String,
    kind: String,
    #[serde(default)]
    scope: Option<Scope>,
    file: String,
    spec: String,
    #[serde(default)]
    status: Option<String>,
}

/// Runs ts-json-schema-generator on the types that package.json lists.
fn typescript(project: &Project, tools: &Tools) -> Result<Vec<Kind>> {
    let file = project.dir.join("package.json");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("failed to read {}", file.display()))?;

    let listed =
        listed(&text).with_context(|| format!("failed to read the kinds of {}", file.display()))?;

    let install = "`npm install --save-dev ts-json-schema-generator`";
    let generator = tools.find("ts-json-schema-generator", install)?;

    let schema = |file: &str, name: &str| {
        let mut command = Command::new(&generator);
        command.current_dir(&project.dir).args([
            "--tsconfig",
            "tsconfig.json",
            "--no-top-ref",
            "--path",
            file,
            "--type",
            name,
        ]);

        serde_json::from_str(&output_of(&mut command)?)
            .with_context(|| format!("the schema of {name} is not JSON"))
    };

    let mut kinds = Vec::new();
    for Listed {
        api_version,
        kind,
        scope,
        file,
        spec,
        status,
    } in listed
    {
        let status = status.map(|name| schema(&file, &name)).transpose()?;
        let spec = schema(&file, &spec)?;
        kinds.push(Kind {
            api_version,
            kind,
            scope,
            spec,
            status,
            structural: false,
        });
    }

    Ok(kinds)
}

fn listed(text: &str) -> Result<Vec<Listed>> {
    let manifest: Value = serde_json::from_str(text)?;
    let kinds = &manifest["operetta"]["kinds"];

    if !kinds.is_array() {
        bail!("it has no `operetta.kinds`; `operetta new --lang ts` shows it");
    }
    Ok(Vec::deserialize(kinds)?)
}

fn parse(text: &str) -> Result<Vec<Kind>> {
    let value: Value = serde_json::from_str(text)?;
    let all = if value.is_array() {
        serde_json::from_value(value)?
    } else {
        vec![serde_json::from_value(value)?]
    };

    if all.is_empty() {
        bail!("it has no kinds");
    }

    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_kind_or_list_and_names_mistakes() {
        let one = r#"{"apiVersion":"a.b/v1","kind":"A","spec":{"type":"object"}}"#;
        assert_eq!(parse(one).expect("one")[0].kind, "A");
        assert_eq!(parse(&format!("[{one},{one}]")).expect("two").len(), 2);

        for (text, part) in [
            ("[]", "no kinds"),
            ("{}", "apiVersion"),
            ("", "EOF"),
            (&one.replace("spec", "spek"), "spek"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn each_version_of_a_definition_is_a_kind() {
        let crd = "spec:\n  group: a.b\n  names: {kind: A}\n  scope: Cluster\n  versions:\n  - name: v1\n    schema:\n      \
                   openAPIV3Schema:\n        properties:\n          spec: {type: object}\n";
        let found = definitions(&format!("---\n{crd}---\n{crd}")).expect("read");
        assert_eq!(found.len(), 2);
        let Kind {
            api_version,
            kind,
            scope,
            spec,
            status,
            structural,
        } = &found[0];

        assert_eq!(
            (api_version.as_str(), kind.as_str(), *scope, *structural),
            ("a.b/v1", "A", Some(Scope::Cluster), true)
        );
        assert_eq!(
            (spec, status),
            (&serde_json::json!({"type": "object"}), &None)
        );
    }

    #[test]
    fn package_json_lists_the_types_of_each_kind() {
        let one = r#"{"apiVersion":"a.b/v1","kind":"A","file":"a.ts","spec":"ASpec"}"#;
        let found = listed(&format!(r#"{{"operetta":{{"kinds":[{one}]}}}}"#)).expect("listed");
        assert_eq!(
            (found[0].spec.as_str(), found[0].status.as_deref()),
            ("ASpec", None)
        );

        for (text, part) in [
            ("{}", "operetta.kinds"),
            (r#"{"operetta":{"kinds":[{"kind":"A"}]}}"#, "apiVersion"),
        ] {
            let error = format!("{:#}", listed(text).expect_err("not listed"));
            assert!(error.contains(part), "{error}");
        }
    }
}

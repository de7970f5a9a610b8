//! `operetta generate [DIR]`: updates the schemas in DIR/crd.yaml from the types in the code.
//!
//! Only the schemas of `spec` and `status` are generated. Names, scope, printer columns,
//! annotations and other versions stay as the author wrote them. A file that is up to date is not
//! written.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_yaml_ng::{Mapping, Value};

use super::{
    schema::structural,
    source::{Kind, Scope, kinds},
};
use crate::commands::{
    build::Project,
    names::{check_group, check_kind, check_version, plural},
    print,
};

/// Updates or creates the file.
///
/// # Errors
/// Returns an error if the types have no CRD schema, or the file cannot be read or written.
pub fn crd(dir: &Path) -> Result<()> {
    let project = Project::find(dir)?;
    let file = dir.join("crd.yaml");
    let found = kinds(&project)?;

    let before = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("failed to read {}", file.display()));
        }
    };

    match updated(&before, &found)
        .with_context(|| format!("failed to update {}", file.display()))?
    {
        None => print(&format!("{} is up to date\n", file.display())),
        Some(text) => {
            std::fs::write(&file, text)
                .with_context(|| format!("failed to write {}", file.display()))?;
            print(&format!("{} written\n", file.display()))
        }
    }
}

/// The file with the kinds' schemas; None if it is up to date.
fn updated(text: &str, kinds: &[Kind]) -> Result<Option<String>> {
    let documents = serde_yaml_ng::Deserializer::from_str(text).map(Value::deserialize);
    let mut documents: Vec<Value> = documents.collect::<Result<_, _>>().context("not YAML")?;
    documents.retain(|document| !document.is_null());

    let before = documents.clone();
    for kind in kinds {
        let (group, version) = kind.api_version.split_once('/').unwrap_or_default();
        let failed = || format!("{} {}", kind.api_version, kind.kind);
        check_group(group)
            .and_then(|()| check_version(version))
            .and_then(|()| check_kind(&kind.kind))
            .with_context(failed)?;

        let schema = schema(kind).with_context(failed)?;
        let of_kind = |document: &&mut Value| {
            document["kind"] == "CustomResourceDefinition"
                && document["spec"]["group"] == group
                && document["spec"]["names"]["kind"] == kind.kind.as_str()
        };

        match documents.iter_mut().find(of_kind) {
            Some(document) => set_schema(document, version, schema, kind)?,
            None => documents.push(definition(kind, group, version, schema)?),
        }
    }

    if documents == before {
        return Ok(None);
    }

    // Comments above the first line are kept; other comments are lost in the rewrite.
    let head: String = text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();

    let all: Vec<String> = documents
        .iter()
        .map(serde_yaml_ng::to_string)
        .collect::<Result<_, _>>()?;
    Ok(Some(head + &all.join("---\n")))
}

/// The schema of a whole object.
fn schema(kind: &Kind) -> Result<Value> {
    let convert = |name: &str, schema: &serde_json::Value| {
        if kind.structural {
            Ok(schema.clone())
        } else {
            structural(name, schema)
        }
    };

    let mut properties =
        serde_json::Map::from_iter([("spec".to_owned(), convert("spec", &kind.spec)?)]);
    if let Some(status) = &kind.status {
        properties.insert("status".to_owned(), convert("status", status)?);
    }

    let schema =
        serde_json::json!({"type": "object", "required": ["spec"], "properties": properties});
    Ok(serde_yaml_ng::to_value(schema)?)
}

fn set_schema(document: &mut Value, version: &str, schema: Value, kind: &Kind) -> Result<()> {
    if let Some(scope) = kind.scope {
        document["spec"]["scope"] = scope_name(scope).into();
    }

    let versions = document["spec"]["versions"]
        .as_sequence_mut()
        .context("spec.versions is not a list")?;

    let Some(found) = versions.iter_mut().find(|found| found["name"] == version) else {
        bail!(
            "the CRD of {} has no version {version:?}: add it to spec.versions, and mark the one that is stored",
            kind.kind
        );
    };

    let whole = &mut found["schema"]["openAPIV3Schema"];
    if !whole.is_mapping() {
        *whole = schema;
        return Ok(());
    }

    // The author's schemas of metadata and of the object itself are kept.
    for field in ["spec", "status"] {
        match schema["properties"].get(field) {
            Some(made) => whole["properties"][field] = made.clone(),
            None => {
                whole["properties"]
                    .as_mapping_mut()
                    .and_then(|properties| properties.remove(field));
            }
        }
    }

    Ok(())
}

fn definition(kind: &Kind, group: &str, version: &str, schema: Value) -> Result<Value> {
    let plural = plural(&kind.kind);
    let mut made = serde_yaml_ng::from_str::<Value>(&format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: {plural}.{group}\n\
         spec:\n  group: {group}\n  names:\n    kind: {}\n    plural: {plural}\n    singular: {}\n  scope: {}\n  versions:\n  \
         - name: {version}\n    served: true\n    storage: true\n",
        kind.kind,
        kind.kind.to_lowercase(),
        scope_name(kind.scope.unwrap_or(Scope::Namespaced)),
    ))?;

    let of_version = &mut made["spec"]["versions"][0];
    of_version["schema"]["openAPIV3Schema"] = schema;
    if kind.status.is_some() {
        of_version["subresources"]["status"] = Value::Mapping(Mapping::new());
    }

    Ok(made)
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespaced => "Namespaced",
        Scope::Cluster => "Cluster",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(field: &str) -> Kind {
        let spec = json!({"type": "object", "properties": {field: {"type": "string"}}});
        let api_version = "example.com/v1".to_owned();
        let kind = "Policy".to_owned();
        Kind {
            api_version,
            kind,
            scope: None,
            spec,
            status: Some(json!({"type": "object"})),
            structural: false,
        }
    }

    #[test]
    fn new_file_is_whole_then_up_to_date() {
        let made = updated("", &[kind("a")]).expect("made").expect("written");
        let crd: serde_json::Value = serde_yaml_ng::from_str(&made).expect("YAML");
        assert_eq!(crd["metadata"]["name"], "policies.example.com");

        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["subresources"], json!({"status": {}}));
        assert_eq!(
            version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["a"],
            json!({"type": "string"})
        );

        assert_eq!(updated(&made, &[kind("a")]).expect("read"), None);
    }

    #[test]
    fn what_is_the_authors_stays() {
        let made = updated("", &[kind("a")]).expect("made").expect("written");
        let theirs = format!(
            "# Mine.\n{}",
            made.replace(
                "    served: true\n",
                "    served: true\n    additionalPrinterColumns: []\n"
            )
            .replace("plural: policies", "plural: policys")
        );

        let made = updated(&theirs, &[kind("b")])
            .expect("made")
            .expect("written");
        assert!(made.starts_with("# Mine.\napiVersion"), "{made}");

        let crd: serde_json::Value = serde_yaml_ng::from_str(&made).expect("YAML");
        assert_eq!(crd["spec"]["names"]["plural"], "policys");
        let version = &crd["spec"]["versions"][0];
        assert_eq!(version["additionalPrinterColumns"], json!([]));

        let properties = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        assert_eq!(*properties, json!({"b": {"type": "string"}}));
    }

    #[test]
    fn names_missing_version_and_untyped_field() {
        let made = updated("", &[kind("a")]).expect("made").expect("written");
        let next = Kind {
            api_version: "example.com/v2".into(),
            ..kind("a")
        };

        let error = format!("{:#}", updated(&made, &[next]).expect_err("no v2"));
        assert!(error.contains("has no version \"v2\""), "{error}");

        let spec = json!({"type": "object", "properties": {"x": true}});
        let error = format!(
            "{:#}",
            updated("", &[Kind { spec, ..kind("a") }]).expect_err("no type")
        );

        assert!(
            error.contains("example.com/v1 Policy: spec.x has no type"),
            "{error}"
        );
    }
}

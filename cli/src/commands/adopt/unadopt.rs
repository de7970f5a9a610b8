//! `operetta adopt --unadopt FILE`: prints the Deployment that a Plugin has replaced, from the
//! annotation of the Plugin, in JSON, which kubectl takes like YAML.

use std::{io::Read as _, path::Path};

use anyhow::{Context, Result, bail};
use operetta_api::{annotations::ADOPTED, plugin::KIND as PLUGIN};
use serde_json::Value;

use super::convert::name_of;
use crate::commands::{dev::manifests::objects_in, print_document};

/// Prints the Deployment of each Plugin in a file, or on stdin if it is `-`.
///
/// # Errors
/// Returns an error if the file can't be read, or has no Plugin that was adopted.
pub fn unadopt(file: &Path) -> Result<()> {
    let mut text = String::new();
    let name = if file == Path::new("-") {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("failed to read stdin")?;
        "stdin".to_owned()
    } else {
        text = std::fs::read_to_string(file)
            .with_context(|| format!("failed to read {}", file.display()))?;
        file.display().to_string()
    };

    let workloads = workloads(&text, &name)?;
    let documents: Vec<_> = workloads
        .iter()
        .map(serde_json::to_string_pretty)
        .collect::<Result<_, _>>()?;
    print_document(&format!("{}\n", documents.join("\n---\n")))?;

    eprintln!("apply it after the Plugin is deleted: both at once would be two operators");
    Ok(())
}

/// The Deployments that the Plugins in a text have replaced.
fn workloads(text: &str, name: &str) -> Result<Vec<Value>> {
    // A List, as kubectl prints several objects, has no name.
    let parsed = match serde_json::from_str::<Value>(text) {
        Ok(list) if list["items"].is_array() => list["items"].as_array().cloned(),
        _ => None,
    };
    let objects = match parsed {
        Some(items) => items,
        None => objects_in(text, name)?,
    };

    let mut found = Vec::new();
    for plugin in objects.iter().filter(|object| object["kind"] == PLUGIN) {
        let Some(adopted) = plugin["metadata"]["annotations"][ADOPTED].as_str() else {
            continue;
        };
        let workload: Value = serde_json::from_str(adopted)
            .ok()
            .filter(|workload: &Value| {
                workload["kind"].is_string() && workload["metadata"]["name"].is_string()
            })
            .with_context(|| {
                format!(
                    "the annotation {ADOPTED} of {} is no Deployment in JSON: somebody has changed it",
                    name_of(plugin)
                )
            })?;
        found.push(workload);
    }

    if found.is_empty() {
        bail!(
            "{name} has no Plugin with the annotation {ADOPTED}, which `operetta adopt` writes: give it the manifests that \
             it has printed, or `kubectl get plugin NAME -o yaml`"
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deployment_comes_back_from_the_plugin() {
        let workload =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "op"}});
        let plugin = json!({
            "apiVersion": "operetta.dev/v1alpha1",
            "kind": "Plugin",
            "metadata": {"name": "op", "annotations": {ADOPTED: workload.to_string()}},
        });
        let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: op}\n";

        let text = format!("{account}---\n{plugin}\n");
        assert_eq!(
            workloads(&text, "x").expect("one"),
            std::slice::from_ref(&workload)
        );
        let list = json!({"kind": "List", "items": [plugin, plugin]}).to_string();
        assert_eq!(workloads(&list, "x").expect("two").len(), 2);

        let error = |text: &str| workloads(text, "some.yaml").expect_err("none").to_string();
        let said = error(account);
        assert!(
            said.contains("some.yaml has no Plugin with the annotation"),
            "{said}"
        );

        for wrong in ["{", "[]", "{\"kind\": 1}"] {
            let mut damaged = plugin.clone();
            damaged["metadata"]["annotations"][ADOPTED] = wrong.into();
            let said = error(&damaged.to_string());
            assert!(said.contains("of Plugin/op is no Deployment"), "{said}");
        }
    }
}

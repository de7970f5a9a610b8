//! `operetta adopt --unadopt FILE`: prints what a Plugin replaced, the Deployment, the webhook
//! configurations and the conversions that were left out. They are in an annotation of the Plugin. They are printed as
//! JSON, since kubectl takes that as well.

use std::{io::Read as _, path::Path};

use anyhow::{Context, Result, bail};
use operetta_api::{annotations::ADOPTED, plugin::KIND as PLUGIN};
use serde_json::Value;

use super::convert::name_of;
use crate::commands::{dev::manifests::objects_in, print_document};

/// Prints what each Plugin in a file, or on stdin if it is `-`, has replaced.
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

    let replaced = replaced(&text, &name)?;
    let documents: Vec<_> = replaced
        .iter()
        .map(serde_json::to_string_pretty)
        .collect::<Result<_, _>>()?;
    print_document(&format!("{}\n", documents.join("\n---\n")))?;

    let names: Vec<_> = replaced.iter().map(name_of).collect();
    eprintln!(
        "{}: delete the Plugin before you apply this: with both there would be two operators",
        names.join(", ")
    );

    let conversions: Vec<_> = replaced
        .iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition")
        .map(name_of)
        .collect();
    if !conversions.is_empty() {
        eprintln!(
            "{}: only spec.conversion, which belongs to what the cluster has: use `kubectl apply` without --server-side",
            conversions.join(", ")
        );
    }
    Ok(())
}

/// The objects that the Plugins in a text replaced.
fn replaced(text: &str, name: &str) -> Result<Vec<Value>> {
    // kubectl prints several objects as a List, which has no name.
    let objects = match serde_json::from_str::<Value>(text).ok().and_then(items) {
        Some(items) => items,
        None => objects_in(text, name)?,
    };

    let mut found = Vec::new();
    for plugin in objects.iter().filter(|object| object["kind"] == PLUGIN) {
        let Some(adopted) = plugin["metadata"]["annotations"][ADOPTED].as_str() else {
            continue;
        };
        let is_named =
            |object: &Value| object["kind"].is_string() && object["metadata"]["name"].is_string();
        let adopted = serde_json::from_str::<Value>(adopted).ok().and_then(items);
        let adopted = adopted.filter(|items| !items.is_empty() && items.iter().all(is_named));
        found.extend(adopted.with_context(|| {
            format!(
                "the annotation {ADOPTED} of {} isn't a List of objects in JSON: somebody has changed it",
                name_of(plugin)
            )
        })?);
    }

    if found.is_empty() {
        bail!(
            "{name} has no Plugin with the annotation {ADOPTED}, which `operetta adopt` writes: pass the manifests that \
             it printed, or the output of `kubectl get plugin NAME -o yaml`"
        );
    }
    Ok(found)
}

/// The objects of a List; None if it is none.
fn items(mut list: Value) -> Option<Vec<Value>> {
    match list.get_mut("items")?.take() {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_replaced_comes_back_from_the_plugin() {
        let workload =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "op"}});
        let webhooks = json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "w"}});
        let adopted = json!({"kind": "List", "items": [workload, webhooks]});
        let plugin = json!({
            "apiVersion": "operetta.dev/v1alpha1",
            "kind": "Plugin",
            "metadata": {"name": "op", "annotations": {ADOPTED: adopted.to_string()}},
        });
        let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: op}\n";

        let text = format!("{account}---\n{plugin}\n");
        assert_eq!(replaced(&text, "x").expect("one"), [workload, webhooks]);
        let list = json!({"kind": "List", "items": [plugin, plugin]}).to_string();
        assert_eq!(replaced(&list, "x").expect("two").len(), 4);

        let error = |text: &str| replaced(text, "some.yaml").expect_err("none").to_string();
        let said = error(account);
        assert!(
            said.contains("some.yaml has no Plugin with the annotation"),
            "{said}"
        );

        for wrong in [
            "{",
            "[]",
            "1",
            "{\"kind\": 1}",
            "{\"items\": []}",
            "{\"items\": [{\"kind\": \"Deployment\"}]}",
        ] {
            let mut damaged = plugin.clone();
            damaged["metadata"]["annotations"][ADOPTED] = wrong.into();
            let said = error(&damaged.to_string());
            assert!(said.contains("of Plugin/op isn't a List"), "{said}");
        }
    }
}

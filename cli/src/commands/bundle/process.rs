//! `operetta bundle` for a process: ConfigMaps without the label of which the host makes a Plugin,
//! and the Plugin, which says how the process is run.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, bail};
use operetta_api::{API_VERSION, plugin::KIND as PLUGIN};
use operetta_host::terminal;
use operetta_wasm::LoadLimits;
use serde_json::{Value, json};

use super::{First, check_names, documents, plugin_name, split};
use crate::{
    args::BundleArgs,
    commands::{dev::manifests::objects_in, packed::Packer, print_document},
};

/// Prints the objects of `--plugin`, the ConfigMaps and the Plugin, in this order: so the namespace
/// and the ConfigMaps exist before what needs them.
pub fn bundle(args: &BundleArgs, bytes: Vec<u8>, packer: &Packer) -> Result<()> {
    if args.config.is_some() {
        bail!(
            "{} is a process, which has arguments, variables and volumes instead of --config: set spec.process in the file of \
             --plugin",
            args.file.display()
        );
    }

    let size = bytes.len();
    print_document(&made(args, bytes, packer)?)?;

    let limit = LoadLimits::default().max_wasm_bytes;
    if size > limit {
        terminal::note(format_args!(
            "the component has {size} bytes. A host takes it from ConfigMaps only if maxWasmBytes of its configuration is as \
             large, and it is {limit} by default; from a file (spec.source.path), it takes processes of 256 MiB"
        ));
    }
    Ok(())
}

/// All documents.
fn made(args: &BundleArgs, bytes: Vec<u8>, packer: &Packer) -> Result<String> {
    let (others, mut plugin) = match &args.plugin {
        Some(file) => read(file)?,
        None => (Vec::new(), new_plugin(args)?),
    };

    let plugin_name = plugin["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = plugin["metadata"]["namespace"].as_str().map(str::to_owned);
    let name = match (&args.name, &args.plugin) {
        (None, Some(_)) => format!("{plugin_name}-component"),
        _ => super::plugin_name(args)?,
    };

    plugin["spec"]["source"] = json!({"configMap": {"name": name}});
    plugin["spec"]["digest"] = operetta_wasm::digest(&bytes).into();
    let first = First {
        name,
        namespace,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        config: None,
    };
    let config_maps = documents(split(first, bytes, args.raw, packer)?)?;

    // JSON is YAML, and leaves no question of which texts need quotes.
    let mut all = others
        .iter()
        .map(json_document)
        .collect::<Result<Vec<_>>>()?;
    all.push(config_maps);
    all.push(json_document(&plugin)?);
    Ok(all.join("---\n"))
}

fn json_document(object: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(object)? + "\n")
}

/// Reads a file with one Plugin, and returns its other objects and the Plugin.
fn read(file: &Path) -> Result<(Vec<Value>, Value)> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("failed to read {}", file.display()))?;
    let name = file.display().to_string();
    let (mut plugins, others): (Vec<_>, Vec<_>) = objects_in(&text, &name)?
        .into_iter()
        .partition(|object| object["kind"] == PLUGIN);

    let Some(plugin) = plugins.pop().filter(|_| plugins.is_empty()) else {
        bail!("{name} must have exactly one Plugin, as the manifests of `operetta adopt` do");
    };
    if !plugin["spec"]["process"].is_object() {
        bail!("the Plugin in {name} has no spec.process, and the component is a process");
    }
    Ok((others, plugin))
}

/// A Plugin whose process has no arguments.
fn new_plugin(args: &BundleArgs) -> Result<Value> {
    let name = plugin_name(args)?;
    check_names(args)?;

    let mut plugin = json!({
        "apiVersion": API_VERSION,
        "kind": PLUGIN,
        "metadata": {"name": name},
        "spec": {"process": {}},
    });
    if let Some(namespace) = &args.namespace {
        plugin["metadata"]["namespace"] = namespace.as_str().into();
    }
    if let Some(account) = &args.service_account {
        plugin["spec"]["serviceAccountName"] = account.as_str().into();
    }
    Ok(plugin)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use operetta_manager::plugin::source::parts::PARTS;

    use super::*;
    use crate::commands::packed::Level;

    const PROCESS: &str = r#"(component
        (core module $m (memory (export "memory") 1) (func (export "_start")))
        (export "process" (core module $m)))"#;

    fn args(plugin: Option<&Path>) -> BundleArgs {
        BundleArgs {
            file: "build/op.wasm".into(),
            name: None,
            namespace: None,
            service_account: None,
            config: None,
            plugin: plugin.map(Path::to_owned),
            raw: true,
            fast: false,
        }
    }

    fn made(args: &BundleArgs, noise: usize) -> Result<Vec<Value>> {
        let mut bytes = wat::parse_str(PROCESS).expect("a component");
        assert!(operetta_wasm::inspect(&bytes).is_process);
        bytes.extend(std::iter::repeat_n(7, noise));
        let text = super::made(args, bytes, &Packer::with_folder(Level::Fast, None))?;
        objects_in(&text, "the bundle")
    }

    #[test]
    fn process_gets_config_maps_and_a_plugin_that_names_them() {
        let args = BundleArgs {
            namespace: Some("ops".into()),
            service_account: Some("sa".into()),
            ..args(None)
        };
        let all = made(&args, 2_000_000).expect("made");
        let [part_2, part_3, first, plugin] = all.as_slice() else {
            panic!("{} objects", all.len())
        };

        let first: ConfigMap = serde_json::from_value(first.clone()).expect("a ConfigMap");
        assert_eq!(first.metadata.name.as_deref(), Some("op"));
        assert_eq!(
            first.metadata.labels, None,
            "the host makes no second Plugin"
        );
        assert_eq!(first.metadata.annotations.expect("some")[PARTS], "3");
        for part in [part_2, part_3] {
            assert_eq!(part["metadata"]["namespace"], "ops");
            assert_eq!(part["metadata"]["labels"]["operetta.dev/part-of"], "op");
        }

        let digest = plugin["spec"]["digest"].as_str().unwrap_or_default();
        assert!(digest.starts_with("sha256:"), "{plugin}");
        let expected = json!({
            "apiVersion": "operetta.dev/v1alpha1",
            "kind": "Plugin",
            "metadata": {"name": "op", "namespace": "ops"},
            "spec": {
                "source": {"configMap": {"name": "op"}},
                "digest": digest,
                "serviceAccountName": "sa",
                "process": {},
            },
        });
        assert_eq!(plugin, &expected);
    }

    #[test]
    fn adopted_manifests_get_the_component_from_config_maps() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("manifests.yaml");
        let plugin = "apiVersion: operetta.dev/v1alpha1\nkind: Plugin\nmetadata: {name: op, namespace: ops}\nspec:\n  \
                      source: {path: op.wasm}\n  serviceAccountName: sa\n  process: {args: [\"on\"]}\n";
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: ops}\n";
        std::fs::write(&file, format!("{plugin}---\n{namespace}")).expect("written");

        let all = made(&args(Some(&file)), 0).expect("made");
        let kinds: Vec<_> = all.iter().map(|object| &object["kind"]).collect();
        assert_eq!(kinds, ["Namespace", "ConfigMap", "Plugin"]);
        assert_eq!(all[1]["metadata"]["name"], "op-component");
        assert_eq!(all[1]["metadata"]["namespace"], "ops");
        let spec = &all[2]["spec"];
        assert_eq!(
            spec["source"],
            json!({"configMap": {"name": "op-component"}})
        );
        assert_eq!(spec["process"], json!({"args": ["on"]}));
        assert_eq!(spec["serviceAccountName"], "sa");

        for (text, expected) in [
            (namespace.to_owned(), "exactly one Plugin"),
            (format!("{plugin}---\n{plugin}"), "exactly one Plugin"),
            (plugin.replace("process:", "config:"), "has no spec.process"),
        ] {
            std::fs::write(&file, text).expect("written");
            let error = made(&args(Some(&file)), 0).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

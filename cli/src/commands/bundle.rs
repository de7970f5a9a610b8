//! `operetta bundle FILE.wasm`: prints the ConfigMaps that install a component as a plugin.
//!
//! A component that fits goes into one ConfigMap. A larger one is split into parts: the first
//! ConfigMap has the plugin's name and label, the number of parts, and the digest of the whole. The
//! others have the label `operetta.dev/part-of` and the same digest, so that a host never joins
//! parts of two builds. The annotation `operetta.dev/component-digest` pins the component, so that
//! a host runs no other one from this ConfigMap.
//!
//! A process gets a Plugin of its own beside them ([`process`]).

mod process;

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, bail};
use k8s_openapi::{
    ByteString, api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use operetta_api::names::{is_dns_label, is_dns_subdomain, is_label_value};
use operetta_api::reasons;
use operetta_wasm::{Format, inspect};

use super::{
    names,
    packed::{Level, Packer},
    print_document,
};
use crate::args::BundleArgs;
use operetta_manager::plugin::{
    config::text::config_object,
    drop_in::{COMPONENT_DIGEST, SERVICE_ACCOUNT},
    source::{
        artifact::PLUGIN_LABEL,
        parts::{self, DIGEST, PART, PART_OF, PARTS},
    },
};

/// The largest ConfigMap that Kubernetes accepts, with its keys, in bytes.
const CONFIG_MAP_LIMIT: usize = 1024 * 1024;
/// The size of one part, in bytes; it leaves room for the configuration and the metadata.
const PART_BYTES: usize = 900_000;

/// Prints the ConfigMaps as YAML, one document each, and what a process needs beside them.
///
/// # Errors
/// Returns an error if a file cannot be read, is not a component, or the configuration leaves no
/// room for it.
pub fn bundle(args: &BundleArgs) -> Result<()> {
    let bytes = std::fs::read(&args.file)
        .with_context(|| format!("failed to read {}", args.file.display()))?;
    let packer = Packer::new(Level::of(args.fast));
    if inspect(&bytes).is_process {
        return process::bundle(args, bytes, &packer);
    }
    if let Some(file) = &args.plugin {
        check_format(args, &bytes)?;
        bail!(
            "{} is a plugin, and --plugin is for a process: the host makes a Plugin of the ConfigMap by itself, so {} isn't \
             needed",
            args.file.display(),
            file.display()
        );
    }
    print_document(&documents(config_maps(args, bytes, &packer)?)?)
}

/// Formats ConfigMaps as YAML. The first part is last: when it is applied, all others exist.
fn documents(mut made: Vec<ConfigMap>) -> Result<String> {
    made.rotate_left(1);
    let documents: Vec<String> = made.into_iter().map(document).collect::<Result<_>>()?;
    Ok(documents.join("---\n"))
}

/// Formats a ConfigMap as YAML. `binaryData` is written by hand: the YAML emitter would look at
/// each character of the component.
fn document(mut config_map: ConfigMap) -> Result<String> {
    let binary_data = config_map.binary_data.take().unwrap_or_default();
    let mut yaml = serde_yaml_ng::to_string(&config_map)?;
    yaml += "binaryData:\n";

    for (key, bytes) in &binary_data {
        // A JSON string is a YAML string.
        yaml += &format!(
            "  {}: {}\n",
            serde_json::to_string(key)?,
            serde_json::to_string(bytes)?
        );
    }

    Ok(yaml)
}

/// Returns the ConfigMaps of a plugin, of which the host makes a Plugin by itself.
fn config_maps(args: &BundleArgs, bytes: Vec<u8>, packer: &Packer) -> Result<Vec<ConfigMap>> {
    check_format(args, &bytes)?;
    let name = plugin_name(args)?;
    check_names(args)?;

    let annotations = args
        .service_account
        .clone()
        .map(|account| (SERVICE_ACCOUNT.to_owned(), account));
    let first = First {
        name,
        namespace: args.namespace.clone(),
        labels: BTreeMap::from([(PLUGIN_LABEL.to_owned(), "true".to_owned())]),
        annotations: annotations.into_iter().collect(),
        config: args.config.as_deref().map(config).transpose()?,
    };
    split(first, bytes, args.raw, packer)
}

/// The first ConfigMap of a component, but for the component.
struct First {
    name: String,
    namespace: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    /// The key of the configuration and its text.
    config: Option<(&'static str, String)>,
}

/// Puts a component into one ConfigMap, or splits it over several.
fn split(first: First, bytes: Vec<u8>, raw: bool, packer: &Packer) -> Result<Vec<ConfigMap>> {
    let First {
        name,
        namespace,
        labels,
        annotations,
        config,
    } = first;
    let component_digest = operetta_wasm::digest(&bytes);
    // A key of a ConfigMap has no more characters than its name.
    let stem = if name.len() <= 240 {
        name.as_str()
    } else {
        "plugin"
    };
    let (key, stored) = if raw {
        (format!("{stem}.wasm"), bytes)
    } else {
        (format!("{stem}.wasm.zst"), packer.pack(&bytes)?)
    };

    let config_size = config
        .as_ref()
        .map_or(0, |(key, text)| key.len() + text.len());
    let room = CONFIG_MAP_LIMIT.saturating_sub(key.len() + config_size);

    let pieces: Vec<&[u8]> = if stored.len() <= room {
        vec![&stored]
    } else {
        stored.chunks(PART_BYTES).collect()
    };

    if pieces[0].len() > room {
        let left = CONFIG_MAP_LIMIT - PART_BYTES;
        bail!(
            "the configuration takes {config_size} bytes, but only {left} bytes fit beside a part of the component"
        );
    }

    let count = pieces.len();
    if count > 1 && !is_label_value(&name) {
        bail!(reasons::INVALID_NAME.error(format!(
            "{name:?} is too long: the component needs {count} ConfigMaps, which carry the name in a label, so use at most 63 letters"
        )));
    }

    let digest = operetta_wasm::digest(&stored);
    let mut made = Vec::with_capacity(count);

    for (at, piece) in pieces.into_iter().enumerate() {
        let (part_name, labels, mut annotations) = if at == 0 {
            let mut annotations = annotations.clone();
            annotations.insert(COMPONENT_DIGEST.to_owned(), component_digest.clone());
            annotations.extend((count > 1).then(|| (PARTS.to_owned(), count.to_string())));
            (name.clone(), labels.clone(), annotations)
        } else {
            (
                parts::part_name(&name, at as u32 + 1),
                BTreeMap::from([(PART_OF.to_owned(), name.clone())]),
                BTreeMap::from([(PART.to_owned(), (at + 1).to_string())]),
            )
        };

        if count > 1 {
            annotations.insert(DIGEST.to_owned(), digest.clone());
        }

        made.push(ConfigMap {
            metadata: ObjectMeta {
                name: Some(part_name),
                namespace: namespace.clone(),
                labels: Some(labels).filter(|all| !all.is_empty()),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            data: config
                .clone()
                .filter(|_| at == 0)
                .map(|(key, text)| BTreeMap::from([(key.to_owned(), text)])),
            binary_data: Some(BTreeMap::from([(key.clone(), ByteString(piece.to_vec()))])),
            ..ConfigMap::default()
        });
    }

    Ok(made)
}

/// Checks that the file is a component.
fn check_format(args: &BundleArgs, bytes: &[u8]) -> Result<()> {
    let file = args.file.display();
    match inspect(bytes).format {
        Format::Component => Ok(()),
        Format::CoreModule => {
            let message = format!(
                "{file} is a core module: `operetta component {file}` makes a component of it"
            );
            bail!(reasons::CORE_MODULE.error(message))
        }
        Format::NotWasm => {
            let message = format!(
                "{file} is not WebAssembly: use the component that `operetta build` has written"
            );
            bail!(reasons::NOT_WASM.error(message))
        }
    }
}

/// Returns `--name`, or the name that the file's name gives.
fn plugin_name(args: &BundleArgs) -> Result<String> {
    let name = args.name.clone();
    let name = name.unwrap_or_else(|| names::plugin_name(&args.file));
    if !is_dns_subdomain(&name) {
        let hint = if args.name.is_some() {
            ""
        } else {
            " (--name overrides the file's name)"
        };
        bail!(reasons::INVALID_NAME.error(format!(
            "{name:?} is not a valid plugin name: use lower case letters, digits, '-' and '.', at most 253{hint}"
        )));
    }

    Ok(name)
}

/// Checks the names that the API server and the host would refuse later.
fn check_names(args: &BundleArgs) -> Result<()> {
    if let Some(namespace) = args
        .namespace
        .as_deref()
        .filter(|namespace| !is_dns_label(namespace))
    {
        bail!(reasons::INVALID_NAME.error(format!(
            "{namespace:?} is not a valid namespace: use lower case letters, digits and '-', at most 63"
        )));
    }

    if let Some(account) = args
        .service_account
        .as_deref()
        .filter(|account| !is_dns_subdomain(account))
    {
        bail!(reasons::INVALID_SERVICE_ACCOUNT.error(format!(
            "{account:?} is not a valid ServiceAccount name: use lower case letters, digits, '-' and '.', at most 253"
        )));
    }

    Ok(())
}

/// Reads a file with configuration. Returns its key and its text, which the host accepts.
fn config(path: &Path) -> Result<(&'static str, String)> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("failed to read {}", path.display()))?;

    let is_json = path
        .extension()
        .is_some_and(|extension| extension == "json");
    let key = if is_json {
        "config.json"
    } else {
        "config.yaml"
    };
    if let Err(problem) = config_object(key, &text) {
        bail!("the host would refuse {}: {problem}", path.display());
    }

    Ok((key, text))
}

#[cfg(test)]
mod tests {
    use operetta_manager::plugin::source::artifact;

    use super::*;

    fn args(raw: bool) -> BundleArgs {
        let file = "target/My_Plugin.wasm".into();
        BundleArgs {
            file,
            name: None,
            namespace: None,
            service_account: Some("sa".into()),
            config: None,
            plugin: None,
            raw,
            fast: false,
        }
    }

    fn made(args: &BundleArgs, component: &[u8]) -> Result<Vec<ConfigMap>> {
        config_maps(
            args,
            component.to_vec(),
            &Packer::with_folder(Level::Fast, None),
        )
    }

    #[test]
    fn plugin_may_have_the_longest_name_unless_it_is_split() {
        let named = |length: usize| BundleArgs {
            name: Some("n".repeat(length)),
            ..args(true)
        };
        let small = wat::parse_str("(component)").expect("component");
        let one = made(&named(253), &small).expect("made");
        let keys: Vec<_> = one[0].binary_data.iter().flat_map(BTreeMap::keys).collect();
        assert_eq!(
            keys,
            ["plugin.wasm"],
            "a key has at most 253 letters as well"
        );

        let large = large(2 << 20);
        assert!(made(&named(63), &large).expect("made").len() > 1);
        let error = made(&named(64), &large).expect_err("a label is shorter");
        assert!(error.to_string().contains("at most 63 letters"), "{error}");
    }

    /// A component of this many bytes of noise, which nothing compresses, in a custom section.
    fn large(noise: usize) -> Vec<u8> {
        let mut component = wat::parse_str("(component)").expect("component");
        component.push(0);

        let mut length = noise + 2;
        while length >= 0x80 {
            component.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        component.push(length as u8);

        component.extend([1, b'x']);
        component.extend(
            (0..noise as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8),
        );

        component
    }

    fn annotation<'a>(config_map: &'a ConfigMap, name: &str) -> Option<&'a str> {
        config_map
            .metadata
            .annotations
            .as_ref()?
            .get(name)
            .map(String::as_str)
    }

    #[test]
    fn a_bundle_is_what_the_host_takes() {
        let component = wat::parse_str("(component)").expect("component");
        for raw in [true, false] {
            let made = made(&args(raw), &component).expect("made");
            let [made] = made.as_slice() else {
                panic!("one ConfigMap")
            };

            assert_eq!(made.metadata.name.as_deref(), Some("my-plugin"));
            let labels = made.metadata.labels.as_ref().expect("labels");
            assert_eq!(labels.get(PLUGIN_LABEL).map(String::as_str), Some("true"));
            assert_eq!(
                (annotation(made, PARTS), annotation(made, DIGEST)),
                (None, None)
            );
            assert_eq!(
                annotation(made, COMPONENT_DIGEST),
                Some(&*inspect(&component).digest),
                "of the plain component"
            );

            let stored = artifact::stored(made.clone(), None).expect("a component");
            let limit = artifact::SizeLimit {
                bytes: 1 << 20,
                setting: "maxWasmBytes",
            };
            assert_eq!(stored.decompress(limit), Ok(component.clone()));
        }
    }

    #[test]
    fn configuration_is_read_as_the_host_reads_it() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text, expected) in [
            ("a.yaml", "a: yes\n017: inf\n", Ok("config.yaml")),
            ("a.json", "{\"a\": 1}", Ok("config.json")),
            (
                "a.json",
                "a: 1",
                Err("config.json is not a JSON object: line 1"),
            ),
            ("a.yaml", "a: 1\na: 2", Err("a key stands twice")),
            (
                "a.yaml",
                "a: &x 1\nb: *x",
                Err("anchors, aliases or merge keys"),
            ),
            ("a.yaml", "- a", Err("config.yaml is not a YAML mapping")),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            match (config(&path), expected) {
                (Ok(read), expected) => {
                    assert_eq!(expected, Ok(read.0), "{text}");
                    assert_eq!(read.1, text);
                }
                (Err(error), expected) => {
                    let part = expected.expect_err(text);
                    assert!(error.to_string().contains(part), "{error}");
                    assert!(error.to_string().contains(name), "{error}");
                }
            }
        }
    }

    #[test]
    fn document_is_the_config_map() {
        let component = wat::parse_str("(component)").expect("component");
        for name in ["my-plugin", "1"] {
            let args = BundleArgs {
                name: Some(name.into()),
                ..args(false)
            };
            let mut made = made(&args, &component).expect("made");
            made[0].data = Some(BTreeMap::from([(
                "config.yaml".to_owned(),
                "a: |\n  b\n".to_owned(),
            )]));

            let read: ConfigMap =
                serde_yaml_ng::from_str(&document(made[0].clone()).expect("YAML"))
                    .expect("a ConfigMap");
            assert_eq!(read, made[0]);
        }
    }

    #[test]
    fn splits_large_file_into_parts_that_join() {
        let component = large(2_000_000);
        let made = made(&args(true), &component).expect("made");
        let names: Vec<_> = made
            .iter()
            .filter_map(|part| part.metadata.name.as_deref())
            .collect();
        assert_eq!(names, ["my-plugin", "my-plugin-part-2", "my-plugin-part-3"]);

        let digest = inspect(&component).digest;
        let mut joined = Vec::new();
        for (at, part) in made.iter().enumerate() {
            let data = &part.binary_data.as_ref().expect("data")["my-plugin.wasm"].0;
            assert!(data.len() <= PART_BYTES);
            joined.extend_from_slice(data);
            assert_eq!(annotation(part, DIGEST), Some(&*digest));

            let label = part.metadata.labels.as_ref().expect("labels");
            if at == 0 {
                assert_eq!(
                    (annotation(part, PARTS), annotation(part, SERVICE_ACCOUNT)),
                    (Some("3"), Some("sa"))
                );
                assert_eq!(label[PLUGIN_LABEL], "true");
            } else {
                assert_eq!(annotation(part, PART), Some(&*(at + 1).to_string()));
                assert_eq!((label.len(), &*label[PART_OF]), (1, "my-plugin"));
            }
        }

        assert_eq!(joined, component);
    }

    #[test]
    fn a_config_map_that_is_just_full_is_not_split() {
        let full = CONFIG_MAP_LIMIT - "my-plugin.wasm".len();
        let overhead = large(1_000_000).len() - 1_000_000;

        assert_eq!(
            made(&args(true), &large(full - overhead))
                .expect("made")
                .len(),
            1
        );
        assert_eq!(
            made(&args(true), &large(full - overhead + 1))
                .expect("made")
                .len(),
            2
        );
    }

    #[test]
    fn wrong_file_or_name_is_refused_with_the_fix() {
        let [component, module] =
            ["(component)", "(module)"].map(|text| wat::parse_str(text).expect("parses"));
        let right = || args(false);

        let wrong_name = BundleArgs {
            name: Some("a b".into()),
            ..right()
        };
        let wrong_namespace = BundleArgs {
            namespace: Some("a/b".into()),
            ..right()
        };
        let wrong_account = BundleArgs {
            service_account: Some("a b".into()),
            ..right()
        };

        for (args, bytes, message) in [
            (
                right(),
                b"hello".as_slice(),
                "My_Plugin.wasm is not WebAssembly: use the component that `operetta build`",
            ),
            (
                right(),
                module.as_slice(),
                "is a core module: `operetta component target/My_Plugin.wasm` makes a component",
            ),
            (
                wrong_name,
                component.as_slice(),
                "\"a b\" is not a valid plugin name: use lower case letters",
            ),
            (
                wrong_namespace,
                component.as_slice(),
                "\"a/b\" is not a valid namespace: use lower case letters",
            ),
            (
                wrong_account,
                component.as_slice(),
                "\"a b\" is not a valid ServiceAccount name: use lower case letters",
            ),
        ] {
            let error = made(&args, bytes).expect_err(message).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}

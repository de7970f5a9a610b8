//! Real objects of many kinds: what a control plane with controllers has of its own, and the CRDs
//! of known projects, applied to it by server-side apply and listed back, with the managedFields
//! that it gave them.
//!
//! Each CRD is there once, as in a cluster; all else is there so many times, under other names and
//! uids. Copies are too much alike to say anything about compression, so that is measured of the
//! CRDs only: the host itself leaves so small a cache as it is.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use http::Request;
use kube::{
    Client,
    discovery::{Discovery, verbs},
};
use operetta_kube::store::Store;
use operetta_testkit::{
    ControlPlane,
    bench::{Report, Row, Samples},
    eventually,
    peers::Peers,
};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::memory::{self, Set, Stores};

/// How often each object that is no CRD is there: more than 20,000 objects in all.
pub const COPIES: usize = 80;
const PEERS: &[&str] = &[
    "client-go",
    "client-go-stripped",
    "client-go-unstructured",
    "client-go-unstructured-stripped",
    "kube-rs-dynamic",
    "kube-rs-dynamic-stripped",
];
/// Namespaces, each with what the controllers put into it.
const NAMESPACES: usize = 20;
/// Where in the modules of benches/peers/crds the CRDs are.
const CRDS: &[(&str, &str)] = &[
    ("github.com/cert-manager/cert-manager", "deploy/crds"),
    (
        "github.com/external-secrets/external-secrets",
        "config/crds/bases",
    ),
    ("github.com/kedacore/keda/v2", "config/crd/bases"),
    (
        "github.com/prometheus-operator/prometheus-operator",
        "example/prometheus-operator-crd",
    ),
    ("sigs.k8s.io/cluster-api", "core/config/crd/bases"),
    ("sigs.k8s.io/gateway-api", "config/crd/standard"),
];

/// One object as the API server sent it, with apiVersion and kind.
struct Real {
    text: String,
    name: String,
    uid: String,
    is_crd: bool,
}

/// The rows of the mixed set and of the CRDs; none, and why, where the CRDs' modules cannot be had.
pub fn rows(
    report: &mut Report,
    peers: &Peers,
    folder: &Path,
    copies: usize,
) -> anyhow::Result<()> {
    let folders = match modules() {
        Ok(folders) => folders,
        Err(error) => {
            println!("without the mixed set: {error:#}");
            return Ok(());
        }
    };
    let objects = {
        let control_plane = ControlPlane::start(&["controllers", "scheduler", "kwok"])
            .map_err(anyhow::Error::msg)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(collect(&control_plane, &folders))?
    };
    let (crds, others): (Vec<Real>, Vec<Real>) =
        objects.into_iter().partition(|object| object.is_crd);
    println!(
        "{} objects and {} CRDs, the others {copies} times",
        others.len(),
        crds.len()
    );
    let file = folder.join("objects.jsonl");
    for (name, copies) in [("object_mixed", copies), ("crd", 0)] {
        let mut lines = BufWriter::new(File::create(&file)?);
        crds.iter()
            .try_for_each(|crd| writeln!(lines, "{}", crd.text))?;
        for copy in 0..copies {
            others
                .iter()
                .try_for_each(|object| writeln!(lines, "{}", object.copy(copy)))?;
        }
        lines.into_inner().map_err(|error| error.into_error())?;
        memory::rows(
            report,
            peers,
            &Set {
                name,
                file: &file,
                peers: PEERS,
                target: None,
            },
        )?;
    }
    fs::remove_file(&file)?;
    compressed(&crds)?
        .into_iter()
        .for_each(|row| report.row(row));
    Ok(())
}

/// What the CRDs' store counts when they are compressed; none where that would not halve them.
fn compressed(crds: &[Real]) -> anyhow::Result<Option<Row>> {
    let mut stores = Stores::default();
    crds.iter().try_for_each(|crd| stores.apply(&crd.text))?;
    let packed = stores.each().all(Store::pack_now);
    let each = Samples::new(vec![stores.bytes() as f64 / crds.len() as f64]);
    Ok(packed.then(|| Row::new("store.bytes_per_crd_compressed", "B", each)))
}

/// The folders of CRDs, out of Go's module cache: what is not there comes as Go is configured to
/// fetch modules, and is what go.sum says or an error.
fn modules() -> anyhow::Result<Vec<PathBuf>> {
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/peers/crds");
    let mut go = Command::new("go");
    let go = go
        .args(["mod", "download", "-json"])
        .current_dir(module)
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off");
    let output = go.output().context("go mod download: install Go 1.26")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "go mod download in benches/peers/crds: {said}"
    );
    let modules: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .collect::<Result<_, _>>()?;
    let folder = |(path, inside): &(&str, &str)| {
        let module = modules.iter().find(|module| module["Path"] == *path);
        let folder = module.and_then(|module| module["Dir"].as_str());
        Ok(
            Path::new(folder.with_context(|| format!("benches/peers/crds/go.mod has no {path}"))?)
                .join(inside),
        )
    };
    CRDS.iter().map(folder).collect()
}

async fn collect(control_plane: &ControlPlane, folders: &[PathBuf]) -> anyhow::Result<Vec<Real>> {
    for folder in folders {
        let files = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        let files = files
            .map(|file| Ok(file?.path()))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let is_object = |file: &&PathBuf| {
            file.extension().is_some_and(|ending| ending == "yaml")
                && !file.ends_with("kustomization.yaml")
        };
        let files = files.iter().filter(is_object);
        let texts = files
            .map(fs::read_to_string)
            .collect::<Result<Vec<_>, _>>()?;
        control_plane.apply(&texts.join("\n---\n"));
    }
    let namespace =
        |at| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: team-{at}}}\n");
    control_plane.apply(
        &(0..NAMESPACES)
            .map(namespace)
            .collect::<Vec<_>>()
            .join("---\n"),
    );
    let client = control_plane.client().await;
    eventually(
        "the controllers have given each namespace what belongs into it",
        async || {
            let mut missing = NAMESPACES;
            for path in ["/api/v1/configmaps", "/api/v1/serviceaccounts"] {
                let there = list(&client, path, "v1", "")
                    .await
                    .map_err(|error| error.to_string())?;
                missing = missing.min(NAMESPACES.saturating_sub(there.len()));
            }
            if missing == 0 {
                Ok(())
            } else {
                Err(format!("{missing} of {NAMESPACES} are without"))
            }
        },
    )
    .await;
    let discovery = eventually("every group is served", async || {
        Discovery::new(client.clone())
            .run()
            .await
            .map_err(|error| error.to_string())
    })
    .await;
    let mut objects = Vec::new();
    let mut seen = HashSet::new();
    for (resource, can) in discovery
        .groups()
        .flat_map(kube::discovery::ApiGroup::recommended_resources)
    {
        if can.supports_operation(verbs::LIST) && can.supports_operation(verbs::WATCH) {
            let prefix = if resource.group.is_empty() {
                "/api"
            } else {
                "/apis"
            };
            let path = format!("{prefix}/{}/{}", resource.api_version, resource.plural);
            let listed = list(&client, &path, &resource.api_version, &resource.kind).await?;
            // Events are served by two groups.
            objects.extend(
                listed
                    .into_iter()
                    .filter(|object| seen.insert(object.uid.clone())),
            );
        }
    }
    Ok(objects)
}

async fn list(
    client: &Client,
    path: &str,
    api_version: &str,
    kind: &str,
) -> anyhow::Result<Vec<Real>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Box<RawValue>>,
    }
    let text = client
        .request_text(Request::get(path).body(Vec::new())?)
        .await
        .with_context(|| path.to_owned())?;
    let list: List = serde_json::from_str(&text).with_context(|| path.to_owned())?;
    list.items
        .iter()
        .map(|item| Real::of(item.get(), api_version, kind))
        .collect()
}

impl Real {
    fn of(item: &str, api_version: &str, kind: &str) -> anyhow::Result<Self> {
        let object: Value = serde_json::from_str(item)?;
        let field = |name: &str| {
            let value = object["metadata"][name].as_str().map(str::to_owned);
            value.with_context(|| format!("{kind} without metadata.{name}: {item}"))
        };
        let text = match item.strip_prefix('{') {
            // Items of built-in kinds come without.
            Some(rest) if object["kind"].is_null() => {
                format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}",{rest}"#)
            }
            _ => item.to_owned(),
        };
        Ok(Self {
            text,
            name: field("name")?,
            uid: field("uid")?,
            is_crd: kind == "CustomResourceDefinition",
        })
    }

    /// The object under another name and uid; the first copy is itself.
    fn copy(&self, number: usize) -> String {
        if number == 0 {
            return self.text.clone();
        }
        let chance = (number as u32).wrapping_mul(0x9E37_79B9);
        let uid = format!("{chance:08x}{}", &self.uid[8..]);
        // metadata is in front of whatever else has a name or a uid.
        let renamed = self.text.replacen(
            &format!(r#""name":"{}""#, self.name),
            &format!(r#""name":"{}-{number}""#, self.name),
            1,
        );
        renamed.replacen(&self.uid, &uid, 1)
    }
}

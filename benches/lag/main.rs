//! `make bench-lag`: which cached reads miss an own write while watches are late, and how long they
//! take, beside controller-runtime.
//!
//! A controller writes an object and then reads it from its cache, `READS` times for each form of a
//! write and of a read, each time another object. All objects but those that it creates exist
//! before, and its cache has them. Watches reach it through a proxy, which delays them.
//!
//! - `lag.LAGms.FORM.READ.old`: the reads that miss the write before them, in percent.
//! - `lag.LAGms.FORM.READ.p50`, `.p99`: the time of such a read in milliseconds, as the controller
//!   measures it.
//!
//! FORM is `create`, `update`, `patch` (a merge patch), `apply`, `status`, `scale` (the
//! subresource), `delete`, `delete-collection`, `evict` (a Pod, the others are Deployments) and
//! `raw`: a request past the typed client, which is `Context::raw` in a plugin and client-go's
//! clientset in the peer. READ is `get` or `list`, by a label.
//!
//! Operetta runs the guest `fixture-own-writes`. The peer is benches/peers/go/lag, once with
//! `client.CacheOptions.EnableReadYourWritesConsistency` and once with its default, without it. A
//! form that a peer refuses has no figures. With a delay of a second or more, there are a fifth of
//! the reads: controller-runtime's wait for the watch.

mod contestant;
mod outcome;

use std::{collections::BTreeMap, time::Duration};

use futures::{TryStreamExt, stream};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, Client, Resource, api::PostParams};
use operetta_testkit::{
    ControlPlane,
    bench::{Report, number, numbers, only_starts},
    peers::Peers,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    contestant::{Contestant, Name},
    outcome::{Outcome, print, rows},
};

/// The delays of watches, in milliseconds.
const LAGS: [usize; 3] = [0, 100, 1_000];
/// The reads of each case.
const READS: usize = 100;
/// The delay from which on there are fewer reads, in milliseconds.
const LONG: usize = 1_000;
/// How many objects are made at once.
const AT_ONCE: usize = 16;

/// The forms of a write.
const FORMS: [&str; 10] = [
    "create",
    "update",
    "patch",
    "apply",
    "status",
    "scale",
    "delete",
    "delete-collection",
    "evict",
    "raw",
];
/// The forms of a read.
const READ_FORMS: [&str; 2] = ["get", "list"];

/// What is measured: a delay in milliseconds, a form of a write, and one of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    lag: usize,
    form: &'static str,
    read: &'static str,
}

/// All outcomes, in the order of the table.
pub type Outcomes = Vec<(Case, BTreeMap<Name, Outcome>)>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if only_starts() {
        return Ok(());
    }
    let peers = Peers::build_part(&["consistency"]);
    let mut outcomes = Outcomes::new();
    for lag in numbers("LAGS", &LAGS) {
        let reads = number("READS", READS);
        let reads = if lag >= LONG {
            (reads / 5).max(1)
        } else {
            reads
        };
        outcomes.extend(with_lag(&peers, lag, reads).await?);
    }

    print(&outcomes);
    let mut report = Report::new("lag");
    rows(&outcomes).into_iter().for_each(|row| report.row(row));
    let path = report.write()?;
    println!("all figures: {}", path.display());

    let refused = outcomes
        .iter()
        .filter(|(_, of_case)| {
            of_case
                .get(&Name::Operetta)
                .is_some_and(Outcome::is_refused)
        })
        .count();
    anyhow::ensure!(refused == 0, "Operetta refuses {refused} cases, see above");
    Ok(())
}

/// Plays all cases with watches this late, on a new API server.
async fn with_lag(peers: &Peers, lag: usize, reads: usize) -> anyhow::Result<Outcomes> {
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    control_plane.install_host();
    let client = control_plane.client().await;
    let cases: Vec<Case> = FORMS
        .iter()
        .flat_map(|form| READ_FORMS.map(|read| Case { lag, form, read }))
        .collect();
    let mut outcomes: Outcomes = cases.iter().map(|case| (*case, BTreeMap::new())).collect();

    for name in Name::ALL {
        let namespace = control_plane.namespace(&name.to_string()).await;
        namespace.allow_all("plugin").await;
        for case in &cases {
            make_objects(&client, namespace.name(), *case, reads).await?;
        }

        let delay = Duration::from_millis(lag as u64);
        let Some(mut contestant) = Contestant::start(name, &namespace, peers, delay).await else {
            continue;
        };
        for (case, of_case) in &mut outcomes {
            let outcome = contestant.play(*case, reads).await?;
            println!("{lag} ms, {} {}, {name}: {outcome}", case.form, case.read);
            of_case.insert(name, outcome);
        }
        contestant.assert_sound();
    }

    Ok(outcomes)
}

/// Makes the objects that a case changes.
async fn make_objects(
    client: &Client,
    namespace: &str,
    case: Case,
    count: usize,
) -> anyhow::Result<()> {
    match case.form {
        "create" => Ok(()),
        "evict" => make::<Pod>(client, namespace, case, count, &pod_spec()).await,
        _ => make::<Deployment>(client, namespace, case, count, &deployment_spec()).await,
    }
}

/// Makes objects of a kind: FORM-READ-0 … with the label of their case, and one of their own.
async fn make<K>(
    client: &Client,
    namespace: &str,
    case: Case,
    count: usize,
    spec: &Value,
) -> anyhow::Result<()>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api: &Api<K> = &Api::namespaced(client.clone(), namespace);
    stream::iter((0..count).map(anyhow::Ok))
        .try_for_each_concurrent(AT_ONCE, |at| async move {
            let of = format!("{}-{}", case.form, case.read);
            let name = format!("{of}-{at}");
            let labels = json!({"case": of, "set": name});
            let object = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
            api.create(&PostParams::default(), &serde_json::from_value(object)?)
                .await?;
            Ok(())
        })
        .await
}

fn pod_spec() -> Value {
    let container = json!({"name": "c", "image": "registry.example/c"});
    json!({"containers": [container], "automountServiceAccountToken": false})
}

fn deployment_spec() -> Value {
    let labels = json!({"app": "case"});
    let container = json!({"name": "c", "image": "registry.example/c"});
    json!({
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    })
}

//! The checks at the end of a run: nothing is lost, and nothing was done twice.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use serde_json::Value;

use crate::{foos::Foos, ledger::Life};

/// The most creations of a plugin that are in flight when the API server is killed: its workers.
const IN_FLIGHT: usize = 2;

/// What is wrong at the end of a run, a line for each fault.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Foos whose Deployment or status is missing or wrong, and Deployments that are left.
    pub lost: Vec<String>,
    /// Foos with more than one Deployment, one after the other.
    pub twice: Vec<String>,
    /// What else the host did wrong.
    pub unsound: Vec<String>,
}

/// Compares the objects with what was asked for.
///
/// # Errors
/// Returns an error if the objects cannot be listed.
pub async fn check(foos: &Foos, restarts: usize) -> anyhow::Result<Verdict> {
    let (existing, deployments) = foos.list().await?;
    let ledger = foos.ledger.borrow();
    let mut expected = ledger.expected();
    let mut lost = ledger.without_deployment();
    let mut owned: BTreeMap<String, _> = deployments
        .into_iter()
        .map(|deployment| (deployment.name_any(), deployment))
        .collect();
    for found in &existing {
        let name = found["metadata"]["name"].as_str().unwrap_or_default();
        let Some(life) = expected.remove(name) else {
            lost.push(format!("{name}: was deleted, and exists"));
            continue;
        };
        lost.extend(
            fault(found, owned.remove(name).as_ref(), life).map(|fault| format!("{name}: {fault}")),
        );
    }
    lost.extend(
        expected
            .into_keys()
            .map(|name| format!("{name}: the Foo does not exist")),
    );
    lost.extend(
        owned
            .into_keys()
            .map(|name| format!("{name}: a Deployment without a Foo")),
    );
    let unlogged = ledger.unlogged();
    if unlogged.len() > restarts * IN_FLIGHT {
        lost.extend(unlogged);
    }
    Ok(Verdict {
        lost,
        twice: ledger.with_several(),
        unsound: Vec::new(),
    })
}

/// Returns how a Foo and its Deployment differ from what was asked for.
fn fault(found: &Value, deployment: Option<&Deployment>, life: &Life) -> Option<String> {
    let Some(deployment) = deployment else {
        return Some("no Deployment".to_owned());
    };
    if found["spec"]["replicas"] != life.replicas {
        return Some(format!(
            "{} is its spec, not {} replicas",
            found["spec"], life.replicas
        ));
    }
    let owner = deployment
        .owner_references()
        .first()
        .map(|owner| owner.uid.clone());
    if owner.as_deref() != found["metadata"]["uid"].as_str() {
        return Some(format!("its Deployment is owned by {owner:?}"));
    }
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    if replicas != Some(life.replicas) {
        return Some(format!(
            "its Deployment has {replicas:?} replicas, not {}",
            life.replicas
        ));
    }
    (found["status"]["availableReplicas"] != life.available).then(|| {
        format!(
            "its status is {}, not {} available",
            found["status"], life.available
        )
    })
}

impl Verdict {
    /// Returns whether everything is right.
    ///
    /// # Errors
    /// Returns the first faults.
    pub fn result(&self) -> anyhow::Result<()> {
        let parts = [
            ("lost", &self.lost),
            ("twice", &self.twice),
            ("unsound", &self.unsound),
        ];
        let wrong: Vec<String> = parts
            .iter()
            .filter(|(_, faults)| !faults.is_empty())
            .map(|(part, faults)| {
                format!(
                    "{} {part}:\n{}",
                    faults.len(),
                    faults[..faults.len().min(20)].join("\n")
                )
            })
            .collect();
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    }
}

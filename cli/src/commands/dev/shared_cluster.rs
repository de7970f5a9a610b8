//! A cluster of a kubeconfig, which others use as well.
//!
//! A session leaves other people's Plugins alone: its host runs those of its own namespace, and the
//! session begins only if no other host would run them as well. At its end the Plugin, the Leases
//! and the namespace's opt-in are removed. What kubectl has applied stays, and so do the project's
//! objects and what the plugin has written.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, PropagationPolicy},
};
use operetta_api::labels::{LEASE, PLUGINS};
use serde_json::{Value, json};

use super::{
    super::{
        install,
        objects::{self, Write, display},
    },
    host::MANAGER,
};

/// How long to wait for the Plugin's deletion, which waits for its reconciles.
const DELETED: Duration = Duration::from_secs(10);

/// The namespace of a session on a cluster.
pub struct SharedCluster {
    client: Client,
    namespace: String,
    /// The name of the Plugin.
    plugin: String,
    write: Write,
}

impl SharedCluster {
    /// Checks that a session may begin, and installs the definitions and the opt-in of the
    /// namespace where they are missing.
    ///
    /// # Errors
    /// Returns an error if another host runs, the definitions are those of another version, the
    /// Plugin belongs to somebody else, or the API server refuses an object.
    pub async fn prepare(
        client: Client,
        namespace: &str,
        plugin: &str,
        force: bool,
    ) -> Result<Self> {
        let write = Write {
            manager: MANAGER,
            force,
            dry_run: false,
        };

        let cluster = Self {
            client,
            namespace: namespace.to_owned(),
            plugin: plugin.to_owned(),
            write,
        };

        cluster.refuse_other_hosts().await?;
        cluster.install_definitions().await?;
        cluster.refuse_other_plugin().await?;

        let opt_in = cluster.namespace(json!({PLUGINS: "enabled"}));
        objects::apply(&cluster.client, &opt_in, cluster.write).await?;

        Ok(cluster)
    }

    /// How the project's objects are written.
    pub fn write(&self) -> Write {
        self.write
    }

    /// Deletes the Plugin while the host still runs, so that its reconciles end first.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it, or the Plugin still exists after some
    /// seconds.
    pub async fn delete_plugin(&self) -> Result<()> {
        objects::delete(&self.client, &self.plugin(), PropagationPolicy::Background).await?;
        objects::until_deleted(&self.client, &self.plugin(), DELETED).await
    }

    /// Deletes the Lease of the host's group, and takes the opt-in back unless somebody else has
    /// set it as well.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it.
    pub async fn leave(&self) -> Result<()> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "operetta", "namespace": self.namespace},
        });
        objects::delete(&self.client, &lease, PropagationPolicy::Background).await?;

        // Applying an object without a field gives up the field.
        // https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy
        objects::apply(&self.client, &self.namespace(json!({})), self.write).await
    }

    fn namespace(&self, labels: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": labels}})
    }

    fn plugin(&self) -> Value {
        json!({
            "apiVersion": "operetta.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": self.plugin, "namespace": self.namespace},
        })
    }

    async fn refuse_other_hosts(&self) -> Result<()> {
        let leases: Api<Lease> = Api::all(self.client.clone());
        let selected = leases
            .list(&ListParams::default().labels(&format!("{LEASE}=replica")))
            .await;

        let now = Timestamp::now();
        for lease in selected.context("failed to list the Leases of Operetta hosts")? {
            let Some(holder) = live_holder(&lease, now) else {
                continue;
            };

            let namespace = lease.namespace().unwrap_or_default();
            if namespace == self.namespace {
                bail!(
                    "host {holder} runs the Plugins of namespace {namespace}: end that `operetta dev`, or choose another \
                     --namespace; a killed host still counts for some seconds"
                );
            }

            if !self.is_opted_in(&namespace).await? {
                bail!(
                    "Operetta host {holder} of namespace {namespace} runs on this cluster, and would run the plugin as well: \
                     use a cluster without a host, or stop it: kubectl scale deployment operetta -n {namespace} --replicas=0"
                );
            }
        }

        Ok(())
    }

    /// Reports whether plugins may run in a namespace. Another session's host is in such a
    /// namespace; an installed host is not.
    async fn is_opted_in(&self, name: &str) -> Result<bool> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let found = objects::read(&self.client, &namespace).await?;
        Ok(found.is_some_and(|found| found.labels().contains_key(PLUGINS)))
    }

    /// Applies the definitions that are missing or were applied by sessions. Definitions that
    /// others have applied must equal those of this version.
    async fn install_definitions(&self) -> Result<()> {
        for definition in install::definitions()? {
            let found = objects::read(&self.client, &definition).await?;
            if let Some(other) = found.as_ref().and_then(other_manager) {
                let dry_run = Write {
                    force: true,
                    dry_run: true,
                    ..self.write
                };

                let wanted = objects::applied(&self.client, &definition, dry_run).await?;
                if found.is_some_and(|found| found.data["spec"] != wanted.data["spec"]) {
                    bail!(
                        "{} on this cluster belongs to another version of Operetta and was applied by {other}: use that version, \
                         or upgrade the cluster with `operetta install`",
                        display(&definition)
                    );
                }
                continue;
            }

            objects::apply(
                &self.client,
                &definition,
                Write {
                    force: true,
                    ..self.write
                },
            )
            .await?;
            objects::until_served(&self.client, &definition).await?;
        }

        Ok(())
    }

    async fn refuse_other_plugin(&self) -> Result<()> {
        let found = objects::read(&self.client, &self.plugin()).await?;
        let is_other = |found: &DynamicObject| !managers(found).any(|manager| manager == MANAGER);
        if found.as_ref().is_some_and(is_other) {
            let (namespace, name) = (&self.namespace, &self.plugin);
            bail!(
                "Plugin {namespace}/{name} exists and was not created by `operetta dev`: choose another --namespace, or delete it: \
                 kubectl delete plugin {name} -n {namespace}"
            );
        }

        Ok(())
    }
}

/// The host that holds a Lease and has renewed it in time.
fn live_holder(lease: &Lease, now: Timestamp) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let holder = spec
        .holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())?;

    let renewed = spec.renew_time.as_ref()?.0.as_second();
    let seconds = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    (now.as_second() <= renewed.saturating_add(seconds)).then_some(holder)
}

/// The field managers of an object, without those of its status.
fn managers(object: &DynamicObject) -> impl Iterator<Item = &str> {
    let all = object.metadata.managed_fields.iter().flatten();
    all.filter(|fields| fields.subresource.is_none())
        .filter_map(|fields| fields.manager.as_deref())
}

/// A field manager of an object that is not a session.
fn other_manager(object: &DynamicObject) -> Option<String> {
    managers(object)
        .find(|manager| *manager != MANAGER)
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, seconds: i32) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": "operetta-a"},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": "2026-01-01T00:00:00.000000Z",
            },
        }))
        .expect("a Lease")
    }

    #[test]
    fn host_lives_until_its_lease_expires() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        assert_eq!(
            live_holder(&lease("a", 15), at("2026-01-01T00:00:15Z")),
            Some("a")
        );

        assert_eq!(
            live_holder(&lease("a", 15), at("2026-01-01T00:00:16Z")),
            None
        );
        assert_eq!(
            live_holder(&lease("", 15), at("2026-01-01T00:00:01Z")),
            None,
            "the Lease was taken"
        );
    }

    #[test]
    fn status_has_no_manager_of_definition() {
        let object = |fields: Value| {
            let metadata = json!({"name": "a", "managedFields": fields});
            serde_json::from_value(json!({"metadata": metadata})).expect("an object")
        };

        let own = json!({"manager": MANAGER, "operation": "Apply"});
        let status =
            json!({"manager": "kube-apiserver", "operation": "Update", "subresource": "status"});
        let other = json!({"manager": "operetta-install", "operation": "Apply"});

        assert_eq!(other_manager(&object(json!([own, status]))), None);
        assert_eq!(
            other_manager(&object(json!([own, other]))).as_deref(),
            Some("operetta-install")
        );
    }
}

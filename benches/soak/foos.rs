//! The changes that this program makes to Foos and Deployments. Each is repeated until the API
//! server answers, so that the load continues after an outage.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    convert::Infallible,
    fmt,
    pin::pin,
    time::Duration,
};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
    },
    core::PartialObjectMeta,
    runtime::watcher,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::ledger::{Ledger, name_of};

/// The time in which the API server answers and a Deployment is created, restarts of the API server
/// included.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest time of one request.
const REQUEST: Duration = Duration::from_secs(30);
/// The time from the deletion of a Foo to that of its Deployment. A real garbage collector has
/// none; but then a controller whose watch of Foos is behind its watch of Deployments creates the
/// Deployment again, for the collector to delete.
const GRACE: Duration = Duration::from_secs(5);
/// The Deployments that are deleted at once.
const DELETIONS: usize = 16;

/// The Foos of a namespace.
pub struct Foos {
    foos: Api<DynamicObject>,
    kind: ApiResource,
    deployments: Api<Deployment>,
    /// Not borrowed across an await.
    pub ledger: RefCell<Ledger>,
    /// The deleted Foos whose Deployments still exist, with the times of their deletion.
    orphans: RefCell<VecDeque<(usize, Instant)>>,
    /// The time since which the API server has been up; None while it is down.
    up: Cell<Option<Instant>>,
}

impl Foos {
    pub fn new(client: Client, namespace: &str) -> Self {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "samplecontroller.k8s.io",
            "v1alpha1",
            "Foo",
        ));
        Self {
            foos: Api::namespaced_with(client.clone(), namespace, &kind),
            kind,
            deployments: Api::namespaced(client, namespace),
            ledger: RefCell::default(),
            orphans: RefCell::default(),
            up: Cell::new(Some(Instant::now())),
        }
    }

    /// Remembers that the API server is up or down from now on.
    pub fn set_up(&self, is_up: bool) {
        self.up.set(is_up.then(Instant::now));
    }

    /// Creates the next Foo and waits until the watch has shown its Deployment. Returns its number.
    ///
    /// # Errors
    /// Returns an error if that does not happen within [`PATIENCE`].
    pub async fn create(&self) -> anyhow::Result<usize> {
        let number = self.ledger.borrow_mut().add();
        let name = name_of(number);
        let replicas = self.ledger.borrow_mut().life(number).replicas;
        let spec = json!({"spec": {"deploymentName": name, "replicas": replicas}});
        let wanted = DynamicObject::new(&name, &self.kind).data(spec);
        insist(format_args!("create {name}"), async || {
            match self.foos.create(&PostParams::default(), &wanted).await {
                // An earlier attempt got no response.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                created => created.map(drop),
            }
        })
        .await?;
        let deployed = self.ledger.borrow_mut().until_deployed(number);
        if let Some(deployed) = deployed {
            let deployed = timeout(PATIENCE, deployed).await;
            deployed
                .with_context(|| format!("lost: {name} has no Deployment after {PATIENCE:?}"))??;
        }
        self.ledger.borrow_mut().life(number).is_deployed = true;
        Ok(number)
    }

    /// Reports whether the Foo exists with its Deployment.
    pub fn is_deployed(&self, number: usize) -> bool {
        self.ledger.borrow_mut().life(number).is_deployed
    }

    /// Changes the replicas of a Foo, unless it is deleted meanwhile.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer within [`PATIENCE`].
    pub async fn scale(&self, number: usize) -> anyhow::Result<()> {
        let replicas = self.ledger.borrow_mut().life(number).replicas % 10 + 1;
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let name = name_of(number);
        insist(format_args!("scale {name}"), async || {
            self.unless_deleted(
                number,
                self.foos
                    .patch(&name, &PatchParams::default(), &patch)
                    .await,
            )
        })
        .await?;
        self.ledger.borrow_mut().life(number).replicas = replicas;
        Ok(())
    }

    /// Reports one more available replica in the status of a Deployment, as its controller would,
    /// unless its Foo is deleted meanwhile.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer within [`PATIENCE`].
    pub async fn make_available(&self, number: usize) -> anyhow::Result<()> {
        let available = self.ledger.borrow_mut().life(number).available + 1;
        let status = json!({"replicas": available, "readyReplicas": available, "availableReplicas": available});
        let patch = Patch::Merge(json!({"status": status}));
        let name = name_of(number);
        insist(format_args!("status of {name}"), async || {
            self.unless_deleted(
                number,
                self.deployments
                    .patch_status(&name, &PatchParams::default(), &patch)
                    .await,
            )
        })
        .await?;
        self.ledger.borrow_mut().life(number).available = available;
        Ok(())
    }

    /// Waits until a Foo exists with its Deployment, and deletes it. [`Foos::collect`] deletes the
    /// Deployment.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer within [`PATIENCE`].
    pub async fn delete(&self, number: usize) -> anyhow::Result<()> {
        // Its step may still be waiting for the API server while others go on.
        while !self.is_deployed(number) {
            sleep(PAUSE).await;
        }
        let name = name_of(number);
        insist(format_args!("delete {name}"), async || {
            unless_gone(self.foos.delete(&name, &DeleteParams::default()).await)
        })
        .await?;
        self.ledger.borrow_mut().life(number).is_deleted = true;
        self.orphans
            .borrow_mut()
            .push_back((number, Instant::now()));
        Ok(())
    }

    /// Deletes the Deployments of deleted Foos: the control plane has no garbage collector. Never
    /// ends.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer within [`PATIENCE`].
    pub async fn collect(&self) -> anyhow::Result<Infallible> {
        loop {
            let due: Vec<usize> = std::iter::from_fn(|| self.next_orphan()).collect();
            let deletions = stream::iter(due).map(|number| self.delete_deployment(number));
            deletions
                .buffer_unordered(DELETIONS)
                .try_collect::<()>()
                .await?;
            sleep(PAUSE).await;
        }
    }

    /// Waits until [`Foos::collect`] has deleted all Deployments of deleted Foos.
    pub async fn until_collected(&self) {
        while !self.orphans.borrow().is_empty() {
            sleep(PAUSE).await;
        }
        // Those that it has taken from the queue and not yet deleted.
        sleep(PAUSE * 2).await;
    }

    /// Takes an orphan out of the queue if the host has had [`GRACE`] to see its Foo's deletion.
    fn next_orphan(&self) -> Option<usize> {
        let up = self.up.get()?;
        let mut orphans = self.orphans.borrow_mut();
        let (number, deleted) = *orphans.front()?;
        if up.max(deleted).elapsed() < GRACE {
            return None;
        }
        orphans.pop_front();
        Some(number)
    }

    async fn delete_deployment(&self, number: usize) -> anyhow::Result<()> {
        let name = name_of(number);
        insist(
            format_args!("delete the Deployment of {name}"),
            async || {
                unless_gone(
                    self.deployments
                        .delete(&name, &DeleteParams::default())
                        .await,
                )
            },
        )
        .await
    }

    /// Watches Deployments for the ledger. Never ends.
    ///
    /// # Errors
    /// Returns an error if the watch ends.
    pub async fn follow(&self) -> anyhow::Result<Infallible> {
        let deployments: Api<PartialObjectMeta<Deployment>> =
            Api::namespaced(self.deployments.clone().into_client(), self.namespace());
        let mut events = pin!(watcher(deployments, watcher::Config::default()));
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Apply(found) | watcher::Event::InitApply(found)) => {
                    self.ledger
                        .borrow_mut()
                        .saw_deployment(&found.name_any(), &found.uid().unwrap_or_default());
                }
                Ok(_) => {}
                // The API server is down. The watch continues, or begins anew with a list.
                Err(_) => sleep(PAUSE).await,
            }
        }
        anyhow::bail!("the watch of Deployments ended")
    }

    /// Returns all Foos and all Deployments.
    ///
    /// # Errors
    /// Returns an error if they cannot be listed.
    pub async fn list(&self) -> anyhow::Result<(Vec<Value>, Vec<Deployment>)> {
        let foos = self.foos.list(&Default::default()).await?;
        let deployments = self.deployments.list(&Default::default()).await?;
        Ok((
            foos.items.into_iter().map(|found| json!(found)).collect(),
            deployments.items,
        ))
    }

    /// Ignores any error if this program has deleted the Foo.
    fn unless_deleted<T>(&self, number: usize, changed: kube::Result<T>) -> kube::Result<()> {
        if self.ledger.borrow_mut().life(number).is_deleted {
            Ok(())
        } else {
            changed.map(drop)
        }
    }

    fn namespace(&self) -> &str {
        self.foos.namespace().unwrap_or_default()
    }
}

/// Sends a request until the API server answers it.
///
/// # Errors
/// Returns the last error after [`PATIENCE`].
pub async fn insist<T>(
    what: fmt::Arguments<'_>,
    mut request: impl AsyncFnMut() -> kube::Result<T>,
) -> anyhow::Result<T> {
    let began = Instant::now();
    loop {
        let error = match timeout(REQUEST, request()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error.to_string(),
            Err(elapsed) => elapsed.to_string(),
        };
        anyhow::ensure!(began.elapsed() < PATIENCE, "{what}: {error}");
        sleep(PAUSE).await;
    }
}

/// Ignores that an object to delete does not exist.
fn unless_gone<T>(deleted: kube::Result<T>) -> kube::Result<()> {
    match deleted {
        // Not the 404 of a kind that a starting API server does not serve yet.
        Err(kube::Error::Api(status))
            if status.reason == "NotFound" && status.details.is_some() =>
        {
            Ok(())
        }
        deleted => deleted.map(drop),
    }
}

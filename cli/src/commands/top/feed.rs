//! Reads the objects of a view from the API server, and follows them. It never ends by itself.
//! After an error it starts over with a freshly read kubeconfig, so that new credentials, a new
//! permission or a restored kind take effect.

use std::{convert::Infallible, sync::Arc, time::Duration};

use anyhow::{Error, Result};
use k8s_openapi::jiff::Timestamp;
use operetta_core::{
    handler::event::Event,
    status::{ApiError, ErrorKind},
};
use operetta_host::{cluster::connect, describe};
use operetta_kube::informer::Informer;
use tokio::sync::{
    mpsc::Sender,
    watch::{self, Sender as Shared},
};

use super::{
    objects,
    view::{Opened, Target, Update},
};
use crate::{
    args::ClusterArgs,
    commands::watch::{Kept, Pending, Selection, Source, View, trouble},
};

/// The pause before a view starts over.
const PAUSE: Duration = Duration::from_secs(3);

/// The error of the watch, while it fails.
pub type Problem = Shared<Option<String>>;

/// Follows a view until its receiver is gone.
pub async fn follow(
    cluster: &ClusterArgs,
    target: &Target,
    out: &Sender<Update>,
    problem: &Problem,
) {
    while !out.is_closed() {
        let Err(error) = view(cluster, target, out, problem).await;
        problem.send_replace(Some(format!("{}: trying again", explained(&error))));
        tokio::time::sleep(PAUSE).await;
    }
}

/// Follows a view until it fails.
///
/// # Errors
/// Returns why it ended.
pub async fn view(
    cluster: &ClusterArgs,
    target: &Target,
    out: &Sender<Update>,
    problem: &Problem,
) -> Result<Infallible> {
    let is_plugins = target.is_plugins();

    let selection = Selection {
        kind: if is_plugins {
            super::view::PLUGINS.to_owned()
        } else {
            target.kind.clone()
        },
        namespace: target.namespace.clone(),
        all_namespaces: target.all_namespaces,
        labels: target.labels.clone(),
        fields: String::new(),
        kept: if is_plugins {
            Kept::Whole
        } else {
            Kept::Without(objects::LEFT_OUT.map(str::to_owned).to_vec())
        },
    };

    let source = Source::find(connect(cluster).await?, &selection).await?;

    let opened = Opened {
        name: source.name(),
        kind: source.resource.kind.clone(),
        namespace: source.scope.namespace.clone(),
        is_namespaced: source.resource.namespaced,
    };
    out.send(Update::Opened(opened)).await?;

    let report = |error: Option<&str>| drop(problem.send_replace(error.map(str::to_owned)));
    let informer = trouble::started(&source, &report).await?;
    report(None);

    let pending = Arc::new(Pending::default());
    let writer = pending.clone();
    let _subscription = informer.subscribe(Arc::new(move |event| writer.push(event)), None);

    let changes = Changes {
        source: &source,
        pending: &pending,
        out,
    };

    let followed = async {
        if is_plugins {
            changes.plugins().await
        } else {
            changes.rows().await
        }
    };

    let error = tokio::select! {
        error = followed => error,
        error = refusal(&source, &informer, &report) => error,
    };

    if error
        .downcast_ref::<ApiError>()
        .is_some_and(|error| error.kind == ErrorKind::NotFound)
    {
        out.send(Update::Gone).await?;
        return Err(source.gone().into());
    }

    Err(error)
}

async fn refusal(source: &Source, informer: &Informer, report: trouble::Report<'_>) -> Error {
    trouble::lasting(source, informer, report).await.into()
}

/// The changes of a view.
struct Changes<'a> {
    source: &'a Source,
    pending: &'a Pending,
    out: &'a Sender<Update>,
}

impl Changes<'_> {
    /// Sends Plugins until an error.
    async fn plugins(&self) -> Error {
        let mut events = self.pending.take_now();

        let mut is_whole = true;
        loop {
            if let Err(error) = self.out.send(Update::Plugins { events, is_whole }).await {
                return error.into();
            }
            is_whole = false;
            events = self.pending.take().await;
        }
    }

    /// Sends rows until an error.
    async fn rows(&self) -> Error {
        let mut view = View::new(self.source);
        let mut events = self.pending.take_now();
        let mut lines = view.begin().await;
        let mut is_whole = true;

        loop {
            let lines_now = match lines {
                Ok(lines) => lines,
                Err(error) => return error.into(),
            };

            let health = events
                .iter()
                .filter(|event| !matches!(event, Event::Deleted { .. }));
            let health = health
                .map(|event| {
                    (
                        event.object().key().clone(),
                        objects::health(event.object()),
                    )
                })
                .collect();

            let at = Timestamp::now();
            let update = Update::Rows {
                columns: view.columns.clone(),
                lines: lines_now,
                health,
                is_whole,
                at,
            };

            if let Err(error) = self.out.send(update).await {
                return error.into();
            }

            is_whole = false;
            events = self.pending.take().await;
            lines = view.tell(&events).await;
        }
    }
}

/// Adds the fix to an error's description.
pub fn coded(error: Error) -> Error {
    let text = explained(&error);
    if text == describe(&error) {
        error
    } else {
        Error::msg(text)
    }
}

/// Describes an error, with the fix if the credentials are refused.
pub fn explained(error: &Error) -> String {
    let text = describe(error);

    let is_unauthorized = error
        .downcast_ref::<ApiError>()
        .is_some_and(|error| error.status.code == 401);

    if is_unauthorized || text.contains("Unauthorized") {
        return format!(
            "{text}: the API server refuses the kubeconfig's credentials, log in again"
        );
    }

    text
}

/// Creates the channel for the error of a watch.
pub fn problem() -> (Problem, watch::Receiver<Option<String>>) {
    watch::channel(None)
}

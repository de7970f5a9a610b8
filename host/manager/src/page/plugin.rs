//! One Plugin: its controllers, failing keys, informers, permissions and log, as known to the
//! replica that runs it.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, State},
    http::HeaderMap,
    response::{Html as HtmlResponse, IntoResponse, Response},
};
use futures::future::OptionFuture;
use k8s_openapi::jiff::Timestamp;
use operetta_core::{object::ObjectKey, queue::KeyPhase};
use operetta_kube::{authz::required_permissions::Needed, clock};
use serde::Serialize;
use tokio::{sync::broadcast::error::RecvError, time::timeout};

use super::{
    failure::{Failure, no_plugin},
    html::{Cell, Html, path},
    session::Session,
    shell,
    state::Page,
    stream::{self, Asked, Events, Gone, Refresh},
    summaries::{ShownPlugin, Summary},
};
use crate::{
    admin::{
        access::Required,
        informers::{self, InformerView},
    },
    authz::permissions,
    plugin::{
        crd::{Condition, ControllerStatus},
        hosted_plugin::{HostedPlugin, State as PluginState},
        status::health::FailingKey,
    },
};

/// How often updates are sent.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait for a plugin being reconciled.
const BUSY: Duration = Duration::from_millis(500);

#[derive(Debug, Serialize)]
pub(super) struct Details {
    summary: Summary,
    controllers: Vec<ControllerView>,
    failing: Vec<FailingView>,
    informers: Vec<InformerView>,
    /// Left out while the plugin doesn't run here: there is no recording then.
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<Permissions>,
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ControllerView {
    name: String,
    kind: String,
    api_version: String,
    /// Empty until the kind has been looked up.
    plural: String,
    queued: usize,
    /// Left out if the queue is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_seconds: Option<f64>,
    workers: u32,
    reconciles: u64,
    errors: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FailingView {
    controller: String,
    #[serde(flatten)]
    key: FailingKey,
    /// When the key is queued again, RFC 3339; left out if it isn't waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try: Option<String>,
}

#[derive(Debug, Serialize)]
struct Permissions {
    missing: Vec<Needed>,
}

/// Returns the details, or None if there is no such Plugin.
async fn details(page: &Page, key: &ObjectKey) -> Option<Details> {
    let plugin = page.manager.plugins()?.cache.store.get(key)?;
    let shown = ShownPlugin::read(&plugin);
    let all = page.summaries.latest(&page.manager).await;
    let namespace = key.namespace.as_deref().unwrap_or_default();

    let summary = all
        .iter()
        .find(|one| one.namespace == namespace && one.name == key.name)
        .cloned()?;
    let hosted = page.manager.hosted_plugins.get(key);
    let state: OptionFuture<_> = hosted
        .as_ref()
        .map(|hosted| timeout(BUSY, hosted.state.lock()))
        .into();
    let state = state.await.and_then(Result::ok);
    let controllers = shown.status.controllers.iter();
    let controllers: Vec<_> = controllers
        .map(|status| controller(page, status, hosted.as_deref(), state.as_deref()))
        .collect();

    let failing = hosted.iter().flat_map(|hosted| {
        let names = controllers.iter().map(|controller| &controller.name);
        names.flat_map(|name| failing(name, hosted, state.as_deref()))
    });
    let failing = failing.collect();
    drop(state);

    let context = &page.manager.context;
    let informers = informers::list(
        &context.cluster,
        &page.manager.hosted_plugins,
        &page.server_revisions,
    )
    .await
    .informers;
    let user = key.to_string();
    let informers = informers
        .into_iter()
        .filter(|informer| informer.users.contains(&user))
        .collect();
    let permissions = permissions::list(context, &page.manager.hosted_plugins, key)
        .await
        .ok();

    let permissions = permissions.map(|found| Permissions {
        missing: found
            .needs
            .into_iter()
            .filter(|need| !need.allowed)
            .collect(),
    });

    Some(Details {
        summary,
        controllers,
        failing,
        informers,
        permissions,
        conditions: shown.status.conditions,
    })
}

fn failing(
    controller: &str,
    hosted: &HostedPlugin,
    state: Option<&PluginState>,
) -> Vec<FailingView> {
    let running = state.and_then(|state| state.running.as_ref());
    let next_try = |key: &ObjectKey| {
        let controllers = running?.iter().flat_map(|shard| shard.controllers());
        let phases = controllers
            .filter(|one| one.name() == controller)
            .filter_map(|one| one.queue().phase(key));
        let mut waits = phases.filter_map(|phase| match phase {
            KeyPhase::Waiting(time) => Some(time),
            KeyPhase::Queued(_) | KeyPhase::Processing(_) => None,
        });
        let at = clock::now().checked_add(waits.next()?).ok()?;

        // Whole seconds, so that the text doesn't change on every update.
        Timestamp::from_second(at.as_second())
            .ok()
            .map(|at| at.to_string())
    };

    let keys = hosted.health.failing(controller).into_iter();
    keys.map(|key| FailingView {
        controller: controller.to_owned(),
        next_try: key.queued_as.as_ref().and_then(next_try),
        key,
    })
    .collect()
}

fn controller(
    page: &Page,
    status: &ControllerStatus,
    hosted: Option<&HostedPlugin>,
    state: Option<&PluginState>,
) -> ControllerView {
    let (kind, api_version) = status.for_.split_once('.').unwrap_or((&status.for_, ""));
    let number = |number: i64| u64::try_from(number).unwrap_or_default();
    let mut view = ControllerView {
        name: status.name.clone(),
        kind: kind.to_owned(),
        api_version: api_version.to_owned(),
        queued: usize::try_from(status.queued).unwrap_or_default(),
        reconciles: number(status.reconciles),
        errors: number(status.errors),
        ..ControllerView::default()
    };

    let running = page.manager.context.cluster.registry.running();
    let of_kind = running
        .iter()
        .find(|informer| informer.resource.kind.to_string() == status.for_);
    view.plural = of_kind
        .map(|informer| informer.resource.plural.clone())
        .unwrap_or_default();

    let Some(running) = state.and_then(|state| state.running.as_ref()) else {
        return view;
    };
    let controllers = running.iter().flat_map(|shard| shard.controllers());
    for controller in controllers.filter(|controller| controller.name() == status.name) {
        let oldest = controller
            .queue()
            .oldest()
            .map(|waited| waited.as_secs_f64());
        view.oldest_seconds = view
            .oldest_seconds
            .into_iter()
            .chain(oldest)
            .reduce(f64::max);
        view.workers += controller.workers();
    }
    view.queued = running.queued(&status.name);

    if let Some(hosted) = hosted {
        let health = hosted.health.of(&status.name);
        view.reconciles = health.reconciles;
        view.errors = health.errors;
    }

    view
}

type PluginPath = Path<(String, String)>;

/// Serves `/page/api/plugins/NAMESPACE/NAME`.
pub(super) async fn api(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    Path((namespace, name)): PluginPath,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let required = Required::plugin_resource("get", "plugins", &namespace, &name);
    let key = ObjectKey::namespaced(namespace, name);
    let asked = Asked::new(page, session, &headers, Some(required));
    let read = move |page: Arc<Page>, _session| {
        let key = key.clone();
        async move { details(&page, &key).await.ok_or_else(|| no_plugin(&key)) }
    };
    stream::answer(asked, "plugin", Refresh::every(INTERVAL), read).await
}

/// Serves `/page/api/plugins/NAMESPACE/NAME/log`, only as events: `/logs` has it as lines.
pub(super) async fn log(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    Path((namespace, name)): PluginPath,
) -> Result<Response, Failure> {
    let required = Required::plugin_resource("get", "plugins/log", &namespace, &name);
    session.check(&page, Some(&required)).await?;
    let key = ObjectKey::namespaced(namespace, name);
    if page.manager.context.logs.get(&key).is_none() {
        return Err(no_plugin(&key));
    }

    let owned = page.clone();
    Ok(stream::respond(&page, &session, Some(required), |events| {
        follow(owned, key, events)
    }))
}

async fn follow(page: Arc<Page>, key: ObjectKey, events: Events) -> Result<(), Failure> {
    let _end = send_lines(&page, &key, &events).await;
    Ok(())
}

/// Sends a log's lines until the host drops the log.
async fn send_lines(page: &Page, key: &ObjectKey, events: &Events) -> Result<(), Gone> {
    let Some(log) = page.manager.context.logs.get(key) else {
        return Ok(());
    };
    let (kept, mut tail) = log.follow(usize::MAX);
    drop(log);
    for line in kept {
        events.send("line", &&*line).await?;
    }

    loop {
        match tail.recv().await {
            Ok(line) => events.send("line", &&*line).await?,
            // A slow reader loses lines, but keeps its connection.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

/// Serves `/page/plugins/NAMESPACE/NAME` as plain tables.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    Path((namespace, name)): PluginPath,
) -> Result<Response, Failure> {
    let required = Required::plugin_resource("get", "plugins", &namespace, &name);
    session.check(&page, Some(&required)).await?;
    let key = ObjectKey::namespaced(namespace, name);
    let found = details(&page, &key).await.ok_or_else(|| no_plugin(&key))?;

    let html = HtmlResponse(shell::document(
        &key.to_string(),
        Some(&session.user),
        plain(found),
    ));
    Ok(html.into_response())
}

fn plain(details: Details) -> Html {
    let Details {
        summary,
        controllers,
        failing,
        informers,
        permissions,
        conditions,
    } = details;

    let title = format!("{}/{}", summary.namespace, summary.name);
    let html = Html::default()
        .markup("<h1>")
        .text(&title)
        .markup("</h1>")
        .paragraph(&format!("{}: {}", summary.state, summary.reason));
    let html = html.paragraph(&summary.message).paragraph(&summary.cure);
    let rows = controllers.into_iter().map(|one| -> Vec<Cell> {
        let oldest = Cell::number(one.oldest_seconds);
        vec![
            one.name.into(),
            one.kind.into(),
            one.queued.into(),
            oldest,
            one.workers.into(),
            one.reconciles.into(),
            one.errors.into(),
        ]
    });

    let columns = [
        "Controller",
        "Kind",
        "Queued",
        "Oldest (s)",
        "Workers",
        "Reconciles",
        "Errors",
    ];
    let html = html.table("Controllers", &columns, rows.collect());
    let rows = failing.into_iter().map(
        |FailingView {
             controller,
             key,
             next_try,
         }|
         -> Vec<Cell> {
            let next_try = next_try.unwrap_or_default();
            vec![
                controller.into(),
                key.key.into(),
                key.retries.into(),
                next_try.into(),
                key.error.into(),
            ]
        },
    );

    let html = html.table(
        "Failing keys",
        &[
            "Controller",
            "Key",
            "Failures in a row",
            "Next try",
            "Error",
        ],
        rows.collect(),
    );
    let rows = informers.iter().map(super::informers::row).collect();
    let html = html.table("Informers", &super::informers::COLUMNS, rows);
    let rows = permissions
        .into_iter()
        .flat_map(|permissions| permissions.missing)
        .map(|Needed { need, name, .. }| -> Vec<Cell> {
            let namespace = need.namespace.unwrap_or_default();
            vec![
                need.verb.into(),
                need.resource.into(),
                need.group.into(),
                namespace.into(),
                name.unwrap_or_default().into(),
            ]
        });

    let html = html.table(
        "Missing rights",
        &["Verb", "Resource", "Group", "Namespace", "Name"],
        rows.collect(),
    );
    let rows = conditions.into_iter().map(|condition| -> Vec<Cell> {
        vec![
            condition.type_.into(),
            condition.status.into(),
            condition.reason.into(),
            condition.message.into(),
            condition.last_transition_time.into(),
        ]
    });

    let html = html.table(
        "Conditions",
        &["Type", "Status", "Reason", "Message", "Since"],
        rows.collect(),
    );
    html.markup("<p>")
        .link(&path(&["plugins"]), "All Plugins")
        .markup("</p>")
}

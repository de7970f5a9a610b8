//! This replica's informers, as at /informers.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{Html as HtmlResponse, Response},
};

use super::{
    failure::Failure,
    html::{Cell, Html},
    session::Session,
    shell,
    state::Page,
    stream::{self, Asked, Refresh},
};
use crate::admin::{
    access::Required,
    informers::{self, InformerView, Informers},
};

/// How often updates are sent.
const INTERVAL: Duration = Duration::from_secs(2);

/// The columns of the plain table.
pub(super) const COLUMNS: [&str; 9] = [
    "Kind",
    "Namespace",
    "For",
    "Objects",
    "Bytes",
    "Events",
    "Relists",
    "Users",
    "Error",
];

/// Returns the required permission, the same as for /informers.
fn required() -> Required {
    Required::of("/informers")
}

async fn list(page: &Page) -> Informers {
    informers::list(
        &page.manager.context.cluster,
        &page.manager.hosted_plugins,
        &page.server_revisions,
    )
    .await
}

/// Serves `/page/api/informers`.
pub(super) async fn api(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let asked = Asked::new(page, session, &headers, Some(required()));
    let read = |page: Arc<Page>, _session| async move { Ok(list(&page).await) };
    stream::answer(asked, "informers", Refresh::every(INTERVAL), read).await
}

/// Serves `/page/informers` as a plain table.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
) -> Result<HtmlResponse<String>, Failure> {
    session.check(&page, Some(&required())).await?;
    let rows = list(&page).await.informers.iter().map(row).collect();
    let html =
        Html::default()
            .markup("<h1>Informers</h1>")
            .table("Of this replica", &COLUMNS, rows);
    Ok(HtmlResponse(shell::document(
        "Informers",
        Some(&session.user),
        html,
    )))
}

pub(super) fn row(informer: &InformerView) -> Vec<Cell> {
    let counts = &informer.counts;
    vec![
        (&informer.scope.kind).into(),
        informer.scope.namespace.clone().unwrap_or_default().into(),
        match informer.scope.for_processes {
            true => "processes",
            false => "plugins",
        }
        .into(),
        counts.objects.into(),
        counts.bytes.into(),
        counts.events.into(),
        counts.relists.into(),
        informer.users.join(", ").into(),
        informer.error.clone().unwrap_or_default().into(),
    ]
}

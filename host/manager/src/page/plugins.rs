//! The Plugins a user may see.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{Html as HtmlResponse, Response},
};
use serde::Serialize;

use super::{
    failure::Failure,
    html::{Cell, Html, path},
    rights::Visible,
    session::Session,
    shell,
    state::Page,
    stream::{self, Asked, Refresh},
    summaries::{INTERVAL, Summary},
};

/// The Plugins a user may see.
#[derive(Debug, Serialize)]
pub(super) struct Plugins {
    plugins: Vec<Summary>,
    /// How many the user may not see.
    hidden: usize,
    /// The permission the user would need to see them all.
    #[serde(skip_serializing_if = "Option::is_none")]
    forbidden: Option<String>,
}

async fn visible(page: &Page, session: &Session) -> Result<Plugins, Failure> {
    let all = page.summaries.latest(&page.manager).await;
    let namespaces = all.iter().map(|plugin| plugin.namespace.clone()).collect();
    let visible = Visible::of(page, session, namespaces).await?;
    let (plugins, hidden) = visible.split(all.to_vec(), |plugin| &plugin.namespace);

    Ok(Plugins {
        plugins,
        hidden,
        forbidden: visible.forbidden,
    })
}

/// Serves `/page/api/plugins`.
pub(super) async fn api(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let asked = Asked::new(page, session, &headers, None);
    stream::answer(
        asked,
        "plugins",
        Refresh::every(INTERVAL),
        |page, session| async move { visible(&page, &session).await },
    )
    .await
}

/// Serves `/page/plugins` as plain tables.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
) -> Result<HtmlResponse<String>, Failure> {
    let Plugins {
        plugins,
        hidden,
        forbidden,
    } = visible(&page, &session).await?;
    let (attention, others): (Vec<_>, Vec<_>) =
        plugins.iter().partition(|plugin| plugin.needs_attention);
    let columns = [
        "Plugin",
        "State",
        "Reason",
        "Message",
        "Cure",
        "Runs on",
        "Reconciles/s",
        "Errors/s",
        "p99 (ms)",
        "CPU (%)",
        "Memory (bytes)",
        "Queued",
    ];

    let rows = |plugins: Vec<&Summary>| plugins.into_iter().map(row).collect();
    let html = Html::default().markup("<h1>Plugins</h1>");
    let html = html.table("Needs attention", &columns, rows(attention));
    let html = html
        .table("Others", &columns, rows(others))
        .html(hidden_note(hidden, forbidden.as_deref()));

    Ok(HtmlResponse(shell::document(
        "Plugins",
        Some(&session.user),
        html,
    )))
}

/// Says what the user may not see, and why.
pub(super) fn hidden_note(hidden: usize, forbidden: Option<&str>) -> Html {
    let note = match hidden {
        0 => String::new(),
        hidden => format!("{hidden} not shown: {}", forbidden.unwrap_or_default()),
    };
    Html::default().paragraph(&note)
}

fn row(plugin: &Summary) -> Vec<Cell> {
    let text = format!("{}/{}", plugin.namespace, plugin.name);
    vec![
        Cell::Link {
            text,
            href: path(&["plugins", &plugin.namespace, &plugin.name]),
        },
        plugin.state.into(),
        (&plugin.reason).into(),
        (&plugin.message).into(),
        (&plugin.cure).into(),
        plugin.runs_on.join(", ").into(),
        Cell::number(plugin.rates.reconciles_per_second),
        Cell::number(plugin.rates.errors_per_second),
        Cell::number(plugin.rates.p99_ms),
        Cell::number(plugin.rates.cpu_percent),
        plugin.memory_bytes.into(),
        plugin.queued.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_plugin_is_never_markup() {
        const ATTACK: &str = "</td><script>alert(1)</script>";
        let text = || ATTACK.to_owned();
        let runs_on = vec![text()];
        let plugin = Summary {
            reason: text(),
            message: text(),
            name: text(),
            runs_on,
            ..Summary::default()
        };
        let html = Html::default()
            .table("Plugins", &["Plugin"], vec![row(&plugin)])
            .html(hidden_note(1, Some(ATTACK)));
        let html = html.into_string();
        assert!(
            !html.contains("<script") && html.matches("&lt;script&gt;").count() == 5,
            "{html}"
        );
    }
}

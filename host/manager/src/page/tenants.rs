//! The tenants: each namespace with Plugins, its share of the processors, and its quotas.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::HeaderMap,
    response::{Html as HtmlResponse, Response},
};
use serde::Serialize;

use super::{
    failure::Failure,
    html::{Cell, Html},
    plugins::hidden_note,
    rights::Visible,
    session::Session,
    shell,
    state::Page,
    stream::{self, Asked, Refresh},
    summaries::Summary,
};
use crate::admin::access::Required;

/// How often updates are sent.
const INTERVAL: Duration = Duration::from_secs(1);

/// The tenants a user may see.
#[derive(Debug, Serialize)]
pub(super) struct Tenants {
    tenants: Vec<Tenant>,
    hidden: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    forbidden: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tenant {
    namespace: String,
    /// The namespace's weight when processors are short.
    share: u32,
    cpu_percent: f64,
    /// How long its plugins were throttled, summed over them.
    throttled_percent: f64,
    quotas: Vec<Quota>,
    plugins: usize,
    /// How many Plugins don't run because a quota is used up.
    over_quota: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Quota {
    quota: &'static str,
    used: usize,
    /// None without a limit.
    limit: Option<usize>,
}

/// CPU and throttled time of a namespace's plugins, in percent.
type Load = BTreeMap<String, (f64, f64)>;

/// Returns the tenants a user may see: all, with the permission for `/tenants`, and otherwise the
/// namespaces in which the user may list Plugins.
async fn visible(page: &Page, session: &Session) -> Result<Tenants, Failure> {
    let load = load(&page.summaries.latest(&page.manager).await);
    let all = all(page, &load);

    match session.check(page, Some(&Required::of("/tenants"))).await {
        Ok(()) => {
            return Ok(Tenants {
                tenants: all,
                hidden: 0,
                forbidden: None,
            });
        }
        Err(failure) if failure.status == 403 => {}
        Err(failure) => return Err(failure),
    }

    let namespaces = all.iter().map(|tenant| tenant.namespace.clone()).collect();
    let visible = Visible::of(page, session, namespaces).await?;
    let (tenants, hidden) = visible.split(all, |tenant| &tenant.namespace);

    Ok(Tenants {
        tenants,
        hidden,
        forbidden: visible.forbidden,
    })
}

fn load(plugins: &[Summary]) -> Load {
    let mut load = Load::new();
    for plugin in plugins {
        let of_namespace = load.entry(plugin.namespace.clone()).or_default();
        of_namespace.0 += plugin.rates.cpu_percent.unwrap_or_default();
        of_namespace.1 += plugin.rates.throttled_percent.unwrap_or_default();
    }
    load
}

fn all(page: &Page, load: &Load) -> Vec<Tenant> {
    let tenants = &page.manager.context.tenants;
    let usage = tenants
        .admission
        .usage()
        .into_iter()
        .map(|(namespace, used, limit)| {
            let quota = |quota, used, limit: usize| Quota {
                quota,
                used,
                limit: Some(limit).filter(|limit| *limit != usize::MAX),
            };
            let quotas = vec![
                quota("plugins", used.plugins, limit.plugins),
                quota(
                    "controllers",
                    used.demand.controllers,
                    limit.demand.controllers,
                ),
                quota("sources", used.demand.sources, limit.demand.sources),
                quota(
                    "queuedKeys",
                    tenants.queued_keys(&namespace),
                    tenants.max_queued_keys(&namespace),
                ),
            ];

            let (cpu_percent, throttled_percent) =
                load.get(&namespace).copied().unwrap_or_default();
            let share = tenants.quotas().of_namespace(&namespace).share().weight;
            let plugins = used.plugins + used.over;
            Tenant {
                namespace,
                share,
                cpu_percent,
                throttled_percent,
                quotas,
                plugins,
                over_quota: used.over,
            }
        });
    let mut all: Vec<_> = usage.collect();
    all.sort_by(|one, other| one.namespace.cmp(&other.namespace));

    all
}

/// Serves `/page/api/tenants`.
pub(super) async fn api(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let asked = Asked::new(page, session, &headers, None);
    let read = |page: Arc<Page>, session: Session| async move { visible(&page, &session).await };
    stream::answer(asked, "tenants", Refresh::every(INTERVAL), read).await
}

/// Serves `/page/tenants` as a plain table.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
) -> Result<HtmlResponse<String>, Failure> {
    let Tenants {
        tenants,
        hidden,
        forbidden,
    } = visible(&page, &session).await?;
    let rows = tenants.into_iter().map(|tenant| -> Vec<Cell> {
        let quota = |quota: &Quota| match quota.limit {
            Some(limit) => format!("{} {} of {limit}", quota.quota, quota.used),
            None => format!("{} {}", quota.quota, quota.used),
        };
        let quotas: Vec<String> = tenant.quotas.iter().map(quota).collect();
        vec![
            tenant.namespace.into(),
            tenant.share.into(),
            Cell::number(Some(tenant.cpu_percent)),
            Cell::number(Some(tenant.throttled_percent)),
            tenant.plugins.into(),
            tenant.over_quota.into(),
            quotas.join(", ").into(),
        ]
    });

    let columns = [
        "Namespace",
        "Weight",
        "CPU (%)",
        "Throttled (%)",
        "Plugins",
        "Over quota",
        "Quotas",
    ];

    let html = Html::default().markup("<h1>Tenants</h1>").table(
        "Namespaces with Plugins",
        &columns,
        rows.collect(),
    );
    let html = html.html(hidden_note(hidden, forbidden.as_deref()));

    Ok(HtmlResponse(shell::document(
        "Tenants",
        Some(&session.user),
        html,
    )))
}

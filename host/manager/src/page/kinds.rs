//! The served kinds, including custom ones, and the objects of one kind.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    extract::{Path, Query, State},
    http::HeaderMap,
    response::{Html as HtmlResponse, IntoResponse, Response},
};
use futures::{StreamExt, stream as futures_stream};
use operetta_core::{object::ObjectKey, status::ApiError};
use operetta_kube::{
    client::user_api::{Read, UserApi},
    discovery::ApiResource,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    collection::Collection,
    failing::{self, Failing},
    failure::Failure,
    html::{Cell, Html},
    session::Session,
    shell,
    state::Page,
    stream::{self, Asked, Refresh},
    table::{self, Row},
    table_stream::{About, Selection, TableStream, read_page},
};

/// Discovery of all groups in one response, or the format of older API servers.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// The largest discovery response, in bytes.
const MAX_DISCOVERY: usize = 16 << 20;
/// The maximum number of concurrent requests for one discovery.
const AT_ONCE: usize = 4;
/// How often an open list of kinds is refreshed while no definition changes: aggregated API servers
/// have none.
const INTERVAL: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct KindEntry {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    /// True if a CustomResourceDefinition defines it.
    pub custom: bool,
    pub verbs: Vec<String>,
}

/// The objects a request selects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct KindQuery {
    namespace: String,
    label_selector: String,
    #[serde(rename = "continue")]
    continue_token: String,
    /// Text to find in the cells, on the plain page.
    q: String,
}

/// Returns all kinds that can be listed, each in the API server's preferred version.
pub(super) async fn all(page: &Page, api: &UserApi) -> Result<Vec<KindEntry>, Failure> {
    let mut kinds = Vec::new();
    for root in ["/api", "/apis"] {
        let read = Read {
            path: root,
            parameters: &[],
            accept: ACCEPT,
        };
        let found: Value = decode(&api.read(read, MAX_DISCOVERY).await?, root)?;
        match found["kind"].as_str() {
            Some("APIGroupDiscoveryList") => kinds.extend(of_groups(&found)),
            _ => kinds.extend(of_versions(api, root, &found).await?),
        }
    }

    let mut first = BTreeMap::new();
    for kind in kinds
        .into_iter()
        .filter(|kind| kind.verbs.iter().any(|verb| verb == "list"))
    {
        first
            .entry((kind.group.clone(), kind.plural.clone()))
            .or_insert(kind);
    }

    let custom = page.definitions();
    let is_custom = |kind: &KindEntry| {
        let definition = ObjectKey::cluster_scoped(format!("{}.{}", kind.plural, kind.group));
        custom
            .as_ref()
            .is_some_and(|known| known.cache.store.get(&definition).is_some())
    };

    Ok(first
        .into_values()
        .map(|kind| KindEntry {
            custom: is_custom(&kind),
            ..kind
        })
        .collect())
}

fn decode(text: &str, path: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        ApiError::new(
            operetta_core::status::ErrorKind::Other,
            format!("failed to decode {path}: {error}"),
        )
        .into()
    })
}

fn texts(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Parses aggregated discovery.
fn of_groups(list: &Value) -> Vec<KindEntry> {
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut kinds = Vec::new();

    for group in each(&list["items"]) {
        for version in each(&group["versions"]) {
            for resource in each(&version["resources"]) {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                kinds.push(KindEntry {
                    group: text(&group["metadata"]["name"]),
                    version: text(&version["version"]),
                    kind: text(&resource["responseKind"]["kind"]),
                    plural: text(&resource["resource"]),
                    namespaced: resource["scope"] == "Namespaced",
                    custom: false,
                    verbs: texts(&resource["verbs"]),
                });
            }
        }
    }

    kinds
}

/// Reads discovery from an older API server, version by version. Groups that don't respond are left
/// out.
async fn of_versions(api: &UserApi, root: &str, list: &Value) -> Result<Vec<KindEntry>, Failure> {
    let versions: Vec<(String, String)> = if root == "/api" {
        texts(&list["versions"])
            .into_iter()
            .map(|version| (String::new(), version))
            .collect()
    } else {
        let groups = list["groups"].as_array().cloned().unwrap_or_default();
        let split = |version: &Value| {
            let (group, version) = version["groupVersion"].as_str()?.split_once('/')?;
            Some((group.to_owned(), version.to_owned()))
        };
        let versions = groups
            .iter()
            .flat_map(|group| group["versions"].as_array().into_iter().flatten());
        versions.filter_map(split).collect()
    };
    let reads = versions.into_iter().map(|(group, version)| async move {
        let collection = Collection {
            group,
            version,
            plural: String::new(),
        };
        let path = format!("{root}/{}", collection.api_version());
        let text = api
            .read(
                Read {
                    path: &path,
                    parameters: &[],
                    accept: "application/json",
                },
                MAX_DISCOVERY,
            )
            .await;
        (collection, text)
    });
    let answers: Vec<_> = futures_stream::iter(reads)
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut kinds = Vec::new();

    for (Collection { group, version, .. }, answer) in answers {
        let Ok(list) = answer else { continue };
        let list = decode(&list, &version)?;
        for resource in list["resources"].as_array().into_iter().flatten() {
            let text = |name: &str| resource[name].as_str().unwrap_or_default().to_owned();
            if text("name").contains('/') {
                continue;
            }

            kinds.push(KindEntry {
                group: group.clone(),
                version: version.clone(),
                kind: text("kind"),
                plural: text("name"),
                namespaced: resource["namespaced"] == true,
                custom: false,
                verbs: texts(&resource["verbs"]),
            });
        }
    }

    Ok(kinds)
}

/// Serves `/page/api/kinds`.
pub(super) async fn api(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    // The kinds are read as the user, but the host's own discovery knows when they change.
    let changes = page.manager.context.cluster.discovery.changes();
    let refresh = Refresh::with(INTERVAL, changes);
    let asked = Asked::new(page, session, &headers, None);
    let read = |page: Arc<Page>, session: Session| async move {
        Ok(json!({"kinds": all(&page, &session.api).await?}))
    };
    stream::answer(asked, "kinds", refresh, read).await
}

/// Serves `/page/kinds` as a plain table.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
) -> Result<HtmlResponse<String>, Failure> {
    let kinds = all(&page, &session.api).await?;
    let (custom, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|kind| kind.custom);
    let row = |kind: KindEntry| -> Vec<Cell> {
        let KindEntry {
            group,
            version,
            kind,
            plural,
            namespaced,
            ..
        } = kind;

        let collection = Collection {
            group,
            version,
            plural,
        };
        let scope = if namespaced { "Namespaced" } else { "Cluster" };
        vec![
            Cell::Link {
                text: kind,
                href: collection.page(),
            },
            collection.api_version().into(),
            scope.into(),
        ]
    };

    let columns = ["Kind", "API version", "Scope"];
    let html = Html::default().markup("<h1>Kinds</h1>");
    let html = html.table("Custom", &columns, custom.into_iter().map(row).collect());
    let html = html.table("Built-in", &columns, others.into_iter().map(row).collect());

    Ok(HtmlResponse(shell::document(
        "Kinds",
        Some(&session.user),
        html,
    )))
}

fn selection(collection: &Collection, query: &KindQuery) -> Result<Selection, Failure> {
    let namespace = Some(query.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    Ok(Selection {
        url: collection.url(namespace)?,
        label_selector: query.label_selector.clone(),
    })
}

/// Returns the resource of a collection. None if the API server has no such kind, or doesn't respond:
/// the list then says why.
async fn resource(page: &Page, collection: &Collection) -> Option<Arc<ApiResource>> {
    let discovery = &page.manager.context.cluster.discovery;
    let api_version = collection.api_version();
    let found = discovery
        .resolve_plural(&api_version, &collection.plural)
        .await;
    found.ok().flatten()
}

/// Returns the objects of a collection whose reconciles fail.
async fn failing_of(page: &Page, session: &Session, collection: &Collection) -> Failing {
    match resource(page, collection).await {
        Some(resource) => failing::of_kind(page, session, &resource.kind)
            .await
            .unwrap_or_default(),
        None => Failing::default(),
    }
}

type KindPath = Path<(String, String, String)>;

/// Serves `/page/api/kinds/GROUP/VERSION/PLURAL`: one page as JSON, or all rows and their changes
/// as events.
pub(super) async fn rows(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    Path((group, version, plural)): KindPath,
    Query(query): Query<KindQuery>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let collection = Collection::new(&group, &version, &plural)?;
    let selection = selection(&collection, &query)?;
    if !stream::is_wanted(&headers) {
        let mut table = read_page(&page, &session, &selection, &query.continue_token).await?;
        table.mark(&failing_of(&page, &session, &collection).await);
        let body =
            json!({"columns": table.columns, "rows": table.rows, "continue": table.continue_token});
        return Ok(Json(body).into_response());
    }

    let about = match resource(&page, &collection).await {
        Some(resource) => About {
            kind: resource.kind.kind.clone(),
            namespaced: resource.namespaced,
            reconciled: Some(resource.kind.clone()),
        },
        None => About {
            kind: plural,
            namespaced: true,
            reconciled: None,
        },
    };
    let reader = session.clone();
    let owned = page.clone();
    let produce = |events| TableStream::new(owned, reader, selection, events, about).run();
    Ok(stream::respond(&page, &session, None, produce))
}

/// Serves `/page/kinds/GROUP/VERSION/PLURAL` as a plain table with one page of the list.
pub(super) async fn show_rows(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    Path((group, version, plural)): KindPath,
    Query(query): Query<KindQuery>,
) -> Result<HtmlResponse<String>, Failure> {
    let collection = Collection::new(&group, &version, &plural)?;
    let mut table = read_page(
        &page,
        &session,
        &selection(&collection, &query)?,
        &query.continue_token,
    )
    .await?;
    table.mark(&failing_of(&page, &session, &collection).await);
    let shown: Vec<_> = table
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.priority == 0)
        .collect();

    let columns: Vec<&str> = ["Object", "Health"]
        .into_iter()
        .chain(shown.iter().map(|(_, column)| column.name.as_str()))
        .collect();
    let has_text = |row: &&Row| {
        query.q.is_empty()
            || row
                .cells
                .iter()
                .any(|cell| table::shown(cell).contains(&query.q))
    };

    let line = |row: &Row| -> Vec<Cell> {
        let namespace = Some(row.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let text = namespace.map_or_else(
            || row.name.clone(),
            |namespace| format!("{namespace}/{}", row.name),
        );
        let object = Cell::Link {
            text,
            href: collection.object_page(namespace, &row.name),
        };
        let cells = shown.iter().map(|(at, _)| {
            row.cells
                .get(*at)
                .map(table::shown)
                .unwrap_or_default()
                .into()
        });

        [object, row.health.as_str().into()]
            .into_iter()
            .chain(cells)
            .collect()
    };
    let rows = table.rows.iter().filter(has_text).map(line).collect();
    let title = format!("{plural} ({})", collection.api_version());

    let html = Html::default()
        .markup("<h1>")
        .text(&title)
        .markup("</h1>")
        .table("Objects", &columns, rows);
    let html = match table.continue_token.is_empty() {
        true => html,
        false => {
            let mut next = form_urlencoded::Serializer::new(format!("{}?", collection.page()));
            for (name, value) in [
                ("continue", &table.continue_token),
                ("namespace", &query.namespace),
                ("labelSelector", &query.label_selector),
                ("q", &query.q),
            ] {
                next.append_pair(name, value);
            }

            html.markup("<p>")
                .link(&next.finish(), "Next page")
                .markup("</p>")
        }
    };

    Ok(HtmlResponse(shell::document(
        &title,
        Some(&session.user),
        html,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregated_discovery_gives_each_version() {
        let list = json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "apps"}, "versions": [{"version": "v1",
            "resources": [{"resource": "deployments", "responseKind": {"kind": "Deployment"}, "scope": "Namespaced",
                           "verbs": ["get", "list"], "subresources": [{"subresource": "scale"}]}]}]}]});
        let kinds = of_groups(&list);
        assert_eq!(kinds.len(), 1);

        let kind = &kinds[0];
        assert_eq!(
            (
                kind.group.as_str(),
                kind.version.as_str(),
                kind.kind.as_str()
            ),
            ("apps", "v1", "Deployment")
        );
        assert_eq!(
            (kind.plural.as_str(), kind.namespaced, kind.verbs.len()),
            ("deployments", true, 2)
        );
    }
}

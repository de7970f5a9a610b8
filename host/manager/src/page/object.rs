//! One object: its YAML, its conditions and what is related to it, read with the user's token.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::HeaderMap,
    response::{Html as HtmlResponse, IntoResponse, Response},
};
use operetta_core::{
    object::selector::of_name,
    status::{ApiError, ErrorKind},
};
use operetta_kube::client::user_api::{Read, WatchLines};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    collection::Collection,
    failure::Failure,
    health::{Health, health},
    html::{Cell, Html, path},
    related::{self, Link, Related},
    session::Session,
    shell,
    state::Page,
    stream::{self, Events, Gone, Outage},
    yaml::{redact, yaml},
};
use crate::admin::object_path;

/// The largest object, in bytes. By default, etcd stores at most 1.5 MiB.
const MAX_OBJECT: usize = 8 << 20;
/// How often the related objects are read again.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long changes in quick succession are collected.
const BATCH: Duration = Duration::from_millis(50);
/// How long a watch may be silent.
const PATIENCE: Duration = Duration::from_secs(90);
/// When the API server ends a watch, in seconds, so that the user's permissions are checked again.
const WATCH_SECONDS: &str = "60";

/// An object as the page shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct View {
    yaml: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    summary: Summary,
    conditions: Vec<Value>,
    #[serde(flatten)]
    related: Related,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    kind: String,
    api_version: String,
    uid: String,
    created: String,
    deleting: bool,
    health: Health,
}

/// The names in an object's path.
#[derive(Clone, Debug)]
struct Object {
    collection: Collection,
    namespace: Option<String>,
    name: String,
}

type ObjectPath = Path<(String, String, String, String, String)>;

impl Object {
    fn new(Path((group, version, plural, namespace, name)): ObjectPath) -> Result<Self, Failure> {
        let collection = Collection::new(&group, &version, &plural)?;
        Ok(Self {
            collection,
            namespace: object_path::namespace(&namespace).map(str::to_owned),
            name,
        })
    }

    async fn read(&self, session: &Session) -> Result<Value, Failure> {
        let url = self
            .collection
            .object_url(self.namespace.as_deref(), &self.name)?;
        let read = Read {
            path: &url,
            parameters: &[],
            accept: "application/json",
        };
        let text = session.api.read(read, MAX_OBJECT).await?;
        let decoded = serde_json::from_str(&text);
        let error =
            |error| ApiError::new(ErrorKind::Other, format!("failed to decode {url}: {error}"));
        Ok(decoded.map_err(error)?)
    }

    async fn watch(&self, session: &Session, revision: &str) -> Result<WatchLines, Failure> {
        let url = self.collection.url(self.namespace.as_deref())?;
        let name = of_name(&self.name);
        let parameters = [
            ("watch", "true"),
            ("fieldSelector", name.as_str()),
            ("resourceVersion", revision),
            ("timeoutSeconds", WATCH_SECONDS),
        ];

        Ok(session
            .api
            .watch(Read {
                path: &url,
                parameters: &parameters,
                accept: "application/json",
            })
            .await?)
    }
}

fn view(mut object: Value, related: Related) -> View {
    redact(&mut object);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (yaml, cut) = yaml(&object);
    let conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();

    View {
        yaml,
        cut,
        summary: Summary {
            kind: text(&object["kind"]),
            api_version: text(&object["apiVersion"]),
            uid: text(&object["metadata"]["uid"]),
            created: text(&object["metadata"]["creationTimestamp"]),
            deleting: object["metadata"]["deletionTimestamp"].is_string(),
            health: match related.is_failing {
                true => Health::Bad,
                false => health(&object),
            },
        },
        conditions: conditions
            .filter(|condition| condition["type"].is_string())
            .cloned()
            .collect(),
        related,
    }
}

/// Serves `/page/api/objects/GROUP/VERSION/PLURAL/NAMESPACE/NAME`.
pub(super) async fn api(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    names: ObjectPath,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let object = Object::new(names)?;
    if !stream::is_wanted(&headers) {
        let found = object.read(&session).await?;
        let related = related::read(&page, &session, &found).await;
        return Ok(Json(view(found, related)).into_response());
    }

    let owned = page.clone();
    let reader = session.clone();

    Ok(stream::respond(&page, &session, None, |events| {
        Follower::new(owned, reader, object, events).run()
    }))
}

/// Follows one object.
struct Follower {
    page: Arc<Page>,
    session: Session,
    object: Object,
    events: Events,
    related: Related,
    /// When the related objects were last read.
    related_at: Option<Instant>,
    last: Option<View>,
    outage: Outage,
}

/// Why a wait ended.
enum Change {
    /// The object may have changed.
    Object,
    /// The related objects should be read again.
    Time,
}

impl Follower {
    fn new(page: Arc<Page>, session: Session, object: Object, events: Events) -> Self {
        let related = Related::default();
        Self {
            page,
            session,
            object,
            events,
            related,
            related_at: None,
            last: None,
            outage: Outage::default(),
        }
    }

    async fn run(mut self) -> Result<(), Failure> {
        loop {
            let Err(failure) = self.follow().await else {
                return Ok(());
            };
            let is_outage = failure.status >= 500 || failure.status == 429;
            if is_outage || self.outage.excuses(failure.status) {
                let waited = self.outage.wait(&self.events, &failure.message).await;
                if waited.is_err() {
                    return Ok(());
                }
            } else if failure.status == 404 && self.last.is_some() {
                let _nobody_reads = self.events.send("deleted", &json!({})).await;
                return Ok(());
            } else {
                return Err(failure);
            }
        }
    }

    /// Sends the object again after each change. Returns when the reader is gone.
    async fn follow(&mut self) -> Result<(), Failure> {
        loop {
            let found = self.object.read(&self.session).await?;
            let revision = found["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if self.send(found).await.is_err() {
                return Ok(());
            }

            // A user who may get the object but not watch it sees changes with a delay.
            let lines = match self.object.watch(&self.session, &revision).await {
                Err(failure) if failure.status == 403 => None,
                other => Some(other?),
            };
            self.wait(lines).await?;
        }
    }

    async fn send(&mut self, found: Value) -> Result<(), Gone> {
        self.outage.end(&self.events).await?;
        let is_old = self.related_at.is_none_or(|at| at.elapsed() >= INTERVAL);

        if self.last.is_none() {
            // Don't make the reader wait for the related objects.
            let first = view(found.clone(), Related::default());
            self.events.send("object", &first).await?;
            self.last = Some(first);
        }

        if is_old {
            self.related = related::read(&self.page, &self.session, &found).await;
            self.related_at = Some(Instant::now());
        }
        let view = view(found, self.related.clone());
        if self.last.as_ref() != Some(&view) {
            self.events.send("object", &view).await?;
            self.last = Some(view);
        }
        Ok(())
    }

    /// Waits for a change, or until the related objects should be read again.
    async fn wait(&mut self, lines: Option<WatchLines>) -> Result<(), Failure> {
        let due = self.related_at.unwrap_or_else(Instant::now) + INTERVAL;
        let change = match lines {
            None => Change::Time,
            Some(mut lines) => match timeout_at(due, lines.next(PATIENCE)).await {
                Ok(line) => {
                    line?;
                    Change::Object
                }
                Err(_elapsed) => Change::Time,
            },
        };
        match change {
            Change::Object => sleep(BATCH).await,
            Change::Time => tokio::time::sleep_until(due).await,
        }
        Ok(())
    }
}

/// Serves `/page/objects/GROUP/VERSION/PLURAL/NAMESPACE/NAME` as plain tables.
pub(super) async fn show(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    names: ObjectPath,
) -> Result<HtmlResponse<String>, Failure> {
    let object = Object::new(names)?;
    let found = object.read(&session).await?;
    let related = related::read(&page, &session, &found).await;
    let View {
        yaml,
        cut,
        summary,
        conditions,
        related,
    } = view(found, related);

    let title = format!("{} {}", summary.kind, object.name);
    let field = |condition: &Value, name: &str| -> Cell {
        condition[name].as_str().unwrap_or_default().into()
    };
    let names = ["type", "status", "reason", "message", "lastTransitionTime"];
    let conditions = conditions
        .iter()
        .map(|condition| names.map(|name| field(condition, name)).into())
        .collect();

    let link = |link: Link| -> Vec<Cell> {
        let name = if link.href.is_empty() {
            link.name.into()
        } else {
            Cell::Link {
                text: link.name,
                href: link.href,
            }
        };

        vec![
            link.kind.into(),
            name,
            link.namespace.into(),
            link.health.as_str().into(),
        ]
    };
    let links = |links: Vec<Link>| links.into_iter().map(link).collect();
    let columns = ["Kind", "Name", "Namespace", "Health"];

    let events = related.events.into_iter();
    let events = events.map(|event| -> Vec<Cell> {
        vec![
            event.last.into(),
            event.type_.into(),
            event.reason.into(),
            event.count.into(),
            event.message.into(),
            event.from.into(),
        ]
    });

    let plugins = related.plugins.into_iter().map(|plugin| -> Vec<Cell> {
        let text = format!("{}/{}", plugin.namespace, plugin.name);
        let href = path(&["plugins", &plugin.namespace, &plugin.name]);
        vec![Cell::Link { text, href }, plugin.controller.into()]
    });
    let html = Html::default().markup("<h1>").text(&title).markup("</h1>");
    let html = html.paragraph(if summary.deleting {
        "It is being deleted."
    } else {
        ""
    });
    let html = html.table(
        "Conditions",
        &["Type", "Status", "Reason", "Message", "Since"],
        conditions,
    );
    let html = html.table("Owners", &columns, links(related.owners));
    let html = html.table("Owned objects", &columns, links(related.children));

    let html = html.table(
        "Events",
        &["Last", "Type", "Reason", "Count", "Message", "From"],
        events.collect(),
    );
    let html = html.table("Plugins", &["Plugin", "Controller"], plugins.collect());
    let html = related
        .forbidden
        .iter()
        .fold(html, |html, refused| html.paragraph(refused));
    let html = html
        .markup("<h2>YAML</h2>")
        .paragraph(if cut { "Cut at 256 KiB." } else { "" });

    let html = html.markup("<pre>").text(&yaml).markup("</pre>");
    Ok(HtmlResponse(shell::document(
        &title,
        Some(&session.user),
        html,
    )))
}

//! `operetta watch KIND`: prints the objects of a kind and then each change, as `kubectl get KIND --watch` does, across
//! disconnects.
//!
//! The changes come from an informer. After a gap, such as an outage of the API server, the informer compares its store
//! with a new list, and the command prints the difference: one change for each object. The API server renders the rows
//! of tables (table.rs); rows.rs handles the cases in which it cannot.
//!
//! The command ends without an error when stdout is closed or at a signal. It ends with an error when the API server refuses, at
//! the start or later for longer than [`PATIENCE`]: an API server that has just started refuses allowed requests for a moment.

mod age;
mod pending;
mod print;
mod rows;
mod trouble;

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::jiff::Timestamp;
use operetta_core::{
    handler::event::Event,
    object::ObjectKey,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    authz::probe,
    client::{
        table::{Row, Tables},
        wire::{Identity, Wire},
    },
    discovery::{ApiResource, Discovery},
    informer::{Informer, Scope, registry::InformerRegistry},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};

pub use self::age::human as human_age;
use self::{
    pending::Pending,
    print::{ObjectPrinter, TablePrinter},
    rows::Rows,
};
use super::cluster_client::connect;
use crate::args::{WatchArgs, WatchOutput};

/// The time for which the API server may refuse a watch that it allowed before.
const PATIENCE: Duration = Duration::from_secs(10);
/// The timeout of one request.
const DEADLINE: Duration = Duration::from_secs(30);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// The maximum number of concurrent requests for rows.
const AT_ONCE: usize = 8;
/// The number of objects up to which rows are requested one by one. Beyond it, one list renders all rows, if more than one
/// object in [`SPARSE`] has changed.
const FEW: usize = 16;
const SPARSE: usize = 100;

/// The type of a change: metav1.WatchEvent's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Added,
    Modified,
    Deleted,
}

/// The reason why the watch ends.
enum End {
    /// Stdout is closed or fails.
    Output(io::Error),
    /// The API server refuses.
    Refused(ApiError),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<ApiError> for End {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

/// Prints until stdout is closed, a signal arrives, or the API server refuses.
///
/// # Errors
/// Returns an error if the kind is unknown, an argument is wrong, or the API server refuses.
pub async fn watch(args: WatchArgs) -> Result<()> {
    let mut interrupted = signal(SignalKind::interrupt()).context("failed to handle SIGINT")?;
    let mut terminated = signal(SignalKind::terminate()).context("failed to handle SIGTERM")?;
    // In a task of its own, because a write to stdout may block.
    tokio::spawn(async move {
        tokio::select! { _ = interrupted.recv() => {}, _ = terminated.recv() => {} }
        std::process::exit(0);
    });
    let (source, name) = Source::find(&args).await?;
    let done = match args.output {
        None | Some(WatchOutput::Wide) => tables(&source, &args, name.as_deref()).await,
        Some(output) => objects(&source, &args, output, name.as_deref()).await,
    };
    match done {
        Ok(()) => Ok(()),
        Err(End::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(End::Output(error)) => Err(error).context("failed to write to stdout"),
        Err(End::Refused(error)) => Err(error.into()),
    }
}

/// The objects that are watched.
struct Source {
    wire: Wire,
    resource: Arc<ApiResource>,
    scope: Scope,
    registry: Arc<InformerRegistry>,
}

impl Source {
    /// Resolves the arguments to the objects to watch. Also returns the name, if one object is selected.
    async fn find(args: &WatchArgs) -> Result<(Self, Option<String>)> {
        let (kind, name) = match (args.kind.split_once('/'), &args.name) {
            (Some((kind, name)), None) => (kind, Some(name.to_owned())),
            (Some(_), Some(_)) => bail!("too many names: use KIND NAME or KIND/NAME"),
            (None, name) => (args.kind.as_str(), name.clone()),
        };
        if name.is_some() && (args.all_namespaces || args.selector.is_some() || args.field_selector.is_some()) {
            bail!("an object's name cannot be combined with a selector or --all-namespaces");
        }
        if kind.contains(',') {
            bail!("cannot watch {kind:?}: use one kind");
        }
        let client = connect(&args.cluster).await?;
        let namespace = args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let wire = Wire::new(client, &Identity::Host)?;
        let Some(resource) = Discovery::new(wire.clone()).resolve_name(kind).await? else {
            let resource = kind.split('.').next().unwrap_or(kind);
            bail!("the server doesn't have a resource type {resource:?}");
        };
        if !resource.watchable {
            bail!("cannot watch {}: the server does not support list and watch for it", resource.plural);
        }
        let namespace = Some(namespace).filter(|_| resource.namespaced && !args.all_namespaces);
        for (what, text) in [("namespace", namespace.as_ref()), ("name", name.as_ref())] {
            text.map_or(Ok(()), |text| operetta_core::gate::path::check_segment(what, text))?;
        }
        let fields = name.as_ref().map(|name| format!("metadata.name={name}")).or_else(|| args.field_selector.clone());
        // Rows come from the API server.
        let metadata_only = matches!(args.output, None | Some(WatchOutput::Wide | WatchOutput::Name));
        let labels = args.selector.clone().unwrap_or_default();
        let scope = Scope { namespace, labels, fields: fields.unwrap_or_default(), metadata_only, pruned: vec![] };
        probe::listable(&wire, &resource, &scope, DEADLINE).await?;
        Ok((Self { registry: InformerRegistry::new(wire.clone()), wire, resource, scope }, name))
    }

    /// Returns the informer, after its first list.
    async fn informer(&self) -> Result<Arc<Informer>, End> {
        let informer = self.registry.informer(&self.resource, self.scope.clone());
        tokio::select! {
            () = informer.synced() => {}
            error = trouble::lasting(self, &informer) => return Err(error.into()),
        }
        Ok(informer)
    }

    /// Returns the name that kubectl uses: `deployments.apps`.
    fn name(&self) -> String {
        let group = self.resource.kind.group();
        let dot = if group.is_empty() { "" } else { "." };
        format!("{}{dot}{group}", self.resource.plural)
    }

    fn not_found(&self, name: &str) -> End {
        ApiError::new(ErrorKind::NotFound, format!("{} {name:?} not found", self.name())).into()
    }

    fn gone(&self) -> End {
        let message = format!("the server does not serve {} any more (was its CRD deleted?)", self.name());
        ApiError::new(ErrorKind::NotFound, message).into()
    }
}

/// Prints objects as the informer has them.
async fn objects(source: &Source, args: &WatchArgs, output: WatchOutput, name: Option<&str>) -> Result<(), End> {
    let mut printer = ObjectPrinter::new(output, args.output_watch_events);
    let informer = source.informer().await?;
    let pending = Arc::new(Pending::default());
    let told = pending.clone();
    let _subscription = informer.subscribe(Arc::new(move |event| told.push(event)), None);
    let first = pending.take_now();
    if let (Some(name), true) = (name, first.is_empty()) {
        return Err(source.not_found(name));
    }
    let mut print = |events: Vec<Event>| {
        events.iter().try_for_each(|event| printer.print(Change::of(event), event.object(), &source.resource))
    };
    if !args.watch_only {
        print(first)?;
    }
    let forward = async {
        loop {
            print(pending.take().await)?;
        }
    };
    let refused = tokio::select! {
        end = forward => return end,
        error = trouble::lasting(source, &informer) => error,
    };
    print(pending.take_now())?;
    if refused.kind == ErrorKind::NotFound {
        // The objects are gone with their kind, even without delete events.
        for object in informer.cache.store.list(&operetta_kube::store::Lookup::All, None, None) {
            print(vec![Event::Deleted { object }])?;
        }
        return Err(source.gone());
    }
    Err(refused.into())
}

/// Prints rows as the API server renders them.
async fn tables(source: &Source, args: &WatchArgs, name: Option<&str>) -> Result<(), End> {
    let namespaces = args.all_namespaces && source.resource.namespaced;
    let printer = TablePrinter::new(args.output.is_some(), namespaces, args.output_watch_events);
    let tables = Tables::new(source.wire.clone(), source.resource.clone(), source.scope.clone());
    let mut view = View { tables, rows: Rows::new(&source.resource.kind), columns: Vec::new(), printer };
    // The informer starts before the rows are read: later changes are events, earlier ones are in the rows.
    let informer = source.informer().await?;
    let pending = Arc::new(Pending::default());
    let told = pending.clone();
    let _subscription = informer.subscribe(Arc::new(move |event| told.push(event)), None);
    let shown = view.begin(!args.watch_only).await?;
    if let (Some(name), 0) = (name, shown) {
        return Err(source.not_found(name));
    }
    let forward = async {
        loop {
            view.tell(&pending.take().await).await?;
        }
    };
    let refused = tokio::select! {
        end = forward => match end {
            Err(End::Refused(error)) => error,
            end => return end,
        },
        error = trouble::lasting(source, &informer) => error,
    };
    if refused.kind == ErrorKind::NotFound {
        view.end()?;
        return Err(source.gone());
    }
    Err(refused.into())
}

/// A table to which each change adds rows.
struct View {
    tables: Tables,
    rows: Rows,
    columns: Vec<operetta_kube::client::table::Column>,
    printer: TablePrinter,
}

impl View {
    /// Reads the existing objects and prints them if `print`. Returns their number.
    async fn begin(&mut self, print: bool) -> Result<usize, End> {
        let table = patiently(async || self.tables.all().await).await?;
        self.set_columns(table.columns);
        let now = Timestamp::now();
        let lines: Vec<_> = table.rows.into_iter().map(|row| self.rows.begin(row, now)).collect();
        if print {
            self.printer.print(&self.columns, &lines)?;
        }
        Ok(self.rows.len())
    }

    async fn tell(&mut self, events: &[Event]) -> Result<(), End> {
        let rendered = self.render(self.rows.wanted(events)).await?;
        let now = Timestamp::now();
        let line = |event: &Event| self.rows.tell(event, rendered.get(event.object().key()), now);
        let lines: Vec<_> = events.iter().filter_map(line).collect();
        Ok(self.printer.print(&self.columns, &lines)?)
    }

    /// Returns the rows of the objects that still exist.
    async fn render(&mut self, wanted: Vec<ObjectKey>) -> Result<HashMap<ObjectKey, Row>, End> {
        let tables = &self.tables;
        let found = if wanted.len() > FEW && wanted.len() * SPARSE > self.rows.len() {
            vec![patiently(async || tables.all().await).await?]
        } else {
            let one = |key| async move { patiently(async || tables.one(&key).await).await };
            stream::iter(wanted).map(one).buffered(AT_ONCE).try_collect().await?
        };
        let mut rows = HashMap::new();
        for table in found {
            self.set_columns(table.columns);
            rows.extend(table.rows.into_iter().map(|row| (row.key.clone(), row)));
        }
        Ok(rows)
    }

    /// Prints all objects as deleted.
    fn end(&mut self) -> io::Result<()> {
        let gone = self.rows.end(Timestamp::now());
        self.printer.print(&self.columns, &gone)
    }

    fn set_columns(&mut self, columns: Vec<operetta_kube::client::table::Column>) {
        if !columns.is_empty() {
            self.rows.set_columns(&columns);
            self.columns = columns;
        }
    }
}

impl Change {
    fn of(event: &Event) -> Self {
        match event {
            Event::Added { .. } => Self::Added,
            Event::Modified { .. } => Self::Modified,
            Event::Deleted { .. } => Self::Deleted,
        }
    }
}

/// Retries a request until the API server responds. A refused request is retried only for [`PATIENCE`].
async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, ApiError>) -> Result<T, ApiError> {
    let mut refused: Option<Instant> = None;
    loop {
        let error = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        match error.kind {
            ErrorKind::Unavailable | ErrorKind::TimedOut | ErrorKind::TooManyRequests | ErrorKind::Expired => {
                refused = None;
            }
            _ if refused.get_or_insert_with(Instant::now).elapsed() >= PATIENCE => return Err(error),
            _ => {}
        }
        let pause = error.status.retry_after_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        tokio::time::sleep(pause.unwrap_or(PAUSE).min(PATIENCE)).await;
    }
}

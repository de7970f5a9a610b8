//! `operetta watch KIND`: prints the objects of a kind and then each change, as `kubectl get KIND
//! --watch` does, across disconnects.
//!
//! The changes come from an informer. After a gap, such as an outage of the API server, the
//! informer compares its store with a new list, and the command prints the difference: one change
//! per object. The API server renders the rows of tables (table.rs); rows.rs handles the cases in
//! which it cannot.
//!
//! The command ends without an error when stdout is closed or a signal arrives. It ends with an
//! error if the API server refuses, either at the start or later for longer than [`PATIENCE`]: an
//! API server that has just started refuses allowed requests for a moment.

mod age;
mod pending;
mod print;
pub mod rows;
mod source;
pub mod trouble;
mod view;

use std::{io, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use operetta_core::{
    handler::event::Event,
    object::selector::of_name,
    status::{ApiError, ErrorKind},
};
use operetta_host::cluster::connect;
use tokio::signal::unix::{SignalKind, signal};

use self::print::{ObjectPrinter, TablePrinter};
pub use self::{
    age::human as human_age,
    pending::Pending,
    rows::Line,
    source::{Kept, Selection, Source},
    view::View,
};
use crate::args::{WatchArgs, WatchOutput};

/// How long the API server may refuse a watch that it allowed before.
const PATIENCE: Duration = Duration::from_secs(10);
/// The timeout of one request.
const DEADLINE: Duration = Duration::from_secs(30);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// The type of a change: metav1.WatchEvent's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object is new.
    Added,
    /// The object has changed.
    Modified,
    /// The object is gone.
    Deleted,
}

/// Why the watch ends.
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

    let (selection, name) = selection(&args)?;
    let source = Source::find(connect(&args.cluster).await?, &selection).await?;

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

/// The selected objects, and the name if it is a single object.
fn selection(args: &WatchArgs) -> Result<(Selection, Option<String>)> {
    let (kind, name) = match (args.kind.split_once('/'), &args.name) {
        (Some((kind, name)), None) => (kind, Some(name.to_owned())),
        (Some(_), Some(_)) => bail!("too many names: use KIND NAME or KIND/NAME"),
        (None, name) => (args.kind.as_str(), name.clone()),
    };

    if name.is_some()
        && (args.all_namespaces || args.selector.is_some() || args.field_selector.is_some())
    {
        bail!("an object's name cannot be combined with a selector or --all-namespaces");
    }

    name.as_deref()
        .map_or(Ok(()), operetta_core::gate::path::check_name)?;

    let fields = name
        .as_ref()
        .map(|name| of_name(name))
        .or_else(|| args.field_selector.clone());

    // The API server renders the rows, so their objects need not be kept.
    let is_table = matches!(
        args.output,
        None | Some(WatchOutput::Wide | WatchOutput::Name)
    );

    let selection = Selection {
        kind: kind.to_owned(),
        namespace: args.namespace.clone(),
        all_namespaces: args.all_namespaces,
        labels: args.selector.clone().unwrap_or_default(),
        fields: fields.unwrap_or_default(),
        kept: if is_table {
            Kept::Metadata
        } else {
            Kept::Whole
        },
    };

    Ok((selection, name))
}

/// Prints objects as the informer has them.
async fn objects(
    source: &Source,
    args: &WatchArgs,
    output: WatchOutput,
    name: Option<&str>,
) -> Result<(), End> {
    let mut printer = ObjectPrinter::new(output, args.output_watch_events);

    let informer = trouble::started(source, &trouble::warn).await?;

    let pending = Arc::new(Pending::default());
    let told = pending.clone();
    let _subscription = informer.subscribe(Arc::new(move |event| told.push(event)), None);

    let first = pending.take_now();
    if let (Some(name), true) = (name, first.is_empty()) {
        return Err(source.not_found(name).into());
    }

    let mut print = |events: Vec<Event>| {
        events.iter().try_for_each(|event| {
            printer.print(Change::of(event), event.object(), &source.resource)
        })
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
        error = trouble::lasting(source, &informer, &trouble::warn) => error,
    };

    print(pending.take_now())?;

    if refused.kind == ErrorKind::NotFound {
        // The objects are gone with their kind, even without delete events.
        for object in informer
            .cache
            .store
            .list(&operetta_kube::store::Lookup::All, None, None)
        {
            print(vec![Event::deleted(object)])?;
        }

        return Err(source.gone().into());
    }
    Err(refused.into())
}

/// Prints rows as the API server renders them.
async fn tables(source: &Source, args: &WatchArgs, name: Option<&str>) -> Result<(), End> {
    let namespaces = args.all_namespaces && source.resource.namespaced;
    let mut printer =
        TablePrinter::new(args.output.is_some(), namespaces, args.output_watch_events);

    let mut view = View::new(source);

    // The informer starts before the rows are read: later changes are events, earlier ones are in
    // the rows.
    let informer = trouble::started(source, &trouble::warn).await?;

    let pending = Arc::new(Pending::default());
    let told = pending.clone();
    let _subscription = informer.subscribe(Arc::new(move |event| told.push(event)), None);

    let lines = view.begin().await?;
    if let (Some(name), true) = (name, lines.is_empty()) {
        return Err(source.not_found(name).into());
    }

    if !args.watch_only {
        printer.print(&view.columns, &lines)?;
    }

    let forward = async {
        loop {
            let lines = view.tell(&pending.take().await).await?;
            printer.print(&view.columns, &lines)?;
        }
    };

    let refused = tokio::select! {
        end = forward => match end {
            Err(End::Refused(error)) => error,
            end => return end,
        },
        error = trouble::lasting(source, &informer, &trouble::warn) => error,
    };

    if refused.kind == ErrorKind::NotFound {
        let lines = view.end();
        printer.print(&view.columns, &lines)?;
        return Err(source.gone().into());
    }
    Err(refused.into())
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

//! Prints the objects once, if there is no terminal: as a table or as JSON.

use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::jiff::Timestamp;
use operetta_host::terminal;
use serde_json::{Value, json};
use tokio::sync::{mpsc::channel, watch};

use super::{
    access::Access,
    app::App,
    draw, feed,
    plugins::Plugins,
    scrape,
    table::{Health, Row},
    view::{Target, Update},
};
use crate::{
    args::TopArgs,
    commands::{print as print_text, print_document, tab_writer::TabWriter},
};

/// The time limit, to which the delay between two scrapes is added.
const DEADLINE: Duration = Duration::from_secs(60);

/// Reads the objects, and for Plugins two scrapes of the host, and prints them.
///
/// # Errors
/// Returns an error if the objects cannot be read. Missing metrics are a warning.
pub async fn print(args: &TopArgs, target: &Target) -> Result<()> {
    let mut app = App::new(target.clone());
    match tokio::time::timeout(DEADLINE + args.delay, read(args, &mut app)).await {
        Ok(done) => done?,
        Err(_) => bail!(
            "the API server has not listed {} within {} s",
            target.kind,
            DEADLINE.as_secs()
        ),
    }

    for reason in &app.scraped.missing {
        terminal::note(format_args!("warning: no metrics: {reason}"));
    }

    let now = Timestamp::now().as_second();
    app.table.arrange();

    if args.output.is_some() {
        return print_document(&(serde_json::to_string_pretty(&document(&app))? + "\n"));
    }

    let lines = draw::cells(&mut app.table, now);
    if lines.len() == 1 {
        let namespace = app.opened.and_then(|opened| opened.namespace);
        let scope = namespace.map_or_else(String::new, |namespace| {
            format!(" in {namespace} namespace")
        });

        eprintln!("No resources found{scope}.");
        return Ok(());
    }

    print_text(&TabWriter::default().lines(&lines))
}

/// Applies updates until everything is known.
async fn read(args: &TopArgs, app: &mut App) -> Result<()> {
    let target = app.target.clone();

    let (out, mut updates) = channel(64);
    let (problem, _) = feed::problem();
    let (replicas, known) = watch::channel(None);
    let access = Access::new(&args.cluster, &args.host, &target);

    let mut watching = std::pin::pin!(feed::view(&args.cluster, &target, &out, &problem));
    let mut scraping = std::pin::pin!(scrape::follow(&access, known, args.delay, &out));
    let mut rounds = 0;

    loop {
        let update = tokio::select! {
            Err(error) = &mut watching => return Err(feed::coded(error)),
            () = &mut scraping => bail!("the scrapes have ended"),
            update = updates.recv() => update,
        };

        let Some(update) = update else { continue };
        rounds += usize::from(matches!(update, Update::Scrapes { .. }));
        app.apply(update);

        let Some(plugins) = &app.plugins else {
            if app.is_loaded() {
                return Ok(());
            }
            continue;
        };

        let is_done = rounds >= 2 || (rounds == 1 && app.scraped.replicas.is_empty());
        if is_done || (app.is_loaded() && app.table.rows().is_empty()) {
            return Ok(());
        }

        if app.is_loaded() {
            replicas.send_replace(Some(plugins.replicas()));
        }
    }
}

/// The objects, for programs.
fn document(app: &App) -> Value {
    let rows = app.table.shown().map(|row| match &app.plugins {
        Some(plugins) => plugin(plugins, row),
        None => object(app, row),
    });
    rows.collect()
}

fn plugin(plugins: &Plugins, row: &Row) -> Value {
    let status = plugins
        .get(&row.key)
        .map(|plugin| plugin.status.clone())
        .unwrap_or_default();

    let activity = plugins.activity(&row.key, &status);
    let rates = activity.rates.as_ref();

    json!({
        "namespace": row.key.namespace,
        "name": row.key.name,
        "state": state(row.health),
        "reason": status.reason.as_deref().map(terminal::line),
        "message": status.message.as_deref().map(terminal::line),
        "cpuPercent": rates.map(|rates| rates.cpu * 100.0),
        "reconcilesPerSecond": rates.map(|rates| rates.reconciles),
        "errorsPerSecond": rates.map(|rates| rates.errors),
        "p50Seconds": rates.and_then(|rates| rates.quantile(0.5)),
        "p99Seconds": rates.and_then(|rates| rates.quantile(0.99)),
        "queue": activity.queue.round() as i64,
        "peakMemoryBytes": activity.memory.round() as i64,
        "cachedBytes": activity.cached.round() as i64,
    })
}

fn object(app: &App, row: &Row) -> Value {
    let now = Timestamp::now().as_second();
    let cells = app.table.columns.iter().zip(&row.cells);

    let cells = cells.map(|(column, cell)| {
        (
            column.title.clone(),
            Value::from(cell.shown(now).into_owned()),
        )
    });
    let cells: serde_json::Map<String, Value> = cells.collect();

    let Row { key, health, .. } = row;
    json!({"namespace": key.namespace, "name": key.name, "state": state(*health), "cells": cells})
}

fn state(health: Health) -> &'static str {
    match health {
        Health::Ready => "Ready",
        Health::Degraded => "Degraded",
        Health::NotReady => "NotReady",
        Health::Unknown => "Unknown",
    }
}

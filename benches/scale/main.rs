//! `make bench-scale`: a host with many objects, many plugins and many keys a second, and a model
//! that is checked against it.
//!
//! The model's constants are the lines through two small cells of each kind: a twentieth and a
//! tenth of the objects that are asked for, one and three tenths of the Plugins, and three and six
//! tenths of the rate (`scale.constant.*`; those with `_fixed` are the line's value at zero, those
//! with `_pair` what each pair of Plugins adds to the times of a start). The full cells, and at
//! last a host with all of it at once, are compared with the model: `scale.model.*` and
//! `scale.measured.*` are both values, `scale.error.*` is the model's error in percent of the
//! measured value.
//!
//! - `scale.objects.N.*`: N ConfigMaps of about 1 KB exist before one plugin is created that
//!   watches them and does nothing. `synced` and `reconciled` are the times from its creation until
//!   the cache has all objects, and until each was reconciled once; `cpu` the host's processor time
//!   until then for each 1,000 objects; `rss`, `anonymous` and `peak` (VmHWM) its memory;
//!   `anonymous_idle` and `cpu_idle` (percent of a core) those of a window in which nothing
//!   happens; `cached` is what the host counts for an object, `base_*` its memory without plugins,
//!   `server_rss` the memory of the API server.
//! - `scale.plugins.P.*`: P Plugins of one digest, ten in each namespace, exist before the host
//!   starts. Each reconciles the one object of its namespace. `ready` is the time from the start
//!   until the status of each says so; the others are as above.
//! - `scale.rate.R.*`: a plugin requeues its objects after one to two seconds, without requests to
//!   the API server; R keys a second in all. `achieved` is the rate, `cpu_total` the host's
//!   processor time, `queue_mean` the time from when a key is due until a worker takes it,
//!   `queue_p50` and `queue_p99` the same, interpolated in the histogram's buckets, which are
//!   decades; `queue_within_*` the share in the buckets up to there; `scrape` and `scrape_size`
//!   what a scrape of /metrics takes.
//! - `scale.all.*`: all of it in one host.
//!
//! The API server is the embedded one, in a process of its own, because a real one with etcd takes
//! 5.6 GB for 200,000 objects; `SERVER=real` takes a real one. `OBJECTS=1000000`, `PLUGINS=10000`
//! and `RATE=1000` are the sizes, `SECONDS=30` is the length of a window,
//! `ONLY=objects,plugins,rate,all` chooses cells. The bench stops when host, server and this
//! program take more than `LIMIT_GIB=10` together.

mod fill;
mod model;
mod stage;

use std::{path::Path, process::Command};

use model::Model;
use operetta_testkit::{
    bench::{Report, Row, Samples, is_chosen, number, only_starts},
    serve_embedded,
};
use stage::Stage;
use tokio::signal::unix::{SignalKind, signal};

/// The argument with which this program is an API server.
const SERVE: &str = "serve-embedded";

/// The sizes that are asked for.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    objects: usize,
    plugins: usize,
    rate: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    if only_starts() {
        return Ok(());
    }
    if let [_, command, folder] = &arguments[..]
        && command == SERVE
    {
        return serve_embedded(Path::new(folder)).map_err(anyhow::Error::msg);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate())?;
        // The dropped future ends its processes.
        tokio::select! {
            measured = measure() => measured,
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
            _ = terminated.recv() => anyhow::bail!("terminated"),
        }
    })
}

/// Returns the command that runs the embedded API server.
fn embedded() -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SERVE);
    Ok(command)
}

async fn measure() -> anyhow::Result<()> {
    let sizes = Sizes {
        objects: number("OBJECTS", 1_000_000),
        plugins: number("PLUGINS", 10_000),
        rate: number("RATE", 1000),
    };
    let mut report = Report::new("scale");
    let mut model = Model::default();
    // Each cell of plugins has a server of its own: in an old one they have a status already.
    for (size, is_small) in [
        (sizes.plugins / 10, true),
        (sizes.plugins * 3 / 10, true),
        (sizes.plugins, false),
    ] {
        if is_measured("plugins", is_small) {
            let stage = Stage::start()?;
            fill::plugins(&stage, size).await?;
            let cell = stage.plugins(size).await?;
            cell.report(&mut report);
            model.plugins(&cell, is_small);
        }
    }
    let stage = Stage::start()?;
    for (size, is_small, set) in [
        (sizes.objects / 20, true, "few"),
        (sizes.objects / 10, true, "some"),
        (sizes.objects, false, "large"),
    ] {
        if is_chosen("objects") || is_chosen("all") {
            fill::objects(&stage, set, size).await?;
        }
        if is_measured("objects", is_small) {
            let cell = stage.objects(set, size).await?;
            cell.report(&mut report);
            model.objects(&cell, is_small);
        }
    }
    for (size, is_small, set) in [
        (sizes.rate * 3 / 10, true, "slow"),
        (sizes.rate * 6 / 10, true, "moderate"),
        (sizes.rate, false, "fast"),
    ] {
        if is_chosen("rate") || is_chosen("all") {
            fill::polled(&stage, set, size).await?;
        }
        if is_measured("rate", is_small) {
            let cell = stage.rate(set, size).await?;
            cell.report(&mut report);
            model.rate(&cell, is_small);
        }
    }
    if is_chosen("all") {
        fill::plugins(&stage, sizes.plugins).await?;
        let cell = stage.all(&sizes).await?;
        cell.report(&mut report);
        model.all(&cell);
    }
    model.report(&mut report);
    report.finish()?;
    Ok(())
}

/// Reports whether a cell is measured: a small one gives the constants also for the host with
/// everything.
fn is_measured(cells: &str, is_small: bool) -> bool {
    is_chosen(cells) || (is_small && is_chosen("all"))
}

/// Adds a metric of one value.
fn row(report: &mut Report, name: String, unit: &str, value: f64) {
    println!("{name} {value:.4} {unit}");
    report.row(Row::new(name, unit, Samples::new(vec![value])));
}

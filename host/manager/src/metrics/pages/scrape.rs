//! Reads the pages of all processes that have one, when the host's own metrics are read.

use std::time::Duration;

use futures::{StreamExt, stream};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, USER_AGENT},
};
use operetta_core::{gate::bytes::Bytes, object::ObjectKey, ports::LogLevel};
use tokio::time::{Instant, timeout, timeout_at};

use super::{merge::Page, read};
use crate::{
    plugin::{
        hosted_plugins::HostedPlugins,
        process::{
            Served,
            dial::{self, Get},
        },
    },
    tenancy::tenants::Tenants,
};

/// How long a process has to answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long all of them have together. Prometheus waits for ten seconds by default.
const TOTAL: Duration = Duration::from_secs(6);
/// How many are asked at once.
const AT_ONCE: usize = 16;
/// The largest page, in bytes.
const MAX_PAGE: usize = 2 << 20;
/// What a byte of a page takes until the host's own page is written: the text, the families, and
/// the text again.
const BYTES_PER_BYTE: u64 = 6;

const FORMAT: &str = "text/plain;version=0.0.4";

/// What processes serve now.
#[derive(Default)]
pub struct Scrape {
    /// The pages that were read.
    pub pages: Vec<Page>,
    /// Each process that should have one, and whether it had.
    pub up: Vec<(ObjectKey, bool)>,
    /// The charges for the pages, to be kept as long as they are.
    pub charges: Vec<Bytes>,
}

/// Reads the pages of the processes. A page that is slow, too large or invalid is left out, and the
/// Plugin's log says why, once until the reason changes.
pub async fn scrape(hosted_plugins: &HostedPlugins, tenants: &Tenants) -> Scrape {
    let end = Instant::now() + TOTAL;
    let mut served = Vec::new();
    for (key, hosted) in hosted_plugins.all() {
        // A Plugin whose setup holds the lock for long is left out.
        let state = timeout_at(end.min(Instant::now() + TIMEOUT / 4), hosted.state.lock());
        let Ok(state) = state.await else { continue };
        let of_shards = state.running.iter().flat_map(|running| running.iter());
        served.extend(of_shards.filter_map(|shard| Some((key.clone(), shard.served()?))));
    }

    let read = stream::iter(served).map(|(plugin, served)| async move {
        let namespace = plugin.namespace.as_deref().unwrap_or_default();
        let charge = tenants.memory(namespace).open();
        let page = timeout_at(end, timeout(TIMEOUT, page(&served, charge))).await;
        let page = match page {
            Ok(Ok(page)) => page,
            Ok(Err(_)) | Err(_) => Err("no answer in time".to_owned()),
        };
        note(&served, page.as_ref().err());
        (plugin, page)
    });
    let read: Vec<_> = read.buffer_unordered(AT_ONCE).collect().await;

    let mut scrape = Scrape::default();
    for (plugin, page) in read {
        scrape.up.push((plugin.clone(), page.is_ok()));
        if let Ok((families, charge)) = page {
            scrape.pages.push(Page { plugin, families });
            scrape.charges.push(charge);
        }
    }

    // Pages come in any order; the host's own has always the same.
    scrape.up.sort_unstable();
    scrape
        .pages
        .sort_unstable_by(|one, other| one.plugin.cmp(&other.plugin));
    scrape
}

type Families =
    Vec<prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::MetricFamily>;

async fn page(served: &Served, mut charge: Bytes) -> Result<(Families, Bytes), String> {
    let Served {
        process,
        metrics,
        port,
        ..
    } = served;
    let headers = [
        (ACCEPT, HeaderValue::from_static(FORMAT)),
        (USER_AGENT, HeaderValue::from_static("operetta")),
    ];
    let get = Get {
        port: *port,
        scheme: metrics.scheme.unwrap_or_default(),
        path: metrics.path.as_deref().unwrap_or("/metrics"),
        headers: HeaderMap::from_iter(headers),
        max_bytes: MAX_PAGE,
    };

    let dial = |port| dial::connect(process, port);
    let answer = dial::get(&dial, &get).await;
    let answer = answer.map_err(|error| error.to_string())?;

    if answer.status != StatusCode::OK {
        return Err(format!("status {}", answer.status.as_u16()));
    }
    if !answer.is_whole {
        return Err(format!("it has more than {MAX_PAGE} bytes"));
    }

    let bytes = answer.body.len() as u64 * BYTES_PER_BYTE;
    charge.take(bytes).map_err(|error| error.to_string())?;
    let text = str::from_utf8(&answer.body).map_err(|_| "it is no UTF-8".to_owned())?;
    let families = read(text).map_err(|error| error.to_string())?;
    Ok((families, charge))
}

/// Logs why a page was left out, unless it was for the same reason before.
fn note(served: &Served, error: Option<&String>) {
    let mut before = served.last_error.lock();
    if before.as_ref() != error {
        if let Some(error) = error {
            let line = format!("its metrics are left out of the host's: {error}");
            served.log.write_host_line(LogLevel::Warn, line);
        }
        *before = error.cloned();
    }
}

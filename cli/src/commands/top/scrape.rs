//! Scrapes the metrics of the replicas of the host that run the Plugins of a view.
//!
//! The request takes the way of `operetta logs`: through the API server with the user's token or,
//! for a host outside the cluster, to the address in the Plugins' status without a token. Tenants
//! may write that status, so a scrape counts only for the Plugins that name its replica.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use futures::future::join_all;
use operetta_api::reasons;
use operetta_host::describe_with_code;
use tokio::sync::{mpsc::Sender, watch};

use super::{
    access::Access,
    metrics::{self, Scrape},
    plugins::Replica,
    view::Update,
};
use crate::{args::values, commands::host_client};

/// The timeout of one scrape.
const DEADLINE: Duration = Duration::from_secs(5);
/// The maximum number of replicas that are scraped.
const MAX_REPLICAS: usize = 64;

/// Scrapes every `delay` until the receiver is gone, while the replicas are known.
pub async fn follow(
    access: &Access<'_>,
    mut replicas: watch::Receiver<Option<Vec<Replica>>>,
    delay: Duration,
    out: &Sender<Update>,
) {
    let mut ticks = tokio::time::interval(delay);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);

    loop {
        ticks.tick().await;
        let found = replicas
            .wait_for(Option::is_some)
            .await
            .map(|found| found.clone());

        let Ok(Some(found)) = found else { return };

        let round = round(access, &found).await;

        if out
            .send(Update::Scrapes {
                at: Instant::now(),
                round,
            })
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Scrapes each replica once.
async fn round(access: &Access<'_>, replicas: &[Replica]) -> Vec<(String, Result<Scrape, String>)> {
    if let Some(address) = &access.host().host {
        return vec![scraped(&address.to_string(), scrape(access, None)).await];
    }

    if replicas.is_empty() {
        return vec![scraped("", scrape(access, None)).await];
    }

    let one = async |replica: &Replica| {
        let name = if replica.identity.is_empty() {
            replica.address.as_deref().unwrap_or_default()
        } else {
            &replica.identity
        };
        scraped(name, scrape(access, Some(replica))).await
    };

    join_all(replicas.iter().take(MAX_REPLICAS).map(one)).await
}

async fn scraped(
    name: &str,
    scrape: impl Future<Output = Result<Scrape>>,
) -> (String, Result<Scrape, String>) {
    let found = match tokio::time::timeout(DEADLINE, scrape).await {
        Ok(found) => found,
        Err(_) => Err(anyhow!(
            "no response of the host {name} within {} s",
            DEADLINE.as_secs()
        )),
    };

    (
        name.to_owned(),
        found.map_err(|error| describe_with_code(&error)),
    )
}

/// Scrapes a replica, or the one that the Service or the arguments select.
async fn scrape(access: &Access<'_>, replica: Option<&Replica>) -> Result<Scrape> {
    let identity = replica
        .map(|replica| replica.identity.as_str())
        .filter(|identity| values::replica(identity).is_ok());

    let path = identity.map_or_else(
        || "/metrics".to_owned(),
        |identity| format!("/metrics?replica={identity}"),
    );

    let outside = async || {
        let address = replica.and_then(|replica| replica.address.as_deref());
        let Some(address) = address else {
            let message = "no Plugin here is assigned to a host: check that `operetta run` is running, or use --host-namespace or --host";
            return Err(reasons::HOST_UNKNOWN.error(message).into());
        };

        address
            .parse()
            .map_err(|error| anyhow!("status.host is not an address ({address:?}): {error}"))
    };

    let (client, namespace) = access.client().await?;
    let host = access.host_with_token(&client, &namespace).await?;

    let response = host_client::get(&client, &host, &namespace, &path, outside)
        .await?
        .checked()
        .await?;

    let text = response.whole().await?;
    let mut scrape = metrics::read(&String::from_utf8_lossy(&text));

    if let Some(Replica { plugins, .. }) = replica {
        let plugins: BTreeSet<_> = plugins.iter().collect();
        scrape.retain(|key, _| plugins.contains(key));
    }

    Ok(scrape)
}

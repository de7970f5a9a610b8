//! The endpoint /metrics: counters, and samples taken at each scrape, in the scraper's preferred
//! format.

use std::sync::{Arc, atomic::Ordering};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header::ACCEPT},
    response::{IntoResponse, Response},
};

use super::Admin;
use crate::{
    crash_journal::Entry,
    manager::Manager,
    metrics::{
        pages::scrape::{Scrape, scrape as scrape_processes},
        plugins, process, quotas, recorder,
        samples::{Labels, Samples},
        traces,
    },
    replicas::Standing,
};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

pub(super) async fn scrape(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    let Manager {
        context,
        hosted_plugins,
        ..
    } = &*admin.manager;
    let mut samples = Samples::default();
    plugins::sample(hosted_plugins, &admin.manager.controllers(), &mut samples).await;
    quotas::sample(&context.tenants, &mut samples);
    plugins::sample_code(context.engine.mapped(), &mut samples);
    admin
        .informer_metrics
        .sample(&context.cluster.registry.running(), &mut samples);
    process::sample(&mut samples);
    recorder::sample(context.recorder.counts(), &mut samples);

    traces::sample(
        admin.manager.traces.as_ref().map(|traces| traces.counts()),
        &mut samples,
    );
    sample_host(&admin, &mut samples);

    let Scrape {
        pages,
        up,
        charges: _charges,
    } = scrape_processes(hosted_plugins, &context.tenants).await;
    let help = "1 if the metrics of a process could be read, otherwise 0";
    let up = up
        .into_iter()
        .map(|(plugin, is_up)| (plugins::plugin_labels(&plugin), u64::from(is_up)));
    samples.gauge("operetta_process_metrics_up", help, up);

    let accepted: Vec<_> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let encoded = if prefers_protobuf(&accepted.join(",")) {
        let bytes = context
            .metrics
            .encode_protobuf(samples, pages)
            .map_err(|error| error.to_string());
        bytes.map(|bytes| ([("content-type", PROTOBUF)], bytes).into_response())
    } else {
        let text = context
            .metrics
            .encode(samples, pages)
            .map_err(|error| error.to_string());
        text.map(|text| ([("content-type", OPEN_METRICS)], text).into_response())
    };
    encoded.unwrap_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, error).into_response())
}

/// Reports whether a scraper prefers Protobuf to the text format: it has the higher quality in the
/// header Accept, or the same and comes first.
fn prefers_protobuf(accept: &str) -> bool {
    let mut best = (0.0, false);
    for range in accept.split(',') {
        let parts: Vec<String> = range
            .split(';')
            .map(|part| part.trim().to_ascii_lowercase())
            .collect();
        let has = |part: &str| parts.iter().any(|found| found == part);
        let is_protobuf = match parts.first().map(String::as_str) {
            Some("application/vnd.google.protobuf") => {
                has("proto=io.prometheus.client.metricfamily") && has("encoding=delimited")
            }
            Some("application/openmetrics-text" | "text/plain" | "text/*" | "*/*") => false,
            _ => continue,
        };

        let quality = parts
            .iter()
            .find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok())
            .unwrap_or(1.0);
        if quality > best.0 {
            best = (quality, is_protobuf);
        }
    }
    best.1
}

/// Adds samples of the Lease, the certificate, Events and crashes.
fn sample_host(admin: &Admin, samples: &mut Samples) {
    let Manager {
        context, replicas, ..
    } = &*admin.manager;
    let is_member = replicas.state().borrow().standing == Standing::Member && replicas.is_current();
    let labels = vec![("name", replicas.group_key().name)];
    let help = "1 if this replica is a member of the group of the Lease of this name, and so runs Plugins, otherwise 0";

    samples.gauge(
        "leader_election_master_status",
        help,
        [(labels, u64::from(is_member))],
    );
    let confinement = &context.config.confinement;
    let by = [
        ("landlock", confinement.landlock),
        ("seccomp", confinement.seccomp),
    ];
    let by = by.map(|(name, holds)| (vec![("by", name.to_owned())], u64::from(holds)));
    let help = "1 if this mechanism of the kernel confines the host's own process, otherwise 0";
    samples.gauge("operetta_host_confined", help, by);
    if let Some(reads) = &admin.certificate_reads {
        let total = reads.total.load(Ordering::Relaxed);
        let errors = reads.errors.load(Ordering::Relaxed);
        let help = "Number of reads of the certificate of the secure endpoints";
        samples.counter(
            "certwatcher_read_certificate",
            help,
            [(Labels::new(), total)],
        );

        let help = "Number of failed reads of the certificate of the secure endpoints";
        samples.counter(
            "certwatcher_read_certificate_errors",
            help,
            [(Labels::new(), errors)],
        );
    }

    if let Some(forwarder) = &admin.forwarder {
        let open = u64::try_from(forwarder.streams.count()).unwrap_or(u64::MAX);
        let help = "Number of responses to users that are being read from the secure endpoints";
        samples.gauge("operetta_user_streams", help, [(Labels::new(), open)]);

        let forwarded = forwarder.forwarded.load(Ordering::Relaxed);
        let help =
            "Number of requests of users that were forwarded to the replica that runs the Plugin";
        samples.counter(
            "operetta_user_requests_forwarded",
            help,
            [(Labels::new(), forwarded)],
        );
    }

    let dropped = context.cluster.recorder.dropped.load(Ordering::Relaxed);
    let help = "Number of Events of the host dropped because the queue was full";
    samples.gauge("operetta_events_dropped", help, [(Labels::new(), dropped)]);

    let help = "Number of consecutive crashes of the host during this step for this plugin; 2 quarantine it";
    let deaths = admin
        .manager
        .suspects()
        .into_iter()
        .map(|Entry { work, deaths, .. }| {
            let step = work.step.as_str().to_owned();
            (
                vec![
                    ("plugin", work.name),
                    ("namespace", work.namespace),
                    ("step", step),
                ],
                u64::from(deaths),
            )
        });
    samples.gauge("operetta_plugin_crashes", help, deaths);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scraper_with_native_histograms_gets_protobuf() {
        // As Prometheus 3 sends them, with and without `scrape_native_histograms`.
        const NATIVE: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                              application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,\
                              */*;q=0.1";
        const TEXT: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,\
                            */*;q=0.2";

        for (accept, expected) in [
            (NATIVE, true),
            (TEXT, false),
            ("", false),
            ("*/*", false),
            (
                "text/plain, application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
                false,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
                false,
            ),
            (
                "application/vnd.google.protobuf;proto=other.Type;encoding=delimited",
                false,
            ),
        ] {
            assert_eq!(prefers_protobuf(accept), expected, "{accept}");
        }
    }
}

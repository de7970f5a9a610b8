//! The endpoint /metrics: the counts so far, and samples that are taken at each scrape.

use std::sync::{Arc, atomic::Ordering};

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};

use super::Admin;
use crate::{
    crash_journal::Entry,
    manager::Manager,
    metrics::{
        plugins, process, quotas,
        samples::{Labels, Samples},
    },
    replicas::Standing,
};

/// The media type of /metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Responds to a scrape.
pub(super) async fn scrape(State(admin): State<Arc<Admin>>) -> Response {
    let Manager { context, hosted_plugins, .. } = &*admin.manager;
    let mut samples = Samples::default();
    plugins::sample(hosted_plugins, &admin.manager.controllers(), &mut samples).await;
    quotas::sample(&context.tenants, &mut samples);
    plugins::sample_code(context.engine.mapped(), &mut samples);
    admin.informer_metrics.sample(&context.cluster.registry.running(), &mut samples);
    process::sample(&mut samples);
    sample_host(&admin, &mut samples);
    match context.metrics.encode(samples) {
        Ok(text) => ([("content-type", OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Adds samples of the Lease, the certificate, Events and crashes.
fn sample_host(admin: &Admin, samples: &mut Samples) {
    let Manager { context, replicas, .. } = &*admin.manager;
    let is_member = replicas.state().borrow().standing == Standing::Member && replicas.is_current();
    let labels = vec![("name", replicas.group_key().name)];
    let help = "1 if this replica is a member of the group of the Lease of this name, and so runs Plugins, otherwise 0";
    samples.gauge("leader_election_master_status", help, [(labels, u64::from(is_member))]);
    if let Some(reads) = &admin.certificate_reads {
        let total = reads.total.load(Ordering::Relaxed);
        let errors = reads.errors.load(Ordering::Relaxed);
        let help = "Number of reads of the certificate of the secure endpoints";
        samples.counter("certwatcher_read_certificate", help, [(Labels::new(), total)]);
        let help = "Number of failed reads of the certificate of the secure endpoints";
        samples.counter("certwatcher_read_certificate_errors", help, [(Labels::new(), errors)]);
    }
    if let Some(forwarder) = &admin.forwarder {
        let open = u64::try_from(forwarder.streams.count()).unwrap_or(u64::MAX);
        let help = "Number of responses to users that are being read from the secure endpoints";
        samples.gauge("operetta_user_streams", help, [(Labels::new(), open)]);
        let forwarded = forwarder.forwarded.load(Ordering::Relaxed);
        let help = "Number of requests of users that were forwarded to the replica that runs the Plugin";
        samples.counter("operetta_user_requests_forwarded", help, [(Labels::new(), forwarded)]);
    }
    let dropped = context.cluster.recorder.dropped.load(Ordering::Relaxed);
    let help = "Number of Events of the host dropped because the queue was full";
    samples.gauge("operetta_events_dropped", help, [(Labels::new(), dropped)]);
    let help = "Number of consecutive crashes of the host during this step for this plugin; 2 quarantine it";
    let deaths = admin.manager.suspects().into_iter().map(|Entry { work, deaths, .. }| {
        let step = work.step.as_str().to_owned();
        (vec![("plugin", work.name), ("namespace", work.namespace), ("step", step)], u64::from(deaths))
    });
    samples.gauge("operetta_plugin_crashes", help, deaths);
}

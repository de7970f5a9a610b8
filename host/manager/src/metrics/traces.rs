//! Samples of the export of traces.

use std::sync::atomic::Ordering;

use crate::{
    metrics::samples::{Labels, Samples},
    traces::SpanCounts,
};

/// Adds the counts of spans, or zeros if nothing is traced.
pub fn sample(counts: Option<&SpanCounts>, samples: &mut Samples) {
    let none = SpanCounts::default();
    let counts = counts.unwrap_or(&none);
    let exported = counts.exported.load(Ordering::Relaxed);
    samples.counter(
        "operetta_spans_exported",
        "Number of exported spans",
        [(Labels::new(), exported)],
    );

    let by_reason = [
        ("queue_full", &counts.queue_full),
        ("export_failed", &counts.export_failed),
    ];
    let dropped = by_reason.map(|(reason, count)| {
        (
            vec![("reason", reason.to_owned())],
            count.load(Ordering::Relaxed),
        )
    });
    samples.counter(
        "operetta_spans_dropped",
        "Number of spans dropped before their export, by reason",
        dropped,
    );
}

//! Samples of the flight recorder.

use operetta_core::recorder::Counts;

use crate::metrics::samples::{Labels, Samples};

/// Adds the recorder's counts.
pub fn sample(counts: Counts, samples: &mut Samples) {
    let Counts {
        records,
        bytes,
        lost,
    } = counts;
    let one = |value: u64| [(Labels::new(), value)];
    let help = "Number of records in the flight recorder";
    samples.gauge(
        "operetta_flight_recorder_records",
        help,
        one(records as u64),
    );

    let help = "Memory of the records in the flight recorder in bytes";
    samples.gauge("operetta_flight_recorder_bytes", help, one(bytes as u64));
    let help = "Number of records dropped before the end of the window because the flight recorder was full";
    samples.counter("operetta_flight_recorder_lost", help, one(lost));
}

//! The host's own log: for people on a terminal, JSON otherwise. `RUST_LOG` filters, as usual. By
//! default it has every line that a plugin's level lets through.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

/// Starts the log, on stderr.
pub fn start() {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("info,kube_runtime=error,plugin=trace"));
    let registry = tracing_subscriber::registry().with(filter);
    if stderr().is_terminal() {
        registry
            .with(
                tracing_subscriber::fmt::layer()
                    .with_writer(stderr)
                    .with_target(false),
            )
            .init();
    } else {
        registry
            .with(
                tracing_subscriber::fmt::layer()
                    .json()
                    .with_writer(stderr)
                    .flatten_event(true),
            )
            .init();
    }
}

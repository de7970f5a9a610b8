//! Metrics of requests to the API server, under client-go's names.

use std::time::Duration;

use http::{Method, StatusCode};
use operetta_kube::client::observed::RequestObserver;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use super::controllers::histogram;

/// Counts requests. The labels are bounded: methods, status codes and one host.
pub struct RestClientMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    /// The status, or `<error>` if there was no response, as in client-go.
    code: String,
    method: &'static str,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    verb: &'static str,
    host: String,
}

impl RestClientMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let durations = Family::new_with_constructor(histogram as fn() -> Histogram);
        let metrics = Self {
            requests: Family::default(),
            durations,
        };
        let help = "Number of requests to the API server by status, method and host";
        registry.register("rest_client_requests", help, metrics.requests.clone());

        let help =
            "Time from a request to the API server to the headers of its response, in seconds";
        registry.register(
            "rest_client_request_duration_seconds",
            help,
            metrics.durations.clone(),
        );

        metrics
    }
}

impl RequestObserver for RestClientMetrics {
    fn responded(&self, host: &str, method: &Method, status: Option<StatusCode>, took: Duration) {
        let verb = name(method);
        let code = status.map_or_else(|| "<error>".to_owned(), |status| status.as_str().to_owned());
        self.requests
            .get_or_create(&RequestLabels {
                code,
                method: verb,
                host: host.to_owned(),
            })
            .inc();

        let labels = DurationLabels {
            verb,
            host: host.to_owned(),
        };
        self.durations
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }
}

/// Returns the method's name. Plugins can't invent methods, but the label must stay bounded no
/// matter who calls this.
fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}

//! A receiver of OTLP over HTTP, which keeps what it receives.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    routing::post,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind},
};
use parking_lot::Mutex;
use prost::Message;
use tokio::runtime::Builder;

/// A receiver of traces on a free loopback port. It runs until the process ends.
pub struct Collector {
    address: SocketAddr,
    received: Arc<Received>,
}

/// The requests of a [`Collector`].
#[derive(Default)]
struct Received {
    /// The bodies, as they came.
    bodies: Mutex<Vec<Bytes>>,
    /// The headers of the last request.
    headers: Mutex<HeaderMap>,
    /// True if requests are refused with 503.
    is_down: AtomicBool,
}

/// A span that a [`Collector`] has received.
#[derive(Clone, Debug)]
pub struct ReceivedSpan {
    /// The span.
    pub span: Span,
    /// The attributes of the resource that sent it.
    pub resource: Vec<KeyValue>,
}

impl Collector {
    /// Starts a receiver.
    ///
    /// # Panics
    /// Panics if it cannot be served.
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        listener.set_nonblocking(true).expect("non-blocking");

        let received = Arc::new(Received::default());
        let routes = Router::new()
            .route("/v1/traces", post(receive))
            .with_state(received.clone());

        // The server has its own thread, because a test's runtime ends with the test.
        thread::spawn(move || {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                axum::serve(listener, routes).await.expect("served");
            });
        });

        Self { address, received }
    }

    /// Returns the base URL, as `traces.endpoint` of a host's configuration has it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Refuses requests with 503 from now on, or accepts them again.
    pub fn set_down(&self, is_down: bool) {
        self.received.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Returns a header of the last request.
    pub fn header(&self, name: &str) -> Option<String> {
        let headers = self.received.headers.lock();
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    }

    /// Reports whether any accepted request has this text.
    pub fn has_text(&self, text: &str) -> bool {
        let bodies = self.received.bodies.lock();
        bodies.iter().any(|body| {
            body.windows(text.len())
                .any(|window| window == text.as_bytes())
        })
    }

    /// Returns the spans of all accepted requests.
    ///
    /// # Panics
    /// Panics if a request is not a message of OTLP.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        let bodies = self.received.bodies.lock().clone();

        let requests = bodies
            .into_iter()
            .map(|body| ExportTraceServiceRequest::decode(body).expect("OTLP"));

        let of_resources = requests
            .flat_map(|request| request.resource_spans)
            .flat_map(|resource_spans| {
                let resource = resource_spans.resource.unwrap_or_default().attributes;

                let spans = resource_spans
                    .scope_spans
                    .into_iter()
                    .flat_map(|scope_spans| scope_spans.spans);
                spans
                    .map(move |span| ReceivedSpan {
                        span,
                        resource: resource.clone(),
                    })
                    .collect::<Vec<_>>()
            });

        of_resources.collect()
    }
}

/// Keeps a request, or refuses it.
async fn receive(
    State(received): State<Arc<Received>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if headers
        .get(header::CONTENT_TYPE)
        .is_none_or(|value| value != "application/x-protobuf")
    {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }

    if received.is_down.load(Ordering::SeqCst) {
        return StatusCode::SERVICE_UNAVAILABLE;
    }

    *received.headers.lock() = headers;
    received.bodies.lock().push(body);
    StatusCode::OK
}

impl ReceivedSpan {
    /// Returns an attribute of the span, as text.
    pub fn attribute(&self, key: &str) -> Option<String> {
        text(&self.span.attributes, key)
    }

    /// Returns an attribute of the resource, as text.
    pub fn resource(&self, key: &str) -> Option<String> {
        text(&self.resource, key)
    }

    /// Reports whether this is a call of the parent's reconcile.
    pub fn is_child_of(&self, parent: &Self) -> bool {
        self.span.trace_id == parent.span.trace_id
            && self.span.parent_span_id == parent.span.span_id
    }

    /// Returns the message of an error; None if the span is not marked as failed.
    pub fn error(&self) -> Option<&str> {
        let status = self.span.status.as_ref()?;
        (status.code() == opentelemetry_proto::tonic::trace::v1::status::StatusCode::Error)
            .then_some(&status.message)
    }

    /// Returns the kind: `Client`, `Consumer` or `Internal`.
    pub fn kind(&self) -> SpanKind {
        self.span.kind()
    }

    /// Returns the id of the trace in hex.
    pub fn trace_id(&self) -> String {
        hex(&self.span.trace_id)
    }

    /// Returns the id of the span in hex.
    pub fn span_id(&self) -> String {
        hex(&self.span.span_id)
    }

    /// Returns the spans that it is linked to, as their ids of trace and span in hex.
    pub fn links(&self) -> Vec<(String, String)> {
        self.span
            .links
            .iter()
            .map(|link| (hex(&link.trace_id), hex(&link.span_id)))
            .collect()
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::BoolValue(is_true) => is_true.to_string(),
        other => format!("{other:?}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! The subscriber that writes lines of `tracing`, and with the feature `log` of the `log` crate, to
//! the plugin's log.
//!
//! Fields keep their order. Spans are flattened: a line has the fields of its spans, outermost
//! first, then its own.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Failures.
    Error,
    /// Possible failures.
    Warn,
    /// Information for operators.
    Info,
    /// Information for authors.
    Debug,
    /// Every detail.
    Trace,
}

impl From<tracing::Level> for Level {
    fn from(level: tracing::Level) -> Self {
        match level {
            tracing::Level::ERROR => Self::Error,
            tracing::Level::WARN => Self::Warn,
            tracing::Level::INFO => Self::Info,
            tracing::Level::DEBUG => Self::Debug,
            _ => Self::Trace,
        }
    }
}

/// A name and a value.
pub(crate) type Pair = (String, String);

/// Formats `panic: MESSAGE at FILE:LINE:COLUMN` in one line. The host looks for a line that begins
/// with `panic: `.
#[cfg(any(target_arch = "wasm32", test))]
pub(crate) fn panic_text(
    message: Option<&str>,
    location: Option<&std::panic::Location<'_>>,
) -> String {
    let mut lines = message
        .unwrap_or("(a panic without a text)")
        .lines()
        .map(str::trim);

    let first = lines.next().unwrap_or_default().to_owned();
    let message = lines.fold(first, |text, line| text + " " + line);

    location.map_or_else(
        || format!("panic: {message}"),
        |location| format!("panic: {message} at {location}"),
    )
}

/// The destination of log lines.
pub(crate) trait Sink: Send + Sync + 'static {
    fn enabled(&self, level: Level) -> bool;
    fn write(&self, level: Level, message: &str, fields: Vec<Pair>);
}

/// The subscriber that writes lines to a [`Sink`].
pub(crate) struct Forward<S> {
    sink: S,
    next_span: AtomicU64,
    spans: Mutex<Spans>,
}

#[derive(Default)]
struct Spans {
    /// The open spans; few at a time.
    alive: Vec<Span>,
    /// The ids of the entered spans, outermost first.
    entered: Vec<u64>,
}

struct Span {
    id: u64,
    handles: usize,
    fields: Vec<Pair>,
}

impl<S> Forward<S> {
    pub(crate) fn new(sink: S) -> Self {
        Self {
            sink,
            next_span: AtomicU64::new(1),
            spans: Mutex::default(),
        }
    }

    fn spans(&self) -> MutexGuard<'_, Spans> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spans {
    fn find(&mut self, id: &Id) -> Option<&mut Span> {
        self.alive.iter_mut().find(|span| span.id == id.into_u64())
    }
}

impl<S: Sink> Subscriber for Forward<S> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.sink.enabled((*metadata.level()).into())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.next_span.fetch_add(1, Ordering::Relaxed);
        let mut line = Line::default();
        attributes.record(&mut line);

        self.spans().alive.push(Span {
            id,
            handles: 1,
            fields: line.fields,
        });

        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut line = Line::default();
        values.record(&mut line);
        if let Some(span) = self.spans().find(span) {
            span.fields.extend(line.fields);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);

        let spans = self.spans();
        let span_fields = |id: &u64| {
            spans
                .alive
                .iter()
                .find(|span| span.id == *id)
                .map(|span| span.fields.clone())
        };

        let mut fields: Vec<Pair> = spans
            .entered
            .iter()
            .filter_map(span_fields)
            .flatten()
            .collect();

        drop(spans);
        fields.append(&mut line.fields);

        self.sink
            .write((*event.metadata().level()).into(), &line.message, fields);
    }

    fn enter(&self, span: &Id) {
        self.spans().entered.push(span.into_u64());
    }

    fn exit(&self, span: &Id) {
        let mut spans = self.spans();
        if let Some(at) = spans.entered.iter().rposition(|id| *id == span.into_u64()) {
            spans.entered.remove(at);
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.spans().find(id) {
            span.handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = self.spans();
        let Some(span) = spans.find(&id) else {
            return false;
        };

        span.handles -= 1;
        let closed = span.handles == 0;
        spans.alive.retain(|span| span.handles > 0);
        closed
    }
}

/// The visitor that collects the message and the fields of a line.
#[derive(Default)]
struct Line {
    message: String,
    fields: Vec<Pair>,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.fields
                .push((field.name().to_owned(), value.to_owned()));
        }
    }

    /// As in JSON: the standard library's formatting of floats would be a twentieth of a plugin.
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.record_str(field, &crate::json::float(value));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.record_str(field, &crate::json::decimal(value));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        let sign = if value < 0 { "-" } else { "" };
        self.record_str(
            field,
            &(sign.to_owned() + &crate::json::decimal(value.unsigned_abs())),
        );
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_str(field, &value.to_string());
    }
}

/// Writes the `log` crate's lines to a [`Sink`], without fields: their API is not stable in all
/// versions of that crate.
#[cfg(all(feature = "log", target_arch = "wasm32"))]
pub(crate) struct LogForward<S>(pub(crate) S);

#[cfg(all(feature = "log", target_arch = "wasm32"))]
impl From<log::Level> for Level {
    fn from(level: log::Level) -> Self {
        match level {
            log::Level::Error => Self::Error,
            log::Level::Warn => Self::Warn,
            log::Level::Info => Self::Info,
            log::Level::Debug => Self::Debug,
            log::Level::Trace => Self::Trace,
        }
    }
}

#[cfg(all(feature = "log", target_arch = "wasm32"))]
impl<S: Sink> log::Log for LogForward<S> {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        self.0.enabled(metadata.level().into())
    }

    fn log(&self, record: &log::Record<'_>) {
        let level = record.level().into();
        if self.0.enabled(level) {
            self.0.write(level, &record.args().to_string(), Vec::new());
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_text_names_location() {
        let here = std::panic::Location::caller();
        let text = panic_text(Some("boom"), Some(here));
        assert!(
            text.starts_with("panic: boom at ") && text.contains("logging.rs:"),
            "{text}"
        );

        assert_eq!(panic_text(Some("a\n left: b"), None), "panic: a left: b");
        assert_eq!(panic_text(None, None), "panic: (a panic without a text)");
    }
}

//! The live view of a session: what was built and reconciled, what each reconcile wrote, and what
//! the plugin logged.
//!
//! It is a layer of the host's log: a reconcile's writes are collected until it ends, and shown in
//! one line.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    io::Write as _,
    sync::Arc,
    time::Instant,
};

use parking_lot::Mutex;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer,
    layer::{Context, SubscriberExt},
};

/// The target of log lines about the start and end of a reconcile.
const RECONCILES: &str = "operetta_manager::plugin::traced";
/// The log lines to show: the host's warnings, all about reconciles and writes, and what plugins
/// log.
const FILTER: &str = "warn,kube_runtime=error,operetta_manager::readiness=off,plugin=trace,audit=info,operetta_manager::plugin::traced=debug";

/// The view. Clones write to the same terminal.
#[derive(Clone, Default)]
pub struct View {
    running: Arc<Mutex<HashMap<String, Running>>>,
}

/// A reconcile that has not ended.
struct Running {
    began: Instant,
    writes: Vec<String>,
}

impl View {
    /// Starts showing the host's log.
    pub fn start() -> Self {
        let view = Self::default();
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER));
        // Without the bridge from the crate `log`: the compiler logs through it at each step of
        // each function, and asking whether to show each line took about a sixth of a profile.
        let subscriber = tracing_subscriber::registry().with(view.clone().with_filter(filter));
        if tracing::subscriber::set_global_default(subscriber).is_err() {
            view.fail("failed to show the log of the host: another one is set");
        }

        view
    }

    /// Shows a line.
    pub fn say(&self, text: &str) {
        // A closed terminal ends the session by itself.
        let _either_way = writeln!(std::io::stdout().lock(), "{text}");
    }

    /// Shows an error.
    pub fn fail(&self, text: &str) {
        self.say(&format!("error: {text}"));
    }

    fn reconcile(&self, fields: &Fields) {
        let id = fields.get("reconcile").to_owned();
        if fields.message == "reconcile began" {
            self.running.lock().insert(
                id,
                Running {
                    began: Instant::now(),
                    writes: Vec::new(),
                },
            );
            return;
        }

        let Some(running) = self.running.lock().remove(&id) else {
            return;
        };

        let took = running.began.elapsed().as_secs_f64() * 1000.0;
        let mut line = format!("reconciled {} in {took:.1} ms", fields.get("key"));
        if !running.writes.is_empty() {
            let _infallible = write!(line, ": {}", running.writes.join(", "));
        }

        match fields.get("error") {
            "" => self.say(&line),
            error => self.fail(&format!("{line}: {error}")),
        }
    }

    fn write(&self, fields: &Fields) {
        let subresource = fields.get("subresource");
        let slash = if subresource.is_empty() { "" } else { "/" };
        let (kind, object) = (fields.get("kind"), fields.get("object"));
        let mut text = format!("{} {kind} {object}{slash}{subresource}", fields.message);

        if !matches!(fields.get("result"), "" | "ok") {
            let _infallible = write!(text, " ({})", fields.get("result"));
        }

        if let Some(running) = self.running.lock().get_mut(fields.get("reconcile_id")) {
            running.writes.push(text);
        }
    }
}

/// The fields of a line of the log.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Fields {
    /// The field's value; empty if there is none.
    fn get(&self, name: &str) -> &str {
        self.others
            .iter()
            .find(|(other, _)| *other == name)
            .map_or("", |(_, value)| value)
    }

    fn set(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.others.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}

impl<S: Subscriber> Layer<S> for View {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);

        let level = event.metadata().level();
        match event.metadata().target() {
            RECONCILES => self.reconcile(&fields),
            "audit" => self.write(&fields),
            "plugin" => self.say(&format!(
                "{}: {}",
                level.as_str().to_lowercase(),
                fields.message
            )),
            _ => {
                let mut line = fields.message.clone();
                for (name, value) in &fields.others {
                    let _infallible = write!(line, " {name}={value}");
                }

                let word = if *level == Level::ERROR {
                    "error"
                } else {
                    "warning"
                };
                self.say(&format!("{word}: {line}"));
            }
        }
    }
}

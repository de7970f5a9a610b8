//! The Plugins and their activity: objects from the API server, rates from the host's metrics. No
//! I/O.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use operetta_api::{conditions, plugin::PluginStatus};
use operetta_core::{
    handler::event::Event,
    object::{Object, ObjectKey},
};

use super::{
    format,
    rates::{Activity, Meter},
    table::{Cell, Column, Health, Row, Table},
};

/// The titles of the columns.
pub mod columns {
    /// Processor time in percent of one processor.
    pub const CPU: &str = "CPU%";
    /// The peak linear memory of one instance.
    pub const MEMORY: &str = "MEM";
    /// Reconciles per second.
    pub const RATE: &str = "RATE/s";
    /// Failed reconciles per second.
    pub const ERRORS: &str = "ERR/s";
    /// Keys that wait.
    pub const QUEUE: &str = "QUEUE";
}

/// A replica of the host that runs Plugins, as the Plugins' status names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The identity; empty if the status names none.
    pub identity: String,
    /// The admin address, for a host outside the cluster. Tenants may write it.
    pub address: Option<String>,
    /// The Plugins that name it.
    pub plugins: Vec<ObjectKey>,
}

/// The creation and the status of a Plugin.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// When it was created, in seconds since the Unix epoch.
    created: Option<i64>,
    /// The status; empty if it cannot be decoded.
    pub status: PluginStatus,
}

impl Known {
    /// Reads a Plugin.
    pub fn of(object: &Object) -> Self {
        let created = object
            .scalar_at(".metadata.creationTimestamp")
            .and_then(|time| second(&time));

        let status = object
            .at(".status")
            .and_then(|status| serde_json::from_str(status).ok());

        Self {
            created,
            status: status.unwrap_or_default(),
        }
    }
}

/// The Plugins of a view.
#[derive(Default)]
pub struct Plugins {
    objects: BTreeMap<ObjectKey, Known>,
    /// The scrapes of the replicas.
    pub meter: Meter,
}

impl Plugins {
    /// Creates the table of Plugins, the busiest first.
    pub fn table(has_namespaces: bool) -> Table {
        let number = |title: &str, min, rank| Column {
            title: title.to_owned(),
            is_right: true,
            min,
            rank,
            is_extra: false,
        };

        let text = |title: &str, min, rank| Column {
            title: title.to_owned(),
            min,
            rank,
            ..Column::default()
        };

        let mut titles = vec![
            text("NAME", 17, 0),
            text("STATE", 8, 0),
            number(columns::CPU, 5, 0),
            number(columns::RATE, 6, 0),
            number(columns::ERRORS, 5, 0),
            number("P50", 5, 5),
            number("P99", 5, 2),
            number(columns::QUEUE, 5, 0),
            number(columns::MEMORY, 5, 3),
            number("AGE", 4, 4),
            text("REASON", 11, 1),
            Column {
                is_extra: true,
                ..text("MESSAGE", 30, 9)
            },
        ];

        if has_namespaces {
            titles.insert(0, text("NAMESPACE", 9, 0));
        }

        let mut table = Table::sorted_by(columns::CPU, true);
        table.columns = titles;
        table
    }

    /// Applies a change of a Plugin.
    pub fn apply(&mut self, event: &Event) {
        let key = event.object().key();
        match event {
            Event::Deleted { .. } => drop(self.objects.remove(key)),
            Event::Added { object, .. } | Event::Modified { object, .. } => {
                self.objects.insert(key.clone(), Known::of(object));
            }
        }
    }

    /// Removes all Plugins.
    pub fn clear(&mut self) {
        self.objects.clear();
    }

    pub fn get(&self, key: &ObjectKey) -> Option<&Known> {
        self.objects.get(key)
    }

    /// The replicas that run Plugins.
    pub fn replicas(&self) -> Vec<Replica> {
        let mut found: BTreeMap<(String, Option<String>), Vec<ObjectKey>> = BTreeMap::new();

        for (key, Known { status, .. }) in &self.objects {
            let mut add = |identity: &str, address: &Option<String>| {
                let address = address.clone().filter(|text| !text.is_empty());
                found
                    .entry((identity.to_owned(), address))
                    .or_default()
                    .push(key.clone());
            };

            match (&status.owner.replica, status.owner.replicas.as_slice()) {
                (Some(identity), []) if status.owner.shards.is_empty() => {
                    add(identity, &status.host);
                }
                (None, []) if status.host.is_some() => add("", &status.host),
                (_, replicas) => replicas
                    .iter()
                    .for_each(|replica| add(&replica.replica, &replica.host)),
            }
        }

        let replica = |((identity, address), plugins)| Replica {
            identity,
            address,
            plugins,
        };

        found.into_iter().map(replica).collect()
    }

    /// The rows.
    pub fn rows(&self, has_namespaces: bool) -> Vec<Row> {
        self.objects
            .iter()
            .map(|(key, plugin)| self.row(key, plugin, has_namespaces))
            .collect()
    }

    /// The activity of all Plugins together.
    pub fn total(&self) -> Activity {
        let mut total = Activity::default();

        self.objects
            .keys()
            .filter_map(|key| self.meter.activity(key))
            .for_each(|one| total.add(&one));

        total
    }

    /// The activity of a Plugin, according to the metrics or else to its status.
    pub fn activity(&self, key: &ObjectKey, status: &PluginStatus) -> Activity {
        self.meter.activity(key).unwrap_or_else(|| reported(status))
    }

    fn row(&self, key: &ObjectKey, known: &Known, has_namespaces: bool) -> Row {
        let status = &known.status;
        let health = status_of(status, conditions::READY);
        let health = Health::of(health, status_of(status, conditions::DEGRADED));

        let activity = self.activity(key, status);
        let rates = activity.rates.as_ref();

        let number = |value: Option<f64>, format: fn(f64) -> String| {
            value.map_or(Cell::text("-"), |value| Cell::number(&format(value), value))
        };

        let mut cells = vec![
            Cell::text(&key.name),
            Cell::text(state(status, health)),
            number(rates.map(|rates| rates.cpu * 100.0), format::rate),
            number(rates.map(|rates| rates.reconciles), format::rate),
            number(rates.map(|rates| rates.errors), format::rate),
            number(
                rates.and_then(|rates| rates.quantile(0.5)),
                format::duration,
            ),
            number(
                rates.and_then(|rates| rates.quantile(0.99)),
                format::duration,
            ),
            number(Some(activity.queue), |queue| format!("{queue:.0}")),
            number(Some(activity.memory), format::bytes),
            known.created.map_or(Cell::text("-"), Cell::since),
            Cell::text(status.reason.as_deref().unwrap_or("-")),
            Cell::text(status.message.as_deref().unwrap_or_default()),
        ];

        if has_namespaces {
            cells.insert(0, Cell::text(key.namespace.as_deref().unwrap_or_default()));
        }

        Row {
            key: key.clone(),
            cells,
            health,
        }
    }
}

fn status_of<'a>(status: &'a PluginStatus, condition: &str) -> Option<&'a str> {
    status
        .conditions
        .iter()
        .find(|one| one.type_ == condition)
        .map(|one| one.status.as_str())
}

fn state(status: &PluginStatus, health: Health) -> &'static str {
    match health {
        Health::Ready if status_of(status, conditions::THROTTLED) == Some("True") => "Throttled",
        Health::Ready => "Ready",
        Health::Degraded => "Degraded",
        Health::NotReady => "NotReady",
        Health::Unknown if status.conditions.is_empty() => "Pending",
        Health::Unknown => "Unknown",
    }
}

/// The activity according to a Plugin's status, which the host updates once a minute, for users who
/// may not read the metrics.
fn reported(status: &PluginStatus) -> Activity {
    // The sum of no f64 at all is -0.0.
    let queue = status
        .controllers
        .iter()
        .fold(0.0, |sum, controller| sum + controller.queued as f64);

    let usage = status.usage.clone().unwrap_or_default();

    Activity {
        rates: None,
        queue,
        memory: usage.peak_memory_bytes as f64,
        cached: usage.cached_bytes as f64,
    }
}

/// An RFC 3339 time in seconds since the Unix epoch.
pub fn second(time: &str) -> Option<i64> {
    time.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        time::{Duration, Instant},
    };

    use operetta_core::object::ManagedFields;
    use serde_json::{Value, json};

    use super::{super::metrics, *};

    fn event(status: &Value) -> Event {
        let metadata =
            json!({"name": "p", "namespace": "n", "creationTimestamp": "2026-11-22T10:00:00Z"});
        let object = json!({"apiVersion": "operetta.dev/v1alpha1", "kind": "Plugin", "metadata": metadata, "spec": {},
            "status": status});

        let object = Object::untyped(&object.to_string(), ManagedFields::Drop).expect("an object");
        Event::Added {
            object: Arc::new(object),
            initial: false,
        }
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!({"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-11-22T10:00:00Z"})
    }

    fn texts(plugins: &Plugins) -> Vec<String> {
        let row = plugins.rows(true).remove(0);
        row.cells
            .iter()
            .map(|cell| {
                cell.shown(second("2026-11-22T10:00:05Z").expect("a time"))
                    .into_owned()
            })
            .collect()
    }

    #[test]
    fn row_has_the_status_until_there_are_metrics() {
        let mut plugins = Plugins::default();
        let status = json!({
            "conditions": [condition("Ready", "True"), condition("Degraded", "True")], "reason": "Failing",
            "message": "a\u{1b}[31m", "usage": {"peakMemoryBytes": 2_097_152}, "controllers": [{"queued": 3}, {"queued": 4}],
        });

        plugins.apply(&event(&json!({})));
        assert_eq!(texts(&plugins)[8], "0", "without a controller");

        plugins.apply(&event(&status));
        let expected = [
            "n",
            "p",
            "Degraded",
            "-",
            "-",
            "-",
            "-",
            "-",
            "7",
            "2Mi",
            "5s",
            "Failing",
            r"a\u{1b}[31m",
        ];
        assert_eq!(texts(&plugins), expected);

        let start = Instant::now();
        for (seconds, count) in [(0, 10), (2, 30)] {
            let text = format!(
                "operetta_plugin_cpu_seconds_total{{plugin=\"p\",namespace=\"n\"}} {count}\n\
                 controller_runtime_reconcile_total{{plugin=\"p\",namespace=\"n\"}} {count}\n\
                 workqueue_depth{{plugin=\"p\",namespace=\"n\"}} 2\n"
            );

            let at = start + Duration::from_secs(seconds);
            plugins
                .meter
                .record(at, vec![("a".to_owned(), Some(metrics::read(&text)))]);
        }

        let expected = [
            "n",
            "p",
            "Degraded",
            "1000",
            "10.0",
            "0.0",
            "-",
            "-",
            "2",
            "0",
            "5s",
            "Failing",
            r"a\u{1b}[31m",
        ];

        assert_eq!(texts(&plugins), expected);
        assert_eq!(plugins.total().rates.map(|rates| rates.cpu), Some(10.0));
    }

    #[test]
    fn state_follows_the_conditions() {
        for (conditions, state) in [
            (json!([]), "Pending"),
            (json!([condition("Ready", "True")]), "Ready"),
            (
                json!([condition("Ready", "False"), condition("Degraded", "True")]),
                "NotReady",
            ),
            (json!([condition("Loaded", "True")]), "Unknown"),
        ] {
            let mut plugins = Plugins::default();
            plugins.apply(&event(&json!({"conditions": conditions})));
            assert_eq!(texts(&plugins)[2], state);
        }
    }

    #[test]
    fn replicas_are_those_of_the_status() {
        let replica = |identity: &str, address: Option<&str>| Replica {
            identity: identity.to_owned(),
            address: address.map(str::to_owned),
            plugins: vec![ObjectKey::namespaced("n", "p")],
        };

        for (status, expected) in [
            (json!({}), vec![]),
            (
                json!({"replica": "a", "host": "127.0.0.1:1"}),
                vec![replica("a", Some("127.0.0.1:1"))],
            ),
            (
                json!({"host": "127.0.0.1:1"}),
                vec![replica("", Some("127.0.0.1:1"))],
            ),
            (
                json!({"replica": "a: 0, b: 1", "shards": [{"shard": 0, "replica": "a"}, {"shard": 1, "replica": "b"}],
                    "replicas": [{"replica": "a", "host": "127.0.0.1:1"}, {"replica": "b"}]}),
                vec![replica("a", Some("127.0.0.1:1")), replica("b", None)],
            ),
        ] {
            let mut plugins = Plugins::default();
            plugins.apply(&event(&status));
            assert_eq!(plugins.replicas(), expected);
        }
    }
}

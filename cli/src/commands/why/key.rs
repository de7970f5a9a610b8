//! The state of a plugin's key, and its last reconciles, as text for people.

use std::fmt::Write;

use operetta_api::{conditions, reasons};
use operetta_core::{
    object::ObjectKey,
    recorder::explain::nth_retry,
    remedy::{Command, cure_for},
};
use operetta_manager::plugin::{
    crd::Plugin,
    history::{History, KeyState, Past, PastTrigger},
};

use super::text;

/// Describes why a key is or is not reconciled now, and its last reconciles.
pub fn describe(plugin: &Plugin, key: &str, history: &History) -> String {
    let name = plugin.metadata.name.as_deref().unwrap_or_default();
    let mut out = String::new();

    for line in obstacles(plugin) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{line}");
    }

    if history.states.is_empty() {
        let _ = writeln!(
            out,
            "{key} is not waiting for a reconcile in Plugin {name}: the next change of what it watches triggers one."
        );
    }

    for state in &history.states {
        let _ = writeln!(out, "{}", now(plugin, state));
    }

    if history.reconciles.is_empty() {
        let _ = writeln!(
            out,
            "No reconcile of {key} is recorded. The flight recorder keeps an hour by default."
        );
    }

    for past in &history.reconciles {
        write_past(&mut out, past);
    }

    if history.older > 0 {
        let _ = writeln!(
            out,
            "{} older reconciles are recorded: --limit shows more.",
            history.older
        );
    }

    if history.hidden > 0 {
        let _ = writeln!(
            out,
            "{} triggers and calls are left out: you may not get their objects.",
            history.hidden
        );
    }

    out
}

/// The conditions that keep the whole plugin from reconciling, or slow it down, with their cures.
fn obstacles(plugin: &Plugin) -> Vec<String> {
    let key = ObjectKey {
        namespace: plugin.metadata.namespace.clone(),
        name: plugin.metadata.name.clone().unwrap_or_default(),
    };
    let name = &key.name;
    let conditions = plugin
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();

    let bad = conditions.iter().filter_map(|condition| {
        let state = match (condition.type_.as_str(), condition.status.as_str()) {
            (conditions::READY, status) if status != "True" => "is not ready",
            (conditions::THROTTLED, "True") => "waits for a quota",
            _ => return None,
        };
        Some((condition, state))
    });

    bad.map(|(condition, state)| {
        let mut line = format!(
            "Plugin {name} {state}: {} ({})",
            condition.message, condition.reason
        );

        if let Some(reason) = reasons::find(&condition.reason) {
            line.push_str(&format!("\n  cure: {}", cure_for(reason, &key)));
        }

        line
    })
    .collect()
}

/// The command that retries a key of a plugin, or all failed ones. None for a key that is no
/// argument: names of some kinds, such as those of RBAC, may be almost anything.
fn retry(plugin: &Plugin, key: Option<&str>) -> Option<Command> {
    let name = plugin.metadata.name.as_deref()?;
    let namespace = plugin.metadata.namespace.as_deref()?;
    let end_of_flags = key.filter(|key| key.starts_with('-')).map(|_| "--");

    Command::new(
        ["operetta", "retry", name, "-n", namespace]
            .into_iter()
            .chain(end_of_flags)
            .chain(key),
    )
}

/// Describes the state of a key.
fn now(plugin: &Plugin, state: &KeyState) -> String {
    let KeyState {
        controller,
        key,
        phase,
        milliseconds,
        failures,
        is_looping,
        reason,
        message,
    } = state;

    let time = format!("{:.1} s", *milliseconds as f64 / 1000.0);

    let doing = match (phase.as_str(), is_looping, failures) {
        ("queued", ..) => {
            format!(
                "has been in the queue for {time}: all workers are busy, or the plugin waits for its share"
            )
        }
        ("reconciling", ..) => format!("has been reconciling for {time}"),
        ("waiting", true, _) => {
            format!("is held for {time} more, because its reconciles trigger themselves (HotLoop)")
        }
        ("waiting", _, 0) => format!("is reconciled again in {time}, as its last reconcile asked"),
        ("waiting", ..) => format!("waits for {time} more, after {failures} failures in a row"),
        _ => "is not in the queue: its last reconcile failed and is not retried".to_owned(),
    };

    let mut text = format!("{key} {doing} (controller {controller})");

    if let Some(message) = message {
        let reason = reason.as_deref().unwrap_or("failed");
        text.push_str(&format!("\n  last failure: {message} ({reason})"));

        if let Some(command) = retry(plugin, Some(key)) {
            text.push_str(&format!("\n  to retry now: {command}"));
        } else if let Some(command) = retry(plugin, None) {
            text.push_str(&format!("\n  to retry all failed keys now: {command}"));
        }
    }

    text
}

fn write_past(out: &mut String, past: &Past) {
    let Past {
        id,
        controller,
        started,
        took_micros,
        cpu_micros,
        result,
        error,
        ..
    } = past;

    let millis = |micros: u64| micros as f64 / 1000.0;

    let outcome = match (error, past.requeue_after_milliseconds) {
        (Some(error), _) => format!("{result} ({error})"),
        (None, Some(delay)) => format!("requeue after {:.1} s", delay as f64 / 1000.0),
        (None, None) => result.clone(),
    };

    let _ = writeln!(
        out,
        "{}  {outcome} in {:.1} ms ({:.1} ms of processor time), reconcile {id}, controller {controller}",
        text::time(*started),
        millis(*took_micros),
        millis(*cpu_micros)
    );

    // A retry has the triggers of the reconciles that failed.
    let word = if past.retries > 0 {
        let _ = writeln!(out, "  because of {}", nth_retry(past.retries));
        "since"
    } else {
        "because of"
    };

    for trigger in &past.triggers {
        let _ = writeln!(out, "  {word} {}", describe_trigger(trigger));
    }

    if past.triggers.is_empty() && past.retries == 0 {
        let _ = writeln!(
            out,
            "  because of the reconcile before it, which failed or asked to be repeated"
        );
    }

    for call in &past.calls {
        let version = if call.resource_version.is_empty() {
            String::new()
        } else {
            format!("@{}", call.resource_version)
        };

        let paths = call
            .paths
            .as_deref()
            .map(|paths| format!(" {}", paths.join(", ")))
            .unwrap_or_default();

        let audit_id = if call.audit_id.is_empty() {
            String::new()
        } else {
            format!(" (audit ID {})", call.audit_id)
        };
        let result = if call.result == "ok" {
            String::new()
        } else {
            format!(": {}{audit_id}", call.result)
        };

        let _ = writeln!(
            out,
            "  {} {}{version}{paths}{result}",
            call.verb, call.object
        );
    }

    if past.more > 0 {
        let _ = writeln!(out, "  and {} more triggers and calls", past.more);
    }
}

fn describe_trigger(trigger: &PastTrigger) -> String {
    let PastTrigger {
        cause,
        object,
        resource_version,
    } = trigger;
    match cause.as_str() {
        "initial" => "the start of the controller here, or new code or configuration".to_owned(),
        "resync" => "the controller's resync".to_owned(),
        "retry" => "operetta retry".to_owned(),
        _ => format!("{object}@{resource_version} {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use operetta_manager::plugin::history::PastCall;
    use serde_json::json;

    use super::*;

    fn plugin(conditions: serde_json::Value) -> Plugin {
        serde_json::from_value(json!({
            "apiVersion": "operetta.dev/v1alpha1",
            "kind": "Plugin",
            "metadata": {"name": "p", "namespace": "team"},
            "spec": {"source": {"path": "p.wasm"}},
            "status": {"conditions": conditions},
        }))
        .expect("a Plugin")
    }

    /// What is said of a failed key.
    fn failed(key: &str) -> String {
        let state = KeyState {
            key: key.to_owned(),
            phase: "waiting".to_owned(),
            failures: 1,
            message: Some("it broke".to_owned()),
            ..KeyState::default()
        };
        now(&plugin(json!([])), &state)
    }

    #[test]
    fn retry_is_a_command_that_a_shell_reads_as_it_is_meant() {
        let table = [
            ("n/a", "to retry now: operetta retry p -n team n/a"),
            ("a$(id)", "to retry now: operetta retry p -n team 'a$(id)'"),
            (
                "--host=https://elsewhere",
                "to retry now: operetta retry p -n team -- --host=https://elsewhere",
            ),
            (
                "two words",
                "to retry all failed keys now: operetta retry p -n team",
            ),
        ];
        for (key, command) in table {
            let said = failed(key);
            assert_eq!(
                said.lines().next_back().map(str::trim),
                Some(command),
                "{key:?}: {said}"
            );
        }
    }

    fn reconcile(retries: u32) -> History {
        let trigger = PastTrigger {
            cause: "modified".to_owned(),
            object: "Greeting team/hello".to_owned(),
            resource_version: "241".to_owned(),
        };
        let past = Past {
            result: "error".to_owned(),
            retries,
            triggers: vec![trigger],
            ..Past::default()
        };
        History {
            reconciles: vec![past],
            ..History::default()
        }
    }

    #[test]
    fn retry_is_described_by_its_number() {
        let plugin = plugin(json!([]));
        let text = describe(&plugin, "team/hello", &reconcile(15));
        assert!(
            text.contains(
                "  because of the 15th retry\n  since Greeting team/hello@241 modified\n"
            ),
            "{text}"
        );

        let first = describe(&plugin, "team/hello", &reconcile(0));
        assert!(
            first.contains("  because of Greeting team/hello@241 modified\n")
                && !first.contains("retry"),
            "{first}"
        );

        let mut untriggered = reconcile(1);
        untriggered.reconciles[0].triggers.clear();
        let text = describe(&plugin, "team/hello", &untriggered);
        assert!(
            text.ends_with("  because of the 1st retry\n"),
            "nothing else is known: {text}"
        );
    }

    #[test]
    fn failed_call_is_found_in_the_audit_log_by_its_id() {
        let call = |result: &str, audit_id: &str| PastCall {
            verb: "update".to_owned(),
            object: "Greeting team/hello".to_owned(),
            result: result.to_owned(),
            audit_id: audit_id.to_owned(),
            ..PastCall::default()
        };
        let mut history = reconcile(0);
        history.reconciles[0].calls = vec![call("Conflict", "1b4e"), call("TimedOut", "")];
        let text = describe(&plugin(json!([])), "team/hello", &history);
        assert!(
            text.ends_with(
                "  update Greeting team/hello: Conflict (audit ID 1b4e)\n  update Greeting team/hello: TimedOut\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn cure_of_an_obstacle_names_the_plugin() {
        let condition = json!({
            "type": "Ready", "status": "False", "reason": "ProcessNotReady", "message": "HTTP 503",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let lines = obstacles(&plugin(json!([condition])));
        assert!(
            lines[0].contains("`operetta logs p -n team` has what the process printed"),
            "{lines:?}"
        );
    }

    #[test]
    fn throttled_plugin_says_for_what_it_waits() {
        let condition = |kind: &str, status: &str| {
            json!({
                "type": kind, "status": status, "reason": "Throttled",
                "message": format!("{kind} is {status}"), "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };

        let throttled = plugin(json!([
            condition("Loaded", "True"),
            condition("Ready", "True"),
            condition("Throttled", "True"),
        ]));
        let lines = obstacles(&throttled);
        let [line] = lines.as_slice() else {
            panic!("{lines:?}")
        };
        assert!(
            line.starts_with("Plugin p waits for a quota: Throttled is True (Throttled)"),
            "{line}"
        );
        assert!(line.contains("\n  cure: "), "{line}");
        let said = describe(&throttled, "n/a", &History::default());
        assert!(said.starts_with(line.as_str()), "{said}");

        let free = plugin(json!([
            condition("Ready", "True"),
            condition("Throttled", "False")
        ]));
        assert_eq!(obstacles(&free), Vec::<String>::new());
        let stopped = plugin(json!([condition("Ready", "False")]));
        assert!(obstacles(&stopped)[0].starts_with("Plugin p is not ready: Ready is False"));
    }
}

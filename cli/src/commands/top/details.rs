//! The details of a Plugin: conditions with cause and cure, controllers with their last failure,
//! and its current activity. No I/O.

use std::collections::BTreeSet;

use operetta_api::{
    conditions,
    plugin::{Condition, ControllerStatus, PluginStatus},
    reasons::{self, Reason},
};
use operetta_core::{object::ObjectKey, remedy::cure_for};
use operetta_host::terminal;

use super::{
    super::watch::human_age,
    format,
    plugins::second,
    rates::Activity,
    style::{Styled, Tone},
    text::wrapped,
};

/// The lines for a terminal of a given width, unhealthy conditions first. `now` is in seconds since
/// the Unix epoch.
pub fn lines(
    plugin: &ObjectKey,
    status: &PluginStatus,
    activity: Option<&Activity>,
    room: usize,
    now: i64,
) -> Vec<Styled> {
    let mut lines = Lines {
        plugin,
        lines: Vec::new(),
        room,
    };

    lines.identity(status);
    lines.activity(activity);
    lines.conditions(status, now);

    for controller in &status.controllers {
        lines.controller(controller);
    }

    if status.controllers.is_empty() {
        lines.heading("CONTROLLERS");
        lines.add(2, "none: the component is not loaded", Tone::Faint);
    }

    lines.lines
}

struct Lines<'a> {
    plugin: &'a ObjectKey,
    lines: Vec<Styled>,
    room: usize,
}

impl Lines<'_> {
    /// Adds a text, indented and wrapped.
    fn add(&mut self, indent: usize, text: &str, tone: Tone) {
        let blanks = " ".repeat(indent);
        for line in wrapped(&terminal::line(text), self.room.saturating_sub(indent)) {
            self.lines
                .push(Styled::new(format!("{blanks}{line}"), tone));
        }
    }

    fn heading(&mut self, text: &str) {
        self.lines.push(Styled::new(String::new(), Tone::Plain));
        self.add(0, text, Tone::Title);
    }

    fn identity(&mut self, status: &PluginStatus) {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "<none>".to_owned());

        // A digest has 71 characters: with this label, a line has 80.
        self.add(0, &format!("Digest  {}", text(&status.digest)), Tone::Plain);
        self.add(
            0,
            &format!("Replica {}", text(&status.owner.replica)),
            Tone::Plain,
        );
        self.add(0, &format!("Host    {}", text(&status.host)), Tone::Plain);
    }

    fn activity(&mut self, activity: Option<&Activity>) {
        self.heading("ACTIVITY");

        let Some(activity) = activity else {
            return self.add(2, "no metrics of it", Tone::Faint);
        };

        if let Some(rates) = &activity.rates {
            let quantile = |share| {
                rates
                    .quantile(share)
                    .map_or_else(|| "-".to_owned(), format::duration)
            };

            let text = format!(
                "cpu {}%  rate {}/s  err {}/s  p50 {}  p90 {}  p99 {}",
                format::rate(rates.cpu * 100.0),
                format::rate(rates.reconciles),
                format::rate(rates.errors),
                quantile(0.5),
                quantile(0.9),
                quantile(0.99)
            );
            self.add(2, &text, Tone::Plain);
        }

        let [memory, cached] = [activity.memory, activity.cached].map(format::bytes);
        let text = format!(
            "queue {:.0}  peak memory of an instance {memory}  cached {cached}",
            activity.queue
        );
        self.add(2, &text, Tone::Plain);
    }

    fn conditions(&mut self, status: &PluginStatus, now: i64) {
        self.heading("CONDITIONS");
        if status.conditions.is_empty() {
            self.add(2, "none: no host has reported on it yet", Tone::Faint);
        }

        let is_good = |one: &Condition| {
            let is_problem = [conditions::DEGRADED, conditions::THROTTLED];
            (one.status == "True") != is_problem.contains(&one.type_.as_str())
        };
        let (good, bad): (Vec<_>, Vec<_>) = status.conditions.iter().partition(|one| is_good(one));

        // Ready and Degraded often have the same reason, which is explained once.
        let mut explained = BTreeSet::new();
        for condition in bad.into_iter().chain(good) {
            let is_good = is_good(condition);
            let is_new = explained.insert((&condition.reason, &condition.message));
            let age = second(&condition.last_transition_time)
                .map(|then| human_age(now - then))
                .unwrap_or_default();

            let text = format!(
                "{:9} {:8} {:24} {age}",
                condition.type_, condition.status, condition.reason
            );
            self.add(2, &text, if is_good { Tone::Good } else { Tone::Bad });

            if is_new && !condition.message.is_empty() {
                self.add(4, &condition.message, Tone::Plain);
            }
            if is_new && !is_good {
                self.explain(reasons::find(&condition.reason));
            }
        }
    }

    fn controller(&mut self, controller: &ControllerStatus) {
        self.heading(&format!(
            "CONTROLLER {} for {}",
            controller.name, controller.for_
        ));

        let ControllerStatus {
            reconciles,
            errors,
            queued,
            failing,
            ..
        } = controller;

        let tone = if *failing > 0 { Tone::Bad } else { Tone::Plain };
        let text = format!(
            "{reconciles} reconciles   {errors} errors   {queued} queued   {failing} failing keys"
        );
        self.add(2, &text, tone);

        if let Some(error) = &controller.last_error {
            self.add(4, &format!("last error: {error}"), Tone::Bad);
            self.explain(code_of(error));
        }
    }

    fn explain(&mut self, reason: Option<Reason>) {
        let Some(reason) = reason.filter(|reason| !reason.cure().is_empty()) else {
            return;
        };
        self.add(4, &format!("cause: {}", reason.cause()), Tone::Faint);
        let cure = cure_for(reason, self.plugin);
        self.add(4, &format!("cure: {cure}"), Tone::Warning);
    }
}

/// The code of an error: a known word in parentheses, or one before a colon.
fn code_of(error: &str) -> Option<Reason> {
    error
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| word.len() > 4)
        .find_map(|word| {
            // A code is in CamelCase; an ordinary word is not.
            let is_camel = word.starts_with(|first: char| first.is_ascii_uppercase())
                && word
                    .chars()
                    .skip(1)
                    .any(|letter| letter.is_ascii_uppercase());
            is_camel.then(|| reasons::find(word)).flatten()
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unhealthy_condition_has_cause_and_cure() {
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": format!("{type_} is so"),
                "lastTransitionTime": "2026-11-22T10:00:00Z"})
        };

        let status = json!({
            "digest": "sha256:12", "conditions": [condition("Degraded", "False", "AsExpected"), condition("Ready", "False", "ConsentMissing")],
            "controllers": [{"name": "c", "for": "Foo.example.com/v1", "failing": 2, "lastError": "n/a: boom\u{1b}[2J (NoCode)"}],
        });
        let status: PluginStatus = serde_json::from_value(status).expect("a status");

        let now = second("2026-11-22T10:01:00Z").expect("a time");
        let plugin = ObjectKey::namespaced("shop", "cart");
        let lines = lines(&plugin, &status, None, 60, now);

        let text: String = lines
            .iter()
            .map(|line| format!("{}\n", line.text))
            .collect();

        for words in [
            "Ready     False    ConsentMissing           60s",
            "annotate serviceaccount NAME -n shop",
            "operetta.dev/allow-plugins=cart`",
            "2 failing keys",
            r"boom\u{1b}[2J",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }

        assert_eq!(text.matches("cure:").count(), 1, "{text}");
        assert!(
            text.find("Ready is so") < text.find("Degraded is so"),
            "the unhealthy one is first: {text}"
        );
        assert!(
            lines.iter().all(|line| line.text.chars().count() <= 60),
            "{text}"
        );
    }

    #[test]
    fn code_of_an_error_is_a_known_word() {
        assert_eq!(
            code_of("the key is held (ConsentMissing)"),
            Some(reasons::CONSENT_MISSING)
        );
        assert_eq!(code_of("no Such code"), None);
    }
}

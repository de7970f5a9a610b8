//! Metrics pages of processes. The host's own lines stay as they are and in their order. Each other
//! sample has the labels of the process's Plugin, and no other value of theirs. No family is declared
//! twice. What is written can be read again.
//!
//! The input: the page of a process.

use std::collections::HashSet;

use operetta_core::object::ObjectKey;
use operetta_manager::metrics::pages::{
    merge::{OwnFamily, Page, merge},
    read,
};

const OWN: &str = "\
# TYPE controller_runtime_reconcile_total gauge
controller_runtime_reconcile_total{plugin=\"other\",namespace=\"n\"} 1
# HELP process_open_fds Files
# TYPE process_open_fds gauge
process_open_fds 7
";

/// Checks the module's invariants on one input.
pub fn metrics(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(families) = read(text) else {
        return;
    };
    let page = Page {
        plugin: ObjectKey::namespaced("team", "op"),
        families,
    };
    let joined = merge(OwnFamily::in_text(OWN), vec![page]).join_text(OWN);

    let mut expected = OWN.lines().peekable();
    let mut declared = HashSet::new();
    for line in joined.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let name = head.split(' ').next().unwrap_or_default();
            assert!(
                declared.insert(name.to_owned()),
                "{name} is declared twice:\n{joined}"
            );
        }
        if expected.next_if_eq(&line).is_some() || line.starts_with("# ") {
            continue;
        }
        let mut labels = line.match_indices("namespace=\"team\",plugin=\"op\"");
        assert!(
            labels.next().is_some(),
            "{line} has not its Plugin's labels"
        );
        // From the first brace on: a label's value may have one, too.
        let labels = line.split_once('{').map_or("", |(_, labels)| labels);
        for stolen in ["plugin=\"", "namespace=\""] {
            let is_own = labels.starts_with("namespace=\"team\",plugin=\"op\"");
            assert!(
                is_own || !labels.starts_with(stolen),
                "{line} has other labels"
            );
        }
    }
    assert_eq!(
        expected.next(),
        None,
        "a line of the host is lost:\n{joined}"
    );
    // Labels are added, and so a limit may be exceeded.
    if let Err(error) = read(&joined) {
        assert!(
            error.why.contains("more than"),
            "{error} in what was written:\n{joined}"
        );
    }
}

//! Finds the writers of a change seen by a watch, from managedFields.

use super::record::FieldWriter;
use crate::object::{
    changes::Change,
    field_managers::{FieldManager, field_managers},
};

/// How many writers with the latest time are kept.
const MAX_WRITERS: usize = 4;

/// Who may have made a change, by the object's managedFields after it. [Whoever changes a field
/// owns it] from then on, so the writer is among the owners of the changed fields. If they have
/// none, as after the removal of a field, it is among the writers with the latest time, of which
/// one second may have several. An entry may have no time, as for the subresource `scale`.
///
/// [Whoever changes a field owns it]: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
pub(crate) fn writers(managed_fields: &str, changes: &[Change<'_>]) -> Vec<FieldWriter> {
    let mut candidates = field_managers(managed_fields, changes);
    let owned = candidates.iter().fold(0, |all, entry| all | entry.owned);
    if owned != 0 {
        match candidates.iter().any(|entry| entry.owned == owned) {
            true => candidates.retain(|entry| entry.owned == owned),
            false => candidates.retain(|entry| entry.owned != 0),
        }
    }

    if owned == 0 && !changes.is_empty() {
        // Fields below status are written through the subresource; others are not.
        let is_status = changes.iter().all(|change| change.path.is_below("status"));
        if candidates
            .iter()
            .any(|entry| (entry.subresource == "status") == is_status)
        {
            candidates.retain(|entry| (entry.subresource == "status") == is_status);
        }
    }

    let latest = candidates
        .iter()
        .map(|entry| entry.time.clone())
        .max()
        .unwrap_or_default();
    candidates.retain(|entry| entry.time == latest || (entry.time.is_empty() && owned != 0));
    let writer = |entry: FieldManager<'_>| FieldWriter {
        manager: entry.manager.unwrap_or_default().into_owned(),
        subresource: entry.subresource.into_owned(),
        time: entry.time.into_owned(),
    };

    candidates
        .into_iter()
        .take(MAX_WRITERS)
        .map(writer)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::changes::Path;

    /// Returns an entry of managedFields. The time has seconds only; empty leaves it out.
    fn entry(manager: &str, second: &str, subresource: &str, fields: &str) -> String {
        let time = if second.is_empty() {
            String::new()
        } else {
            format!(r#","time":"2026-01-01T00:00:{second}Z""#)
        };
        format!(
            r#"{{"fieldsType":"FieldsV1","fieldsV1":{fields},"manager":"{manager}","operation":"Update","subresource":"{subresource}"{time}}}"#
        )
    }

    /// Returns the writers of a change of these fields.
    fn writers_of(entries: &[String], fields: &[&[&'static str]]) -> Vec<String> {
        let change = |steps: &&[&'static str]| Change {
            path: Path::of(steps),
            before: "0",
            after: "1",
        };
        let changes: Vec<Change<'_>> = fields.iter().map(change).collect();
        let found = writers(&format!("[{}]", entries.join(",")), &changes);
        found
            .into_iter()
            .map(|writer| format!("{}/{}", writer.manager, writer.subresource))
            .collect()
    }

    #[test]
    fn writer_is_the_owner_of_the_changed_fields() {
        let entries = [
            entry(
                "controller",
                "09",
                "status",
                r#"{"f:status":{"f:replicas":{},"f:conditions":{"k:{}":{}}}}"#,
            ),
            entry(
                "create",
                "09",
                "",
                r#"{"f:spec":{"f:template":{"f:spec":{}},"f:selector":{}},"f:data":{"f:a.b/c":{}}}"#,
            ),
            entry("kubectl", "", "scale", r#"{"f:spec":{"f:replicas":{}}}"#),
        ];
        assert_eq!(
            writers_of(&entries, &[&["spec", "replicas"]]),
            ["kubectl/scale"],
            "its entry has no time"
        );
        assert_eq!(
            writers_of(
                &entries,
                &[&["status", "replicas"], &["status", "conditions"]]
            ),
            ["controller/status"]
        );
        assert_eq!(
            writers_of(&entries, &[&["spec", "selector", "matchLabels"]]),
            ["create/"],
            "a part of an atomic field"
        );
        assert_eq!(
            writers_of(&entries, &[&["data", "a.b/c"]]),
            ["create/"],
            "dots in names"
        );
        assert_eq!(
            writers_of(&entries, &[&["spec", "template"], &["metadata", "labels"]]),
            ["create/"]
        );
    }

    #[test]
    fn without_an_owner_writers_of_the_latest_second_are_named() {
        let entries = [
            entry("a", "09", "", r#"{"f:spec":{"f:x":{}}}"#),
            entry("old", "01", "", r#"{"f:spec":{"f:x":{}}}"#),
            entry("b", "09", "status", "{}"),
        ];
        assert_eq!(writers_of(&entries, &[&["spec", "gone"]]), ["a/"]);
        assert_eq!(writers_of(&entries, &[&["status", "gone"]]), ["b/status"]);
        assert_eq!(writers_of(&entries, &[]), ["a/", "b/status"]);
        assert_eq!(
            writers_of(&entries, &[&["spec", "x"]]),
            ["a/"],
            "the later of two owners"
        );
        let undated = [entry("kubectl", "", "", "{}"), entry("a", "09", "", "{}")];
        assert_eq!(
            writers_of(&undated, &[&["spec", "x"]]),
            ["a/"],
            "without a time and without the field"
        );
        assert_eq!(writers_of(&[], &[]), [""; 0]);
        assert!(writers("{}", &[]).is_empty());
    }
}

//! The report: findings in an operator's code and manifests, as a table.

use std::fmt::Write as _;

/// Whether something that the operator needs works in the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It works, or a process doesn't need it.
    Works,
    /// The code doesn't tell.
    Maybe,
    /// The host does not have it yet.
    NotYet,
    /// It can't work in a process.
    No,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Maybe => "maybe",
            Self::NotYet => "not yet",
            Self::No => "no",
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub verdict: Verdict,
    /// A need, such as `webhooks`, or an object, as `Deployment/manager`.
    pub what: String,
    /// The place in the code, `main.go:12`, or the object's field.
    pub place: String,
    /// What it means, and what to do.
    pub note: String,
}

impl Finding {
    pub fn new(
        verdict: Verdict,
        what: impl Into<String>,
        place: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self {
            verdict,
            what: what.into(),
            place: place.into(),
            note: note.into(),
        }
    }
}

/// Formats findings below a title, with those that work first. Empty without findings.
pub fn table(title: &str, findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }

    let mut sorted: Vec<_> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.verdict);

    let width = |cell: fn(&Finding) -> usize| sorted.iter().map(|f| cell(f)).max().unwrap_or(0);
    let what = width(|finding| finding.what.chars().count());
    let place = width(|finding| finding.place.chars().count());

    let mut text = format!("{title}\n");
    for finding in sorted {
        let line = format!(
            "  {:<7}  {:<what$}  {:<place$}  {}",
            finding.verdict.as_str(),
            finding.what,
            finding.place,
            finding.note
        );
        let _infallible = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_aligned_and_sorted_by_verdict() {
        let findings = [
            Finding::new(Verdict::No, "cgo", "a.go:1", "C"),
            Finding::new(Verdict::Works, "API server", "", "fine"),
            Finding::new(Verdict::No, "plugins", "long/b.go:12", "x"),
        ];
        assert_eq!(
            table("The code", &findings),
            "The code\n\
             \x20 works    API server                fine\n\
             \x20 no       cgo         a.go:1        C\n\
             \x20 no       plugins     long/b.go:12  x\n"
        );
        assert_eq!(table("The code", &[]), "");
    }
}

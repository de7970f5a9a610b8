//! `operetta explain CODE`: prints the cause and the cure of a code. It needs no cluster.

use std::fmt::Write;

use anyhow::{Result, bail};
use operetta_api::reasons::{self, Area, Reason};

use super::print;
use crate::args::ExplainArgs;

/// The maximum width of a line of text, in characters.
const WIDTH: usize = 80;

/// A code is suggested for an unknown one from this similarity on (Jaro-Winkler, at most 1).
const SIMILAR: f64 = 0.8;

/// Prints the entry of a code, or the list of all codes.
///
/// # Errors
/// Returns an error if the code is unknown, with the most similar one, or if stdout cannot be
/// written.
pub fn explain(args: &ExplainArgs) -> Result<()> {
    let Some(code) = &args.code else {
        return print(&list());
    };

    let Some(reason) = reasons::find(code) else {
        let hint =
            similar(code).map_or_else(String::new, |found| format!("did you mean {found}? "));
        bail!("unknown code {code:?}: {hint}`operetta explain` lists all codes");
    };

    print(&entry(reason))
}

fn entry(reason: Reason) -> String {
    let cure = if reason.cure().is_empty() {
        "Nothing is wrong."
    } else {
        reason.cure()
    };

    let sections = [
        ("SHOWN AS", reason.area().shown()),
        ("CAUSE", reason.cause()),
        ("CURE", cure),
    ];

    let mut text = format!("CODE:    {reason}\nABOUT:   {}\n", reason.area().title());
    for (heading, body) in sections {
        // Writing to a string cannot fail.
        let _ok = write!(text, "\n{heading}:\n{}", wrapped(body));
    }

    text
}

fn list() -> String {
    let width = reasons::all()
        .map(|reason| reason.as_str().len())
        .max()
        .unwrap_or_default();

    let mut text = String::new();
    let mut area: Option<Area> = None;
    for reason in reasons::all() {
        if area != Some(reason.area()) {
            let gap = if area.is_some() { "\n" } else { "" };
            let _ok = writeln!(text, "{gap}{}:", reason.area().title());
            area = Some(reason.area());
        }

        let _ok = writeln!(
            text,
            "  {reason:width$}  {}",
            first_sentence(reason.cause())
        );
    }

    text
}

/// Returns the first sentence, without its full stop.
fn first_sentence(text: &str) -> &str {
    text.split_once(". ")
        .map_or_else(|| text.trim_end_matches('.'), |(first, _)| first)
}

/// Indents a text and breaks it between words. A word that is too long gets a line of its own.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("never empty");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }

    lines.iter().map(|line| format!("    {line}\n")).collect()
}

/// The most similar code to an unknown one, if any is similar enough.
fn similar(code: &str) -> Option<Reason> {
    let code = code.to_ascii_lowercase();
    let similarity =
        |reason: Reason| strsim::jaro_winkler(&code, &reason.as_str().to_ascii_lowercase());

    let best =
        reasons::all().max_by(|one, other| similarity(*one).total_cmp(&similarity(*other)))?;

    (similarity(best) >= SIMILAR).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_similar_code_or_none() {
        assert_eq!(similar("ConsentMissing1"), Some(reasons::CONSENT_MISSING));
        assert_eq!(similar("apiserver"), Some(reasons::API_SERVER));
        assert_eq!(similar("xyzzy"), None);
    }

    #[test]
    fn entry_has_cause_and_cure_in_short_lines() {
        for reason in reasons::all() {
            let text = entry(reason);
            let words = |text: &str| {
                text.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
                    .join(" ")
            };

            assert!(
                words(&text).contains(&words(reason.cause()))
                    && words(&text).contains(&words(reason.cure())),
                "{text}"
            );

            assert!(
                text.lines().all(|line| line.chars().count() <= WIDTH + 4),
                "{text}"
            );
        }
    }

    #[test]
    fn list_has_each_code_once() {
        let text = list();
        for reason in reasons::all() {
            let lines = text
                .lines()
                .filter(|line| line.split_whitespace().next() == Some(reason.as_str()));
            assert_eq!(lines.count(), 1, "{reason}");
        }
    }
}

//! A page whose commands are run, in order, and print what the page shows.

use std::time::Duration;

use operetta_testkit::{ControlPlane, shell, within};

const REPOSITORY: &str = "..";
/// What a page shows comes soon, or a little later on a busy machine.
const SOON: Duration = Duration::from_secs(90);
/// Commands that only look: they may be typed again until they show what the page shows.
const LOOKS: [&str; 6] = [
    "kubectl get",
    "kubectl explain",
    "kubectl auth can-i",
    "operetta logs",
    "operetta informers",
    "curl",
];

/// A command of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    /// Lines that it prints, in this order; `...` in them stands for anything, and so do lines
    /// between them.
    shown: Vec<String>,
}

/// The commands behind a `$` in the blocks `console` of a page.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;

    for line in page.lines() {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step {
                    command: command.to_owned(),
                    shown: Vec::new(),
                }),
                (None, Some(step)) => step.shown.push(line.to_owned()),
                (None, None) => panic!("output before any command: {line}"),
            },
            (false, _) => {}
        }
    }

    steps
}

/// Whether a text has these lines, in order. Spaces count as one.
fn shows(text: &str, shown: &[String]) -> Result<(), String> {
    let mut lines = text.lines();

    for wanted in shown.iter().filter(|line| line.trim() != "...") {
        if !lines.any(|line| matches(line, wanted)) {
            return Err(format!(
                "{wanted:?} is not in, or not in this order:\n{text}"
            ));
        }
    }

    Ok(())
}

fn matches(line: &str, wanted: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = words(line);
    let wanted = words(wanted);

    let parts: Vec<&str> = wanted.split("...").map(str::trim).collect();
    let Some((last, parts)) = parts.split_last() else {
        return false;
    };

    let mut rest = line.as_str();
    for (at, part) in parts.iter().enumerate() {
        match rest.find(part) {
            Some(found) if found == 0 || at > 0 => rest = &rest[found + part.len()..],
            _ => return false,
        }
    }

    if parts.is_empty() {
        rest == *last
    } else {
        rest.ends_with(last)
    }
}

/// A reader of the page.
pub struct Reader<'a>(pub &'a ControlPlane);

impl Reader<'_> {
    /// Runs a command once: whether it succeeded, and what it printed.
    pub fn run(&self, command: &str) -> (bool, String) {
        let mut shell = shell(
            &[&operetta_testkit::program("operetta")],
            self.0.kubeconfig(),
            command,
        );

        let shell = shell.current_dir(REPOSITORY).env("RUST_BACKTRACE", "0");
        let output = shell.output().expect("bash runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text)
    }

    /// Runs a command, until it prints what the page shows if it only looks.
    pub async fn carry_out(&self, step: &Step) {
        let Step { command, shown } = step;
        let refused = shown.iter().any(|line| line.starts_with("Error"));

        let look = || {
            let (success, text) = self.run(command);
            // `grep -c` of nothing is a failure to the shell.
            if success == refused && !command.contains("grep -c") {
                return Err(format!(
                    "it ended with {}: {text}",
                    if success { "success" } else { "failure" }
                ));
            }
            shows(&text, shown)
        };

        if LOOKS.iter().any(|looks| command.starts_with(looks)) {
            within(SOON, command, async || look()).await;
        } else if let Err(why) = look() {
            panic!("{command}: {why}");
        }
    }
}

#[test]
fn page_splits_into_commands_and_output() {
    let page =
        "text\n```console\n$ one | two\n$ three\nA  ... B\n...\n```\n```sh\n$ not this\n```\n";

    let step = |command: &str, shown: &[&str]| Step {
        command: command.into(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
    };

    assert_eq!(
        steps(page),
        [step("one | two", &[]), step("three", &["A  ... B", "..."])]
    );
}

#[test]
fn what_a_page_shows_is_compared_line_by_line() {
    let shown = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| (*line).to_owned())
            .collect::<Vec<_>>()
    };

    let text = "NAME   AGE\nx      5s\nyes: it is so\n";
    for right in [
        &["NAME AGE"][..],
        &["x ..."],
        &["...", "NAME AGE", "yes: ... so"],
        &["...it is..."],
        &[],
    ] {
        assert_eq!(shows(text, &shown(right)), Ok(()), "{right:?}");
    }

    for wrong in [
        &["NAME"][..],
        &["x"],
        &["x ...", "NAME AGE"],
        &["it is ..."],
        &["...it"],
        &["no"],
    ] {
        assert!(shows(text, &shown(wrong)).is_err(), "{wrong:?}");
    }
}

//! Sessions of kubectl: a proxy sends its requests to both servers.

use std::{path::Path, time::Duration};

use crate::{proxy::Proxy, runner::Runner};

/// The commands, one per line. `&` at the end runs a command in parallel to the next ones, until
/// `stop`.
const COMMANDS: &str = include_str!("kubectl.txt");
/// The objects of the commands. The first line of each document is a comment with its file name.
const OBJECTS: &str = include_str!("kubectl.yaml");

pub struct Line<'a> {
    /// The line, without ` &` at its end.
    pub text: &'a str,
    pub arguments: Vec<String>,
    pub editor: &'a str,
    /// Whether the command runs in parallel to the next ones.
    pub is_beside: bool,
}

/// Parses a list of commands.
pub fn lines(commands: &str) -> impl Iterator<Item = Line<'_>> {
    let lines = commands
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));

    lines.map(|line| {
        let (text, is_beside) = line
            .strip_suffix(" &")
            .map_or((line, false), |line| (line, true));

        let (editor, rest) = text
            .strip_prefix("EDITOR=")
            .and_then(|rest| rest.split_once("; "))
            .unwrap_or(("true", text));

        Line {
            text,
            arguments: words(rest),
            editor,
            is_beside,
        }
    })
}

/// Writes the commands' files into a folder.
pub fn write_objects(folder: &Path) {
    for document in OBJECTS.split("# file: ").skip(1) {
        let (name, text) = document.split_once('\n').expect("a name");
        std::fs::write(folder.join(name), text).expect("written");
    }
}

pub async fn run(runner: &mut Runner) {
    let folder = tempfile::tempdir().expect("a folder");
    write_objects(folder.path());

    let mut proxy = Proxy::start().await;
    let mut beside = Vec::new();

    for line in lines(COMMANDS) {
        if line.text == "stop" {
            proxy.during(runner, Duration::from_millis(500)).await;
            beside.clear();
            proxy.drain(runner).await;
            continue;
        }

        let arguments: Vec<&str> = line.arguments.iter().map(String::as_str).collect();
        let mut kubectl = proxy.kubectl(folder.path(), &arguments, line.editor);

        if line.is_beside {
            proxy.during(runner, Duration::from_millis(1500)).await;
            beside.push(kubectl);
        } else {
            proxy.until_end(runner, &mut kubectl).await;
            drop(kubectl);
            proxy.drain(runner).await;
        }
    }
}

/// Splits a line at spaces, except between single quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();

    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }

    words
}

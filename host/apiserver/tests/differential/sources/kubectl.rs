//! Sessions of kubectl: what it sends for its commands, which a proxy sends to both servers.

use std::time::Duration;

use crate::{proxy::Proxy, runner::Runner};

/// The commands, one a line. `&` at the end runs a command beside the next ones, until `stop`.
const COMMANDS: &str = include_str!("kubectl.txt");
/// The objects of the commands: each document's first line is a comment with the name of its file.
const OBJECTS: &str = include_str!("kubectl.yaml");

pub async fn run(runner: &mut Runner) {
    let folder = tempfile::tempdir().expect("a folder");
    for document in OBJECTS.split("# file: ").skip(1) {
        let (name, text) = document.split_once('\n').expect("a name");
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let mut proxy = Proxy::start().await;
    let mut beside = Vec::new();
    for line in COMMANDS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line == "stop" {
            proxy.during(runner, Duration::from_millis(500)).await;
            beside.clear();
            proxy.drain(runner).await;
            continue;
        }
        let (line, is_beside) = line.strip_suffix(" &").map_or((line, false), |line| (line, true));
        let (editor, line) =
            line.strip_prefix("EDITOR=").and_then(|rest| rest.split_once("; ")).unwrap_or(("true", line));
        let arguments = words(line);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut kubectl = proxy.kubectl(folder.path(), &arguments, editor);
        if is_beside {
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

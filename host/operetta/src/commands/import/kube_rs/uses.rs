//! The imports of `kube::runtime`, which become those of the SDK's module `kube_rs`, and imports that only `main` needed.

use std::ops::Range;

use super::note;
use crate::commands::import::{source_text::SourceText, unsupported::Finding};

/// The module of the SDK with kube-rs's names.
const SDK: &str = "operetta_sdk::kube_rs";

/// The crates of whose imports only those stay whose names the code still has: the code that ran the controller needed the others.
const OF_MAIN: &[&str] =
    &["futures", "futures_util", "tokio", "tokio_stream", "tracing_subscriber", "env_logger", "anyhow"];

/// The names of kube-rs that only the code around the controller needs.
const OF_RUNNER: &[&str] = &["Client", "Controller", "watcher", "Config"];

/// Returns the file with its imports rewritten.
pub fn rewritten(file: &str, text: &str, findings: &mut Vec<Finding>) -> String {
    let mut text = text.to_owned();
    let source = SourceText::rust(text.clone());
    let items = items(&source);
    let mut code = source.code.clone();
    for range in &items {
        code.replace_range(range.clone(), &" ".repeat(range.len()));
    }
    let without_imports = SourceText::rust(code);
    let is_mentioned = |name: &str| !without_imports.find(name).is_empty();
    for range in items.iter().rev() {
        let item = source.part(range.clone());
        let (before, tree) = item.split_once("use ").unwrap_or(("", item));
        let leaves = leaves(tree.trim_end().trim_end_matches(';'));
        let root = leaves.first().and_then(|leaf| leaf.path.first()).map(String::as_str).unwrap_or_default();
        let is_runtime = |leaf: &Leaf| runtime_path(&leaf.path).is_some();
        let is_of_main = OF_MAIN.contains(&root) && leaves.iter().any(|leaf| !is_mentioned(leaf.name()));
        let is_of_kube = ["kube", "kube_runtime"].contains(&root)
            && leaves
                .iter()
                .any(|leaf| is_runtime(leaf) || (OF_RUNNER.contains(&leaf.name()) && !is_mentioned(leaf.name())));
        if !is_of_main && !is_of_kube {
            continue;
        }
        let mut lines = Vec::new();
        for leaf in leaves {
            if runtime_path(&leaf.path) == Some(&["events".to_owned(), "Reporter".to_owned()]) {
                note(
                    findings,
                    file,
                    &source,
                    range.start,
                    "`Reporter`: the host reports Events, see Recorder in docs/from-kube-rs.md",
                );
            }
            if let Some(path) = kept(&leaf, &is_mentioned) {
                lines.push(format!("{before}use {path};"));
            }
        }
        let replaced = lines.join("\n");
        let end = if replaced.is_empty() && source.part(range.end..range.end + 1) == "\n" {
            range.end + 1
        } else {
            range.end
        };
        text.replace_range(range.start..end, &replaced);
    }
    for (from, to) in [("controller::Action", "controller::Action"), ("finalizer", "finalizer"), ("events", "events")] {
        text = text.replace(&format!("kube::runtime::{from}"), &format!("{SDK}::{to}"));
    }
    text
}

/// Returns the path that stays of an import; None if the plugin does not need it.
fn kept(leaf: &Leaf, is_mentioned: &dyn Fn(&str) -> bool) -> Option<String> {
    let alias = leaf.alias.as_ref().map(|alias| format!(" as {alias}")).unwrap_or_default();
    let path: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
    let Some(inner) = runtime_path(&leaf.path) else {
        let is_needed = !(OF_MAIN.contains(&path[0]) || OF_RUNNER.contains(&leaf.name())) || is_mentioned(leaf.name());
        return is_needed.then(|| path.join("::") + &alias);
    };
    let inner: Vec<&str> = inner.iter().map(String::as_str).collect();
    match inner.as_slice() {
        // It is a module, and a function in it.
        ["finalizer"] => Some(format!("{SDK}::finalizer::{{self, finalizer}}")),
        ["controller", "Action"] | ["finalizer", _] | ["controller" | "events"] => {
            Some(format!("{SDK}::{}{alias}", inner.join("::")))
        }
        ["events", "Event" | "EventType" | "Recorder"] => Some(format!("{SDK}::{}{alias}", inner.join("::"))),
        _ => None,
    }
}

/// Returns the path in `kube::runtime`; None for another one.
fn runtime_path(path: &[String]) -> Option<&[String]> {
    match path {
        [kube, runtime, rest @ ..] if kube == "kube" && runtime == "runtime" => Some(rest),
        [runtime, rest @ ..] if runtime == "kube_runtime" => Some(rest),
        _ => None,
    }
}

/// One name that a `use` imports.
#[derive(Debug, PartialEq, Eq)]
struct Leaf {
    path: Vec<String>,
    alias: Option<String>,
}

impl Leaf {
    /// Returns the name in the code.
    fn name(&self) -> &str {
        self.alias.as_deref().or(self.path.last().map(String::as_str)).unwrap_or_default()
    }
}

/// Returns the names of the tree of a `use`.
fn leaves(tree: &str) -> Vec<Leaf> {
    let mut found = Vec::new();
    collect(tree.trim(), &[], &mut found);
    found
}

fn collect(tree: &str, before: &[String], found: &mut Vec<Leaf>) {
    let (path, group) = match tree.split_once('{') {
        Some((path, rest)) => (path, rest.trim_end().strip_suffix('}')),
        None => (tree, None),
    };
    let (path, alias) = match path.split_once(" as ") {
        Some((path, alias)) if group.is_none() => (path, Some(alias.trim().to_owned())),
        _ => (path, None),
    };
    let segments = path.split("::").map(str::trim).filter(|segment| !segment.is_empty() && *segment != "self");
    let whole: Vec<String> = before.iter().cloned().chain(segments.map(str::to_owned)).collect();
    let Some(group) = group else {
        found.push(Leaf { path: whole, alias });
        return;
    };
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                collect(group[start..at].trim(), &whole, found);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !group[start..].trim().is_empty() {
        collect(group[start..].trim(), &whole, found);
    }
}

/// Returns the ranges of the imports, with their visibility.
fn items(source: &SourceText) -> Vec<Range<usize>> {
    let mut items = Vec::new();
    for at in source.find("use") {
        let line = source.code[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let before = source.code[line..at].trim();
        let is_item = before.is_empty() || before.starts_with("pub");
        if let Some(end) = source.code[at..].find(';').filter(|_| is_item) {
            items.push(line + (source.code[line..at].len() - source.code[line..at].trim_start().len())..at + end + 1);
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_the_runtime_become_those_of_the_sdk() {
        let text = "use futures::{StreamExt, TryStreamExt};\nuse kube::{\n    Client, ResourceExt,\n    api::{Api, Patch as P},\n    runtime::{\n        \
                    controller::{Action, Controller},\n        events::{Event, Recorder, Reporter},\n        finalizer::{finalizer, Event as \
                    Finalizer},\n        watcher::Config,\n    },\n};\nuse std::sync::Arc;\nuse tracing_subscriber::fmt;\n\nfn f(c: Client, s: \
                    TryStreamExt, e: kube::runtime::finalizer::Error<E>) {}\n";
        let mut findings = Vec::new();
        let made = rewritten("src/a.rs", text, &mut findings);
        let wanted = "use futures::TryStreamExt;\nuse kube::Client;\nuse kube::ResourceExt;\nuse kube::api::Api;\nuse kube::api::Patch as P;\nuse \
                      operetta_sdk::kube_rs::controller::Action;\nuse operetta_sdk::kube_rs::events::Event;\nuse \
                      operetta_sdk::kube_rs::events::Recorder;\nuse operetta_sdk::kube_rs::finalizer::finalizer;\nuse \
                      operetta_sdk::kube_rs::finalizer::Event as Finalizer;\nuse std::sync::Arc;\n\nfn f(c: Client, s: TryStreamExt, e: \
                      operetta_sdk::kube_rs::finalizer::Error<E>) {}\n";
        assert_eq!(made, wanted);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].place == "src/a.rs:2" && findings[0].text.starts_with("`Reporter`"), "{findings:?}");
    }

    #[test]
    fn other_imports_stay_as_they_are() {
        let text = "use kube::{Client, api::Api};\npub use crate::{a, b};\n\nfn f(c: Client) {}\n";
        assert_eq!(rewritten("src/a.rs", text, &mut Vec::new()), text);
        assert_eq!(
            rewritten("a.rs", "use kube::runtime::finalizer;\n", &mut Vec::new()),
            "use operetta_sdk::kube_rs::finalizer::{self, finalizer};\n"
        );
    }
}

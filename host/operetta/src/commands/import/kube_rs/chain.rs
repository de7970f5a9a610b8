//! The expressions `Controller::new(api, config)….run(reconcile, error_policy, context)`, and the functions around them.

use std::ops::Range;

use anyhow::{Result, bail};

use super::note;
use crate::commands::import::{source_text::SourceText, unsupported::Finding};

const NEW: &str = "Controller::new(";

/// The methods whose task the host has.
const NOT_NEEDED: &[&str] = &["shutdown_on_signal", "graceful_shutdown_on"];

/// A function that runs controllers, and the ones that take its place.
#[derive(Debug)]
pub struct Found {
    /// The range of the function in the file.
    range: Range<usize>,
    /// The names of the functions that return the controllers.
    pub functions: Vec<String>,
    /// Their text.
    text: String,
}

impl Found {
    /// Returns the file with the functions replaced.
    pub fn replace_in(text: &str, found: &[Self]) -> String {
        let mut replaced = text.to_owned();
        for one in found.iter().rev() {
            replaced.replace_range(one.range.clone(), &one.text);
        }
        replaced
    }
}

/// A call in a chain of methods.
struct Call {
    name: String,
    args: Vec<Range<usize>>,
    at: usize,
}

/// Finds the functions of a file that run controllers.
///
/// # Errors
/// Returns an error if such a function is in a module or an impl, or its controller is not run there.
pub fn replaced(file: &str, text: &str, own_namespace: bool, findings: &mut Vec<Finding>) -> Result<Vec<Found>> {
    let source = SourceText::rust(text.to_owned());
    let mut found: Vec<Found> = Vec::new();
    let mut count = 0;
    for at in source.find(NEW) {
        let place = format!("{file}:{}", source.line(at));
        let Some(function) = functions(&source).into_iter().find(|range| range.contains(&at)) else {
            bail!("{place}: the controller is created in no function at the top of the file: move it into one");
        };
        let calls = chain(&source, at);
        let Some(run) = calls.iter().find(|call| call.name == "run" && call.args.len() == 3) else {
            bail!(
                "{place}: `.run(reconcile, error_policy, context)` does not follow `Controller::new`: chain the calls"
            );
        };
        count += 1;
        let name = if count == 1 { "operetta_controller".to_owned() } else { format!("operetta_controller_{count}") };
        let controller = Chain { file, source: &source, function: function.clone(), calls: &calls, own_namespace };
        let body = controller.render(run, findings);
        let text = format!("pub(crate) fn {name}() -> operetta_sdk::Controller {{\n{body}}}\n");
        match found.last_mut().filter(|last| last.range == function) {
            Some(last) => {
                last.text += &format!("\n{text}");
                last.functions.push(name);
            }
            None => found.push(Found { range: function, functions: vec![name], text }),
        }
    }
    Ok(found)
}

/// Returns the file without its function `main`.
pub fn without_main(text: &str) -> String {
    let source = SourceText::rust(text.to_owned());
    let is_main = |range: &Range<usize>| source.find("fn main(").iter().any(|at| range.contains(at));
    match functions(&source).into_iter().find(is_main) {
        Some(range) => format!("{}{}", &text[..range.start], text[range.end..].trim_start_matches('\n')),
        None => text.to_owned(),
    }
}

/// Returns the functions at the top of a file, with their attributes and comments.
fn functions(source: &SourceText) -> Vec<Range<usize>> {
    let mut functions: Vec<Range<usize>> = Vec::new();
    for at in source.find("fn") {
        let is_at_top = {
            let before = &source.code[..at];
            before.matches('{').count() == before.matches('}').count()
        };
        let open = source.code[at..].find('{').map(|open| at + open);
        if let Some(end) = open.filter(|_| is_at_top).and_then(|open| source.closing(open)) {
            let end = if source.code[end..].starts_with('\n') { end + 1 } else { end };
            functions.push(item_start(source, at)..end);
        }
    }
    functions
}

/// Returns the beginning of the item of a word: that of its line, or of the attributes and comments before it.
fn item_start(source: &SourceText, at: usize) -> usize {
    let line_start = |at: usize| source.part(0..at).rfind('\n').map_or(0, |newline| newline + 1);
    let mut start = line_start(at);
    while start > 0 {
        let before = line_start(start - 1);
        let line = source.part(before..start).trim();
        if !(line.starts_with("#[") || line.starts_with("///")) {
            break;
        }
        start = before;
    }
    start
}

/// Returns the calls of the chain that begins with `Controller::new(`.
fn chain(source: &SourceText, at: usize) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut name = "new".to_owned();
    let mut open = at + NEW.len() - 1;
    while let Some(end) = source.closing(open) {
        calls.push(Call { name, args: arguments(source, open + 1..end - 1), at: open });
        let is_last = calls.last().is_some_and(|call: &Call| call.name == "run");
        let rest = if is_last { "" } else { &source.code[end..] };
        let Some(method) = rest.trim_start().strip_prefix('.') else { break };
        let Some((word, _)) = method.split_once('(') else { break };
        let word = word.split("::").next().unwrap_or_default().trim();
        if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            break;
        }
        name = word.to_owned();
        open = end + rest.find('(').unwrap_or_default();
    }
    calls
}

/// Splits arguments at the commas outside of brackets.
fn arguments(source: &SourceText, range: Range<usize>) -> Vec<Range<usize>> {
    let mut arguments = Vec::new();
    let mut start = range.start;
    let mut depth = 0_usize;
    for at in range.clone() {
        match source.code.as_bytes()[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                arguments.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    arguments.push(start..range.end);
    arguments.retain(|argument| !source.part(argument.clone()).trim().is_empty());
    arguments
}

/// A chain that runs a controller.
struct Chain<'a> {
    file: &'a str,
    source: &'a SourceText,
    /// The function around it.
    function: Range<usize>,
    calls: &'a [Call],
    own_namespace: bool,
}

impl Chain<'_> {
    fn text(&self, range: &Range<usize>) -> &str {
        self.source.part(range.clone()).trim()
    }

    /// Returns the controller of the SDK.
    fn render(&self, run: &Call, findings: &mut Vec<Finding>) -> String {
        let [reconcile, error_policy, context] = run.args.as_slice() else { return String::new() };
        let kind = self.reconciled(self.text(reconcile));
        let name = kind.to_lowercase();
        let context = self.context(context, run.at, findings);
        let mut text = format!(
            "    operetta_sdk::Controller::kube({name:?}, {}, {}, |ctx| {{\n{context}    }})\n",
            self.text(reconcile),
            self.text(error_policy)
        );
        for call in self.calls {
            if let Some(line) = self.method(call, &kind, findings) {
                text += &format!("    {line}\n");
            }
        }
        if self.own_namespace {
            text += "    .own_namespace()\n";
        }
        text
    }

    /// Returns the SDK's method for one of kube-rs.
    fn method(&self, call: &Call, kind: &str, findings: &mut Vec<Finding>) -> Option<String> {
        let source = |of: &str, config: &Range<usize>| {
            let selectors = selectors(self.source, config)?;
            Some(format!("operetta_sdk::Source::resource::<{of}>(){selectors}"))
        };
        let translated = match (call.name.as_str(), call.args.as_slice()) {
            ("run", _) => return None,
            (name, _) if NOT_NEEDED.contains(&name) => return None,
            ("new", [_, config]) => match selectors(self.source, config) {
                Some(selectors) if selectors.is_empty() => return None,
                Some(_) => source(kind, config).map(|source| format!(".for_source({source})")),
                None => None,
            },
            ("owns", [api, config]) => self
                .type_of(api)
                .and_then(|owned| source(&owned, config))
                .map(|source| format!(".owns_source({source})")),
            ("with_config", [config]) => concurrency(self.text(config)).map(|workers| format!(".workers({workers})")),
            _ => None,
        };
        if translated.is_none() {
            let about = format!("`.{}(…)` of the controller: see docs/from-kube-rs.md for the SDK's method", call.name);
            note(findings, self.file, self.source, call.at, about);
        }
        translated
    }

    /// Returns the kind of the first argument of the reconciler: `Arc<Kind>`.
    fn reconciled(&self, path: &str) -> String {
        let function = path.rsplit("::").next().unwrap_or(path);
        let declared = self.source.find(&format!("fn {function}(")).first().map(|at| &self.source.code[*at..]);
        let declared = declared.and_then(|text| text.split_once("Arc<")).and_then(|(_, rest)| rest.split_once('>'));
        let kind = declared.map(|(kind, _)| kind.rsplit("::").next().unwrap_or(kind).trim().to_owned());
        kind.or_else(|| self.calls.first().and_then(|call| self.type_of(call.args.first()?)))
            .unwrap_or_else(|| function.to_owned())
    }

    /// Returns `T` of an argument of the type `Api<T>`.
    fn type_of(&self, argument: &Range<usize>) -> Option<String> {
        let text = self.text(argument);
        let generic = |text: &str, before: &str| {
            let (_, rest) = text.split_once(before)?;
            Some(rest.split_once('>')?.0.trim().to_owned())
        };
        generic(text, "Api::<").or_else(|| {
            let variable = text.trim_start_matches('&').trim_end_matches(".clone()");
            let function = &self.source.code[self.function.clone()];
            generic(function, &format!("let {variable}: Api<"))
                .or_else(|| generic(function, &format!("let {variable} = Api::<")))
                .or_else(|| generic(function, &format!("{variable}: Api<")))
        })
    }

    /// Returns the body of the closure that makes the context.
    fn context(&self, argument: &Range<usize>, at: usize, findings: &mut Vec<Finding>) -> String {
        let function = &self.source.code[self.function.clone()];
        let declared = |variable: &str| {
            let begin = function.find(&format!("let {variable} = Arc::new("))?;
            let open = self.function.start + begin + function[begin..].find('(')?;
            Some(open + 1..self.source.closing(open)? - 1)
        };
        let text = self.text(argument);
        let inner = match text.strip_prefix("Arc::new(").filter(|_| text.ends_with(')')) {
            Some(_) => {
                let open = argument.start + self.source.part(argument.clone()).find('(').unwrap_or_default();
                Some(open + 1..self.source.closing(open).unwrap_or(argument.end) - 1)
            }
            None => declared(text.trim_end_matches(".clone()")),
        };
        let Some(inner) = inner else {
            note(
                findings,
                self.file,
                self.source,
                at,
                format!("the context `{text}`: construct it in the closure of `Controller::kube`"),
            );
            return format!("        {text}\n");
        };
        let client = client_of(function);
        let shorthand = self.source.names(inner.clone());
        let is_unknown = |name: &&&str| {
            let is_variable = name.starts_with(|first: char| first.is_ascii_lowercase());
            is_variable && **name != client && !is_path(self.source, &inner, name)
        };
        for name in shorthand.iter().filter(is_unknown) {
            let about = format!("the variable `{name}`: define it in the closure of `Controller::kube`");
            note(findings, self.file, self.source, at, about);
        }
        let expression = self.text(&inner).replace('\n', "\n    ");
        if shorthand.contains(&client.as_str()) {
            format!("        let {client} = ctx.kube_client();\n        {expression}\n")
        } else {
            format!("        let _ = ctx;\n        {expression}\n")
        }
    }
}

/// Reports whether a name of an expression begins a path or is called: it is no variable.
fn is_path(source: &SourceText, range: &Range<usize>, name: &str) -> bool {
    let code = &source.code[range.clone()];
    ["::", "(", "!"].iter().any(|after| code.contains(&format!("{name}{after}"))) || code.contains(&format!("::{name}"))
}

/// Returns the name of the variable with kube-rs's client.
fn client_of(function: &str) -> String {
    let declared = function.find("Client::try_default").map(|at| &function[..at]);
    let name = declared.and_then(|text| text.rsplit("let ").next()).and_then(|text| text.split([':', '=', ' ']).next());
    name.filter(|name| !name.is_empty()).unwrap_or("client").to_owned()
}

/// Returns the selectors of a `watcher::Config` as methods of the SDK's `Source`; None if it has other settings.
fn selectors(source: &SourceText, config: &Range<usize>) -> Option<String> {
    let text: String = source.part(config.clone()).trim().to_owned();
    let text = text.strip_prefix("watcher::").unwrap_or(&text);
    let text = text.strip_prefix("kube::runtime::watcher::").unwrap_or(text);
    let mut rest = text.strip_prefix("Config::default()")?.trim();
    let mut selectors = String::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(".any_semantic()").unwrap_or(rest).trim();
        let Some(name) = ["labels", "fields"].iter().find(|name| rest.starts_with(&format!(".{name}("))) else {
            return rest.is_empty().then_some(selectors);
        };
        let (argument, after) = rest[name.len() + 2..].split_once(')')?;
        selectors += &format!(".{name}({})", argument.trim());
        rest = after.trim();
    }
    Some(selectors)
}

/// Returns the argument of `Config::default().concurrency(N)`.
fn concurrency(config: &str) -> Option<&str> {
    let (_, rest) = config.split_once("Config::default()")?;
    let number = rest.trim().strip_prefix(".concurrency(")?.strip_suffix(')')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> (String, Vec<String>) {
        let mut findings = Vec::new();
        let found = replaced("src/x.rs", text, false, &mut findings).expect("found");
        let findings = findings.into_iter().map(|finding| format!("{}: {}", finding.place, finding.text)).collect();
        (Found::replace_in(text, &found), findings)
    }

    #[test]
    fn run_becomes_a_controller_of_the_sdk() {
        let text = "async fn reconcile(foo: Arc<Foo>, ctx: Arc<Data>) -> Result<Action> { todo }\n\n/// Runs it.\npub async fn run() {\n    \
                    let client = Client::try_default().await?;\n    let foos = Api::<Foo>::all(client.clone());\n    let maps: \
                    Api<ConfigMap> = Api::all(client.clone());\n    Controller::new(foos, watcher::Config::default())\n        \
                    .owns(maps, watcher::Config::default().labels(\"a=b\"))\n        .with_config(Config::default().concurrency(3))\n        \
                    .shutdown_on_signal()\n        .run(reconcile, error_policy, Arc::new(Data { client }))\n        .for_each(|_| async {})\n        \
                    .await;\n}\n\nstruct X;\n";
        let (made, findings) = one(text);
        assert_eq!(findings, [""; 0]);
        let function = "pub(crate) fn operetta_controller() -> operetta_sdk::Controller {\n    operetta_sdk::Controller::kube(\"foo\", \
                        reconcile, error_policy, |ctx| {\n        let client = ctx.kube_client();\n        Data { client }\n    })\n    \
                        .owns_source(operetta_sdk::Source::resource::<ConfigMap>().labels(\"a=b\"))\n    .workers(3)\n}\n";
        assert!(made.contains(function), "{made}");
        assert!(!made.contains("Runs it") && made.ends_with("}\n\nstruct X;\n"), "{made}");
    }

    #[test]
    fn methods_and_variables_without_a_counterpart_are_listed() {
        let text = "fn run() {\n    Controller::new(foos, Config::default().page_size(5))\n        .watches(a, b, |x| None)\n        \
                    .run(reconcile, policy, Arc::new(Data { client, metrics }));\n}\n";
        let (_, findings) = one(text);
        for part in [
            "src/x.rs:2: `.new(…)` of the controller",
            "src/x.rs:3: `.watches(…)` of the controller",
            "src/x.rs:4: the variable `metrics`: define it",
        ] {
            assert!(findings.iter().any(|finding| finding.starts_with(part)), "{part}: {findings:?}");
        }
    }

    #[test]
    fn controller_outside_of_a_plain_function_is_refused() {
        for (text, part) in [
            (
                "impl X { fn run() { Controller::new(a, b).run(c, d, e); } }",
                "src/x.rs:1: the controller is created in no function",
            ),
            ("fn run() {\n let c = Controller::new(a, b);\n c.run(c, d, e); }", "src/x.rs:2: `.run(reconcile"),
        ] {
            let error = replaced("src/x.rs", text, false, &mut Vec::new()).expect_err("refused").to_string();
            assert!(error.starts_with(part), "{error}");
        }
    }

    #[test]
    fn main_is_left_out_with_its_attributes() {
        let text =
            "use a;\n\n/// Main.\n#[tokio::main]\nasync fn main() -> Result<()> {\n    x().await\n}\n\nfn other() {}\n";
        assert_eq!(without_main(text), "use a;\n\nfn other() {}\n");
    }
}

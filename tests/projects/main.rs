//! A new project in each language builds, passes its tests and runs, by the very commands in its
//! README.

mod adopt;
mod component;
mod dev;
mod dev_cluster;
mod dev_interpreted;
mod fast;
mod process;
mod tutorials;

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Output},
    time::{Duration, Instant},
};

use operetta_testkit::{ControlPlane, Host, HostOptions, Kind, kinds, shell};
use serde_json::json;
use tokio::sync::OnceCell;

/// The host of this test program.
async fn host() -> &'static Host {
    static HOST: OnceCell<Host> = OnceCell::const_new();
    let start = async || Host::shared(ControlPlane::shared().await, &HostOptions::default()).await;
    HOST.get_or_init(start).await
}

/// The folder is inside the repository, so that the repository's rust-toolchain.toml holds for the
/// projects as well.
fn folder() -> PathBuf {
    repository().join("target/new-projects")
}

fn repository() -> PathBuf {
    operetta_testkit::repository()
}

/// The environment in which `operetta` finds the code that the host has compiled, and other tools
/// their own caches.
fn caches() -> Vec<(&'static str, PathBuf)> {
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    vec![
        ("XDG_CACHE_HOME", repository().join("target/test-cache")),
        ("PIP_CACHE_DIR", home.join(".cache/pip")),
        ("GOCACHE", home.join(".cache/go-build")),
        ("npm_config_cache", home.join(".npm")),
    ]
}

/// A project that `operetta new` has just made.
struct Project {
    dir: PathBuf,
    kubeconfig: PathBuf,
}

impl Project {
    /// Makes it, in place of the one of an earlier run.
    fn new(lang: &str, name: &str, kind: &str) -> Self {
        Self::new_in(lang, lang, name, kind)
    }

    /// Makes it in a folder of its own.
    fn new_in(folder_name: &str, lang: &str, name: &str, kind: &str) -> Self {
        let folder = folder().join(folder_name);
        let _not_there = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let dir = folder.join(name);
        let project = Self {
            dir,
            kubeconfig: folder.join("kubeconfig"),
        };

        let args = [
            "new",
            name,
            "--lang",
            lang,
            "--group",
            "new.example.com",
            "--version",
            "v1",
            "--kind",
            kind,
        ];

        succeeded(
            "operetta new",
            &Command::new(operetta_testkit::program("operetta"))
                .args(args)
                .current_dir(&folder)
                .output()
                .expect("starts"),
        );

        if lang == "rust" {
            // The versions that the repository was tested with.
            fs::copy(
                repository().join("Cargo.lock"),
                project.dir.join("Cargo.lock"),
            )
            .expect("a lock file");
        }

        project
    }

    /// Runs a line of its README.
    fn run(&self, line: &str) -> String {
        let mut command = shell(
            &[&operetta_testkit::program("operetta")],
            &self.kubeconfig,
            line,
        );
        command
            .current_dir(&self.dir)
            .env("OPERETTA_TOOLS", repository().join("target/tools"));

        // A run uses what the one before compiled.
        command.env("CARGO_TARGET_DIR", folder().join("target"));
        command.envs(caches());

        for variable in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "NODE_OPTIONS",
            "VIRTUAL_ENV",
            "PYTHONPATH",
        ] {
            command.env_remove(variable);
        }

        succeeded(line, &command.output().expect("bash starts"))
    }

    fn readme(&self) -> String {
        fs::read_to_string(self.dir.join("README.md")).expect("README.md")
    }
}

/// The lines of a README's console blocks, without prompts and notes.
fn commands(readme: &str, heading: &str) -> Vec<String> {
    let section = readme
        .split("\n## ")
        .find(|section| section.starts_with(heading))
        .expect("the section");

    let lines = section.lines().filter_map(|line| line.strip_prefix("$ "));
    lines
        .map(|line| {
            line.split("  #")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        })
        .collect()
}

fn succeeded(what: &str, output: &Output) -> String {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());

    assert!(
        output.status.success(),
        "{what}: {}\n{out}\n{err}",
        output.status
    );
    out
}

/// Prints past the test runner, which shows what a test prints only when it fails.
fn say(text: &str) {
    let _nobody_reads = writeln!(std::io::stderr(), "{text}");
}

/// The whole way from `operetta new` to an object that the plugin has reconciled; says how long its
/// parts took.
async fn builds_tests_and_runs(lang: &str, kind: &'static str) {
    let name = format!("new-{lang}");

    let started = Instant::now();
    let project = Project::new(lang, &name, kind);
    let mut took = vec![("operetta new".to_owned(), started.elapsed())];

    for line in commands(&project.readme(), "Build and test") {
        let started = Instant::now();
        project.run(&line);
        took.push((line, started.elapsed()));
    }

    match lang {
        // The files in the template are what the types say.
        "rust" | "ts" => assert_eq!(
            project.run("operetta generate"),
            "./crd.yaml is up to date\n"
        ),
        _ => {
            let output = Command::new(operetta_testkit::program("operetta"))
                .arg("generate")
                .arg(&project.dir)
                .output()
                .expect("starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.code() == Some(1) && said.contains("is written by hand"),
                "{said}"
            );
        }
    }

    if lang == "rust" {
        let size = fs::metadata(project.dir.join(format!("build/{name}.wasm")))
            .expect("a component")
            .len();
        assert!(
            size <= 256 << 10,
            "{size} bytes: see docs/decisions/0033-size-of-rust-plugins.md"
        );
    }

    let host = host().await;
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace(&name).await;
    fs::copy(control_plane.kubeconfig(), &project.kubeconfig).expect("a kubeconfig");
    project.run(&format!(
        "kubectl config set-context --current --namespace {}",
        namespace.name()
    ));

    // The rights that it declares are those that its rbac.yaml gives, and the API server accepts
    // them.
    project.run(&format!(
        "operetta generate rbac build/{name}.wasm | kubectl apply --dry-run=server -f -"
    ));

    let started = Instant::now();
    for line in commands(&project.readme(), "Run")
        .iter()
        .filter(|line| !line.ends_with(" -f"))
    {
        project.run(line);
    }

    let has_message = |map: &serde_json::Value| match map["data"]["message"].as_str() {
        Some("Hello") => Ok(()),
        other => Err(format!("the message is {other:?}")),
    };

    let sample = format!("{name}-sample");
    namespace
        .until(kinds::CONFIG_MAP, &sample, has_message)
        .await;
    let names_it = |object: &serde_json::Value| match object["status"]["configMap"].as_str() {
        Some(named) if named == sample => Ok(()),
        other => Err(format!("the status names {other:?}")),
    };
    namespace
        .until(Kind("new.example.com/v1", kind), &sample, names_it)
        .await;

    took.push((
        "apply, until it is reconciled".to_owned(),
        started.elapsed(),
    ));

    namespace
        .until_event(Kind("new.example.com/v1", kind), &sample, "Written")
        .await;

    // The sample did not take over the ConfigMap with the plugin's code.
    let code = namespace
        .get(kinds::CONFIG_MAP, &name)
        .await
        .expect("the plugin");
    assert_eq!(
        (&code["data"], &code["metadata"]["ownerReferences"]),
        (&json!(null), &json!(null)),
        "{name}"
    );

    host.assert_sound();
    let whole: Duration = took.iter().map(|(_, took)| *took).sum();
    let parts: Vec<_> = took
        .iter()
        .map(|(what, took)| format!("{what}: {:.1} s", took.as_secs_f64()))
        .collect();
    say(&format!(
        "{lang}: from nothing to the first reconcile in {:.1} s ({})",
        whole.as_secs_f64(),
        parts.join(", ")
    ));
}

/// The settings of a profile and of its packages, without the name of the profile.
fn settings(manifest: &str, profile: &str) -> Vec<String> {
    let mut inside = false;
    let mut settings = Vec::new();

    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.starts_with(&format!("[profile.{profile}"));
        }

        if inside && !line.is_empty() && !line.starts_with('#') && !line.starts_with("inherits") {
            settings.push(line.replace(&format!("profile.{profile}"), "profile"));
        }
    }

    settings
}

#[test]
fn a_new_project_is_compiled_as_the_guests_here() {
    let read = |path: &str| fs::read_to_string(repository().join(path)).expect(path);
    let guests = settings(&read("Cargo.toml"), "guest");
    assert!(guests.len() > 5, "{guests:?}");
    assert_eq!(
        settings(&read("cli/templates/rust/Cargo.toml"), "release"),
        guests
    );
}

#[tokio::test]
async fn a_new_project_in_rust_builds_tests_and_runs() {
    builds_tests_and_runs("rust", "RustGreeting").await;
}

#[tokio::test]
async fn a_new_project_in_go_builds_tests_and_runs() {
    builds_tests_and_runs("go", "GoGreeting").await;
}

#[tokio::test]
async fn a_new_project_in_typescript_builds_tests_and_runs() {
    builds_tests_and_runs("ts", "TsGreeting").await;
}

#[tokio::test]
async fn a_new_project_in_python_builds_tests_and_runs() {
    builds_tests_and_runs("python", "PythonGreeting").await;
}

#[tokio::test]
async fn a_new_project_in_c_builds_tests_and_runs() {
    builds_tests_and_runs("c", "CGreeting").await;
}

#[tokio::test]
async fn new_project_in_cpp_builds_tests_and_runs() {
    builds_tests_and_runs("cpp", "CppGreeting").await;
}

#[tokio::test]
async fn new_project_in_zig_builds_tests_and_runs() {
    builds_tests_and_runs("zig", "ZigGreeting").await;
}

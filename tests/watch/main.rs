//! `operetta watch` beside `kubectl get --watch`, on a real API server: they print the same, until
//! the API server is away.
//!
//! The test that kills it (outage.rs) has a control plane of its own; all others share one.

mod informers;
mod outage;
mod top;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use operetta_testkit::{ControlPlane, Kind, TestNamespace, eventually, kinds};
use serde_json::{Value, json};

/// A command that goes on printing. Dropping it ends it.
struct Watching {
    process: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Watching {
    fn start(mut command: Command, folder: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let at = COUNT.fetch_add(1, Ordering::Relaxed);
        let [stdout, stderr] = ["out", "err"]
            .map(|ending| folder.join(format!("watch-{}-{at}.{ending}", std::process::id())));
        let file = |path: &Path| File::create(path).expect("a file");

        let process = command
            .stdin(Stdio::null())
            .stdout(file(&stdout))
            .stderr(file(&stderr))
            .spawn();

        Self {
            process: process.expect("it starts"),
            stdout,
            stderr,
        }
    }

    /// `operetta watch`.
    fn operetta(control_plane: &ControlPlane, args: &[&str]) -> Self {
        Self::start(
            operetta(control_plane.kubeconfig(), args),
            control_plane.folder(),
        )
    }

    /// `kubectl get --watch`.
    fn kubectl(control_plane: &ControlPlane, args: &[&str]) -> Self {
        Self::start(
            kubectl(control_plane, control_plane.kubeconfig(), args),
            control_plane.folder(),
        )
    }

    fn printed(&self) -> String {
        fs::read_to_string(&self.stdout).expect("its output")
    }

    fn complained(&self) -> String {
        fs::read_to_string(&self.stderr).expect("its errors")
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.process.id().to_string()])
            .status();
        assert!(
            sent.is_ok_and(|sent| sent.success()),
            "it is over: {}",
            self.complained()
        );
    }

    /// Waits until it has printed this many lines.
    async fn until_lines(&mut self, count: usize) -> Vec<String> {
        self.until(&format!("{count} lines"), |lines| lines.len() >= count)
            .await
    }

    /// Waits until what it printed is as wanted.
    async fn until(&mut self, what: &str, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        eventually(what, async || {
            let text = self.printed();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let ended = self.process.try_wait().expect("a process");
            if wanted(&lines) {
                Ok(lines)
            } else {
                Err(format!("{ended:?} {text}\n{}", self.complained()))
            }
        })
        .await
    }

    async fn until_end(&mut self) -> ExitStatus {
        eventually("it ends", async || {
            self.process
                .try_wait()
                .expect("a process")
                .ok_or(self.printed())
        })
        .await
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _already_over = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn operetta(kubeconfig: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(operetta_testkit::program("operetta"));
    command
        .arg("watch")
        .args(args)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env("RUST_BACKTRACE", "0");
    command
}

fn kubectl(control_plane: &ControlPlane, kubeconfig: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(control_plane.kubectl_path());
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["get", "--watch"])
        .args(args);
    command
}

/// Both, with the same arguments.
struct Both {
    ours: Watching,
    kubectls: Watching,
}

impl Both {
    fn start(control_plane: &ControlPlane, args: &[&str]) -> Self {
        Self {
            ours: Watching::operetta(control_plane, args),
            kubectls: Watching::kubectl(control_plane, args),
        }
    }

    /// Waits until both have printed this many lines, which are the same except for the columns of
    /// ages.
    async fn until_same(&mut self, count: usize) -> Vec<String> {
        let ours = without_ages(&self.ours.until_lines(count).await);
        let kubectls = without_ages(&self.kubectls.until_lines(count).await);
        assert_eq!(ours, kubectls, "ours, kubectl's");
        ours
    }
}

/// Replaces ages in seconds wherever they stand, and for those in the last column the blanks before
/// them.
fn without_ages(lines: &[String]) -> Vec<String> {
    let is_age = |word: &str| {
        word.len() > 1 && word.ends_with('s') && word[..word.len() - 1].parse::<u32>().is_ok()
    };

    let cut = |line: &String| {
        let words = line
            .split(' ')
            .map(|word| if is_age(word) { "?s" } else { word });
        words
            .collect::<Vec<_>>()
            .join(" ")
            .trim_end_matches("?s")
            .trim_end()
            .to_owned()
    };
    lines.iter().map(cut).collect()
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "web"}}, "data": data})
}

/// What both print of ConfigMaps that come, change, leave the selector, come back and go.
async fn a_life(namespace: &TestNamespace<'_>, both: &mut Both, mut lines: usize) -> Vec<String> {
    let kind = kinds::CONFIG_MAP;
    namespace
        .create_object(kind, config_map("later", json!({"a": "1"})))
        .await;
    lines += 1;
    both.until_same(lines).await;

    namespace
        .patch(kind, "later", json!({"data": {"b": "2", "c": "3"}}))
        .await;
    lines += 1;
    both.until_same(lines).await;

    namespace
        .patch(
            kind,
            "later",
            json!({"metadata": {"labels": {"app": "other"}}}),
        )
        .await;
    lines += 1;
    both.until_same(lines).await;

    namespace
        .patch(
            kind,
            "later",
            json!({"metadata": {"labels": {"app": "web"}}}),
        )
        .await;
    lines += 1;
    both.until_same(lines).await;

    namespace.delete(kind, "later").await;
    lines += 1;
    both.until_same(lines).await
}

#[tokio::test]
async fn each_change_is_printed_as_kubectl_prints_it() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("watch").await;
    namespace
        .create_object(
            kinds::CONFIG_MAP,
            config_map("a-name-that-is-long", json!({})),
        )
        .await;
    namespace
        .create_object(
            kinds::CONFIG_MAP,
            json!({"metadata": {"name": "unlabelled"}}),
        )
        .await;

    let args = [
        "cm",
        "-n",
        namespace.name(),
        "-l",
        "app=web",
        "--output-watch-events",
    ];

    let mut both = Both::start(control_plane, &args);
    both.until_same(2).await;
    let lines = a_life(&namespace, &mut both, 2).await;

    let events: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        events,
        [
            "EVENT", "ADDED", "ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"
        ]
    );

    assert_eq!(both.ours.complained(), "");
}

/// Objects, or events, without managedFields.
fn documents(format: &str, lines: &[String]) -> Vec<Value> {
    let text = lines.join("\n");
    let parse = |text: &str| -> Value {
        let parsed = if format == "json" {
            serde_json::from_str(text).map_err(|error| error.to_string())
        } else {
            serde_yaml_ng::from_str(text).map_err(|error| error.to_string())
        };
        parsed.unwrap_or_else(|error| panic!("{error}: {text}"))
    };

    let parts: Vec<&str> = if format == "json" {
        text.lines().collect()
    } else {
        text.split("\n---\n").collect()
    };

    let mut documents: Vec<Value> = parts.into_iter().map(parse).collect();
    for document in &mut documents {
        let object = if document["object"].is_object() {
            &mut document["object"]
        } else {
            document
        };
        object["metadata"]
            .as_object_mut()
            .expect("metadata")
            .remove("managedFields");
    }
    documents
}

#[tokio::test]
async fn every_output_format_is_kubectl_s() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("formats").await;
    let there = json!({"text": "two\nlines", "number": "1"});
    namespace
        .create_object(kinds::CONFIG_MAP, config_map("there", there))
        .await;

    for format in ["json", "yaml", "name", "wide"] {
        for more in [&[][..], &["--output-watch-events"], &["--watch-only"]] {
            let args = [
                &[
                    "configmap",
                    "-n",
                    namespace.name(),
                    "-l",
                    "app=web",
                    "-o",
                    format,
                ],
                more,
            ]
            .concat();
            let mut both = Both::start(control_plane, &args);
            if more == ["--watch-only"] {
                // Nothing shows that a watch without objects has begun.
                tokio::time::sleep(Duration::from_secs(3)).await;
            } else {
                for watching in [&mut both.ours, &mut both.kubectls] {
                    watching
                        .until("the first object", |lines| {
                            lines.iter().any(|line| line.contains("there"))
                        })
                        .await;
                }
            }

            namespace
                .create_object(kinds::CONFIG_MAP, config_map("later", json!({"a": "1"})))
                .await;

            let [mut ours, mut kubectls] = [vec![], vec![]];
            for (watching, lines) in [
                (&mut both.ours, &mut ours),
                (&mut both.kubectls, &mut kubectls),
            ] {
                watching
                    .until("the second one", |lines| {
                        lines.iter().any(|line| line.contains("later"))
                    })
                    .await;
                // kubectl may write an object in pieces.
                tokio::time::sleep(Duration::from_millis(300)).await;
                *lines = watching.until_lines(1).await;
            }

            if format == "yaml" || (format == "json" && more == ["--output-watch-events"]) {
                // They quote texts differently, and kubectl leaves managedFields in around events.
                let [ours, kubectls] = [ours, kubectls].map(|lines| documents(format, &lines));
                assert_eq!(ours, kubectls, "-o {format} {more:?}: ours, kubectl's");
            } else {
                let [ours, kubectls] = [ours, kubectls].map(|lines| without_ages(&lines));
                assert_eq!(ours, kubectls, "-o {format} {more:?}: ours, kubectl's");
            }

            namespace.delete(kinds::CONFIG_MAP, "later").await;
            namespace.until_gone(kinds::CONFIG_MAP, "later").await;
        }
    }
}

#[tokio::test]
async fn kind_names_are_kubectls() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("names").await;
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": template});
    let deployment =
        json!({"metadata": {"name": "web", "labels": {"test": "names"}}, "spec": spec});
    namespace.create_object(kinds::DEPLOYMENT, deployment).await;

    for kind in [
        "deploy",
        "Deployment",
        "deployments.apps",
        "deployment.v1.apps",
        "deployments.ap",
    ] {
        let mut both = Both::start(control_plane, &[kind, "-n", namespace.name()]);
        let lines = both.until_same(2).await;
        assert!(lines[1].starts_with("web"), "{lines:?}");
    }

    // Ours also takes short names in capitals.
    Watching::operetta(control_plane, &["DEPLOY", "-n", namespace.name()])
        .until_lines(2)
        .await;

    for args in [
        &["deploy", "-A", "-l", "test=names"][..],
        &[
            "deploy",
            "-A",
            "-l",
            "test=names",
            "-o",
            "wide",
            "--output-watch-events",
        ],
        &["deploy/web", "-n", namespace.name()],
        &["deploy", "web", "-n", namespace.name()],
        &[
            "deploy",
            "-A",
            "--field-selector",
            "metadata.name=web",
            "-l",
            "test=names",
        ],
        &["ns", namespace.name()],
    ] {
        Both::start(control_plane, args).until_same(2).await;
    }
}

/// Runs a command that ends.
fn ended(mut command: Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

#[tokio::test]
async fn unwatchable_kind_fails_in_kubectls_words() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("refused").await;
    namespace.consenting("nobody").await;
    let nobody = control_plane.kubeconfig_of(namespace.name(), "nobody");
    let admin = control_plane.kubeconfig();

    for (kubeconfig, args, words) in [
        (
            admin,
            &["nothings"][..],
            "the server doesn't have a resource type \"nothings\"",
        ),
        (
            admin,
            &["nothings.v1.apps"],
            "the server doesn't have a resource type \"nothings\"",
        ),
        (
            admin,
            &["cm", "absent", "-n", namespace.name()],
            "configmaps \"absent\" not found",
        ),
        (
            admin,
            &["deploy", "absent", "-n", namespace.name()],
            "deployments.apps \"absent\" not found",
        ),
        (
            &nobody,
            &["secrets", "-A"],
            "secrets is forbidden: User \"system:serviceaccount:REFUSED:nobody\" cannot list resource \"secrets\" in API \
             group \"\" at the cluster scope",
        ),
        (
            admin,
            &["pods", "--field-selector", "spec.nothing=1"],
            "field label not supported: spec.nothing",
        ),
    ] {
        let words = words.replace("REFUSED", namespace.name());

        let (code, stdout, stderr) = ended(operetta(kubeconfig, args));
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{args:?}: {stderr}");
        assert!(
            stderr.contains(&words) && stderr.lines().count() == 1,
            "{args:?}: {stderr}"
        );

        let (_, _, kubectls) = ended(kubectl(control_plane, kubeconfig, args));
        assert!(kubectls.contains(&words), "{args:?}: {kubectls}");
    }

    for args in [
        &["pods", "-l", "a=b=c"][..],
        &["pods", "x", "-A"],
        &["pods", "-o", "tree"],
        &[],
    ] {
        let (code, _, stderr) = ended(operetta(admin, args));
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
    }

    let (code, _, stderr) = ended(operetta(admin, &["tokenreviews"]));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("tokenreviews"), "{stderr}");
}

#[tokio::test]
async fn a_signal_or_a_reader_who_goes_ends_it_quietly() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("ends").await;
    for signal in ["-INT", "-TERM"] {
        let mut watching = Watching::operetta(control_plane, &["cm", "-n", namespace.name()]);
        namespace
            .create_object(
                kinds::CONFIG_MAP,
                config_map(&signal.to_lowercase().replace('-', "x"), json!({})),
            )
            .await;
        watching.until_lines(2).await;
        watching.signal(signal);
        let ended = watching.until_end().await;
        assert_eq!(
            (ended.code(), watching.complained().as_str()),
            (Some(0), ""),
            "{signal}"
        );
    }

    let mut command = operetta(control_plane.kubeconfig(), &["cm", "-n", namespace.name()]);
    let mut process = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(process.stdout.take());

    let ended = eventually("it ends", async || {
        process.try_wait().expect("a process").ok_or(String::new())
    })
    .await;

    let output = process.wait_with_output().expect("it has ended");
    assert_eq!(
        (
            ended.code(),
            String::from_utf8_lossy(&output.stderr).as_ref()
        ),
        (Some(0), "")
    );
}

const GADGET: Kind = Kind("watch.operetta.dev/v1", "Gadget");

fn gadgets() -> String {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let columns = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Made Of", "type": "string", "jsonPath": ".spec.of", "priority": 1},
        {"name": "Ready", "type": "string", "jsonPath": ".status.ready"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);

    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
    });
    let names =
        json!({"kind": GADGET.1, "plural": "gadgets", "singular": "gadget", "shortNames": ["gd"]});

    let spec = json!({"group": "watch.operetta.dev", "scope": "Namespaced", "names": names, "versions": [version]});
    let meta = json!({"name": "gadgets.watch.operetta.dev"});
    let kind = "CustomResourceDefinition";
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": kind, "metadata": meta, "spec": spec})
        .to_string()
}

#[tokio::test]
async fn custom_resources_have_printer_columns() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("gadgets").await;
    control_plane.apply(&gadgets());
    control_plane.kubectl(&[
        "wait",
        "--for=condition=Established",
        "crd/gadgets.watch.operetta.dev",
    ]);
    namespace
        .create_object(
            GADGET,
            json!({"metadata": {"name": "one"}, "spec": {"size": 3, "of": "tin"}}),
        )
        .await;
    let mut plain = Both::start(control_plane, &["gd", "-n", namespace.name()]);
    let mut wide = Both::start(
        control_plane,
        &[
            "gadget.watch.operetta.dev",
            "-A",
            "-o",
            "wide",
            "--output-watch-events",
        ],
    );

    let lines = plain.until_same(2).await;
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["NAME", "SIZE", "READY", "AGE"]
    );
    wide.until_same(2).await;

    namespace
        .create_object(
            GADGET,
            json!({"metadata": {"name": "two"}, "spec": {"of": "a\nb"}}),
        )
        .await;
    plain.until_same(3).await;
    wide.until_same(3).await;

    namespace
        .patch(GADGET, "one", json!({"status": {"ready": "True"}}))
        .await;
    plain.until_same(4).await;
    wide.until_same(4).await;

    control_plane.kubectl(&["delete", "crd", "gadgets.watch.operetta.dev"]);
    let mut ours = wide.ours;
    let lines = ours
        .until("both are deleted", |lines| {
            lines
                .iter()
                .filter(|line| line.starts_with("DELETED"))
                .count()
                == 2
        })
        .await;
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("DELETED") && line.contains("tin")),
        "{lines:?}"
    );

    let ended = ours.until_end().await;
    assert_eq!(ended.code(), Some(1));
    let complained = ours.complained();
    assert!(
        complained.contains("the server does not serve gadgets.watch.operetta.dev any more"),
        "{complained}"
    );

    let deleted = ours
        .printed()
        .lines()
        .filter(|line| line.starts_with("DELETED"))
        .count();
    assert_eq!(deleted, 2, "each once: {}", ours.printed());
}

//! `operetta top` on a terminal of 80×24 and of 200×50, while the host, the API server, a
//! permission or a kind goes and comes back.
//!
//! `script` (util-linux) gives it a terminal, and `vt100` draws what it writes.

use std::{
    fs,
    io::{Read, Write},
    num::NonZero,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace, eventually, guest, kinds,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{GADGET, gadgets};

const SMALL: (u16, u16) = (24, 80);
const LARGE: (u16, u16) = (50, 200);

/// A terminal in which `operetta top` runs. Dropping it ends it.
struct Top {
    process: Child,
    keys: ChildStdin,
    terminal: Arc<Mutex<vt100::Parser>>,
    /// The file with the name of the terminal.
    tty: PathBuf,
}

/// Returns a number of rows or columns as the terminal takes it.
fn cells(number: u16) -> NonZero<u16> {
    NonZero::new(number).expect("not zero")
}

impl Top {
    fn start(
        control_plane: &ControlPlane,
        kubeconfig: &Path,
        (rows, columns): (u16, u16),
        args: &[&str],
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let at = COUNT.fetch_add(1, Ordering::Relaxed);
        let tty = control_plane
            .folder()
            .join(format!("top-{}-{at}.tty", std::process::id()));

        let inside = format!(
            "tty > {}; stty rows {rows} cols {columns}; {} top --kubeconfig {} {}; echo ended with $?",
            tty.display(),
            operetta_testkit::program("operetta").display(),
            kubeconfig.display(),
            args.join(" ")
        );

        let mut process = Command::new("script")
            .args(["--quiet", "--flush", "--command", &inside, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script of util-linux");
        let keys = process.stdin.take().expect("a pipe");
        let mut output = process.stdout.take().expect("a pipe");

        let terminal = Arc::new(Mutex::new(vt100::Parser::new(
            cells(rows),
            cells(columns),
            0,
        )));

        let drawn = terminal.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                drawn.lock().process(&bytes[..count]);
            }
        });

        Self {
            process,
            keys,
            terminal,
            tty,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it reads keys");
    }

    fn resize(&self, (rows, columns): (u16, u16)) {
        let tty = fs::read_to_string(&self.tty).expect("the name of the terminal");
        self.terminal
            .lock()
            .screen_mut()
            .set_size(cells(rows), cells(columns));

        let size = [
            "rows".to_owned(),
            rows.to_string(),
            "cols".to_owned(),
            columns.to_string(),
        ];

        let done = Command::new("stty")
            .arg("-F")
            .arg(tty.trim())
            .args(size)
            .status();
        assert!(done.is_ok_and(|status| status.success()), "stty failed");
    }

    fn screen(&self) -> String {
        self.terminal.lock().screen().contents()
    }

    /// Waits until the screen has all these words.
    async fn until(&self, words: &[&str]) -> String {
        self.until_screen(&format!("{words:?}"), |screen| {
            words.iter().all(|word| screen.contains(word))
        })
        .await
    }

    async fn until_screen(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        eventually(what, async || {
            let screen = self.screen();
            if wanted(&screen) {
                Ok(screen)
            } else {
                Err(screen)
            }
        })
        .await
    }

    /// Waits until it has ended by itself and left the terminal as it was.
    async fn until_end(&self) {
        let screen = self.until(&["ended with 0"]).await;
        assert!(
            !screen.contains("operetta top"),
            "the screen of before is back: {screen}"
        );
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _already_over = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// A namespace in which the plugin `touch` reconciles objects.
async fn stage<'a>(control_plane: &'a ControlPlane, prefix: &str) -> TestNamespace<'a> {
    let namespace = control_plane.namespace(prefix).await;
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;
    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    namespace.until_touched("target", "v1").await;
    namespace
}

/// Returns the cells of a row of a screen.
fn row<'a>(screen: &'a str, name: &str) -> Vec<&'a str> {
    let line = screen
        .lines()
        .find(|line| line.split_whitespace().any(|word| word == name));
    line.unwrap_or_default().split_whitespace().collect()
}

#[tokio::test]
async fn top_comes_back_with_host_and_api_server() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let mut host = Host::start(&control_plane, &HostOptions::default()).await;
    let namespace = stage(&control_plane, "top").await;

    let mut top = Top::start(
        &control_plane,
        control_plane.kubeconfig(),
        SMALL,
        &["-A", "-d", "0.5"],
    );
    let has_rates = |screen: &str| {
        // The columns NAMESPACE NAME STATE CPU% RATE/s.
        row(screen, "touch")
            .get(4)
            .is_some_and(|rate| rate.parse::<f64>().is_ok())
    };

    let screen = top.until_screen("the rates of touch", has_rates).await;
    assert!(
        screen.contains("plugins.operetta.dev(all)[1]") && screen.contains("1 ready"),
        "{screen}"
    );

    top.press("\r");
    top.until(&["Plugin top", "CONDITIONS", "Running", "CONTROLLER"])
        .await;

    top.press("l");
    top.until(&["Log of", "loaded"]).await;
    top.press("\u{1b}");
    top.until(&["CONDITIONS"]).await;

    top.press("y");
    let screen = top.until(&["YAML of", "kind: Plugin"]).await;
    assert!(!screen.contains("managedFields"), "{screen}");

    // Only the time between them tells Esc and a key from an Alt key.
    top.press("q");
    top.until(&["CONDITIONS"]).await;
    top.press("q");

    host.kill();
    top.until(&["no metrics:", "failed to reach the host"])
        .await;
    host.start_again();
    host.until_listening().await;
    top.until_screen("metrics again", |screen| {
        !screen.contains("no metrics") && has_rates(screen)
    })
    .await;

    control_plane.kill_apiserver();
    top.until(&["watch of plugins.operetta.dev failed, retrying"])
        .await;
    control_plane.wait_ready().await;
    top.until_screen("no error", |screen| {
        !screen.contains("failed") && has_rates(screen)
    })
    .await;

    top.resize(LARGE);
    top.until(&["P50", "AGE", "MESSAGE", namespace.name()])
        .await;
    top.press("q");
    top.until_end().await;
}

#[tokio::test]
async fn rows_of_a_kind_are_live_until_its_crd_is_deleted() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let namespace = control_plane.namespace("live").await;
    let define = || {
        control_plane.apply(&gadgets());
        control_plane.kubectl(&[
            "wait",
            "--for=condition=Established",
            "crd/gadgets.watch.operetta.dev",
        ]);
    };
    define();

    let gadget = |name: &str, ready: &str| {
        let status = json!({"ready": ready, "conditions": [{"type": "Ready", "status": ready}]});
        json!({"metadata": {"name": name}, "spec": {"size": 3, "of": "\u{1b}[31mtin"}, "status": status})
    };

    namespace.create_object(GADGET, gadget("one", "True")).await;
    let mut top = Top::start(
        &control_plane,
        control_plane.kubeconfig(),
        LARGE,
        &["gd", "-A"],
    );

    let screen = top
        .until(&[
            "gadgets.watch.operetta.dev(all)[1]",
            "1 ready",
            "MADE OF",
            r"\u{1b}[31mtin",
        ])
        .await;
    assert_eq!(
        row(&screen, "one")[..3],
        [namespace.name(), "one", "3"],
        "{screen}"
    );

    namespace
        .create_object(GADGET, gadget("two", "False"))
        .await;
    top.until(&["[2]", "1 ready  1 not ready"]).await;
    top.resize(SMALL);
    top.until_screen("drawn for the smaller terminal", |screen| {
        screen.contains("? help") && screen.contains("two")
    })
    .await;

    // Keys that come together with a change of size are not kept back until the next key.
    for size in [LARGE, SMALL, LARGE, SMALL] {
        top.resize(size);
        top.press("/two\r");
        top.until_screen("one row", |screen| {
            screen.contains("[1/2]") && row(screen, "one").is_empty()
        })
        .await;
        top.press("\u{1b}");
        top.until(&["[2]"]).await;
    }

    top.press("/two\r");
    top.until(&["[1/2]"]).await;
    top.press("\r");
    top.until(&["YAML of", "size: 3"]).await;
    top.press("q");

    namespace.delete(GADGET, "two").await;
    top.until(&["[0/1]"]).await;

    control_plane.kubectl(&["delete", "crd", "gadgets.watch.operetta.dev"]);
    top.until(&[
        "the server does not serve gadgets.watch.operetta.dev any more",
        "[0]",
    ])
    .await;
    define();
    namespace
        .create_object(GADGET, gadget("two-again", "True"))
        .await;
    top.until_screen("the kind is back", |screen| {
        screen.contains("two-again") && !screen.contains("serve")
    })
    .await;

    top.press(&format!(":cm {}\r", namespace.name()));
    top.until(&[&format!("configmaps({})", namespace.name()), "DATA"])
        .await;
    top.press(":nothings\r");
    top.until(&["the server doesn't have a resource type \"nothings\""])
        .await;
    top.press(":q\r");
    top.until_end().await;
}

#[tokio::test]
async fn user_without_rights_sees_which_one_is_missing() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("rightless").await;
    namespace.consenting("nobody").await;
    let nobody = control_plane.kubeconfig_of(namespace.name(), "nobody");

    let top = Top::start(
        control_plane,
        &nobody,
        LARGE,
        &["secrets", "-n", namespace.name()],
    );
    top.until(&["cannot list resource \"secrets\" in API group \"\" in the namespace"])
        .await;

    let grant = |name: &str, verbs: &str| {
        namespace.kubectl(&["create", "role", name, verbs, "--resource=secrets"]);
        let account = format!("--serviceaccount={}:nobody", namespace.name());
        namespace.kubectl(&[
            "create",
            "rolebinding",
            name,
            &format!("--role={name}"),
            &account,
        ]);
    };

    grant("lists", "--verb=list");
    top.until(&["cannot watch resource \"secrets\""]).await;
    grant("watches", "--verb=watch");
    namespace
        .create_object(
            kinds::SECRET,
            json!({"metadata": {"name": "hidden"}, "stringData": {"a": "hush"}}),
        )
        .await;
    top.until_screen("the Secret", |screen| {
        screen.contains("hidden") && !screen.contains("cannot")
    })
    .await;

    grant("gets", "--verb=get");
    let mut top = top;
    top.press("\r");
    let screen = top.until(&["YAML of", "a: <hidden>"]).await;
    assert!(!screen.contains("aHVzaA"), "{screen}");
}

/// Runs `operetta top` without a terminal.
fn printed(kubeconfig: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(operetta_testkit::program("operetta"));
    command
        .arg("top")
        .args(args)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null());
    crate::ended(command)
}

#[tokio::test]
async fn one_table_is_printed_where_there_is_no_terminal() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let _host = Host::start(&control_plane, &HostOptions::default()).await;
    let namespace = stage(&control_plane, "once").await;
    let admin = control_plane.kubeconfig();

    let (code, stdout, stderr) = printed(admin, &["-n", namespace.name(), "-d", "0.5"]);
    let lines: Vec<Vec<&str>> = stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let titles = [
        "NAME", "STATE", "CPU%", "RATE/s", "ERR/s", "P50", "P99", "QUEUE", "MEM", "AGE", "REASON",
    ];

    assert_eq!(
        (code, lines.len(), lines[0].as_slice()),
        (Some(0), 2, titles.as_slice()),
        "{stdout}{stderr}"
    );
    assert_eq!(lines[1][..2], ["touch", "Ready"], "{stdout}");
    assert!(
        lines[1][3].parse::<f64>().is_ok() && stderr.is_empty(),
        "{stdout}{stderr}"
    );

    let (code, stdout, stderr) = printed(admin, &["-A", "-o", "json", "-d", "0.5"]);
    let found: Value =
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}{stderr}"));
    assert_eq!(code, Some(0));
    assert_eq!(
        (&found[0]["name"], &found[0]["state"]),
        (&json!("touch"), &json!("Ready")),
        "{found}"
    );
    assert!(
        found[0]["reconcilesPerSecond"].is_number() && found[0]["peakMemoryBytes"].is_number(),
        "{found}"
    );

    let (code, stdout, _) = printed(admin, &["cm", "-n", namespace.name(), "--once"]);
    assert!(
        code == Some(0) && stdout.starts_with("NAME") && stdout.contains("touch"),
        "{stdout}"
    );

    let (code, stdout, stderr) = printed(admin, &["deploy", "-n", namespace.name()]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert!(stderr.contains("No resources found"), "{stderr}");

    let (code, _, stderr) = printed(admin, &["nothings"]);
    assert!(
        code == Some(1) && stderr.contains("doesn't have a resource type"),
        "{stderr}"
    );

    let (code, _, stderr) = printed(admin, &["-d", "0"]);
    assert!(
        code == Some(2) && stderr.contains("from 0.5 to 3600"),
        "{stderr}"
    );
}

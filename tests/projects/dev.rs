//! `operetta dev` in a new project: from a save to a reconcile, and what happens to wrong saves.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use crate::{Project, caches, repository};

/// A running `operetta dev`. It ends with this.
pub struct Session {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Session {
    pub fn start(project: &Project) -> Self {
        Self::start_with(project, &[])
    }

    pub fn start_with(project: &Project, args: &[&str]) -> Self {
        let mut command = Command::new(operetta_testkit::program("operetta"));
        command
            .arg("dev")
            .arg(&project.dir)
            .args(args)
            .envs(caches());

        command
            .env("OPERETTA_TOOLS", repository().join("target/tools"))
            .env("RUST_BACKTRACE", "0");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("it starts");

        let stdout = BufReader::new(child.stdout.take().expect("stdout"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                drop(sender.send(line));
            }
        });

        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Waits for a line that has a text, and returns it.
    pub fn until(&mut self, text: &str) -> String {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            match self
                .lines
                .recv_timeout(end.saturating_duration_since(Instant::now()))
            {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(_) => panic!("no line with {text:?} in:\n{}", self.seen.join("\n")),
            }
        }
    }

    fn press(&mut self, key: &str) {
        self.child
            .stdin
            .as_mut()
            .expect("stdin")
            .write_all(key.as_bytes())
            .expect("written");
    }

    /// Counts the lines so far that have a text.
    fn count(&self, text: &str) -> usize {
        self.seen.iter().filter(|line| line.contains(text)).count()
    }

    /// Ends it by `q`.
    pub fn quit(&mut self) {
        self.press("q");
        assert!(
            self.child.wait().expect("it ends").success(),
            "{}",
            self.seen.join("\n")
        );
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _either_way = self.child.kill();
        let _either_way = self.child.wait();
    }
}

pub fn replace(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("read");
    assert!(text.contains(from), "{} has no {from}", file.display());
    fs::write(file, text.replace(from, to)).expect("written");
}

/// Returns the message in the ConfigMap of the sample, as kubectl reads it.
pub fn message(kubeconfig: &Path, sample: &str) -> String {
    kubectl(
        kubeconfig,
        &["get", "configmap", sample, "-o", "jsonpath={.data.message}"],
    )
}

fn kubectl(kubeconfig: &Path, args: &[&str]) -> String {
    let kubectl = repository().join("target/controlplane/bin/kubectl");
    let output = Command::new(kubectl)
        .args(args)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()
        .expect("kubectl runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn saves_are_reconciled_and_wrong_ones_change_nothing() {
    let project = Project::new_in("dev", "c", "new-dev", "DevGreeting");
    let (code, sample) = (project.dir.join("plugin.c"), "new-dev-sample");
    let mut session = Session::start(&project);
    let line = session.until("export KUBECONFIG=");

    let kubeconfig = PathBuf::from(line.split_once('=').expect("a path").1);
    session.until("built build/new-dev.wasm in");
    let line = session.until("reconciled default/new-dev-sample");
    assert!(
        line.contains("create ConfigMap.v1 default/new-dev-sample"),
        "{line}"
    );
    assert_eq!(message(&kubeconfig, sample), "Hello");

    // Another sample, then other code.
    replace(&project.dir.join("object.yaml"), "Hello", "Hi");
    session.until("update ConfigMap.v1 default/new-dev-sample");
    assert_eq!(message(&kubeconfig, sample), "Hi");
    replace(
        &code,
        r#"operetta_string(object, "spec.message", "")"#,
        r#""from the code""#,
    );
    session.until("built");
    session.until("update ConfigMap.v1 default/new-dev-sample");
    assert_eq!(message(&kubeconfig, sample), "from the code");

    // Code that does not build is reported once, and the previous code goes on.
    replace(&code, "from the code", "broken\" +");
    session.until("error:");
    session.until("the previous code keeps running");

    // A save that leaves the same errors: the next line is about the manifest.
    let broken = fs::read_to_string(&code).expect("read");
    fs::write(&code, format!("{broken}\n")).expect("written");
    thread::sleep(Duration::from_secs(2));
    fs::write(project.dir.join("object.yaml"), "{").expect("written");
    session.until("object.yaml is not YAML");
    assert_eq!(
        session.count("the previous code keeps running"),
        1,
        "{:?}",
        session.seen
    );
    assert_eq!(message(&kubeconfig, sample), "from the code");

    // Of many saves, the last one is run.
    for count in 0..10 {
        let from = if count == 0 {
            "broken\" +".to_owned()
        } else {
            format!("save {}", count - 1)
        };
        replace(&code, &from, &format!("save {count}"));
        thread::sleep(Duration::from_millis(50));
    }

    let end = Instant::now() + Duration::from_secs(60);
    while message(&kubeconfig, sample) != "save 9" {
        if Instant::now() > end {
            session.until("the last save is run");
        }
        thread::sleep(Duration::from_millis(200));
    }

    // Code that crashes when it is loaded is reported, and the previous code goes on.
    let start = "void operetta_plugin(void) {";
    replace(&code, start, &format!("{start} __builtin_trap();"));
    session.until("error: failed to load: ");
    let deleted = kubectl(&kubeconfig, &["delete", "configmap", sample]);
    assert!(deleted.contains("deleted"), "{deleted}");
    session.until("create ConfigMap.v1 default/new-dev-sample");
    assert_eq!(message(&kubeconfig, sample), "save 9");
    session.quit();
}

/// A data file that this program cannot use is named, with the reason, and stays as it was.
#[test]
fn unusable_data_file_is_refused_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("plugin.c"), "").expect("written");
    let data = folder.path().join("data");

    // Starts with the data file, and returns what was said until the session is ready.
    let start = || {
        let mut command = Command::new(operetta_testkit::program("operetta"));
        command
            .args(["dev", "--data", "data"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut session = command.spawn().expect("it starts");
        let stdout = BufReader::new(session.stdout.take().expect("stdout"));
        let lines = stdout
            .lines()
            .map_while(Result::ok)
            .take_while(|line| !line.contains("q quits"));
        let said: Vec<String> = lines.collect();
        session.kill().expect("killed");
        session.wait().expect("it ends");
        said.join("\n")
    };

    let ready = start();
    let whole = fs::read(&data).unwrap_or_else(|error| panic!("{error}: {ready}"));

    let line = whole
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("a header")
        + 1;
    let header = String::from_utf8_lossy(&whole[..line]).into_owned();
    let newer = [header.trim_end().as_bytes(), b"9\n", &whole[line..]].concat();
    let mut damaged = whole.clone();
    damaged[line + (whole.len() - line) / 2] ^= 1;
    for (what, bytes) in [("of another version", newer), ("damaged", damaged)] {
        fs::write(&data, &bytes).expect("written");
        let said = refused(&["--data", "data"], folder.path());
        assert!(
            said.contains("failed to open --data data: "),
            "{what}: {said}"
        );
        assert!(
            fs::read(&data).expect("read") == bytes,
            "{what}: it is overwritten"
        );
    }

    // A change that was being written when the machine stopped was never answered. The session goes
    // on without it, says so and keeps the bytes.
    fs::write(&data, &whole[..whole.len() - 3]).expect("written");
    let said = start();
    assert!(said.contains("warning: ") && said.contains("cut"), "{said}");

    let aside = fs::read_dir(folder.path())
        .expect("a folder")
        .filter_map(Result::ok);
    let kept = aside
        .filter(|file| file.file_name().to_string_lossy().starts_with("data."))
        .count();
    assert_eq!(kept, 1, "{said}");
}

fn refused(arguments: &[&str], folder: &Path) -> String {
    let output = Command::new(operetta_testkit::program("operetta"))
        .arg("dev")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("it runs");

    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn session_that_cannot_start_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = refused(&[], folder.path());
    assert!(
        said.contains("is not a project in a supported language"),
        "{said}"
    );

    fs::write(folder.path().join("plugin.c"), "").expect("written");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let said = refused(&["--port", &port.to_string()], folder.path());
    assert!(
        said.contains(&format!(
            "port {port} of 127.0.0.1 is in use: choose another --port"
        )),
        "{said}"
    );

    let data = folder.path().join("data");
    fs::write(&data, "something else\n").expect("written");
    let said = refused(&["--data", &data.display().to_string()], folder.path());
    assert!(said.contains("failed to open --data"), "{said}");
    assert_eq!(
        fs::read_to_string(&data).expect("read"),
        "something else\n",
        "nothing is overwritten"
    );
}

//! Sessions of kubectl with a server that has controllers, comparing the output of each command.

use std::{net::SocketAddr, path::Path, process::Stdio, sync::LazyLock, time::Duration};

use regex::Regex;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::kubectl::{Line, lines, write_objects};
use crate::{
    differences::Difference,
    exchange::Request,
    live::{ControlPlane, program},
    own::OwnServer,
    runner::Runner,
};

const COMMANDS: &str = include_str!("sessions.txt");

/// Patterns of what differs between runs, with their replacements.
static CHANGING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "<uid>",
        ),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "<time>"),
        (
            r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}",
            "<time>",
        ),
        (r"\b10\.\d+\.\d+\.\d+\b", "<address>"),
        (r"\b(\d+[smhd])+\b", "<age>"),
        (
            r"(shop-web|once)(-[a-z0-9]{8,10})?-[a-z0-9]{5}\b",
            "$1-<hash>",
        ),
        (r"shop-web-[a-z0-9]{8,10}\b", "shop-web-<hash>"),
        (r"pod-template-hash=[a-z0-9]+", "pod-template-hash=<hash>"),
        (r"/tmp/\S+", "<file>"),
        (r"(?i)(resource ?version[^\w]{1,5})\d+", "$1<revision>"),
        // How often kubectl prints progress depends on the server's speed.
        (r"(?m)^Waiting for .*\n", ""),
        // The real server prints an object's fields in the order of a Go struct.
        (
            r#"(?s)Invalid value: "\{.*\}": "#,
            "Invalid value: <object>: ",
        ),
        (r" +", " "),
    ];

    patterns
        .into_iter()
        .map(|(pattern, with)| (Regex::new(pattern).expect("a pattern"), with))
        .collect()
});

/// A server, and the folder in which kubectl runs against it.
struct Side {
    address: String,
    folder: tempfile::TempDir,
}

impl Side {
    fn new(address: String) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        write_objects(folder.path());
        Self { address, folder }
    }

    fn kubectl(&self, line: &Line<'_>) -> Child {
        let folder: &Path = self.folder.path();

        let mut command = Command::new(program("kubectl"));
        command
            .args(["--server", &self.address, "--cache-dir"])
            .arg(folder.join("cache"))
            .args(&line.arguments);

        command
            .current_dir(folder)
            .env("KUBE_EDITOR", line.editor)
            .env("KUBECONFIG", folder.join("none"));

        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);

        command.spawn().expect("kubectl starts")
    }
}

pub async fn run(runner: &mut Runner) {
    let real = ControlPlane::with(&["--with", "controllers,scheduler,kwok"]);
    let own = OwnServer::with_controllers();

    let sides = [
        Side::new(format!("http://{}", real.address())),
        Side::new(served(&own).await),
    ];

    let mut beside: Option<(&str, [Child; 2])> = None;
    for line in lines(COMMANDS) {
        if line.text == "stop" {
            let (text, children) = beside.take().expect("a command runs");
            tokio::time::sleep(Duration::from_secs(1)).await;
            compare(runner, text, children.map(interrupted)).await;
            continue;
        }

        let children = [sides[0].kubectl(&line), sides[1].kubectl(&line)];
        if line.is_beside {
            beside = Some((line.text, children));
            tokio::time::sleep(Duration::from_secs(2)).await;
        } else {
            compare(runner, line.text, children).await;
        }
    }
}

/// Serves an embedded server on a port, for an administrator without credentials.
async fn served(own: &OwnServer) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");

    let address: SocketAddr = listener.local_addr().expect("an address");
    tokio::spawn(own.clone().listen(listener));
    format!("http://{address}")
}

/// Interrupts a command that would run on, like Ctrl-C.
fn interrupted(child: Child) -> Child {
    if let Some(id) = child.id() {
        let _sent = std::process::Command::new("kill")
            .args(["-INT", &id.to_string()])
            .status();
    }
    child
}

/// Waits for both commands, and compares their output.
async fn compare(runner: &mut Runner, text: &str, children: [Child; 2]) {
    let [real, own] = children
        .map(|child| tokio::time::timeout(Duration::from_secs(90), child.wait_with_output()));
    let (real, own) = tokio::join!(real, own);
    let [real, own] = [real, own]
        .map(|output| output.map_or(Value::Null, |output| shown(&output.expect("output"))));

    let mut left = Vec::new();
    for at in ["code", "output", "errors"] {
        if real[at] != own[at] {
            left.push(Difference {
                at: at.into(),
                real: real[at].clone(),
                own: own[at].clone(),
            });
        }
    }

    runner
        .comparison
        .report
        .add(runner.source, &Request::new("kubectl", text), &[], &left);
}

fn shown(output: &std::process::Output) -> Value {
    let text = |bytes: &[u8]| {
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        for (pattern, with) in CHANGING.iter() {
            text = pattern.replace_all(&text, *with).into_owned();
        }
        text
    };
    json!({"code": output.status.code(), "output": text(&output.stdout), "errors": text(&output.stderr)})
}

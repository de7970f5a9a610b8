//! The program: it says when it is ready, writes a kubeconfig, and ends when it is told to.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use serde_json::Value;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_operetta-apiserver"));
    command.arg("serve");
    command
}

#[test]
fn serves_until_it_is_terminated() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let mut child = program()
        .args(["--controllers", "namespaces,service-accounts"])
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");

    let mut line = String::new();
    let stdout = child.stdout.take().expect("its output");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("ready ").expect("an address");
    assert!(address.starts_with("https://127.0.0.1:"), "{line}");
    let config: Value =
        serde_json::from_slice(&fs::read(&kubeconfig).expect("a kubeconfig")).expect("JSON");
    assert_eq!(config["clusters"][0]["cluster"]["server"], address);

    let sent = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(sent.is_ok_and(|status| status.success()));
    assert!(child.wait().expect("its end").success());
}

#[test]
fn unknown_controllers_and_other_machines_are_refused() {
    for (arguments, code) in [
        (["--controllers", "deployment"], 2),
        (["--address", "0.0.0.0:0"], 1),
    ] {
        let output = program()
            .args(arguments)
            .output()
            .expect("the program runs");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

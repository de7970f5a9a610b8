//! Tests of processes that are commands of WASI 0.2: the program tests/guests/process-rust, with tokio.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use operetta_testkit::guest;
use operetta_wasm::{
    LoadError, LoadLimits, ProcessProgram, check, inspect,
    process::{EmptyDir, Exit, ExitReason, Files, Process, ProcessConfig, Projected, SIGTERM},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::OnceCell,
};

use crate::{Logs, Started, engine, network::World};

async fn program() -> &'static Arc<ProcessProgram> {
    static PROGRAM: OnceCell<Arc<ProcessProgram>> = OnceCell::const_new();
    let load = async || {
        let bytes = guest("fixture-process-rust");
        let program = ProcessProgram::load(engine(), bytes, &LoadLimits::default()).await;
        Arc::new(program.unwrap_or_else(|error| panic!("{error}")))
    };
    PROGRAM.get_or_init(load).await
}

async fn start(args: &[&str], config: ProcessConfig) -> Started {
    let name = "/operator".to_owned();
    let args = args.iter().map(|arg| (*arg).to_owned());
    let config = ProcessConfig {
        args: std::iter::once(name).chain(args).collect(),
        env: vec![("HOME".to_owned(), "/root".to_owned())],
        address: [10, 9, 8, 7].into(),
        ..config
    };
    let logs = Arc::new(Logs::default());
    let (process, running) = Process::start(program().await, config, Arc::new(World), logs.clone());
    Started {
        process,
        logs,
        task: tokio::spawn(running),
    }
}

async fn run(args: &[&str]) -> (Exit, Vec<String>) {
    start(args, ProcessConfig::default()).await.ended().await
}

/// Runs a program that completes, and returns what it prints.
async fn printed(args: &[&str]) -> Vec<String> {
    let (exit, lines) = run(args).await;
    assert_eq!(exit.reason, ExitReason::Completed, "{exit:?} {lines:?}");
    lines
}

#[tokio::test]
async fn command_is_recognised_as_a_process() {
    let bytes = guest("fixture-process-rust");
    let inspection = check(&bytes, &LoadLimits::default()).expect("a process");
    assert!(inspection.is_process && inspection.is_command);
    assert_eq!(program().await.digest(), inspection.digest);
}

#[tokio::test]
async fn environment_clocks_and_streams_are_there() {
    let lines = printed(&["system"]).await;
    assert_eq!(
        lines,
        [
            "HOME is /root",
            "a line on stderr",
            "the year is after 2023: true",
            "seeds differ: true"
        ]
    );
}

fn files() -> Files {
    let text = |text: &str| text.as_bytes().to_vec();
    let config = BTreeMap::from([
        ("a.yaml".to_owned(), text("from a ConfigMap")),
        ("sub/b.yaml".to_owned(), text("a folder")),
    ]);
    let config = Projected::new(config).expect("valid");
    let mut files = Files::default();
    files.mount("/etc/config", &config, "").expect("mounted");
    files
        .mount_empty_dir("/tmp", &EmptyDir::new(1 << 20, 100), "")
        .expect("mounted");
    files
}

#[tokio::test]
async fn files_are_those_of_the_volumes() {
    let config = ProcessConfig {
        files: files(),
        ..ProcessConfig::default()
    };
    let (exit, lines) = start(&["files"], config).await.ended().await;
    assert_eq!(exit.reason, ExitReason::Completed, "{exit:?} {lines:?}");
    assert_eq!(
        lines,
        [
            "config: from a ConfigMap",
            "below: a folder",
            r#"text: "one\nTWO\nthree\n""#,
            "length: 4",
            r#"left: ["moved"]"#
        ]
    );
}

#[tokio::test]
async fn descriptors_are_limited() {
    let config = ProcessConfig {
        files: files(),
        max_descriptors: 20,
        ..ProcessConfig::default()
    };
    let (exit, lines) = start(&["descriptors"], config).await.ended().await;
    assert_eq!(exit.reason, ExitReason::Completed, "{exit:?} {lines:?}");
    // One is the folder `/`.
    assert_eq!(lines, ["opened 19"]);

    let config = ProcessConfig {
        max_descriptors: 20,
        ..ProcessConfig::default()
    };
    let (exit, lines) = start(&["many", "10.0.0.9:20004"], config)
        .await
        .ended()
        .await;
    assert_eq!(exit.reason, ExitReason::Completed, "{exit:?} {lines:?}");
    assert!(lines[0].starts_with("opened 20,"), "{lines:?}");
    assert_eq!(
        lines[1],
        lines[0]
            .replace("opened", "answered")
            .split(',')
            .next()
            .expect("a part")
    );
}

#[tokio::test]
async fn connections_lead_where_the_network_says() {
    for (address, said) in [
        ("10.0.0.9:20004", "connected: 10.9.8.7 -> 10.0.0.9:20004"),
        ("10.0.0.9:20008", "connected: 10.9.8.7 -> 10.0.0.9:20008"),
        (
            "[fd00::9]:20004",
            "connected: ::ffff:10.9.8.7 -> [fd00::9]:20004",
        ),
        ("10.0.0.9:20001", "failed: ConnectionRefused"),
        ("10.0.0.9:20003", "failed: PermissionDenied"),
        ("10.0.0.9:80", "failed: HostUnreachable"),
        ("127.0.0.1:80", "failed: ConnectionRefused"),
    ] {
        assert_eq!(printed(&["connect", address]).await, [said], "{address}");
    }
}

#[tokio::test]
async fn large_transfers_are_whole() {
    for how in ["talk", "stuff"] {
        // The second peer answers late.
        for address in ["10.0.0.9:20004", "10.0.0.9:20008"] {
            let lines = printed(&[how, address]).await;
            assert_eq!(lines, ["the same came back: true"], "{how} {address}");
        }
    }
}

#[tokio::test]
async fn names_are_those_of_the_network() {
    for (name, said) in [
        ("found.test", "found: [10.1.2.3, fd00::5]"),
        ("slow.test", "found: [10.1.2.4]"),
        ("localhost", "found: [127.0.0.1, ::1]"),
    ] {
        assert_eq!(printed(&["resolve", name]).await, [said]);
    }
    for name in ["missing.test", "down.test", "not a name"] {
        let lines = printed(&["resolve", name]).await;
        assert!(lines[0].starts_with("failed: "), "{name}: {lines:?}");
    }
}

#[tokio::test]
async fn program_reaches_its_own_server() {
    assert_eq!(
        printed(&["itself"]).await,
        ["hello was answered with HELLO"]
    );
}

async fn until_listening(process: &Process) {
    while process.stats().listening.is_empty() || process.stats().polls < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn server_answers_until_sigterm() {
    let started = start(&["serve", "0.0.0.0:8080"], ProcessConfig::default()).await;
    until_listening(&started.process).await;
    assert_eq!(
        started.process.stats().listening,
        [([0, 0, 0, 0], 8080).into()]
    );

    for _ in 0..3 {
        let from = ([10, 0, 0, 99], 4000).into();
        let mut pipe = started
            .process
            .connect_from(8080, from)
            .expect("it listens");
        pipe.write_all(b"ping").await.expect("written");
        let mut answer = [0; 4];
        pipe.read_exact(&mut answer).await.expect("echoed");
        assert_eq!(&answer, b"ping");
    }

    assert!(started.process.signal(SIGTERM), "it handles signals");
    let (exit, lines) = started.ended().await;
    assert_eq!((exit.reason, exit.code), (ExitReason::Completed, 0));
    assert_eq!(
        lines,
        [
            "listening on 0.0.0.0:8080",
            "again: Err(AddrInUse)",
            "from 10.0.0.99",
            "from 10.0.0.99",
            "from 10.0.0.99",
            "signal 15",
            "done"
        ]
    );
}

#[tokio::test]
async fn signal_without_a_handler_is_told() {
    let started = start(&["connect", "10.0.0.9:20002"], ProcessConfig::default()).await;
    while started.process.stats().polls == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!started.process.signal(SIGTERM), "nobody handles it");
    started.process.kill();
    assert_eq!(started.exit().await.reason, ExitReason::Killed);
}

#[tokio::test]
async fn exit_code_and_message_are_reported() {
    // Rust's library for WASI 0.2.9 says only whether the program has failed. The code came with 0.2.12.
    for (code, reason, reported) in [("0", ExitReason::Completed, 0), ("3", ExitReason::Error, 1)] {
        let (exit, _) = run(&["exit", code]).await;
        assert_eq!((exit.reason, exit.code), (reason, reported));
    }

    let (exit, lines) = run(&["what"]).await;
    assert_eq!((exit.reason, exit.code), (ExitReason::Error, 1));
    assert_eq!(exit.message, r#"error: no such thing to do: ["what"]"#);
    assert_eq!(lines, [exit.message]);

    let (exit, _) = run(&["panic"]).await;
    assert_eq!((exit.reason, exit.code), (ExitReason::Trap, 134));
    assert!(exit.message.contains("a bug in the operator"), "{exit:?}");
}

#[tokio::test]
async fn program_that_never_waits_is_interrupted() {
    let config = |millis| ProcessConfig {
        unresponsive_after: Duration::from_millis(millis),
        ..ProcessConfig::default()
    };
    let (exit, _) = start(&["spin"], config(300)).await.ended().await;
    assert_eq!((exit.reason, exit.code), (ExitReason::Unresponsive, 137));
    assert!(
        exit.message
            .starts_with("the process ran for 0.3 s without waiting (wasi:io/poll); stack: "),
        "{exit:?}"
    );

    // Polling without waiting is enough.
    let (exit, _) = start(&["spin-politely"], config(150)).await.ended().await;
    assert_eq!(exit.reason, ExitReason::Completed, "{exit:?}");
}

#[tokio::test]
async fn program_without_memory_is_oom_killed() {
    let config = ProcessConfig {
        memory_bytes: 16 << 20,
        ..ProcessConfig::default()
    };
    let (exit, _) = start(&["allocate"], config).await.ended().await;
    assert_eq!((exit.reason.as_str(), exit.code), ("OOMKilled", 137));
    assert!(
        exit.message
            .starts_with("the memory limit of 16 MiB was reached"),
        "{exit:?}"
    );
}

/// A command with this import, whose main returns at once.
fn command(import: &str) -> Vec<u8> {
    let text = format!(
        r#"(component {import}
            (core module $m (func (export "main") (result i32) (i32.const 0)))
            (core instance $i (instantiate $m))
            (func $main (result (result)) (canon lift (core func $i "main")))
            (instance $run (export "run" (func $main)))
            (export "wasi:cli/run@0.2.3" (instance $run)))"#
    );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

async fn refusal(bytes: Vec<u8>) -> LoadError {
    let limits = LoadLimits::default();
    ProcessProgram::load(engine(), bytes, &limits)
        .await
        .err()
        .expect("refused")
}

#[tokio::test]
async fn imports_that_are_not_offered_are_named() {
    let plain = command("");
    let loaded = ProcessProgram::load(engine(), plain, &LoadLimits::default()).await;
    assert_eq!(loaded.err().map(|error| error.to_string()), None);

    for name in [
        "wasi:http/outgoing-handler@0.2.0",
        "wasi:cli/environment@0.3.0",
        "operetta:controller/objects@0.1.0",
    ] {
        let bytes = command(&format!("(import \"{name}\" (instance))"));
        assert!(inspect(&bytes).is_command);
        let error = refusal(bytes).await;
        let message = error.to_string();
        assert!(
            matches!(error, LoadError::MissingProcessImport { .. }),
            "{message}"
        );
        let provided = "wasi:filesystem@0.2 (preopens, types)";
        assert!(
            message.contains(name) && message.contains(provided),
            "{message}"
        );
        assert!(!message.contains("operetta:controller@0.1 ("), "{message}");
    }

    // The interface exists, and the function does not.
    let import = r#"(import "wasi:cli/stdin@0.2.0" (instance (export "magic" (func))))"#;
    match refusal(command(import)).await {
        LoadError::IncompatibleImport(why) => assert!(why.contains("magic"), "{why}"),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn main_with_another_signature_is_refused() {
    let bytes = wat::parse_str(
        r#"(component
            (core module $m (func (export "main")))
            (core instance $i (instantiate $m))
            (func $main (canon lift (core func $i "main")))
            (instance $run (export "run" (func $main)))
            (export "wasi:cli/run@0.2.0" (instance $run)))"#,
    );
    match refusal(bytes.expect("text")).await {
        LoadError::IncompatibleExport { interface, .. } => assert_eq!(interface, "wasi:cli/run"),
        other => panic!("{other}"),
    }
}

#[test]
fn plugin_with_a_main_stays_a_plugin() {
    let text = r#"(component
        (component $c (type $t string) (export "t" (type $t)))
        (instance $i (instantiate $c))
        (export "operetta:controller/reconciler@0.1.0" (instance $i))
        (export "wasi:cli/run@0.2.0" (instance $i)))"#;
    let inspection = inspect(&wat::parse_str(text).expect("text"));
    assert_eq!(inspection.error, None);
    assert!(!inspection.is_process && !inspection.is_command);
}

#[tokio::test]
async fn many_commands_wait_without_work() {
    let mut started = Vec::new();
    for _ in 0..50 {
        started.push(start(&["connect", "10.0.0.9:20002"], ProcessConfig::default()).await);
    }
    for one in &started {
        while one.process.stats().polls == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let polls =
        |started: &[Started]| -> u64 { started.iter().map(|one| one.process.stats().polls).sum() };
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = polls(&started);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(polls(&started), before);
    for one in started {
        one.process.kill();
        one.exit().await;
    }
}

//! Calls every import with random arguments: whatever they are, the host neither panics nor traps,
//! and the process can be killed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use operetta_wasm::process::{EmptyDir, ExitReason, Files, Process, ProcessConfig, Projected};

use crate::{Guest, IMPORTS, Logs, load, network::World};

/// The address of 64 interesting arguments. The host may write over them.
const TABLE: u32 = 4096;

/// The rounds of a run. Each calls all imports.
const ROUNDS: u32 = 300;

/// A guest whose random numbers depend on a seed in its environment's only variable, `S=…`.
fn guest() -> Guest {
    let interesting: Vec<u32> = [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        11,
        14,
        17,
        24,
        33,
        48,
        64,
        255,
        1024,
        1025,
        4095,
        4097,
        65_535,
        65_536,
        65_537,
        131_064,
        131_071,
        131_072,
        131_073,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        8192,
        8200,
        8208,
        8216,
        8224,
        8232,
        8240,
        8248,
        16,
        64,
        256,
        36,
        32,
        1 << 16,
        1 << 20,
        0xffff_fff0,
        3,
        3,
        3,
        4,
        4,
        5,
        6,
        7,
        8,
        9,
        1,
        2,
        2,
        1,
        0,
        0,
    ]
    .into();
    let table: String = interesting
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .map(|byte| format!("\\{byte:02x}"))
        .collect();

    let mut calls = String::new();
    for (_, functions) in IMPORTS {
        for (name, parameters) in *functions {
            let arguments: String = parameters
                .chars()
                .map(|kind| {
                    if kind == 'l' {
                        " (call $any64)"
                    } else {
                        " (call $any)"
                    }
                })
                .collect();
            if *name == "poll_oneoff" {
                // With a clock that ends at once among the subscriptions.
                calls += "(call $clock_subscription (i32.const 12288) (i64.const 1) (i32.const 1) (i64.const 1000) (i32.const 0))
                    (drop (call $poll_oneoff (i32.const 12288) (call $any)
                        (i32.add (i32.const 1) (i32.and (call $any) (i32.const 15))) (call $any)))";
            } else {
                calls += &format!("(drop (call ${name}{arguments}))\n");
            }
        }
    }

    Guest::new(&format!(
        "(local $round i32)
         (drop (call $environ_get (i32.const 0) (i32.const 8)))
         (global.set $seed (i64.load (i32.const 10)))
         (loop $again
             {calls}
             (local.set $round (i32.add (local.get $round) (i32.const 1)))
             (br_if $again (i32.lt_u (local.get $round) (i32.const {ROUNDS}))))"
    ))
    .with(&format!(
        "(global $seed (mut i64) (i64.const 1))
         (data (i32.const {TABLE}) \"{table}\")
         (func $any64 (result i64)
             (global.set $seed (i64.add
                 (i64.mul (global.get $seed) (i64.const 6364136223846793005)) (i64.const 1442695040888963407)))
             (i64.xor (global.get $seed) (i64.shr_u (global.get $seed) (i64.const 29))))
         ;; Three of four are from the table.
         (func $any (result i32) (local $random i64)
             (local.set $random (call $any64))
             (if (result i32) (i64.eqz (i64.and (local.get $random) (i64.const 0xc0000)))
                 (then (i32.wrap_i64 (i64.shr_u (local.get $random) (i64.const 20))))
                 (else (i32.load offset={TABLE}
                     (i32.and (i32.wrap_i64 (i64.shr_u (local.get $random) (i64.const 30))) (i32.const 252))))))"
    ))
    .text(8192, "tmp/a")
    .text(8200, "tmp")
    .text(8208, "etc/b/c")
    .text(8216, "../x")
    .text(8224, ":8080")
    .text(8232, "a.b:1")
    .text(8240, "localho")
    .text(8248, "10.0.0.9:20004")
}

#[tokio::test]
async fn random_calls_harm_nobody() {
    let program = load(&guest()).await;
    let first: u64 = rand::random();
    let mut completed = 0;

    for run in 0..40 {
        let seed = first.wrapping_add(run);
        let mut files = Files::default();
        let projected = Projected::new(BTreeMap::from([("c".to_owned(), vec![1; 100])]));
        files
            .mount("/etc/b", &projected.expect("valid"), "")
            .expect("mounted");
        files
            .mount_empty_dir("/tmp", &EmptyDir::new(100_000, 50), "")
            .expect("mounted");
        let config = ProcessConfig {
            env: vec![("S".to_owned(), format!("{seed:016x}"))],
            files,
            max_descriptors: 64,
            ..ProcessConfig::default()
        };
        let logs = Arc::new(Logs::default());
        let (process, running) = Process::start(&program, config, Arc::new(World), logs);
        let mut task = tokio::spawn(running);

        // A poll for a subscription of garbage may wait for years.
        let exit = match tokio::time::timeout(Duration::from_secs(3), &mut task).await {
            Ok(exit) => exit,
            Err(_) => {
                process.kill();
                task.await
            }
        };
        let exit = exit.unwrap_or_else(|panic| panic!("seed {seed}: {panic}"));
        match exit.reason {
            ExitReason::Completed => completed += 1,
            ExitReason::Killed => {}
            _ => panic!("seed {seed}: {exit:?}"),
        }
        // With seed and memory of garbage, it is still a process like any other.
        process.signal(15);
        assert!(process.connect(8080).is_err(), "seed {seed}: it has ended");
    }
    assert!(completed > 20, "from seed {first}: only {completed} of 40");
}

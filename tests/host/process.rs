//! The privileges of the host's process and of all its threads.

use std::fs;

use rustix::thread::{CapabilitySet, capabilities};

use crate::Stage;

/// The capabilities to start workers as another user, and to end them.
const FOR_WORKERS: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL);

/// Returns a number of /proc/PID/status in this base.
fn number(status: &str, field: &str, base: u32) -> u64 {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"));
    let value = value.unwrap_or_else(|| panic!("no {field} in {status}"));
    u64::from_str_radix(value, base).unwrap_or_else(|error| panic!("{field} {value}: {error}"))
}

#[tokio::test]
async fn every_thread_of_the_host_keeps_only_capabilities_for_workers() {
    let stage = Stage::new("process").await;
    stage.others_keep_working().await;

    // The host started with what this process has.
    let held = capabilities(None).expect("known").effective;
    let kept = if held.contains(FOR_WORKERS) {
        FOR_WORKERS
    } else {
        CapabilitySet::empty()
    };

    let process = format!("/proc/{}", stage.host.pid());
    let threads = fs::read_dir(format!("{process}/task")).expect("the host runs");
    let mut count = 0;

    for thread in threads.flatten() {
        // A thread may have ended since.
        let Ok(status) = fs::read_to_string(thread.path().join("status")) else {
            continue;
        };
        count += 1;

        for set in ["CapPrm", "CapEff"] {
            assert_eq!(number(&status, set, 16), kept.bits(), "{set} of {status}");
        }
        for set in ["CapInh", "CapAmb"] {
            assert_eq!(number(&status, set, 16), 0, "{set} of {status}");
        }
        if held.contains(CapabilitySet::SETPCAP) {
            assert_eq!(number(&status, "CapBnd", 16) & !kept.bits(), 0, "{status}");
        }
        assert_eq!(number(&status, "NoNewPrivs", 10), 1, "{status}");
    }

    assert!(count > 2, "{count} threads");
    let limits = fs::read_to_string(format!("{process}/limits")).expect("the host runs");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .expect("a limit");
    assert_eq!(
        core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(),
        ["0", "0"],
        "{core}"
    );
}

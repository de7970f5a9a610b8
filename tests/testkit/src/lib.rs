//! Fixtures for Operetta's own tests (dev-dependency only).
//!
//! ```
//! # use operetta_testkit::{ControlPlane, kinds};
//! # #[tokio::main]
//! # async fn main() {
//! let control_plane = ControlPlane::shared().await;
//! let namespace = control_plane.namespace("greeting").await;
//! namespace.create_touchable("object").await;
//! assert!(namespace.get(kinds::CONFIG_MAP, "object").await.is_some());
//! # }
//! ```
//!
//! A whole-host test adds a host, which runs the program `operetta-host`, and a plugin:
//!
//! ```no_run
//! # use operetta_testkit::{ControlPlane, DropIn, Host, HostOptions, guest};
//! # async fn example() {
//! # let control_plane = ControlPlane::shared().await;
//! # let namespace = control_plane.namespace("greeting").await;
//! let host = Host::start(control_plane, &HostOptions::default()).await;
//! namespace.allow_all("plugin").await;
//! namespace.drop_in(&DropIn::new("touch", guest("fixture-touch-v1"))).await;
//! namespace.until_condition("touch", "Ready", "True", "Running").await;
//! host.assert_sound();
//! # }
//! ```
//!
//! [`controlplane`] runs a real Kubernetes API server, [`namespace`] is a test's own namespace,
//! [`fault_proxy`] puts faults into the API server's responses, [`guests`] finds the built
//! components, [`wat_guest`] builds small ones from text, [`hostile`] is the corpus of hostile
//! ones, [`host`] runs the host, [`history`] checks what several replicas did, [`https`] makes
//! requests without a check of the certificate, [`collector`] receives traces, [`egress`] leads an
//! API server to endpoints of Services, and [`wait`] polls conditions. A test that kills a process
//! has its own control plane and host, in its own test file; all other tests of a file share one of
//! each.
//!
//! For benches: [`mod@bench`] writes reports, [`peers`] runs the programs that are measured beside
//! the host, [`pods`] generates Pods, and [`usage`] reads the resource usage of a process.

mod aggregated;
mod apply;
pub mod audit;
mod audit_tail;
pub mod authorizer;
pub mod bench;
pub mod clock;
pub mod collector;
pub mod controlplane;
mod crd;
pub mod egress;
mod embedded;
pub mod fault_proxy;
pub mod guests;
pub mod history;
pub mod host;
pub mod hostile;
pub mod https;
mod install;
pub mod namespace;
pub mod peers;
pub mod pods;
mod real_server;
mod shared;
mod shell;
pub mod tls_server;
pub mod usage;
pub mod wait;
pub mod wat_guest;
pub mod webhook;

pub use aggregated::AggregatedApi;
pub use audit::{AuditEvent, AuditLog, AuthenticationMetadata};
pub use audit_tail::AuditTail;
pub use clock::SteppedClock;
pub use collector::{Collector, ReceivedSpan};
pub use controlplane::ControlPlane;
pub use crd::{any_schema, crd, dead_api_service, with_status};
pub use embedded::serve_embedded;
pub use fault_proxy::{Ask, Asked, BadEvent, Fault, FaultProxy, Held};
pub use guests::{guest, guest_path, plugin, plugin_path, process_guest, process_path};
pub use host::{Host, HostOptions, LogLine, metric_sum};
pub use namespace::{Condition, DropIn, Kind, TestNamespace, digest, kinds};
pub use real_server::needs_real_server;
pub use shell::{run_what_it_says, shell};
pub use wait::{eventually, in_effect_after, throughout, within};

use std::path::PathBuf;

/// Returns the repository of the running test, which need not be the clone that compiled it.
pub fn repository() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here
        .or_else(|| std::env::current_dir().ok())
        .unwrap_or_default();

    let root = here
        .ancestors()
        .find(|folder| folder.join("wit/controller.wit").is_file());
    root.expect("cargo runs the tests of a clone").to_path_buf()
}

/// Returns cargo's target directory.
fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// Returns the path of a program of this workspace in the profile of the running test or bench.
/// Cargo sets `CARGO_BIN_EXE_…` only for tests in the program's own package.
///
/// # Panics
/// Panics if it was not built.
pub fn program(name: &str) -> PathBuf {
    let running = std::env::current_exe().expect("the running test has a path");

    // target/PROFILE/deps/TEST, or target/PROFILE/TEST for a program started by a test.
    let folder = running.parent().expect("a program is in a folder");
    let folder = if folder.ends_with("deps") {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };

    let path = folder.join(name);

    assert!(
        path.exists(),
        "{} does not exist: run `make programs`, or `make build` for a bench",
        path.display()
    );

    path
}

/// Returns the path of a program that `scripts/tools.sh` builds.
///
/// # Panics
/// Panics if it was not built.
pub fn tool_path(name: &str) -> PathBuf {
    let path = target_dir().join("tools/bin").join(name);

    assert!(
        path.exists(),
        "{} does not exist: run scripts/tools.sh",
        path.display()
    );

    path
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::repository;

    fn read_all(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                read_all(&entry, text);
            } else if entry.extension().is_some_and(|ending| ending == "rs") {
                text.push_str(&fs::read_to_string(&entry).expect("a text"));
            }
        }
    }

    #[test]
    fn pages_of_promises_name_existing_tests() {
        let mut code = String::new();
        for room in ["host", "cli", "apiserver", "tests"] {
            read_all(&repository().join(room), &mut code);
        }
        let is_guest = |name: &str| {
            repository()
                .join(format!("tests/guests/hostile/{name}.wat"))
                .exists()
        };

        let pages = [
            ("host/kube/src/informer/PROMISES.md", 15),
            ("host/core/src/queue/PROMISES.md", 12),
            ("SECURITY.md", 60),
        ];

        for (page, minimum) in pages {
            let text = fs::read_to_string(repository().join(page)).expect(page);
            let rows = text.lines().filter(|line| line.starts_with("| "));
            // The last column names the tests. In SECURITY.md each row has one, and every quoted
            // word there is a test.
            let is_security = page == "SECURITY.md";
            let last = |row: &str| {
                row.trim_end_matches(" |")
                    .rsplit(" | ")
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            };

            let columns: Vec<String> = if is_security {
                let tables = text
                    .split("\n\n")
                    .filter(|table| table.lines().next().map(last).as_deref() == Some("tests"));
                tables
                    .flat_map(|table| table.lines().skip(2))
                    .map(last)
                    .collect()
            } else {
                rows.map(str::to_owned).collect()
            };

            if is_security {
                let without: Vec<_> = columns.iter().filter(|cell| !cell.contains('`')).collect();
                assert!(
                    without.is_empty(),
                    "{page}: rows without a test: {without:?}"
                );
            }

            let names = columns
                .iter()
                .flat_map(|row| row.split('`').skip(1).step_by(2));
            let is_name = |name: &&str| is_security || name.matches('_').count() > 2;

            // A name may be abbreviated with an ellipsis.
            let names: Vec<&str> = names
                .filter(is_name)
                .map(|name| name.trim_end_matches('…'))
                .collect();

            assert!(names.len() > minimum, "{page}: {names:?}");
            for name in names {
                assert!(
                    is_guest(name) || code.contains(&format!("fn {name}")),
                    "{page}: there is no test {name}"
                );
            }
        }
    }
}

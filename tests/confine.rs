//! The host confines its own process: no file and no program is left to whoever takes it over, and
//! plugins are compiled and run all the same.

use std::{fs, path::PathBuf};

use operetta_testkit::{ControlPlane, DropIn, Host, HostOptions, eventually, guest, kinds};

/// Returns the values of a field in the status of each thread of a host.
fn of_threads(host: &Host, field: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", host.pid())).expect("threads");
    let status = |folder: PathBuf| {
        let text = fs::read_to_string(folder.join("status")).expect("a status");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {field} in {text}"))
            .trim()
            .to_owned()
    };
    threads
        .map(|entry| status(entry.expect("a thread").path()))
        .collect()
}

/// Starts a host with an empty code cache.
async fn host(control_plane: &ControlPlane, config: &str) -> Host {
    let options = HostOptions {
        config: config.to_owned(),
        compiles_anew: true,
        ..HostOptions::default()
    };
    Host::start(control_plane, &options).await
}

#[tokio::test]
async fn confined_host_compiles_and_runs_plugins() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    // The host tries to open /etc/passwd, to list / and to run /bin/sh, on a thread of its runtime,
    // and does not start if it can.
    let folder = tempfile::tempdir().expect("a folder");
    let audit = folder.path().join("audit.jsonl");
    let config = format!("confine: required\nauditFile: {}", audit.display());
    let host = host(&control_plane, &config).await;

    let log = host.log();
    assert!(
        log.contains("host: confined by seccomp and Landlock"),
        "{log}"
    );
    let readiness = host.readiness();
    assert!(readiness.contains("[+]confinement ok"), "{readiness}");
    for by in ["by=\"landlock\"", "by=\"seccomp\""] {
        let value = host.metric("operetta_host_confined", &[by]);
        assert_eq!(value.to_bits(), 1_f64.to_bits(), "{by}");
    }

    let seccomp = of_threads(&host, "Seccomp");
    assert!(seccomp.len() > 2, "{seccomp:?}");
    assert!(seccomp.iter().all(|mode| mode == "2"), "{seccomp:?}");

    // The compile worker starts, the cache and the audit log are written, and the plugin runs.
    let namespace = control_plane.namespace("confined").await;
    namespace.allow_all("plugin").await;
    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;
    namespace.create_touchable("target").await;
    namespace.until_touched("target", "v1").await;

    let plugin = namespace
        .get(kinds::PLUGIN, "touch")
        .await
        .expect("a Plugin");
    assert_eq!(plugin["status"]["reason"], "Running");
    let compiled = fs::read_dir(host.folder().join("cache/operetta/compiled")).expect("a cache");
    let names: Vec<_> = compiled
        .map(|entry| entry.expect("a file").file_name())
        .collect();
    let is_code = |name: &&std::ffi::OsString| name.to_string_lossy().ends_with(".cwasm");
    assert!(names.iter().any(|name| is_code(&name)), "{names:?}");
    // The record comes after the response, which the object shows earlier.
    eventually("the audit has the write", async || {
        let written = fs::read_to_string(&audit).map_err(|error| error.to_string())?;
        match written.contains("target") {
            true => Ok(()),
            false => Err(written),
        }
    })
    .await;
    assert!(
        host.readiness().contains("[+]compile-sandbox ok"),
        "{}",
        host.readiness()
    );
    host.assert_sound();
    host.stop();
}

#[tokio::test]
async fn host_is_not_confined_if_the_configuration_says_so() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let host = host(&control_plane, "confine: off").await;

    let log = host.log();
    assert!(log.contains("host: not confined, confine is off"), "{log}");
    for by in ["by=\"landlock\"", "by=\"seccomp\""] {
        let value = host.metric("operetta_host_confined", &[by]);
        assert_eq!(value.to_bits(), 0_f64.to_bits(), "{by}");
    }
    let seccomp = of_threads(&host, "Seccomp_filters");
    let own = fs::read_to_string("/proc/self/status").expect("a status");
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp_filters:"))
        .map(str::trim);
    assert!(
        seccomp.iter().all(|filters| Some(filters.as_str()) == own),
        "{seccomp:?}, {own:?}"
    );
}

//! Tests that only a real control plane can run.

use std::{env, fs, path::Path, thread};

use crate::{controlplane::is_embedded, target_dir};

/// Reports whether to skip this test, because the tests run on the embedded API server and this one
/// needs more. Prints the reason and keeps it in a file in `target/skipped-tests`, from which `make
/// test-embedded` lists all skipped tests.
///
/// ```
/// # use operetta_testkit::needs_real_server;
/// # fn test() {
/// if needs_real_server("it kills etcd") {
///     return;
/// }
/// # }
/// # test();
/// ```
///
/// # Panics
/// Panics if the reason cannot be written.
#[must_use]
pub fn needs_real_server(reason: &str) -> bool {
    is_embedded() && {
        skip(&target_dir().join("skipped-tests"), &test_name(), reason);
        true
    }
}

/// The program and the name of the running test: the name of its thread, or under nextest the name
/// that the runner passes.
fn test_name() -> String {
    let program = env::current_exe()
        .ok()
        .and_then(|path| path.file_stem().map(|name| name.display().to_string()));
    let program = program.unwrap_or_default();

    // cargo appends a hash.
    let program = program
        .rsplit_once('-')
        .map_or(program.as_str(), |(name, _)| name);

    let of_thread = || thread::current().name().unwrap_or("unnamed").to_owned();

    format!(
        "{program} {}",
        env::var("NEXTEST_TEST_NAME").unwrap_or_else(|_| of_thread())
    )
}

fn skip(folder: &Path, test: &str, reason: &str) {
    println!("{test} needs a real control plane: {reason}");
    fs::create_dir_all(folder).expect("a folder");
    let file = test.replace(|letter: char| !letter.is_alphanumeric(), "-");
    fs::write(folder.join(file), format!("{test}: {reason}\n")).expect("the reason is kept");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_test_leaves_its_name_and_reason() {
        let folder = target_dir()
            .join("testkit")
            .join(format!("{}-skipped", std::process::id()));
        skip(&folder, "kills kill_etcd", "it kills etcd");

        let kept = fs::read_to_string(folder.join("kills-kill-etcd")).expect("kept");
        assert_eq!(kept, "kills kill_etcd: it kills etcd\n");
        fs::remove_dir_all(folder).expect("removed");
    }
}

//! `operetta test` on a project.

use std::{fs, path::Path, process::Command};

use operetta_testkit::program;

/// Runs `operetta test` and returns the exit code, stdout and stderr.
fn test(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(program("operetta"));
    command.arg("test").arg(dir).args(args);
    // If make runs these tests, its variables would change what the project's make prints.
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");

    let output = command.output().expect("operetta");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

/// A runner that opens a cluster by bash's own sockets.
const MAKEFILE: &str = r#"SHELL = /bin/bash
test:
	@token=$${OPERETTA_TEST_ADDRESS%@*} port=$${OPERETTA_TEST_ADDRESS##*:}; exec 3<>/dev/tcp/127.0.0.1/$$port; \
	echo "{\"call\":\"open\",\"token\":\"$$token\"}" >&3; read -r answer <&3; echo "$$answer $(WORD)"; exit $(CODE)
"#;

#[test]
fn runner_gets_the_address_and_arguments_and_its_exit_code_is_returned() {
    let folder = project(&[("plugin.c", ""), ("Makefile", MAKEFILE)]);
    let (code, stdout, stderr) = test(folder.path(), &["--", "WORD=passed-on", "CODE=0"]);
    assert_eq!(
        (code, stdout.trim()),
        (Some(0), r#"{"ok":null} passed-on"#),
        "{stderr}"
    );

    let (code, _, _) = test(folder.path(), &["--", "CODE=3"]);
    assert_eq!(code, Some(2), "that of make");
}

#[test]
fn unusable_project_is_refused_with_its_file() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.e.dev}\nspec: {group: e.dev}\n";
    for (files, expected) in [
        (vec![], "is not a project in a supported language"),
        (
            vec![("plugin.c", "")],
            "has no Makefile with a target \"test\"",
        ),
        (
            vec![("package.json", "{}")],
            "package.json has no script \"test\"",
        ),
        (
            vec![
                ("plugin.c", ""),
                ("Makefile", "test:\n"),
                ("crd.yaml", "a: 1\n"),
            ],
            "crd.yaml has a document without",
        ),
        (
            vec![("plugin.c", ""), ("Makefile", "test:\n"), ("crd.yaml", crd)],
            "crd.yaml is refused: CustomResourceDefinition foos.e.dev: ",
        ),
    ] {
        let folder = project(&files);
        let (code, _, stderr) = test(folder.path(), &[]);
        assert!(code == Some(1) && stderr.contains(expected), "{stderr}");
    }
}

//! `operetta build` in the repository of a program in Go or Rust that was not written for Operetta.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

use crate::{repository, succeeded};

const GO_MOD: &str = "module example.com/op\n\ngo 1.24.0\n";

/// A main package that prints a text.
fn main_package(text: &str) -> String {
    format!("package main\n\nfunc main() {{ println({text:?}) }}\n")
}

/// A folder with the files of a program.
struct Program(TempDir);

impl Program {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        Self(folder)
    }

    fn dir(&self) -> &Path {
        self.0.path()
    }

    fn output(&self) -> PathBuf {
        self.dir().join("op.wasm")
    }

    /// Runs `operetta build`, to the file [`Self::output`].
    fn build(&self, args: &[&str]) -> Output {
        self.build_in(".", args)
    }

    /// Runs it on a folder of the program.
    fn build_in(&self, dir: &str, args: &[&str]) -> Output {
        Command::new(operetta_testkit::program("operetta"))
            .args(["build", dir, "--fast", "-o", "op.wasm"])
            .args(args)
            .current_dir(self.dir())
            .env("GOTOOLCHAIN", "local")
            .env("GOFLAGS", "")
            .env("GOPROXY", "off")
            .output()
            .expect("starts")
    }

    /// Builds, and returns what `operetta` says and the component.
    fn built(&self, args: &[&str]) -> (String, Vec<u8>) {
        let said = succeeded("operetta build", &self.build(args));
        (said, fs::read(self.output()).expect("the component"))
    }

    /// Returns the error of a build that fails.
    fn error(&self, args: &[&str]) -> String {
        let output = self.build(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(!self.output().exists());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

#[test]
fn program_that_knows_nothing_of_operetta_becomes_a_process() {
    let main = r#"package main

import "net"

var version = "version-unset"

func main() {
	_, err := net.Dial("tcp", "example.com:80")
	println(version, edition, err)
}
"#;
    let edition = |name: &str, tag: &str| {
        format!("//go:build {tag}\n\npackage main\n\nconst edition = {name:?}\n")
    };
    let program = Program::new(&[
        ("go.mod", GO_MOD),
        ("package.json", "{}"),
        ("main.go", main),
        ("small.go", &edition("edition-small", "!large")),
        ("large.go", &edition("edition-large", "large")),
    ]);

    // A repository has files of other languages as well.
    let error = program.error(&[]);
    assert!(error.contains("--process"), "{error}");
    fs::remove_file(program.dir().join("package.json")).expect("removed");

    let args = ["--tags", "large", "--ldflags", "-X main.version=version-7"];
    let (said, component) = program.built(&args);
    assert!(
        said.contains("example.com/op with go1.")
            && said.contains("as a process: it doesn't import Operetta's SDK"),
        "{said}"
    );

    let inspection = operetta_wasm::inspect(&component);
    assert_eq!(inspection.error, None);
    assert_eq!(inspection.imports, [""; 0]);
    for text in ["version-7", "edition-large", "operetta_process", "dialled"] {
        assert!(contains(&component, text), "{text}");
    }
    // The names of functions are kept, the place of this build is not.
    assert!(contains(&component, "net.processConnect"));
    let here = program.dir().to_string_lossy();
    for text in ["edition-small", &here] {
        assert!(!contains(&component, text), "{text}");
    }

    // Another build, in another temporary folder, gives the same bytes.
    let (_, again) = program.built(&args);
    assert!(component == again, "the bytes differ");
}

#[test]
fn modules_come_from_where_the_repository_has_them() {
    let library = |text: &str| format!("package library\n\nconst Text = {text:?}\n");
    let main =
        "package main\n\nimport \"example.com/library\"\n\nfunc main() { println(library.Text) }\n";
    let require = format!("{GO_MOD}\nrequire example.com/library v1.0.0\n");
    let module = "module example.com/library\n\ngo 1.24.0\n";

    let replaced = Program::new(&[
        (
            "go.mod",
            &format!("{require}\nreplace example.com/library => ./fork\n"),
        ),
        ("main.go", main),
        ("fork/go.mod", module),
        ("fork/library.go", &library("from replace")),
    ]);
    assert!(contains(&replaced.built(&[]).1, "from replace"));

    let vendored = Program::new(&[
        ("go.mod", &require),
        ("main.go", main),
        (
            "vendor/example.com/library/library.go",
            &library("from vendor"),
        ),
        (
            "vendor/modules.txt",
            "# example.com/library v1.0.0\n## explicit; go 1.24.0\nexample.com/library\n",
        ),
    ]);
    assert!(contains(&vendored.built(&[]).1, "from vendor"));

    let workspace = Program::new(&[
        ("go.work", "go 1.24.0\n\nuse (\n\t./op\n\t./library\n)\n"),
        ("op/go.mod", GO_MOD),
        ("op/main.go", main),
        ("library/go.mod", module),
        ("library/library.go", &library("from go.work")),
    ]);
    succeeded("operetta build op", &workspace.build_in("op", &[]));
    let component = fs::read(workspace.output()).expect("the component");
    assert!(contains(&component, "from go.work"));
}

#[test]
fn several_main_packages_are_listed_and_one_is_chosen() {
    let program = Program::new(&[
        ("go.mod", GO_MOD),
        ("api/api.go", "package api\n"),
        ("cmd/controller/main.go", &main_package("the manager")),
        ("cmd/tool/main.go", &main_package("the tool")),
    ]);

    let error = program.error(&[]);
    assert!(
        error.contains(
            "several main packages: choose one with --main: ./cmd/controller, ./cmd/tool"
        ),
        "{error}"
    );
    let error = program.error(&["--main", "api"]);
    assert!(
        error.contains("api in ") && error.contains("is not a main package"),
        "{error}"
    );

    let (said, component) = program.built(&["--main", "cmd/controller"]);
    assert!(contains(&component, "the manager"));
    assert!(
        said.contains("--main chooses another: ./cmd/tool"),
        "{said}"
    );

    let library = Program::new(&[("go.mod", GO_MOD), ("api/api.go", "package api\n")]);
    let error = library.error(&[]);
    assert!(error.contains("has no main package"), "{error}");
}

#[test]
fn package_that_wasip1_lacks_is_named_with_its_chain_of_imports() {
    let main = "package main\n\nimport _ \"example.com/op/cli\"\n\nfunc main() {}\n";
    let cli = "package cli\n\nimport _ \"example.com/op/term\"\n";
    let program = |file: &str, text: &str| {
        Program::new(&[
            ("go.mod", GO_MOD),
            ("main.go", main),
            ("cli/cli.go", cli),
            (file, text),
        ])
    };
    let chain = "\n    example.com/op imports example.com/op/cli\
                 \n    example.com/op/cli imports example.com/op/term";

    for (text, why) in [
        (
            "//go:build linux\n\npackage term\n",
            "has no Go file for wasip1",
        ),
        ("package term\n\nimport \"C\"\n", "needs cgo"),
        (
            "package term\n\nimport \"syscall\"\n\nvar _ = syscall.Mkfifo\n",
            "undefined: syscall.Mkfifo",
        ),
    ] {
        let error = program("term/term.go", text).error(&[]);
        assert!(error.contains(why) && error.contains(chain), "{error}");
        assert!(error.contains("NotPortable"), "{error}");
    }
}

#[test]
fn foreign_imports_are_refused() {
    let main =
        "package main\n\n//go:wasmimport env magic\nfunc magic()\n\nfunc main() { magic() }\n";
    // An assembler file tells the compiler that the body is elsewhere.
    let program = Program::new(&[("go.mod", GO_MOD), ("main.go", main)]);
    let error = program.error(&[]);
    assert!(
        error.contains("the host would refuse it") && error.contains("env.magic"),
        "{error}"
    );
}

#[test]
fn plugin_stays_a_plugin_unless_forced() {
    let guest = repository().join("tests/guests/k8s-types-go");
    let output = Command::new(operetta_testkit::program("operetta"))
        .arg("build")
        .arg(&guest)
        .args(["--main", "."])
        .output()
        .expect("starts");

    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("k8s-types is a plugin"), "{error}");
}

const CARGO_TOML: &str =
    "[package]\nname = \"op\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";

fn rust_main(text: &str) -> String {
    format!("fn main() {{ println!({text:?}) }}\n")
}

#[test]
fn program_in_rust_becomes_a_process() {
    let manifest = format!("{CARGO_TOML}\n[features]\nlarge = []\n");
    let main = r#"fn main() {
    let edition = if cfg!(feature = "large") { "edition-large" } else { "edition-small" };
    println!("{edition} {}", std::env::args().count());
}
"#;
    let program = Program::new(&[("Cargo.toml", &manifest), ("src/main.rs", main)]);
    let (said, component) = program.built(&["--", "--features", "large"]);
    assert!(
        said.contains("op with rustc 1.")
            && said.contains("as a process: it doesn't use Operetta's SDK"),
        "{said}"
    );

    let inspection = operetta_wasm::inspect(&component);
    assert_eq!(inspection.error, None);
    assert!(inspection.is_command, "{:?}", inspection.exports);
    assert!(contains(&component, "edition-large") && !contains(&component, "edition-small"));
    // The names of functions are kept.
    assert!(contains(&component, "op4main"));
}

#[test]
fn one_of_several_programs_in_rust_is_chosen() {
    let program = Program::new(&[
        ("Cargo.toml", CARGO_TOML),
        ("src/bin/manager.rs", &rust_main("the manager")),
        ("src/bin/tool.rs", &rust_main("the tool")),
    ]);
    let error = program.error(&[]);
    assert!(
        error.contains("op has several programs: choose one with --main: manager, tool"),
        "{error}"
    );
    let error = program.error(&["--main", "other"]);
    assert!(error.contains("op has no program other"), "{error}");
    let error = program.error(&["--main", "tool", "--tags", "x"]);
    assert!(
        error.contains("--tags and --ldflags are for programs in Go"),
        "{error}"
    );

    let (said, component) = program.built(&["--main", "tool"]);
    assert!(contains(&component, "the tool") && !contains(&component, "the manager"));
    assert!(said.contains("--main chooses another: manager"), "{said}");
}

#[test]
fn library_in_rust_is_no_process() {
    let program = Program::new(&[("Cargo.toml", CARGO_TOML), ("src/lib.rs", "")]);
    let error = program.error(&["--process"]);
    assert!(
        error.contains("op has no program: it needs src/main.rs"),
        "{error}"
    );
}

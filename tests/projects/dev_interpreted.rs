//! `operetta dev` in TypeScript and Python: an interpreter runs each save, without a build in
//! between.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    Project,
    dev::{Session, message, replace},
    say,
};

/// The code of a new project, and what a test does to it.
struct Code {
    file: &'static str,
    /// The expression of the message.
    message: &'static str,
    /// An expression that does not parse, and what is said about it.
    broken: (&'static str, &'static str),
    /// An expression that fails in a reconcile, and what is said about it.
    failing: (&'static str, &'static str),
    /// A line that fails when the module is loaded, and what is said about it.
    not_starting: (&'static str, &'static str),
    /// A line that imports another module, and an expression of it with its value.
    import: (&'static str, &'static str, &'static str),
}

fn interpreted(project: &Project, name: &str, code: &Code) {
    let file = project.dir.join(code.file);
    let original = fs::read_to_string(&file).expect("read");
    let save = |expression: &str, line: &str| {
        fs::write(
            &file,
            format!("{}{line}\n", original.replace(code.message, expression)),
        )
        .expect("written");
    };

    let sample = format!("{name}-sample");
    let mut session = Session::start(project);
    let line = session.until("export KUBECONFIG=");
    let kubeconfig = PathBuf::from(line.split_once('=').expect("a path").1);
    session.until(&format!("built build/{name}.dev.wasm in"));

    let update = format!("update ConfigMap.v1 default/{sample}");
    session.until(&format!("create ConfigMap.v1 default/{sample}"));
    assert_eq!(message(&kubeconfig, &sample), "Hello");

    let mut times: Vec<Duration> = (0..10)
        .map(|count| {
            let saved = Instant::now();
            save(&format!("\"save {count}\""), "");
            session.until(&update);
            saved.elapsed()
        })
        .collect();

    assert_eq!(message(&kubeconfig, &sample), "save 9");
    times.sort();
    say(&format!(
        "{name}: from save to reconcile in {:.2} s (the median of {times:.2?})",
        times[5].as_secs_f64()
    ));

    save(code.broken.0, "");
    session.until(code.broken.1);
    session.until("the previous code keeps running");

    save(code.message, code.not_starting.0);
    session.until("the plugin does not start");
    session.until(code.not_starting.1);
    session.until("the previous code keeps running");
    assert_eq!(message(&kubeconfig, &sample), "save 9");

    save(code.failing.0, "");
    session.until(code.failing.1);

    let (import, expression, value) = code.import;
    fs::write(
        &file,
        format!("{import}\n{}", original.replace(code.message, expression)),
    )
    .expect("written");
    session.until(&update);
    assert_eq!(message(&kubeconfig, &sample), value);
    session.quit();
}

#[test]
fn typescript_saves_are_interpreted_and_errors_have_lines() {
    let project = Project::new_in("dev-ts", "ts", "dev-ts", "DevTsGreeting");
    project.run("npm install --no-audit --no-fund");

    let package = project.dir.join("node_modules/another");
    fs::create_dir(&package).expect("a folder");
    fs::write(
        package.join("index.mjs"),
        "export const value = 'of another package';",
    )
    .expect("written");
    fs::write(
        package.join("package.json"),
        r#"{"name": "another", "main": "index.mjs"}"#,
    )
    .expect("written");

    let code = Code {
        file: "src/plugin.ts",
        message: "object.spec.message",
        broken: ("1 +", "src/plugin.ts:17:"),
        failing: ("(undefined as any).missing", "(src/plugin.ts:17)"),
        not_starting: (
            "throw new Error(\"at the start\");",
            "at <anonymous> (src/plugin.ts:32)",
        ),
        import: (
            "// @ts-ignore\nimport { value } from \"another\";",
            "value",
            "of another package",
        ),
    };
    interpreted(&project, "dev-ts", &code);
}

#[test]
fn python_saves_are_interpreted_and_errors_have_lines() {
    let project = Project::new_in("dev-python", "python", "dev-python", "DevPythonGreeting");
    let code = Code {
        file: "plugin.py",
        message: "obj.spec.message",
        broken: ("(1 +", "File \"plugin.py\", line 21"),
        failing: (
            "{}['missing']",
            "KeyError: 'missing' at plugin.py:21 in reconcile",
        ),
        not_starting: (
            "raise ValueError('at the start')",
            "File \"plugin.py\", line 30, in <module>",
        ),
        // No interpreter has this module before.
        import: (
            "import colorsys",
            "str(colorsys.rgb_to_hsv(0, 0, 1)[2])",
            "1",
        ),
    };
    interpreted(&project, "dev-python", &code);
}

#[test]
fn changed_dependencies_start_the_helper_anew() {
    let project = Project::new_in(
        "dev-packages",
        "python",
        "dev-packages",
        "DevPackagesGreeting",
    );
    let mut session = Session::start(&project);
    session.until("built build/dev-packages.dev.wasm in");

    replace(
        &project.dir.join("pyproject.toml"),
        "[project]",
        "[project]\nname = 1\n[other]",
    );
    session.until("[project] needs a name");
    session.quit();
}

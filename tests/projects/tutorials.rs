//! The tutorials of docs/ can be followed to the letter: the test writes their files and runs their
//! commands.

use std::{fs, path::PathBuf, time::Duration};

use operetta_testkit::{ControlPlane, shell, within};

use crate::{caches, folder, host, repository};

/// A command of a console block, and the output that the page shows; empty if it shows none.
struct Step {
    command: String,
    output: String,
}

/// A page of docs/ and the home directory of the person who follows it.
struct Tutorial {
    text: String,
    home: PathBuf,
}

impl Tutorial {
    /// Reads a page and writes its files into a folder of a new home directory.
    fn new(page: &str, project: &str) -> Self {
        let home = folder().join("tutorials").join(page);
        let _not_there = fs::remove_dir_all(&home);
        let text = fs::read_to_string(repository().join("docs").join(page)).expect("the page");
        let tutorial = Self { text, home };

        for (name, content) in tutorial.files() {
            let path = tutorial.home.join(project).join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, content).expect("written");
        }

        tutorial
    }

    /// The code blocks after a line that ends with a colon and names a file.
    fn files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        let mut named: Option<String> = None;
        let mut lines = self.text.lines();

        while let Some(line) = lines.next() {
            if let Some(language) = line.strip_prefix("```") {
                let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
                if let Some(name) = named.take().filter(|_| language != "console") {
                    files.push((name, block.join("\n") + "\n"));
                }
            } else if !line.is_empty() {
                named = line
                    .strip_suffix(':')
                    .and_then(|line| line.rsplit('`').nth(1))
                    .map(str::to_owned);
            }
        }

        files
    }

    /// The commands under a heading, with the output that follows each of them.
    fn steps(&self, heading: &str) -> Vec<Step> {
        let section = self
            .text
            .split("\n## ")
            .find(|section| section.starts_with(heading))
            .expect("the section");

        let mut steps: Vec<Step> = Vec::new();
        for block in section.split("```console\n").skip(1) {
            for line in block.split("```").next().unwrap_or_default().lines() {
                match (line.strip_prefix("$ "), steps.last_mut()) {
                    (Some(command), _) => steps.push(Step {
                        command: command.to_owned(),
                        output: String::new(),
                    }),
                    (None, Some(step)) => step.output += &format!("{line}\n"),
                    (None, None) => panic!("output without a command: {line}"),
                }
            }
        }

        steps
    }

    /// Runs a script, from the repository, as the person who follows the page.
    fn run(&self, script: &str) -> Result<String, String> {
        let mut command = shell(
            &[operetta_testkit::program("operetta").as_ref()],
            &self.home.join("kubeconfig"),
            script,
        );
        command
            .current_dir(repository())
            .env("HOME", &self.home)
            .envs(caches());

        for variable in ["OPERETTA_TOOLS", "VIRTUAL_ENV", "PYTHONPATH"] {
            command.env_remove(variable);
        }

        let output = command.output().expect("bash starts");
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(format!(
                "{script}: {}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ))
        }
    }
}

/// A page of docs/ and the headings under which its commands are.
struct Page {
    name: &'static str,
    /// The folder of its project in the home directory.
    project: &'static str,
    /// The sections without a cluster.
    local: &'static [&'static str],
    /// The section with the cluster.
    run: &'static str,
}

/// Follows a page to the letter, with these programs installed.
async fn follow(page: &Page, installed: &str) {
    let tutorial = Tutorial::new(page.name, page.project);
    let local: Vec<Step> = page
        .local
        .iter()
        .flat_map(|heading| tutorial.steps(heading))
        .collect();
    let script: Vec<&str> = local.iter().map(|step| step.command.as_str()).collect();
    let output = tutorial
        .run(&format!("{installed}\n{}", script.join("\n")))
        .expect("builds and tests");

    for line in local.iter().flat_map(|step| step.output.lines()) {
        assert!(
            output.lines().any(|printed| printed == line),
            "the commands do not print {line:?}: {output}"
        );
    }

    let host = host().await;
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane
        .namespace(page.name.trim_end_matches(".md"))
        .await;

    fs::copy(control_plane.kubeconfig(), tutorial.home.join("kubeconfig")).expect("a kubeconfig");
    tutorial
        .run(&format!(
            "kubectl config set-context --current --namespace {}",
            namespace.name()
        ))
        .expect("set");

    // `operetta logs -f` does not end.
    for step in tutorial
        .steps(page.run)
        .iter()
        .filter(|step| !step.command.ends_with(" -f"))
    {
        let command = step.command.replace(
            "namespace default",
            &format!("namespace {}", namespace.name()),
        );
        let script = format!("cd ~/{}\n{command}", page.project);
        within(
            Duration::from_secs(300),
            &command,
            async || match tutorial.run(&script)? {
                output if step.output.is_empty() || output == step.output => Ok(()),
                output => Err(output),
            },
        )
        .await;
    }

    host.assert_sound();
}

#[tokio::test]
async fn follows_first_plugin_python() {
    let page = Page {
        name: "first-plugin-python.md",
        project: "page",
        local: &["1. The project", "4. A test", "5. Build and check"],
        run: "7. Run",
    };
    follow(&page, "").await;
}

#[tokio::test]
async fn follows_first_plugin_go() {
    let page = Page {
        name: "first-plugin-go.md",
        project: "page",
        local: &["1. The module", "4. A test", "5. Build and check"],
        run: "7. Run",
    };
    follow(&page, "").await;
}

#[tokio::test]
async fn follows_first_plugin_c() {
    let page = Page {
        name: "first-plugin-c.md",
        project: "greeting",
        local: &["1. The project", "5. A test", "6. Build and check"],
        run: "7. Run",
    };
    let tools = repository().join("target/tools/bin");
    follow(&page, &format!("export PATH={}:$PATH", tools.display())).await;
}

#[tokio::test]
async fn follows_first_plugin_typescript() {
    let page = Page {
        name: "first-plugin-typescript.md",
        project: "page",
        local: &["1. The project", "4. A test", "5. Build and check"],
        run: "7. Run",
    };
    follow(&page, "").await;
}

#[test]
fn from_kubebuilder_adds_the_module_to_a_project() {
    let example = repository().join("examples/app-service/go");
    let clone = folder().join("from-kubebuilder/operetta");
    let project = folder().join("from-kubebuilder/app-service");
    let _not_there = fs::remove_dir_all(folder().join("from-kubebuilder"));
    fs::create_dir_all(&project).expect("a folder");
    std::os::unix::fs::symlink(repository(), clone).expect("a link");

    // The files that stay as they are, and the project's go.mod without Operetta.
    let module = fs::read_to_string(example.join("go.mod")).expect("go.mod");
    let module: Vec<&str> = module
        .lines()
        .filter(|line| !line.contains("operetta.dev"))
        .collect();
    fs::write(project.join("go.mod"), module.join("\n")).expect("written");

    let page = fs::read_to_string(repository().join("docs/from-kubebuilder.md")).expect("the page");
    let step = page
        .split("2. Add the module")
        .nth(1)
        .and_then(|rest| rest.split("\n3. ").next())
        .expect("the step");
    let commands: Vec<&str> = step
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("$ "))
        .collect();
    assert_eq!(commands.len(), 3, "{commands:?}");

    let copy = format!(
        "cp -r {0}/api {0}/internal {0}/main.go {0}/go.sum .",
        example.display()
    );

    for command in std::iter::once(copy.as_str())
        .chain(commands)
        .chain(["go vet ./..."])
    {
        let mut shell = shell(
            &[operetta_testkit::program("operetta").as_ref()],
            &project.join("kubeconfig"),
            command,
        );

        let output = shell
            .current_dir(&project)
            .env("GOTOOLCHAIN", "local")
            .output()
            .expect("bash starts");

        assert!(
            output.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

//! What an operator's code needs, found in its imports and its syntax, without a build.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
};

use anyhow::Result;

use super::{
    helper::{self, Helper, Use},
    report::{Finding, Verdict},
};
use crate::commands::build::{ImportGraph, Package, Survey};

/// Modules that most operators import, and that by themselves connect to nothing but the API
/// server.
const QUIET: [&str; 22] = [
    "github.com/beorn7/perks",
    "github.com/davecgh/go-spew",
    "github.com/evanphx/json-patch",
    "github.com/fsnotify/fsnotify",
    "github.com/go-logr",
    "github.com/go-openapi",
    "github.com/gogo/protobuf",
    "github.com/google",
    "github.com/onsi",
    "github.com/prometheus/client_golang",
    "github.com/prometheus/client_model",
    "github.com/prometheus/common",
    "github.com/prometheus/procfs",
    "github.com/sirupsen/logrus",
    "github.com/spf13",
    "github.com/stretchr",
    "go.uber.org",
    "golang.org/x",
    "google.golang.org/protobuf",
    "k8s.io",
    "open-cluster-management.io/api",
    "sigs.k8s.io",
];

/// What every process has: the files of its ServiceAccount, and a folder for temporary ones.
const OWN_FILES: [&str; 2] = ["/var/run/secrets/kubernetes.io/serviceaccount", "/tmp"];

/// Looks for what the operator's own packages use.
///
/// # Errors
/// Returns an error if a file of them can't be parsed.
pub fn findings(
    helper: &Helper,
    project: &Path,
    survey: &Survey,
    mounts: &[String],
) -> Result<Vec<Finding>> {
    let uses = helper.uses(&helper::Needs {
        packages: survey
            .own()
            .map(|package| helper::Package {
                dir: package.dir.clone(),
                files: package.go_files.clone(),
                ignored: package.ignored_go_files.clone(),
            })
            .collect(),
        dialing: dialing(survey),
    })?;

    let mut found = vec![portable(survey)];
    found.extend(api_server(&survey.graph));
    found.extend(of_uses(&uses, project, mounts));
    Ok(found)
}

/// Whether each package has files for WebAssembly.
fn portable(survey: &Survey) -> Finding {
    let packages = survey.graph.packages().count();
    let own = survey.own().count();

    match &survey.portable {
        Ok(()) => Finding::new(
            Verdict::Works,
            "packages",
            survey.graph.main(),
            format!(
                "{own} of its own and {} others have files for WebAssembly",
                packages - own
            ),
        ),
        Err(error) => Finding::new(
            Verdict::No,
            "packages",
            survey.graph.main(),
            error.lines().map(str::trim).collect::<Vec<_>>().join("; "),
        ),
    }
}

/// The library with which the operator talks to the API server.
fn api_server(graph: &ImportGraph) -> Option<Finding> {
    ["sigs.k8s.io/controller-runtime", "k8s.io/client-go"]
        .into_iter()
        .find_map(|path| {
            let module = graph
                .packages()
                .filter_map(|package| package.module.as_ref())
                .find(|module| module.path == path)?;
            Some(Finding::new(
                Verdict::Works,
                "API server",
                format!("{path} {}", module.version),
                "leader election works, too; requests are sent as the ServiceAccount",
            ))
        })
}

/// One finding for each need, at the place where the code shows it first.
fn of_uses(uses: &[Use], project: &Path, mounts: &[String]) -> Vec<Finding> {
    let mut groups: BTreeMap<(Verdict, &'static str), (&'static str, Vec<&Use>)> = BTreeMap::new();
    for used in uses {
        if let Some((verdict, what, note)) = judge(used, mounts) {
            groups
                .entry((verdict, what))
                .or_insert((note, Vec::new()))
                .1
                .push(used);
        }
    }

    groups
        .into_iter()
        .map(|((verdict, what), (note, uses))| {
            let first = uses[0];
            let file = first.file.strip_prefix(project).unwrap_or(&first.file);
            let place = format!("{}:{}", file.display(), first.line);
            let used = if first.path.is_empty() {
                first.what.clone()
            } else {
                format!("{} {:?}", first.what, first.path)
            };
            let more = match uses.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Finding::new(verdict, what, place, format!("{used}{more}: {note}"))
        })
        .collect()
}

/// The verdict on one use; None for what the report doesn't mention.
fn judge(used: &Use, mounts: &[String]) -> Option<(Verdict, &'static str, &'static str)> {
    Some(match used.need.as_str() {
        "webhooks" => (
            Verdict::NotYet,
            "webhooks",
            "the host serves no webhooks yet; the program may register them, but nobody calls them",
        ),
        "conversion" => (
            Verdict::NotYet,
            "conversion",
            "the host serves no conversion webhooks yet",
        ),
        "network" => (
            Verdict::NotYet,
            "network",
            "so far a process reaches the API server only; other connections will need a permission",
        ),
        "clusters" => (
            Verdict::NotYet,
            "other clusters",
            "its own kubeconfig leads to another API server, which will need a permission",
        ),
        "libraries" => (
            Verdict::Maybe,
            "libraries",
            "can open connections, and so far a process reaches the API server only",
        ),
        "servers" => (
            Verdict::NotYet,
            "servers",
            "nothing but the host's probes and metrics reaches what a process listens on",
        ),
        "exec" => (
            Verdict::NotYet,
            "exec in Pods",
            "exec, attach and port-forward are refused so far, and will need a permission",
        ),
        "subprocesses" => (
            Verdict::No,
            "subprocesses",
            "a process can't start programs",
        ),
        "udp" => (Verdict::No, "UDP", "a process has TCP only"),
        "mmap" => (
            Verdict::No,
            "system calls",
            "there is no kernel below a process",
        ),
        "cgo" => (
            Verdict::No,
            "cgo",
            "C code isn't compiled, and files that need it are left out",
        ),
        "plugins" => (Verdict::No, "Go plugins", "a process can't load code"),
        "files" => {
            let path = Path::new(&used.path);
            if used.path.is_empty() {
                (
                    Verdict::Maybe,
                    "files",
                    "the code doesn't tell which; a process has /tmp, its ServiceAccount's files and the mounted volumes",
                )
            } else if OWN_FILES.iter().any(|own| path.starts_with(own))
                || mounts.iter().any(|mount| path.starts_with(mount))
            {
                (Verdict::Works, "files", "it is there")
            } else {
                (
                    Verdict::No,
                    "files",
                    "nothing is mounted there, and the image's files don't come along",
                )
            }
        }
        _ => return None,
    })
}

/// The other people's packages that the operator imports and that can open connections: those that
/// import `net` themselves, or through packages that aren't in [`QUIET`].
fn dialing(survey: &Survey) -> Vec<String> {
    let packages: HashMap<_, _> = survey
        .graph
        .packages()
        .map(|package| (package.import_path.as_str(), package))
        .collect();
    let own: HashSet<_> = survey
        .own()
        .map(|package| package.import_path.as_str())
        .collect();

    let mut found: Vec<_> = survey
        .own()
        .flat_map(|package| &package.imports)
        .map(String::as_str)
        .filter(|path| !own.contains(path) && reaches_the_network(path, &packages))
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}

fn reaches_the_network(path: &str, packages: &HashMap<&str, &Package>) -> bool {
    let mut seen = HashSet::from([path]);
    let mut stack = vec![path];
    while let Some(path) = stack.pop() {
        let Some(package) = packages.get(path) else {
            continue;
        };
        if package.standard || is_quiet(path) {
            continue;
        }

        for import in &package.imports {
            if ["net", "net/http", "crypto/tls"].contains(&import.as_str()) {
                return true;
            }
            if seen.insert(import) {
                stack.push(import);
            }
        }
    }
    false
}

fn is_quiet(path: &str) -> bool {
    QUIET.iter().any(|module| {
        let rest = path.strip_prefix(module);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(need: &str, line: u32, path: &str) -> Use {
        Use {
            need: need.to_owned(),
            what: format!("{need}.Use"),
            file: Path::new("/op/pkg/a.go").to_owned(),
            line,
            path: path.to_owned(),
        }
    }

    #[test]
    fn uses_are_counted_and_named_at_their_first_place() {
        let uses = [
            used("network", 3, ""),
            used("network", 9, ""),
            used("subprocesses", 5, ""),
            used("unheard-of", 6, ""),
        ];
        let found = of_uses(&uses, Path::new("/op"), &[]);
        let lines: Vec<_> = found
            .iter()
            .map(|f| (f.verdict, f.what.as_str(), f.place.as_str()))
            .collect();
        assert_eq!(
            lines,
            [
                (Verdict::NotYet, "network", "pkg/a.go:3"),
                (Verdict::No, "subprocesses", "pkg/a.go:5"),
            ]
        );
        assert!(
            found[0].note.starts_with("network.Use and 1 more: "),
            "{found:?}"
        );
    }

    #[test]
    fn files_work_where_something_is_mounted() {
        let mounts = ["/etc/op".to_owned()];
        for (path, verdict) in [
            ("/etc/op/config.yaml", Verdict::Works),
            ("/etc/option", Verdict::No),
            ("/tmp/x", Verdict::Works),
            (
                "/var/run/secrets/kubernetes.io/serviceaccount/token",
                Verdict::Works,
            ),
            ("templates/a.tmpl", Verdict::No),
            ("", Verdict::Maybe),
        ] {
            let found = of_uses(&[used("files", 1, path)], Path::new("/op"), &mounts);
            assert_eq!(found[0].verdict, verdict, "{path}");
        }
    }

    #[test]
    fn library_reaches_the_network_by_what_it_imports() {
        let package = |path: &str, imports: &[&str]| Package {
            import_path: path.to_owned(),
            imports: imports.iter().map(|import| (*import).to_owned()).collect(),
            standard: !path.contains('.'),
            ..Package::default()
        };
        let all = [
            package("net/http", &["net"]),
            package("fmt", &["net/http"]),
            package("db.io/driver", &["db.io/wire"]),
            package("db.io/wire", &["net"]),
            package("text.io/x", &["fmt", "k8s.io/client-go/rest"]),
            package("k8s.io/client-go/rest", &["net/http"]),
        ];
        let all: HashMap<_, _> = all.iter().map(|p| (p.import_path.as_str(), p)).collect();

        assert!(reaches_the_network("db.io/driver", &all));
        assert!(!reaches_the_network("text.io/x", &all));
        assert!(!reaches_the_network("not.there/x", &all));
    }
}

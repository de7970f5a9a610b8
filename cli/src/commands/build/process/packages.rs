//! The packages of a Go program, as `go list` prints them: which one is its main package, and by
//! which imports a package that doesn't build for wasip1 came in.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use operetta_api::reasons;
use serde::Deserialize;

use crate::commands::build::Project;

/// Where a main package is looked for before all packages are considered: the module's root, and
/// where versions of kubebuilder put it. `./cmd/NAME`, of a module NAME, comes last.
const USUAL: [&str; 3] = [".", "./cmd", "./cmd/manager"];

/// A package of `go list -json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Package {
    pub import_path: String,
    pub dir: PathBuf,
    pub name: String,
    pub imports: Vec<String>,
    pub go_files: Vec<String>,
    /// Files that build constraints exclude.
    pub ignored_go_files: Vec<String>,
    pub module: Option<Module>,
    /// True for a package of Go's standard library.
    pub standard: bool,
    pub error: Option<PackageError>,
}

impl Package {
    /// True for a package of the module in a folder, of one in a folder below it, or of another
    /// module of its workspace; not for one in a vendor folder.
    pub fn is_within(&self, dir: &Path) -> bool {
        let below = self.dir.strip_prefix(dir);
        let vendored = |inner: &Path| inner.components().any(|part| part.as_os_str() == "vendor");
        self.module.as_ref().is_some_and(|module| module.main)
            || below.is_ok_and(|inner| !self.standard && !vendored(inner))
    }
}

/// The module of a package, in the version and the folder that the build takes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Module {
    pub path: String,
    pub version: String,
    /// Empty if the module is in a vendor folder.
    pub dir: PathBuf,
    /// True for the program's module, and those of its workspace.
    pub main: bool,
}

/// Why a package can't be loaded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PackageError {
    pub err: String,
}

/// Reads the output of `go list -json`, which is one JSON object after the other.
///
/// # Errors
/// Returns an error if it isn't.
pub fn read(output: &str) -> Result<Vec<Package>> {
    serde_json::Deserializer::from_str(output)
        .into_iter()
        .collect::<Result<_, _>>()
        .context("failed to read the output of go list")
}

/// The main package of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct MainPackage {
    /// Its folder relative to the project's, as an argument of `go build`: `./cmd/manager`.
    pub path: String,
    /// The project's other main packages.
    pub others: Vec<String>,
}

impl MainPackage {
    /// Chooses among the packages of a module: the one that the user names, or one at a usual place,
    /// or the only one.
    ///
    /// # Errors
    /// Returns an error that lists the main packages if there is none of this name, or if nothing
    /// decides between several.
    pub fn choose(project: &Project, packages: &[Package], named: Option<&str>) -> Result<Self> {
        let dir = &project.dir;
        let mut all: Vec<_> = packages
            .iter()
            .filter(|package| package.name == "main")
            .filter_map(|package| Some((relative(dir, &package.dir)?, package)))
            .collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));

        let list = || {
            let paths: Vec<_> = all.iter().map(|(path, _)| path.as_str()).collect();
            paths.join(", ")
        };

        let chosen = if let Some(named) = named {
            let wanted = normal(named);
            let found = all
                .iter()
                .find(|(path, package)| *path == wanted || package.import_path == named);
            found.map(|(path, _)| path.clone()).with_context(|| {
                let there = if all.is_empty() {
                    "the module has none".to_owned()
                } else {
                    format!("the main packages are {}", list())
                };
                reasons::NO_MAIN_PACKAGE.error(format!(
                    "{named} in {} is not a main package: {there}",
                    dir.display()
                ))
            })?
        } else {
            let own = format!("./cmd/{}", project.name);
            let usual = USUAL
                .into_iter()
                .chain([own.as_str()])
                .find(|usual| all.iter().any(|(path, _)| path == usual));
            match (usual, all.as_slice()) {
                (Some(usual), _) => usual.to_owned(),
                (None, [(only, _)]) => only.clone(),
                (None, []) => bail!(reasons::NO_MAIN_PACKAGE.error(format!(
                    "{} has no main package, so there is no program to build; if go.mod of the program is in another \
                     folder, name that one",
                    dir.display()
                ))),
                (None, _) => bail!(reasons::NO_MAIN_PACKAGE.error(format!(
                    "{} has several main packages: choose one with --main: {}",
                    dir.display(),
                    list()
                ))),
            }
        };

        let others = all.into_iter().map(|(path, _)| path);
        Ok(Self {
            others: others.filter(|path| *path != chosen).collect(),
            path: chosen,
        })
    }
}

/// A folder of the module as an argument of `go build`; None if it isn't inside.
fn relative(dir: &Path, package: &Path) -> Option<String> {
    let inner = package.strip_prefix(dir).ok()?.to_str()?;
    Some(if inner.is_empty() {
        ".".to_owned()
    } else {
        format!("./{inner}")
    })
}

/// What a user types for a folder, as [`relative`] writes it.
fn normal(named: &str) -> String {
    let inner = named.trim_start_matches("./").trim_end_matches('/');
    if inner.is_empty() || inner == "." {
        ".".to_owned()
    } else {
        format!("./{inner}")
    }
}

/// Which packages import which, from the main package on.
pub struct ImportGraph {
    main: String,
    packages: HashMap<String, Package>,
}

impl ImportGraph {
    /// Takes the output of `go list -deps`, whose last package is the main one.
    ///
    /// # Errors
    /// Returns an error if the output can't be read.
    pub fn read(output: &str) -> Result<Self> {
        let packages = read(output)?;
        let main = packages.last().map(|main| main.import_path.clone());
        Ok(Self {
            main: main.context("go list printed no package")?,
            packages: packages
                .into_iter()
                .map(|package| (package.import_path.clone(), package))
                .collect(),
        })
    }

    /// A package of the program, by its import path.
    pub fn package(&self, path: &str) -> Option<&Package> {
        self.packages.get(path)
    }

    /// All packages of the program, in no order.
    pub fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.values()
    }

    /// True if the program imports a package of this module.
    pub fn imports(&self, module: &str) -> bool {
        let inside = |path: &String| {
            path.strip_prefix(module)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.packages.keys().any(inside)
    }

    /// The import path of the main package.
    pub fn main(&self) -> &str {
        &self.main
    }

    /// Checks that each package has files for wasip1.
    ///
    /// # Errors
    /// Returns an error that names each package without, why, and who imports it.
    pub fn check(&self) -> Result<()> {
        let mut broken: Vec<_> = self
            .packages
            .values()
            .filter_map(|package| Some((package, package.error.as_ref()?)))
            .collect();
        if broken.is_empty() {
            return Ok(());
        }
        broken.sort_by(|(a, _), (b, _)| a.import_path.cmp(&b.import_path));

        let mut message = format!("{} does not build for wasip1:", self.main);
        for (package, error) in broken {
            let path = &package.import_path;
            let _infallible = if excluded(&error.err) {
                write!(message, "\n  {path} {}", why_excluded(package))
            } else {
                write!(message, "\n  {path}: {}", error.err.trim())
            };
            message += &self.chain_lines(path);
        }

        bail!(reasons::NOT_PORTABLE.error(message))
    }

    /// The error for packages that the compiler has refused; it has printed why.
    pub fn refused<'a>(&self, packages: impl IntoIterator<Item = &'a str>) -> anyhow::Error {
        let mut message = format!(
            "{} does not compile for wasip1 (the compiler's errors are above):",
            self.main
        );
        for path in packages {
            let _infallible = write!(message, "\n  {path}");
            message += &self.chain_lines(path);
        }

        reasons::NOT_PORTABLE.error(message).into()
    }

    /// Who imports a package, one line for each import.
    fn chain_lines(&self, path: &str) -> String {
        let chain = self.chain(path);
        chain.windows(2).fold(String::new(), |lines, pair| {
            format!("{lines}\n    {} imports {}", pair[0], pair[1])
        })
    }

    /// A shortest chain of imports from the main package to another one, with both; empty if there
    /// is none.
    fn chain(&self, to: &str) -> Vec<&str> {
        let mut importer: HashMap<&str, &str> = HashMap::new();
        let mut seen: HashSet<&str> = HashSet::from([self.main.as_str()]);
        let mut queue = VecDeque::from([self.main.as_str()]);

        while let Some(path) = queue.pop_front() {
            if path == to {
                let mut chain = vec![path];
                while let Some(by) = importer.get(chain[chain.len() - 1]) {
                    chain.push(by);
                }
                chain.reverse();
                return chain;
            }

            let imports = self.packages.get(path).map(|package| &package.imports);
            for import in imports.into_iter().flatten() {
                if seen.insert(import) {
                    importer.insert(import, path);
                    queue.push_back(import);
                }
            }
        }

        Vec::new()
    }
}

/// True for the error of a package whose files are all excluded.
fn excluded(error: &str) -> bool {
    error.contains("build constraints exclude all Go files") || error.contains("no Go files in")
}

/// Why a package has no files for wasip1.
fn why_excluded(package: &Package) -> &'static str {
    // Files for other systems, such as input of `cgo -godefs`, import "C" as well.
    let is_cgo = |file: &String| {
        let text = std::fs::read_to_string(package.dir.join(file)).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        let constraint = lines.clone().find(|line| line.starts_with("//go:build "));
        lines.any(|line| line == "import \"C\"")
            && constraint.is_none_or(|line| line.contains("cgo"))
    };

    if package.ignored_go_files.iter().any(is_cgo) {
        "needs cgo, C code that WebAssembly has no compiler for"
    } else {
        "has no Go file for wasip1: its build constraints name other systems"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Language;

    fn package(path: &str, name: &str) -> Package {
        Package {
            import_path: format!("example.com/op{}", path.trim_start_matches('.')),
            dir: Path::new("/op").join(path.trim_start_matches("./").trim_start_matches('.')),
            name: name.to_owned(),
            ..Package::default()
        }
    }

    fn choose(packages: &[Package], named: Option<&str>) -> Result<MainPackage> {
        let project = Project {
            dir: PathBuf::from("/op"),
            language: Language::Go,
            name: "op".to_owned(),
        };
        MainPackage::choose(&project, packages, named)
    }

    #[test]
    fn main_package_is_the_root_or_cmd_or_the_only_one() {
        let root = package(".", "main");
        let cmd = package("./cmd", "main");
        let manager = package("./cmd/manager", "main");
        let tool = package("./hack/tool", "main");
        let own = package("./cmd/op", "main");
        let other = package("./cmd/other", "main");
        let library = package("./api", "api");

        for (packages, chosen) in [
            (vec![tool.clone(), root, cmd.clone()], "."),
            (vec![tool.clone(), cmd], "./cmd"),
            (vec![tool.clone(), manager], "./cmd/manager"),
            (vec![tool.clone(), own, other.clone()], "./cmd/op"),
            (vec![library, other.clone()], "./cmd/other"),
        ] {
            let others = packages.iter().filter(|p| p.name == "main").count() - 1;
            let main = choose(&packages, None).expect("a main package");
            assert_eq!((main.path.as_str(), main.others.len()), (chosen, others));
        }

        let error = choose(&[tool, other], None)
            .expect_err("several")
            .to_string();
        assert!(
            error.contains("--main: ./cmd/other, ./hack/tool"),
            "{error}"
        );
    }

    #[test]
    fn named_main_package_is_found_by_folder_or_import_path() {
        let all = [package(".", "main"), package("./cmd/manager", "main")];

        for named in [
            "cmd/manager",
            "./cmd/manager/",
            "example.com/op/cmd/manager",
        ] {
            let main = choose(&all, Some(named)).expect(named);
            assert_eq!(main.path, "./cmd/manager");
            assert_eq!(main.others, ["."]);
        }
        assert_eq!(choose(&all, Some("./")).expect("the root").path, ".");

        let error = format!("{:#}", choose(&all, Some("cmd")).expect_err("none"));
        assert!(
            error.contains("cmd in /op is not a main package"),
            "{error}"
        );
        assert!(error.contains("are ., ./cmd/manager"), "{error}");
    }

    #[test]
    fn module_without_a_main_package_is_an_error() {
        let error = choose(&[package("./api", "api")], None)
            .expect_err("none")
            .to_string();
        assert!(error.contains("/op has no main package"), "{error}");
    }

    /// A program that reaches `unix` in three steps and, by a detour, in four.
    const GRAPH: &str = r#"
        {"ImportPath": "x/sys/unix", "Dir": "/none", "Error": {"ImportStack": ["x"],
         "Err": "build constraints exclude all Go files in /none"}}
        {"ImportPath": "term", "Imports": ["os", "x/sys/unix"]}
        {"ImportPath": "detour", "Imports": ["term"]}
        {"ImportPath": "cli", "Imports": ["detour", "term"]}
        {"ImportPath": "sdk.dev/go/api"}
        {"ImportPath": "op/cmd", "Name": "main", "Imports": ["fmt", "cli", "sdk.dev/go/api"]}
    "#;

    #[test]
    fn package_without_files_is_named_with_the_shortest_chain() {
        let graph = ImportGraph::read(GRAPH).expect("packages");
        let error = graph.check().expect_err("unix").to_string();

        assert!(
            error.starts_with("op/cmd does not build for wasip1:\n  x/sys/unix has no Go file"),
            "{error}"
        );
        let chain = "\n    op/cmd imports cli\n    cli imports term\n    term imports x/sys/unix";
        assert!(error.ends_with(chain), "{error}");

        let error = graph.refused(["term"]).to_string();
        assert!(
            error.ends_with("  term\n    op/cmd imports cli\n    cli imports term"),
            "{error}"
        );
    }

    #[test]
    fn cgo_and_other_errors_are_told_apart_from_constraints() {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("c.go"), "package c\n\nimport \"C\"\n").expect("a file");
        let dir = serde_json::to_string(folder.path()).expect("JSON");

        let text = format!(
            r#"{{"ImportPath": "c", "Dir": {dir}, "IgnoredGoFiles": ["c.go"],
                 "Error": {{"Err": "build constraints exclude all Go files in x"}}}}
               {{"ImportPath": "gone", "Error": {{"Err": "no required module provides package gone\n"}}}}
               {{"ImportPath": "op", "Imports": ["c", "gone"]}}"#
        );
        let graph = ImportGraph::read(&text).expect("packages");
        let error = graph.check().expect_err("two").to_string();
        assert!(error.contains("  c needs cgo"), "{error}");
        assert!(error.contains("  gone: no required module"), "{error}");
    }

    #[test]
    fn module_is_imported_by_its_packages_only() {
        let graph = ImportGraph::read(GRAPH).expect("packages");
        assert!(graph.imports("sdk.dev/go"));
        assert!(!graph.imports("sdk.dev/g"));
        assert_eq!(graph.main(), "op/cmd");
    }
}

//! The go.mod of an operator, and that of the plugin that uses it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use operetta_api::reasons;

use super::output::Output;

/// The module that an operator has to use.
const CONTROLLER_RUNTIME: &str = "sigs.k8s.io/controller-runtime";

/// The go.mod of an operator.
pub struct GoModule {
    /// The module's path.
    pub path: String,
    /// The lines `replace`, without the word.
    replacements: Vec<String>,
}

impl GoModule {
    /// Reads go.mod.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, has no module line, or does not require controller-runtime.
    pub fn read(dir: &Path) -> Result<Self> {
        let file = dir.join("go.mod");
        let text = std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
        let lines = || text.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
        let path = lines().find_map(|line| line.strip_prefix("module ")).map(|path| path.trim().trim_matches('"'));
        let path = path.with_context(|| format!("{} has no line `module`: run `go mod init`", file.display()))?;
        let required = lines().any(|line| {
            let line = line.strip_prefix("require ").unwrap_or(line).trim();
            line.split_whitespace().next() == Some(CONTROLLER_RUNTIME)
        });
        if !required {
            bail!(reasons::NO_PROJECT.error(format!(
                "{} does not require {CONTROLLER_RUNTIME}: only operators for controller-runtime can be imported",
                file.display()
            )));
        }
        let mut in_block = false;
        let mut replacements = Vec::new();
        for line in lines() {
            match line.strip_prefix("replace") {
                Some(rest) if rest.trim() == "(" => in_block = true,
                Some(rest) if rest.starts_with([' ', '\t']) => replacements.push(rest.trim().to_owned()),
                _ if in_block && line == ")" => in_block = false,
                _ if in_block && !line.is_empty() => replacements.push(line.to_owned()),
                _ => {}
            }
        }
        Ok(Self { path: path.to_owned(), replacements })
    }

    /// Returns the go.mod of the plugin. Its path begins with the operator's, so that it may use the operator's internal
    /// packages.
    pub fn plugin(&self, name: &str, dir: &Path, output: &Output) -> String {
        let mut replaced = vec![
            format!("{} => {}", self.path, output.relative(dir)),
            "operetta.dev/sdk-go => ./sdk".to_owned(),
            "operetta.dev/sdk-go/controllerruntime => ./sdk/controllerruntime".to_owned(),
        ];
        for line in &self.replacements {
            replaced.push(match line.split_once("=>").map(|(module, folder)| (module.trim(), folder.trim())) {
                Some((module, folder)) if folder.starts_with('.') => {
                    let folder = dir.join(folder);
                    format!("{module} => {}", output.relative(&folder.canonicalize().unwrap_or(folder)))
                }
                _ => line.clone(),
            });
        }
        let replaced: String = replaced.iter().map(|line| format!("\t{line}\n")).collect();
        format!(
            "module {0}/{name}\n\ngo 1.26.0\n\nrequire (\n\t{0} v0.0.0\n\toperetta.dev/sdk-go v0.0.0\n\t\
             operetta.dev/sdk-go/controllerruntime v0.0.0\n)\n\nreplace (\n{replaced})\n",
            self.path
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ImportArgs;

    fn output(dir: &Path, output: &Path) -> Output {
        let args = ImportArgs {
            dir: dir.to_owned(),
            output: Some(output.to_owned()),
            name: None,
            namespace: None,
            main: None,
            own_namespace: false,
        };
        Output::new(&args, dir).expect("a folder")
    }

    #[test]
    fn plugin_module_repeats_replacements_from_its_own_folder() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path().canonicalize().expect("folder");
        let dir = root.join("operator");
        for folder in [dir.join("api"), root.join("i")] {
            std::fs::create_dir_all(folder).expect("folder");
        }
        let text = "module example.com/a/operator // x\n\nrequire (\n\tsigs.k8s.io/controller-runtime v0.25.2\n)\n\n\
                    replace example.com/a/operator/api => ./api\n\nreplace (\n\ta.b/c v1.0.0 => d.e/f v2.0.0 // y\n\
                    \tg.h/i => ../i\n)\n";
        std::fs::write(dir.join("go.mod"), text).expect("written");
        let module = GoModule::read(&dir).expect("read");
        for (to, lines) in [
            ("elsewhere/plugin", ["../../operator", "../../operator/api", "../../i"]),
            ("operator/plugin", ["..", "../api", "../../i"]),
        ] {
            std::fs::create_dir_all(root.join(to)).expect("folder");
            let made = module.plugin("x", &dir, &output(&dir, &root.join(to)));
            assert!(made.starts_with("module example.com/a/operator/x\n"), "{made}");
            for line in [
                format!("\texample.com/a/operator => {}\n", lines[0]),
                format!("\texample.com/a/operator/api => {}\n", lines[1]),
                "\ta.b/c v1.0.0 => d.e/f v2.0.0\n".to_owned(),
                format!("\tg.h/i => {}\n", lines[2]),
            ] {
                assert!(made.contains(&line), "{line}\n{made}");
            }
        }
    }

    #[test]
    fn module_without_controller_runtime_is_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let read = |text: &str| {
            std::fs::write(folder.path().join("go.mod"), text).expect("written");
            GoModule::read(folder.path())
        };
        for (text, part) in [
            (
                "module x\nrequire sigs.k8s.io/controller-runtime/tools v0.1.0\n",
                "does not require sigs.k8s.io/controller-runtime",
            ),
            ("require sigs.k8s.io/controller-runtime v0.25.2\n", "has no line `module`"),
        ] {
            let error = read(text).err().expect("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
        let module = read("module x\nrequire sigs.k8s.io/controller-runtime v0.25.2\n").expect("read");
        assert_eq!(module.path, "x");
    }
}

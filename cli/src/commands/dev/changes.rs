//! The saves in a project's folder.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs, mem,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use sha2::{Digest, Sha256};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::timeout,
};

/// How long to wait for a further save: editors write several files, which count as one save.
const QUIET: Duration = Duration::from_millis(30);
/// How long to collect saves at most, if they never pause.
const LONGEST: Duration = Duration::from_millis(300);
/// Folders that tools write to and no build reads.
const IGNORED: [&str; 9] = [
    "build",
    "target",
    "node_modules",
    "dist",
    ".git",
    ".operetta",
    ".venv",
    "__pycache__",
    ".mypy_cache",
];

/// Watches a folder.
pub struct Changes {
    /// Ignored names are searched in paths relative to these folders.
    roots: [PathBuf; 2],
    saved: UnboundedReceiver<Vec<PathBuf>>,
    /// Paths that wait for further saves.
    collected: Vec<PathBuf>,
    /// The hashes of files as last reported: builds rewrite files without changing them.
    known: HashMap<PathBuf, [u8; 32]>,
    _watcher: RecommendedWatcher,
}

impl Changes {
    /// Watches a folder and everything in it, and the files directly in another.
    ///
    /// # Errors
    /// Returns the error of the operating system, for example when too many files are watched.
    pub fn watch(folder: &Path, files_of: &Path) -> Result<Self> {
        let (sender, saved) = unbounded_channel();
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                // Reads are events too, and a build reads every file.
                if let Ok(event) = event.as_ref()
                    && !event.kind.is_access()
                {
                    drop(sender.send(event.paths.clone()));
                }
            })
            .context("failed to watch files")?;

        // Ignored folders may be large, so they are not watched at all: each folder is watched by
        // itself.
        let mut known = HashMap::new();
        let watched: BTreeSet<PathBuf> = folders(folder)
            .into_iter()
            .chain([files_of.to_owned()])
            .collect();

        for folder in watched {
            watcher
                .watch(&folder, RecursiveMode::NonRecursive)
                .with_context(|| format!("failed to watch {}", folder.display()))?;
            for file in fs::read_dir(&folder).into_iter().flatten().flatten() {
                known.extend(contents(&file.path()).map(|contents| (file.path(), contents)));
            }
        }

        Ok(Self {
            roots: [folder.to_owned(), files_of.to_owned()],
            saved,
            collected: Vec::new(),
            known,
            _watcher: watcher,
        })
    }

    /// Waits for files whose contents have changed, and returns their paths. Cancel safe: what was
    /// not returned is returned later.
    pub async fn next(&mut self) -> Vec<PathBuf> {
        loop {
            if self.collected.is_empty() {
                let Some(paths) = self.saved.recv().await else {
                    return std::future::pending().await;
                };
                self.collected = paths;
            }

            let collect = async {
                while let Ok(Some(more)) = timeout(QUIET, self.saved.recv()).await {
                    self.collected.extend(more);
                }
            };
            let _either_way = timeout(LONGEST, collect).await;

            let paths = mem::take(&mut self.collected);
            let changed = self.changed(paths);
            if !changed.is_empty() {
                return changed;
            }
        }
    }

    fn changed(&mut self, paths: Vec<PathBuf>) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        for path in paths.into_iter().collect::<HashSet<_>>() {
            let Some(below) = self
                .roots
                .iter()
                .find_map(|root| path.strip_prefix(root).ok())
            else {
                continue;
            };

            if is_ignored(below) || path.is_dir() {
                continue;
            }

            let now = contents(&path);
            let before = match now {
                Some(now) => self.known.insert(path.clone(), now),
                None => self.known.remove(&path),
            };

            if before != now {
                changed.push(path);
            }
        }

        changed.sort();
        changed
    }
}

fn contents(path: &Path) -> Option<[u8; 32]> {
    if !path.is_file() {
        return None;
    }

    fs::read(path)
        .ok()
        .map(|bytes| Sha256::digest(bytes).into())
}

/// Returns a folder and those in it that are not ignored.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && !is_ignored(Path::new(&entry.file_name())) {
            found.extend(folders(&entry.path()));
        }
    }

    found
}

/// Reports whether a path is in an ignored folder, or is an editor's own file, such as a swap file.
fn is_ignored(path: &Path) -> bool {
    let names = path
        .components()
        .map(|component| component.as_os_str().to_string_lossy());
    let mut names = names.peekable();

    while let Some(name) = names.next() {
        // vim creates a file named 4913 to find out whether it may create files in a folder.
        let is_file = names.peek().is_none();
        if IGNORED.contains(&name.as_ref())
            || is_file
                && (name.ends_with('~')
                    || name.starts_with(".#")
                    || name.ends_with(".swp")
                    || name == "4913")
        {
            return true;
        }
    }

    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn save_is_reported_once_and_unchanged_contents_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a path");
        fs::create_dir_all(folder.join("src/deep")).expect("a folder");
        fs::create_dir_all(folder.join("node_modules/x")).expect("a folder");
        fs::write(folder.join("src/deep/a.ts"), "1").expect("written");

        let mut changes = Changes::watch(&folder, &folder).expect("watched");
        fs::write(folder.join("src/deep/a.ts"), "1").expect("written");
        fs::write(folder.join("node_modules/x/b.ts"), "1").expect("written");

        assert!(
            timeout(Duration::from_millis(400), changes.next())
                .await
                .is_err(),
            "nothing has changed"
        );

        for text in ["2", "3"] {
            fs::write(folder.join("src/deep/a.ts"), text).expect("written");
        }
        fs::write(folder.join("crd.yaml"), "x").expect("written");

        let mut changed = changes.next().await;
        if changed.len() == 1 {
            changed.extend(changes.next().await);
        }

        assert_eq!(
            changed,
            [folder.join("crd.yaml"), folder.join("src/deep/a.ts")]
        );
    }

    #[tokio::test]
    async fn save_outlives_the_call_that_collects_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a path");
        let mut changes = Changes::watch(&folder, &folder).expect("watched");
        fs::write(folder.join("plugin.c"), "1").expect("written");

        // Another event of the session ends the call, while it waits for further saves.
        while changes.collected.is_empty() {
            assert!(
                timeout(QUIET / 10, changes.next()).await.is_err(),
                "it is quiet for a shorter time"
            );
        }

        let changed = timeout(Duration::from_secs(10), changes.next()).await;
        assert_eq!(changed, Ok(vec![folder.join("plugin.c")]));
    }

    #[test]
    fn folders_of_tools_and_files_of_editors_are_ignored() {
        for (path, ignored) in [
            ("build/a.wasm", true),
            ("src/target/x.rs", true),
            (".operetta/kubeconfig", true),
            ("src/.a.ts.swp", true),
            ("a.py~", true),
            ("src/builder/a.ts", false),
            ("plugin.py", false),
        ] {
            assert_eq!(is_ignored(Path::new(path)), ignored, "{path}");
        }
    }
}

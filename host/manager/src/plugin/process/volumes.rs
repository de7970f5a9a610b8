//! The volumes of a process: files that follow their ConfigMaps and Secrets, and folders of its own.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use operetta_api::reasons;
use operetta_core::{
    gate::bytes::{Bytes, NoRoom},
    ports::LogLevel,
};
use operetta_wasm::process::{EmptyDir, FileError, Files, Projected};
use tokio::sync::watch;

use super::{
    definition::Definition,
    inputs::{self, VolumeFiles, impossible_mount},
};
use crate::{
    plugin::{config::references::Contents, crd::ProcessSpec},
    problem::Problem,
};

/// The size of an `emptyDir` without a `sizeLimit`, in bytes.
const EMPTY_DIR_BYTES: u64 = 64 << 20;
/// The most files and folders of an `emptyDir`.
const EMPTY_DIR_ENTRIES: u64 = 10_000;

/// The `emptyDir`s by the names of their volumes. They live as long as the definition, as those of
/// a Pod live as long as the Pod: a restarted process finds its files.
pub struct EmptyDirs(BTreeMap<String, EmptyDir>);

impl EmptyDirs {
    /// Makes the empty folders of a spec. `memory` opens a charge for what one of them holds.
    pub fn of(spec: &ProcessSpec, memory: impl Fn() -> Option<Bytes>) -> Self {
        let all = spec.volumes.iter().filter_map(|volume| {
            let source = volume.empty_dir.as_ref()?;
            let limit = source
                .size_limit_bytes()
                .map_or(EMPTY_DIR_BYTES, |bytes| bytes as u64);
            let folder = EmptyDir::charged(limit, EMPTY_DIR_ENTRIES, memory());
            Some((volume.name.clone(), folder))
        });
        Self(all.collect())
    }
}

/// The files of a running process that change with their ConfigMaps and Secrets.
pub struct LiveVolumes {
    sources: watch::Receiver<Arc<Contents>>,
    /// The volumes, by their place in the spec.
    volumes: Vec<(usize, Projected)>,
    charge: Charge,
}

impl LiveVolumes {
    /// Mounts the volumes of a definition with these contents.
    ///
    /// # Errors
    /// What is missing, has no room or cannot be mounted.
    pub(super) fn mount(
        definition: &Definition,
        files: &mut Files,
        sources: watch::Receiver<Arc<Contents>>,
        contents: &Contents,
    ) -> Result<Self, Problem> {
        let spec = &definition.spec;
        let mut made: BTreeMap<&str, (Projected, VolumeFiles)> = BTreeMap::new();
        let mut volumes = Vec::new();
        let mut charge = Charge::new(definition.gate.memory());
        for (at, volume) in spec.volumes.iter().enumerate() {
            if let Some(files) = inputs::files(volume, at, contents, definition.fields())? {
                charge.set(at, size(&files)).map_err(|error| {
                    let message = format!("spec.process.volumes[{at}]: {error}");
                    Problem::new(reasons::CONFIG_TOO_LARGE, message)
                })?;
                let projected =
                    Projected::new(files.clone()).map_err(|error| impossible_mount(&error))?;
                volumes.push((at, projected.clone()));
                made.insert(&volume.name, (projected, files));
            }
        }

        for mount in &spec.volume_mounts {
            let (path, sub_path) = (&mount.mount_path, &mount.sub_path);
            let mounted = match (
                definition.empty_dirs.0.get(&mount.name),
                made.get(&*mount.name),
            ) {
                (Some(folder), _) if mount.read_only => {
                    files.mount_empty_dir_read_only(path, folder, sub_path)
                }
                (Some(folder), _) => files.mount_empty_dir(path, folder, sub_path),
                (None, Some((projected, _))) if is_whole(sub_path) => {
                    files.mount(path, projected, "")
                }
                (None, Some((_, content))) => mount_part(files, path, content, sub_path),
                (None, None) => Ok(()),
            };
            mounted.map_err(|error| impossible_mount(&error))?;
        }

        Ok(Self {
            sources,
            volumes,
            charge,
        })
    }

    /// Replaces the files when their sources change, those of each volume at once.
    pub(super) async fn follow(&mut self, definition: &Definition) -> Infallible {
        while self.sources.changed().await.is_ok() {
            let contents = self.sources.borrow_and_update().clone();
            self.replace(definition, &contents);
        }
        // Nobody reads them any more: the plugin is being stopped.
        std::future::pending().await
    }

    fn replace(&mut self, definition: &Definition, contents: &Contents) {
        for (at, projected) in &self.volumes {
            let volume = &definition.spec.volumes[*at];
            // Without its source a volume keeps its files, as in a Pod; the Plugin's condition
            // reports it.
            let Ok(Some(files)) = inputs::files(volume, *at, contents, definition.fields()) else {
                continue;
            };
            let replaced = self
                .charge
                .set(*at, size(&files))
                .map_err(|error| error.to_string())
                .and_then(|()| projected.replace(files).map_err(|error| error.to_string()));
            if let Err(error) = replaced {
                let line = format!("the volume {:?} keeps its old files: {error}", volume.name);
                definition.log.write_host_line(LogLevel::Warn, line);
            }
        }
    }
}

fn is_whole(sub_path: &str) -> bool {
    sub_path.split('/').all(|name| matches!(name, "" | "."))
}

/// Mounts one file or folder as it is now: a kubelet does not update those either.
fn mount_part(
    files: &mut Files,
    path: &str,
    content: &VolumeFiles,
    sub_path: &str,
) -> Result<(), FileError> {
    let (content, part) = part_of(content, sub_path);
    files.mount(path, &Projected::new(content)?, part)
}

/// Returns the files of a part of a volume, and where it is among them. If there is no such part, it
/// is an empty folder, which a kubelet makes.
fn part_of<'a>(content: &VolumeFiles, sub_path: &'a str) -> (VolumeFiles, &'a str) {
    let part = sub_path.trim_matches('/');
    let is_part = |file: &String| {
        let rest = file.strip_prefix(part);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let content: VolumeFiles = content
        .iter()
        .filter(|(file, _)| is_part(file))
        .map(|(file, bytes)| (file.clone(), bytes.clone()))
        .collect();
    let part = if content.is_empty() { "" } else { part };
    (content, part)
}

fn size(files: &VolumeFiles) -> u64 {
    files.values().map(|bytes| bytes.len() as u64).sum()
}

/// What the files of the volumes take of the namespace's memory.
struct Charge {
    memory: Option<Bytes>,
    /// By the volume's place in the spec.
    taken: BTreeMap<usize, u64>,
}

impl Charge {
    fn new(memory: Option<Bytes>) -> Self {
        Self {
            memory,
            taken: BTreeMap::new(),
        }
    }

    /// Charges a volume for this many bytes from now on.
    fn set(&mut self, volume: usize, bytes: u64) -> Result<(), NoRoom> {
        let before = self.taken.get(&volume).copied().unwrap_or_default();
        if let Some(memory) = &mut self.memory {
            memory.take(bytes.saturating_sub(before))?;
            memory.give(before.saturating_sub(bytes));
        }
        self.taken.insert(volume, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use operetta_core::gate::bytes::ByteBudget;

    use super::*;

    #[test]
    fn volumes_are_charged_for_what_they_hold_now() {
        let budget = ByteBudget::new("a namespace", 100);
        let mut charge = Charge::new(Some(budget.open()));
        charge.set(0, 60).expect("room");
        charge.set(1, 40).expect("room");
        assert!(charge.set(0, 61).is_err());
        assert_eq!(budget.used(), 100);
        charge.set(0, 10).expect("smaller");
        charge.set(1, 90).expect("room again");
        drop(charge);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn part_that_does_not_exist_is_an_empty_folder() {
        let content = VolumeFiles::from([
            ("a/b".to_owned(), b"x".to_vec()),
            ("ab".to_owned(), b"y".to_vec()),
        ]);
        for (sub_path, names, part) in [
            ("ab", &["ab"][..], "ab"),
            ("a/", &["a/b"], "a"),
            ("a/b", &["a/b"], "a/b"),
            ("c", &[], ""),
        ] {
            let (files, found) = part_of(&content, sub_path);
            assert_eq!(files.keys().collect::<Vec<_>>(), names, "{sub_path}");
            assert_eq!(found, part, "{sub_path}");
        }
    }
}

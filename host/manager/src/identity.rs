//! A host's identity among all hosts: the machine's name and a random id.
//!
//! A restarted host keeps its identity, so it needn't wait for its own Lease to expire. A second
//! host on the machine must get a different one. That's why the id is in a file, locked as long as
//! the host runs.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use operetta_core::nondeterminism;

const FILE: &str = "host-id";

/// The longest id accepted from a file.
const MAX_ID: usize = 64;

/// The identity of this process.
#[derive(Debug)]
pub struct HostIdentity {
    name: String,
    /// Keeps the lock.
    _file: Option<File>,
}

impl HostIdentity {
    /// Takes the identity stored in a directory, or a new one if there is none or another process
    /// has locked it.
    pub fn take(directory: Option<&Path>) -> Self {
        let machine =
            read_line("/proc/sys/kernel/hostname").unwrap_or_else(|_| "operetta".to_owned());
        let random = || {
            format!(
                "{:032x}",
                u128::from_le_bytes(nondeterminism::random_bytes())
            )
        };
        let kept = directory.map(|directory| keep(&directory.join(FILE), random()));
        match kept {
            Some(Ok((id, file))) => Self {
                name: format!("{machine}_{id}"),
                _file: Some(file),
            },
            Some(Err(error)) => {
                tracing::debug!(%error, "failed to save the id of this host");
                Self {
                    name: format!("{machine}_{}", random()),
                    _file: None,
                }
            }
            None => Self {
                name: format!("{machine}_{}", random()),
                _file: None,
            },
        }
    }

    /// Returns a name no other running host has.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Locks the file and reads the id in it, or stores `new` if it has no valid one.
fn keep(path: &Path, new: String) -> io::Result<(String, File)> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.try_lock()?;
    let mut kept = String::new();
    (&mut file).take(MAX_ID as u64).read_to_string(&mut kept)?;

    let kept = kept.trim().to_owned();
    if !kept.is_empty()
        && kept
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        return Ok((kept, file));
    }
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(new.as_bytes())?;

    Ok((new, file))
}

fn read_line(path: &str) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successor_has_the_same_identity_neighbour_another() {
        let place = tempfile::tempdir().expect("a directory");
        let first = HostIdentity::take(Some(place.path()));
        let beside = HostIdentity::take(Some(place.path()));
        assert_ne!(first.name(), beside.name());

        let name = first.name().to_owned();
        drop(first);
        assert_eq!(HostIdentity::take(Some(place.path())).name(), name);
        assert_ne!(
            HostIdentity::take(None).name(),
            HostIdentity::take(None).name()
        );
    }
}

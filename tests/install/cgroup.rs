//! The memory limit of a container, as a container runtime sets it: with a control group.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A control group with a memory limit. Dropping it removes it; its processes must have ended.
pub struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// Creates a group below that of this process, with a limit such as `4Gi`.
    ///
    /// # Errors
    /// Returns an error where this process may not create one.
    pub fn create(name: &str, limit: &str) -> io::Result<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let own = |controller: &str| {
            let line = groups
                .lines()
                .find(|line| line.split(':').nth(1) == Some(controller))?;
            line.splitn(3, ':')
                .nth(2)
                .map(|path| path.trim_start_matches('/').to_owned())
        };

        let root = Path::new("/sys/fs/cgroup");
        let (parent, file) = match own("memory") {
            Some(path) => (root.join("memory").join(path), "memory.limit_in_bytes"),
            None => (root.join(own("").unwrap_or_default()), "memory.max"),
        };

        let group = Self {
            folder: parent.join(format!("{name}-{}", std::process::id())),
        };

        fs::create_dir(&group.folder)?;
        fs::write(group.folder.join(file), bytes(limit).to_string())?;
        Ok(group)
    }

    /// Returns the file to which a process writes its ID to join the group.
    pub fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A group with processes stays; the next start of the machine removes it.
        let _not_empty = fs::remove_dir(&self.folder);
    }
}

/// Returns the bytes of a quantity in Mi or Gi.
fn bytes(quantity: &str) -> u64 {
    let (number, shift) = match (quantity.strip_suffix("Gi"), quantity.strip_suffix("Mi")) {
        (Some(number), _) => (number, 30),
        (_, Some(number)) => (number, 20),
        _ => panic!("the test does not know {quantity}"),
    };
    number.parse::<u64>().expect("a number") << shift
}

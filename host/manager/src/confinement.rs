//! How the host's own process is confined: what the configuration asks for, and what is in force.
//! The program does it before it starts anything (`operetta-host`, `confine`).

use schemars::JsonSchema;
use serde::Deserialize;

/// Whether the host confines its own process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confine {
    /// By whatever of seccomp and Landlock the kernel has. The log and /readyz say what is missing.
    #[default]
    Auto,
    /// By both; the host doesn't start without them.
    Required,
    /// Not at all.
    Off,
}

/// What confines the host's process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// True if seccomp denies system calls that the host doesn't need.
    pub seccomp: bool,
    /// True if Landlock denies files and programs that the host doesn't need.
    pub landlock: bool,
    /// What is missing, and why. None if nothing is, or the configuration turns confinement off.
    pub problem: Option<String>,
}

impl Confinement {
    /// Reports whether both mechanisms are in force, perhaps in an older version.
    pub fn is_complete(&self) -> bool {
        self.seccomp && self.landlock
    }
}

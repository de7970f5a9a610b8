//! Types of a Plugin's conditions.

/// The component is compiled, and its manifest is read.
pub const LOADED: &str = "Loaded";

/// All controllers of the plugin run.
pub const READY: &str = "Ready";

/// Something is wrong; the condition's message describes it.
pub const DEGRADED: &str = "Degraded";

/// The plugin waits for a quota; the condition's message names it. Nothing is lost meanwhile.
pub const THROTTLED: &str = "Throttled";

/// The Plugin is deleted, and still runs: objects that are being deleted wait for it to remove its
/// finalizers. The condition's message names them.
pub const TERMINATING: &str = "Terminating";

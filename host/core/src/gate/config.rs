//! A plugin's configuration, which may contain values of Secrets.

use std::{fmt, ops::Deref, sync::Arc};

use zeroize::Zeroizing;

/// A plugin's configuration as JSON text. Its memory is zeroed when the last copy is dropped, and
/// debug output omits it.
#[derive(Clone, PartialEq, Eq)]
pub struct PluginConfig(Arc<Zeroizing<String>>);

impl From<String> for PluginConfig {
    fn from(text: String) -> Self {
        Self(Arc::new(text.into()))
    }
}

impl From<&str> for PluginConfig {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Deref for PluginConfig {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PluginConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PluginConfig({} bytes)", self.0.len())
    }
}

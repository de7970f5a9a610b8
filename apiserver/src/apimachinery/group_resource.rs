//! The name of a resource, as `schema.GroupResource` of apimachinery.

use std::{fmt, sync::Arc};

/// A resource without its version, such as `deployments.apps`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    group: Arc<str>,
    resource: Arc<str>,
}

impl GroupResource {
    /// Names a resource. The core group is `""`.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Self {
        Self {
            group: group.into(),
            resource: resource.into(),
        }
    }

    /// Returns the API group, `""` for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns the plural name, such as `deployments`.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.resource)?;
        if self.group.is_empty() {
            Ok(())
        } else {
            write!(formatter, ".{}", self.group)
        }
    }
}

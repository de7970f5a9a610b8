//! `operetta:controller/config`: returns the Plugin object's `spec.config`.

use super::HostFunctions;
use crate::bindings::operetta::controller::config as generated;

impl generated::Host for HostFunctions<'_> {
    fn get(&mut self) -> String {
        self.session().config().to_string()
    }
}

//! `operetta:controller/warnings`: returns the API server's warnings about the guest's calls.

use super::HostFunctions;
use crate::bindings::operetta::controller::warnings as generated;

impl generated::Host for HostFunctions<'_> {
    fn take(&mut self) -> Vec<String> {
        self.session().take_warnings()
    }
}

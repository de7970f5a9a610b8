//! `operetta:controller/outcome`: reports a failure with a delay chosen by the guest.

use super::{HostFunctions, MAX_FAILURE};
use crate::{bindings::operetta::controller::outcome as generated, cut};

impl generated::Host for HostFunctions<'_> {
    fn fail(&mut self, message: String) {
        self.session().fail(cut(message, MAX_FAILURE));
    }
}

//! `operetta:controller/outcome`: failures of reconciles that choose their own delay.

use operetta_core::gate::Session;
use wasmtime::component::HasData;

use crate::{bindings::operetta::controller::outcome as generated, call::MAX_FAILURE, cut};

pub(super) struct Outcome;

impl HasData for Outcome {
    type Data<'a> = View<'a>;
}

pub(super) struct View<'a>(pub &'a mut Session);

impl generated::Host for View<'_> {
    fn fail(&mut self, message: String) {
        self.0.fail(cut(message, MAX_FAILURE));
    }
}

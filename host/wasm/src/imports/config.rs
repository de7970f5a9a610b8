//! `operetta:controller/config`: returns the Plugin object's `spec.config`.

use operetta_core::gate::Session;
use wasmtime::component::HasData;

use crate::bindings::operetta::controller::config as generated;

pub(super) struct Config;

impl HasData for Config {
    type Data<'a> = View<'a>;
}

pub(super) struct View<'a>(pub &'a mut Session);

impl generated::Host for View<'_> {
    fn get(&mut self) -> String {
        self.0.config().to_string()
    }
}

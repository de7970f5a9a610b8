//! `operetta:controller/log`: the plugin's log, beside what it writes to stdout and stderr.

use operetta_core::ports::LogLevel;
use wasmtime::component::HasData;

use crate::{bindings::operetta::controller::log as generated, call::Call};

pub(super) struct Log;

impl HasData for Log {
    type Data<'a> = View<'a>;
}

pub(super) struct View<'a>(pub &'a mut Call);

impl generated::Host for View<'_> {
    fn enabled(&mut self, level: generated::Level) -> bool {
        self.0.session().log_enabled(level.into())
    }

    fn write(&mut self, level: generated::Level, message: String, fields: Vec<(String, String)>) {
        if level == generated::Level::Error {
            self.0.logged_error(&message);
        }
        self.0.session().log(level.into(), message, fields);
    }
}

impl From<generated::Level> for LogLevel {
    fn from(level: generated::Level) -> Self {
        match level {
            generated::Level::Error => Self::Error,
            generated::Level::Warn => Self::Warn,
            generated::Level::Info => Self::Info,
            generated::Level::Debug => Self::Debug,
            generated::Level::Trace => Self::Trace,
        }
    }
}

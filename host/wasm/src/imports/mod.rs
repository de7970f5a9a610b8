//! The imports of a plugin: the interfaces of `operetta:controller`, one file each, and an empty
//! WASI.
//!
//! Each file implements one interface for [`HostFunctions`], which borrows the state of the current
//! call. The implementations keep no state of their own.

mod config;
mod events;
mod log;
mod objects;
mod outcome;
mod raw;
mod source;
mod warnings;

use operetta_core::gate::Session;
pub(crate) use source::SOURCE;
use wasmtime::{
    Engine, Result,
    component::{HasData, Linker},
};

use crate::{bindings::operetta::controller as generated, store::StoreData};

/// The maximum length of a failure's message in bytes. Longer messages are cut.
pub(crate) const MAX_FAILURE: usize = 4096;

/// The host's side of `operetta:controller` during one call of a guest.
pub(crate) struct HostFunctions<'a> {
    data: &'a mut StoreData,
}

impl HostFunctions<'_> {
    /// Logs what the guest has printed first, to keep the log in order.
    fn session(&mut self) -> &mut Session {
        self.data.session()
    }
}

fn host_functions(data: &mut StoreData) -> HostFunctions<'_> {
    HostFunctions { data }
}

/// Names [`HostFunctions`] for wasmtime's linker, which borrows it anew for each host call.
struct HasHostFunctions;

impl HasData for HasHostFunctions {
    type Data<'a> = HostFunctions<'a>;
}

/// The package of the contract.
pub(crate) const CONTROLLER: &str = "operetta:controller";

/// The interfaces linked by this host. Each stands for every version with the same `major.minor`
/// (the same `major` from 1 on).
const OFFERED: &[(&str, &str, &[&str])] = &[
    (
        CONTROLLER,
        "0.1",
        &[
            "config", "events", "log", "objects", "outcome", "raw", "types", "warnings",
        ],
    ),
    (
        "wasi:cli",
        "0.2",
        &[
            "environment",
            "exit",
            "stderr",
            "stdin",
            "stdout",
            "terminal-input",
            "terminal-output",
            "terminal-stderr",
            "terminal-stdin",
            "terminal-stdout",
        ],
    ),
    ("wasi:clocks", "0.2", &["monotonic-clock", "wall-clock"]),
    ("wasi:filesystem", "0.2", &["preopens", "types"]),
    ("wasi:io", "0.2", &["error", "poll", "streams"]),
    (
        "wasi:random",
        "0.2",
        &["insecure", "insecure-seed", "random"],
    ),
    (
        "wasi:sockets",
        "0.2",
        &[
            "instance-network",
            "ip-name-lookup",
            "network",
            "tcp",
            "tcp-create-socket",
            "udp",
            "udp-create-socket",
        ],
    ),
];

/// Returns a linker with every import of the host, and the source of interpreters if this engine
/// runs them.
pub(crate) fn linker(engine: &Engine, interpreters: bool) -> Result<Linker<StoreData>> {
    let mut linker: Linker<StoreData> = Linker::new(engine);
    if interpreters {
        source::add_to_linker(&mut linker)?;
    }
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;

    type Host = HasHostFunctions;
    generated::objects::add_to_linker::<_, Host>(&mut linker, host_functions)?;
    generated::raw::add_to_linker::<_, Host>(&mut linker, host_functions)?;
    generated::events::add_to_linker::<_, Host>(&mut linker, host_functions)?;
    generated::config::add_to_linker::<_, Host>(&mut linker, host_functions)?;
    generated::outcome::add_to_linker::<_, Host>(&mut linker, host_functions)?;
    generated::warnings::add_to_linker::<_, Host>(&mut linker, host_functions)?;
    log::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Returns the interfaces a plugin can import, as `package/interface@version`. `@0.2` means any
/// `0.2.x`.
pub fn offered() -> Vec<String> {
    let names = OFFERED.iter().flat_map(|(package, version, interfaces)| {
        interfaces
            .iter()
            .map(move |interface| format!("{package}/{interface}@{version}"))
    });
    names.collect()
}

/// [`offered`] in one line, by package.
pub(crate) fn offered_by_package() -> String {
    by_package(|_| true)
}

/// The interfaces that a process can import, in one line: WASI's.
pub(crate) fn offered_to_commands() -> String {
    by_package(|package| package != CONTROLLER)
}

fn by_package(is_offered: impl Fn(&str) -> bool) -> String {
    let packages = OFFERED
        .iter()
        .filter(|(package, ..)| is_offered(package))
        .map(|(package, version, interfaces)| {
            format!("{package}@{version} ({})", interfaces.join(", "))
        });
    packages.collect::<Vec<_>>().join("; ")
}

/// Reports whether the host offers this import in a compatible version.
pub(crate) fn is_offered(import: &str) -> bool {
    let Some(name) = InterfaceName::parse(import) else {
        return false;
    };
    OFFERED.iter().any(|(package, version, interfaces)| {
        *package == name.package
            && interfaces.contains(&name.interface)
            && name.agrees_with(version)
    })
}

/// Reports whether the host offers this import to a process.
pub(crate) fn is_offered_to_commands(import: &str) -> bool {
    is_offered(import)
        && InterfaceName::parse(import).is_some_and(|name| name.package != CONTROLLER)
}

/// The parts of `package/interface@version`.
pub(crate) struct InterfaceName<'a> {
    pub package: &'a str,
    pub interface: &'a str,
    pub version: &'a str,
}

impl<'a> InterfaceName<'a> {
    /// None if the name is not a versioned interface.
    pub(crate) fn parse(name: &'a str) -> Option<Self> {
        let (path, version) = name.split_once('@')?;
        let (package, interface) = path.split_once('/')?;
        Some(Self {
            package,
            interface,
            version,
        })
    }

    pub(crate) fn agrees_with(&self, major_minor: &str) -> bool {
        let rest = self.version.strip_prefix(major_minor);
        // A pre-release agrees only with itself.
        rest.is_some_and(|rest| rest.starts_with('.') && !self.version.contains('-'))
    }
}

/// The contract treats an empty string as no value.
pub(crate) fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linker_has_every_offered_interface() {
        let engine = Engine::default();
        for name in offered() {
            let patch = if name.starts_with("wasi:") { "12" } else { "0" };
            let full = format!("{name}.{patch}");
            assert!(is_offered(&full), "{full}");
            let mut linker = linker(&engine, false).expect("links");
            // An interface of types alone needs no implementation. Any other name is already
            // defined.
            if name != "operetta:controller/types@0.1" {
                let defined_twice = linker.root().func_wrap(&full, |_, ()| Ok(()));
                assert!(defined_twice.is_err(), "{full} is offered but not linked");
            }
        }
    }

    #[test]
    fn versions_agree_by_major_and_minor_only() {
        for (name, offered) in [
            ("wasi:cli/exit@0.2.0", true),
            ("wasi:cli/exit@0.2.99", true),
            ("wasi:cli/exit@0.3.0", false),
            ("wasi:cli/exit@0.20.0", false),
            ("wasi:cli/exit@0.2.0-rc-1", false),
            ("wasi:cli/exit", false),
            ("wasi:http/types@0.2.0", false),
            ("operetta:controller/objects@0.1.7", true),
            ("operetta:controller/objects@0.2.0", false),
            ("exit", false),
            ("", false),
        ] {
            assert_eq!(is_offered(name), offered, "{name}");
        }
    }
}

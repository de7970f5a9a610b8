//! The imports of a process: preview 1 of WASI, and `operetta_process` for what preview 1 lacks.

use wasmtime::{Caller, Linker, Result};
use wasmtime_wasi::I32Exit;

use super::{
    descriptor::Fd,
    errno::Errno,
    poll::poll_oneoff,
    preview1::random_get,
    state::{State, enter},
};

const PREVIEW1: &str = "wasi_snapshot_preview1";
const OWN: &str = "operetta_process";

/// The modules from which a process may import functions: preview 1 of WASI, and what the host adds
/// to it.
pub const IMPORTS: [&str; 2] = [PREVIEW1, OWN];

/// The result of a host function as its caller gets it.
trait Answer {
    fn answer(self) -> i32;
}

/// An error number, or 0.
impl Answer for std::result::Result<(), Errno> {
    fn answer(self) -> i32 {
        self.map_or_else(|errno| errno.0.into(), |()| 0)
    }
}

/// A descriptor, or an error number below 0.
impl Answer for std::result::Result<Fd, Errno> {
    fn answer(self) -> i32 {
        match self {
            // The limit on descriptors is far below `i32::MAX`.
            Ok(Fd(number)) => i32::try_from(number).unwrap_or(i32::MAX),
            Err(errno) => -i32::from(errno.0),
        }
    }
}

/// Offers methods of [`State`] as the functions of a module. Each gets the guest's memory first.
macro_rules! offer {
    ($module:ident, $names:ident, $add:ident: $($name:ident($($argument:ident: $type:ty),*);)*) => {
        const $names: &[&str] = &[$(stringify!($name)),*];

        fn $add(linker: &mut Linker<State>) -> Result<()> {
            $(linker.func_wrap(
                $module,
                stringify!($name),
                |mut caller: Caller<'_, State>, $($argument: $type),*| -> i32 {
                    enter(&mut caller)
                        .and_then(|(mut guest, state)| state.$name(&mut guest, $($argument),*))
                        .answer()
                },
            )?;)*
            Ok(())
        }
    };
}

offer! { PREVIEW1, PREVIEW1_FUNCTIONS, add_preview1:
    args_get(table: u32, texts: u32);
    args_sizes_get(count: u32, size: u32);
    environ_get(table: u32, texts: u32);
    environ_sizes_get(count: u32, size: u32);
    clock_res_get(clock: u32, resolution: u32);
    clock_time_get(clock: u32, precision: u64, time: u32);
    fd_advise(fd: u32, offset: u64, length: u64, advice: u32);
    fd_allocate(fd: u32, offset: u64, length: u64);
    fd_close(fd: u32);
    fd_datasync(fd: u32);
    fd_fdstat_get(fd: u32, stat: u32);
    fd_fdstat_set_flags(fd: u32, flags: u32);
    fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64);
    fd_filestat_get(fd: u32, stat: u32);
    fd_filestat_set_size(fd: u32, size: u64);
    fd_filestat_set_times(fd: u32, accessed: u64, modified: u64, flags: u32);
    fd_pread(fd: u32, buffers: u32, count: u32, offset: u64, read: u32);
    fd_prestat_dir_name(fd: u32, name: u32, length: u32);
    fd_prestat_get(fd: u32, prestat: u32);
    fd_pwrite(fd: u32, buffers: u32, count: u32, offset: u64, written: u32);
    fd_read(fd: u32, buffers: u32, count: u32, read: u32);
    fd_readdir(fd: u32, buffer: u32, length: u32, cookie: u64, used: u32);
    fd_renumber(from: u32, to: u32);
    fd_seek(fd: u32, offset: i64, whence: u32, position: u32);
    fd_sync(fd: u32);
    fd_tell(fd: u32, position: u32);
    fd_write(fd: u32, buffers: u32, count: u32, written: u32);
    path_create_directory(fd: u32, path: u32, length: u32);
    path_filestat_get(fd: u32, flags: u32, path: u32, length: u32, stat: u32);
    path_filestat_set_times(
        fd: u32, flags: u32, path: u32, length: u32, accessed: u64, modified: u64, what: u32
    );
    path_link(
        fd: u32, flags: u32, path: u32, length: u32, to_fd: u32, to: u32, to_length: u32
    );
    path_open(
        fd: u32, lookup: u32, path: u32, length: u32, open: u32, rights: u64, inheriting: u64,
        flags: u32, opened: u32
    );
    path_readlink(fd: u32, path: u32, length: u32, buffer: u32, size: u32, used: u32);
    path_remove_directory(fd: u32, path: u32, length: u32);
    path_rename(fd: u32, from: u32, length: u32, to_fd: u32, to: u32, to_length: u32);
    path_symlink(target: u32, target_length: u32, fd: u32, path: u32, length: u32);
    path_unlink_file(fd: u32, path: u32, length: u32);
    proc_raise(signal: u32);
    sched_yield();
    sock_accept(fd: u32, flags: u32, accepted: u32);
    sock_recv(fd: u32, buffers: u32, count: u32, flags: u32, read: u32, out_flags: u32);
    sock_send(fd: u32, buffers: u32, count: u32, flags: u32, written: u32);
    sock_shutdown(fd: u32, how: u32);
}

/// The functions of preview 1 that are async, or do not return.
const PREVIEW1_OTHERS: &[&str] = &["poll_oneoff", "proc_exit", "random_get"];

offer! { OWN, OWN_FUNCTIONS, add_own:
    dial(address: u32, length: u32);
    dialled(fd: u32, local: u32);
    listen(address: u32, length: u32, local: u32);
    addresses(fd: u32, local: u32, remote: u32);
    resolve(name: u32, length: u32);
    signals();
}

/// The most imports of one function by one module.
const MAX_DUPLICATES: u32 = 99;

/// Returns the name of an import without the suffix that makes it unique: `fd_write [v2]` is
/// `fd_write`.
///
/// Go imports a function once for each package that declares it. A module inside a component may
/// not. So whoever wraps one merges such imports, as `operetta build` does, or renames all but the
/// first, as `wasm-tools component new` does.
/// <https://github.com/bytecodealliance/wasm-tools/blob/main/crates/wit-component/src/encoding/dedupe.rs>
pub(super) fn original(name: &str) -> &str {
    let parse = |name: &'_ str| {
        let (original, number) = name.strip_suffix(']')?.rsplit_once(" [v")?;
        let number: u32 = number.parse().ok()?;
        (2..=MAX_DUPLICATES)
            .contains(&number)
            .then_some(original.len())
    };
    parse(name).map_or(name, |length| &name[..length])
}

/// Whether a process may import a function.
pub(crate) fn is_offered(module: &str, name: &str) -> bool {
    let name = original(name);
    match module {
        PREVIEW1 => [PREVIEW1_FUNCTIONS, PREVIEW1_OTHERS]
            .iter()
            .any(|names| names.contains(&name)),
        OWN => OWN_FUNCTIONS.contains(&name),
        _ => false,
    }
}

/// What a process may import, for people.
pub(crate) fn offered_by_module() -> String {
    format!(
        "{PREVIEW1} (all functions), {OWN} ({})",
        OWN_FUNCTIONS.join(", ")
    )
}

/// Returns a linker with all functions that a process may import.
pub(crate) fn linker(engine: &wasmtime::Engine) -> Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    add_preview1(&mut linker)?;
    add_own(&mut linker)?;

    linker.func_wrap_async(
        PREVIEW1,
        "poll_oneoff",
        |caller, (input, output, count, ready)| {
            Box::new(async move {
                poll_oneoff(caller, input, output, count, ready)
                    .await
                    .answer()
            })
        },
    )?;
    linker.func_wrap_async(PREVIEW1, "random_get", |caller, (buffer, length)| {
        Box::new(async move { random_get(caller, buffer, length).await.answer() })
    })?;
    linker.func_wrap(PREVIEW1, "proc_exit", |_: Caller<'_, State>, code: i32| {
        Err::<(), _>(I32Exit(code).into())
    })?;
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_of_their_module_are_offered() {
        for (module, name, offered) in [
            (PREVIEW1, "fd_read", true),
            (PREVIEW1, "poll_oneoff", true),
            (OWN, "dial", true),
            (OWN, "fd_read", false),
            (PREVIEW1, "dial", false),
            ("env", "fd_read", false),
            (PREVIEW1, "fd_read [v2]", true),
            (PREVIEW1, "fd_read [v99]", true),
            (PREVIEW1, "fd_read [v1]", false),
            (PREVIEW1, "fd_read [v100]", false),
            (PREVIEW1, "fd_read [v]", false),
            (PREVIEW1, "fd_read [v2] [v2]", false),
            (PREVIEW1, " [v2]", false),
        ] {
            assert_eq!(is_offered(module, name), offered, "{module}.{name}");
        }
    }
}

//! Detects whether the kernel may move memory of this process to swap space.
//!
//! wasmtime 48 clears the memory of a slot with `PAGEMAP_SCAN`, which overlooks swapped pages: the
//! next instance in the slot would read what the last one wrote
//! (<https://github.com/bytecodealliance/wasmtime/pull/14357>). Where swapping is possible, the
//! pool clears memory without the scan.

use std::{fs, io};

pub(crate) fn is_possible() -> bool {
    has_swap_space(fs::read_to_string("/proc/swaps"))
        && may_swap(fs::read_to_string("/sys/fs/cgroup/memory.swap.max"))
}

/// `/proc/swaps` starts with a line of headings.
fn has_swap_space(swaps: io::Result<String>) -> bool {
    swaps.map_or(true, |list| list.lines().count() > 1)
}

/// A process outside a container has no such file.
fn may_swap(limit: io::Result<String>) -> bool {
    limit.map_or(true, |bytes| bytes.trim() != "0")
}

#[cfg(test)]
mod tests {
    use rustix::mm::{Advice, madvise};
    use wasmtime::{Instance, Memory, Module, Store};

    use super::*;
    use crate::{Engine, EngineConfig};

    #[test]
    fn swap_space_and_limit_are_read() {
        let heading = "Filename\tType\t\tSize\t\tUsed\t\tPriority\n";
        let space = format!("{heading}/dev/zram0 partition\t8388604\t\t0\t\t100\n");
        let missing = || Err(io::ErrorKind::NotFound.into());
        assert!(!has_swap_space(Ok(heading.to_owned())));
        assert!(has_swap_space(Ok(space)) && has_swap_space(missing()));
        assert!(!may_swap(Ok("0\n".to_owned())));
        assert!(
            may_swap(Ok("max\n".to_owned()))
                && may_swap(Ok("1048576\n".to_owned()))
                && may_swap(missing())
        );
    }

    const SECRET: usize = 300 << 10;

    /// Instantiates a module whose memory must be as new.
    fn instantiate(engine: &Engine, module: &Module) -> (Store<()>, Memory) {
        let mut store = Store::new(engine.wasmtime(), ());
        let instance = Instance::new(&mut store, module, &[]).expect("an instance");
        let memory = instance.get_memory(&mut store, "m").expect("a memory");
        assert_eq!(memory.data(&store)[SECRET], 0, "the secret of another call");
        (store, memory)
    }

    /// Needs swap space to mean anything: without, no page is moved, and it shows only that memory
    /// is cleared.
    #[test]
    #[expect(
        unsafe_code,
        reason = "asks the kernel to move pages to swap space, as it does without free memory"
    )]
    fn memory_in_swap_space_is_cleared_for_the_next_call() {
        let engine = Engine::new(&EngineConfig {
            concurrent_calls: 16,
            ..EngineConfig::default()
        })
        .expect("an engine");
        let text = wat::parse_str(r#"(module (memory (export "m") 8))"#).expect("text");
        let module = Module::new(engine.wasmtime(), text).expect("compiles");
        for _ in 0..20 {
            let (mut store, memory) = instantiate(&engine, &module);
            memory.data_mut(&mut store)[SECRET] = 42;
            // SAFETY: the pages are this memory's, and moving them does not change their contents.
            unsafe {
                madvise(
                    memory.data_ptr(&store).cast(),
                    memory.data_size(&store),
                    Advice::LinuxPageOut,
                )
            }
            .expect("the kernel takes the advice");
        }
    }
}

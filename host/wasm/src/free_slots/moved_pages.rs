//! Tests that a slot holds nothing of its last call, whichever pages the kernel moves meanwhile.
//!
//! A page that is being moved is not present for some microseconds: the kernel has replaced it by
//! a migration entry. The tests make the kernel move pages of slots all the time, while instances
//! of two tenants use these slots in turn. What the kernel refuses is printed and left out.
//! `SECONDS=60 cargo test -p operetta-wasm --lib moved_pages -- --nocapture` runs longer.

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::param::page_size;
use wasmtime::{Instance, Memory, Module, Store};

use crate::{Engine, EngineConfig};

/// How long each test runs, unless the variable `SECONDS` says so.
const SECONDS: u64 = 3;
/// What each tenant leaves in every page.
const SECRET: [u8; 16] = *b"tenant's secret.";
/// The size of a huge page, in bytes.
const HUGE: usize = 2 << 20;
/// The elements of a page of a table.
const PER_PAGE: usize = 512;

/// Engine and code of two tenants, which get the same slots in turn.
struct Slots {
    engine: Engine,
    modules: Vec<Module>,
}

struct Live {
    store: Store<()>,
    instance: Instance,
    memory: Memory,
}

/// What instances found of those before them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Leftovers {
    pages: usize,
    table_pages: usize,
}

impl Slots {
    fn new(calls: u32, memory_bytes: usize, table_elements: usize) -> Self {
        let config = EngineConfig {
            concurrent_calls: calls,
            ..EngineConfig::default()
        };
        let engine = Engine::new(&config).expect("an engine");
        assert!(
            engine.is_pooled(),
            "this machine has address space for the pool"
        );

        let of_tenant = |tenant: usize| {
            let text = format!(
                r#"(module
                     (memory (export "m") {pages}) (data (i32.const 16) "tenant {tenant}")
                     (table $t {table_elements} funcref) (func $f) (elem declare func $f)
                     (func (export "fill")
                       (table.fill $t (i32.const 0) (ref.func $f) (i32.const {table_elements})))
                     (func (export "left") (result i32) (local $at i32) (local $left i32)
                       (loop $next
                         (local.set $left (i32.add (local.get $left)
                           (i32.eqz (ref.is_null (table.get $t (local.get $at))))))
                         (local.set $at (i32.add (local.get $at) (i32.const {PER_PAGE})))
                         (br_if $next (i32.lt_u (local.get $at) (i32.const {table_elements}))))
                       (local.get $left)))"#,
                pages = memory_bytes >> 16,
            );
            Module::new(engine.wasmtime(), wat::parse_str(text).expect("text")).expect("compiles")
        };
        let modules = (0..2).map(of_tenant).collect();

        Self { engine, modules }
    }

    /// Instantiates the module of a tenant, and counts what is neither zero nor of its own image.
    fn instantiate(&self, tenant: usize, found: &mut Leftovers) -> Live {
        let mut store = Store::new(self.engine.wasmtime(), ());
        store.set_epoch_deadline(1 << 20);
        let instance = Instance::new(&mut store, &self.modules[tenant], &[]).expect("an instance");
        let memory = instance.get_memory(&mut store, "m").expect("a memory");

        let mut first = vec![0; page_size()];
        first[16..24].copy_from_slice(format!("tenant {tenant}").as_bytes());
        let zeroes = vec![0; page_size()];
        let mut pages = memory.data(&store).chunks(page_size());
        found.pages += usize::from(pages.next() != Some(&first[..]));
        found.pages += pages.filter(|page| *page != zeroes).count();

        let left = instance
            .get_typed_func::<(), i32>(&mut store, "left")
            .expect("a function");
        let left = left.call(&mut store, ()).expect("returns");
        found.table_pages += usize::try_from(left).expect("a count");

        Live {
            store,
            instance,
            memory,
        }
    }
}

impl Live {
    /// Leaves a secret in each page of a part of the memory, and references in the whole table.
    fn leave_secrets(&mut self, part: std::ops::Range<usize>) {
        let data = &mut self.memory.data_mut(&mut self.store)[part];
        for page in data.chunks_mut(page_size()) {
            page[..SECRET.len()].copy_from_slice(&SECRET);
        }

        let fill = self
            .instance
            .get_typed_func::<(), ()>(&mut self.store, "fill")
            .expect("a function");
        fill.call(&mut self.store, ()).expect("returns");
    }

    fn start(&self) -> usize {
        self.memory.data_ptr(&self.store).addr()
    }
}

/// Gives the kernel advice about pages of a slot.
#[expect(unsafe_code, reason = "the kernel moves pages only if it is asked to")]
fn advise(start: usize, bytes: usize, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: the pages are of the pool, which outlives the test. The advice changes where they
    // are, not what they contain; MADV_DONTNEED is given only where they contain the image.
    match unsafe { libc::madvise(start as *mut libc::c_void, bytes, advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns a counter of the kernel; 0 if it has none of this name.
fn counted_by_kernel(name: &str) -> u64 {
    let counters = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    counters
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        .unwrap_or_default()
}

fn time() -> Duration {
    let seconds = std::env::var("SECONDS").ok();
    Duration::from_secs(seconds.map_or(SECONDS, |text| text.parse().expect("a number of seconds")))
}

/// How the kernel is made to move pages.
#[derive(Clone, Copy, Debug)]
enum Mover {
    /// Compacts all memory, as the kernel does when it needs large blocks. For root only.
    Compaction,
    /// Moves pages to another NUMA node and back.
    OtherNode,
    /// Takes frames out of use, as after a memory error, for good: only with `SOFT_OFFLINE=1`, and
    /// at most 16.
    SoftOffline,
}

impl Mover {
    /// Moves pages of these memories once.
    fn step(self, step: usize, memories: &[usize]) -> io::Result<()> {
        let unsupported = |why: &str| Err(io::Error::new(io::ErrorKind::Unsupported, why));
        let memory = memories.get(step % memories.len().max(1));

        match self {
            Self::Compaction => fs::write("/proc/sys/vm/compact_memory", "1"),
            Self::OtherNode => {
                let nodes = fs::read_to_string("/sys/devices/system/node/online")?;
                if nodes.trim() == "0" {
                    return unsupported("the machine has one NUMA node");
                }
                memory.map_or(Ok(()), |memory| {
                    move_to_node(*memory, (step / memories.len() % 2).try_into().unwrap_or(0))
                })
            }
            Self::SoftOffline if std::env::var_os("SOFT_OFFLINE").is_none() => {
                unsupported("it takes frames out of use for good, and SOFT_OFFLINE is not set")
            }
            Self::SoftOffline if step >= 16 => Ok(()),
            Self::SoftOffline => memory.map_or(Ok(()), |memory| {
                advise(
                    memory + (1 + step) * page_size(),
                    page_size(),
                    libc::MADV_SOFT_OFFLINE,
                )
            }),
        }
    }

    /// Moves pages until `stop`. Returns at once if the kernel refuses the first time.
    fn run(self, memories: &Mutex<Vec<usize>>, stop: &AtomicBool) {
        let mut step = 0;
        while !stop.load(Ordering::Relaxed) {
            let memories = memories.lock().clone();
            if memories.is_empty() {
                thread::yield_now();
                continue;
            }

            // Later a page may be busy, or gone with its instance.
            if let Err(error) = self.step(step, &memories)
                && step == 0
            {
                println!("skipped: {self:?}: {error}");
                return;
            }
            step += 1;
        }
        println!("{self:?}: {step} times");
    }
}

#[expect(unsafe_code, reason = "the kernel moves pages only if it is asked to")]
fn move_to_node(memory: usize, node: libc::c_int) -> io::Result<()> {
    const MOVE: libc::c_int = 1 << 1;
    let pages: Vec<usize> = (0..128).map(|page| memory + page * page_size()).collect();
    let nodes = vec![node; pages.len()];
    let mut status = vec![0 as libc::c_int; pages.len()];

    // SAFETY: the three lists have `pages.len()` elements, and the kernel writes only to the last.
    let moved = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            nodes.as_ptr(),
            status.as_mut_ptr(),
            MOVE,
        )
    };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Memories and tables of 256 slots, a hundred and fifty megabytes.
#[test]
fn slots_are_cleared_while_the_kernel_compacts_memory() {
    const CALLS: u32 = 128;
    const MEMORY: usize = 512 << 10;
    let slots = Slots::new(CALLS, MEMORY, 16 * PER_PAGE);
    let (memories, stop) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let moved_before = counted_by_kernel("pgmigrate_success ");

    let (mut found, mut rounds) = (Leftovers::default(), 0);
    thread::scope(|scope| {
        for mover in [Mover::Compaction, Mover::OtherNode, Mover::SoftOffline] {
            let (memories, stop) = (&memories, &stop);
            scope.spawn(move || mover.run(memories, stop));
        }

        let end = Instant::now() + time();
        while Instant::now() < end {
            // Twice the same tenant, then twice the other one: a slot goes to the next call of its
            // code first, and to other code when no unused slot is left.
            let tenant = rounds / 2 % 2;
            let mut all: Vec<Live> = (0..2 * CALLS)
                .map(|_| slots.instantiate(tenant, &mut found))
                .collect();
            *memories.lock() = all.iter().map(Live::start).collect();

            for (number, live) in all.iter_mut().enumerate() {
                if (number + rounds).is_multiple_of(8) {
                    // New pages are again where compaction takes them from.
                    advise(live.start(), MEMORY, libc::MADV_DONTNEED).expect("own pages");
                }
                live.leave_secrets(64..MEMORY);
            }

            // Each is cleared on its own, beside the kernel.
            for live in all {
                drop(live);
            }
            rounds += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });

    let moved = counted_by_kernel("pgmigrate_success ") - moved_before;
    println!(
        "{rounds} rounds of {} instances; the kernel moved {moved} pages",
        2 * CALLS
    );
    // wasmtime's scan overlooks pages of memories, too, but rarely: see
    // docs/decisions/0044-pages-that-the-kernel-moves.md.
    println!("{} pages of memories were not cleared", found.pages);
    assert_eq!(found.table_pages, 0, "in {rounds} rounds");
}

/// While the kernel splits a huge page, all of its 512 pages are missing at once. It does that for
/// any process when memory is scarce. Where slots are cleared with the scan, they have no huge
/// pages.
#[test]
fn slots_are_cleared_while_the_kernel_splits_huge_pages() {
    const MEMORY: usize = 5 << 20;
    let slots = Slots::new(16, MEMORY, PER_PAGE);
    let target = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let splits_before = counted_by_kernel("thp_split_page ");

    let splitter = {
        let (target, stop) = (target.clone(), stop.clone());
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let page = target.load(Ordering::Acquire);
                if page == 0 {
                    std::hint::spin_loop();
                    continue;
                }
                // A page of a huge page cannot be swapped alone. Without swap space it stays.
                let _advised = advise(page, page_size(), libc::MADV_PAGEOUT);
                target.store(0, Ordering::Release);
            }
        })
    };

    let (mut found, mut rounds, mut refused) = (Leftovers::default(), 0_u64, None);
    let end = Instant::now() + time();
    while Instant::now() < end {
        let mut live = slots.instantiate(0, &mut found);
        // Behind the image, which is mapped from a file.
        let block = (live.start() + (1 << 16)).next_multiple_of(HUGE);
        advise(block, HUGE, libc::MADV_DONTNEED).expect("own pages");
        let offset = block - live.start();
        live.leave_secrets(offset..offset + HUGE);

        match advise(block, HUGE, libc::MADV_COLLAPSE) {
            Ok(()) => {}
            // A page was in use elsewhere.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => {
                refused = Some(error);
                break;
            }
        }

        target.store(block + HUGE / 2, Ordering::Release);
        let drop_at = Instant::now() + Duration::from_micros(rounds * 7 % 80);
        while Instant::now() < drop_at {
            std::hint::spin_loop();
        }
        drop(live);

        while target.load(Ordering::Acquire) != 0 {
            std::hint::spin_loop();
        }
        rounds += 1;
    }
    stop.store(true, Ordering::Relaxed);
    splitter.join().expect("no panic");

    let splits = counted_by_kernel("thp_split_page ") - splits_before;
    match refused {
        Some(error) => println!("skipped after {rounds} rounds: no huge page: {error}"),
        None => println!("{rounds} rounds; the kernel split {splits} huge pages"),
    }
    assert_eq!(found, Leftovers::default(), "in {rounds} rounds");
}

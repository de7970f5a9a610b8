//! Resource usage of a process, as Linux counts it. The panics say that `/proc` has no such process.

use std::{fs, time::Duration};

/// Its resident memory.
///
/// # Panics
/// Off Linux, or when it has ended.
pub fn memory_bytes(pid: u32) -> u64 {
    status(pid, "VmRSS:")
}

/// Its memory that is no file's, resident.
///
/// # Panics
/// Off Linux, or when it has ended.
pub fn anonymous_bytes(pid: u32) -> u64 {
    field(&format!("/proc/{pid}/smaps_rollup"), "Anonymous:")
}

/// The most memory that it had resident, since it began or since [`forget_peak`].
///
/// # Panics
/// Off Linux, or when it has ended.
pub fn peak_memory_bytes(pid: u32) -> u64 {
    status(pid, "VmHWM:")
}

/// Lets [`peak_memory_bytes`] starts over with what is resident now.
///
/// # Panics
/// Off Linux, or when it has ended.
pub fn forget_peak(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("Linux's /proc");
}

/// The processor time it has used so far, in the kernel's ticks of 10 ms.
///
/// # Panics
/// Off Linux, or when it has ended.
pub fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("Linux's /proc");
    // The second field, the program's name, may hold spaces; utime and stime are the 14th and 15th.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn status(pid: u32, name: &str) -> u64 {
    field(&format!("/proc/{pid}/status"), name)
}

/// A size in kB that stands behind its name.
fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).expect("Linux's /proc");
    let kilobytes = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
    kilobytes.and_then(|kilobytes| kilobytes.trim().parse::<u64>().ok()).expect("a size in kB") * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_stays_until_it_is_forgotten() {
        let pid = std::process::id();
        let before = memory_bytes(pid);
        // Written to, so that it is resident; large enough that the allocator gives it back at once.
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        assert!(peak_memory_bytes(pid) >= before + (48 << 20), "the peak is remembered");
        forget_peak(pid);
        assert!(peak_memory_bytes(pid) < before + (48 << 20), "and forgotten");
        assert!(cpu_time(pid) < Duration::from_secs(3600));
        assert!((1..=peak_memory_bytes(pid)).contains(&anonymous_bytes(pid)), "a part of it is no file's");
    }
}

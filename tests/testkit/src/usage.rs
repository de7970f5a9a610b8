//! The resource usage of a process, and the memory of the machine, as Linux reports them in
//! `/proc`.

use std::{collections::HashSet, fs, time::Duration};

/// Converts bytes to megabytes of 2^20 bytes.
pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Returns the resident memory of a process, in bytes.
///
/// # Panics
/// Panics if this is not Linux, or if the process has ended.
pub fn memory_bytes(pid: u32) -> u64 {
    status(pid, "VmRSS:")
}

/// Returns the resident anonymous memory of a process, in bytes.
///
/// # Panics
/// Panics if this is not Linux, or if the process has ended.
pub fn anonymous_bytes(pid: u32) -> u64 {
    field(&format!("/proc/{pid}/smaps_rollup"), "Anonymous:")
}

/// Returns the resident memory of a process that no other process shares, in bytes.
///
/// # Panics
/// Panics if this is not Linux, or if the process has ended.
pub fn private_bytes(pid: u32) -> u64 {
    ["Private_Clean:", "Private_Dirty:"]
        .iter()
        .map(|name| field(&format!("/proc/{pid}/smaps_rollup"), name))
        .sum()
}

/// Returns the peak of the resident memory since the process began or since [`forget_peak`], in
/// bytes.
///
/// # Panics
/// Panics if this is not Linux, or if the process has ended.
pub fn peak_memory_bytes(pid: u32) -> u64 {
    status(pid, "VmHWM:")
}

/// Resets [`peak_memory_bytes`] to the current resident memory.
///
/// # Panics
/// Panics if this is not Linux, or if the process has ended.
pub fn forget_peak(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("Linux's /proc");
}

/// Returns the processor time that a process has used so far, in the kernel's ticks of 10 ms.
///
/// # Panics
/// Panics if this is not Linux, or if the process has ended.
pub fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("Linux's /proc");

    // The second field, the program's name, may contain spaces; utime and stime are fields 14 and
    // 15.
    let fields = stat
        .rsplit_once(") ")
        .map_or("", |(_, rest)| rest)
        .split(' ');

    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();

    Duration::from_millis(ticks * 10)
}

/// Returns the memory that new processes can use before the machine swaps, in bytes.
///
/// # Panics
/// Panics if this is not Linux.
pub fn available_bytes() -> u64 {
    field("/proc/meminfo", "MemAvailable:")
}

/// Returns the number of open file descriptors of a process.
///
/// # Panics
/// Panics if this is not Linux, or if the process has ended.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("Linux's /proc")
        .count()
}

/// Returns the number of threads of a process.
///
/// # Panics
/// Panics if this is not Linux, or if the process has ended.
pub fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task"))
        .expect("Linux's /proc")
        .count()
}

/// Returns the number of a process's TCP connections over IPv4 to a port of any machine.
///
/// # Panics
/// Panics if this is not Linux, or if the process has ended.
pub fn connections(pid: u32, port: u16) -> usize {
    let established = fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("Linux's /proc");
    let established: HashSet<String> = established
        .lines()
        .filter_map(|line| established_to(line, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();

    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("Linux's /proc");
    let files = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    files
        .filter(|file| file.to_str().is_some_and(|file| established.contains(file)))
        .count()
}

/// The inode of a line of `/proc/net/tcp` if it is an established connection to this port.
fn established_to(line: &str, port: u16) -> Option<&str> {
    const ESTABLISHED: &str = "01";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, _, remote, state, ..] = fields[..] else {
        return None;
    };

    let remote_port = u16::from_str_radix(remote.rsplit_once(':')?.1, 16).ok()?;
    (remote_port == port && state == ESTABLISHED)
        .then(|| fields.get(9).copied())
        .flatten()
}

fn status(pid: u32, name: &str) -> u64 {
    field(&format!("/proc/{pid}/status"), name)
}

/// A field with a size in kB, converted to bytes.
fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).expect("Linux's /proc");
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));

    kilobytes
        .and_then(|kilobytes| kilobytes.trim().parse::<u64>().ok())
        .expect("a size in kB")
        * 1024
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        net::{TcpListener, TcpStream},
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn counts_only_own_ends_of_connections_to_port() {
        let pid = std::process::id();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        assert_eq!(connections(pid, address.port()), 0);

        let connected: Vec<_> = (0..3)
            .map(|_| TcpStream::connect(address).expect("a connection"))
            .collect();

        // The accepted ends are connections to other ports.
        let accepted: Vec<_> = (0..3)
            .map(|_| listener.accept().expect("a connection"))
            .collect();

        assert_eq!(connections(pid, address.port()), 3);
        assert_eq!(connections(pid, accepted[0].1.port()), 1);

        drop(connected);
        assert_eq!(connections(pid, address.port()), 0);
    }

    #[test]
    fn available_memory_is_a_part_of_all_memory() {
        assert!((1..field("/proc/meminfo", "MemTotal:")).contains(&available_bytes()));
    }

    #[test]
    fn counts_open_files_and_threads_of_other_process() {
        // Other tests of this program open files and start threads, so the process is another one.
        let counted = |script: &str| {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", &format!("{script} echo ready; read line")])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let mut shell = shell.spawn().expect("a shell");

            let mut line = String::new();
            BufReader::new(shell.stdout.as_mut().expect("an output"))
                .read_line(&mut line)
                .expect("a line");
            assert_eq!(line, "ready\n");
            let counted = [open_files(shell.id()), threads(shell.id())];

            drop(shell.stdin.take());
            shell.wait().expect("a process");
            counted
        };

        let [without, _] = counted("");
        assert_eq!(counted("exec 7</dev/null 8</dev/null;"), [without + 2, 1]);
    }

    #[test]
    fn peak_memory_stays_until_reset() {
        let pid = std::process::id();

        let before = memory_bytes(pid);
        // The vector is written to, so that it is resident, and so large that the allocator returns
        // it at once.
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        assert!(
            peak_memory_bytes(pid) >= before + (48 << 20),
            "the peak is not remembered"
        );

        forget_peak(pid);
        assert!(
            peak_memory_bytes(pid) < before + (48 << 20),
            "the peak is not reset"
        );

        assert!(cpu_time(pid) < Duration::from_secs(3600));
        assert!(
            (1..=peak_memory_bytes(pid)).contains(&anonymous_bytes(pid)),
            "anonymous memory is a part of the peak"
        );
        assert!(
            (1..=peak_memory_bytes(pid)).contains(&private_bytes(pid)),
            "private memory is a part of the peak"
        );
    }
}

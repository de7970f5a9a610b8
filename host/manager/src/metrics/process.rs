//! Samples of the process, under the names of Prometheus' client libraries, and of the build.

use std::{fs, io};

use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};

use crate::metrics::samples::{Labels, Samples, Value};

/// Adds samples of the process, as far as /proc provides them.
pub fn sample(samples: &mut Samples) {
    if let Err(error) = sample_process(samples) {
        tracing::debug!(%error, "failed to read /proc");
    }
    let labels = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    samples.gauge(
        "operetta_build_info",
        "1, with the version of the host",
        [(labels, 1_u64)],
    );
}

fn sample_process(samples: &mut Samples) -> io::Result<()> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let ticks = clock_ticks_per_second() as f64;
    let cpu = (number(&stat, 14)? + number(&stat, 15)?) as f64 / ticks;
    let start = boot_time()? as f64 + number(&stat, 22)? as f64 / ticks;
    let rss = number(&stat, 24)? * page_size() as u64;

    samples.counter(
        "process_cpu_seconds",
        "User and system CPU time of the process in seconds",
        one(cpu),
    );
    samples.gauge(
        "process_start_time_seconds",
        "Start of the process since the Unix epoch in seconds",
        one(start),
    );
    samples.gauge(
        "process_resident_memory_bytes",
        "Resident memory of the process in bytes",
        one(rss),
    );

    let help = "Virtual memory of the process in bytes";
    samples.gauge(
        "process_virtual_memory_bytes",
        help,
        one(number(&stat, 23)?),
    );
    let help = "Limit of the virtual memory of the process in bytes";
    samples.gauge(
        "process_virtual_memory_max_bytes",
        help,
        one(limit(Resource::As)),
    );

    let open = fs::read_dir("/proc/self/fd")?.count() as u64;
    // Don't count the directory: it is open while we read it.
    samples.gauge(
        "process_open_fds",
        "Number of open file descriptors",
        one(open.saturating_sub(1)),
    );
    samples.gauge(
        "process_max_fds",
        "Limit of open file descriptors",
        one(limit(Resource::Nofile)),
    );
    Ok(())
}

fn one<V: Into<Value>>(value: V) -> [(Labels, V); 1] {
    [(Labels::new(), value)]
}

/// Returns a field of /proc/PID/stat by its number in proc(5). Only the second one, the program's
/// name, can contain spaces and parentheses.
fn number(stat: &str, field: usize) -> io::Result<u64> {
    let after_name = stat.rsplit_once(')').map(|(_, rest)| rest);
    let text = after_name.and_then(|rest| rest.split_whitespace().nth(field.checked_sub(3)?));
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| io::Error::other(format!("no field {field} in {stat:?}")))
}

/// Returns when the machine booted, in seconds since the Unix epoch.
fn boot_time() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let time = stat
        .lines()
        .find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
    time.ok_or_else(|| io::Error::other("no btime in /proc/stat"))
}

/// Returns a limit as a float, as Prometheus' client libraries do. Unlimited is 2^64 - 1.
fn limit(resource: Resource) -> f64 {
    getrlimit(resource).current.unwrap_or(u64::MAX) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_the_test_itself() {
        let mut samples = Samples::default();
        sample_process(&mut samples).expect("/proc");
        let rss = samples.value("process_resident_memory_bytes");
        assert!(
            matches!(rss, Some(Value::Integer(bytes)) if bytes > 1 << 20),
            "{rss:?}"
        );

        let start = samples.value("process_start_time_seconds");
        let now = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("after 1970")
            .as_secs_f64();
        assert!(
            matches!(start, Some(Value::Float(start)) if (now - 3600.0..=now + 1.0).contains(&start)),
            "{start:?}"
        );
    }

    #[test]
    fn name_of_the_program_may_look_like_fields() {
        let stat = "7 (a) b 1 2 3) S 4 5";
        assert_eq!(
            (
                number(stat, 4).expect("a number"),
                number(stat, 5).expect("a number")
            ),
            (4, 5)
        );
        assert!(number(stat, 6).is_err());
    }
}

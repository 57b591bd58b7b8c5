//! The process as the kernel sees it, read from `/proc` (proc(5)) when metrics are asked for.
//!
//! The files stay open, so that a process that has run out of descriptors can still be looked at.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Clock ticks per second in `/proc/self/stat`. A constant of the kernel's interface on every architecture Rust runs Linux on.
const TICKS_PER_SECOND: f64 = 100.0;

/// What was read. Zero where the kernel did not say.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: u64,
    pub(super) virtual_bytes: u64,
    pub(super) threads: u64,
    pub(super) open_descriptors: u64,
    pub(super) max_descriptors: u64,
}

#[derive(Debug)]
pub(super) struct Process {
    stat: Option<File>,
    status: Option<File>,
    limits: Option<File>,
}

impl Process {
    pub(super) fn open() -> Process {
        let open = |name: &str| File::open(format!("/proc/self/{name}")).ok();
        Process { stat: open("stat"), status: open("status"), limits: open("limits") }
    }

    pub(super) fn usage(&self) -> Usage {
        let status = read(self.status.as_ref());
        let kilobytes = |name: &str| field(&status, name).saturating_mul(1024);
        Usage {
            cpu_seconds: cpu_seconds(&read(self.stat.as_ref())),
            resident_bytes: kilobytes("VmRSS:"),
            virtual_bytes: kilobytes("VmSize:"),
            threads: field(&status, "Threads:"),
            open_descriptors: open_descriptors(),
            max_descriptors: field(&read(self.limits.as_ref()), "Max open files"),
        }
    }
}

fn read(file: Option<&File>) -> String {
    let mut bytes = [0; 8192];
    let length = file.and_then(|file| file.read_at(&mut bytes, 0).ok()).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// The first number after `name` at the start of a line; an unlimited one is the greatest.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    match line.and_then(|rest| rest.split_whitespace().next()) {
        Some("unlimited") => u64::MAX,
        Some(word) => word.parse().unwrap_or(0),
        None => 0,
    }
}

/// User and system time, fields 14 and 15; counted from the last `)` because the second field may hold spaces.
fn cpu_seconds(stat: &str) -> f64 {
    let Some((_, after_name)) = stat.rsplit_once(')') else { return 0.0 };
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    ticks as f64 / TICKS_PER_SECOND
}

fn open_descriptors() -> u64 {
    // Since Linux 6.2 the folder's size is the number of descriptors; before, it is 0 and they must be counted, which takes one itself.
    let size = std::fs::metadata("/proc/self/fd").map_or(0, |metadata| metadata.size());
    if size > 0 {
        return size;
    }
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1) as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn fields_are_found_whatever_the_program_is_called() {
        let stat = "4711 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 3 0 100";
        assert_eq!(cpu_seconds(stat), 3.0);
        assert_eq!(cpu_seconds(""), 0.0);
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096  files\n";
        assert_eq!(field(limits, "Max open files"), 1024);
        assert_eq!(field("Max open files   unlimited", "Max open files"), u64::MAX);
        assert_eq!(field("VmRSS:\t   12 kB", "VmSize:"), 0);
    }

    #[test]
    fn this_process_has_threads_memory_and_descriptors() {
        let usage = Process::open().usage();
        assert!(usage.threads >= 1 && usage.resident_bytes > 100_000 && usage.virtual_bytes >= usage.resident_bytes);
        assert!(usage.open_descriptors >= 3 && usage.max_descriptors >= usage.open_descriptors, "{usage:?}");
    }
}

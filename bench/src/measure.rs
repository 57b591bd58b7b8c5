//! What a process and its children cost: CPU time and memory, read from /proc (proc(5)).
//!
//! Reads only; a process that has ended counts as nothing.

use std::fs;
use std::time::Duration;

/// A process and all its descendants, as of now.
pub(crate) fn process_tree(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&pid) = tree.get(next) {
        tree.extend(parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child));
        next += 1;
    }
    tree
}

/// The fourth field of /proc/PID/stat; the second, the name, may hold spaces and brackets.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// User and system time that all threads of these processes have used, to the nanosecond (/proc/PID/task/TID/schedstat). It includes the
/// network work that the kernel does on their behalf.
pub(crate) fn cpu_time(processes: &[u32]) -> Duration {
    let nanoseconds = processes
        .iter()
        .flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten())
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    Duration::from_nanos(nanoseconds)
}

/// The share of their time that these processes have spent in user space, with that in the kernel: ticks (/proc/PID/stat, utime and stime).
pub(crate) fn ticks(processes: &[u32]) -> Ticks {
    let of_process = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    let add = |sum: Ticks, (user, system): (u64, u64)| Ticks { user: sum.user + user, system: sum.system + system };
    processes.iter().filter_map(of_process).fold(Ticks::default(), add)
}

/// Where processes have spent their time, in ticks of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    user: u64,
    system: u64,
}

impl Ticks {
    /// The part that was spent in user space since `before`, 0 to 1; none if there was not one tick.
    pub(crate) fn user_share_since(self, before: Ticks) -> Option<f64> {
        let (user, system) = (self.user.saturating_sub(before.user), self.system.saturating_sub(before.system));
        (user + system > 0).then(|| user as f64 / (user + system) as f64)
    }
}

/// Resident memory now, KiB.
pub(crate) fn resident_kib(processes: &[u32]) -> u64 {
    processes.iter().map(|pid| status_kib(*pid, "VmRSS:")).sum()
}

/// The most resident memory since [`reset_peak`], KiB.
pub(crate) fn peak_kib(processes: &[u32]) -> u64 {
    processes.iter().map(|pid| status_kib(*pid, "VmHWM:")).sum()
}

/// Forgets the peak so far; without the right to do so the peak since the start stays.
pub(crate) fn reset_peak(processes: &[u32]) {
    for pid in processes {
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
}

fn status_kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// What all cores have done since boot, in ticks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MachineTime {
    /// All ticks.
    pub(crate) total: u64,
    /// Ticks in which the hypervisor gave our core to others.
    pub(crate) stolen: u64,
}

impl MachineTime {
    /// As of now.
    pub(crate) fn now() -> MachineTime {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let ticks: Vec<u64> =
            stat.lines().next().unwrap_or_default().split_whitespace().skip(1).flat_map(str::parse).collect();
        // user nice system idle iowait irq softirq steal; guest times are already within user.
        MachineTime { total: ticks.iter().take(8).sum(), stolen: ticks.get(7).copied().unwrap_or_default() }
    }

    /// Percent of the time since `before` that was stolen.
    pub(crate) fn stolen_percent(self, before: MachineTime) -> f64 {
        let total = self.total.saturating_sub(before.total).max(1);
        100.0 * self.stolen.saturating_sub(before.stolen) as f64 / total as f64
    }
}

/// The machine in one line, for results.
pub(crate) fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let value = |text: &str, key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap_or("?")
            .trim_start_matches([':', ' ', '\t'])
            .to_owned()
    };
    let cores = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let memory: u64 =
        value(&read("/proc/meminfo"), "MemTotal:").split(' ').next().unwrap_or_default().parse().unwrap_or(0);
    format!(
        "{} x {}, {} GiB, Linux {}",
        cores,
        value(&cpuinfo, "model name"),
        (memory + (1 << 19)) >> 20,
        read("/proc/sys/kernel/osrelease").trim()
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_tree_is_found_and_its_time_and_memory_are_reported() {
        // A shell that burns a little time, then waits for its child `cat`, which waits for its input.
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo ready; cat; :";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let mut tree = process_tree(shell.id());
        while tree.len() < 2 {
            tree = process_tree(shell.id());
        }
        assert_eq!(tree[0], shell.id());
        assert!(cpu_time(&tree[..1]) > Duration::from_millis(1));
        let spent = ticks(&[std::process::id()]);
        assert_eq!(spent.user_share_since(spent), None);
        let since = Ticks { user: spent.user + 3, system: spent.system + 1 };
        assert_eq!(since.user_share_since(spent), Some(0.75));
        assert!(resident_kib(&tree) > 500 && peak_kib(&tree) >= resident_kib(&tree[..1]));
        assert!(process_tree(std::process::id()).contains(&shell.id()));
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(cpu_time(&[shell.id()]), Duration::ZERO);
    }

    #[test]
    fn the_machine_is_named() {
        assert!(machine().contains("Linux "), "{}", machine());
        assert!(MachineTime::now().total > 0);
    }
}

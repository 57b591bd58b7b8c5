//! Processes of a gate that are no children of ours: who started whom, who is alive, and signals to them.
//!
//! They are known by the number that the gate names, or as a child of one that is; nothing else is ever signalled.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::client::PATIENCE;
use crate::peers::pause;

/// What the process is called that starts the program again for a gate.
const LAUNCHER: &str = "portunus-launch";

/// The process that starts the program again for this one.
///
/// # Errors
/// There is none.
pub(super) fn launcher_of(gate: u32) -> io::Result<u32> {
    first_child(gate, |pid| name_of(pid).as_deref() == Some(LAUNCHER))
}

/// Waits for a gate's launcher to start a process.
///
/// # Errors
/// It starts none.
pub(super) fn started_by(gate: u32) -> io::Result<u32> {
    first_child(launcher_of(gate)?, |_| true)
}

fn first_child(parent: u32, is_sought: impl Fn(u32) -> bool) -> io::Result<u32> {
    let until = Instant::now() + PATIENCE;
    loop {
        let numbers = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut children = numbers.filter(|pid| is_alive(*pid) && parent_of(*pid) == Some(parent) && is_sought(*pid));
        match children.next() {
            Some(child) => return Ok(child),
            None if Instant::now() > until => return Err(io::Error::other("no new process was started")),
            None => pause(Duration::from_millis(1)),
        }
    }
}

/// Whether a process has a thread of this name.
pub(super) fn has_thread(pid: u32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).any(|found| found.trim() == name)
}

/// Whether it has not ended, or not all of it: its first thread may end before the others, which still hold what it has open.
pub(super) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(_, state, _)| state != 'Z') || threads(pid) > 1
}

fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Signals it, if it is alive.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| is_alive(pid)) {
        let _ = kill_process(pid, signal);
    }
}

/// Ends the last of them, which serves, and waits for all.
///
/// # Errors
/// One does not end, and was killed.
pub(super) fn end(processes: &[u32]) -> io::Result<()> {
    processes.last().into_iter().for_each(|last| signal(*last, Signal::TERM));
    let until = Instant::now() + PATIENCE * 2;
    while processes.iter().any(|pid| is_alive(*pid)) {
        if Instant::now() > until {
            processes.iter().for_each(|pid| signal(*pid, Signal::KILL));
            return Err(io::Error::other("a process did not end, and was killed"));
        }
        pause(Duration::from_millis(20));
    }
    Ok(())
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(pid).map(|(_, _, parent)| parent)
}

fn name_of(pid: u32) -> Option<String> {
    stat(pid).map(|(name, _, _)| name)
}

/// Name, state and parent of a process, from `/proc/PID/stat`. The name stands in parentheses and may hold anything.
fn stat(pid: u32) -> Option<(String, char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (start, rest) = text.rsplit_once(')')?;
    let mut rest = rest.split_whitespace();
    Some((start.split_once('(')?.1.to_owned(), rest.next()?.chars().next()?, rest.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_with_its_parent() {
        let own = std::process::id();
        assert!(is_alive(own) && parent_of(own).is_some_and(|parent| parent != own));
        assert!(name_of(own).is_some_and(|name| !name.is_empty() && !name.contains(['(', ')'])));
        assert!(!is_alive(u32::MAX) && parent_of(u32::MAX).is_none());
    }
}

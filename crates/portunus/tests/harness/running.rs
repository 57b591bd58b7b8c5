//! A program under test at work: started, up, and what it tells on standard error.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::wait_until;

/// A running program; killed when dropped.
pub struct Running {
    pub child: Child,
    diagnostics: Arc<Mutex<Vec<String>>>,
    reported_to_end: AtomicBool,
}

impl Running {
    /// Starts a program, and hands what it tells to `is_up`, line by line, until that says so. A line that is no JSON is null.
    pub fn start(command: &mut Command, is_up: impl FnMut(&Value) -> bool) -> Running {
        Running::start_as_is(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()), is_up)
    }

    /// As [`Running::start`], with standard input and output as the command has them.
    pub fn start_as_is(command: &mut Command, mut is_up: impl FnMut(&Value) -> bool) -> Running {
        // Where a test says nothing of it, the program leaves the usual admin socket of the machine alone.
        if !command.get_envs().any(|(name, _)| name == "PORTUNUS_CONTROL") {
            command.env("PORTUNUS_CONTROL", "none");
        }
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut reported = Vec::new();
        loop {
            let Some(Ok(line)) = lines.next() else { panic!("{command:?} did not start: {reported:#?}") };
            let event = serde_json::from_str(&line).unwrap_or_default();
            reported.push(line);
            if is_up(&event) {
                break;
            }
        }
        let diagnostics = Arc::new(Mutex::new(reported));
        let kept = Arc::clone(&diagnostics);
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line)));
        Running { child, diagnostics, reported_to_end: AtomicBool::new(false) }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name, e.g. `HUP`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status().unwrap();
        assert!(status.success());
        if matches!(name, "TERM" | "INT") {
            self.reported_to_end.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was sent a signal that ends it.
    pub fn was_reported_to_end(&self) -> bool {
        self.reported_to_end.load(Ordering::Relaxed)
    }

    /// Diagnostic lines so far.
    pub fn diagnostics(&self) -> Vec<String> {
        self.diagnostics.lock().unwrap().clone()
    }

    /// Waits until a diagnostic line contains `text` for the `count`th time.
    pub fn wait_for(&self, text: &str, count: usize) {
        wait_until(&format!("the diagnostic {text:?}, {count} times"), || {
            self.diagnostics.lock().unwrap().iter().filter(|line| line.contains(text)).count() >= count
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A text member of what was logged.
pub fn member<'v>(event: &'v Value, name: &str) -> Option<&'v str> {
    event.get(name).or_else(|| event.get("fields")?.get(name))?.as_str()
}

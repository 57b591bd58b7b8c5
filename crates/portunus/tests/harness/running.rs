//! A program under test at work: started, up, and what it tells on standard error.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::wait_until;

/// Longest start of a program, on a machine that does other things, too.
const START_PATIENCE: Duration = Duration::from_secs(180);

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
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (diagnostics, (sender, reported)) = (Arc::new(Mutex::new(Vec::new())), channel());
        let kept = Arc::clone(&diagnostics);
        // In a thread from the start: a program that neither says anything nor ends would be read from for ever.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().unwrap().push(line.clone());
                // Nobody listens once it is up.
                let _ = sender.send(line);
            }
        });
        // It is killed with this value also when it does not come up.
        let running = Running { child, diagnostics, reported_to_end: AtomicBool::new(false) };
        let until = Instant::now() + START_PATIENCE;
        loop {
            let Ok(line) = reported.recv_timeout(until.saturating_duration_since(Instant::now())) else {
                panic!("{command:?} did not start: {:#?}", running.diagnostics());
            };
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if is_up(&event) {
                return running;
            }
        }
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

//! A program that sets records: run without a shell, in a clean environment, for a bounded time, and what it prints is quoted if it fails.

use std::cell::RefCell;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use super::{Change, TxtRecord};
use crate::foreign::shown;

/// What is kept of its output.
const MAX_OUTPUT_BYTES: usize = 4096;

/// How long its output is waited for after its end: what it has started may keep the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Where it finds other programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A running program, which ends with this, together with what it has started.
struct Running {
    child: Child,
    group: Option<Pid>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // Nothing is left of it if this fails.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs it. Dropping the future ends it.
pub(super) async fn run(program: &[String], change: Change, record: &TxtRecord) -> Result<(), String> {
    let Some((path, arguments)) = program.split_first() else { return Err("no program is named".to_owned()) };
    let word = match change {
        Change::Set => "present",
        Change::Remove => "cleanup",
    };
    let child = Command::new(path)
        .args(arguments)
        .args([word, &format!("{}.", record.name()), &record.value])
        // What stands in our own environment may be secret.
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let child = child.map_err(|error| format!("{path} cannot be run: {error}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let mut running = Running { child, group };
    let said = RefCell::new(Vec::new());
    let mut reading = pin!(keep_beginning(running.child.stderr.take(), &said));
    let mut is_read = false;
    let status = loop {
        tokio::select! {
            status = running.child.wait() => break status,
            () = &mut reading, if !is_read => is_read = true,
        }
    };
    // Its number may be another one's from now on. What it has left running is its own affair.
    running.group = None;
    if !is_read {
        let _ = tokio::time::timeout(LAST_WORDS, reading).await;
    }
    let status = status.map_err(|error| format!("{path}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    let said = said.borrow();
    Err(format!("{path} ended with {status}: {}", shown(String::from_utf8_lossy(&said).trim())))
}

/// Keeps the first bytes of an output; the rest is read, since a pipe that is full would stop the program, and dropped.
async fn keep_beginning(output: Option<impl AsyncRead + Unpin>, kept: &RefCell<Vec<u8>>) {
    let Some(mut output) = output else { return };
    let mut piece = [0; 1024];
    while let Ok(length @ 1..) = output.read(&mut piece).await {
        let mut kept = kept.borrow_mut();
        let room = MAX_OUTPUT_BYTES.saturating_sub(kept.len());
        kept.extend(piece.iter().take(length.min(room)));
    }
}

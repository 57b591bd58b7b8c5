//! The thread behind a [`Queue`]: writes lines to a file, to standard output or to standard error, and outlives whatever they do.
//!
//! On an error it keeps its place, waits and tries again, while the queue fills and the workers count what they must drop. What was half
//! written is finished first, so that a target that recovers holds whole lines only.
//!
//! ```text
//!   Write(chunk) ─→ write ─┬─ all ─────→ next
//!         ↑                └─ error ─→ pause 10 ms … 1 s ─┬─ again ─→ write the rest
//!         └── rest, from its line's start ←── reopen ─────┤
//!                                                         └─ deadline of the end ─→ stop
//! ```

use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use super::once_per_second::OncePerSecond;
use super::queue::{Chunk, Pause, Queue, Work};
use super::target::{Opened, Target, open_file};

/// First and longest wait before another try at a target that failed.
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_LONGEST: Duration = Duration::from_secs(1);

/// Opens `target` and starts the thread that empties `queue` into it.
///
/// # Errors
/// The target cannot be opened, or no thread can be started.
pub(super) fn start(name: &str, target: Target, queue: Arc<Queue>) -> io::Result<()> {
    start_on(name, Opened::new(target)?, queue)
}

/// Starts the thread that empties `queue` into an open target.
///
/// # Errors
/// No thread can be started.
pub(super) fn start_on(name: &str, opened: Opened, queue: Arc<Queue>) -> io::Result<()> {
    let Opened { target, file, newline_owed } = opened;
    let writer = Writer { target, file, newline_owed, queue, stale: false, complaint: OncePerSecond::new() };
    std::thread::Builder::new().name(name.to_owned()).spawn(move || writer.run())?;
    Ok(())
}

struct Writer {
    target: Target,
    file: File,
    /// The file ends within a line that is not ours to finish.
    newline_owed: bool,
    queue: Arc<Queue>,
    /// A reopening was asked for and has not succeeded yet; the old file is still written.
    stale: bool,
    complaint: OncePerSecond,
}

impl Writer {
    fn run(mut self) {
        loop {
            match self.queue.next() {
                Work::Write(chunk) => {
                    if self.stale {
                        self.reopen();
                    }
                    let finished = self.write(&chunk);
                    self.queue.recycle(chunk);
                    if !finished {
                        break;
                    }
                }
                Work::Reopen => self.reopen(),
                Work::Stop => break,
            }
        }
        self.queue.ended();
    }

    /// Writes all of `chunk`, however long it takes. False if the deadline of the end came first.
    fn write(&mut self, chunk: &Chunk) -> bool {
        let bytes = &chunk.bytes;
        let mut done = 0;
        let mut delay = RETRY_FIRST;
        while done < bytes.len() {
            let next = if self.newline_owed { b"\n" } else { &bytes[done..] };
            let error = match self.file.write(next) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(_) if self.newline_owed => {
                    self.newline_owed = false;
                    continue;
                }
                Ok(n) => {
                    self.count(&bytes[done..done + n]);
                    done += n;
                    delay = RETRY_FIRST;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            if error.kind() == ErrorKind::WouldBlock {
                // A slow reader, not a fault. Its wait stays short.
                delay = RETRY_FIRST;
            } else {
                self.complain("cannot write; lines that do not fit into memory will be lost", &error);
            }
            match self.queue.pause(delay) {
                Pause::Elapsed => delay = (2 * delay).min(RETRY_LONGEST),
                Pause::Reopen => done = self.reopen_within(bytes, done),
                Pause::Expired => {
                    take_back(&mut self.file, (done - line_start(bytes, done)) as u64);
                    return false;
                }
            }
        }
        true
    }

    fn count(&self, written: &[u8]) {
        self.queue.count_written(memchr::memchr_iter(b'\n', written).count() as u64);
    }

    fn reopen(&mut self) {
        if let Some(Opened { target, file, newline_owed }) = self.queue.next_target() {
            (self.target, self.file, self.newline_owed, self.stale) = (target, file, newline_owed, false);
            return;
        }
        let Target::File(path) = &self.target else { return };
        match open_file(path) {
            Ok((file, newline_owed)) => {
                self.file = file;
                self.newline_owed = newline_owed;
                self.stale = false;
            }
            Err(error) => {
                self.stale = true;
                self.complain("cannot be opened again; the old file is still written", &error);
            }
        }
    }

    /// Opens again while `bytes` are only written up to `done`. Returns where to go on: always at the start of a line.
    fn reopen_within(&mut self, bytes: &[u8], done: usize) -> usize {
        let line_start = line_start(bytes, done);
        let line_end = memchr::memchr(b'\n', &bytes[done..]).map_or(bytes.len(), |at| done + at + 1);
        if line_start == done {
            self.reopen();
            return done;
        }
        // The old file ends within a line: finish it there, or else take it back and write it whole to the new one.
        let rest = self.file.write(&bytes[done..line_end]).unwrap_or(0);
        let done = done + rest;
        if done == line_end {
            self.count(&bytes[line_start..line_end]);
            self.reopen();
            return line_end;
        }
        let taken_back = take_back(&mut self.file, (done - line_start) as u64);
        let old = self.identity();
        self.reopen();
        let moved = !self.stale && self.identity() != old;
        if taken_back || moved { line_start } else { done }
    }

    /// Which object the open file is.
    fn identity(&self) -> Option<(u64, u64)> {
        self.file.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    /// At most one message a second, and none about standard error, where messages go.
    fn complain(&self, what: &str, error: &io::Error) {
        if matches!(self.target, Target::Stderr) {
            return;
        }
        if let Some(suppressed) = self.complaint.allow() {
            let log = self.target.name();
            tracing::error!(log, %error, suppressed, "log: {what}; free disk space or fix the path, then send SIGUSR1");
        }
    }
}

/// Where the line begins that is written up to `done`; `done` itself if that is between two lines.
fn line_start(bytes: &[u8], done: usize) -> usize {
    memchr::memrchr(b'\n', &bytes[..done]).map_or(0, |at| at + 1)
}

/// Removes the last `length` bytes of a regular file, if they are still its last. False where that cannot be done: then half a line stays
/// behind in a file that nobody can write.
fn take_back(file: &mut File, length: u64) -> bool {
    let mut cut = || -> io::Result<bool> {
        let end = file.stream_position()?;
        let metadata = file.metadata()?;
        let ours = metadata.is_file() && metadata.len() == end;
        if ours {
            file.set_len(end.saturating_sub(length))?;
        }
        Ok(ours)
    };
    cut().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::target::ends_within_a_line;
    use super::*;

    #[test]
    fn half_a_line_is_taken_back_only_if_it_is_still_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let (mut file, newline_owed) = open_file(&path).unwrap();
        assert!(!newline_owed, "an empty file ends no line");
        file.write_all(b"whole\nhal").unwrap();
        assert!(ends_within_a_line(&path));
        assert!(take_back(&mut file, 3));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole\n");
        file.write_all(b"hal").unwrap();
        open_file(&path).unwrap().0.write_all(b"another's\n").unwrap();
        assert!(!take_back(&mut file, 3));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole\nhalanother's\n");
    }

    #[test]
    fn the_start_of_a_line_is_found() {
        fn check(done: usize, expected: usize) {
            assert_eq!(line_start(b"ab\ncd\n", done), expected, "{done}");
        }
        check(0, 0);
        check(2, 0);
        check(3, 3);
        check(5, 3);
        check(6, 6);
    }
}

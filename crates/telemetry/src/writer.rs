//! The thread behind a [`Queue`]: writes lines to a file, to standard output, to standard error or to a log service, and outlives whatever they do.
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
//!
//! After a reload that moves the log, lines that were written for the place before are still written there, unless that fails.

use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use super::once_per_second::OncePerSecond;
use super::queue::{Chunk, Pause, Queue, Work};
use super::remote::Sent;
use super::target::{Opened, Sink, Target, open_file};

/// First and longest wait before another try at a target that failed.
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_LONGEST: Duration = Duration::from_secs(1);

/// Places before the current one that are kept open for lines that come late.
const KEPT_PLACES: usize = 3;

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
    let writer = Writer { current: opened, others: Vec::new(), queue, stale: false, complaint: OncePerSecond::new() };
    std::thread::Builder::new().name(name.to_owned()).spawn(move || writer.run())?;
    Ok(())
}

struct Writer {
    current: Opened,
    /// Those before it and, while lines for one of these still come, behind it.
    others: Vec<Opened>,
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
        if chunk.place != self.current.place {
            self.take_next_place();
        }
        if let Some(other) = self.others.iter_mut().find(|other| other.place == chunk.place) {
            std::mem::swap(&mut self.current, other);
        }
        match self.current.sink {
            _ if chunk.place != self.current.place => {
                self.queue.give_up(chunk.lines);
                true
            }
            Sink::File { .. } => self.write_lines(chunk),
            Sink::Remote(_) => self.send(chunk),
        }
    }

    /// Whether the log has gone on at another place than the current one.
    fn is_late(&self) -> bool {
        self.others.iter().any(|other| other.place > self.current.place)
    }

    /// Sends the messages of a chunk.
    fn send(&mut self, chunk: &Chunk) -> bool {
        let (mut done, mut lines, mut delay) = (0, 0, RETRY_FIRST);
        while done < chunk.bytes.len() && self.current.place == chunk.place {
            let Sink::Remote(remote) = &mut self.current.sink else { break };
            let (queue, mut pause) = (&self.queue, Pause::Elapsed);
            let sent = remote.send(&chunk.bytes[done..], &mut || {
                pause = queue.pause(Duration::ZERO);
                pause == Pause::Elapsed
            });
            let error = match sent {
                Ok(Sent::Out(length, count)) => {
                    self.queue.count_written(count);
                    (done, lines, delay) = (done + length, lines + count, RETRY_FIRST);
                    continue;
                }
                Ok(Sent::TooLarge(length)) => {
                    self.queue.give_up(1);
                    (done, lines) = (done + length, lines + 1);
                    continue;
                }
                Err(error) => error,
            };
            self.complain("cannot reach the log service; lines that do not fit into memory will be lost", &error);
            if self.is_late() {
                break;
            }
            if pause == Pause::Elapsed {
                pause = self.queue.pause(delay);
            }
            match pause {
                Pause::Elapsed => delay = (2 * delay).min(RETRY_LONGEST),
                Pause::Reopen => self.reopen(),
                Pause::Expired => return false,
            }
        }
        // What is left was for a place that the log has left.
        self.queue.give_up(chunk.lines.saturating_sub(lines));
        true
    }

    /// Writes the lines of a chunk.
    fn write_lines(&mut self, chunk: &Chunk) -> bool {
        let bytes = &chunk.bytes;
        let mut done = 0;
        let mut delay = RETRY_FIRST;
        while done < bytes.len() {
            let Sink::File { file, newline_owed } = &mut self.current.sink else {
                // The log has gone on at a service, which cannot take lines.
                self.queue.give_up(memchr::memchr_iter(b'\n', &bytes[done..]).count() as u64);
                return true;
            };
            let next = if *newline_owed { b"\n" } else { &bytes[done..] };
            let error = match file.write(next) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(_) if *newline_owed => {
                    *newline_owed = false;
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
                    self.take_back((done - line_start(bytes, done)) as u64);
                    return false;
                }
            }
        }
        true
    }

    fn count(&self, written: &[u8]) {
        self.queue.count_written(memchr::memchr_iter(b'\n', written).count() as u64);
    }

    /// Goes on at the next place, if there is one.
    fn take_next_place(&mut self) -> bool {
        let mut is_another = false;
        while let Some(next) = self.queue.next_target() {
            self.others.push(std::mem::replace(&mut self.current, next));
            // Lines for a place so long ago have been written.
            self.others.sort_by_key(|other| std::cmp::Reverse(other.place));
            self.others.truncate(KEPT_PLACES);
            (self.stale, is_another) = (false, true);
        }
        is_another
    }

    fn reopen(&mut self) {
        if self.take_next_place() {
            return;
        }
        match (&self.current.target, &mut self.current.sink) {
            (_, Sink::Remote(remote)) => remote.disconnect(),
            (Target::File(path), sink) => match open_file(path) {
                Ok((file, newline_owed)) => {
                    *sink = Sink::File { file, newline_owed };
                    self.stale = false;
                }
                Err(error) => {
                    self.stale = true;
                    self.complain("cannot be opened again; the old file is still written", &error);
                }
            },
            _ => {}
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
        let rest = match &mut self.current.sink {
            Sink::File { file, .. } => file.write(&bytes[done..line_end]).unwrap_or(0),
            Sink::Remote(_) => 0,
        };
        let done = done + rest;
        if done == line_end {
            self.count(&bytes[line_start..line_end]);
            self.reopen();
            return line_end;
        }
        let taken_back = self.take_back((done - line_start) as u64);
        let old = self.identity();
        self.reopen();
        let moved = !self.stale && self.identity() != old;
        if taken_back || moved { line_start } else { done }
    }

    /// Which object the open file is.
    fn identity(&self) -> Option<(u64, u64)> {
        let Sink::File { file, .. } = &self.current.sink else { return None };
        file.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    fn take_back(&mut self, length: u64) -> bool {
        match &mut self.current.sink {
            Sink::File { file, .. } => take_back(file, length),
            Sink::Remote(_) => false,
        }
    }

    /// At most one message a second, and none about standard error, where messages go.
    fn complain(&self, what: &str, error: &io::Error) {
        if matches!(self.current.target, Target::Stderr) {
            return;
        }
        if let Some(suppressed) = self.complaint.allow() {
            let log = self.current.target.name();
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

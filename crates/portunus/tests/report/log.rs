//! The access log: whole lines only, and every line accounted for, whatever the target does.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use config::{AccessLog, LogConfig, LogFormat, LogOutput};
use telemetry::{Reporter, RequestRecord, WorkerReport};

use super::{record, value};

/// Long enough for any machine; reached only by a defect.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(path: &Path) -> std::io::Result<Arc<Reporter>> {
    let access = AccessLog { output: LogOutput::File(path.to_owned()), ..AccessLog::default() };
    Reporter::start(&LogConfig { access: Some(access), level: "info".into() }, 1)
}

/// Waits until so many lines are written in all. A worker hands its lines over unless that would make it wait, and tries again: so does this.
fn until_written(reporter: &Reporter, worker: &WorkerReport, count: u64) {
    until("written", || {
        worker.flush();
        value(reporter, "portunus_log_lines_written_total") == count
    });
}

/// Requests numbered from `from`, each with its number as the target.
fn request(worker: &WorkerReport, from: u64, count: u64) {
    for number in from..from + count {
        worker.request(&RequestRecord { target: format!("/{number}").as_bytes(), ..record() });
    }
}

/// The numbers in a log; every line must be whole.
fn numbers(log: &str) -> Vec<u64> {
    assert!(log.is_empty() || log.ends_with('\n'), "the log ends with a whole line");
    let number = |line: &str| -> u64 {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        value["target"].as_str().unwrap().trim_start_matches('/').parse().unwrap()
    };
    log.lines().map(number).collect()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn named_pipe(path: &Path) -> File {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo is installed").success());
    // Opened both ways it needs no partner, and keeps the pipe alive without reading it.
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap()
}

/// What is in the pipe now.
fn drain(pipe: &mut File) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = vec![0; 65_536];
    loop {
        match pipe.read(&mut buffer) {
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn lines_are_written_in_order_and_others_cannot_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let reporter = start(&path).unwrap();
    let worker = reporter.worker(0);
    request(&worker, 0, 10);
    until_written(&reporter, &worker, 10);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 10, "the tick brings lines out");
    request(&worker, 10, 990);
    drop(worker);
    assert_eq!(reporter.shutdown(PATIENCE), 0);
    assert_eq!(numbers(&fs::read_to_string(&path).unwrap()), (0..1000).collect::<Vec<_>>());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o137, 0, "not for others, not executable");
    assert_eq!(value(&reporter, "portunus_log_lines_written_total"), 1000);
    assert_eq!(value(&reporter, "portunus_log_lines_dropped_total"), 0);
}

#[test]
fn a_missing_folder_is_an_error_at_start_that_names_the_path() {
    let error = start(Path::new("/nonexistent/folder/access.log")).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/folder/access.log"), "{error}");
}

#[test]
fn a_half_line_of_an_earlier_run_does_not_swallow_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    fs::write(&path, "{\"whole\":1}\n{\"cut").unwrap();
    let reporter = start(&path).unwrap();
    request(&reporter.worker(0), 0, 1);
    assert_eq!(reporter.shutdown(PATIENCE), 0);
    let log = fs::read_to_string(&path).unwrap();
    let rest = log.strip_prefix("{\"whole\":1}\n{\"cut\n").expect("the half line is ended");
    assert_eq!(numbers(rest), [0]);
}

#[test]
fn reopening_goes_on_in_a_new_file_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let (path, rotated) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let reporter = start(&path).unwrap();
    let worker = reporter.worker(0);
    request(&worker, 0, 100);
    until_written(&reporter, &worker, 100);
    fs::rename(&path, &rotated).unwrap();
    request(&worker, 100, 50);
    until_written(&reporter, &worker, 150);
    reporter.reopen();
    until("opened again", || path.exists());
    request(&worker, 150, 100);
    drop(worker);
    assert_eq!(reporter.shutdown(PATIENCE), 0);
    assert_eq!(numbers(&fs::read_to_string(&rotated).unwrap()), (0..150).collect::<Vec<_>>());
    assert_eq!(numbers(&fs::read_to_string(&path).unwrap()), (150..250).collect::<Vec<_>>());
}

#[test]
fn while_the_path_cannot_be_opened_the_old_file_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let reporter = start(&logs.join("access.log")).unwrap();
    let worker = reporter.worker(0);
    let moved = folder.path().join("moved");
    fs::rename(&logs, &moved).unwrap();
    reporter.reopen();
    request(&worker, 0, 10);
    until_written(&reporter, &worker, 10);
    fs::create_dir(&logs).unwrap();
    request(&worker, 10, 10);
    drop(worker);
    assert_eq!(reporter.shutdown(PATIENCE), 0);
    assert_eq!(numbers(&fs::read_to_string(moved.join("access.log")).unwrap()), (0..10).collect::<Vec<_>>());
    assert_eq!(numbers(&fs::read_to_string(logs.join("access.log")).unwrap()), (10..20).collect::<Vec<_>>());
}

#[test]
fn a_full_device_costs_lines_that_are_counted_and_no_time() {
    let reporter = start(Path::new("/dev/full")).unwrap();
    let worker = reporter.worker(0);
    let recorded = 30_000;
    request(&worker, 0, recorded);
    drop(worker);
    let dropped = value(&reporter, "portunus_log_lines_dropped_total");
    assert!(dropped > 0, "30,000 lines do not fit into memory");
    assert_eq!(reporter.shutdown(Duration::from_millis(20)), recorded - dropped);
    assert_eq!(value(&reporter, "portunus_log_lines_dropped_total"), recorded);
    assert_eq!(value(&reporter, "portunus_log_lines_written_total"), 0);
}

#[test]
fn a_device_that_recovers_gets_what_waited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    symlink("/dev/full", &path).unwrap();
    let reporter = start(&path).unwrap();
    let worker = reporter.worker(0);
    request(&worker, 0, 1000);
    worker.flush();
    fs::remove_file(&path).unwrap();
    reporter.reopen();
    request(&worker, 1000, 1000);
    drop(worker);
    assert_eq!(reporter.shutdown(PATIENCE), 0);
    assert_eq!(numbers(&fs::read_to_string(&path).unwrap()), (0..2000).collect::<Vec<_>>());
}

#[test]
fn a_stuck_reader_costs_lines_that_are_counted_and_gets_whole_ones_when_it_reads_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let mut pipe = named_pipe(&path);
    let reporter = start(&path).unwrap();
    let worker = reporter.worker(0);
    let mut recorded = 0;
    while value(&reporter, "portunus_log_lines_dropped_total") == 0 {
        request(&worker, recorded, 1000);
        recorded += 1000;
        assert!(recorded < 100_000, "memory for waiting lines is bounded");
    }
    drop(worker);
    let stopping = {
        let reporter = Arc::clone(&reporter);
        std::thread::spawn(move || reporter.shutdown(PATIENCE))
    };
    let mut log = Vec::new();
    while !stopping.is_finished() {
        log.extend(drain(&mut pipe));
        std::thread::sleep(Duration::from_millis(1));
    }
    log.extend(drain(&mut pipe));
    assert_eq!(stopping.join().unwrap(), 0);
    let received = numbers(std::str::from_utf8(&log).unwrap());
    let dropped = value(&reporter, "portunus_log_lines_dropped_total");
    assert!(received.is_sorted_by(|a, b| a < b), "in order, none twice");
    assert_eq!(received.len() as u64 + dropped, recorded);
    assert_eq!(value(&reporter, "portunus_log_lines_written_total"), received.len() as u64);
}

#[test]
fn shutting_down_does_not_wait_for_a_stuck_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let mut pipe = named_pipe(&path);
    let reporter = start(&path).unwrap();
    request(&reporter.worker(0), 0, 2000);
    until("the pipe is full", || {
        let mut sought = [rustix::event::PollFd::new(&pipe, rustix::event::PollFlags::OUT)];
        rustix::event::poll(&mut sought, Some(&rustix::time::Timespec::default())).unwrap() == 0
    });
    let missing = reporter.shutdown(Duration::from_millis(50));
    let log = drain(&mut pipe);
    let whole = memchr::memchr_iter(b'\n', &log).count() as u64;
    assert!(missing > 0, "2,000 lines do not fit into a pipe");
    assert_eq!(whole + missing, 2000);
}

#[test]
fn a_pipe_replaced_within_a_line_gets_the_line_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let mut pipe = named_pipe(&path);
    let reporter = start(&path).unwrap();
    let worker = reporter.worker(0);
    request(&worker, 0, 1000);
    worker.flush();
    // 1,000 lines do not fit into a pipe: the writer stops within a line, or by chance between two.
    until("the writer has begun", || value(&reporter, "portunus_log_lines_written_total") > 0);
    fs::remove_file(&path).unwrap();
    reporter.reopen();
    until("opened again", || path.exists());
    drop(worker);
    assert_eq!(reporter.shutdown(PATIENCE), 0);
    let log = drain(&mut pipe);
    let whole = memchr::memrchr(b'\n', &log).map_or(0, |at| at + 1);
    let mut all = numbers(std::str::from_utf8(&log[..whole]).unwrap());
    all.extend(numbers(&fs::read_to_string(&path).unwrap()));
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_log_for_people_has_one_line_per_request_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let access = AccessLog { output: LogOutput::File(path.clone()), format: LogFormat::Text, ..AccessLog::default() };
    let reporter = Reporter::start(&LogConfig { access: Some(access), level: "info".into() }, 1).unwrap();
    let worker = reporter.worker(0);
    worker.request(&RequestRecord { target: b"/a b\r\n\x1b[2J", ..record() });
    drop(worker);
    assert_eq!(reporter.shutdown(PATIENCE), 0);
    let log = fs::read_to_string(&path).unwrap();
    assert_eq!(log.lines().count(), 1);
    assert!(log.contains(r#""api.example.com/a b\r\n\u001b[2J" 200"#), "{log}");
}

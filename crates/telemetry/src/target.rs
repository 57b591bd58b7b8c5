//! Where log lines go, and how it is opened.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::remote::Remote;

/// Permissions of a new log file: the owner writes, the group reads.
const FILE_MODE: u32 = 0o640;

/// Where lines go.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A file, made if absent, appended to, opened again on request.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// Standard error. Failures of this one are not told to anyone.
    Stderr,
    /// A log service; what it is called.
    Service(String),
}

impl Target {
    /// The opened target, and whether it ends within a line.
    fn open(&self) -> io::Result<(File, bool)> {
        match self {
            Target::File(path) => open_file(path),
            Target::Stdout => io::stdout().as_fd().try_clone_to_owned().map(|fd| (File::from(fd), false)),
            Target::Stderr => io::stderr().as_fd().try_clone_to_owned().map(|fd| (File::from(fd), false)),
            Target::Service(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Target::File(path) => path.display().to_string(),
            Target::Stdout => "standard output".to_owned(),
            Target::Stderr => "standard error".to_owned(),
            Target::Service(name) => name.clone(),
        }
    }
}

/// A target that is open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) target: Target,
    pub(super) sink: Sink,
    /// Which of the places that the log has had: lines say which they are for.
    pub(super) place: u32,
}

/// What takes bytes.
#[derive(Debug)]
pub(super) enum Sink {
    /// Lines. A file may end within a line that is not ours to finish.
    File { file: File, newline_owed: bool },
    /// Messages.
    Remote(Box<Remote>),
}

impl Opened {
    /// Opens `target`, which is no service.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn new(target: Target) -> io::Result<Opened> {
        let (file, newline_owed) = target.open()?;
        Ok(Opened { target, sink: Sink::File { file, newline_owed }, place: 0 })
    }

    /// A log service, which need not be there yet.
    pub(super) fn service(name: String, remote: Remote) -> Opened {
        Opened { target: Target::Service(name), sink: Sink::Remote(Box::new(remote)), place: 0 }
    }
}

/// Opens a log file, making it where it is missing. Whether its last line has no end is given with it.
///
/// # Errors
/// It cannot be opened.
pub fn open_file(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    // O_NONBLOCK so that a named pipe without a reader is an error now and not a wait; it means nothing to a regular file.
    options.append(true).create(true).mode(FILE_MODE).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path)?;
    Ok((file, ends_within_a_line(path)))
}

/// Whether a crash or a full disk cut the last line of an earlier run. It must not swallow our first.
pub(super) fn ends_within_a_line(path: &Path) -> bool {
    let last = || -> io::Result<u8> {
        if !std::fs::metadata(path)?.is_file() {
            return Ok(b'\n');
        }
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-1))?;
        let mut byte = [b'\n'];
        file.read_exact(&mut byte)?;
        Ok(byte[0])
    };
    // An empty or unreadable file has no half line that we could know of.
    last().is_ok_and(|byte| byte != b'\n')
}

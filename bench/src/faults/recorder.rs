//! `bench ledger-upstream`: an upstream that writes down every request before it answers it, as a process that can be killed.
//!
//! One thread per connection, blocking. The journal is appended to with one write per line, so that what was written survives `kill -9`.
//!
//! A target is `/PREFIX/NUMBER/NONCE/SIZE/WAIT/SHAPE`: so many bytes of body after so many milliseconds, and how it is framed or broken,
//! see [`Shape`]. Anything else is answered 200, for health checks and foreign load generators.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::ledger::{Hash, Id, Seen};
use super::message::{self, Head};
use crate::peers::pause;

/// Between the halves of a response that trickles.
const TRICKLE: Duration = Duration::from_millis(300);

/// Options of `bench ledger-upstream`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where to listen; a loopback address.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The file that requests are written to.
    #[arg(long)]
    journal: PathBuf,
}

/// How a response is framed, and whether it comes whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Content-Length.
    Length,
    /// Chunked coding.
    Chunked,
    /// Content-Length, then half of it, then the end of the connection.
    HalfEnd,
    /// Chunked, then half of it, then the end of the connection.
    ChunkedHalfEnd,
    /// Content-Length, then half of it, then a reset.
    HalfReset,
    /// Chunked, in two halves with a pause between them, whole unless the process dies then.
    Trickle,
}

impl Shape {
    const ALL: [(Shape, &'static str); 6] = [
        (Shape::Length, "length"),
        (Shape::Chunked, "chunked"),
        (Shape::HalfEnd, "half-end"),
        (Shape::ChunkedHalfEnd, "chunked-half-end"),
        (Shape::HalfReset, "half-reset"),
        (Shape::Trickle, "trickle"),
    ];

    /// As it stands in a target.
    pub(super) fn name(self) -> &'static str {
        Shape::ALL.iter().find(|(shape, _)| *shape == self).map_or("", |(_, name)| name)
    }

    fn is_chunked(self) -> bool {
        matches!(self, Shape::Chunked | Shape::ChunkedHalfEnd | Shape::Trickle)
    }
}

/// What a target asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) id: Id,
    pub(super) size: usize,
    pub(super) wait: Duration,
    pub(super) shape: Shape,
}

impl Wanted {
    /// The target behind a prefix such as `/app`.
    pub(super) fn target(&self, prefix: &str) -> String {
        let (number, nonce) = self.id;
        format!("{prefix}/{number}/{nonce}/{}/{}/{}", self.size, self.wait.as_millis(), self.shape.name())
    }

    /// Out of a target, whatever its prefix.
    pub(super) fn parse(target: &str) -> Option<Wanted> {
        let mut parts = target.rsplit('/');
        let name = parts.next()?;
        let shape = Shape::ALL.iter().find(|(_, known)| *known == name)?.0;
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (wait, size, nonce, id) = (number()?, number()?, number()?, number()?);
        Some(Wanted { id: (id, nonce), size: usize::try_from(size).ok()?, wait: Duration::from_millis(wait), shape })
    }
}

/// Runs until it is killed.
///
/// # Errors
/// The address cannot be bound, or the journal not be opened.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    if !options.listen.ip().is_loopback() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "--listen must be a loopback address"));
    }
    let journal = Arc::new(OpenOptions::new().append(true).create(true).open(&options.journal)?);
    let listener = TcpListener::bind(options.listen)?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let journal = Arc::clone(&journal);
                // Errors end the connection: who sent the request will notice.
                drop(std::thread::Builder::new().spawn(move || drop(serve(&stream, &journal)))?);
            }
            Err(error) => {
                eprintln!("accept: {error}");
                pause(Duration::from_millis(100));
            }
        }
    }
}

fn serve(stream: &TcpStream, journal: &File) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while !reader.fill_buf()?.is_empty() {
        let head = Head::read(&mut reader)?;
        let wanted = Wanted::parse(head.first.split(' ').nth(1).unwrap_or_default());
        if let Some(wanted) = &wanted {
            note(journal, &format!("head {} {}", wanted.id.0, wanted.id.1))?;
        }
        if head.field("expect").is_some() {
            (&mut &*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = Vec::new();
        message::read_body(&mut reader, &head, false, &mut body)?;
        let Some(wanted) = wanted else {
            (&mut &*stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")?;
            continue;
        };
        let received = Hash::of(&body);
        note(journal, &format!("done {} {} {received}", wanted.id.0, wanted.id.1))?;
        if wanted.wait > Duration::ZERO {
            pause(wanted.wait);
        }
        if !respond(stream, &wanted, received)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Answers; false when the connection ends with it.
fn respond(mut stream: &TcpStream, wanted: &Wanted, received: u64) -> io::Result<bool> {
    let body = message::filler(wanted.id.1, wanted.size);
    let (number, nonce) = wanted.id;
    let mut bytes = format!(
        "HTTP/1.1 200 OK\r\nX-Ledger-Id: {number}\r\nX-Ledger-Nonce: {nonce}\r\nX-Ledger-Received: {received}\r\nX-Ledger-Sent: {}\r\n",
        Hash::of(&body)
    )
    .into_bytes();
    let (first, second) = body.split_at(body.len() / 2);
    let chunk = |part: &[u8]| match part {
        [] => Vec::new(),
        _ => [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat(),
    };
    if wanted.shape.is_chunked() {
        bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        bytes.extend_from_slice(&chunk(first));
    } else {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(first);
    }
    match wanted.shape {
        Shape::Length => bytes.extend_from_slice(second),
        Shape::Chunked => bytes.extend_from_slice(&[&chunk(second), &b"0\r\n\r\n"[..]].concat()),
        _ => {}
    }
    stream.write_all(&bytes)?;
    match wanted.shape {
        Shape::Length | Shape::Chunked => Ok(true),
        Shape::Trickle => {
            pause(TRICKLE);
            stream.write_all(&[&chunk(second), &b"0\r\n\r\n"[..]].concat())?;
            Ok(true)
        }
        Shape::HalfReset => {
            // What was written must have arrived, or the reset overtakes it and nothing is seen to be cut.
            pause(TRICKLE / 10);
            rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO))?;
            Ok(false)
        }
        Shape::HalfEnd | Shape::ChunkedHalfEnd => Ok(false),
    }
}

fn note(mut journal: &File, text: &str) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    journal.write_all(format!("{now} {text}\n").as_bytes())
}

/// One line of a journal with its time, milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noted {
    pub(super) at_ms: u64,
    pub(super) seen: Seen,
}

/// Everything in a journal.
///
/// # Errors
/// It cannot be read. A line that is none is an error too: it would hide an execution.
pub(super) fn read_journal(path: &Path) -> io::Result<Vec<Noted>> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    text.lines().map(|line| parse_note(line).ok_or_else(|| io::Error::other(format!("journal: {line:?}")))).collect()
}

fn parse_note(line: &str) -> Option<Noted> {
    let parts: Vec<&str> = line.split(' ').collect();
    let number = |index: usize| parts.get(index)?.parse::<u64>().ok();
    let id = (number(2)?, number(3)?);
    let seen = match *parts.get(1)? {
        "head" => Seen::Head(id),
        "done" => Seen::Executed(id, number(4)?),
        _ => return None,
    };
    Some(Noted { at_ms: number(0)?, seen })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn targets_are_read_as_written() {
        for (shape, _) in Shape::ALL {
            let wanted = Wanted { id: (3, u64::MAX), size: 9, wait: Duration::from_millis(20), shape };
            assert_eq!(Wanted::parse(&wanted.target("/app")), Some(wanted));
        }
        for none in ["/", "/health", "/app/1/2/3/4/none", "/app/x/2/3/4/length", "2/3/4/length"] {
            assert_eq!(Wanted::parse(none), None, "{none}");
        }
    }

    #[test]
    fn journals_are_read_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let file = File::create(&path).unwrap();
        note(&file, "head 1 2").unwrap();
        note(&file, "done 1 2 3").unwrap();
        let seen: Vec<_> = read_journal(&path).unwrap().iter().map(|noted| noted.seen).collect();
        assert_eq!(seen, [Seen::Head((1, 2)), Seen::Executed((1, 2), 3)]);
        note(&file, "torn").unwrap();
        assert!(read_journal(&path).is_err());
    }
}

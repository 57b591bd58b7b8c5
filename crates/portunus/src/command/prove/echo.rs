//! Servers on loopback that note what reaches them: each upstream of a configuration has its own.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use compat::proof::DENIED;

/// The field of a response by which the request is found that it is to.
pub(super) const MARK: &str = "x-portunus-proof";
/// Most bytes of a request's head, and of its body.
const MOST_BYTES: u64 = 1 << 20;

/// What a server saw of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Its number.
    pub(super) id: usize,
    /// The upstream that the server is of.
    pub(super) upstream: String,
    pub(super) method: String,
    pub(super) target: String,
    /// Names in lower case.
    pub(super) fields: Vec<(String, String)>,
}

/// The servers. Their threads end with the process.
#[derive(Debug)]
pub(super) struct Echoes {
    pub(super) addresses: Vec<SocketAddr>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Echoes {
    /// Starts a server for each of these upstreams.
    ///
    /// # Errors
    /// There is no port.
    pub(super) fn start(upstreams: &[String]) -> io::Result<Echoes> {
        let seen = Arc::default();
        let next = Arc::new(AtomicUsize::new(0));
        let mut addresses = Vec::with_capacity(upstreams.len());
        for upstream in upstreams {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            addresses.push(listener.local_addr()?);
            let server = Server { upstream: upstream.clone(), seen: Arc::clone(&seen), next: Arc::clone(&next) };
            server.accept(listener);
        }
        Ok(Echoes { addresses, seen })
    }

    /// What was seen since it was asked last.
    pub(super) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Clone)]
struct Server {
    upstream: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    next: Arc<AtomicUsize>,
}

impl Server {
    /// Serves each connection on a thread of its own.
    fn accept(self, listener: TcpListener) {
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = self.clone();
                std::thread::spawn(move || server.serve(stream));
            }
        });
    }

    /// Responds to each request of a connection.
    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut stream = stream;
        loop {
            // Whoever speaks FastCGI or TLS waits for nothing.
            reader.fill_buf().ok()?.first().filter(|first| first.is_ascii_alphabetic())?;
            let mut seen = head(&mut reader)?;
            let length = seen.fields.iter().find(|(name, _)| name == "content-length");
            let length: u64 = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
            io::copy(&mut reader.by_ref().take(length.min(MOST_BYTES)), &mut io::sink()).ok()?;
            seen.id = self.next.fetch_add(1, Ordering::Relaxed);
            seen.upstream.clone_from(&self.upstream);
            let status = if is_denied(&seen.fields) { "401 Unauthorized" } else { "200 OK" };
            let body = if seen.method == "HEAD" { "" } else { "ok" };
            let response = format!("HTTP/1.1 {status}\r\n{MARK}: {}\r\nContent-Length: 2\r\n\r\n{body}", seen.id);
            // Whoever forwards bytes waits for the end of the connection.
            let is_last =
                seen.fields.iter().any(|(name, value)| name == "connection" && value.eq_ignore_ascii_case("close"));
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
            stream.write_all(response.as_bytes()).ok()?;
            if is_last {
                return None;
            }
        }
    }
}

/// Whether a service that is asked about a request with these fields says no.
pub(super) fn is_denied(fields: &[(String, String)]) -> bool {
    let (name, _) = DENIED;
    fields.iter().any(|(other, value)| {
        other.eq_ignore_ascii_case(name)
            || matches!(other.to_ascii_lowercase().as_str(), "cookie" | "authorization") && value.contains(name)
    })
}

/// Reads the head of a request; none at the end.
fn head(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut bounded = reader.by_ref().take(MOST_BYTES);
    let mut line = || {
        let mut line = Vec::new();
        bounded.read_until(b'\n', &mut line).ok().filter(|length| *length > 0)?;
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut fields = Vec::new();
    loop {
        let line = line()?;
        if line.is_empty() {
            return Some(Seen { method, target, fields, ..Seen::default() });
        }
        let (name, value) = line.split_once(':')?;
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

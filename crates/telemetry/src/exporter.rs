//! The thread that sends spans to a collector: OTLP over HTTP/1.1, protobuf, one request for what a worker gathered.
//!
//! The queue before it is bounded, as that of the log is. While the collector is away it tries again, at most every few seconds; what does not fit is dropped and counted.
//! Nobody waits for it.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use config::TracingConfig;

use super::dial::Dial;
use super::lock::lock;
use super::once_per_second::OncePerSecond;
use super::queue::{Chunk, Pause, Queue, Work};
use super::span;

/// First and longest wait before another try.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// How long a response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a response that are read.
const RESPONSE_BYTES: usize = 16 * 1024;

/// Where spans go.
#[derive(Debug)]
pub struct Export {
    dial: Dial,
    config: TracingConfig,
}

impl Export {
    /// Reads what a configuration names.
    ///
    /// # Errors
    /// The authorities to trust cannot be read.
    pub(super) fn new(config: &TracingConfig) -> io::Result<Export> {
        let tls = config.is_tls.then_some((config.ca.as_deref(), config.server_name.as_deref()));
        Ok(Export { dial: Dial::new(config.address.clone(), tls)?, config: config.clone() })
    }

    /// Sends one request. Gives the status of the response.
    fn post(&self, spans: &[u8], go_on: &mut dyn FnMut() -> bool) -> io::Result<u16> {
        let body = span::request(&self.config.service_name, spans);
        let TracingConfig { path, host, .. } = &self.config;
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\nUser-Agent: portunus/{}\r\nConnection: close\r\n\r\n",
            body.len(),
            env!("CARGO_PKG_VERSION"),
        )
        .into_bytes();
        request.extend_from_slice(&body);
        let mut connection = self.dial.connect()?;
        let until = Instant::now() + RESPONSE_TIMEOUT;
        let go_on = &mut || Instant::now() < until && go_on();
        connection.send(&request, go_on)?;
        let mut response = Vec::new();
        loop {
            if let Some(status) = status(&response) {
                return Ok(status);
            }
            if connection.receive(&mut response, go_on)? == 0 || response.len() > RESPONSE_BYTES {
                return Err(io::Error::new(ErrorKind::InvalidData, "the response is not one of HTTP/1.1"));
            }
        }
    }
}

/// The status of a response, once its first line is there.
fn status(response: &[u8]) -> Option<u16> {
    let line = &response[..memchr::memmem::find(response, b"\r\n")?];
    let digits = line.strip_prefix(b"HTTP/1.1 ").or(line.strip_prefix(b"HTTP/1.0 "))?.get(..3)?;
    // Anything else is rejected below.
    Some(std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0))
}

/// The exporter as the rest of the process sees it.
#[derive(Debug)]
pub(super) struct Exporter {
    pub(super) queue: Arc<Queue>,
    to: Arc<Mutex<Option<Arc<Export>>>>,
    is_running: Mutex<bool>,
}

impl Exporter {
    pub(super) fn new() -> Exporter {
        Exporter { queue: Arc::new(Queue::new()), to: Arc::default(), is_running: Mutex::new(false) }
    }

    /// Sends spans there from now on, or nowhere.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn set(&self, export: Option<Export>) -> io::Result<()> {
        let mut is_running = lock(&self.is_running);
        if export.is_some() && !*is_running {
            let (queue, to) = (Arc::clone(&self.queue), Arc::clone(&self.to));
            let thread = Thread { queue, to, complaint: OncePerSecond::new() };
            std::thread::Builder::new().name("spans".to_owned()).spawn(move || thread.run())?;
            *is_running = true;
        }
        *lock(&self.to) = export.map(Arc::new);
        drop(is_running);
        // Whoever waits for another try at the place before need not.
        self.queue.reopen();
        Ok(())
    }

    /// Sends what waits, until `deadline` from now.
    pub(super) fn shutdown(&self, deadline: Duration) {
        if *lock(&self.is_running) {
            self.queue.stop(deadline);
        }
    }
}

struct Thread {
    queue: Arc<Queue>,
    to: Arc<Mutex<Option<Arc<Export>>>>,
    complaint: OncePerSecond,
}

impl Thread {
    fn run(self) {
        loop {
            match self.queue.next() {
                Work::Write(chunk) => {
                    let finished = self.send(&chunk);
                    self.queue.recycle(chunk);
                    if !finished {
                        break;
                    }
                }
                Work::Reopen => {}
                Work::Stop => break,
            }
        }
        self.queue.ended();
    }

    /// Sends the spans of a chunk, however long it takes. False if the deadline of the end came first.
    fn send(&self, chunk: &Chunk) -> bool {
        let mut delay = RETRY_FIRST;
        loop {
            let export = lock(&self.to).clone();
            let Some(export) = export else {
                self.queue.give_up(chunk.lines);
                return true;
            };
            let mut pause = Pause::Elapsed;
            let posted = export.post(&chunk.bytes, &mut || {
                pause = self.queue.pause(Duration::ZERO);
                pause == Pause::Elapsed
            });
            let host = &export.config.host;
            match posted {
                Ok(200..300) => {
                    self.queue.count_written(chunk.lines);
                    return true;
                }
                // What is wrong with the request stays wrong (OTLP, "Failures").
                Ok(status) if !matches!(status, 429 | 502 | 503 | 504) => {
                    self.queue.give_up(chunk.lines);
                    if let Some(suppressed) = self.complaint.allow() {
                        tracing::error!(
                            host,
                            status,
                            suppressed,
                            "tracing: the collector rejects spans; check `tracing.otlp`"
                        );
                    }
                    return true;
                }
                Ok(status) => self.complain(host, &format!("status {status}")),
                Err(error) => self.complain(host, &error.to_string()),
            }
            if pause == Pause::Elapsed {
                pause = self.queue.pause(delay);
            }
            match pause {
                Pause::Elapsed => delay = (2 * delay).min(RETRY_LONGEST),
                Pause::Reopen => delay = RETRY_FIRST,
                Pause::Expired => return false,
            }
        }
    }

    fn complain(&self, host: &str, error: &str) {
        if let Some(suppressed) = self.complaint.allow() {
            tracing::warn!(
                host,
                error,
                suppressed,
                "tracing: cannot reach the collector; spans that do not fit into memory will be lost"
            );
        }
    }
}

//! The load generator: closed loop, one thread, HTTP/1.1 plain or under TLS, or HTTP/3, on the project's own TLS library.
//!
//! Each of N clients sends its next request when it has the whole response to the last one. A warm-up comes first; then, for a fixed time, answers
//! are counted, latencies recorded, and the CPU time of the watched process tree read at both ends of that very window. Loopback only.

mod client_tls;
mod connection;
mod hold;
mod http3;
mod messages;
mod response;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::histogram::Histogram;
use crate::{measure, upstream};
use client_tls::ClientTls;
use connection::Connection;
use response::ResponseReader;

/// Options of `bench load`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// The server; a loopback address.
    #[arg(long)]
    pub(crate) address: SocketAddr,
    /// Host field and SNI.
    #[arg(long, default_value = "www.portunus.test")]
    pub(crate) host: String,
    /// What is asked for.
    #[arg(long, default_value = "/small")]
    pub(crate) path: String,
    /// POST this many bytes instead of GET.
    #[arg(long)]
    pub(crate) upload: Option<usize>,
    /// POST the bytes of this file as application/json.
    #[arg(long, conflicts_with = "upload")]
    pub(crate) body: Option<PathBuf>,
    /// A further field of each request, such as `Accept-Encoding: br`.
    #[arg(long = "field", value_name = "NAME: VALUE")]
    pub(crate) fields: Vec<String>,
    /// The status that responses must have; others are errors.
    #[arg(long, default_value_t = 200)]
    pub(crate) status: u16,
    /// Clients at once.
    #[arg(long, default_value_t = 64)]
    pub(crate) connections: usize,
    /// Length of the measured window, seconds, at most 600.
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// Load before the window, seconds.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) warm_up: f64,
    /// Speak TLS of exactly this version: 1.2 or 1.3. X25519, AES-128-GCM; the certificate is not verified.
    #[arg(long)]
    pub(crate) tls: Option<String>,
    /// With --tls: a PEM file with a client certificate and its ECDSA key, which are shown to servers that ask.
    #[arg(long, requires = "tls")]
    pub(crate) identity: Option<PathBuf>,
    /// Speak HTTP/3: X25519; the certificate is not verified.
    #[arg(long, conflicts_with_all = ["tls", "resume"])]
    pub(crate) http3: bool,
    /// Send messages of 64 bytes and wait for each to come back, in place of requests.
    #[arg(long, value_enum, conflicts_with_all = ["tls", "http3", "reconnect", "hold", "upload", "body"])]
    pub(crate) messages: Option<messages::Over>,
    /// With --http3: requests under way at once on each connection.
    #[arg(long, default_value_t = 1, requires = "http3")]
    pub(crate) streams: usize,
    /// Ask so often, without a warm-up, and end; in place of a window of time.
    #[arg(long)]
    pub(crate) requests: Option<u64>,
    /// A new connection for every request.
    #[arg(long)]
    pub(crate) reconnect: bool,
    /// With TLS and --reconnect: resume the session of the connection before.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Open all connections, ask once on each, then hold them idle until standard input ends.
    #[arg(long)]
    pub(crate) hold: bool,
    /// Never sleep: ask the kernel for events over and over, so that no server pays for waking the load.
    #[arg(long)]
    pub(crate) busy: bool,
    /// Be the upstream, too, at this loopback address (`udp:` before it: of datagrams): in the same thread, so that with --busy neither sleeps. May be given several times.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) serve: Vec<String>,
    /// Process whose tree's CPU time and memory are reported.
    #[arg(long)]
    pub(crate) watch: Option<u32>,
    /// Process that shares our core, such as the upstream: tells whether that core was the limit.
    #[arg(long)]
    pub(crate) beside: Option<u32>,
}

/// Tasks that a busy load runs between two looks at its sockets.
const BUSY_INTERVAL: u32 = 1;

/// Before a client whose connection failed tries again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(20);

/// What a given number of requests may take.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(600);

/// What all clients share.
#[derive(Debug)]
struct Load {
    options: Options,
    tls: Option<ClientTls>,
    request: Vec<u8>,
    tally: RefCell<Tally>,
    /// Set while the window is open.
    measuring: Cell<bool>,
    /// Requests that are still to be sent, if they are counted.
    left: Cell<Option<u64>>,
    /// Told when all that were counted have been answered, or have failed.
    all_settled: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct Tally {
    latencies: Histogram,
    body_bytes: u64,
    errors: u64,
    last_error: String,
    resumed: u64,
}

/// Runs the load and prints one line of JSON.
///
/// # Errors
/// The options make no sense, or nothing could be asked at all.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    let load = Rc::new(Load::new(options.clone())?);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    if options.busy {
        // Tasks between two looks at the sockets; the task that never waits is one of them.
        runtime.event_interval(BUSY_INTERVAL);
    }
    let runtime = runtime.enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    if options.hold { local.block_on(&runtime, hold::run(load)) } else { local.block_on(&runtime, measure_load(load)) }
}

impl Options {
    fn client_tls(&self) -> io::Result<Option<ClientTls>> {
        let identity = self.identity.as_deref();
        self.tls.as_deref().map(|version| ClientTls::new(version, &self.host, self.resume, identity)).transpose()
    }
}

impl Load {
    fn new(options: Options) -> io::Result<Load> {
        let reject = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        let is_loopback = |address: &String| {
            let address = address.strip_prefix("udp:").unwrap_or(address).parse::<SocketAddr>();
            address.is_ok_and(|address| address.ip().is_loopback())
        };
        if !options.address.ip().is_loopback() || !options.serve.iter().all(is_loopback) {
            return reject("--address and --serve must be loopback addresses: load is for this machine only");
        }
        if !(0.0..=600.0).contains(&options.seconds) || !(0.0..=600.0).contains(&options.warm_up) {
            return reject("--seconds and --warm-up: 0 to 600");
        }
        if options.streams == 0 || options.streams > 1 && options.reconnect {
            return reject("--streams: at least 1, and 1 with --reconnect");
        }
        if options.resume && (options.tls.is_none() || !options.reconnect) {
            return reject("--resume needs --tls and --reconnect");
        }
        let tls = options.client_tls()?;
        let request = build_request(&options)?;
        Ok(Load {
            tls,
            request,
            tally: RefCell::default(),
            measuring: Cell::new(options.requests.is_some()),
            left: Cell::new(options.requests),
            all_settled: tokio::sync::Notify::new(),
            options,
        })
    }

    /// Whether anything is still to be asked.
    fn has_left(&self) -> bool {
        self.left.get() != Some(0)
    }

    /// A request is about to be sent.
    fn take_one(&self) {
        self.left.set(self.left.get().map(|left| left.saturating_sub(1)));
    }

    /// A response came, with so many bytes of body.
    fn answered(&self, since: Instant, body_bytes: u64) {
        if !self.measuring.get() {
            return;
        }
        let mut tally = self.tally.borrow_mut();
        tally.latencies.record(since.elapsed());
        tally.body_bytes += body_bytes + self.options.upload.unwrap_or_default() as u64;
        self.settled(&tally);
    }

    fn failed(&self, error: &io::Error) {
        let mut tally = self.tally.borrow_mut();
        tally.errors += 1;
        tally.last_error = error.to_string();
        self.settled(&tally);
    }

    /// Ends a run of counted requests with the last of them.
    fn settled(&self, tally: &Tally) {
        if self.options.requests.is_some_and(|wanted| tally.latencies.total() + tally.errors >= wanted) {
            self.all_settled.notify_one();
        }
    }
}

fn build_request(options: &Options) -> io::Result<Vec<u8>> {
    let close = if options.reconnect { "Connection: close\r\n" } else { "" };
    let fields: String = options.fields.iter().map(|field| format!("{field}\r\n")).collect();
    let connection = format!("{close}{fields}");
    let (path, host) = (&options.path, &options.host);
    let Some((kind, body)) = payload(options)? else {
        return Ok(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{connection}\r\n").into_bytes());
    };
    let length = body.len();
    let framing = format!("Content-Type: {kind}\r\nContent-Length: {length}\r\n");
    let mut request = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{framing}{connection}\r\n").into_bytes();
    request.extend_from_slice(&body);
    Ok(request)
}

/// What is posted, with its type; none where nothing is.
fn payload(options: &Options) -> io::Result<Option<(&'static str, Vec<u8>)>> {
    Ok(match (&options.body, options.upload) {
        (Some(file), _) => Some(("application/json", std::fs::read(file)?)),
        (None, Some(length)) => Some(("application/octet-stream", vec![b'u'; length])),
        (None, None) => None,
    })
}

async fn measure_load(load: Rc<Load>) -> io::Result<()> {
    let options = &load.options;
    for address in &options.serve {
        upstream::listen(address).await?;
    }
    if options.busy {
        tokio::task::spawn_local(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
    }
    // What is counted is measured from the first request on.
    if options.requests.is_none() {
        start_clients(&load);
        tokio::time::sleep(Duration::from_secs_f64(options.warm_up)).await;
    }
    let watched = options.watch.map(measure::process_tree).unwrap_or_default();
    measure::reset_peak(&watched);
    *load.tally.borrow_mut() = Tally::default();
    let own: Vec<u32> = options.beside.into_iter().chain([std::process::id()]).collect();
    let (own_cpu, cpu, ticks, started) =
        (measure::cpu_time(&own), measure::cpu_time(&watched), measure::ticks(&watched), Instant::now());
    load.measuring.set(true);
    if options.requests.is_some() {
        start_clients(&load);
        let _ = tokio::time::timeout(REQUESTS_TIMEOUT, load.all_settled.notified()).await;
    } else {
        tokio::time::sleep(Duration::from_secs_f64(options.seconds)).await;
    }
    load.measuring.set(false);
    let (elapsed, cpu) = (started.elapsed(), measure::cpu_time(&watched).saturating_sub(cpu));
    let mut reported = summary(&load.tally.borrow(), elapsed, cpu);
    reported["user_share"] = measure::ticks(&watched).user_share_since(ticks).into();
    reported["peak_kib"] = measure::peak_kib(&watched).into();
    reported["load_share"] =
        (measure::cpu_time(&own).saturating_sub(own_cpu).as_secs_f64() / elapsed.as_secs_f64()).into();
    println!("{reported}");
    Ok(())
}

/// Starts all clients, on tasks of this thread.
fn start_clients(load: &Rc<Load>) {
    if load.options.http3 {
        let load = Rc::clone(load);
        tokio::task::spawn_local(async move {
            let Err(error) = http3::run(Rc::clone(&load)).await;
            load.failed(&error);
        });
        return;
    }
    for _ in 0..load.options.connections {
        let load = Rc::clone(load);
        tokio::task::spawn_local(async move {
            while let Err(error) = client(&load).await {
                load.failed(&error);
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
            }
        });
    }
}

/// One client, until something fails or nothing is left to ask.
async fn client(load: &Load) -> io::Result<()> {
    if let Some(over) = load.options.messages {
        return messages::client(load, over).await;
    }
    // What one client may resume no other may take from it.
    let own_tls = if load.options.resume { load.options.client_tls()? } else { None };
    let tls = own_tls.as_ref().or(load.tls.as_ref());
    let mut reader = ResponseReader::of_status(load.options.status);
    let mut kept = None;
    while load.has_left() {
        let started = Instant::now();
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Connection::open(load.options.address, tls).await?,
        };
        load.take_one();
        connection.send(&load.request).await?;
        connection.receive(&mut reader).await?;
        if load.options.reconnect {
            connection.wait_for_end().await?;
            load.tally.borrow_mut().resumed += u64::from(load.measuring.get() && connection.resumed());
        } else {
            kept = Some(connection);
        }
        load.answered(started, reader.take_body_bytes());
    }
    Ok(())
}

fn summary(tally: &Tally, elapsed: Duration, cpu: Duration) -> serde_json::Value {
    let requests = tally.latencies.total();
    let (mean, deviation) = tally.latencies.mean_and_deviation();
    let microseconds = |duration: Duration| duration.as_nanos() as f64 / 1000.0;
    serde_json::json!({
        "requests": requests,
        "errors": tally.errors,
        "last_error": tally.last_error,
        "resumed": tally.resumed,
        "seconds": elapsed.as_secs_f64(),
        "requests_per_second": requests as f64 / elapsed.as_secs_f64(),
        "body_bytes": tally.body_bytes,
        "mean_us": microseconds(mean),
        "stdev_us": microseconds(deviation),
        "p90_us": microseconds(tally.latencies.quantile(0.90)),
        "p50_us": microseconds(tally.latencies.quantile(0.50)),
        "p99_us": microseconds(tally.latencies.quantile(0.99)),
        "cpu_us_per_request": microseconds(cpu) / requests.max(1) as f64,
        "cpu_share": cpu.as_secs_f64() / elapsed.as_secs_f64(),
    })
}

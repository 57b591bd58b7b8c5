//! `portunus key-server bench`: requests signatures from any server that speaks the keyless protocol, and reports throughput and latency.
//!
//! Three kinds of load: each response is followed by the next request at once (the default) or after a think time (latency), or requests are sent at a
//! fixed rate (open loop). Errors, wrong signatures and responses after the deadline are counted apart.

mod load;
mod tally;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tls::crypto::{Certificate, KeyKind, PublicKey};
use tls::{Connector, ProtocolVersion, ServerName};
use wire::keyless::{EXTENSION_ALPN, HashKind, Operation};

use tally::Tally;

/// The load to generate.
#[derive(Debug, clap::Args)]
pub struct Bench {
    /// The key server: host:port, or unix:PATH
    #[arg(long, default_value = "127.0.0.1:2407")]
    server: String,
    /// Name in the server's certificate; the host of --server if not given
    #[arg(long)]
    name: Option<String>,
    /// Certificate authorities of the server, PEM
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Client certificate, PEM
    #[arg(long)]
    certificate: Option<PathBuf>,
    /// Private key of the client certificate, PEM
    #[arg(long)]
    key: Option<PathBuf>,
    /// PEM file with a certificate whose key is to sign; give it more than once to take turns
    #[arg(long = "certificate-file", required = true)]
    sites: Vec<PathBuf>,
    /// Operation, such as rsa_pss_sha256; by default the one that TLS 1.3 uses with the key
    #[arg(long)]
    operation: Option<String>,
    /// Connections
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Requests outstanding on each connection
    #[arg(long, default_value_t = 1)]
    in_flight: usize,
    /// Duration of the measurement, seconds
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Pause between a response and the next request of its connection, such as 200us, 5ms or 1s
    #[arg(long, default_value = "0us", value_parser = think_time)]
    think_time: Duration,
    /// Requests per second over all connections, sent whether or not responses arrive
    #[arg(long)]
    rate: Option<f64>,
    /// Deadline of a response, milliseconds; sent to servers that support it
    #[arg(long)]
    deadline_ms: Option<u64>,
    /// Retries after the deadline has passed
    #[arg(long, default_value_t = 0)]
    retries: u32,
    /// Retry at once after BUSY, instead of when the server said; no client should
    #[arg(long)]
    ignore_retry_after: bool,
    /// Never use the extension of the protocol
    #[arg(long)]
    plain: bool,
    /// Verify each response, one in 64, or none
    #[arg(long, value_enum, default_value_t = Verify::Sample)]
    verify: Verify,
    /// Threads; by default one per processor, and no more than connections
    #[arg(long)]
    threads: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Reads a think time: a whole number with its unit.
fn think_time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number = number.parse::<u64>().ok().filter(|number| *number <= 1_000_000_000);
    match (number, unit) {
        (Some(number), "us") => Ok(Duration::from_micros(number)),
        (Some(number), "ms") => Ok(Duration::from_millis(number)),
        (Some(number), "s") => Ok(Duration::from_secs(number)),
        _ => Err("write a whole number and one of us, ms and s, such as 200us".to_owned()),
    }
}

/// Which answers are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Verify {
    /// Every answer.
    All,
    /// One in 64.
    Sample,
    /// None.
    None,
}

/// A key that is asked for.
#[derive(Debug)]
struct Target {
    public: PublicKey,
    operation: Operation,
    /// What a response is verified as.
    checked_as: Operation,
    /// What is to be signed.
    input: Vec<u8>,
}

/// Everything that connections share.
#[derive(Debug)]
struct Plan {
    address: Address,
    /// TLS; none on a Unix socket.
    connector: Option<(Connector, ServerName)>,
    targets: Vec<Target>,
    connections: usize,
    in_flight: usize,
    duration: Duration,
    think_time: Duration,
    /// Between two requests of one connection, in open loop.
    interval: Option<Duration>,
    deadline: Option<Duration>,
    retries: u32,
    ignore_retry_after: bool,
    verify: Verify,
}

#[derive(Debug, Clone)]
enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Measures; 0 if there were answers and none was wrong.
pub fn run(bench: &Bench) -> ExitCode {
    let plan = match plan(bench) {
        Ok(plan) => Arc::new(plan),
        Err(problem) => {
            complain!("error: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = bench.threads.unwrap_or(cores).clamp(1, bench.connections.max(1));
    let running: Vec<_> = (0..threads)
        .map(|index| {
            let (plan, first) = (Arc::clone(&plan), |index: usize| bench.connections * index / threads);
            let numbers = first(index)..first(index + 1);
            net::engine::spawn(format!("bench-{index}"), None, move || load::run(plan, numbers))
        })
        .collect();
    let mut total = Tally::default();
    for thread in running {
        match thread.map(std::thread::JoinHandle::join) {
            Ok(Ok(Ok(tally))) => total.add(tally),
            _ => total.note_failure("a thread of the load generator failed".to_owned()),
        }
    }
    let report = total.report(&plan.targets, plan.duration);
    if bench.json {
        say!("{}", report.json())
    } else {
        let _ = std::io::Write::write_all(&mut std::io::stdout(), report.text().as_bytes());
    }
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn plan(bench: &Bench) -> Result<Plan, String> {
    let mut targets = Vec::new();
    for path in &bench.sites {
        let chain = keystore::trust::certificates(path)?;
        let leaf = chain.first().ok_or_else(|| format!("{}: no certificate", path.display()))?;
        let place = |error| format!("{}: {error}", path.display());
        let certificate = Certificate::from_der(leaf).map_err(place)?;
        let public = PublicKey::from_spki_der(certificate.public_spki_der()).map_err(place)?;
        let operation = operation(bench.operation.as_deref(), public.kind())?;
        let input = vec![0x5a; operation.payload_bytes().unwrap_or(130)];
        // Older key servers, and ours with `ecdsa_opcodes_on_rsa_keys`, answer this with PKCS#1 v1.5; load generators for those ask so.
        let checked_as = match (operation, public.kind()) {
            (Operation::Ecdsa(hash), KeyKind::Rsa { .. }) => Operation::RsaPkcs1(hash),
            _ => operation,
        };
        targets.push(Target { public, operation, checked_as, input });
    }
    let (address, connector) = match bench.server.strip_prefix("unix:") {
        Some(path) => (Address::Unix(path.into()), None),
        None => {
            let resolved = bench.server.to_socket_addrs().map_err(|error| format!("{}: {error}", bench.server))?.next();
            let address = resolved.ok_or_else(|| format!("{} has no address", bench.server))?;
            (Address::Tcp(address), Some(connector(bench)?))
        }
    };
    if !(0.1..=86_400.0).contains(&bench.seconds) {
        return Err(format!("--seconds {} is not from 0.1 to 86400", bench.seconds));
    }
    if let Some(rate) = bench.rate.filter(|rate| !(0.001..=1e9).contains(rate)) {
        return Err(format!("--rate {rate} is not from 0.001 to 1000000000 requests per second"));
    }
    let per_connection = |rate: f64| Duration::from_secs_f64(bench.connections as f64 / rate);
    Ok(Plan {
        address,
        connector,
        targets,
        connections: bench.connections,
        in_flight: bench.in_flight.max(1),
        duration: Duration::from_secs_f64(bench.seconds),
        think_time: bench.think_time,
        interval: bench.rate.map(per_connection),
        deadline: bench.deadline_ms.map(Duration::from_millis),
        retries: bench.retries,
        ignore_retry_after: bench.ignore_retry_after,
        verify: bench.verify,
    })
}

fn operation(name: Option<&str>, kind: KeyKind) -> Result<Operation, String> {
    if let Some(name) = name {
        let signs = |operation: &Operation| !matches!(operation, Operation::Ping | Operation::RsaDecrypt);
        let found = Operation::all().filter(signs).find(|operation| operation.name() == name);
        return found.ok_or_else(|| {
            let known: Vec<_> = Operation::all().filter(signs).map(Operation::name).collect();
            format!("there is no signature {name:?}; known are {}", known.join(", "))
        });
    }
    match kind {
        KeyKind::Rsa { .. } => Ok(Operation::RsaPss(HashKind::Sha256)),
        KeyKind::Ec(tls::crypto::Curve::P256) => Ok(Operation::Ecdsa(HashKind::Sha256)),
        KeyKind::Ec(tls::crypto::Curve::P384) => Ok(Operation::Ecdsa(HashKind::Sha384)),
        KeyKind::Ec(tls::crypto::Curve::P521) => Ok(Operation::Ecdsa(HashKind::Sha512)),
        KeyKind::Ed25519 => Ok(Operation::Ed25519),
        KeyKind::Other => Err("a key of this kind signs nothing".to_owned()),
    }
}

fn connector(bench: &Bench) -> Result<(Connector, ServerName), String> {
    let (Some(ca), Some(certificate), Some(key)) = (&bench.ca, &bench.certificate, &bench.key) else {
        return Err("a server on the network takes --ca, --certificate and --key".to_owned());
    };
    let roots = keystore::trust::certificates(ca)?;
    let identity = keystore::trust::pair(certificate, key)?;
    let alpn: &[Vec<u8>] = if bench.plain { &[] } else { &[EXTENSION_ALPN.to_vec()] };
    let mut connector = Connector::new(&roots, true, Some(identity), alpn, ProtocolVersion::Tls12)
        .map_err(|error| error.to_string())?;
    connector.never_resume();
    let host = bench.server.rsplit_once(':').map_or(bench.server.as_str(), |(host, _)| host);
    let name = bench.name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
    let name = name.parse().map_or_else(|_| ServerName::Dns(name.to_owned()), ServerName::Ip);
    Ok((connector, name))
}

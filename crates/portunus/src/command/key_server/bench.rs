//! `portunus key-server bench`: asks any server that speaks the keyless protocol for signatures, and tells how many came and how late.
//!
//! Three ways to ask: as fast as answers come (the default), with a pause after each response (latency), or at a fixed rate whatever comes back (open
//! loop). A response counts only if it is one: errors, wrong signatures and answers after the deadline are counted apart.

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

/// How to ask.
#[derive(Debug, clap::Args)]
pub struct Bench {
    /// The key server: host:port, or unix:PATH
    #[arg(long, default_value = "127.0.0.1:2407")]
    server: String,
    /// Name in the server's certificate; the host of --server if not given
    #[arg(long)]
    name: Option<String>,
    /// Authorities of the server's certificate, PEM
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Our certificate, PEM
    #[arg(long)]
    certificate: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long)]
    key: Option<PathBuf>,
    /// Certificates whose keys are asked for, PEM; in turn, if several
    #[arg(long = "for", required = true)]
    sites: Vec<PathBuf>,
    /// Operation by name, such as rsa_pss_sha256; by default the one that TLS 1.3 uses with each key
    #[arg(long)]
    operation: Option<String>,
    /// Connections
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Requests outstanding on each connection
    #[arg(long, default_value_t = 1)]
    in_flight: usize,
    /// How long to ask, seconds
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Pause after each response, microseconds
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
    /// Requests per second over all connections, whatever comes back
    #[arg(long)]
    rate: Option<f64>,
    /// A response is of use only so soon, milliseconds; told to servers that understand it
    #[arg(long)]
    deadline_ms: Option<u64>,
    /// With a deadline: ask again so often after it has passed
    #[arg(long, default_value_t = 0)]
    retries: u32,
    /// Ask again at once after BUSY, instead of when the server said; what no client should do
    #[arg(long)]
    insist: bool,
    /// Never use our extension of the protocol
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
    pause: Duration,
    /// Between two requests of one connection, in open loop.
    interval: Option<Duration>,
    deadline: Option<Duration>,
    retries: u32,
    insist: bool,
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
        pause: Duration::from_micros(bench.pause_us),
        interval: bench.rate.map(per_connection),
        deadline: bench.deadline_ms.map(Duration::from_millis),
        retries: bench.retries,
        insist: bench.insist,
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

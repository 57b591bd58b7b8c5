//! One round of one row on one proxy: starts whoever makes the load, and reads what it cost.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::LOAD_CORES;
use crate::measure;
use crate::peers::{HOST, Running, pinned};
use crate::table::Sample;
use crate::works::{Body, Connection, Front, Kind, Load, Work};

/// What one round says.
type Measured = io::Result<Sample>;

const AB_REQUESTS: usize = 10_000;
const HTTP2_STREAMS: usize = 10;

/// How long a round takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    /// The measured window.
    pub(super) seconds: f64,
    /// The load before it.
    pub(super) warm_up: f64,
}

/// Runs one round. `upstream`: its process, which shares the core of the load, and its address, where a busy load serves itself.
pub(super) fn sample(work: &Work, proxy: &Running, time: Time, upstream: (u32, SocketAddr)) -> Measured {
    match work.kind {
        Kind::Load(load) => generator(&load, proxy, time, upstream),
        Kind::Idle { connections, front } => idle(connections, front, proxy),
        Kind::Http2 { connections } => h2load(connections, proxy, time),
        Kind::ApacheBench { connections, rsa } => apache_bench(connections, rsa, proxy),
    }
}

fn generator_command(front: Front, connections: usize, proxy: &Running) -> io::Result<Command> {
    let (address, protocol) = match front {
        Front::Plain => (proxy.ports.plain, vec![]),
        Front::Tls13 => (proxy.ports.ecdsa, vec!["--tls", "1.3"]),
        Front::Tls12 => (proxy.ports.ecdsa, vec!["--tls", "1.2"]),
        Front::Tls13Rsa => (proxy.ports.rsa, vec!["--tls", "1.3"]),
        Front::Http3 { .. } => (proxy.ports.http3, vec!["--http3"]),
    };
    let mut command = pinned(LOAD_CORES, &std::env::current_exe()?);
    command.args(["load", "--host", HOST, "--address", &address.to_string()]).args(protocol);
    command.args(["--connections", &connections.to_string()]);
    if let Front::Http3 { streams } = front {
        command.args(["--streams", &streams.to_string()]);
    }
    Ok(command)
}

/// What makes a load, but for how long; a busy one serves itself at `server`.
fn load_command(load: &Load, proxy: &Running, server: SocketAddr) -> io::Result<Command> {
    let mut command = generator_command(load.front, load.connections, proxy)?;
    if load.busy {
        command.args(["--busy", "--serve", &server.to_string()]);
    }
    match load.body {
        Body::Small => {}
        Body::Download(bytes) => drop(command.args(["--path", &format!("/bytes/{bytes}")])),
        Body::Upload(bytes) => drop(command.args(["--path", "/sink", "--upload", &bytes.to_string()])),
    }
    match load.connection {
        Connection::Keep => {}
        Connection::Full => drop(command.arg("--reconnect")),
        Connection::Resume => drop(command.args(["--reconnect", "--resume"])),
    }
    Ok(command)
}

/// Makes so many requests.
///
/// # Errors
/// The generator fails, or a request did.
pub(crate) fn ask(load: &Load, requests: u64, proxy: &Running, upstream: SocketAddr) -> io::Result<()> {
    let mut command = load_command(load, proxy, upstream)?;
    command.args(["--requests", &requests.to_string()]);
    let reported: Value = serde_json::from_str(&output(&mut command)?)?;
    match reported["errors"].as_u64() {
        Some(0) => Ok(()),
        _ => Err(io::Error::other(format!("{}: {}", proxy.peer.name(), reported["last_error"]))),
    }
}

fn generator(load: &Load, proxy: &Running, time: Time, (upstream, server): (u32, SocketAddr)) -> Measured {
    let mut command = load_command(load, proxy, server)?;
    command.args(["--seconds", &time.seconds.to_string(), "--warm-up", &time.warm_up.to_string()]);
    command.args(["--watch", &proxy.pid().to_string(), "--beside", &upstream.to_string()]);
    let reported: Value = serde_json::from_str(&output(&mut command)?)?;
    let number = |key: &str| reported[key].as_f64().unwrap_or_default();
    let sample = Sample {
        requests: number("requests"),
        errors: number("errors") as u64,
        last_error: reported["last_error"].as_str().unwrap_or_default().to_owned(),
        requests_per_second: number("requests_per_second"),
        p50_us: number("p50_us"),
        p99_us: number("p99_us"),
        cost: number("cpu_us_per_request"),
        user_cost: number("cpu_us_per_request") * number("user_share"),
        cpu_share: number("cpu_share"),
        load_share: number("load_share"),
        peak_kib: number("peak_kib"),
    };
    if load.connection == Connection::Resume && number("resumed") < 0.99 * sample.requests {
        let text = format!("only {} of {} handshakes were resumed", number("resumed"), sample.requests);
        return Err(io::Error::other(text));
    }
    check_responses(sample)
}

/// A row without responses would divide by nothing.
fn check_responses(sample: Sample) -> Measured {
    if sample.requests < 1.0 {
        return Err(io::Error::other(format!("no answers at all; the last error: {}", sample.last_error)));
    }
    Ok(sample)
}

/// Memory per connection: resident memory with all connections held, less that before, by their number.
fn idle(connections: usize, front: Front, proxy: &Running) -> Measured {
    let tree = measure::process_tree(proxy.pid());
    let before = measure::resident_kib(&tree);
    let mut command = generator_command(front, connections, proxy)?;
    let mut child = command.arg("--hold").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).lines();
    let mut next = || -> io::Result<Value> {
        let line = lines.next().ok_or_else(|| io::Error::other("the generator could not hold its connections"))??;
        Ok(serde_json::from_str(&line)?)
    };
    let held = next()?["held"].as_f64().unwrap_or_default();
    let cost = (measure::resident_kib(&tree).saturating_sub(before)) as f64 / held.max(1.0);
    drop(child.stdin.take());
    let still_held = next()?["still_held"].as_f64().unwrap_or_default();
    child.wait()?;
    Ok(Sample {
        requests: held,
        errors: (held - still_held) as u64,
        last_error: "closed while it was held".to_owned(),
        cost,
        peak_kib: measure::peak_kib(&tree) as f64,
        ..Sample::default()
    })
}

/// h2load measures its own time; the CPU time is that of its whole run, with its warm-up counted as requests too.
fn h2load(connections: usize, proxy: &Running, time: Time) -> Measured {
    // With a duration h2load counts only what comes after its warm-up, so a fixed number of requests is asked for instead: as many as a short
    // trial says fit into the time.
    let trial = h2load_requests(connections, 20_000, proxy)?;
    let wanted = (trial.requests_per_second * (time.seconds + time.warm_up)).max(20_000.0) as usize;
    h2load_requests(connections, wanted, proxy)
}

fn h2load_requests(connections: usize, requests: usize, proxy: &Running) -> Measured {
    let mut command = pinned(LOAD_CORES, Path::new("h2load"));
    command.args(["--clients", &connections.to_string(), "--max-concurrent-streams", &HTTP2_STREAMS.to_string()]);
    command.args(["--requests", &requests.to_string()]);
    command.args(["--connect-to", &proxy.ports.ecdsa.to_string(), "--tls13-ciphers", "TLS_AES_128_GCM_SHA256"]);
    command.args(["--groups", "X25519", &format!("https://{HOST}/small")]);
    let (text, mut sample) = watched(&mut command, proxy)?;
    let counts = text.lines().find_map(|line| line.strip_prefix("requests: ")).unwrap_or_default();
    let count = |what: &str| -> f64 {
        counts.split(", ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok()).unwrap_or_default()
    };
    sample.requests = count("succeeded");
    sample.errors = (count("failed") + count("errored") + count("timeout")) as u64;
    sample.last_error = counts.to_owned();
    if !text.contains("Application protocol: h2\n") {
        return Err(io::Error::other(format!("h2load did not speak HTTP/2:\n{text}")));
    }
    let finished = text.lines().find_map(|line| line.strip_prefix("finished in ")).unwrap_or_default();
    sample.requests_per_second =
        finished.split(", ").find_map(|part| part.strip_suffix(" req/s")?.parse().ok()).unwrap_or_default();
    sample.cost /= sample.requests.max(1.0);
    sample.user_cost /= sample.requests.max(1.0);
    // h2load tells the mean and the maximum, no quantiles.
    check_responses(sample)
}

fn apache_bench(connections: usize, rsa: bool, proxy: &Running) -> Measured {
    let address = if rsa { proxy.ports.rsa } else { proxy.ports.ecdsa };
    let mut command = pinned(LOAD_CORES, Path::new("ab"));
    command.args(["-q", "-n", &AB_REQUESTS.to_string(), "-c", &connections.to_string()]);
    command.args(["-H", &format!("Host: {HOST}"), &format!("https://{address}/small")]);
    let (text, mut sample) = watched(&mut command, proxy)?;
    let field = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
    };
    sample.requests = field("Complete requests:");
    sample.errors = (field("Failed requests:") + field("Non-2xx responses:")) as u64;
    sample.last_error = format!("{} failed, {} not 2xx", field("Failed requests:"), field("Non-2xx responses:"));
    sample.requests_per_second = field("Requests per second:");
    sample.p50_us = field("50%") * 1000.0;
    sample.p99_us = field("99%") * 1000.0;
    sample.cost /= sample.requests.max(1.0);
    sample.user_cost /= sample.requests.max(1.0);
    check_responses(sample)
}

/// Runs a foreign load generator and reads the proxy's CPU time, µs, around it.
fn watched(command: &mut Command, proxy: &Running) -> io::Result<(String, Sample)> {
    let tree = measure::process_tree(proxy.pid());
    measure::reset_peak(&tree);
    let (cpu, ticks, started) = (measure::cpu_time(&tree), measure::ticks(&tree), Instant::now());
    let text = output(command)?;
    let cpu: Duration = measure::cpu_time(&tree).saturating_sub(cpu);
    let cost = cpu.as_nanos() as f64 / 1000.0;
    let sample = Sample {
        cost,
        user_cost: cost * measure::ticks(&tree).user_share_since(ticks).unwrap_or_default(),
        cpu_share: cpu.as_secs_f64() / started.elapsed().as_secs_f64(),
        peak_kib: measure::peak_kib(&tree) as f64,
        ..Sample::default()
    };
    Ok((text, sample))
}

/// What a command prints; its complaints when it fails.
fn output(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        io::stderr().write_all(&output.stderr)?;
        return Err(io::Error::other(format!("{command:?} ended with {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! `bench features`: what each feature costs a request that uses it, beside a request that does not.
//!
//! One Portunus for each row, all of them on core 0 and started once. The load never sleeps, and is all their servers. Within a round each row has its
//! turn, in random order, right before or after the row that it is compared with: what the machine does to one it does to the other. What is reported is
//! the CPU time per request and its difference within these pairs.

mod rows;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use keystore::dev_ca::{DevCa, Purpose};
use serde_json::{Value, json};
use tls::KeyType;

use crate::gate::{LOAD_CORES, PROXY_CORES, Upstream, raise_descriptor_limit};
use crate::measure::{self, MachineTime};
use crate::peers::{HOST, filled, free_address, pause, pinned, stop};
use crate::plan::Plan;
use rows::{PASSWORDS, PUBLIC_KEY, ROWS, Row, SHARED_SECRET};

const START_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECTIONS: &str = "64";
/// Networks on the list of that row.
const NETWORKS: u32 = 100_000;

const CONFIGURATION: &str = "\
workers: 1
listeners:
  - { name: web, bind: \"@address\"@listener }
upstreams:
  bench: { pool_max_idle: 1024, pool_idle_timeout: 1h@group }
  other: { servers: [\"@second\"], pool_max_idle: 1024, pool_idle_timeout: 1h }
routes:
  - { @action@route }
forwarding: { x_forwarded: true, x_real_ip: false, via: false, request_id: false }
limits:
  max_connections_per_client: 100000
  max_requests_per_connection: 1000000000
  keep_alive_timeout: 1h
@more";

const TLS_SERVER: &str = "\
workers: 1
listeners:
  - { name: web, bind: \"@address\", tls: { keystore: site } }
keystores: { site: { folder: @folder/site } }
routes:
  - { path: \"/{*rest}\", respond: { status: 200, body: \"one hundred bytes of text that are as long as those of the other server, or nearly so: the rest is dots\" } }
limits: { max_connections_per_client: 100000, max_requests_per_connection: 1000000000, keep_alive_timeout: 1h }
log: { access: none, level: warn }
";

/// Databases in which 192.0.2.1 is in Germany and of AS64500; where they come from says `fuzz/README.md`.
const COUNTRIES: &[u8] = include_bytes!("../../../fuzz/corpus/mmdb/country");
const SYSTEMS: &[u8] = include_bytes!("../../../fuzz/corpus/mmdb/asn");

const PAGE: &str =
    "<!doctype html><title>{{status}}</title><h1>{{status}} {{title}}</h1><p>Request {{request_id}}</p>\n";

const NO_LOG: &str = "log: { access: none, level: warn }\n";

/// Options of `bench features`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    plan: Plan,
    /// Rows to run, and those that they are compared with; all if none is named.
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<String>,
}

/// One round of one row.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    cost: f64,
    requests_per_second: f64,
    errors: f64,
}

/// What stands on the other side of each Portunus.
#[derive(Debug)]
struct Servers {
    first: SocketAddr,
    second: SocketAddr,
    /// Sends datagrams back.
    datagrams: SocketAddr,
    /// Responds under TLS, by HTTP/1.1 and HTTP/2: a Portunus beside the load.
    tls: SocketAddr,
    /// Takes datagrams of a log.
    sink: SocketAddr,
    /// A Redis, beside the load.
    redis: SocketAddr,
}

/// A Portunus that runs, until this is dropped.
struct Running {
    row: &'static Row,
    address: SocketAddr,
    child: Child,
    /// The cookie of its session.
    cookie: Option<String>,
    /// What its clients show, if it asks them for a certificate.
    identity: Option<PathBuf>,
    rounds: Vec<Sample>,
    /// Of the row that it is compared with, right before or after each of its own rounds.
    beside: Vec<Sample>,
}

impl Drop for Running {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// Runs it.
///
/// # Errors
/// A row is unknown, or something does not start or respond.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    if options.plan.list {
        ROWS.iter().for_each(|row| println!("{:<24} beside {}", row.name, row.beside));
        return Ok(());
    }
    let rows = chosen(&options.only)?;
    raise_descriptor_limit();
    let folder = tempfile::tempdir()?;
    write_files(folder.path())?;
    // Nobody reads it: the kernel drops what it has no room for, which costs the sender nothing.
    let sink = UdpSocket::bind("127.0.0.1:0")?;
    let servers = Servers {
        first: free_address()?,
        second: free_address()?,
        datagrams: free_address()?,
        tls: free_address()?,
        sink: sink.local_addr()?,
        redis: free_address()?,
    };
    if options.plan.configs {
        let text = |row: &Row| configuration(row, folder.path(), servers.first, &servers);
        rows.iter().for_each(|row| println!("# {}\n{}", row.name, text(row)));
        return Ok(());
    }
    let mut tls_server = start_tls_server(&options.plan.portunus, folder.path(), servers.tls)?;
    let has_store = rows.iter().any(|row| row.more.contains("rate_store"));
    let mut redis = has_store.then(|| start_redis(folder.path(), servers.redis)).transpose()?;
    let mut running = start_all(&rows, &options.plan.portunus, folder.path(), &servers)?;
    let before = MachineTime::now();
    for _ in 0..options.plan.rounds {
        let mut order: Vec<usize> = (0..running.len()).collect();
        fastrand::shuffle(&mut order);
        for place in order {
            measure_pair(&mut running, place, &servers, &options.plan)?;
        }
    }
    stop(&mut tls_server);
    redis.iter_mut().for_each(stop);
    report(&running, MachineTime::now().stolen_percent(before), options)
}

/// Starts all rows, with servers for their first responses; later the load is their servers.
fn start_all(rows: &[&'static Row], portunus: &Path, folder: &Path, servers: &Servers) -> io::Result<Vec<Running>> {
    let _meanwhile = [servers.first, servers.second].map(|address| Upstream::start_at(&address.to_string()));
    rows.iter().map(|row| start(row, portunus, folder, servers)).collect()
}

/// One round of a row and of the one that it is compared with, in random order.
fn measure_pair(running: &mut [Running], place: usize, servers: &Servers, plan: &Plan) -> io::Result<()> {
    let own = &running[place];
    let Some(beside) = running.iter().find(|other| other.row.name == own.row.beside) else { return Ok(()) };
    let (one, other) = if own.row.name == own.row.beside {
        let sample = measured(own, servers, plan)?;
        (sample, sample)
    } else if fastrand::bool() {
        (measured(own, servers, plan)?, measured(beside, servers, plan)?)
    } else {
        let other = measured(beside, servers, plan)?;
        (measured(own, servers, plan)?, other)
    };
    running[place].rounds.push(one);
    running[place].beside.push(other);
    Ok(())
}

/// What responds under TLS.
fn start_tls_server(portunus: &Path, folder: &Path, address: SocketAddr) -> io::Result<Child> {
    let config = folder.join("tls-server.yaml");
    fs::write(
        &config,
        filled(TLS_SERVER, &[("@address", address.to_string()), ("@folder", folder.display().to_string())]),
    )?;
    let log = folder.join("tls-server.log");
    let mut command = pinned(LOAD_CORES, portunus);
    command.args(["run", "--no-watch"]).arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(File::create(&log)?).spawn()?;
    wait_for_start(&mut child, address, &log)?;
    Ok(child)
}

/// What nodes share rates by (the Debian package redis-server).
fn start_redis(folder: &Path, address: SocketAddr) -> io::Result<Child> {
    let log = folder.join("redis.log");
    let mut command = pinned(LOAD_CORES, Path::new("redis-server"));
    command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string(), "--save", ""]);
    command.stdin(Stdio::null()).stdout(File::create(&log)?).stderr(Stdio::null());
    let mut child = command.spawn()?;
    wait_for_start(&mut child, address, &log)?;
    Ok(child)
}

/// Until it accepts connections.
fn wait_for_start(child: &mut Child, address: SocketAddr, log: &Path) -> io::Result<()> {
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        if child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
            let said = fs::read_to_string(log).unwrap_or_default();
            return Err(io::Error::other(format!("{} did not start:\n{said}", log.display())));
        }
        pause(Duration::from_millis(20));
    }
    Ok(())
}

fn chosen(only: &[String]) -> io::Result<Vec<&'static Row>> {
    if let Some(unknown) = only.iter().find(|name| !ROWS.iter().any(|row| row.name == name.as_str())) {
        let text = format!("--only {unknown}: no such row; --list names them");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let named = |row: &Row| only.is_empty() || only.iter().any(|name| name == row.name);
    let is_beside = |row: &Row| ROWS.iter().any(|other| named(other) && other.beside == row.name);
    Ok(ROWS.iter().filter(|row| named(row) || is_beside(row)).collect())
}

fn write_files(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("public.pem"), PUBLIC_KEY)?;
    fs::write(folder.join("shared"), SHARED_SECRET)?;
    fs::write(folder.join("users"), PASSWORDS)?;
    fs::write(folder.join("country.mmdb"), COUNTRIES)?;
    fs::write(folder.join("asn.mmdb"), SYSTEMS)?;
    fs::write(folder.join("page.html"), PAGE)?;
    let ca = DevCa::new("Bench CA").map_err(io::Error::other)?;
    let pair = ca.issue(&[HOST], KeyType::Ecdsa, Purpose::Server).map_err(io::Error::other)?;
    fs::create_dir(folder.join("site"))?;
    fs::write(folder.join("site/site.pem"), &pair.certificate_pem)?;
    fs::write(folder.join("site/site.key"), pair.key_pem.as_bytes())?;
    let client = ca.issue(&["client.portunus.test"], KeyType::Ecdsa, Purpose::Client).map_err(io::Error::other)?;
    fs::write(folder.join("client.pem"), format!("{}{}", client.certificate_pem, *client.key_pem))?;
    fs::write(folder.join("ca.pem"), ca.certificate_pem())?;
    let mut networks = String::from("127.0.0.0/8\n");
    // Every other /24, so that none can be merged with the next.
    let list = (0..NETWORKS).map(|number| (0x0b00_0000 + number * 512).to_be_bytes());
    list.for_each(|[a, b, c, _]| networks.push_str(&format!("{a}.{b}.{c}.0/24\n")));
    fs::write(folder.join("networks"), networks)
}

fn configuration(row: &Row, folder: &Path, address: SocketAddr, servers: &Servers) -> String {
    let group = if row.upstream.contains("servers:") {
        row.upstream.to_owned()
    } else {
        format!(", servers: [\"@upstream\"]{}", row.upstream)
    };
    let log = if row.more.contains("log:") { "" } else { NO_LOG };
    filled(
        CONFIGURATION,
        &[
            ("@listener", row.listener.to_owned()),
            ("@group", group),
            ("@action", row.action.to_owned()),
            ("@route", row.route.to_owned()),
            ("@more", format!("{log}{}", row.more)),
            ("@folder", folder.display().to_string()),
            ("@address", address.to_string()),
            ("@upstream", servers.first.to_string()),
            ("@second", servers.second.to_string()),
            ("@datagrams", servers.datagrams.to_string()),
            ("@tls", servers.tls.to_string()),
            ("@sink", servers.sink.to_string()),
            ("@redis", servers.redis.to_string()),
        ],
    )
}

fn start(row: &'static Row, portunus: &Path, folder: &Path, servers: &Servers) -> io::Result<Running> {
    let address = free_address()?;
    let (config, log) = (folder.join(format!("{}.yaml", row.name)), folder.join(format!("{}.log", row.name)));
    fs::write(&config, configuration(row, folder, address, servers))?;
    let mut command = pinned(PROXY_CORES, portunus);
    command.args(["run", "--no-watch"]).arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(File::create(&log)?).spawn()?;
    let identity = row.listener.contains("client_certificate").then(|| folder.join("client.pem"));
    let mut running = Running { row, address, child, cookie: None, identity, rounds: Vec::new(), beside: Vec::new() };
    wait_for_start(&mut running.child, address, &log)?;
    running.cookie = first_response(&running)?;
    Ok(running)
}

/// Asks once, so that a row that is rejected is noticed. Gives the cookie of its session, if it is one.
fn first_response(running: &Running) -> io::Result<Option<String>> {
    let row = running.row;
    if row.over.is_tls() || row.over.is_messages() {
        return Ok(None);
    }
    let mut stream = TcpStream::connect(running.address)?;
    stream.set_read_timeout(Some(START_TIMEOUT))?;
    let fields: String = row.fields.iter().map(|field| format!("{field}\r\n")).collect();
    write!(stream, "GET {} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n{fields}\r\n", row.path)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let is_compressed = field("Content-Encoding").is_some();
    if !head.starts_with(&format!("HTTP/1.1 {} ", row.status)) || is_compressed != row.route.contains("compression") {
        return Err(io::Error::other(format!("{}: not the response that is measured:\n{head}", row.name)));
    }
    let cookie = field("Set-Cookie").and_then(|cookie| cookie.split(';').next()).map(str::to_owned);
    if row.is_session && cookie.is_none() {
        return Err(io::Error::other(format!("{}: no cookie in\n{head}", row.name)));
    }
    Ok(cookie.filter(|_| row.is_session))
}

fn measured(running: &Running, servers: &Servers, plan: &Plan) -> io::Result<Sample> {
    let row = running.row;
    let mut command = pinned(LOAD_CORES, &std::env::current_exe()?);
    command.args(["load", "--host", HOST, "--path", row.path, "--connections", CONNECTIONS]);
    command.args(["--address", &running.address.to_string(), "--watch", &running.child.id().to_string()]);
    command.args(["--status", &row.status.to_string()]);
    command.args(row.over.options());
    command.args(["--busy", "--serve", &servers.first.to_string(), "--serve", &servers.second.to_string()]);
    command.args(["--serve", &format!("udp:{}", servers.datagrams)]);
    if let Some(identity) = &running.identity {
        command.arg("--identity").arg(identity);
    }
    command.args(["--seconds", &plan.seconds.to_string(), "--warm-up", &plan.warm_up.to_string()]);
    let cookie = running.cookie.as_ref().map(|cookie| format!("Cookie: {cookie}"));
    for field in row.fields.iter().copied().chain(cookie.as_deref()) {
        command.args(["--field", field]);
    }
    let output = command.stdin(Stdio::null()).output()?;
    let reported: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| io::Error::other(format!("{}: {}", row.name, String::from_utf8_lossy(&output.stderr))))?;
    let number = |key: &str| reported[key].as_f64().unwrap_or_default();
    if number("requests") < 1.0 {
        return Err(io::Error::other(format!("{}: no responses: {}", row.name, reported["last_error"])));
    }
    Ok(Sample {
        cost: number("cpu_us_per_request"),
        requests_per_second: number("requests_per_second"),
        errors: number("errors"),
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn report(running: &[Running], stolen: f64, options: &Options) -> io::Result<()> {
    println!("Machine: {}; {stolen:.1} % of the time stolen\n", measure::machine());
    println!("| feature | beside | CPU us/request | more than that | ratio | requests/s | errors |");
    println!("|---|---|---|---|---|---|---|");
    let mut rows = Vec::new();
    for one in running {
        let pairs = || one.rounds.iter().zip(&one.beside);
        let more = median(pairs().map(|(own, beside)| own.cost - beside.cost).collect());
        let ratio = median(pairs().map(|(own, beside)| own.cost / beside.cost.max(f64::MIN_POSITIVE)).collect());
        let cost = median(one.rounds.iter().map(|sample| sample.cost).collect());
        let rate = median(one.rounds.iter().map(|sample| sample.requests_per_second).collect());
        let errors: f64 = one.rounds.iter().map(|sample| sample.errors).sum();
        let (name, beside) = (one.row.name, one.row.beside);
        println!("| {name} | {beside} | {cost:.2} | {more:+.2} | {ratio:.2} | {rate:.0} | {errors:.0} |");
        let costs: Vec<f64> = one.rounds.iter().map(|sample| sample.cost).collect();
        rows.push(json!({
            "row": name, "beside": beside, "cpu_us_per_request": cost, "more_us": more, "ratio": ratio,
            "requests_per_second": rate, "errors": errors, "rounds": costs,
        }));
    }
    fs::create_dir_all(&options.plan.out)?;
    let file = options.plan.out.join("features.json");
    let all = json!({ "machine": measure::machine(), "stolen_percent": stolen, "rows": rows });
    fs::write(&file, format!("{all:#}\n"))?;
    println!("\nwritten: {}", file.display());
    Ok(())
}

//! `bench features`: what each feature costs a request that uses it, beside a request that does not.
//!
//! One Portunus for each row, all of them on core 0 and started once; within a round each of them has its turn, in random order. What is reported is the
//! CPU time per request and its difference to that of the row beside it in the same round.

mod rows;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

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
  - { upstream: bench@route }
forwarding: { x_forwarded: true, x_real_ip: false, via: false, request_id: false }
limits:
  max_connections_per_client: 100000
  max_requests_per_connection: 1000000000
  keep_alive_timeout: 1h
@more";

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

/// A Portunus that runs, until this is dropped.
struct Running {
    row: &'static Row,
    address: SocketAddr,
    child: Child,
    /// The cookie of its session.
    cookie: Option<String>,
    rounds: Vec<Sample>,
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
        ROWS.iter().for_each(|row| println!("{:<18} beside {}", row.name, row.beside));
        return Ok(());
    }
    let rows = chosen(&options.only)?;
    raise_descriptor_limit();
    let folder = tempfile::tempdir()?;
    write_files(folder.path())?;
    let upstreams = [Upstream::start()?, Upstream::start()?];
    let servers = upstreams.each_ref().map(|upstream| upstream.address);
    if options.plan.configs {
        let text = |row: &Row| configuration(row, folder.path(), servers[0], servers);
        rows.iter().for_each(|row| println!("# {}\n{}", row.name, text(row)));
        return Ok(());
    }
    let start = |row: &&'static Row| start(row, &options.plan.portunus, folder.path(), servers);
    let mut running = rows.iter().map(start).collect::<io::Result<Vec<_>>>()?;
    let before = MachineTime::now();
    for _ in 0..options.plan.rounds {
        let mut order: Vec<_> = running.iter_mut().collect();
        fastrand::shuffle(&mut order);
        for one in order {
            let sample = measured(one, &options.plan)?;
            one.rounds.push(sample);
        }
    }
    report(&running, MachineTime::now().stolen_percent(before), options)
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
    let mut networks = String::from("127.0.0.0/8\n");
    // Every other /24, so that none can be merged with the next.
    let list = (0..NETWORKS).map(|number| (0x0b00_0000 + number * 512).to_be_bytes());
    list.for_each(|[a, b, c, _]| networks.push_str(&format!("{a}.{b}.{c}.0/24\n")));
    fs::write(folder.join("networks"), networks)
}

fn configuration(row: &Row, folder: &Path, address: SocketAddr, servers: [SocketAddr; 2]) -> String {
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
            ("@route", row.route.to_owned()),
            ("@more", format!("{log}{}", row.more)),
            ("@folder", folder.display().to_string()),
            ("@address", address.to_string()),
            ("@upstream", servers[0].to_string()),
            ("@second", servers[1].to_string()),
        ],
    )
}

fn start(row: &'static Row, portunus: &Path, folder: &Path, servers: [SocketAddr; 2]) -> io::Result<Running> {
    let address = free_address()?;
    let (config, log) = (folder.join(format!("{}.yaml", row.name)), folder.join(format!("{}.log", row.name)));
    fs::write(&config, configuration(row, folder, address, servers))?;
    let mut command = pinned(PROXY_CORES, portunus);
    command.args(["run", "--no-watch"]).arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.stderr(File::create(&log)?).spawn()?;
    let mut running = Running { row, address, child, cookie: None, rounds: Vec::new() };
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        if running.child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(io::Error::other(format!("{} did not start:\n{said}", row.name)));
        }
        pause(Duration::from_millis(20));
    }
    running.cookie = first_response(&running)?;
    Ok(running)
}

/// Asks once, so that a row that is rejected is noticed. Gives the cookie of its session, if it is one.
fn first_response(running: &Running) -> io::Result<Option<String>> {
    let row = running.row;
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
    if !head.starts_with("HTTP/1.1 200 ") || is_compressed != row.route.contains("compression") {
        return Err(io::Error::other(format!("{}: not the response that is measured:\n{head}", row.name)));
    }
    let cookie = field("Set-Cookie").and_then(|cookie| cookie.split(';').next()).map(str::to_owned);
    if row.is_session && cookie.is_none() {
        return Err(io::Error::other(format!("{}: no cookie in\n{head}", row.name)));
    }
    Ok(cookie.filter(|_| row.is_session))
}

fn measured(running: &Running, plan: &Plan) -> io::Result<Sample> {
    let row = running.row;
    let mut command = pinned(LOAD_CORES, &std::env::current_exe()?);
    command.args(["load", "--host", HOST, "--path", row.path, "--connections", CONNECTIONS]);
    command.args(["--address", &running.address.to_string(), "--watch", &running.child.id().to_string()]);
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
        let Some(other) = running.iter().find(|other| other.row.name == one.row.beside) else { continue };
        let pairs = || one.rounds.iter().zip(&other.rounds);
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

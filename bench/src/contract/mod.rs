//! `bench contract`: POSTs of JSON through Portunus under a strict contract, beside Portunus without one and nginx, which only forwards.
//!
//! The proxy has core 0 to itself, load and upstream share core 1; proxies take turns within each round. What is quoted is CPU time per request
//! relative to the fair nginx in the same round. Rows `hostile-…` measure single requests that mean work (`hostile`).

mod body;
mod configs;
mod hostile;

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::gate::{LOAD_CORES, PROXY_CORES, Upstream, raise_descriptor_limit};
use crate::measure::{self, MachineTime};
use crate::peers::{free_address, pause, pinned, stop};
use crate::plan::Plan;
use crate::table::quartiles;
use body::{SIZES, Size};

/// The size of body that there are aims for.
const MAIN: &str = "27.5kB";
/// Requests of a row of `ab`.
const AB_REQUESTS: usize = 10_000;
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of `bench contract`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    plan: Plan,
    /// Rows to run, `hostile` for all of those; all if none is named.
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<String>,
    /// An earlier portunus program, to be compared with in the rows `busy-…`.
    #[arg(long, value_name = "FILE")]
    earlier: Option<PathBuf>,
    #[command(flatten)]
    hostile: hostile::Beside,
}

/// A proxy of this comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proxy {
    Nginx,
    NginxArticle,
    Forward,
    Contract,
    Earlier,
}

const PROXIES: [Proxy; 4] = [Proxy::Nginx, Proxy::NginxArticle, Proxy::Forward, Proxy::Contract];

/// What is aimed at under a busy load with the body that the project's figures are about, as a ratio to the fair nginx.
fn aim(row: &Row, proxy: Proxy) -> Option<f64> {
    match proxy {
        _ if row.load != Load::Busy || row.size.name != MAIN => None,
        Proxy::Forward => Some(0.85),
        Proxy::Contract => Some(1.40),
        _ => None,
    }
}

impl Proxy {
    fn name(self) -> &'static str {
        match self {
            Proxy::Nginx => "nginx, fair, forwards blindly",
            Proxy::NginxArticle => "nginx as published, forwards blindly",
            Proxy::Forward => "portunus, forwards blindly",
            Proxy::Contract => "portunus, every field validated",
            Proxy::Earlier => "an earlier portunus, every field validated",
        }
    }
}

/// One row: a body, and how it is posted.
#[derive(Debug, Clone)]
struct Row {
    name: String,
    size: Size,
    connections: usize,
    load: Load,
}

/// Who posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// `ab`, without keep-alive.
    ApacheBench,
    /// Our generator, with keep-alive.
    Keep,
    /// The same, which never sleeps and is the upstream, too.
    Busy,
    /// The same, to which the body is sent back and validated once more.
    BusyEcho,
}

fn rows() -> Vec<Row> {
    let of = |size: Size, connections, load| {
        let how = match load {
            Load::ApacheBench => "ab",
            Load::Keep => "keep",
            Load::Busy => "busy",
            Load::BusyEcho => "busy-echo",
        };
        Row { name: format!("{how}-{}-{connections}", size.name), size, connections, load }
    };
    let row = |size, connections, is_ab| of(size, connections, if is_ab { Load::ApacheBench } else { Load::Keep });
    let [tiny, small, main, large, huge] = SIZES;
    vec![
        row(main, 1, false),
        row(main, 64, false),
        row(main, 200, false),
        row(main, 1, true),
        row(main, 200, true),
        row(tiny, 64, false),
        row(small, 64, false),
        row(large, 64, false),
        row(huge, 64, false),
        of(small, 64, Load::Busy),
        of(small, 64, Load::BusyEcho),
        of(main, 64, Load::Busy),
    ]
}

/// Runs the comparison.
///
/// # Errors
/// The upstream or a proxy does not start, or a row could not be run.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    if options.plan.list {
        rows().iter().for_each(|row| println!("{}", row.name));
        hostile::names()?.iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    raise_descriptor_limit();
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("openapi.json"), body::document())?;
    for size in SIZES {
        fs::write(folder.path().join(size.name), body::body(size))?;
    }
    if options.plan.configs {
        let placeholder = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        for proxy in PROXIES {
            println!("# {}\n{}", proxy.name(), configs::text(proxy, Path::new("DIR"), placeholder, placeholder));
        }
        println!("{}", body::document());
        return Ok(());
    }
    let upstream = Upstream::start()?;
    let site = Site { folder: folder.path(), upstream: &upstream, options };
    let (before, mut reported) = (MachineTime::now(), Vec::new());
    println!("Machine: {}\n", measure::machine());
    let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| name == only);
    let rows: Vec<Row> = rows().into_iter().filter(|row| is_wanted(&row.name)).collect();
    if !rows.is_empty() {
        println!(
            "| row | proxy | ratio (worst) | aim | CPU us/request | requests/s | p50 us | p99 us | peak MiB | errors |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
    }
    for row in &rows {
        reported.push(site.run_row(row)?);
    }
    let is_hostile = |name: &str| is_wanted(name) || is_wanted("hostile");
    let hostile = hostile::run(&options.hostile, &options.plan.portunus, &upstream, is_hostile)?;
    let stolen = MachineTime::now().stolen_percent(before);
    println!("\n{stolen:.1} % of the time was stolen by others on this host.");
    fs::create_dir_all(&options.plan.out)?;
    let file = options.plan.out.join("contract.json");
    let all = json!({ "machine": measure::machine(), "stolen_percent": stolen, "rows": reported, "hostile": hostile });
    fs::write(&file, format!("{all:#}\n"))?;
    println!("written: {}", file.display());
    Ok(())
}

/// What a run works with.
struct Site<'a> {
    folder: &'a Path,
    upstream: &'a Upstream,
    options: &'a Options,
}

/// What one round of one proxy cost.
#[derive(Debug, Clone, Default)]
struct Sample {
    cost: f64,
    requests_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    peak_kib: f64,
    errors: f64,
}

impl Site<'_> {
    fn run_row(&self, row: &Row) -> io::Result<Value> {
        let is_busy = matches!(row.load, Load::Busy | Load::BusyEcho);
        let upstream = if is_busy { free_address()? } else { self.upstream.address };
        let earlier = self.options.earlier.as_ref().filter(|_| is_busy).map(|_| Proxy::Earlier);
        let proxies = PROXIES.into_iter().chain(earlier);
        let running = proxies.map(|proxy| self.start(proxy, upstream)).collect::<io::Result<Vec<_>>>()?;
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); running.len()];
        for _ in 0..self.options.plan.rounds {
            let mut order: Vec<usize> = (0..running.len()).collect();
            fastrand::shuffle(&mut order);
            for index in order {
                let sample = match row.load {
                    Load::ApacheBench => self.apache_bench(row, &running[index])?,
                    Load::Keep | Load::Busy | Load::BusyEcho => self.generator(row, &running[index], upstream)?,
                };
                samples[index].push(sample);
            }
        }
        let mut reported = Vec::new();
        for (proxy, rounds) in running.iter().zip(&samples) {
            reported.push(print(row, proxy.proxy, rounds, &samples[0]));
        }
        let of = |sought| running.iter().zip(&samples).find(|(one, _)| one.proxy == sought).map(|(_, rounds)| rounds);
        if let Some((now, earlier)) = of(Proxy::Contract).zip(of(Proxy::Earlier)) {
            let ratios =
                now.iter().zip(earlier).map(|(own, other)| own.cost / other.cost.max(f64::MIN_POSITIVE)).collect();
            let [lower, median, upper] = quartiles(ratios);
            println!("{}: {median:.3} of the earlier one, quartiles {lower:.3} and {upper:.3}", row.name);
        }
        Ok(json!({ "row": row.name, "body_bytes": body::body(row.size).len(), "proxies": reported }))
    }

    fn start(&self, proxy: Proxy, upstream: SocketAddr) -> io::Result<Running> {
        let address = free_address()?;
        let config = self.folder.join(format!("{proxy:?}.conf"));
        fs::write(&config, configs::text(proxy, self.folder, address, upstream))?;
        let log = self.folder.join(format!("{proxy:?}.log"));
        let mut command = match proxy {
            Proxy::Nginx | Proxy::NginxArticle => {
                let mut command = pinned(PROXY_CORES, Path::new("nginx"));
                command.arg("-p").arg(self.folder).arg("-c").arg(&config);
                command
            }
            Proxy::Forward | Proxy::Contract | Proxy::Earlier => {
                let earlier = self.options.earlier.as_ref().filter(|_| proxy == Proxy::Earlier);
                let mut command = pinned(PROXY_CORES, earlier.unwrap_or(&self.options.plan.portunus));
                command.arg("run").arg(&config);
                command
            }
        };
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).spawn()?;
        let mut running = Running { proxy, address, child };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if running.child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                let said = fs::read_to_string(&log).unwrap_or_default();
                return Err(io::Error::other(format!("{} did not start:\n{said}", proxy.name())));
            }
            pause(Duration::from_millis(20));
        }
        Ok(running)
    }

    fn generator(&self, row: &Row, proxy: &Running, upstream: SocketAddr) -> io::Result<Sample> {
        let mut command = pinned(LOAD_CORES, &std::env::current_exe()?);
        let path = if row.load == Load::BusyEcho { "/echo" } else { "/test/signup" };
        command.args(["load", "--path", path, "--address", &proxy.address.to_string()]);
        if row.load != Load::Keep {
            command.args(["--busy", "--serve", &upstream.to_string()]);
        }
        command.args(["--connections", &row.connections.to_string(), "--watch", &proxy.child.id().to_string()]);
        command.args([
            "--seconds",
            &self.options.plan.seconds.to_string(),
            "--warm-up",
            &self.options.plan.warm_up.to_string(),
        ]);
        command.arg("--body").arg(self.folder.join(row.size.name));
        let reported: Value = serde_json::from_str(&output(&mut command)?)?;
        let number = |key: &str| reported[key].as_f64().unwrap_or_default();
        if number("requests") < 1.0 {
            return Err(io::Error::other(format!("{}: no responses: {}", proxy.proxy.name(), reported["last_error"])));
        }
        Ok(Sample {
            cost: number("cpu_us_per_request"),
            requests_per_second: number("requests_per_second"),
            p50_us: number("p50_us"),
            p99_us: number("p99_us"),
            peak_kib: number("peak_kib"),
            errors: number("errors"),
        })
    }

    fn apache_bench(&self, row: &Row, proxy: &Running) -> io::Result<Sample> {
        let tree = measure::process_tree(proxy.child.id());
        measure::reset_peak(&tree);
        let mut command = pinned(LOAD_CORES, Path::new("ab"));
        command.args([
            "-q",
            "-n",
            &AB_REQUESTS.to_string(),
            "-c",
            &row.connections.to_string(),
            "-T",
            "application/json",
            "-p",
        ]);
        command.arg(self.folder.join(row.size.name)).arg(format!("http://{}/test/signup", proxy.address));
        let cpu = measure::cpu_time(&tree);
        let text = output(&mut command)?;
        let cpu = measure::cpu_time(&tree).saturating_sub(cpu);
        let field = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
        };
        Ok(Sample {
            cost: cpu.as_nanos() as f64 / 1000.0 / field("Complete requests:").max(1.0),
            requests_per_second: field("Requests per second:"),
            p50_us: field("50%") * 1000.0,
            p99_us: field("99%") * 1000.0,
            peak_kib: measure::peak_kib(&tree) as f64,
            errors: field("Failed requests:") + field("Non-2xx responses:"),
        })
    }
}

/// A proxy that runs, until this is dropped.
struct Running {
    proxy: Proxy,
    address: SocketAddr,
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

fn output(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("{command:?} ended with {}: {said}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn print(row: &Row, proxy: Proxy, rounds: &[Sample], fair: &[Sample]) -> Value {
    let median = |figure: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let mut ratios: Vec<f64> =
        rounds.iter().zip(fair).map(|(own, fair)| own.cost / fair.cost.max(f64::MIN_POSITIVE)).collect();
    ratios.sort_by(f64::total_cmp);
    let (ratio, worst) = (ratios.get(ratios.len() / 2).copied(), ratios.last().copied());
    let errors: f64 = rounds.iter().map(|sample| sample.errors).sum();
    let (cost, rate) = (median(|sample| sample.cost), median(|sample| sample.requests_per_second));
    let (p50, p99, peak) =
        (median(|sample| sample.p50_us), median(|sample| sample.p99_us), median(|sample| sample.peak_kib) / 1024.0);
    println!(
        "| {} | {} | {:.2} ({:.2}) | {} | {cost:.1} | {rate:.0} | {p50:.0} | {p99:.0} | {peak:.1} | {errors:.0} |",
        row.name,
        proxy.name(),
        ratio.unwrap_or_default(),
        worst.unwrap_or_default(),
        aim(row, proxy).map_or("-".to_owned(), |aim| format!("{aim:.2}")),
    );
    json!({
        "proxy": proxy.name(), "ratio": ratio, "aim": aim(row, proxy), "worst": worst, "cpu_us_per_request": cost, "requests_per_second": rate,
        "p50_us": p50, "p99_us": p99, "peak_mib": peak, "errors": errors,
        "rounds": rounds.iter().map(|sample| json!({ "cost": sample.cost, "requests_per_second": sample.requests_per_second })).collect::<Vec<_>>(),
    })
}

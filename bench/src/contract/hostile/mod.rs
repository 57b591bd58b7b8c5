//! `bench contract`, rows `hostile-…`: what one request costs that means work, beside an ordinary one of the same size for the same schema, here and at
//! API Firewall and its library, kin-openapi, where their programs are given.
//!
//! Each program is started for each row, on core 0 alone, with bounded memory; a request that has no response in time is given up, and the program
//! is ended. What is quoted is the CPU time of the program per request, and its peak of resident memory.

mod cases;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::gate::{PROXY_CORES, Upstream};
use crate::measure;
use crate::peers::{filled, free_address, pause, pinned, stop};
use cases::Case;

const START_TIMEOUT: Duration = Duration::from_secs(10);
/// A kind of request is sent this often, or until it has taken so long.
const MOST_TIMES: u32 = 20;
const LONGEST: Duration = Duration::from_millis(500);
/// How often a program is looked at while it works.
const GLANCE: Duration = Duration::from_millis(20);

/// Every request validated, everything bounded as it is by default.
const PORTUNUS: &str = "\
workers: 1
listeners: [{ name: plain, bind: \"@listen\", contract: api }]
contracts: { api: { document: @folder/openapi.json, request: block, response: off } }
upstreams: { bench: { servers: [\"@upstream\"] } }
routes: [{ upstream: bench }]
log: { access: none, level: warn }
";

/// What the rows are run with.
#[derive(Debug, clap::Args)]
pub(super) struct Beside {
    /// The program of API Firewall, to be measured in the rows `hostile-…` as well.
    #[arg(long, value_name = "FILE")]
    peer_api_firewall: Option<PathBuf>,
    /// The program of `bench/peers/kin-openapi`, likewise.
    #[arg(long, value_name = "FILE")]
    peer_kin_openapi: Option<PathBuf>,
    /// Address space of each program in these rows, MiB.
    #[arg(long, default_value_t = 8192)]
    hostile_memory: u64,
    /// Time after which a request of these rows is given up, seconds.
    #[arg(long, default_value_t = 10)]
    hostile_seconds: u64,
}

/// A program that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program<'a> {
    Portunus(&'a Path),
    ApiFirewall(&'a Path),
    KinOpenapi(&'a Path),
}

impl Program<'_> {
    fn name(self) -> &'static str {
        match self {
            Program::Portunus(_) => "portunus",
            Program::ApiFirewall(_) => "API Firewall",
            Program::KinOpenapi(_) => "kin-openapi",
        }
    }
}

/// The names of the rows, for `--list` and `--only`.
///
/// # Errors
/// A body could not be made.
pub(super) fn names() -> io::Result<Vec<String>> {
    Ok(cases::cases()?.iter().map(|case| format!("hostile-{}", case.name)).collect())
}

/// Runs the rows of which `is_wanted` and prints them.
///
/// # Errors
/// A program does not start.
pub(super) fn run(
    options: &Beside,
    portunus: &Path,
    upstream: &Upstream,
    is_wanted: impl Fn(&str) -> bool,
) -> io::Result<Vec<Value>> {
    let mut cases = cases::cases()?;
    cases.retain(|case| is_wanted(&format!("hostile-{}", case.name)));
    if cases.is_empty() {
        return Ok(Vec::new());
    }
    let mut programs = vec![Program::Portunus(portunus)];
    programs.extend(options.peer_api_firewall.as_deref().map(Program::ApiFirewall));
    programs.extend(options.peer_kin_openapi.as_deref().map(Program::KinOpenapi));
    println!(
        "\n| row | request | bytes | program | response | CPU ms | of an ordinary one, CPU ms | times | peak MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut reported = Vec::new();
    for case in &cases {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("openapi.json"), case.document())?;
        let site = Site { folder: folder.path(), upstream: upstream.address, options };
        let measured = programs.iter().map(|program| site.measure(*program, case)).collect::<io::Result<Vec<_>>>()?;
        for (program, found) in programs.iter().zip(&measured) {
            print(case, *program, found);
        }
        let found: Vec<Value> = programs.iter().zip(&measured).map(|(program, found)| found.json(*program)).collect();
        reported
            .push(json!({ "row": format!("hostile-{}", case.name), "bytes": case.bodies[0].len(), "programs": found }));
    }
    Ok(reported)
}

/// What a row works with.
struct Site<'a> {
    folder: &'a Path,
    upstream: SocketAddr,
    options: &'a Beside,
}

/// What became of a request, and what it cost.
#[derive(Debug)]
struct Cost {
    /// The status, or what happened instead.
    said: String,
    cpu_ms: f64,
    peak_kib: u64,
}

#[derive(Debug)]
struct Found {
    hostile: Cost,
    ordinary: Cost,
}

impl Found {
    fn json(&self, program: Program<'_>) -> Value {
        let one = |cost: &Cost| json!({ "response": cost.said, "cpu_ms": cost.cpu_ms, "peak_mib": cost.peak_kib as f64 / 1024.0 });
        json!({ "program": program.name(), "hostile": one(&self.hostile), "ordinary": one(&self.ordinary) })
    }
}

impl Site<'_> {
    fn measure(&self, program: Program<'_>, case: &Case) -> io::Result<Found> {
        let mut running = self.start(program)?;
        let [hostile, ordinary] = &case.bodies;
        let (line, fields) = case.ordinary.unwrap_or((case.line, case.fields));
        // The first request of a process pays for what is made once.
        self.send(&mut running, line, fields, ordinary)?;
        let ordinary = self.send(&mut running, line, fields, ordinary)?;
        let hostile = self.send(&mut running, case.line, case.fields, hostile)?;
        Ok(Found { hostile, ordinary })
    }

    /// Sends a request some times, one after the other, each on a connection of its own.
    fn send(&self, running: &mut Running, line: &str, fields: &str, body: &[u8]) -> io::Result<Cost> {
        let tree = measure::process_tree(running.child.id());
        measure::reset_peak(&tree);
        let (began, before) = (Instant::now(), measure::cpu_time(&tree));
        let (mut spent, mut peak_kib) = (Duration::ZERO, 0);
        // What a process that has ended has cost is what was seen of it last.
        let mut look = || {
            spent = spent.max(measure::cpu_time(&tree).saturating_sub(before));
            peak_kib = peak_kib.max(measure::peak_kib(&tree));
        };
        let mut times = 0;
        let said = loop {
            times += 1;
            match self.ask(running, line, fields, body, &mut look) {
                Ok(said) if times == MOST_TIMES || began.elapsed() > LONGEST => break said,
                Ok(_) => {}
                Err(error) => {
                    pause(Duration::from_millis(200));
                    break match running.child.try_wait()? {
                        Some(status) => format!("none, the program ended ({status})"),
                        None => format!("none, {error}"),
                    };
                }
            }
        };
        Ok(Cost { said, cpu_ms: spent.as_secs_f64() * 1000.0 / f64::from(times), peak_kib })
    }

    /// The status of the response to one request; looks at the program while it waits.
    fn ask(
        &self,
        running: &Running,
        line: &str,
        fields: &str,
        body: &[u8],
        look: &mut impl FnMut(),
    ) -> io::Result<String> {
        let mut stream = TcpStream::connect(running.address)?;
        let patience = Duration::from_secs(self.options.hostile_seconds.max(1));
        stream.set_read_timeout(Some(GLANCE))?;
        stream.set_write_timeout(Some(patience))?;
        let length =
            if line.starts_with("GET") { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!("{line} HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n{fields}{length}\r\n");
        // A program may respond before it has read everything.
        let sent = stream.write_all(&[head.as_bytes(), body].concat());
        let (began, mut response) = (Instant::now(), Vec::new());
        while response.len() < "HTTP/1.1 200".len() {
            let mut buffer = [0; 4096];
            let outcome = stream.read(&mut buffer);
            look();
            match outcome {
                Ok(0) => return Err(sent.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => response.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Err(sent.err().unwrap_or(error));
                }
                Err(_) if began.elapsed() > patience => {
                    return Err(io::Error::other(format!("given up after {} s", patience.as_secs())));
                }
                Err(_) => {}
            }
        }
        Ok(String::from_utf8_lossy(response.get(9..12).unwrap_or_default()).into_owned())
    }

    fn start(&self, program: Program<'_>) -> io::Result<Running> {
        let address = free_address()?;
        let limit = format!("--as={}", self.options.hostile_memory << 20);
        let mut command = pinned(PROXY_CORES, Path::new("prlimit"));
        command.arg(limit);
        match program {
            Program::Portunus(path) => {
                let config = self.folder.join("portunus.yaml");
                let values = [
                    ("@listen", address.to_string()),
                    ("@folder", self.folder.display().to_string()),
                    ("@upstream", self.upstream.to_string()),
                ];
                fs::write(&config, filled(PORTUNUS, &values))?;
                command.arg(path).arg("run").arg(config);
            }
            Program::ApiFirewall(path) => self.api_firewall(&mut command, path, address)?,
            Program::KinOpenapi(path) => {
                let document = self.folder.join("openapi.json");
                command.arg(path).arg(document).arg(address.to_string()).arg(self.upstream.to_string());
            }
        }
        let log = self.folder.join(format!("{}.log", program.name()));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?).spawn()?;
        let mut running = Running { address, child };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if running.child.try_wait()?.is_some() || started.elapsed() > START_TIMEOUT {
                let said = fs::read_to_string(&log).unwrap_or_default();
                return Err(io::Error::other(format!("{} did not start:\n{said}", program.name())));
            }
            pause(Duration::from_millis(20));
        }
        Ok(running)
    }

    /// As its documentation says, with its defaults; responses are not looked at.
    fn api_firewall(&self, command: &mut Command, path: &Path, address: SocketAddr) -> io::Result<()> {
        let settings = [
            ("API_SPECS", self.folder.join("openapi.json").display().to_string()),
            ("URL", format!("http://{address}")),
            ("HEALTH_HOST", free_address()?.to_string()),
            ("SERVER_URL", format!("http://{}", self.upstream)),
            ("REQUEST_VALIDATION", "BLOCK".to_owned()),
            ("RESPONSE_VALIDATION", "DISABLE".to_owned()),
            ("LOG_LEVEL", "ERROR".to_owned()),
        ];
        command.arg(path).envs(settings.map(|(name, value)| (format!("APIFW_{name}"), value)));
        command.current_dir(self.folder);
        Ok(())
    }
}

/// A program that runs, until this is dropped. One that has too much to do may not hear that it is to end.
struct Running {
    address: SocketAddr,
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

fn print(case: &Case, program: Program<'_>, found: &Found) {
    let Found { hostile, ordinary } = found;
    println!(
        "| hostile-{} | {} | {} | {} | {} | {:.2} | {:.2} ({}) | {:.1} | {:.0} |",
        case.name,
        case.about,
        case.bodies[0].len(),
        program.name(),
        hostile.said,
        hostile.cpu_ms,
        ordinary.cpu_ms,
        ordinary.said,
        hostile.cpu_ms / ordinary.cpu_ms.max(0.001),
        hostile.peak_kib as f64 / 1024.0,
    );
}

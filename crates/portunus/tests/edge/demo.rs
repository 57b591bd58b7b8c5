//! The demo: all that it prints is pasted into a shell, and prints what it says; and nothing that it started outlives it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::harness::{PATIENCE, PORTUNUS, ask_socket, end_of, output_of, rejecting, timed, vacant, wait_until};

const PORTS: [&str; 6] =
    ["--https-port", "--http-port", "--tunnel-port", "--keyless-port", "--admin-port", "--key-server-port"];

/// How the text that is printed ends.
const END: &str = "The gate loads each change";

/// Addresses for all ports, each another one, of one loopback address that no other test has; of the last two, which are the machine's own, on the usual loopback
/// address. Never listened at, as in [`vacant`].
fn addresses() -> [SocketAddr; 6] {
    let IpAddr::V4(site) = vacant().ip() else { panic!("loopback addresses of tests are of version 4") };
    // Held until all are chosen, or one could be chosen twice.
    let [a, b, c, d] = [site; 4].map(rejecting);
    [a.0, b.0, c.0, d.0, own_port(), own_port()]
}

/// A port of the usual loopback address below those that the kernel gives to whoever asks for any, of which others would be given it meanwhile.
fn own_port() -> SocketAddr {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let [.., process] = std::process::id().to_be_bytes();
    loop {
        let port = 16_384 + u16::from(process) * 64 + CALLS.fetch_add(1, Ordering::Relaxed) % 64;
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // As who listens there does: a process that was just forked may hold this one a while.
        socket.set_reuse_address(true).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if socket.bind(&address.into()).is_ok() {
            return address;
        }
    }
}

fn command(folder: &Path, addresses: &[SocketAddr; 6]) -> Command {
    let mut command = Command::new(PORTUNUS);
    command.args(["demo", "--dir"]).arg(folder).args(["--bind", &addresses[0].ip().to_string()]);
    for (option, address) in PORTS.iter().zip(addresses) {
        command.arg(option).arg(address.port().to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A demo that serves.
struct Demo {
    child: Child,
    rest: BufReader<ChildStdout>,
    text: String,
}

impl Demo {
    fn start(folder: &Path, addresses: &[SocketAddr; 6]) -> Demo {
        let mut child = command(folder, addresses).spawn().unwrap();
        let mut rest = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while !text.lines().last().is_some_and(|line| line.starts_with(END)) {
            if rest.read_line(&mut text).unwrap() == 0 {
                let mut problems = String::new();
                child.stderr.take().unwrap().read_to_string(&mut problems).unwrap();
                panic!("{text}\n{problems}");
            }
        }
        Demo { child, rest, text }
    }

    /// The processes below it: their numbers, and when they began.
    fn below(&self) -> BTreeSet<(u32, String)> {
        let (mut found, mut parents) = (BTreeSet::new(), BTreeSet::from([self.child.id()]));
        while !parents.is_empty() {
            let children = processes().into_iter().filter(|(_, parent, _)| parents.contains(parent));
            let children: BTreeSet<(u32, String)> = children.map(|(pid, _, begun)| (pid, begun)).collect();
            parents = children.iter().map(|(pid, _)| *pid).collect();
            found.extend(children);
        }
        found
    }

    fn signal(&self, name: &str) {
        kill(name, self.child.id());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kill(name: &str, pid: u32) {
    assert!(Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().unwrap().success());
}

/// All processes that have not ended: number, parent, and when they began (proc_pid_stat(5): fields 1, 4, 22).
fn processes() -> Vec<(u32, u32, String)> {
    let one = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        (fields[0] != "Z").then(|| (pid, fields[1].parse().unwrap(), fields[19].to_owned()))
    };
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(one).collect()
}

fn are_gone(them: &BTreeSet<(u32, String)>) -> bool {
    !processes().into_iter().any(|(pid, _, begun)| them.contains(&(pid, begun)))
}

/// What a text says to paste: each command, and the lines that it prints.
fn pasted(text: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for paragraph in text.split("\n\n").filter(|paragraph| paragraph.starts_with("# ")) {
        let mut lines = paragraph.lines().skip(1);
        let command = lines.next().unwrap().to_owned();
        commands.push((command, lines.map(|line| line.strip_prefix("#> ").unwrap().to_owned()).collect()));
    }
    commands
}

/// Runs a command as the reader's shell does, in another folder than the demo.
fn shell(go: &str, command: &str) -> String {
    let mut shell = timed(PATIENCE, "sh");
    let output = shell.arg("-c").arg(format!("{go}\n{command}")).current_dir("/").output().unwrap();
    let [printed, problems] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success() && problems.is_empty(), "{command}: {printed}{problems}");
    printed.replace('\r', "")
}

/// Whether a text is what is promised, in which `…` stands for anything.
fn is_promised(promised: &str, text: &str) -> bool {
    let pieces: Vec<&str> = promised.split('…').collect();
    let [first, middle @ .., last] = &pieces[..] else { return promised == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for piece in middle {
        let Some((_, behind)) = rest.split_once(piece) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

/// The first line leads to the dashboard.
fn leads_to_the_dashboard(text: &str, port: u16) {
    // The token behind `#` is the page's, and not for the server.
    let first = text.lines().next().unwrap();
    let (url, token) = first.strip_prefix("Dashboard: ").unwrap().split_once("#token=").unwrap();
    assert_eq!(url, format!("http://127.0.0.1:{}/dashboard", port));
    let page = shell("", &format!("curl -s --fail --noproxy '*' {url}"));
    assert!(page.contains("<html"), "{page}");
    let status = url.replace("dashboard", "api/v1/status");
    shell("", &format!("curl -s --fail --noproxy '*' -H 'Authorization: Bearer {token}' {status}"));
}

#[test]
fn every_command_that_is_printed_prints_what_is_promised() {
    let place = tempfile::tempdir().unwrap();
    let (folder, addresses) = (place.path().join("it's a demo"), addresses());
    let mut demo = Demo::start(&folder, &addresses);

    leads_to_the_dashboard(&demo.text, addresses[4].port());
    let go = demo.text.lines().find(|line| line.starts_with("cd ")).unwrap().to_owned();
    let commands = pasted(&demo.text);
    for job in [
        "alt-svc",
        "/orders",
        "minimum",
        "429",
        "gophers:",
        "tftp:",
        "audit.log",
        "portunus explain",
        "portunus upgrade",
    ] {
        let is_it = |(command, prints): &(String, Vec<String>)| (command.clone() + &prints.concat()).contains(job);
        assert!(commands.iter().any(is_it), "{job}: {}", demo.text);
    }
    for round in 0..2 {
        for (command, prints) in &commands {
            // Said beside it: there are no searches left the next time.
            let is_used_up = round > 0 && command.contains("/search");
            let promised = if is_used_up { "429 Too Many Requests\n".repeat(5) } else { prints.join("\n") + "\n" };
            if command.contains(" && tail ") {
                // The server writes its log when it has responded.
                wait_until("the line of the log", || is_promised(&promised, &shell(&go, command)));
                continue;
            }
            let printed = shell(&go, command);
            assert!(is_promised(&promised, &printed), "{command} printed\n{printed}and not\n{promised}");
        }
    }
    // What needs no other program than curl among the rest.
    let more = fs::read_to_string(folder.join("more.txt")).unwrap();
    for line in more.lines().filter(|line| line.starts_with("curl -K") || line.starts_with("./portunus")) {
        assert!(!shell(&go, &format!("{line} 2>&1")).is_empty(), "{line}");
    }
    for check in ["./portunus check --strict portunus.yaml", "./portunus key-server check key-server/key-server.yaml"] {
        assert!(shell(&go, check).contains(": ok"), "{check}");
    }

    // Nothing outlives it, and the program that an upgrade started does not either.
    let below = demo.below();
    assert!(below.len() >= 4, "warden, key server, gate, launcher: {below:?}");
    demo.signal("KILL");
    end_of(&mut demo.child);
    wait_until("all that it started has ended", || are_gone(&below));
    demo = Demo::start(&folder, &addresses);

    // Ctrl-C ends it in order, and all else with it.
    shell(&go, "./portunus upgrade --control run/gate.sock");
    let below = demo.below();
    demo.signal("INT");
    assert_eq!(end_of(&mut demo.child).code(), Some(0));
    wait_until("all that it started has ended", || are_gone(&below));
    let mut said = String::new();
    demo.rest.read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn servers_end_with_the_process_that_looks_after_them() {
    let place = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(&place.path().join("demo"), &addresses());
    let below = demo.below();
    let warden = processes().into_iter().find(|(_, parent, _)| *parent == demo.child.id()).unwrap().0;
    kill("KILL", warden);
    assert_eq!(end_of(&mut demo.child).code(), Some(1));
    wait_until("all that it started has ended", || are_gone(&below));
    let mut problems = String::new();
    demo.child.stderr.take().unwrap().read_to_string(&mut problems).unwrap();
    assert!(problems.starts_with("error: the demo has ended: "), "{problems}");
}

#[test]
fn a_port_in_use_is_named_with_its_option_and_nothing_is_touched() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("demo");
    let rejected = |folder: &Path, with: &[SocketAddr; 6]| {
        let output = output_of(command(folder, with).spawn().unwrap());
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    // Other addresses for each: a process that was just forked holds what was held here until it runs its program.
    for (index, option) in PORTS.iter().enumerate() {
        let addresses = addresses();
        let _held = TcpListener::bind(addresses[index]).unwrap();
        let problem = rejected(&folder, &addresses);
        assert!(problem.contains(&format!("TCP {}: Address already in use", addresses[index])), "{problem}");
        assert!(problem.contains(option), "{problem}");
    }
    for index in [0, 2] {
        let addresses = addresses();
        let _held = UdpSocket::bind(addresses[index]).unwrap();
        let problem = rejected(&folder, &addresses);
        assert!(
            problem.contains(&format!("UDP {}: ", addresses[index])) && problem.contains(PORTS[index]),
            "{problem}"
        );
    }
    let addresses = addresses();
    let mut twice = addresses;
    twice[3] = twice[0];
    assert!(rejected(&folder, &twice).contains("--keyless-port"));
    assert!(!folder.exists());

    // The folder of a demo that runs is left to it, whatever ports another one is given.
    let demo = Demo::start(&folder, &addresses);
    let before = fs::read(folder.join("ca.pem")).unwrap();
    let problem = rejected(&folder, &self::addresses());
    assert!(problem.contains("is that of a demo that is running") && problem.contains("--dir"), "{problem}");
    assert_eq!(fs::read(folder.join("ca.pem")).unwrap(), before);
    drop(demo);
}

/// What the gate of a demo says on its admin socket.
fn api(folder: &Path, name: &str) -> Value {
    let line = format!("GET /api/v1/{name}");
    let response = ask_socket(&folder.join("run/gate.sock"), &line, "");
    serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_listener_with_http3_says_tcp_and_udp() {
    let place = tempfile::tempdir().unwrap();
    let (folder, addresses) = (place.path().join("demo"), addresses());
    let _demo = Demo::start(&folder, &addresses);
    let shown = api(&folder, "listeners");
    let of = |name: &str| shown["listeners"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    let (https, tunnel) = (addresses[0].to_string(), addresses[2].to_string());
    let socket = |transport: &str, address: &str| json!({ "transport": transport, "address": address });
    assert_eq!(of("https")["sockets"], json!([socket("tcp", &https), socket("udp", &https)]));
    assert_eq!(of("https")["addresses"], json!([https]));
    assert_eq!(of("tunnel")["sockets"], json!([socket("tcp", &tunnel)]));
    assert_eq!(of("datagrams")["sockets"], json!([socket("udp", &tunnel)]));
    // It may be asked before it says so.
    wait_until("both to be said", || {
        let log = fs::read_to_string(folder.join("log/gate.log")).unwrap();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_https = lines.filter(|line| line["message"] == "listening" && line["listener"] == "https");
        let said: BTreeSet<String> = of_https.map(|line| line["transport"].as_str().unwrap().to_owned()).collect();
        said == BTreeSet::from(["tcp".to_owned(), "udp".to_owned()])
    });
}

#[test]
fn what_was_before_is_shown_to_whoever_comes_later() {
    let place = tempfile::tempdir().unwrap();
    let (folder, addresses) = (place.path().join("demo"), addresses());
    let demo = Demo::start(&folder, &addresses);
    let go = demo.text.lines().find(|line| line.starts_with("cd ")).unwrap();
    shell(go, &pasted(&demo.text)[0].0);
    wait_until("the request among what was before", || {
        let history = api(&folder, "history");
        let points = history["history"].as_array().unwrap();
        assert!(points.is_sorted_by(|one, next| one["age_ms"].as_u64() >= next["age_ms"].as_u64()), "{history}");
        points.iter().any(|point| {
            point["rates"]["requests"].as_f64() > Some(0.0) && point["rates"]["latency_ms"]["p50"].is_number()
        })
    });
}

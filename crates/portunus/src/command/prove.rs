//! `portunus import nginx|haproxy FILE --prove`: the original and what is made of its configuration, side by side on loopback, on requests that the
//! configuration's rules are about.
//!
//! `compat::proof` says what runs and what is asked; here it is run (`program.rs`, `echo.rs`), asked (`client.rs`) and compared (`differences.rs`).

mod client;
mod differences;
mod echo;
mod program;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use compat::Front;
use compat::proof::{CERTIFICATE_FILE, EMPTY_FILE, EMPTY_FOLDER, Original, Request, Staged, USERS_FILE};
use keystore::dev_ca::{DevCa, Purpose};
use tls::KeyType;

use super::front;
use differences::{Class, Findings, Outcome, difference, in_canonical_form, of_canonical_form};
use echo::Echoes;
use program::{Program, installed};

/// Requests that are compared, if it is not said how many.
const USUAL_REQUESTS: usize = 2_000;
/// Most requests that are compared.
const MOST_REQUESTS: usize = 100_000;
/// How long requests are compared.
const MOST_TIME: Duration = Duration::from_secs(300);
/// Directives that are left out because the installed program does not know them.
const MOST_UNKNOWN: usize = 50;
/// Tries with other addresses, where somebody else takes one meanwhile.
const MOST_TAKEN: usize = 5;
/// Names of the throw-away certificate.
const MOST_NAMES: usize = 100;
/// Exit status where something differs, as where something is left out.
const DIFFERENT: u8 = 1;
/// Exit status where nothing could be compared, or nothing was written.
const PROBLEM: u8 = 2;
/// Exit status where the import lets through what the original rejects.
const OPEN: u8 = 3;

/// Imports; with `--prove` among the words compares, too.
pub fn import(original: Original, words: &[OsString]) -> ExitCode {
    if !words.iter().any(|word| word == "--prove") || words.iter().any(|word| word == "--help" || word == "-h") {
        return front::finish(original.import(words));
    }
    let problem = |text: &str| {
        text.lines().for_each(|line| complain!("portunus: {}", line.strip_prefix("portunus: ").unwrap_or(line)));
        ExitCode::from(PROBLEM)
    };
    let (words, most) = match options(words) {
        Ok(found) => found,
        Err(text) => return problem(&text),
    };
    let name = original.name();
    let Some(installed) = installed(name) else {
        return problem(&format!("--prove: `{name}` is not in PATH; Debian's package `{name}` puts it into /usr/sbin"));
    };
    let Front::Exit { code, output, errors } = original.import(&words) else { return ExitCode::from(PROBLEM) };
    let _ = write!(io::stdout(), "{output}");
    let _ = write!(io::stderr(), "{errors}");
    if code >= PROBLEM {
        return ExitCode::from(code);
    }
    match prove(original, &installed, &words, most) {
        Ok(found) => ExitCode::from(if found == 0 { code } else { found }),
        Err(text) => problem(&format!("--prove: {text}")),
    }
}

/// The words without those of the comparison, and how many requests are compared.
fn options(words: &[OsString]) -> Result<(Vec<OsString>, usize), String> {
    let (mut rest, mut most) = (Vec::new(), USUAL_REQUESTS);
    let mut words = words.iter().filter(|word| *word != "--prove");
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let value = match text.strip_prefix("--requests") {
            Some("") => words.next().map(|value| value.to_string_lossy().into_owned()),
            Some(rest) if rest.starts_with('=') => rest.strip_prefix('=').map(str::to_owned),
            _ => {
                rest.push(word.clone());
                continue;
            }
        };
        let number = value.and_then(|value| value.parse().ok()).filter(|number| (1..=MOST_REQUESTS).contains(number));
        most = number.ok_or_else(|| format!("--requests needs a number from 1 to {MOST_REQUESTS}"))?;
    }
    if rest.iter().any(|word| word == "-") {
        return Err("--prove reads the files twice; name them instead of `-`".to_owned());
    }
    Ok((rest, most))
}

/// A folder that goes with this value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new() -> io::Result<Folder> {
        let name = format!("portunus-prove-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes files of the folder that the import says are not there, such as pages for errors: what they hold is not compared.
    fn complete(&self, said: &str) {
        let named = said.lines().filter_map(|line| line.strip_prefix("portunus: not here: ")?.split(" (").next());
        let own = named.map(Path::new).filter(|path| path.starts_with(self.path(EMPTY_FOLDER)));
        for path in own.filter(|path| !path.components().any(|part| part == std::path::Component::ParentDir)) {
            let _ = path.parent().map(fs::create_dir_all);
            let _ = fs::write(path, "<p>not here</p>\n");
        }
    }

    /// Writes what both programs are given.
    fn furnish(&self, staged: &Staged) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        fs::create_dir(self.path(EMPTY_FOLDER)).map_err(failed)?;
        fs::write(self.path(EMPTY_FILE), "").map_err(failed)?;
        fs::write(self.path(USERS_FILE), Staged::users()?).map_err(failed)?;
        let is_name = |name: &&str| {
            name.split('.')
                .all(|label| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
        };
        let mut names: Vec<&str> = staged.names.iter().map(String::as_str).filter(is_name).take(MOST_NAMES).collect();
        names.push("default.test");
        names.sort_unstable();
        names.dedup();
        let authority = DevCa::new("Portunus proof CA").map_err(|error| error.to_string())?;
        let pair = authority.issue(&names, KeyType::Ecdsa, Purpose::Server).map_err(|error| error.to_string())?;
        let pem = pair.in_one_file();
        super::quickstart::write_new(&self.path(CERTIFICATE_FILE), 0o600, &pem).map_err(failed)
    }
}

/// Addresses on loopback where nobody listens: of a network that other programs hardly use, and so that two comparisons hardly meet.
fn vacant(count: usize) -> io::Result<Vec<SocketAddr>> {
    let address = Ipv4Addr::new(127, fastrand::u8(100..), fastrand::u8(..), fastrand::u8(1..255));
    let bound: io::Result<Vec<TcpListener>> = (0..count).map(|_| TcpListener::bind((address, 0))).collect();
    bound?.iter().map(TcpListener::local_addr).collect()
}

/// Compares; the exit status that this asks for.
///
/// # Errors
/// Why nothing could be compared.
fn prove(original: Original, installed: &Path, words: &[OsString], most: usize) -> Result<u8, String> {
    let failed = |error: io::Error| error.to_string();
    let mut staged = Staged::read(original, words)?;
    let folder = Folder::new().map_err(failed)?;
    folder.furnish(&staged)?;
    let echoes = Echoes::start(&staged.servers).map_err(failed)?;
    let (mut theirs, theirs_at) = start_original(original, installed, &mut staged, (&folder, &echoes))?;
    let (mut ours, ours_at) = start_import(original, &staged, (&folder, &echoes))?;
    let requests = staged.requests(most);
    // Listeners where both have responded to something.
    let mut has_spoken = BTreeSet::new();
    let mut findings = Findings::default();
    let started = Instant::now();
    let mut compared = 0;
    let differs = |request: &Request, theirs: &Outcome, ours: &Outcome| {
        difference(original.name(), request, &staged.set_fields, theirs, ours)
    };
    for (at, request) in requests.iter().enumerate() {
        if started.elapsed() > MOST_TIME {
            break;
        }
        let asked = [&theirs_at, &ours_at].map(|listeners| ask(&staged, listeners, (request, at), &echoes));
        let [theirs, ours] = asked;
        let (theirs, ours) = (theirs?, ours?);
        compared += 1;
        if theirs.status > 0 && ours.status > 0 {
            has_spoken.insert(request.listener);
        }
        let Some(mut found) = differs(request, &theirs, &ours) else { continue };
        // Where the original treats the canonical form of the path as the import does, the import opens nothing.
        if let Some(canonical) = in_canonical_form(request).filter(|_| found.0.is_found()) {
            let theirs = ask(&staged, &theirs_at, (&canonical, at), &echoes)?;
            if differs(&canonical, &theirs, &ours).is_none_or(|(class, ..)| !class.is_found()) {
                found = of_canonical_form();
            }
        }
        findings.note(request, found);
    }
    for (name, program) in [(original.name(), &mut theirs), ("the import", &mut ours)] {
        if !program.is_running() {
            return Err(format!("{name} has ended while requests were compared"));
        }
    }
    if has_spoken.is_empty() {
        return Err("no request had a response of both: nothing was compared".to_owned());
    }
    let silent = staged.listeners.len() - has_spoken.len();
    report(&staged, &findings, (compared, requests.len()), silent);
    let is_open = findings.counts.contains_key(&Class::Opens);
    let is_different = findings.counts.keys().any(|class| class.is_found());
    let is_partial = compared < requests.len() || silent > 0;
    Ok(if is_open { OPEN } else { u8::from(is_different || is_partial) * DIFFERENT })
}

/// What became of a request at one of both.
fn ask(
    staged: &Staged,
    at_listeners: &[SocketAddr],
    (request, number): (&Request, usize),
    echoes: &Echoes,
) -> Result<Outcome, String> {
    let listener = staged.listeners.get(request.listener).copied().unwrap_or_default();
    let address = at_listeners.get(request.listener).copied().ok_or("a listener is missing")?;
    echoes.take();
    // Where requests count, each comes from an address of its own.
    let [.., high, low] = u32::try_from(number).unwrap_or(0).to_be_bytes();
    let usual = if staged.has_rates { Ipv4Addr::new(127, 77, high, low) } else { Ipv4Addr::LOCALHOST };
    let client = request.client.unwrap_or(usual);
    let response =
        client::ask(address, listener, request, client).map_err(|error| format!("from {client}: {error}"))?;
    Ok(Outcome::of(&response, echoes.take(), (&request.host, address.port())))
}

/// Starts the original, without what it does not know.
fn start_original(
    original: Original,
    installed: &Path,
    staged: &mut Staged,
    (folder, echoes): (&Folder, &Echoes),
) -> Result<(Program, Vec<SocketAddr>), String> {
    let (file, log) = (folder.path("original.conf"), folder.path("original.log"));
    for _ in 0..MOST_UNKNOWN {
        let addresses = vacant(staged.listeners.len()).map_err(|error| error.to_string())?;
        write(staged, &file, &addresses, (folder, echoes))?;
        let mut command = Command::new(installed);
        match original {
            Original::Nginx => command.arg("-p").arg(&folder.0).arg("-c").arg(&file),
            Original::Haproxy => command.args(["-db", "-f"]).arg(&file),
        };
        match Program::start(command, &log, &addresses) {
            Ok(program) => return Ok((program, addresses)),
            Err(why) => {
                let said = fs::read_to_string(folder.path("nginx.log")).unwrap_or_default();
                let unknown = [why.as_str(), said.as_str()].iter().find_map(|text| {
                    let rest = text.rsplit_once("unknown directive \"")?.1;
                    rest.split_once('"').map(|(name, _)| name.to_owned())
                });
                let is_taken = [&why, &said].iter().any(|text| is_taken(text));
                if !is_taken && !unknown.is_some_and(|name| staged.without(&name)) {
                    return Err(format!("{why}{said}"));
                }
                let _ = fs::remove_file(folder.path("nginx.log"));
            }
        }
    }
    Err(format!("more than {MOST_UNKNOWN} directives are not known to {}", installed.display()))
}

/// Whether somebody else has taken an address meanwhile, by what a program says.
fn is_taken(said: &str) -> bool {
    ["Address already in use", "address in use", "cannot bind"].iter().any(|words| said.contains(words))
}

/// Imports the same text and serves it.
fn start_import(
    original: Original,
    staged: &Staged,
    at: (&Folder, &Echoes),
) -> Result<(Program, Vec<SocketAddr>), String> {
    let mut tries = 0..MOST_TAKEN;
    loop {
        let started = try_import(original, staged, at);
        if !matches!(&started, Err(why) if is_taken(why)) || tries.next().is_none() {
            return started;
        }
    }
}

fn try_import(
    original: Original,
    staged: &Staged,
    (folder, echoes): (&Folder, &Echoes),
) -> Result<(Program, Vec<SocketAddr>), String> {
    let addresses = vacant(staged.listeners.len()).map_err(|error| error.to_string())?;
    let (file, native) = (folder.path("ours.conf"), folder.path("portunus.yaml"));
    write(staged, &file, &addresses, (folder, echoes))?;
    let (output, errors) = match original.import(&[file.into_os_string()]) {
        Front::Exit { code: 0 | 1, output, errors } => (output, errors),
        Front::Exit { errors, .. } => {
            return Err(format!("nothing is imported of what is compared: {}", errors.trim_end()));
        }
        Front::Run { .. } | Front::Rejected { .. } => return Err("nothing is imported of what is compared".to_owned()),
    };
    fs::write(&native, output).map_err(|error| error.to_string())?;
    folder.complete(&errors);
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["run", "--control", "none", "--no-watch"]).arg(&native).env_remove("PORTUNUS_CONTROL");
    let program =
        Program::start(command, &folder.path("ours.log"), &addresses).map_err(|why| format!("{why}\n{errors}"))?;
    Ok((program, addresses))
}

/// Writes the configuration with these addresses.
fn write(
    staged: &Staged,
    file: &Path,
    listeners: &[SocketAddr],
    (folder, echoes): (&Folder, &Echoes),
) -> Result<(), String> {
    let texts = |addresses: &[SocketAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    let text = staged.text(&texts(listeners), &texts(&echoes.addresses), &folder.0.display().to_string());
    fs::write(file, text).map_err(|error| error.to_string())
}

/// Says what was found: differences, what both reject in other words, what was not compared, and how much was.
fn report(staged: &Staged, findings: &Findings, (compared, made): (usize, usize), silent: usize) {
    findings.lines().iter().for_each(|line| complain!("portunus: {line}"));
    staged.not_compared.iter().for_each(|line| complain!("portunus: not compared: {line}"));
    if compared < made {
        complain!("portunus: not compared: {} of {made} requests, after {} s", made - compared, MOST_TIME.as_secs());
    }
    if silent > 0 {
        complain!("portunus: not compared: {silent} of the listeners, where no request had a response of both");
    }
    let count = |class: Class| findings.counts.get(&class).copied().unwrap_or(0);
    let different: usize = findings.counts.iter().filter(|(class, _)| class.is_found()).map(|(_, count)| count).sum();
    let status = match count(Class::Status) {
        0 => String::new(),
        count => format!("; {count} are rejected by both, with other statuses"),
    };
    complain!(
        "portunus: compared: {compared} requests on {} listeners: {different} differ, {} of them open something{status}",
        staged.listeners.len(),
        count(Class::Opens)
    );
}

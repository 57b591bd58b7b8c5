//! `portunus as go-mmproxy …`: go-mmproxy's arguments, translated into a native configuration.
//!
//! The translation is text, the same that `portunus import go-mmproxy` prints, and is read by the one reader of configurations: what runs is what is
//! printed. `docs/go-mmproxy.md` is the guide, with every departure and its reason.

mod arguments;

use std::ffi::OsString;
use std::path::Path;

use config::{self, AccessLog, Trust};
use proxy::client::{TrustList, load_networks};
use telemetry::MmproxyLine;

use super::Front;
use super::go_flags::Rejected;
use arguments::{Arguments, Problem, Protocol, USAGE};

/// The name of the one listener and of the one upstream.
const NAME: &str = "go-mmproxy";

/// Does what go-mmproxy would do with these arguments (without the program's name): the configuration to run with, or the end.
pub fn run(words: &[OsString]) -> Front {
    let arguments = match read(words) {
        Ok(arguments) => arguments,
        Err(ended) => return ended,
    };
    let text = native(&arguments);
    match config::parse(NAME, &text, Path::new("")) {
        Ok(mut config) => {
            let verbosity = Some(arguments.verbosity);
            config.log.access = Some(AccessLog { mmproxy_verbosity: verbosity, ..AccessLog::default() });
            Front::Run { config: Box::new(config), warnings: warnings(&arguments) }
        }
        Err(problems) => failure(problems.list().iter().map(ToString::to_string)),
    }
}

/// Prints the native configuration that does what go-mmproxy would do with these arguments.
pub fn import(words: &[OsString]) -> Front {
    let arguments = match read(words) {
        Ok(arguments) => arguments,
        Err(ended) => return ended,
    };
    let errors = warnings(&arguments).iter().map(|warning| format!("portunus: {warning}\n")).collect();
    Front::Exit { code: 0, output: native(&arguments), errors }
}

/// What go-mmproxy tells when it starts to serve, one line each.
pub fn announcements(words: &[OsString]) -> Vec<String> {
    let Ok(arguments) = read(words) else { return Vec::new() };
    let networks = arguments.subnets.as_ref().and_then(|path| load_networks(path).ok()).unwrap_or_default();
    let mut lines: Vec<String> = networks
        .iter()
        .map(|network| MmproxyLine::new("INFO", "allowed subnet").text("subnet", &network.to_string()).end())
        .collect();
    let listening = MmproxyLine::new("INFO", "listening").number("listenerNum", 0);
    lines.push(listening.text("protocol", arguments.protocol.name()).text("listenAdr", &arguments.listen).end());
    lines
}

fn read(words: &[OsString]) -> Result<Arguments, Front> {
    let arguments = arguments::read(words).map_err(|problem| match problem {
        Problem::Flags(Rejected::Help) => Front::Exit { code: 0, output: USAGE.to_string(), errors: String::new() },
        Problem::Flags(Rejected::Problem(text)) => {
            Front::Exit { code: 2, output: String::new(), errors: format!("{text}\n{USAGE}") }
        }
        Problem::Value(text) => failure([text]),
    })?;
    if let Some(path) = &arguments.subnets {
        // A list that cannot be read must not become no list.
        TrustList::load(&Trust::File(path.clone())).map_err(failure)?;
    }
    Ok(arguments)
}

/// As go-mmproxy fails: JSON lines on standard output, exit 1.
fn failure(problems: impl IntoIterator<Item = String>) -> Front {
    let line = |problem: &str| MmproxyLine::new("ERROR", "failed to start").text("error", problem).end();
    Front::Rejected { problems: problems.into_iter().collect(), line }
}

fn warnings(arguments: &Arguments) -> Vec<String> {
    let mut warnings = Vec::new();
    if arguments.subnets.is_none() {
        warnings.push(
            "everybody's PROXY headers are believed, as go-mmproxy did; name the balancers' networks with -allowed-subnets FILE"
                .to_owned(),
        );
    }
    if arguments.close_after == 0 && arguments.protocol == Protocol::Udp {
        warnings.push("-close-after 0 would end each flow at once; one second is used".to_owned());
    }
    warnings
}

/// The native configuration.
fn native(arguments: &Arguments) -> String {
    let bind: Vec<String> = arguments.bind().iter().map(|address| format!("\"{address}\"")).collect();
    let targets: Vec<String> = arguments.targets().iter().map(|address| format!("\"{address}\"")).collect();
    let trust = match &arguments.subnets {
        // A JSON string is a YAML string.
        Some(path) => format!("trust_file: {}", serde_json::Value::from(path.display().to_string())),
        None => "trust: [\"0.0.0.0/0\", \"::/0\"]".to_owned(),
    };
    let mark = if arguments.mark == 0 { String::new() } else { format!("    mark: {}\n", arguments.mark) };
    let (bind, targets) = (bind.join(", "), targets.join(", "));
    match arguments.protocol {
        Protocol::Udp => {
            let idle = arguments.close_after.max(1);
            let to = if arguments.dynamic_destination {
                "original_dst: [\"0.0.0.0/0\", \"::/0\"]".to_owned()
            } else {
                format!("upstream: [{targets}]")
            };
            format!(
                "udp_listeners:\n  - name: {NAME}\n    bind: [{bind}]\n    proxy_protocol: {{ mode: each, {trust} }}\n    {to}\n    \
                 transparent: true\n{mark}    idle_timeout: {idle}s\n"
            )
        }
        Protocol::Tcp => {
            let to = if arguments.dynamic_destination {
                "original_dst: [\"0.0.0.0/0\", \"::/0\"]".to_owned()
            } else {
                format!("servers: [{targets}]")
            };
            // go-mmproxy ends no idle connection, and gives up connecting after about 7 s.
            format!(
                "listeners:\n  - name: {NAME}\n    bind: [{bind}]\n    proxy_protocol: {{ {trust} }}\n    \
                 tunnel: {{ upstream: {NAME}, idle_timeout: 30d }}\nupstreams:\n  {NAME}:\n    {to}\n    protocol: tcp\n    \
                 transparent: true\n{mark}    connect_timeout: 7s\n"
            )
        }
    }
}

//! `portunus as mmproxy …` and `portunus import mmproxy …`: the arguments of Cloudflare's mmproxy as a native configuration.
//!
//! The text that is printed is what runs. `docs/migration.md` is the guide, with every departure and its reason.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use config::Trust;
use proxy::client::TrustList;

use super::Front;

/// What `-h` prints.
const USAGE: &str = "\
Usage: portunus as mmproxy OPTIONS        run the proxy
       portunus import mmproxy OPTIONS    print the same as a native configuration

mmproxy's options:
  -a, --allowed-networks FILE    networks of the balancers, one in each line, # begins a comment
  -l HOST:PORT                   where to listen
  -4 HOST:PORT                   where IPv4 clients go
  -6 HOST:PORT                   where IPv6 clients go
  -m, --mark NUMBER              mark of the packets that go out (default 123)
  -t, --table NUMBER             accepted; `portunus routing setup` says which table it uses (default 100)
  -v, --verbose; -q, --quiet; -N, --do-not-sandbox; -P, --force-real-client-port
                                 accepted, without effect
";

/// The name of the one listener and of the one upstream.
const NAME: &str = "mmproxy";

/// What the arguments say.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    networks: PathBuf,
    listen: SocketAddr,
    targets: [SocketAddr; 2],
    mark: u32,
}

/// Does what mmproxy would do with these arguments: the configuration to run with, or the end.
pub fn run(words: &[OsString]) -> Front {
    let text = match read(words).and_then(|found| found.map(|arguments| checked(&arguments)).transpose()) {
        Ok(Some(text)) => text,
        Ok(None) => return help(),
        Err(problem) => return failed(&problem),
    };
    match config::parse(NAME, &text, Path::new("")) {
        Ok(config) => Front::Run { config: Box::new(config), warnings: Vec::new() },
        Err(problems) => failed(&problems.list().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

/// Prints the native configuration.
pub fn import(words: &[OsString]) -> Front {
    match read(words).and_then(|found| found.map(|arguments| checked(&arguments)).transpose()) {
        Ok(Some(output)) => Front::Exit { code: 0, output, errors: String::new() },
        Ok(None) => help(),
        Err(problem) => Front::Exit { code: 2, output: String::new(), errors: format!("portunus: {problem}\n") },
    }
}

fn help() -> Front {
    Front::Exit { code: 0, output: USAGE.to_owned(), errors: String::new() }
}

/// mmproxy ends with 1, whatever is wrong.
fn failed(problem: &str) -> Front {
    Front::Exit { code: 1, output: String::new(), errors: format!("portunus: {problem}\n") }
}

/// The configuration, if the list of networks can be read: it must not become no list.
fn checked(arguments: &Arguments) -> Result<String, String> {
    match TrustList::load(&Trust::File(arguments.networks.clone())) {
        Ok(_) => Ok(native(arguments)),
        Err(problems) => Err(problems.join("; ")),
    }
}

fn native(arguments: &Arguments) -> String {
    let Arguments { networks, listen, targets: [v4, v6], mark } = arguments;
    // A JSON string is a YAML string.
    let file = serde_json::Value::from(networks.display().to_string());
    // As a socket of both families, which it is to mmproxy.
    let any = listen.ip() == std::net::IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED);
    let listen = if any { format!(":{}", listen.port()) } else { listen.to_string() };
    let mark = if *mark == 0 { String::new() } else { format!("    mark: {mark}\n") };
    format!(
        "listeners:\n  - name: {NAME}\n    bind: \"{listen}\"\n    proxy_protocol: {{ trust_file: {file} }}\n    \
         tunnel: {{ upstream: {NAME}, idle_timeout: 30d }}\nupstreams:\n  {NAME}:\n    servers: [\"{v4}\", \"{v6}\"]\n    \
         protocol: tcp\n    transparent: true\n{mark}"
    )
}

/// Options with a value, by their short and long names.
const VALUED: &[(&str, &str)] = &[
    ("a", "allowed-networks"),
    ("a", "allowed-subnets"),
    ("l", "listen-addr"),
    ("4", "ipv4"),
    ("6", "ipv6"),
    ("m", "mark"),
    ("t", "table"),
];
/// Options without one.
const SWITCHES: &[(&str, &str)] =
    &[("v", "verbose"), ("q", "quiet"), ("N", "do-not-sandbox"), ("P", "force-real-client-port"), ("h", "help")];

/// Reads the arguments; none if they ask for help.
fn read(words: &[OsString]) -> Result<Option<Arguments>, String> {
    let mut values: [Option<String>; 5] = Default::default();
    let mut words = words.iter().map(|word| word.to_str().ok_or_else(|| format!("the argument {word:?} is not UTF-8")));
    while let Some(word) = words.next() {
        let word = word?;
        let (name, given) = match word.strip_prefix("--") {
            Some(long) => long.split_once('=').map_or((long, None), |(name, given)| (name, Some(given))),
            None => match word.strip_prefix('-').filter(|short| !short.is_empty() && short.is_ascii()) {
                Some(short) => short
                    .split_at_checked(1)
                    .map_or((short, None), |(name, rest)| (name, Some(rest).filter(|rest| !rest.is_empty()))),
                None => return Err(format!("`{word}` is no option of mmproxy")),
            },
        };
        let is = |(short, long): &&(&str, &str)| name == *short || name == *long;
        if let Some((switch, _)) = SWITCHES.iter().find(is) {
            match (*switch, given) {
                ("h", _) => return Ok(None),
                (_, None) => continue,
                // Letters may stand together.
                (_, Some(rest)) if !word.starts_with("--") && rest.chars().all(|c| "vqNP".contains(c)) => continue,
                (_, Some(_)) => return Err(format!("`{word}` takes no value")),
            }
        }
        let (short, _) = VALUED.iter().find(is).ok_or_else(|| format!("`{word}` is no option of mmproxy"))?;
        let value = match given {
            Some(value) => value.to_owned(),
            None => words.next().ok_or_else(|| format!("`{word}` needs a value"))??.to_owned(),
        };
        if let Some(at) = ["a", "l", "4", "6", "m"].iter().position(|name| name == short)
            && let Some(place) = values.get_mut(at)
        {
            *place = Some(value);
        }
    }
    let [networks, listen, v4, v6, mark] = values;
    let missing = |name: &str| format!("{name} is missing; it must be given");
    let address = |name: &str, text: Option<String>| {
        let text = text.ok_or_else(|| missing(name))?;
        text.parse::<SocketAddr>()
            .map_err(|_| format!("{name} {text}: expected an address and a port, such as 127.0.0.1:443 or [::1]:443"))
    };
    let mark = mark.unwrap_or_else(|| "123".to_owned());
    let v4 = address("-4", v4)?;
    Ok(Some(Arguments {
        listen: address("-l", listen)?,
        targets: [v4, address("-6", v6)?],
        networks: networks.map(PathBuf::from).ok_or_else(|| missing("--allowed-networks"))?,
        mark: mark.parse().map_err(|_| format!("--mark {mark}: a mark is a number of 32 bits"))?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Result<Option<String>, String> {
        let words: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        let shown = |arguments: Arguments| {
            let Arguments { networks, listen, targets: [v4, v6], mark } = arguments;
            format!("{} {listen} {v4} {v6} {mark}", networks.display())
        };
        read(&words).map(|arguments| arguments.map(shown))
    }

    #[test]
    fn options() {
        let whole = "f 0.0.0.0:80 127.0.0.1:81 [::1]:81";
        for (text, mark) in [
            ("--allowed-networks f -l 0.0.0.0:80 -4 127.0.0.1:81 -6 [::1]:81", 123),
            ("-af -l0.0.0.0:80 -4 127.0.0.1:81 -6 [::1]:81 -m 5 -vq -t 7 --quiet", 5),
            ("--allowed-subnets=f -l 0.0.0.0:80 -4 127.0.0.1:81 -6 [::1]:81 --mark=0 --table=9 -N -P", 0),
        ] {
            assert_eq!(found(text), Ok(Some(format!("{whole} {mark}"))), "{text}");
        }
        assert_eq!(found("-h"), Ok(None));
        for (text, why) in [
            ("-l 0.0.0.0:80 -4 127.0.0.1:81 -6 [::1]:81", "--allowed-networks is missing"),
            ("-a f -l x:80 -4 127.0.0.1:81 -6 [::1]:81", "-l x:80: expected an address"),
            ("-a f -l", "`-l` needs a value"),
            ("-x", "`-x` is no option"),
            ("file", "`file` is no option"),
            ("-a f -l 0.0.0.0:80 -4 127.0.0.1:81 -6 [::1]:81 -m x", "--mark x"),
            ("--quiet=1", "`--quiet=1` takes no value"),
        ] {
            assert!(found(text).is_err_and(|found| found.starts_with(why)), "{text}");
        }
    }
}

//! go-mmproxy's arguments and their defaults.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use crate::go_flags::{GoFlags, Rejected, boolean, number, problem};

/// What `-h` prints.
pub(super) const USAGE: &str = "\
Usage: portunus as go-mmproxy [FLAGS]        run the proxy
       portunus import go-mmproxy [FLAGS]    print the same as a native configuration

go-mmproxy's flags (one dash or two; `-flag value` or `-flag=value`):
  -l ADDRESS:PORT         where to listen (default 0.0.0.0:8443, which is every address of both families)
  -4 ADDRESS:PORT         where IPv4 clients go (default 127.0.0.1:443; empty: nowhere)
  -6 ADDRESS:PORT         where IPv6 clients go (default [::1]:443; empty: nowhere)
  -p PROTOCOL             tcp or udp (default tcp)
  -mark NUMBER            mark of the packets that go out (default 0, none)
  -v NUMBER               0: start and end; 1: failures of connections; 2: connections too (default 0)
  -allowed-subnets FILE   networks of the balancers, one in each line, # begins a comment (default: everybody)
  -listeners NUMBER       accepted; there is a listening socket for each worker in any case (default 1)
  -close-after SECONDS    when an idle UDP flow ends (default 60)
  -dynamic-destination    go where the PROXY header says the client wanted to go
";

/// What is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

/// What the arguments say.
#[derive(Debug)]
pub(super) struct Arguments {
    /// As given.
    pub(super) listen: String,
    address: SocketAddr,
    v4: Option<SocketAddr>,
    v6: Option<SocketAddr>,
    pub(super) protocol: Protocol,
    pub(super) mark: u32,
    pub(super) verbosity: u8,
    pub(super) subnets: Option<PathBuf>,
    pub(super) close_after: u64,
    pub(super) dynamic_destination: bool,
}

/// Why the arguments cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// They are no flags of this program.
    Flags(Rejected),
    /// A value is not possible.
    Value(String),
}

impl From<Rejected> for Problem {
    fn from(rejected: Rejected) -> Problem {
        Problem::Flags(rejected)
    }
}

impl Arguments {
    /// The addresses to listen on. Every address of one family is every address of both, as in Go.
    pub(super) fn bind(&self) -> Vec<SocketAddr> {
        if !self.address.ip().is_unspecified() {
            return vec![self.address];
        }
        let every = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        every.map(|address| SocketAddr::new(address, self.address.port())).to_vec()
    }

    /// Where clients go.
    pub(super) fn targets(&self) -> Vec<SocketAddr> {
        [self.v4, self.v6].into_iter().flatten().collect()
    }
}

/// Reads the arguments after the program's name.
pub(super) fn read(words: &[OsString]) -> Result<Arguments, Problem> {
    let mut flags = GoFlags::new(words);
    let (mut listen, mut v4, mut v6) = ("0.0.0.0:8443", "127.0.0.1:443", "[::1]:443");
    let (mut protocol, mut subnets) = ("tcp", "");
    let (mut mark, mut verbosity, mut listeners, mut close_after) = (0, 0, 1, 60);
    let mut dynamic_destination = false;
    while let Some((name, given)) = flags.next()? {
        match name {
            "dynamic-destination" => dynamic_destination = boolean(name, given.unwrap_or("true"))?,
            "l" => listen = flags.value(name, given)?,
            "4" => v4 = flags.value(name, given)?,
            "6" => v6 = flags.value(name, given)?,
            "p" => protocol = flags.value(name, given)?,
            "allowed-subnets" => subnets = flags.value(name, given)?,
            "mark" | "v" | "listeners" | "close-after" => {
                let text = flags.value(name, given)?;
                let Some(value) = number(text.strip_prefix('-').unwrap_or(text)) else {
                    return Ok(problem(format!("invalid value \"{text}\" for flag -{name}: expected a number"))?);
                };
                // Go would read it; go-mmproxy then rejects it.
                if text.starts_with('-') && value > 0 {
                    return Err(Problem::Value(format!("-{name} {text}: must not be negative")));
                }
                let place = match name {
                    "mark" => &mut mark,
                    "v" => &mut verbosity,
                    "listeners" => &mut listeners,
                    _ => &mut close_after,
                };
                *place = value;
            }
            _ => return Ok(problem(format!("flag provided but not defined: -{name}"))?),
        }
    }
    if listeners == 0 {
        return Err(Problem::Value("-listeners 0: must be at least 1".to_owned()));
    }
    let arguments = Arguments {
        listen: listen.to_owned(),
        address: literal("l", listen)?,
        v4: target("4", v4, true)?,
        v6: target("6", v6, false)?,
        protocol: match protocol {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            other => return Err(Problem::Value(format!("-p {other}: must be tcp or udp"))),
        },
        mark: u32::try_from(mark).map_err(|_| Problem::Value(format!("-mark {mark}: a mark has 32 bits")))?,
        verbosity: u8::try_from(verbosity.min(2)).unwrap_or(2),
        subnets: (!subnets.is_empty()).then(|| PathBuf::from(subnets)),
        close_after,
        dynamic_destination,
    };
    if arguments.targets().is_empty() && !dynamic_destination {
        return Err(Problem::Value("-4 and -6 are both empty: name at least one target".to_owned()));
    }
    Ok(arguments)
}

fn literal(flag: &str, text: &str) -> Result<SocketAddr, Problem> {
    text.parse().map_err(|_| {
        Problem::Value(format!("-{flag} {text}: expected an address and a port, such as 127.0.0.1:443 or [::1]:443"))
    })
}

/// A target of one family; none if it was emptied.
fn target(flag: &str, text: &str, v4: bool) -> Result<Option<SocketAddr>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let address = literal(flag, text)?;
    if address.is_ipv4() != v4 {
        let family = if v4 { "IPv4" } else { "IPv6" };
        return Err(Problem::Value(format!("-{flag} {text}: must be an {family} address")));
    }
    Ok(Some(address))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn read_text(text: &str) -> Result<Arguments, Problem> {
        // `""` stands for an empty word.
        let word = |word: &str| OsString::from(if word == "\"\"" { "" } else { word });
        read(&text.split_whitespace().map(word).collect::<Vec<_>>())
    }

    #[test]
    fn flags_and_defaults() {
        let check = |text: &str, bind: &str, targets: &str, protocol: &str, numbers: (u32, u8, u64)| {
            let arguments = read_text(text).unwrap_or_else(|problem| panic!("{text}: {problem:?}"));
            let shown =
                |addresses: Vec<SocketAddr>| addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" ");
            assert_eq!((shown(arguments.bind()), shown(arguments.targets())), (bind.into(), targets.into()), "{text}");
            assert_eq!(arguments.protocol.name(), protocol, "{text}");
            assert_eq!((arguments.mark, arguments.verbosity, arguments.close_after), numbers, "{text}");
        };
        let (both, local) = ("0.0.0.0:8443 [::]:8443", "127.0.0.1:443 [::1]:443");
        check("", both, local, "tcp", (0, 0, 60));
        check("-l 192.0.2.1:1 --p=udp -close-after 5", "192.0.2.1:1", local, "udp", (0, 0, 5));
        check("-l [::]:25 -4 127.0.0.1:25 -6=", "0.0.0.0:25 [::]:25", "127.0.0.1:25", "tcp", (0, 0, 60));
        check("-4 \"\" -mark 0x7b -v 7 -listeners 4", both, "[::1]:443", "tcp", (123, 2, 60));
        check("-4= -6= -dynamic-destination", both, "", "tcp", (0, 0, 60));
    }

    #[test]
    fn problems_are_reported() {
        for (text, expected) in [
            ("-nosuch", "flag provided but not defined: -nosuch"),
            ("-l", "flag needs an argument: -l"),
            ("-mark x", "invalid value \"x\" for flag -mark"),
        ] {
            let Err(Problem::Flags(Rejected::Problem(reported))) = read_text(text) else { panic!("{text}") };
            assert!(reported.starts_with(expected), "{reported}");
        }
        for (text, expected) in [
            ("-l localhost:1", "-l localhost:1: expected an address and a port"),
            ("-4 [::1]:443", "-4 [::1]:443: must be an IPv4 address"),
            ("-6 127.0.0.1:443", "-6 127.0.0.1:443: must be an IPv6 address"),
            ("-4= -6=", "-4 and -6 are both empty"),
            ("-p sctp", "-p sctp: must be tcp or udp"),
            ("-v -1", "-v -1: must not be negative"),
            ("-listeners 0", "-listeners 0: must be at least 1"),
            ("-mark 4294967296", "-mark 4294967296: a mark has 32 bits"),
        ] {
            let Err(Problem::Value(reported)) = read_text(text) else { panic!("{text}") };
            assert!(reported.starts_with(expected), "{reported}");
        }
        assert_eq!(read_text("-p udp -h").unwrap_err(), Problem::Flags(Rejected::Help));
    }
}

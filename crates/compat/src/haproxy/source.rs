//! `source`: from whose address servers are connected to.

use super::Making;
use super::sections::Proxy;
use super::servers::Server;
use crate::native::{Map, Value};

/// What the words behind `source` ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// What the system chooses.
    Chosen,
    /// The client's.
    Client,
    /// What is no choice here.
    Other,
}

impl Source {
    /// `ADDRESS [usesrc WHOSE] [interface NAME]`.
    fn of(words: &[String]) -> Source {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [_, "usesrc", "client" | "clientip"] => Source::Client,
            ["*" | "0.0.0.0" | "[::]"] => Source::Chosen,
            _ => Source::Other,
        }
    }
}

/// The words that go with `source` among the options of a server.
fn of_server<'s>(server: &'s Server<'_>) -> Option<&'s [String]> {
    let words = server.options.get(server.options.iter().rposition(|word| word == "source")? + 1..)?;
    let mut end = 1;
    while words.get(end).is_some_and(|word| word == "usesrc" || word == "interface") {
        end += 2;
    }
    words.get(..end)
}

impl Making<'_> {
    /// `source` of a backend and of its servers.
    ///
    /// # Errors
    /// Servers differ in whether they see the client's address.
    pub(super) fn source(&self, proxy: &Proxy, used: &[&Server<'_>], upstream: &mut Map) -> Result<(), String> {
        let of_all = proxy.one("source");
        let mut is_transparent = None;
        for server in used {
            let own = of_server(server);
            let (line, source) = match (own, of_all) {
                (Some(words), _) => (server.line, Source::of(words)),
                (None, Some(line)) => (line, Source::of(line.rest(1))),
                (None, None) => (server.line, Source::Chosen),
            };
            if source == Source::Other {
                let what = if own.is_some() { format!("server {} … source", server.name) } else { line.shown() };
                let why = "of addresses to connect from there is the client's, or the system chooses";
                upstream.comment(self.report.left_out(&line.place, &what, why));
            }
            let is_client = source == Source::Client;
            if is_transparent.is_some_and(|others| others != is_client) {
                return Err("not all of its servers see the client's address (`source`)".to_owned());
            }
            is_transparent = Some(is_client);
        }
        if is_transparent == Some(true) {
            upstream.set("transparent", Value::plain(true));
            upstream.comment("this needs CAP_NET_ADMIN and `portunus routing setup`: docs/client-address.md");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_address_it_is() {
        for (text, expected) in [
            ("0.0.0.0", Source::Chosen),
            ("*", Source::Chosen),
            ("[::]", Source::Chosen),
            ("0.0.0.0 usesrc client", Source::Client),
            ("0.0.0.0 usesrc clientip", Source::Client),
            ("10.0.0.1 usesrc clientip", Source::Client),
            ("10.0.0.1", Source::Other),
            ("10.0.0.1 interface eth1", Source::Other),
            ("0.0.0.0 usesrc clientip interface eth1", Source::Other),
            ("0.0.0.0 usesrc hdr_ip(x-forwarded-for,-1)", Source::Other),
            ("0.0.0.0 usesrc 10.0.0.2", Source::Other),
            ("", Source::Other),
        ] {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            assert_eq!(Source::of(&words), expected, "{text}");
        }
    }
}

//! The peers whose PROXY headers are believed: a list in the configuration, or a file of networks.
//!
//! A file that is missing, broken or empty is an error, never "nobody" or "everybody".

use std::net::SocketAddr;

use config::{Trust, network};
use ipnet::IpNet;
use keystore::files;

/// Largest file of networks, bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Problems that are reported one file.
const MAX_PROBLEMS: usize = 10;

/// A list of networks, ready for use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustList(Vec<IpNet>);

impl TrustList {
    /// Reads what the configuration names.
    ///
    /// # Errors
    /// The file is missing, too large, holds a line that is no network, or holds none at all; each problem with its line.
    pub fn load(trust: &Trust) -> Result<TrustList, Vec<String>> {
        match trust {
            Trust::Networks(networks) => Ok(TrustList(networks.clone())),
            Trust::File(path) => {
                let text =
                    files::text(path, MAX_FILE_BYTES).map_err(|error| vec![format!("{}: {error}", path.display())])?;
                parse_list(&text).map(TrustList).map_err(|problems| {
                    problems.into_iter().map(|problem| format!("{}: {problem}", path.display())).collect()
                })
            }
        }
    }

    /// The networks.
    pub fn networks(&self) -> &[IpNet] {
        &self.0
    }

    /// Whether a peer may speak for others. A peer on a Unix socket may: the socket's permissions chose it.
    pub fn holds(&self, peer: Option<SocketAddr>) -> bool {
        peer.is_none_or(|peer| {
            let address = peer.ip().to_canonical();
            self.0.iter().any(|network| network.contains(&address))
        })
    }
}

/// Reads a file of networks: one address or network in each line; blank lines, and what follows `#` or `;`, are comments.
///
/// # Errors
/// Each line that is no network, by number; or that there is none at all.
pub fn parse_list(text: &str) -> Result<Vec<IpNet>, Vec<String>> {
    let mut networks = Vec::new();
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let word = line.split(['#', ';']).next().unwrap_or_default().trim();
        if word.is_empty() {
            continue;
        }
        match network(word) {
            Ok(network) => networks.push(network),
            Err(problem) if problems.len() < MAX_PROBLEMS => problems.push(format!("line {number}: {problem}")),
            Err(_) => {}
        }
    }
    if problems.is_empty() && networks.is_empty() {
        problems.push("it holds no network; to trust every peer write 0.0.0.0/0 and ::/0".to_owned());
    }
    if problems.is_empty() { Ok(networks) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn files() {
        let text = "\u{feff}# balancers\n10.0.0.0/8\r\n\n  192.0.2.1  # one\n2001:db8::/32;two\n; none\n";
        let list = TrustList(parse_list(text).unwrap());
        let holds = |peer: &str| list.holds(Some(peer.parse().unwrap()));
        for trusted in ["10.1.2.3:1", "192.0.2.1:1", "[2001:db8::7]:1", "[::ffff:10.0.0.1]:1"] {
            assert!(holds(trusted), "{trusted}");
        }
        for other in ["11.0.0.1:1", "192.0.2.2:1", "[2001:db9::]:1", "[::1]:1"] {
            assert!(!holds(other), "{other}");
        }
        assert!(list.holds(None), "a Unix socket");
    }

    #[test]
    fn broken_files() {
        let lines = |text: &str| parse_list(text).unwrap_err().len();
        assert_eq!(lines(""), 1);
        assert_eq!(lines("# nothing\n\n"), 1);
        assert_eq!(lines("10.0.0.0/8\nlocalhost\n10.0.0.0/33\n10.1.2.3/8\n"), 3);
        assert_eq!(lines(&"x\n".repeat(1000)), MAX_PROBLEMS);
        assert!(parse_list("10.0.0.0/8\nx").unwrap_err()[0].starts_with("line 2: "));
    }
}

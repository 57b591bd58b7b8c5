//! The peers whose PROXY headers are believed: a list in the configuration, or a file of networks.
//!
//! A file that is missing, broken or empty is an error, never "nobody" or "everybody".

use std::net::SocketAddr;

use config::Trust;

use super::networks::AddressSet;

/// A list of networks, ready for use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustList(AddressSet);

impl TrustList {
    /// Reads what the configuration names.
    ///
    /// # Errors
    /// The file is missing, too large, holds a line that is no network, or holds none at all; each problem with its line.
    pub fn load(trust: &Trust) -> Result<TrustList, Vec<String>> {
        let (networks, file) = match trust {
            Trust::Networks(networks) => (networks.as_slice(), None),
            Trust::File(path) => (&[][..], Some(path.as_path())),
        };
        let set = AddressSet::of(networks, file)?;
        match file.filter(|_| set.is_empty()) {
            Some(file) => {
                let what = "it holds no network; to trust every peer write 0.0.0.0/0 and ::/0";
                Err(vec![format!("{}: {what}", file.display())])
            }
            None => Ok(TrustList(set)),
        }
    }

    /// Whether a peer may speak for others. A peer on a Unix socket may: the socket's permissions chose it.
    pub fn holds(&self, peer: Option<SocketAddr>) -> bool {
        peer.is_none_or(|peer| self.0.contains(peer.ip()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn load(text: &str) -> Result<TrustList, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        std::fs::write(&path, text).unwrap();
        TrustList::load(&Trust::File(path))
    }

    #[test]
    fn files() {
        let list = load("# balancers\n10.0.0.0/8\n192.0.2.1  # one\n2001:db8::/32;two\n").unwrap();
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
        let lines = |text: &str| load(text).unwrap_err().len();
        assert_eq!(lines(""), 1);
        assert_eq!(lines("# nothing\n\n"), 1);
        assert_eq!(lines("10.0.0.0/8\nlocalhost\n10.0.0.0/33\n10.1.2.3/8\n"), 3);
        assert!(load("10.0.0.0/8\nx").unwrap_err()[0].contains("list:2: "));
    }
}

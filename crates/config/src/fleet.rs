//! The file of a node of a fleet as the program uses it: where the fleet keeps what its nodes agree on. Built by `build/fleet.rs`.
//!
//! Immutable; opens nothing.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

/// Where the fleet is, and who we are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetConfig {
    /// Members of etcd. At least one.
    pub etcd: Vec<EtcdEndpoint>,
    /// What all keys of the fleet begin with: `/` first, none at the end.
    pub prefix: String,
    /// What this node is called; none: as its host is.
    pub node: Option<String>,
    /// PEM file of the authorities that etcd's certificates are verified with; none: those of the system.
    pub ca: Option<PathBuf>,
    /// PEM files of the certificate to show to etcd, and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// File with the key that everything in etcd is sealed under.
    pub seal_key: PathBuf,
    /// Folder in which generations are kept.
    pub cache: PathBuf,
}

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdEndpoint {
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Name in lower case, or address; an IPv6 address without brackets.
    pub host: String,
    /// Port; not 0.
    pub port: u16,
}

impl EtcdEndpoint {
    /// Reads `https://HOST:PORT`, or `http://` and a host that is this machine.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(text: &str) -> Result<EtcdEndpoint, &'static str> {
        let wrong = "is no endpoint of etcd";
        let (is_tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(wrong),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = authority.rsplit_once(':').ok_or(wrong)?;
        let port = port.parse::<u16>().ok().filter(|port| *port != 0).ok_or(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let host = match bare {
            Some(bare) if bare.parse::<Ipv6Addr>().is_ok() => bare.to_owned(),
            None if !host.is_empty() && host.bytes().all(fits) => host.to_ascii_lowercase(),
            _ => return Err(wrong),
        };
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if is_tls || is_here {
            Ok(EtcdEndpoint { is_tls, host, port })
        } else {
            Err("is another machine, in the clear")
        }
    }

    /// Host and port as a Host field says them.
    pub fn authority(&self) -> String {
        let EtcdEndpoint { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for EtcdEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_hosts_with_ports_and_in_the_clear_on_this_machine_alone() {
        for (text, expected) in [
            ("https://etcd-1.example:2379", Some("https://etcd-1.example:2379")),
            ("https://ETCD:2379/", Some("https://etcd:2379")),
            ("http://127.0.0.1:2379", Some("http://127.0.0.1:2379")),
            ("http://localhost:2379", Some("http://localhost:2379")),
            ("http://[::1]:2379", Some("http://[::1]:2379")),
            ("https://[2001:db8::1]:2379", Some("https://[2001:db8::1]:2379")),
            ("http://etcd-1.example:2379", None),
            ("http://192.0.2.1:2379", None),
            ("https://::1:2379", None),
            ("https://etcd", None),
            ("https://etcd:0", None),
            ("https://etcd:2379/v3", None),
            ("https://user@etcd:2379", None),
            ("etcd:2379", None),
            ("ftp://etcd:2379", None),
            ("https://:2379", None),
        ] {
            assert_eq!(EtcdEndpoint::of(text).ok().map(|found| found.to_string()).as_deref(), expected, "{text}");
        }
    }
}

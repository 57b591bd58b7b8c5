//! Which listener a URL leads to, by its scheme and port, and what the handshake there agrees on: for what is said of a configuration that does not serve. Where a balancer maps ports, nobody
//! here knows it, so the only listener of its scheme is taken for any port.

use std::net::IpAddr;
use std::sync::Arc;

use config::{Config, Endpoint, ListenerConfig, Service};
use tls::{Info, PeerCertificate, ProtocolVersion};

/// A listener that a URL leads to.
#[derive(Debug, Clone, Copy)]
pub struct Addressed<'a> {
    /// The listener.
    pub listener: &'a Arc<ListenerConfig>,
    /// It binds the URL's port; else it is the only one for the scheme.
    pub by_port: bool,
}

/// The listener that a URL of this scheme, host (without brackets) and port leads to.
///
/// # Errors
/// Those that it may be: none, or several.
pub fn find<'a>(
    config: &'a Config,
    is_https: bool,
    host: &str,
    port: u16,
) -> Result<Addressed<'a>, Vec<&'a Arc<ListenerConfig>>> {
    let speaks = |listener: &&Arc<ListenerConfig>| match listener.service {
        // Whether bytes are TLS is the client's affair.
        Service::Tunnel(_) => true,
        Service::Http | Service::RedirectToHttps { .. } => listener.tls.is_some() == is_https,
    };
    let address: Option<IpAddr> = host.parse().ok();
    let is_bound = |listener: &&Arc<ListenerConfig>| listener.bind.iter().any(|bind| fits(bind, address, port));
    let bound: Vec<_> = config.listeners.iter().filter(speaks).filter(is_bound).collect();
    if let [listener] = bound[..] {
        return Ok(Addressed { listener, by_port: true });
    }
    if !bound.is_empty() {
        return Err(bound);
    }
    let of_scheme: Vec<_> = config.listeners.iter().filter(speaks).filter(|one| one.reads_requests()).collect();
    match of_scheme[..] {
        [listener] => Ok(Addressed { listener, by_port: false }),
        _ => Err(of_scheme),
    }
}

/// What a handshake with a current browser agrees on.
pub fn usual_tls(server_name: Option<&str>, peer: Option<Box<PeerCertificate>>) -> Info {
    Info {
        version: ProtocolVersion::Tls13,
        cipher: "TLS_AES_128_GCM_SHA256",
        group: Some("X25519MLKEM768"),
        server_name: server_name.map(Box::from),
        alpn: None,
        key_type: None,
        key_algorithm: None,
        signature_algorithm: None,
        resumed: false,
        ech: false,
        peer,
        fingerprint: None,
    }
}

fn fits(bind: &Endpoint, host: Option<IpAddr>, port: u16) -> bool {
    let Endpoint::Tcp(bound) = bind else { return false };
    let is_host =
        host.is_none_or(|host| bound.ip().is_unspecified() || bound.ip().to_canonical() == host.to_canonical());
    bound.port() == port && is_host
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// `expected`: the listener, with a `?` behind it where only its scheme says so, or those that it may be.
    fn check(listeners: &str, url: (bool, &str, u16), expected: &str) {
        let text = format!(
            "keystores: {{ k: {{ folder: certs }} }}\nlisteners: [{listeners}]\nroutes: [{{ respond: {{ status: 200 }} }}]\n"
        );
        let config = config::parse("portunus.yaml", &text, std::path::Path::new("/")).unwrap();
        let found = match find(&config, url.0, url.1, url.2) {
            Ok(found) => format!("{}{}", found.listener.name, if found.by_port { "" } else { "?" }),
            Err(listeners) => listeners.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" or "),
        };
        assert_eq!(found, expected, "{url:?} of {listeners}");
    }

    #[test]
    fn the_port_decides_and_else_the_scheme_if_there_is_one_listener_of_it() {
        let (plain, secure) = ("{ name: plain, bind: ':80' }", "{ name: tls, bind: ':8443', tls: { keystore: k } }");
        let both = format!("{plain}, {secure}");
        check(&both, (false, "a.example", 80), "plain");
        check(&both, (true, "a.example", 8443), "tls");
        check(&both, (true, "a.example", 443), "tls?");
        check(&both, (false, "a.example", 8080), "plain?");
        check(plain, (true, "a.example", 443), "");
        let two = "{ name: a, bind: '127.0.0.1:80' }, { name: b, bind: '127.0.0.2:80' }";
        check(two, (false, "127.0.0.2", 80), "b");
        check(two, (false, "a.example", 80), "a or b");
        check(two, (false, "127.0.0.3", 80), "a or b");
        check(two, (false, "a.example", 81), "a or b");
    }
}

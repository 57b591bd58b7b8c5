//! Addresses of servers.

use crate::addresses::is_host;

/// The native form of the address of a server. None for one that stands for the destination of the client (`0.0.0.0`), too.
pub(crate) fn address(text: &str) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix@").or(text.starts_with('/').then_some(text)) {
        return path.starts_with('/').then(|| format!("unix:{path}"));
    }
    let text =
        ["ipv4@", "ipv6@", "tcp@", "tcp4@", "tcp6@"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
    if text.contains('@') {
        return None;
    }
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse::<u16>().ok().filter(|number| *number > 0 && !port.starts_with('+'))?;
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_any = |address: std::net::IpAddr| address.is_unspecified();
    match literal.parse::<std::net::Ipv6Addr>() {
        _ if literal.parse().is_ok_and(is_any) => None,
        Ok(address) => Some(format!("[{address}]:{port}")),
        Err(_) if host == "localhost" || is_host(host) => Some(format!("{host}:{port}")),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers() {
        for (text, expected) in [
            ("10.0.0.1:80", Some("10.0.0.1:80")),
            ("0.0.0.0:80", None),
            ("[::]:80", None),
            ("app.internal:8080", Some("app.internal:8080")),
            ("[::1]:80", Some("[::1]:80")),
            ("::1:80", Some("[::1]:80")),
            ("ipv4@10.0.0.1:80", Some("10.0.0.1:80")),
            ("unix@/run/a.sock", Some("unix:/run/a.sock")),
            ("/run/a.sock", Some("unix:/run/a.sock")),
            ("10.0.0.1", None),
            ("10.0.0.1:+80", None),
            ("abns@x", None),
            ("*:80", None),
        ] {
            assert_eq!(address(text).as_deref(), expected, "{text}");
        }
    }
}

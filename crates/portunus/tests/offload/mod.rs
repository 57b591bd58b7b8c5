//! Connections as bytes: PROXY headers in and out, tunnels opened and unopened, their ends, their log lines. The real program, between real peers.
//!
//! Needs `dnsmasq-base`, `haproxy`, `libnginx-mod-stream`, `nginx` and `openssl`, Debian packages of these names, which `./x` installs.

mod blame;
mod clients;
mod datagram_addresses;
mod datagrams;
mod keepalive;
mod nameless;
mod not_tls;
mod onward_names;
mod onward_tls;
mod passing;
mod policies;
mod proxy_in;
mod proxy_out;
mod site;
mod slow_readers;
mod tcp_checks;
mod tunnels;

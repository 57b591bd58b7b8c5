//! Which bind has which socket.
//!
//! An address is one socket, whoever serves it: a listener that is renamed keeps it over a reload. Port 0 asks the kernel for a port, and each
//! bind that asks is given one of its own.

use std::fmt;
use std::net::SocketAddr;

use net::Endpoint;

/// What a listener can bind.
pub trait Bindable: Clone + Ord + fmt::Display {
    /// Whether the kernel is to choose the port.
    fn asks_for_a_port(&self) -> bool;
}

impl Bindable for SocketAddr {
    fn asks_for_a_port(&self) -> bool {
        self.port() == 0
    }
}

impl Bindable for Endpoint {
    fn asks_for_a_port(&self) -> bool {
        matches!(self, Endpoint::Tcp(address) if address.asks_for_a_port())
    }
}

/// One bind as configured, which names its socket for as long as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place<A> {
    /// As configured.
    pub address: A,
    /// Whose port it is, and which one of theirs, where the kernel chooses it.
    own: Option<(String, usize)>,
}

impl<A: Bindable> Place<A> {
    /// Its name between processes.
    pub fn key(&self) -> String {
        match &self.own {
            None => self.address.to_string(),
            Some((listener, index)) => format!("{} {index} {listener}", self.address),
        }
    }
}

impl Place<Endpoint> {
    /// The UDP socket beside it; none of a Unix socket.
    pub fn of_udp(&self) -> Option<Place<SocketAddr>> {
        let Endpoint::Tcp(address) = self.address else { return None };
        Some(Place { address, own: self.own.clone() })
    }
}

/// The places of a listener, in the order of its binds.
pub fn places<'a, A: Bindable>(listener: &'a str, bind: &'a [A]) -> impl Iterator<Item = Place<A>> + 'a {
    bind.iter().enumerate().map(move |(index, address)| Place {
        address: address.clone(),
        own: address.asks_for_a_port().then(|| (listener.to_owned(), index)),
    })
}

/// What a Unix socket is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixSocket {
    /// The mode of its file: who may write, may connect.
    pub mode: u32,
}

impl Default for UnixSocket {
    /// For the user and the group of the process.
    fn default() -> UnixSocket {
        UnixSocket { mode: 0o660 }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn check(one: (&str, &[&str]), other: (&str, &[&str]), shared: usize) {
        let places = |(listener, bind): (&str, &[&str])| -> Vec<Place<SocketAddr>> {
            let bind: Vec<SocketAddr> = bind.iter().map(|text| text.parse().unwrap()).collect();
            places(listener, &bind).collect()
        };
        let (ones, others) = (places(one), places(other));
        assert_eq!(ones.iter().filter(|place| others.contains(place)).count(), shared, "{one:?} {other:?}");
    }

    #[test]
    fn an_address_is_one_place_and_port_0_is_one_for_each_that_asks() {
        check(("a", &["127.0.0.1:80"]), ("b", &["127.0.0.1:80"]), 1);
        check(("a", &["127.0.0.1:0"]), ("b", &["127.0.0.1:0"]), 0);
        check(("a", &["127.0.0.1:0"]), ("a", &["127.0.0.1:0", "[::1]:0"]), 1);
        check(("a", &["127.0.0.1:0"]), ("a", &["[::1]:0", "127.0.0.1:0"]), 0);
        check(("a", &["127.0.0.1:0", "127.0.0.1:0"]), ("a", &["127.0.0.1:0"]), 1);
    }

    #[test]
    fn a_key_is_the_address_alone_where_that_is_enough() {
        let bind: Vec<SocketAddr> = ["[::1]:80", "127.0.0.1:0"].iter().map(|text| text.parse().unwrap()).collect();
        let keys: Vec<String> = places("web", &bind).map(|place| place.key()).collect();
        assert_eq!(keys, ["[::1]:80", "127.0.0.1:0 1 web"]);
    }
}

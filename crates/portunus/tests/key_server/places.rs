//! Connections without a certificate that take all places and stay silent (row 1011).

#![allow(clippy::disallowed_methods, reason = "a test may block its thread")]

use std::io::Read as _;

use super::server::{CONFIG, OwnKeyServer, site};
use crate::harness::connect_from;

#[test]
fn connections_without_a_certificate_keep_nobody_out_who_has_one() {
    let dir = site();
    let server = OwnKeyServer::start(
        dir.path(),
        &format!("{CONFIG}limits: {{ max_connections: 20, handshake_timeout: 10m }}\n"),
    );
    let mut silent: Vec<_> = (0..200).map(|_| connect_from("127.0.0.3", server.edges)).collect();
    server.exercise("selection");
    // Also not from the same address, whose oldest ones have ended.
    silent.extend((0..200).map(|_| connect_from("127.0.0.1", server.edges)));
    server.exercise("selection");
    let mut rest = Vec::new();
    let _ = silent[0].read_to_end(&mut rest);
    assert!(rest.is_empty(), "{rest:?}");
}

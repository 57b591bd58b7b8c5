//! What must hold for any bytes at all, one function per parser of the program. Each panics where it does not.
//!
//! Shared by the corpus replays beside this folder and by the fuzz targets in `/fuzz`, which include it by path. Owns no inputs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "to panic is how an invariant fails")]
#![allow(dead_code, unused_imports, reason = "a fuzz target or replay uses some of them alone")]

pub mod access_log;
pub mod config;
pub mod mmdb;
pub mod question;
pub mod imports;
pub mod proof;
pub mod route;
pub mod routes_json;
pub mod sticky;
pub mod token;

/// A named target and its check.
pub type Target = (&'static str, fn(&[u8]));

/// Targets replayed together.
pub const ALL: [Target; 8] = [
    ("routes_json", routes_json::check),
    ("route", route::check),
    ("token", token::check),
    ("sticky", sticky::check),
    ("access_log", access_log::check),
    ("question", question::check),
    ("proof", proof::check),
    ("mmdb", mmdb::check),
];

/// Imports, whose grammars have words of their own.
pub const IMPORTS: [Target; 5] = [
    ("nginx_conf", imports::nginx),
    ("haproxy_cfg", imports::haproxy),
    ("ingress", imports::ingress),
    ("hitch_conf", imports::hitch),
    ("stunnel_conf", imports::stunnel),
];

/// A configuration with one plain listener called `web`, and no routes.
fn empty_config() -> ::config::Config {
    let text = "listeners: [{ name: web, bind: \"127.0.0.1:0\" }]";
    ::config::parse("fuzz.yaml", text, std::path::Path::new("")).expect("a listener is enough")
}

//! Portunus as a library: the modules in reading order.
#![forbid(unsafe_code)]

/// Prints a line; if nobody reads it, nothing happens (`println!` panics then).
macro_rules! say {
    ($($text:tt)*) => {{
        use ::std::io::Write as _;
        let _ = ::std::writeln!(::std::io::stdout(), $($text)*);
    }};
}

/// As `say`, on stderr.
macro_rules! complain {
    ($($text:tt)*) => {{
        use ::std::io::Write as _;
        let _ = ::std::writeln!(::std::io::stderr(), $($text)*);
    }};
}

pub mod cli;
pub mod config;
pub mod limits;
pub mod pace;
pub mod generation;
pub mod worker;
pub mod reload;
pub mod server;
pub mod listener;
pub mod conn;
pub mod client;
pub mod transport;
pub mod identity;
pub mod host;
pub(crate) mod short_text;
pub mod reach;
pub mod route;
pub mod http;
pub mod auth;
pub(crate) mod guard;
pub mod tunnel;
pub mod passport;
pub mod datagram;
pub mod offload;
pub mod upstream;
pub mod keyless;
pub mod keyholder;
pub mod report;
pub mod admin;
pub mod systemd;
pub mod command;
pub mod compat;

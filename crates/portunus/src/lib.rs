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
pub mod command;
pub mod edge;
pub mod key_server;
pub mod supervisor;
pub mod admin;
pub mod enrolment;
pub mod systemd;

//! What the command line does: run, check, front doors, keystores, demo.

pub mod check;
pub mod contract;
pub mod control;
pub mod demo;
pub mod diff;
pub mod ech;
pub mod enrol;
pub mod explain;
pub mod fleet;
pub mod front;
pub mod key_server;
pub mod keystore;
pub mod operate;
pub mod prove;
pub mod quickstart;
pub mod reload;
pub mod routing;
pub mod run;
pub mod server;
pub mod show;
pub mod top;
pub mod upgrade;
pub mod validate_server;

/// Says on stderr what is waited for, to people at a terminal. Others get the outcome alone.
fn progress(text: &str) {
    use std::io::IsTerminal as _;
    if std::io::stderr().is_terminal() {
        complain!("{text}");
    }
}

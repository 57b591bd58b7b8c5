//! What the command line does: run, check, front doors, keystores, demo.

pub mod check;
pub mod contract;
pub mod control;
pub mod demo;
pub mod diff;
pub mod explain;
pub mod front;
pub mod key_server;
pub mod keystore;
pub mod operate;
pub mod quickstart;
pub mod reload;
pub mod routing;
pub mod run;
pub mod server;
pub mod show;
pub mod upgrade;
pub mod validate_server;

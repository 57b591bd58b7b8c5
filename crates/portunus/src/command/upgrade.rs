//! `portunus upgrade`: has a running server start the program again, hand over its sockets to it, and drain; waits until the new process serves.
//!
//! Owns no handover: that is the server's.

use std::process::ExitCode;

use super::control::{Control, complain_of};
use super::progress;

/// `portunus upgrade`.
#[derive(Debug, clap::Args)]
pub struct UpgradeCommand {
    /// Which server
    #[command(flatten)]
    control: Control,
}

/// Upgrades: 0 if a new process serves, else 1 and why not on stderr; then the old one serves as before.
pub fn run(command: &UpgradeCommand) -> ExitCode {
    progress("the program is started again; waiting until the new process serves ...");
    let account = match command.control.ask("/upgrade") {
        Ok(account) => account,
        Err(problem) => {
            complain!("error: {problem}");
            return ExitCode::FAILURE;
        }
    };
    match account.get("pid").and_then(serde_json::Value::as_u64) {
        Some(pid) => {
            say!("upgraded: process {pid} serves, the old one drains");
            ExitCode::SUCCESS
        }
        None => {
            complain_of(&account);
            complain!("error: upgrade failed; the running process goes on");
            ExitCode::FAILURE
        }
    }
}

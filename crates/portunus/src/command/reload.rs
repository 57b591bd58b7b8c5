//! `portunus reload`: has a running server load its configuration again, waits, and says what came of it; for people and for systemd's `ExecReload`.
//!
//! Owns no reload: that is the server's.

use std::process::ExitCode;

use super::control::{Control, complain_of, texts};
use super::explain::shown;
use super::progress;

/// `portunus reload`.
#[derive(Debug, clap::Args)]
pub struct ReloadCommand {
    /// Which server
    #[command(flatten)]
    control: Control,
}

/// Reloads: 0 if the new configuration is active, else 1 and every problem on stderr.
pub fn run(command: &ReloadCommand) -> ExitCode {
    progress("the server reads its configuration and all that it names ...");
    let account = match command.control.ask("/reload") {
        Ok(account) => account,
        Err(problem) => {
            complain!("error: {problem}");
            return ExitCode::FAILURE;
        }
    };
    match account.get("generation").and_then(serde_json::Value::as_u64) {
        Some(generation) => {
            say!("reloaded: configuration {generation} is active");
            texts(&account, "waiting_for_restart")
                .iter()
                .for_each(|setting| complain!("warning: waits for a restart: {}", shown(setting.as_bytes())));
            ExitCode::SUCCESS
        }
        None => {
            complain_of(&account);
            complain!("error: reload rejected; the active configuration stays");
            ExitCode::FAILURE
        }
    }
}

//! A program that is started for a comparison, and ends with it: by its own number, on every way out, and with this process, too.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take until it listens.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it is left alone between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// A running program.
#[derive(Debug)]
pub(super) struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    /// Starts a program whose words go into `log`, and waits until it listens on all of these addresses.
    ///
    /// # Errors
    /// It has ended, or does not listen in time: what it said.
    pub(super) fn start(mut command: Command, log: &Path, addresses: &[SocketAddr]) -> Result<Program, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let failed = |error: io::Error| format!("{name}: cannot be started: {error}");
        let file = File::create(log).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        net::process::end_with_this_thread(&mut command);
        let mut program = Program(command.spawn().map_err(failed)?);
        let started = Instant::now();
        for address in addresses {
            while TcpStream::connect(address).is_err() {
                let said = || std::fs::read_to_string(log).unwrap_or_default();
                if let Ok(Some(status)) = program.0.try_wait() {
                    return Err(format!("{name} ended with {status}: {}", said().trim_end()));
                }
                if started.elapsed() > PATIENCE {
                    return Err(format!(
                        "{name} does not listen on {address} after {} s: {}",
                        PATIENCE.as_secs(),
                        said().trim_end()
                    ));
                }
                #[expect(clippy::disallowed_methods, reason = "a command that serves nobody")]
                std::thread::sleep(PAUSE);
            }
        }
        // It may have been somebody else who listens there.
        match program.0.try_wait() {
            Ok(None) => Ok(program),
            _ => Err(format!("{name} has ended: {}", std::fs::read_to_string(log).unwrap_or_default().trim_end())),
        }
    }

    /// Whether it still runs.
    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

/// Where a program is installed: the first in `PATH`.
pub(super) fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

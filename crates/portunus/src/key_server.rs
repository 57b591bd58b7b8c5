//! The key server as a process: its sandbox, and how the supervisor runs it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use config::{AdminConfig, AuditTarget, KeyServerConfig, Reloaded, SandboxMode};
use keyserver::confine::{Outcome, confine};
use keyserver::register::Register;
use keyserver::server::{Server, Source};
use net::Inherited;
use net::confine::{Files, Sealed};
use telemetry::Diagnostics;

use crate::admin::{AdminState, ReloadRequest};
use crate::supervisor::{self, Belongings, Control, Options, Origin, Plan, Reload, Role, Watched};

/// A running key server.
struct KeyServer(Server);

/// Runs the key server that `file` describes until it is told to end.
pub fn run_file(file: &Path, options: Options) -> ExitCode {
    let config = match config::load_key_server(file) {
        Ok(config) => config,
        Err(problems) => return supervisor::reject(&problems),
    };
    let again = file.to_owned();
    let source: Source = Box::new(move || {
        config::load_key_server(&again).map_err(|problems| problems.list().iter().map(ToString::to_string).collect())
    });
    // Its sandbox closes all folders but those that somebody named.
    run(config, source, Origin::of_file(file, options, Control::None))
}

/// Runs a key server until it is told to end: 0 if everything asked was answered, 1 if it could not start or had to end sooner.
pub fn run(mut config: KeyServerConfig, source: Source, origin: Origin) -> ExitCode {
    config.sandbox = origin.sandbox(config.sandbox);
    let watched = watched(&config, origin.watched.as_deref());
    let (period, kept, control) = (config.reload_interval, config.clone(), origin.control.named().cloned());
    let plan = Plan {
        prepare: move || prepare(&kept, control),
        watched,
        period,
        start: |inherited: &mut Inherited, _| Server::start(config, source, inherited).map(KeyServer),
        // It has no upgrades.
        sandbox: SandboxMode::Off,
    };
    supervisor::run(origin, plan, |_, _| ())
}

/// What the process does before it reads a key.
fn prepare(config: &KeyServerConfig, control: Option<PathBuf>) -> Result<Diagnostics, Vec<String>> {
    let one = |what: &str, error: std::io::Error| vec![format!("{what}: {error}")];
    net::process::raise_descriptor_limit();
    net::process::forbid_core_dumps().map_err(|error| one("core dumps cannot be switched off", error))?;
    if config.lock_memory {
        net::process::lock_memory().map_err(|problem| vec![problem])?;
    }
    // Before any thread is made: what is forbidden here is forbidden to all of them.
    let outcome = if config.sandbox != SandboxMode::Off { Some(confine(config, control.as_deref())?) } else { None };
    let diagnostics = Diagnostics::start(&config.log_level).map_err(|error| one("diagnostics", error))?;
    let Some(Outcome { files, concerns }) = outcome else { return Ok(diagnostics) };
    let missing = net::confine::missing_of(net::confine::Role::KeyServer).join("; ");
    tracing::info!(missing, "sandbox: closed, but for what this kernel leaves open");
    if files == Files::Open {
        tracing::warn!("this kernel has no Landlock: files beside those named in the configuration are not closed off");
    }
    concerns.iter().for_each(|concern| tracing::warn!("sandbox: {concern}"));
    Ok(diagnostics)
}

/// The configuration file, if it is to be watched, and what keys, trust and access are read from.
fn watched(config: &KeyServerConfig, configuration: Option<&Path>) -> Watched {
    let mut watched = Watched::new(configuration);
    if let Some(AuditTarget::File(path)) = &config.audit {
        watched.add_own(path);
    }
    for set in config.keys.values() {
        set.folders.iter().for_each(|folder| watched.add_folder(folder));
        set.files.iter().for_each(|file| watched.add_file(file));
    }
    for tls in config.listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
        let files = [Some(&tls.certificate), Some(&tls.private_key), tls.client_ca.as_ref(), tls.client_crl.as_ref()];
        files.into_iter().flatten().for_each(|file| watched.add_file(file));
    }
    if let Some(enrolment) = &config.enrolment {
        watched.add_file(&enrolment.server_ca);
        let register = Register::at(&enrolment.folder);
        // What is not there cannot be watched; what cannot be made is said by whoever needs it.
        let _ = register.make_folders();
        watched.add_folder(&register.revocations());
    }
    watched
}

impl Role for KeyServer {
    const HANDS_OVER: bool = false;

    fn seal(&self) -> Result<bool, Vec<String>> {
        if self.0.config().sandbox == SandboxMode::Off {
            return Ok(false);
        }
        // It calls nobody; and its admin side may move to another port.
        let sealed = Sealed { connections: true, unix_sockets: true };
        net::confine::seal(sealed).map(|()| true).map_err(|problem| vec![problem])
    }

    fn beats(&self) -> Vec<u64> {
        self.0.beats()
    }

    fn belongings(&self) -> Result<Belongings, Vec<String>> {
        let problem = "a key server runs no other program, which its sandbox forbids: restart it; with a .socket unit no connection is refused meanwhile";
        Err(vec![problem.to_owned()])
    }

    fn generation(&self) -> u64 {
        self.0.generation()
    }

    fn reload(&self, _what: Reload) -> Result<Option<Reloaded>, Vec<String>> {
        self.0.reload().map(Some)
    }

    fn watched(&self, configuration: Option<&Path>) -> Watched {
        watched(self.0.config(), configuration)
    }

    fn period(&self) -> Duration {
        self.0.config().reload_interval
    }

    fn reopen_logs(&self) {
        self.0.reopen_log();
    }

    fn admin(&self) -> Option<AdminConfig> {
        self.0.config().admin.clone()
    }

    fn pages(self: &Arc<Self>, reload: ReloadRequest) -> AdminState {
        let server = || Arc::clone(self);
        let (for_metrics, for_config, for_ready, for_keys) = (server(), server(), server(), server());
        AdminState {
            metrics: Box::new(move |exposition| for_metrics.0.metrics(exposition)),
            clients: None,
            config_json: Box::new(move || for_config.0.config().effective.to_string()),
            reload,
            upgrade: None,
            api: None,
            ready: Box::new(move || for_ready.0.ready().map(|_| Vec::new()).map_err(str::to_owned)),
            extra: vec![("/keys", Box::new(move || for_keys.0.keys_json()))],
        }
    }

    fn drain_times(&self) -> (Duration, Duration) {
        let limits = &self.0.config().limits;
        (limits.drain_delay, limits.drain_timeout)
    }

    fn leave(&self) {
        self.0.leave();
    }

    fn stop_accepting(&self) {
        self.0.stop_accepting();
    }

    fn open(&self) -> usize {
        self.0.open()
    }

    fn stop(&self) -> usize {
        self.0.stop()
    }
}

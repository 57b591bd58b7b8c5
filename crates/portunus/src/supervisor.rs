//! What the edge and the key server have in common as processes: signals, watched files, reloads, upgrades, the admin side, and an orderly end.
//!
//! ```text
//! signals caught → started → serving ──SIGTERM──→ leaving ──drain_delay──→ draining ──all done, time over, second signal──→ ended
//!                               ↺ SIGHUP, file change, period, admin request: reload
//!                               └─ upgrade: another process serves ──→ at rest ──→ draining
//! ```
//!
//! Nothing is reloaded while an upgrade is under way. A reload that is asked for on the admin side then is rejected; other reasons wait, and fall to the
//! process that serves when it is over.

mod admin_side;
mod changes;
mod handover;
mod launcher;
mod message;
mod predecessor;
mod signals;
mod upgrades;
mod watched;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use config::{AdminConfig, Reloaded, SandboxMode};
use net::Inherited;
use proxy::server::{RateCounts, State};
use tokio::time::Instant;

use crate::admin::{AdminState, ReloadRequest};
use crate::systemd;
use admin_side::AdminSide;
use changes::Changes;
use launcher::{Launcher, Passed};
use predecessor::{Inheritance, Predecessor};
use signals::Signals;
use upgrades::Upgrades;

pub use admin_side::Control;
pub use handover::Belongings;
pub use watched::Watched;

/// How often dead workers are looked for, and reloads that the admin side made are followed.
const SUPERVISION: Duration = Duration::from_millis(200);

/// How often draining looks whether it is done.
const DRAIN_POLL: Duration = Duration::from_millis(20);

/// How long workers may take to begin to accept.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// After an upgrade, how long idle connections may wait for one more request, whose response says that the connection closes; and no longer than half of
/// `drain_timeout`.
const REST_AFTER_UPGRADE: Duration = Duration::from_secs(10);

/// What is to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// The configuration and everything it names.
    All,
    /// The same, if the configuration says something else than the active one.
    IfChanged,
    /// What the active configuration names: certificates, keys, contracts.
    Named,
}

/// A process that serves: the edge or the key server, started.
pub trait Role: Send + Sync + 'static {
    /// Whether another process can take over from it.
    const HANDS_OVER: bool = true;

    /// Gives up what it took to bind, which is done. Before [`Role::serve`]. Says whether no more Unix sockets can be made.
    ///
    /// # Errors
    /// It cannot.
    fn seal(&self) -> Result<bool, Vec<String>> {
        Ok(false)
    }

    /// Begins to accept.
    ///
    /// # Errors
    /// It cannot; nothing is accepted then.
    fn serve(&self) -> Result<(), Vec<String>> {
        Ok(())
    }

    /// Whether it accepts everywhere.
    fn is_serving(&self) -> bool {
        true
    }

    /// A number per worker that grows while it makes progress.
    fn beats(&self) -> Vec<u64>;

    /// What another process needs to take over.
    ///
    /// # Errors
    /// Why no other one can.
    fn belongings(&self) -> Result<Belongings, Vec<String>>;

    /// Goes on from what rates had counted in the process that this one takes over from. Before [`Role::serve`].
    ///
    /// # Errors
    /// That cannot be what they have counted.
    fn go_on_counting(&self, _counts: &RateCounts) -> Result<(), String> {
        Ok(())
    }

    /// Leaves accepting to the process that took over; what is open goes on.
    fn hand_over(&self) {}

    /// Number of what is active; each reload that is taken makes a new one.
    fn generation(&self) -> u64;

    /// Reads again; none if there was nothing to do.
    ///
    /// # Errors
    /// Everything that is wrong; what was active stays so.
    fn reload(&self, what: Reload) -> Result<Option<Reloaded>, Vec<String>>;

    /// What the active configuration names, for watching; `configuration` is the file itself.
    fn watched(&self, configuration: Option<&Path>) -> Watched;

    /// How often what it names is read without a reason.
    fn period(&self) -> Duration;

    /// Looks after threads that died. Called several times a second.
    fn supervise(&self) {}

    /// Opens log files again, since they were renamed.
    fn reopen_logs(&self);

    /// The admin side that the active configuration wants.
    fn admin(&self) -> Option<AdminConfig>;

    /// What the admin side shows; `reload` is what it does when asked to.
    fn pages(self: &Arc<Self>, reload: ReloadRequest) -> AdminState;

    /// `drain_delay` and `drain_timeout`.
    fn drain_times(&self) -> (Duration, Duration);

    /// Says everywhere that it will shut down; still serves.
    fn leave(&self);

    /// Accepts nothing new; what is open goes on.
    fn stop_accepting(&self);

    /// How much is still open.
    fn open(&self) -> usize;

    /// Ends what is still open, and the logs: how many connections that were.
    fn stop(&self) -> usize;
}

/// The variable of the environment that names the admin socket.
pub const CONTROL: &str = "PORTUNUS_CONTROL";

/// How a process is run, beside what its configuration says.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Options {
    /// Path of the admin socket that `portunus status`, `reload` and others connect to, independent of FILE; `none` disables it
    #[arg(long, value_name = "PATH", env = CONTROL, hide_env_values = true)]
    pub control: Option<PathBuf>,
    /// Do not load FILE again when it changes, only when asked to
    #[arg(long)]
    pub no_watch: bool,
}

/// What a process is supervised with.
#[derive(Debug, Default)]
pub struct Origin {
    /// The configuration file, if a change of it is to be loaded.
    pub watched: Option<PathBuf>,
    /// Where the admin socket is, whatever the configuration says.
    pub control: Control,
    /// What it reads and writes beside what its configuration names.
    pub beside: Beside,
    /// It is made of arguments, or of a file of another program, where nobody can say how far it is to shut itself in.
    pub is_front_door: bool,
    /// How often the configuration is made anew without a reason, where changes of what it is made of may not show in one file.
    pub remade: Option<Duration>,
}

impl Origin {
    /// Of a process that was started from a file; its admin socket is the `usual` one unless the options name another.
    pub fn of_file(file: &Path, options: Options, usual: Control) -> Origin {
        let control = Control::of_option(options.control, usual);
        let beside = Beside { read: vec![file.to_owned()], ..Beside::default() };
        Origin { watched: (!options.no_watch).then(|| file.to_owned()), control, beside, ..Origin::default() }
    }

    /// How far it shuts itself in, where its configuration asks for this.
    pub fn sandbox(&self, asked: SandboxMode) -> SandboxMode {
        if self.is_front_door { asked.min(SandboxMode::Auto) } else { asked }
    }
}

/// Files and folders beside those that a configuration names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    /// Read again at a reload.
    pub read: Vec<PathBuf>,
    /// Written to.
    pub write: Vec<PathBuf>,
    /// Folders that it alone writes, and reads what it has written there.
    pub own: Vec<PathBuf>,
}

impl Beside {
    /// Of a front door, which reads what its arguments name, and in the place of the API firewall a file in the working directory.
    pub fn of_arguments(arguments: &[std::ffi::OsString]) -> Beside {
        let texts = arguments.iter().filter_map(|argument| argument.to_str());
        let values = texts.flat_map(|text| [Some(text), text.split_once('=').map(|(_, value)| value)]);
        let named = values.flatten().chain(["apifw.yaml"]).map(PathBuf::from).filter(|path| path.exists());
        Beside { read: named.collect(), ..Beside::default() }
    }
}

/// Has a role read everything again, as a request of the admin side does; none while an upgrade is under way. Waits until that is done.
pub type Reloader = Box<dyn Fn() -> Option<Result<Reloaded, Vec<String>>> + Send + Sync>;

/// How a role is started.
pub struct Plan<P, S> {
    /// What the process does to itself before there is any other thread, and the start of its diagnostics.
    pub prepare: P,
    /// What to watch. Watched before it is read, so that no change falls between.
    pub watched: Watched,
    /// How often it is read without a reason.
    pub period: Duration,
    /// Reads everything and starts to serve.
    pub start: S,
    /// How far it shuts itself in, and whoever takes over from it at the least.
    pub sandbox: SandboxMode,
}

/// How far this process has to shut itself in, because the one that it takes over from has.
pub fn floor() -> SandboxMode {
    let demanded = std::env::var(launcher::FLOOR).ok().and_then(|name| SandboxMode::named(&name));
    demanded.filter(|_| std::env::var_os(launcher::MARK).is_some()).unwrap_or(SandboxMode::Off)
}

/// Starts a role and runs it until it is told to end: 0 if it drained, 1 if it could not start or connections had to be closed. `serving` is
/// called once when it serves, on the main thread's runtime; what it gives is kept until the end.
pub fn run<R: Role, T, D>(
    origin: Origin,
    plan: Plan<impl FnOnce() -> Result<D, Vec<String>>, impl FnOnce(&mut Inherited, State) -> Result<R, Vec<String>>>,
    serving: impl FnOnce(&Arc<R>, Reloader) -> T,
) -> ExitCode {
    // As the program is called now: the file behind the name may be another one by the time of an upgrade, and is to be.
    let program = handover::program();
    // Before anything else is opened, so that no descriptor can be taken for one of these.
    let (predecessor, managed) = match (Predecessor::meet(), Inherited::from_manager()) {
        (Ok(predecessor), Ok(managed)) => (predecessor, managed),
        (Err(problem), _) => return say_problems(&[problem]),
        (_, Err(problems)) => return say_problems(&problems),
    };
    // Before a signal is caught, a file is read or a thread is made: it is to have nothing of ours.
    let launcher = launch::<R>(program);
    // At once, or a signal that comes while we start would end us instead of being obeyed.
    let (runtime, mut signals) = match signals::catch() {
        Ok(caught) => caught,
        Err(error) => {
            complain!("error: cannot wait for signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    systemd::prepare();
    let started = (plan.prepare)().and_then(|diagnostics| {
        // Before anything that a stranger sent is read.
        if let Ok(launcher) = &launcher {
            // If it is gone, nothing is started any more.
            let _ = launcher.keep_sandbox(plan.sandbox);
        }
        let changes = Changes::watch(plan.watched, plan.period);
        let upgrades = Upgrades::new(launcher);
        let (role, admin) = begin(predecessor.as_ref(), managed, plan.start, origin.control, &upgrades, &runtime)?;
        Ok((role, admin, changes, upgrades, diagnostics))
    });
    let (role, mut admin, changes, mut upgrades, _diagnostics) = match started {
        Ok(started) => started,
        Err(problems) => {
            predecessor.iter().for_each(|predecessor| predecessor.failed(&problems));
            return say_problems(&problems);
        }
    };
    match &predecessor {
        // It says so in our place, as long as it is the main process.
        Some(predecessor) => predecessor.serving(),
        None => systemd::ready(&systemd::outcome(role.generation(), &[])),
    }
    drop(predecessor);
    let successor = runtime.block_on(async {
        let _serving = serving(&role, reloader(&role, &upgrades));
        let files = (origin.watched.as_deref(), origin.remade);
        let watchdog = systemd::watchdog().map(|period| tokio::task::spawn_local(watch(Arc::clone(&role), period)));
        let successor = serve(&mut signals, changes, files, &mut admin, &mut upgrades, &role).await;
        // The service manager looks at the new process now.
        watchdog.iter().filter(|_| successor.is_some()).for_each(|watchdog| watchdog.abort());
        drain(&mut signals, admin, &*role, (&upgrades, successor)).await;
        successor
    });
    let connections = role.stop();
    if connections > 0 {
        tracing::warn!(connections, "connections were still open and have been closed");
    }
    let has_failed = match successor {
        Some(_) if net::process::is_first() => !runtime.block_on(outlive(&mut signals, &upgrades)),
        _ => connections > 0,
    };
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Begins the process that starts the program again, if this role has upgrades; why there are none.
fn launch<R: Role>(program: std::io::Result<launcher::Program>) -> Result<Launcher, String> {
    match (R::HANDS_OVER, program) {
        (false, _) => Err("this server has no upgrades".to_owned()),
        (true, Err(error)) => Err(format!("the program's name: {error}")),
        (true, Ok(program)) => {
            Launcher::begin(&program).map_err(|error| format!("nothing starts the program: {error}"))
        }
    }
}

/// Stays, being a container's first process, with which the kernel would end all others, until those that took over have ended. Says whether they ended well.
async fn outlive(signals: &mut Signals, upgrades: &Upgrades) -> bool {
    tracing::info!("drained; this process stays, since the container would end with it");
    let mut tick = tokio::time::interval(SUPERVISION);
    loop {
        tokio::select! {
            () = signals::either(&mut signals.terminate, &mut signals.interrupt) => upgrades.pass_on(Passed::Terminate),
            Some(()) = signals.hangup.recv() => upgrades.pass_on(Passed::HangUp),
            Some(()) = signals.reopen.recv() => upgrades.pass_on(Passed::ReopenLogs),
            _ = tick.tick() => match upgrades.rest() {
                None => {}
                Some(None) => return true,
                Some(Some(problem)) => {
                    tracing::error!("a process that took over has failed: {problem}");
                    return false;
                }
            },
        }
    }
}

/// Loads and binds everything, and serves when the process that this one takes over from says so.
fn begin<R: Role>(
    predecessor: Option<&Predecessor>,
    managed: Inherited,
    start: impl FnOnce(&mut Inherited, State) -> Result<R, Vec<String>>,
    control: Control,
    upgrades: &Upgrades,
    runtime: &tokio::runtime::LocalRuntime,
) -> Result<(Arc<R>, AdminSide), Vec<String>> {
    let Inheritance { mut sockets, state } = match predecessor {
        Some(predecessor) => predecessor.inheritance()?,
        None => Inheritance { sockets: managed, state: State::default() },
    };
    let role = Arc::new(start(&mut sockets, state)?);
    let mut admin = admin_side::Bound::new(&*role, control, &mut sockets).map_err(|problem| vec![problem])?;
    sockets.all_taken()?;
    predecessor.map_or(Ok(()), |predecessor| predecessor.may_serve(|counts| role.go_on_counting(&counts)))?;
    if role.seal()? {
        admin.stay();
    }
    role.serve()?;
    let until = Instant::now() + START_TIMEOUT;
    runtime.block_on(async {
        while !role.is_serving() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    if !role.is_serving() {
        // Whoever waits for this process must not hear that it serves.
        return Err(vec![format!("the workers do not serve after {} s", START_TIMEOUT.as_secs())]);
    }
    let admin = admin.serve(&role, upgrades).map_err(|problem| vec![problem])?;
    // What a configuration that has changed listens on no more.
    sockets.discard();
    Ok((role, admin))
}

/// What whoever looks after a role has it reloaded by.
fn reloader<R: Role>(role: &Arc<R>, upgrades: &Upgrades) -> Reloader {
    let (role, turns) = (Arc::clone(role), upgrades.turns());
    Box::new(move || {
        let _turn = turns.for_reload().ok()?;
        Some(announced(&*role, Reload::All).and_then(|reloaded| reloaded.ok_or_else(Vec::new)))
    })
}

/// Says why this process does not start.
fn say_problems(problems: &[String]) -> ExitCode {
    problems.iter().for_each(|problem| complain!("error: {problem}"));
    ExitCode::FAILURE
}

/// Says why this process does not start, also to the one that it was to take over from.
pub fn reject(problems: &config::Problems) -> ExitCode {
    complain!("{problems}");
    if let Ok(Some(predecessor)) = Predecessor::meet() {
        predecessor.failed(&problems.list().iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    ExitCode::FAILURE
}

/// Gives the service manager signs of life.
async fn watch<R: Role>(role: Arc<R>, period: Duration) {
    let (mut watchdog, mut tick) = (systemd::Watchdog::default(), tokio::time::interval(period));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        watchdog.look(role.beats());
    }
}

/// Serves signals, file changes, periods and upgrades until SIGTERM or SIGINT, or until another process serves: its number.
async fn serve<R: Role>(
    signals: &mut Signals,
    mut changes: Changes,
    (file, remade): (Option<&Path>, Option<Duration>),
    admin: &mut AdminSide,
    upgrades: &mut Upgrades,
    role: &Arc<R>,
) -> Option<u32> {
    let reported = Reported::default();
    let mut generation = role.generation();
    let mut supervision = tokio::time::interval(SUPERVISION);
    let mut remaking = remade.map(|period| tokio::time::interval_at(Instant::now() + period, period));
    loop {
        let may_reload = !upgrades.is_running();
        tokio::select! {
            Some(()) = signals.terminate.recv() => break,
            Some(()) = signals.interrupt.recv() => break,
            request = upgrades.next() => match request {
                upgrades::News::Asked(reply) => upgrades.begin(reply, || offer(&**role, admin)),
                upgrades::News::Ended(Ok(pid)) => {
                    systemd::handed_over(pid);
                    // It may have read the file before that changed, and watched it after.
                    if changes.is_pending() {
                        upgrades.pass_hangup_on(pid);
                    }
                    return Some(pid);
                }
                upgrades::News::Ended(Err(problems)) => upgrade_failed(&**role, &problems),
            },
            Some(()) = signals.hangup.recv(), if may_reload => begin_reload(role, upgrades, Reload::All, "SIGHUP", None),
            Some(()) = signals.reopen.recv() => role.reopen_logs(),
            (news, reason) = changes.next(), if may_reload => {
                if news.configuration {
                    begin_reload(role, upgrades, Reload::IfChanged, "configuration changed", Some(Rc::clone(&reported)));
                }
                if news.named {
                    begin_reload(role, upgrades, Reload::Named, reason, None);
                }
            }
            () = next_tick(&mut remaking), if may_reload => {
                begin_reload(role, upgrades, Reload::IfChanged, "period", Some(Rc::clone(&reported)));
            }
            _ = supervision.tick() => {
                role.supervise();
                upgrades.supervise();
                if role.generation() != generation {
                    generation = role.generation();
                    changes.follow(role.watched(file), role.period());
                    admin.follow(role, upgrades);
                }
            }
        }
    }
    upgrades.cancel().await;
    None
}

/// Everything that another process needs to take over.
fn offer<R: Role>(role: &R, admin: &AdminSide) -> Result<Belongings, Vec<String>> {
    let mut belongings = role.belongings()?;
    belongings.sockets.extend(admin.pass());
    Ok(belongings)
}

/// Reports that no other process took over.
fn upgrade_failed(role: &impl Role, problems: &[String]) {
    problems.iter().for_each(|problem| tracing::error!("upgrade failed, this process goes on: {problem}"));
    systemd::ready(&systemd::upgrade_failed(role.generation(), problems));
}

/// The next tick, if there is ever one.
async fn next_tick(interval: &mut Option<tokio::time::Interval>) {
    match interval {
        Some(interval) => _ = interval.tick().await,
        None => std::future::pending().await,
    }
}

/// Problems that were logged last, so that a broken file is reported once and not with each touch of it.
type Reported = Rc<RefCell<Vec<String>>>;

/// Reloads off this thread, so that signals are obeyed meanwhile.
fn begin_reload<R: Role>(
    role: &Arc<R>,
    upgrades: &Upgrades,
    what: Reload,
    reason: &'static str,
    reported: Option<Reported>,
) {
    match upgrades.turns().for_reload() {
        Ok(turn) => {
            let reload = reload(Arc::clone(role), what, reason, reported);
            tokio::task::spawn_local(async move {
                reload.await;
                drop(turn);
            });
        }
        Err(problems) => problems.iter().for_each(|problem| tracing::error!(reason, "reload rejected: {problem}")),
    }
}

async fn reload<R: Role>(role: Arc<R>, what: Reload, reason: &'static str, reported: Option<Reported>) {
    let outcome = tokio::task::spawn_blocking(move || announced(&*role, what)).await;
    let problems = match outcome {
        Ok(Ok(Some(Reloaded { generation, .. }))) => {
            tracing::info!(generation, reason, "reloaded");
            Vec::new()
        }
        Ok(Ok(None)) => Vec::new(),
        Ok(Err(problems)) => problems,
        Err(error) => vec![error.to_string()],
    };
    if reported.as_ref().is_none_or(|reported| *reported.borrow() != problems) {
        for problem in &problems {
            tracing::error!(reason, "reload rejected, the active configuration stays: {problem}");
        }
    }
    if let Some(reported) = reported {
        *reported.borrow_mut() = problems;
    }
}

/// Reloads, and tells systemd of it.
fn announced(role: &impl Role, what: Reload) -> Result<Option<Reloaded>, Vec<String>> {
    systemd::reloading();
    let outcome = role.reload(what);
    let problems = outcome.as_ref().err().map_or(&[][..], Vec::as_slice);
    systemd::ready(&systemd::outcome(role.generation(), problems));
    outcome
}

/// Shuts down in order: not ready, no longer accepting, until nothing is open, `drain_timeout` is over, or another signal says to end now. If `successor`
/// accepts in our place, what is open is all that is left, and a first signal may be meant for it.
async fn drain(
    signals: &mut Signals,
    admin: AdminSide,
    role: &impl Role,
    (upgrades, successor): (&Upgrades, Option<u32>),
) {
    let (delay, timeout) = role.drain_times();
    let (delay, timeout, admin) = match successor {
        None => {
            role.leave();
            systemd::stopping("draining");
            (delay, timeout, Some(admin))
        }
        Some(successor) => {
            tracing::info!(successor, "handed over to another process");
            // First, or a check of readiness would find the one that is not.
            admin.hand_over(|| upgrades.report(successor));
            role.hand_over();
            let rest = REST_AFTER_UPGRADE.min(timeout / 2);
            (rest, timeout - rest, None)
        }
    };
    let is_over = async |until: Instant| {
        while role.open() > 0 && Instant::now() < until {
            tokio::time::sleep(DRAIN_POLL).await;
        }
    };
    tracing::info!(
        delay_seconds = delay.as_secs_f64(),
        timeout_seconds = timeout.as_secs_f64(),
        "draining; another SIGTERM or SIGINT ends at once"
    );
    let stages = async {
        match successor {
            Some(_) => is_over(Instant::now() + delay).await,
            None => tokio::time::sleep(delay).await,
        }
        role.stop_accepting();
        // Its address, too: the next process has the same configuration.
        drop(admin);
        is_over(Instant::now() + timeout).await;
    };
    let mut stages = std::pin::pin!(stages);
    let mut is_for_us = successor.is_none();
    // A container's engine knows its first process alone.
    let pass_on = || {
        if successor.is_some() && net::process::is_first() {
            upgrades.pass_on(Passed::Terminate)
        }
    };
    loop {
        tokio::select! {
            biased;
            // First: one that came during the upgrade is passed on even if nothing is open here.
            Some(()) = signals.hangup.recv() => match successor {
                Some(successor) => upgrades.pass_hangup_on(successor),
                None => tracing::warn!("SIGHUP: nothing is loaded while the server shuts down"),
            },
            () = signals::either(&mut signals.terminate, &mut signals.interrupt) => {
                pass_on();
                if std::mem::replace(&mut is_for_us, true) { break }
            }
            Some(()) = signals.reopen.recv() => role.reopen_logs(),
            () = &mut stages => return,
        }
    }
    tracing::warn!("a second signal: ending now");
    role.stop_accepting();
}

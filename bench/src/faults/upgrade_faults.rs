//! Upgrades of the gate's program under load: twenty that succeed, and `kill -9` of either process at each step of one.
//!
//! Processes are held at a step by stopping the one that has the next word (SIGSTOP), so that each step is met and not only hoped for. What a killed process
//! had open ends with it, and its last log lines: both are counted apart, by the time of the kill. A new process that is killed once the old one has left
//! accepting to it is the fault of another row.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::{Load, PATIENCE, Plan};
use super::ledger::{Asked, Decision, Outcome};
use super::processes::{end, has_thread, is_alive, launcher_of, signal, started_by};
use super::site::{Site, Wish};
use super::tunnels::{Tunnels, echo_server};
use super::{Context, Found, percentile};
use crate::peers::pause;

const UPGRADES: u32 = 20;

/// WebSockets opened before each upgrade; all of them must still echo after the last.
const TUNNELS_PER_UPGRADE: usize = 5;

/// WebSockets opened before each kill of an old process, and as many with the process that serves then.
const TUNNELS_PER_KILL: usize = 20;

/// How long the program waits in [`Program::delay`], for something to happen meanwhile.
const DELAY: Duration = Duration::from_millis(400);

/// How long a process may take to read what lies ready for it, and to say its own next word.
const WORD: Duration = Duration::from_millis(200);

/// How long the line of a request may lie in the memory of its process.
const LOG_LAG: Duration = Duration::from_secs(1);

/// What processes say at each step.
const GIVEN: &str = "has been given everything";
const READY: &str = "waits for leave to serve";
const ACCEPTING: &str = "admin listening";

/// The program under a name of our own, so that another one can be put behind it.
struct Program {
    folder: tempfile::TempDir,
    real: PathBuf,
}

impl Program {
    fn new(real: &Path) -> io::Result<Program> {
        // Absolute, since links to it lie elsewhere.
        let program = Program { folder: tempfile::tempdir()?, real: fs::canonicalize(real)? };
        program.restore()?;
        Ok(program)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("portunus")
    }

    fn restore(&self) -> io::Result<()> {
        let fresh = self.folder.path().join("fresh");
        symlink(&self.real, &fresh)?;
        fs::rename(fresh, self.path())
    }

    /// From now on it waits before it begins.
    fn delay(&self) -> io::Result<()> {
        let fresh = self.folder.path().join("fresh");
        let script = format!("#!/bin/sh\nsleep {}\nexec {} \"$@\"\n", DELAY.as_secs_f64(), self.real.display());
        fs::write(&fresh, script)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
        fs::rename(fresh, self.path())
    }
}

/// How far an upgrade has come when one of its processes is killed. In all of them the old process has not left accepting to the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The new process has just been made.
    Started,
    /// It has read its configuration, and reads what it is given.
    Diagnostics,
    /// It has everything, and loads.
    Log,
    /// It could serve, and nobody has allowed it to.
    Ready,
    /// It may serve, and does not know it yet.
    Go,
    /// It accepts connections, as the old one does, which does not know it yet.
    Accepting,
}

impl Step {
    const ALL: [Step; 6] = [Step::Started, Step::Diagnostics, Step::Log, Step::Ready, Step::Go, Step::Accepting];

    /// Whether processes have to be stopped in order to be met at it, before which the new one must not have begun.
    fn is_held(self) -> bool {
        matches!(self, Step::Ready | Step::Go | Step::Accepting)
    }
}

/// An upgrade under way.
struct Upgrading<'s> {
    site: &'s Site,
    old: u32,
    new: u32,
    /// How often each word had been said before.
    said: [(&'static str, usize); 3],
}

impl<'s> Upgrading<'s> {
    /// Waits for the new process.
    fn of(site: &'s Site, old: u32, said: [(&'static str, usize); 3]) -> io::Result<Upgrading<'s>> {
        Ok(Upgrading { site, old, new: started_by(old)?, said })
    }

    fn said(site: &Site) -> [(&'static str, usize); 3] {
        let text = site.diagnostics();
        [GIVEN, READY, ACCEPTING].map(|word| (word, text.matches(word).count()))
    }

    /// Waits until this is said once more, as long as the new process lives.
    fn wait_for(&self, word: &str) -> io::Result<()> {
        let before = self.said.iter().find(|(said, _)| *said == word).map_or(0, |(_, count)| *count);
        let until = Instant::now() + PATIENCE;
        while self.site.diagnostics().matches(word).count() <= before {
            if Instant::now() > until || !is_alive(self.new) {
                return Err(io::Error::other(format!("nobody says \"{word}\"")));
            }
            pause(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Leads it to this step. Who has the next word is stopped then, where that can be.
    fn lead_to(&self, step: Step) -> io::Result<()> {
        let until_thread = |name: &str| {
            while !has_thread(self.new, name) && is_alive(self.new) {
                std::hint::spin_loop();
            }
        };
        match step {
            Step::Started => {}
            Step::Diagnostics => until_thread("diagnostics"),
            Step::Log => until_thread("access-log"),
            Step::Ready => {
                self.wait_for(GIVEN)?;
                signal(self.old, Signal::STOP);
                self.wait_for(READY)?;
            }
            Step::Go => {
                self.lead_to(Step::Ready)?;
                signal(self.new, Signal::STOP);
                signal(self.old, Signal::CONT);
                pause(WORD);
            }
            Step::Accepting => {
                self.lead_to(Step::Go)?;
                signal(self.old, Signal::STOP);
                signal(self.new, Signal::CONT);
                self.wait_for(ACCEPTING)?;
                pause(WORD);
            }
        }
        Ok(())
    }
}

/// When processes were killed, since the start of the load.
#[derive(Debug, Default)]
struct Kills(Vec<Killed>);

#[derive(Debug)]
struct Killed {
    /// When it had its last chance to write its log: it was stopped then, or later.
    held: Duration,
    at: Duration,
    gone: Duration,
}

impl Kills {
    /// `kill -9`, and waits for its end.
    fn kill(&mut self, pid: u32, held: Duration, load: &Load) {
        let at = load.started.elapsed();
        let until = Instant::now() + PATIENCE;
        signal(pid, Signal::KILL);
        while is_alive(pid) && Instant::now() < until {
            pause(Duration::from_millis(1));
        }
        self.0.push(Killed { held, at, gone: load.started.elapsed() });
    }

    /// Whether a request was open when a process was killed.
    fn met(&self, asked: &Asked) -> bool {
        self.0.iter().any(|killed| asked.began <= killed.gone && asked.began + asked.took >= killed.at)
    }

    /// Whether its line may have been lost with a process.
    fn may_have_lost(&self, asked: &Asked) -> bool {
        self.0.iter().any(|killed| asked.began <= killed.gone && asked.began + asked.took + LOG_LAG >= killed.held)
    }
}

/// What is kept while processes come and go.
struct Scene {
    program: Program,
    site: Site,
    load: Load,
    /// All that have served, the one that does last.
    processes: Vec<u32>,
    tunnels: Tunnels,
    kills: Kills,
    /// What was not as it must be.
    wrong: Vec<String>,
}

impl Scene {
    fn start(context: &Context, is_activated: bool, pace: Option<Duration>) -> io::Result<Scene> {
        let program = Program::new(&context.portunus)?;
        let wish = Wish { echo: Some(echo_server()?), is_activated, ..Wish::default() };
        let site = Site::start(&program.path(), wish)?;
        let plan = Plan::usual(site.plain());
        let load = Load::start(Plan { pace: pace.unwrap_or(plan.pace), ..plan });
        let (processes, tunnels) = (vec![site.gate.id()], Tunnels::default());
        Ok(Scene { program, site, load, processes, tunnels, kills: Kills::default(), wrong: Vec::new() })
    }

    fn serving(&self) -> u32 {
        self.processes.last().copied().unwrap_or_default()
    }

    fn open_tunnels(&mut self, count: usize) -> io::Result<()> {
        self.tunnels.open(count, self.site.plain(), self.serving())
    }

    /// Upgrades, as often as it takes within our patience: a process that was just left alone may not respond yet.
    fn upgrade(&mut self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            match upgrade(&self.site) {
                Ok(pid) => {
                    self.processes.push(pid);
                    return Ok(());
                }
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => pause(Duration::from_millis(20)),
            }
        }
    }

    /// Begins an upgrade and kills the new process at this step: the old one must go on.
    fn kill_new(&mut self, step: Step) -> io::Result<()> {
        if step.is_held() {
            self.program.delay()?;
        }
        let (site, old, said) = (&self.site, self.serving(), Upgrading::said(&self.site));
        let (kills, load, held) = (&mut self.kills, &self.load, self.load.started.elapsed());
        let answered = std::thread::scope(|scope| {
            let asking = scope.spawn(|| site.admin_within("POST", "/upgrade", PATIENCE));
            let upgrading = Upgrading::of(site, old, said)?;
            let led = upgrading.lead_to(step);
            kills.kill(upgrading.new, held, load);
            signal(old, Signal::CONT);
            led?;
            asking.join().map_err(|_| io::Error::other("asking panicked"))?
        });
        self.program.restore()?;
        match answered {
            Ok((422, _)) => Ok(()),
            Ok((status, body)) => {
                Err(io::Error::other(format!("killed at {step:?}, and the upgrade responded {status}: {body}")))
            }
            Err(error) => Err(io::Error::other(format!("killed at {step:?}: {error}"))),
        }
    }

    /// Begins an upgrade and kills the old process at this step: the new one must serve.
    fn kill_old(&mut self, step: Step) -> io::Result<()> {
        self.program.delay()?;
        let (site, old, said) = (&self.site, self.serving(), Upgrading::said(&self.site));
        let (kills, load, held) = (&mut self.kills, &self.load, self.load.started.elapsed());
        let new = std::thread::scope(|scope| {
            // Nobody is there any more to respond.
            let asking = scope.spawn(|| drop(site.admin_within("POST", "/upgrade", PATIENCE)));
            let upgrading = Upgrading::of(site, old, said)?;
            let led = match step {
                Step::Started | Step::Diagnostics | Step::Log => upgrading.wait_for(GIVEN),
                step => upgrading.lead_to(step),
            };
            kills.kill(old, held, load);
            signal(upgrading.new, Signal::CONT);
            let _ = asking.join();
            led.map(|()| upgrading.new)
        });
        self.program.restore()?;
        self.processes.push(new?);
        Ok(())
    }

    /// Kills the process that serves when it has been asked for an upgrade and has not handed over anything. Nobody serves then but whom a service manager starts, with
    /// the sockets that it has.
    fn kill_old_before_anything(&mut self) -> io::Result<()> {
        let (site, old) = (&self.site, self.serving());
        let launcher = launcher_of(old)?;
        let (kills, load, held) = (&mut self.kills, &self.load, self.load.started.elapsed());
        signal(launcher, Signal::STOP);
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| drop(site.admin_within("POST", "/upgrade", PATIENCE)));
            pause(WORD);
            kills.kill(old, held, load);
            signal(launcher, Signal::CONT);
            let _ = asking.join();
        });
        self.site.start_again(&self.program.path())?;
        self.processes.push(self.site.gate.id());
        Ok(())
    }

    /// Kills the process that drains after an upgrade.
    fn kill_draining(&mut self) -> io::Result<()> {
        let draining = self.serving();
        self.upgrade()?;
        self.kills.kill(draining, self.load.started.elapsed(), &self.load);
        Ok(())
    }

    /// What was open in a process that was killed is gone; all else must be as it was.
    fn check_tunnels(&mut self, killed: u32) -> usize {
        let cut = self.tunnels.forget(killed);
        let (open, echoing) = (self.tunnels.len(), self.tunnels.echoing());
        if echoing != open {
            self.wrong.push(format!("only {echoing} of {open} WebSockets of other processes echo"));
        }
        cut
    }

    /// Ends everything and joins the ledgers.
    fn finish(self, mut notes: Vec<String>) -> io::Result<Found> {
        let Scene { site, load, processes, tunnels, kills, mut wrong, .. } = self;
        let asked = load.finish();
        drop(tunnels);
        end(&processes)?;
        let decision = site.join_log(&asked, &|one| kills.may_have_lost(one))?;
        notes.push(failures(&asked, &kills, &decision));
        wrong.truncate(3);
        notes.extend(wrong);
        Ok(Found { decision, notes })
    }
}

/// Twenty upgrades, before each of which a new process is killed at another step.
pub(super) fn upgrades(context: &Context) -> io::Result<Found> {
    let mut scene = Scene::start(context, false, Some(Duration::ZERO))?;
    let (mut took, mut killed) = (Vec::new(), 0);
    for turn in 0..UPGRADES {
        scene.open_tunnels(TUNNELS_PER_UPGRADE)?;
        let text = scene.site.config("").replace("workers: 2", &format!("workers: {}", 1 + turn % 3));
        scene.site.write_config(&text)?;
        match scene.kill_new(Step::ALL[turn as usize % Step::ALL.len()]) {
            Ok(()) => killed += 1,
            Err(error) => scene.wrong.push(error.to_string()),
        }
        let at = Instant::now();
        scene.upgrade()?;
        took.push(at.elapsed());
        pause(context.time / UPGRADES);
    }
    let (opened, echoing) = (scene.tunnels.len(), scene.tunnels.echoing());
    let alive = scene.processes.iter().filter(|pid| is_alive(**pid)).count();
    let notes = vec![
        format!(
            "{UPGRADES} upgrades, p50 {:.1?} until the new process served; {killed} new processes killed before (aim {UPGRADES})",
            percentile(took.iter().copied(), 0.5)
        ),
        format!(
            "{echoing} of {opened} WebSockets echo after the last (aim all); {alive} processes then, one per upgrade with WebSockets of its own"
        ),
    ];
    scene.finish(notes)
}

/// The old process is killed at each step of an upgrade and while it drains.
pub(super) fn killed_old(context: &Context) -> io::Result<Found> {
    type Kill = fn(&mut Scene) -> io::Result<()>;
    const KILLS: [(&str, Kill); 6] = [
        ("before it has handed over anything", Scene::kill_old_before_anything),
        ("when it has handed over everything", |scene| scene.kill_old(Step::Started)),
        ("when the new one is ready", |scene| scene.kill_old(Step::Ready)),
        ("when the new one may serve", |scene| scene.kill_old(Step::Go)),
        ("when the new one accepts", |scene| scene.kill_old(Step::Accepting)),
        ("while it drains", Scene::kill_draining),
    ];
    let turn = context.time / u32::try_from(KILLS.len()).unwrap_or(1);
    let mut scene = Scene::start(context, true, None)?;
    let (mut cut, mut killed) = (0, 0);
    for (step, kill) in KILLS {
        scene.open_tunnels(TUNNELS_PER_KILL)?;
        pause(turn / 2);
        let serving = scene.serving();
        match kill(&mut scene) {
            Ok(()) => killed += 1,
            Err(error) => scene.wrong.push(format!("killed {step}: {error}")),
        }
        cut += scene.check_tunnels(serving);
        // Who serves now is able to be upgraded in turn; what it has open stays in it.
        scene.open_tunnels(TUNNELS_PER_KILL)?;
        scene.upgrade()?;
        pause(turn / 2);
    }
    let (open, echoing) = (scene.tunnels.len(), scene.tunnels.echoing());
    let notes = vec![
        format!("{killed} old processes killed at {} steps", KILLS.len()),
        format!(
            "{echoing} of {open} WebSockets of other processes echo after the last (aim all); {cut} were in those that were killed"
        ),
    ];
    scene.finish(notes)
}

fn failures(asked: &[Asked], kills: &Kills, decision: &Decision) -> String {
    let failed = || asked.iter().filter(|one| !one.is_ok());
    let refused = failed().filter(|one| one.outcome == Outcome::Rejected).count();
    let inside = failed().filter(|one| one.outcome != Outcome::Rejected && kills.met(one)).count();
    format!(
        "{refused} connects refused (aim 0), {} other requests not OK (aim 0) but {inside} that were open when a process was killed; {} lines of the log lost with those processes",
        failed().count() - refused - inside,
        decision.excused
    )
}

/// Upgrades; gives the number of the process that serves now.
fn upgrade(site: &Site) -> io::Result<u32> {
    let (status, body) = site.admin_within("POST", "/upgrade", PATIENCE)?;
    let account: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    let pid = account["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    pid.filter(|_| status == 200).ok_or_else(|| io::Error::other(format!("the upgrade was answered {status}: {body}")))
}

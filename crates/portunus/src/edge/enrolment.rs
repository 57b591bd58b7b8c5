//! Client certificates for key servers that the edge renews itself: after two thirds of their lifetime, with the certificate that is there.
//!
//! Times are compared with the wall clock, not slept for. What is renewed is written into the folder of the group, which is watched: it is loaded as any
//! other file, and the connections of before end with their last operation.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use config::{ENROLLED_IDENTITY, KeyServersConfig, ServerAddress};
use proxy::generation::Generation;
use telemetry::{EnrolmentStanding, Reporter};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::enrolment::{self, Server};

/// How often what is due is looked for.
const TICK: Duration = Duration::from_millis(500);

/// After the first try that failed, and at most: doubled with each, half to one and a half of it.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// See [`FIRST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What is amiss, a line each.
pub(super) type Concerns = Arc<Mutex<Vec<String>>>;

/// Renews for whatever generation is active, until it is dropped.
pub(super) async fn run(generations: Arc<ArcSwap<Generation>>, reporter: Arc<Reporter>, concerns: Concerns) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut keepers: BTreeMap<String, Keeper> = BTreeMap::new();
    loop {
        tick.tick().await;
        let generation = generations.load_full();
        let groups = &generation.config.key_servers;
        let enrolled = |name: &String| groups.get(name).is_some_and(|group| group.enrolment.is_some());
        let had_some = !keepers.is_empty();
        keepers.retain(|name, _| enrolled(name));
        for (name, group) in groups {
            if let Some(folder) = &group.enrolment {
                let keeper = keepers.entry(name.clone()).or_insert_with(|| Keeper::of(folder.clone()));
                keeper.turn(name, group, folder).await;
            }
        }
        if had_some || !keepers.is_empty() {
            let now = SystemTime::now();
            let lines = keepers.iter().filter_map(|(name, keeper)| keeper.concern(name, now)).collect();
            *concerns.lock().unwrap_or_else(PoisonError::into_inner) = lines;
            let standings = keepers.iter().filter_map(|(name, keeper)| Some((name.clone(), keeper.standing()?)));
            reporter.enrolments(standings.collect());
        }
    }
}

/// Looks after the certificate of one group.
struct Keeper {
    folder: PathBuf,
    /// The certificate, and when its file was written.
    held: Option<(Held, SystemTime)>,
    renewals: u64,
    failures: u64,
    /// It was renewed, and is left alone until then whatever the clock says.
    rests_until: Option<Instant>,
    /// The last try failed: why, how many in a row, and when to try again.
    failing: Option<(String, u32, Instant)>,
    running: Option<JoinHandle<Result<(), String>>>,
}

/// When a certificate is renewed.
struct Held {
    due: SystemTime,
    not_after: SystemTime,
    lifetime: Duration,
}

impl Held {
    /// After two thirds, less up to a twentieth, so that nodes that were enrolled together do not renew together.
    fn of(not_before: SystemTime, not_after: SystemTime) -> Held {
        let lifetime = not_after.duration_since(not_before).unwrap_or_default();
        let share = 2.0 / 3.0 - fastrand::f32() / 20.0;
        Held { due: not_before + lifetime.mul_f32(share), not_after, lifetime }
    }
}

impl Keeper {
    fn of(folder: PathBuf) -> Keeper {
        Keeper { folder, held: None, renewals: 0, failures: 0, rests_until: None, failing: None, running: None }
    }

    async fn turn(&mut self, name: &str, group: &KeyServersConfig, folder: &PathBuf) {
        if self.folder != *folder {
            *self = Keeper::of(folder.clone());
        }
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            self.note(name, running.await.unwrap_or_else(|error| Err(error.to_string())));
        }
        self.look();
        let Some((held, _)) = &self.held else { return };
        let until = self.failing.as_ref().map(|(_, _, again)| *again).max(self.rests_until);
        let is_paused = until.is_some_and(|until| Instant::now() < until);
        if self.running.is_some() || is_paused || SystemTime::now() < held.due {
            return;
        }
        let (servers, folder) = (servers(group), folder.clone());
        self.running = Some(tokio::task::spawn_blocking(move || renew(&servers, &folder)));
    }

    /// Reads the certificate if it is another one than before: also one that somebody has enrolled for anew.
    fn look(&mut self) {
        let path = self.folder.join(ENROLLED_IDENTITY);
        let written = std::fs::metadata(path).and_then(|found| found.modified()).ok();
        if written == self.held.as_ref().map(|(_, written)| *written) {
            return;
        }
        let read = enrolment::certificate(&self.folder).ok().zip(written);
        self.held =
            read.map(|(certificate, written)| (Held::of(certificate.not_before(), certificate.not_after()), written));
        self.failing = None;
    }

    fn note(&mut self, name: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                self.renewals += 1;
                self.failing = None;
                // A clock that is far ahead would have it renewed again at once.
                self.rests_until = self.held.as_ref().map(|(held, _)| Instant::now() + held.lifetime / 10);
                tracing::info!(group = name, "client certificate for key servers renewed");
            }
            Err(problem) => {
                self.failures += 1;
                let before = self.failing.as_ref().map_or(0, |(_, count, _)| *count);
                let lifetime = self.held.as_ref().map_or(LONGEST_PAUSE, |(held, _)| held.lifetime);
                let pause = pause_after(before, lifetime).mul_f32(0.5 + fastrand::f32());
                tracing::warn!(
                    group = name,
                    retry_in_seconds = pause.as_secs_f32(),
                    "client certificate for key servers not renewed: {problem}"
                );
                self.failing = Some((problem, before + 1, Instant::now() + pause));
            }
        }
    }

    /// What an operator should know.
    fn concern(&self, name: &str, now: SystemTime) -> Option<String> {
        let (held, _) = self.held.as_ref()?;
        let Ok(left) = held.not_after.duration_since(now) else {
            return Some(format!(
                "enrolment: the client certificate for the key servers {name} has ended; have a token made there and run `portunus enrol` again"
            ));
        };
        let (problem, tries, _) = self.failing.as_ref()?;
        let hours = left.as_secs_f32() / 3600.0;
        Some(format!(
            "enrolment: the client certificate for the key servers {name} is due for renewal and ends in {hours:.1} h; {tries} tries failed, the last: {problem}"
        ))
    }

    fn standing(&self) -> Option<EnrolmentStanding> {
        let (held, _) = self.held.as_ref()?;
        Some(EnrolmentStanding { not_after: held.not_after, renewals: self.renewals, failures: self.failures })
    }
}

/// How long to wait after a try that failed, as `before` in a row did; a tenth of the lifetime at most.
fn pause_after(before: u32, lifetime: Duration) -> Duration {
    (FIRST_PAUSE * (1 << before.min(8))).min(LONGEST_PAUSE).min(lifetime / 10)
}

/// The servers of a group that may be asked: any of them may be the one that issues.
fn servers(group: &KeyServersConfig) -> Vec<Server> {
    let name = group.upstream.tls.as_ref().and_then(|tls| tls.name.clone());
    let address = |address: &ServerAddress| match address {
        ServerAddress::Ip(address) => Some((address.ip().to_string(), address.port())),
        ServerAddress::Name(name, port) => Some((name.clone(), *port)),
        ServerAddress::Service(_) | ServerAddress::Listed(_) | ServerAddress::Unix(_) => None,
    };
    let all = group.upstream.servers.iter().filter_map(|server| address(&server.address));
    all.map(|address| Server { address, name: name.clone() }).collect()
}

/// Renews at the first server that does, and keeps what came.
fn renew(servers: &[Server], folder: &std::path::Path) -> Result<(), String> {
    let mut problems = Vec::new();
    for server in servers {
        match enrolment::renew(server, folder) {
            Ok(enrolled) => return enrolled.keep(folder),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        problems.push("the group has no server on TCP".to_owned());
    }
    Err(problems.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_comes_after_about_two_thirds_and_not_for_all_at_once() {
        let (begins, day) = (SystemTime::UNIX_EPOCH, Duration::from_secs(24 * 3600));
        let dues: Vec<Duration> =
            (0..200).map(|_| Held::of(begins, begins + day).due.duration_since(begins).unwrap_or_default()).collect();
        assert!(dues.iter().all(|due| (0.61..=0.667).contains(&due.div_duration_f32(day))), "{dues:?}");
        let spread = dues.iter().max().copied().unwrap_or_default() - dues.iter().min().copied().unwrap_or_default();
        assert!(spread > day / 40, "{spread:?}");
    }

    #[test]
    fn pauses_double_and_end_well_within_the_lifetime() {
        let day = Duration::from_secs(24 * 3600);
        let pauses: Vec<u64> = (0..10).map(|before| pause_after(before, day).as_secs()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300, 300]);
        assert_eq!(pause_after(1_000_000, Duration::from_secs(10)), Duration::from_secs(1));
    }
}

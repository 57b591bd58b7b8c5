//! The old process's side of an upgrade: has the new one started, gives it sockets and state, and waits until it serves.
//!
//! ```text
//! spawned → given (sockets, state) → ready → given (counts of rates) → go → serving: handed over
//!     └────────────┴───────────────────┴──────────────────────────────┴──────┴── it failed, ended, or time is over: the new process is killed, nothing has changed here
//! ```
//!
//! Until the last word of the new process this one accepts as before, so there is nothing to undo.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use net::Channel;
use net::inherited::Passed;
use proxy::server::{Rates, State};
use tokio::task::JoinHandle;

use super::launcher::{Launcher, Program};
use super::message::{Message, SocketNote};

/// Sockets in one message.
const SOCKETS_PER_MESSAGE: usize = 32;

/// How long the new process may take to read that it is not to serve: it is ended anyway, unless the launcher has ended before.
const LAST_WORD: Duration = Duration::from_millis(200);

/// How soon one that waits for the new process notes that the upgrade is given up.
const LOOK: Duration = Duration::from_millis(50);

/// How long a shutdown waits for the new process to end. One that has not been given everything by then ends with this process.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Servers in one message.
const SERVERS_PER_MESSAGE: usize = 16;

/// How this process was started, as it was then: the file behind the name may be another by now, and is to be.
///
/// # Errors
/// The working directory or the program itself has no name.
pub fn program() -> io::Result<Program> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().map(PathBuf::from).unwrap_or_default();
    let path = if name.parent().is_some_and(|folder| !folder.as_os_str().is_empty()) {
        std::path::absolute(name)?
    } else {
        std::env::current_exe()?
    };
    Ok((path, arguments.collect()))
}

/// What the new process is given.
#[derive(Debug)]
pub struct Belongings {
    /// All listening sockets.
    pub sockets: Vec<Passed>,
    /// What it goes on with.
    pub state: State,
    /// What it is given last, so that it misses as little as can be.
    pub rates: Rates,
    /// How long it may take.
    pub timeout: Duration,
}

/// An upgrade under way.
#[derive(Debug)]
pub struct Handover {
    launcher: Arc<Launcher>,
    is_given_up: Arc<AtomicBool>,
    task: JoinHandle<Result<u32, Vec<String>>>,
}

impl Handover {
    /// Has the new process started. Waits for nobody: the launcher is asked beside, and may take its time.
    pub fn begin(launcher: &Arc<Launcher>, belongings: Belongings) -> Handover {
        let (asked, is_given_up) = (Arc::clone(launcher), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&is_given_up);
        let task = tokio::task::spawn_blocking(move || {
            let (channel, theirs) = Channel::pair().map_err(|error| vec![error.to_string()])?;
            let pid = asked.start(&theirs).map_err(|problem| vec![problem])?;
            tracing::info!(pid, "upgrade: the new process is started");
            // The other end is the new process's alone: if it ends, nobody else may hold that open.
            drop(theirs);
            let outcome = converse(&channel, belongings, &seen).and_then(|()| match asked.ended() {
                // Its last word was that it serves.
                Some(_) => Err(Failure::Gone),
                None if seen.load(Ordering::Acquire) => Err(Failure::GivenUp),
                None => Ok(pid),
            });
            outcome.map_err(|problem| {
                give_up(&channel);
                end(&asked, problem)
            })
        });
        Handover { launcher: Arc::clone(launcher), is_given_up, task }
    }

    /// Waits until it serves: the number of its process. May be dropped and called again.
    ///
    /// # Errors
    /// It cannot be started or does not serve, and has ended; why.
    pub async fn finished(&mut self) -> Result<u32, Vec<String>> {
        (&mut self.task).await.unwrap_or_else(|error| Err(vec![error.to_string()]))
    }

    /// Ends the new process, also one that is not there yet.
    pub async fn cancel(self) {
        self.is_given_up.store(true, Ordering::Release);
        // Otherwise its end was seen to, or its failure: nothing is left to do.
        if let Ok(Ok(Ok(_))) = tokio::time::timeout(LAST_WAIT, self.task).await {
            // It came to serve at this very moment.
            let _ = tokio::task::spawn_blocking(move || self.launcher.end(true)).await;
        }
    }
}

/// Why it came to nothing.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// The new process says so.
    Reported(Vec<String>),
    /// It has closed its end.
    Gone,
    /// It let the time pass, in seconds.
    Slow(u64),
    /// It says what we do not understand, or cannot be spoken to.
    Broken(String),
    /// This process ends, and so the new one is not to serve.
    GivenUp,
}

/// Says to the new process that it is not to serve. Without this word it would take this process for dead when the channel is closed.
fn give_up(channel: &Channel) {
    let word = Message::Failed(vec!["the running process has given the upgrade up".to_owned()]);
    // It may have ended.
    let _ = channel.send(&word.to_bytes(), &[], Instant::now() + LAST_WORD);
}

/// Ends the new process; says what was wrong with it.
fn end(launcher: &Launcher, failure: Failure) -> Vec<String> {
    // One that has closed its end is about to end, or does something that it was not made for.
    let status = launcher.end(failure != Failure::Gone).filter(|status| !status.is_empty());
    match failure {
        Failure::Reported(problems) => problems,
        Failure::Gone => {
            let status = status.map_or_else(String::new, |status| format!(" ({status})"));
            vec![format!("the new process ended before it served{status}; what it said is in the diagnostic log")]
        }
        Failure::Slow(seconds) => {
            vec![format!(
                "the new process did not serve within {seconds} s and was ended; limits.upgrade_timeout says how long it may take"
            )]
        }
        Failure::Broken(problem) => vec![problem],
        Failure::GivenUp => vec!["the server shuts down; the upgrade was given up".to_owned()],
    }
}

/// All that is said; nothing wrong if the new process serves.
fn converse(channel: &Channel, belongings: Belongings, is_given_up: &AtomicBool) -> Result<(), Failure> {
    let Belongings { sockets, state, rates, timeout } = belongings;
    let until = Instant::now() + timeout;
    let next =
        || next(channel, until, is_given_up).map_err(|failure| failure.unwrap_or(Failure::Slow(timeout.as_secs())));
    // What has everything serves when this process is gone.
    let may_go_on = || if is_given_up.load(Ordering::Acquire) { Err(Failure::GivenUp) } else { Ok(()) };
    may_go_on()?;
    // One that has ended may have said why: that is read below.
    let say =
        |message: &Message, descriptors: &[BorrowedFd<'_>]| say(channel, message, descriptors, (until, is_given_up));
    let given = give(&say, &sockets, state);
    drop(sockets);
    may_go_on()?;
    let given = given.and_then(|()| say(&Message::End, &[]));
    if given.is_ok() {
        tracing::info!("upgrade: the new process has been given everything");
    }
    match next()? {
        Message::Ready => given.map_err(|error| Failure::Broken(format!("sockets cannot be passed: {error}")))?,
        other => return Err(unexpected(other)),
    }
    may_go_on()?;
    // One that has ended says so below.
    let _ = rates.pass(&mut |counts| say(&Message::Rates(counts), &[]));
    may_go_on()?;
    let _ = say(&Message::Go, &[]);
    match next()? {
        Message::Serving => Ok(()),
        other => Err(unexpected(other)),
    }
}

/// Gives all that the new process goes on with, but for the word that it was all.
fn give(
    say: &impl Fn(&Message, &[BorrowedFd<'_>]) -> io::Result<()>,
    sockets: &[Passed],
    state: State,
) -> io::Result<()> {
    say(&Message::Hello, &[])?;
    for some in sockets.chunks(SOCKETS_PER_MESSAGE) {
        let descriptors: Vec<_> = some.iter().map(|passed| passed.socket.as_fd()).collect();
        say(&Message::Sockets(some.iter().map(SocketNote::of).collect()), &descriptors)?;
    }
    if let Some(tickets) = state.tickets {
        say(&Message::Tickets(tickets), &[])?;
    }
    if let Some(key) = state.sticky_key {
        say(&Message::StickyKey(key), &[])?;
    }
    // Left out where HTTP/3 is not served: programs before this one do not know it.
    if let Some(secrets) = state.quic {
        say(&Message::Quic(secrets), &[])?;
    }
    // Left out where nothing is counted, for the same reason.
    if let Some(key) = state.rate_key {
        say(&Message::RateKey(key), &[])?;
    }
    for some in state.servers.chunks(SERVERS_PER_MESSAGE) {
        say(&Message::Servers(some.to_vec()), &[])?;
    }
    // Left out where there is none: programs before this one do not know it.
    for some in state.maintenance.chunks(SERVERS_PER_MESSAGE) {
        say(&Message::Maintenance(some.to_vec()), &[])?;
    }
    Ok(())
}

/// Says something to the new process, which may be slow to read, until the time is over or the upgrade is given up.
fn say(
    channel: &Channel,
    message: &Message,
    descriptors: &[BorrowedFd<'_>],
    (until, is_given_up): (Instant, &AtomicBool),
) -> io::Result<()> {
    let bytes = message.to_bytes();
    loop {
        let look = until.min(Instant::now() + LOOK);
        match channel.send(&bytes, descriptors, look) {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    && look < until
                    && !is_given_up.load(Ordering::Acquire) => {}
            said => return said,
        }
    }
}

/// What the new process says next; an error without a failure: nothing until then.
fn next(channel: &Channel, until: Instant, is_given_up: &AtomicBool) -> Result<Message, Option<Failure>> {
    loop {
        let look = until.min(Instant::now() + LOOK);
        return match channel.receive(look) {
            Ok(Some((bytes, _))) => Message::of_bytes(&bytes).map_err(|problem| Some(Failure::Broken(problem))),
            Ok(None) => Err(Some(Failure::Gone)),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(Some(Failure::Broken(error.to_string()))),
            Err(_) if is_given_up.load(Ordering::Acquire) => Err(Some(Failure::GivenUp)),
            Err(_) if look < until => continue,
            Err(_) => Err(None),
        };
    }
}

fn unexpected(message: Message) -> Failure {
    match message {
        Message::Failed(problems) => Failure::Reported(problems),
        other => Failure::Broken(format!("the new process says {other:?} out of turn")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::supervisor::predecessor::{Inheritance, Predecessor};
    use net::inherited::Kind;
    use proxy::server::{RateCounts, UsedKey};

    fn belongings(timeout: Duration) -> Belongings {
        let socket = || Arc::new(std::os::fd::OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap()));
        let sockets = (0..70).map(|index| Passed::new(Kind::Tcp, format!("{index}"), socket())).collect();
        Belongings { sockets, state: State::default(), rates: Rates::default(), timeout }
    }

    const LONG: Duration = Duration::from_secs(20);

    /// What comes of it if the new process does this with its end.
    fn outcome(timeout: Duration, new: impl FnOnce(Channel) + Send) -> Result<(), Failure> {
        outcome_unless(&AtomicBool::new(false), timeout, new)
    }

    fn outcome_unless(
        is_given_up: &AtomicBool,
        timeout: Duration,
        new: impl FnOnce(Channel) + Send,
    ) -> Result<(), Failure> {
        let (ours, theirs) = Channel::pair().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || new(Channel::of(theirs)));
            let outcome = converse(&ours, belongings(timeout), is_given_up);
            if outcome == Err(Failure::GivenUp) {
                give_up(&ours);
            }
            // The new process waits for the end of this one.
            drop(ours);
            outcome
        })
    }

    fn receive(channel: &Channel) -> Message {
        Message::of_bytes(&channel.receive(Instant::now() + LONG).unwrap().unwrap().0).unwrap()
    }

    fn say(channel: &Channel, message: &Message) {
        channel.send(&message.to_bytes(), &[], Instant::now() + LONG).unwrap();
    }

    fn until_end(channel: &Channel) {
        while !matches!(receive(channel), Message::End) {}
    }

    #[test]
    fn the_two_sides_agree() {
        let handed = outcome(LONG, |channel| {
            let predecessor = Predecessor::over(channel);
            let Inheritance { mut sockets, .. } = predecessor.inheritance().unwrap();
            assert!((0..70).all(|index| sockets.take(Kind::Tcp, &index.to_string()).len() == 1));
            assert_eq!(predecessor.may_serve(|_| Ok(())), Ok(()));
            predecessor.serving();
        });
        assert_eq!(handed, Ok(()));
    }

    #[test]
    fn a_new_process_that_ends_at_any_step_leaves_the_old_one_as_it_was() {
        assert_eq!(outcome(LONG, drop), Err(Failure::Gone), "at once");
        assert_eq!(outcome(LONG, |channel| _ = receive(&channel)), Err(Failure::Gone), "within the sockets");
        assert_eq!(outcome(LONG, |channel| until_end(&channel)), Err(Failure::Gone), "before it is ready");
        let after_ready = |channel: Channel| {
            until_end(&channel);
            say(&channel, &Message::Ready);
        };
        assert_eq!(outcome(LONG, after_ready), Err(Failure::Gone), "before it may serve");
        let after_go = |channel: Channel| {
            until_end(&channel);
            say(&channel, &Message::Ready);
            assert!(matches!(receive(&channel), Message::Go));
        };
        assert_eq!(outcome(LONG, after_go), Err(Failure::Gone), "before it serves");
    }

    #[test]
    fn one_that_fails_hangs_or_says_nonsense_is_reported_as_such() {
        let problems = vec!["routes[0]: wrong".to_owned()];
        let reported = Failure::Reported(problems.clone());
        // It need not have read what it was given.
        let failed = |channel: Channel| say(&channel, &Message::Failed(problems.clone()));
        assert_eq!(outcome(LONG, failed), Err(Failure::Reported(problems.clone())));
        let failed_late = |channel: Channel| {
            until_end(&channel);
            say(&channel, &Message::Ready);
            say(&channel, &Message::Failed(problems.clone()));
            until_closed(&channel);
        };
        assert_eq!(outcome(LONG, failed_late), Err(reported));
        let hung = |channel: Channel| {
            until_end(&channel);
            until_closed(&channel);
        };
        assert_eq!(outcome(Duration::from_millis(50), hung), Err(Failure::Slow(0)));
        let hasty = |channel: Channel| {
            until_end(&channel);
            say(&channel, &Message::Serving);
            until_closed(&channel);
        };
        assert!(matches!(outcome(LONG, hasty), Err(Failure::Broken(text)) if text.contains("out of turn")));
    }

    #[test]
    fn what_is_given_up_leaves_no_process_that_serves() {
        let (given_up, goes_on) = (AtomicBool::new(true), AtomicBool::new(false));
        let inherits_nothing = |channel: Channel| assert!(Predecessor::over(channel).inheritance().is_err());
        assert_eq!(outcome_unless(&given_up, LONG, inherits_nothing), Err(Failure::GivenUp), "before it is started");
        let hears_of_it = |channel: Channel| {
            until_end(&channel);
            goes_on.store(true, Ordering::Release);
            assert!(matches!(receive(&channel), Message::Failed(_)));
        };
        assert_eq!(outcome_unless(&goes_on, LONG, hears_of_it), Err(Failure::GivenUp), "while it loads");
        goes_on.store(false, Ordering::Release);
        let hears_late = |channel: Channel| {
            until_end(&channel);
            say(&channel, &Message::Ready);
            assert!(matches!(receive(&channel), Message::Go));
            goes_on.store(true, Ordering::Release);
            assert!(matches!(receive(&channel), Message::Failed(_)));
        };
        assert_eq!(outcome_unless(&goes_on, LONG, hears_late), Err(Failure::GivenUp), "before it says that it serves");
    }

    #[test]
    fn one_that_does_not_read_keeps_nobody_from_giving_up() {
        let is_given_up = AtomicBool::new(false);
        // More than a socket takes that nobody reads.
        let state = State { maintenance: vec!["x".repeat(1_500); 10_000], ..State::default() };
        let belongings = Belongings { state, ..belongings(Duration::from_secs(3_600)) };
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::of(theirs);
        std::thread::scope(|scope| {
            let giving = scope.spawn(|| converse(&ours, belongings, &is_given_up));
            assert!(matches!(receive(&theirs), Message::Hello));
            is_given_up.store(true, Ordering::Release);
            assert_eq!(giving.join().unwrap(), Err(Failure::GivenUp));
        });
    }

    /// Reads until the old process has closed its end: not before it has decided.
    fn until_closed(channel: &Channel) {
        while let Ok(Some(_)) = channel.receive(Instant::now() + LONG) {}
    }

    #[test]
    fn an_old_process_that_dies_leaves_an_heir_only_when_it_has_given_everything() {
        let take = |counts: RateCounts| match counts.used[..] {
            [UsedKey { ticks: 0, .. }] => Err("nonsense".to_owned()),
            _ => Ok(()),
        };
        let heir = |messages: &[Message]| {
            let (ours, theirs) = Channel::pair().unwrap();
            for message in messages {
                say(&ours, message);
            }
            drop(ours);
            let predecessor = Predecessor::over(Channel::of(theirs));
            predecessor.inheritance().and_then(|_| predecessor.may_serve(&take))
        };
        assert!(heir(&[]).is_err());
        assert!(heir(&[Message::Hello, Message::Sockets(Vec::new())]).is_err());
        assert_eq!(heir(&[Message::Hello, Message::End]), Ok(()));
        assert_eq!(heir(&[Message::Hello, Message::End, Message::Go]), Ok(()));
        assert!(heir(&[Message::End]).unwrap_err()[0].contains("out of turn"));
        assert!(heir(&[Message::Hello, Message::End, Message::Ready]).is_err());
        let counts = |ticks| {
            let used = vec![UsedKey { hash: 1, ticks }];
            Message::Rates(RateCounts { table: [0; 32], at: Duration::ZERO, used })
        };
        assert_eq!(heir(&[Message::Hello, Message::End, counts(1), counts(2), Message::Go]), Ok(()));
        assert_eq!(heir(&[Message::Hello, Message::End, counts(1)]), Ok(()), "what it has, it has");
        let nonsense = heir(&[Message::Hello, Message::End, counts(1), counts(0), Message::Go]);
        assert_eq!(nonsense, Err(vec!["the old process: nonsense".to_owned()]));
        assert!(heir(&[Message::Hello, counts(1), Message::End]).is_err(), "out of turn");
        // One that lives and says so is not dead.
        let given_up = Message::Failed(vec!["given up".to_owned()]);
        assert_eq!(heir(&[Message::Hello, Message::End, given_up]), Err(vec!["given up".to_owned()]));
        let given_up = Message::Failed(vec!["given up".to_owned()]);
        assert_eq!(heir(&[Message::Hello, given_up]), Err(vec!["given up".to_owned()]));
    }
}

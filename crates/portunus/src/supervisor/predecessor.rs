//! The new process's side of an upgrade: takes sockets and state, and begins to serve when it is told to.
//!
//! ```text
//! started → given everything → loaded and bound: ready → given counts of rates → go, or the old process has died → serving
//!    └── the old process died: end (the sockets are not complete)
//! ```

use std::time::{Duration, Instant};

use net::channel::Received;
use net::inherited::Passed;
use net::{Channel, Inherited};
use proxy::server::{MAX_KEYS_PASSED, RateCounts, State};

use super::launcher::MARK;
use super::message::Message;

/// How long the old process is waited for. It ends us long before, or itself.
const PATIENCE: Duration = Duration::from_secs(2 * 3600);

/// The process that this one takes over from.
#[derive(Debug)]
pub struct Predecessor(Channel);

/// What it gave.
#[derive(Debug, Default)]
pub struct Inheritance {
    /// Its listening sockets, or those of the service manager.
    pub sockets: Inherited,
    /// What it knew.
    pub state: State,
}

impl Predecessor {
    /// The process that started this one for an upgrade, if there is one. It is met once; later there is none.
    ///
    /// # Errors
    /// Standard input does not lead to it.
    pub fn meet() -> Result<Option<Predecessor>, String> {
        static IS_MET: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        if std::env::var_os(MARK).is_none() || IS_MET.swap(true, std::sync::atomic::Ordering::Relaxed) {
            return Ok(None);
        }
        let channel = Channel::from_standard_input().map_err(|error| {
            format!("{MARK} is set, but this process was not started by `portunus upgrade` ({error}); unset it")
        })?;
        Ok(Some(Predecessor(channel)))
    }

    #[cfg(test)]
    pub(super) fn over(channel: Channel) -> Predecessor {
        Predecessor(channel)
    }

    /// Takes what it gives.
    ///
    /// # Errors
    /// It has ended, or speaks another version.
    pub fn inheritance(&self) -> Result<Inheritance, Vec<String>> {
        let (mut sockets, mut state) = (Vec::<Passed>::new(), State::default());
        let mut is_greeted = false;
        loop {
            let gone = || vec!["the old process ended before it had passed everything".to_owned()];
            let (bytes, descriptors) = self.receive()?.ok_or_else(gone)?;
            match Message::of_bytes(&bytes).map_err(|problem| vec![problem])? {
                Message::Hello => is_greeted = true,
                Message::Sockets(notes) if is_greeted && notes.len() == descriptors.len() => {
                    sockets.extend(notes.into_iter().zip(descriptors).map(|(note, socket)| note.with(socket)));
                }
                Message::Tickets(secrets) if is_greeted => state.tickets = Some(secrets),
                Message::StickyKey(key) if is_greeted => state.sticky_key = Some(key),
                Message::RateKey(key) if is_greeted => state.rate_key = Some(key),
                Message::Quic(secrets) if is_greeted => state.quic = Some(secrets),
                Message::Servers(servers) if is_greeted => state.servers.extend(servers),
                Message::Maintenance(policies) if is_greeted => state.maintenance.extend(policies),
                Message::End if is_greeted => return Ok(Inheritance { sockets: Inherited::of(sockets), state }),
                other => return Err(out_of_turn(other)),
            }
        }
    }

    /// Says that everything is loaded and bound, and waits for leave to serve. What rates had counted until then is given to `take`. A process that has died
    /// gives leave: we are all that is left.
    ///
    /// # Errors
    /// It says something else, or `take` rejects what it says.
    pub fn may_serve(&self, mut take: impl FnMut(RateCounts) -> Result<(), String>) -> Result<(), Vec<String>> {
        tracing::info!("upgrade: everything is loaded; this process waits for leave to serve");
        self.say(&Message::Ready);
        let (mut keys, wrong) = (0, |problem: String| vec![format!("the old process: {problem}")]);
        while let Some((bytes, _)) = self.receive()? {
            match Message::of_bytes(&bytes).map_err(|problem| vec![problem])? {
                Message::Go => return Ok(()),
                Message::Rates(counts) => {
                    keys += counts.used.len();
                    if keys > MAX_KEYS_PASSED {
                        return Err(wrong(format!("more than {MAX_KEYS_PASSED} keys of rates")));
                    }
                    take(counts).map_err(wrong)?;
                }
                other => return Err(out_of_turn(other)),
            }
        }
        tracing::warn!("the old process has ended; this one serves in its place");
        Ok(())
    }

    /// Says that this process serves: the old one accepts no more.
    pub fn serving(&self) {
        self.say(&Message::Serving);
    }

    /// Says why it will not.
    pub fn failed(&self, problems: &[String]) {
        self.say(&Message::Failed(problems.to_vec()));
    }

    fn say(&self, message: &Message) {
        // One that has died needs no word.
        let _ = self.0.send(&message.to_bytes(), &[], Instant::now() + PATIENCE);
    }

    fn receive(&self) -> Result<Option<Received>, Vec<String>> {
        self.0.receive(Instant::now() + PATIENCE).map_err(|error| vec![format!("the old process: {error}")])
    }
}

fn out_of_turn(message: Message) -> Vec<String> {
    match message {
        Message::Failed(problems) => problems,
        other => vec![format!("the old process says {other:?} out of turn")],
    }
}

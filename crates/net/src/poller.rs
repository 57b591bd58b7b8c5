//! Readiness of many sockets that share one task: an epoll set within the runtime's own.
//!
//! Costs no task, no timer and no waker per socket. Does not own the sockets: closing one takes it out.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use tokio::io::unix::AsyncFd;

/// Sockets told of at once.
const MOST_AT_ONCE: usize = 64;

/// A set of sockets that says which of them have news.
pub struct Poller {
    set: AsyncFd<OwnedFd>,
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Poller")
    }
}

impl Poller {
    /// An empty set, tied to the runtime of the calling thread.
    ///
    /// # Errors
    /// No descriptors or no memory.
    pub fn new() -> io::Result<Poller> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // SAFETY: an `OwnedFd` gives the same open descriptor until it is dropped, and the `AsyncFd` owns it.
        let set = unsafe { AsyncFd::register(set) }?;
        Ok(Poller { set })
    }

    /// Adds a socket; `key` is what news of it come with. It leaves the set when it is closed.
    ///
    /// # Errors
    /// No memory, or the bound of the kernel (`fs.epoll.max_user_watches`).
    pub fn add(&self, socket: impl AsFd, key: u64) -> io::Result<()> {
        epoll::add(self.set.get_ref(), socket, epoll::EventData::new_u64(key), epoll::EventFlags::IN)?;
        Ok(())
    }

    /// Waits until a socket has a datagram or an error, and puts the keys of some that do into `keys` (emptied first). One that is not
    /// read empty is reported again.
    ///
    /// # Errors
    /// The runtime ends.
    pub async fn ready(&self, keys: &mut Vec<u64>) -> io::Result<()> {
        keys.clear();
        loop {
            let mut ready = self.set.readable().await?;
            self.take(keys)?;
            if !keys.is_empty() {
                return Ok(());
            }
            ready.clear_ready();
        }
    }

    fn take(&self, keys: &mut Vec<u64>) -> io::Result<()> {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; MOST_AT_ONCE];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(self.set.get_ref(), &mut events, Some(&at_once)) {
            Ok((events, _)) => keys.extend(events.iter().map(|event| event.data.u64())),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

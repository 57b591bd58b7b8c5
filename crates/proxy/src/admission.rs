//! How many connections there are, in total and by client, and whether one more may come.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use net::client_key;

/// Counts connections in total and per client.
#[derive(Debug)]
pub struct Admission {
    /// What the descriptors of the process allow, whatever the configuration says.
    most: usize,
    total: AtomicUsize,
    clients: Mutex<HashMap<IpAddr, usize>>,
}

/// One admitted connection; counts itself out when dropped.
#[derive(Debug)]
pub struct Counted {
    admission: Arc<Admission>,
    client: Option<IpAddr>,
}

impl Admission {
    /// Counts for a process with this many descriptors. A quarter is kept back for connections to upstreams and all else.
    pub fn new(descriptors: u64) -> Admission {
        let most = usize::try_from(descriptors - descriptors / 4).unwrap_or(usize::MAX).max(1);
        Admission { most, total: AtomicUsize::new(0), clients: Mutex::default() }
    }

    /// Whether one more connection would be too many.
    pub fn is_full(&self, configured: usize) -> bool {
        self.total() >= configured.min(self.most)
    }

    /// Connections open now.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// How many clients have connections open, and those with the most, at most so many.
    pub fn clients(&self, most: usize) -> (usize, Vec<(IpAddr, usize)>) {
        // Copied at once, sorted afterwards: whoever accepts waits for the lock.
        let copy = |clients: &HashMap<IpAddr, usize>| clients.iter().map(|(client, open)| (*client, *open)).collect();
        let mut all: Vec<(IpAddr, usize)> = copy(&self.clients.lock().unwrap_or_else(PoisonError::into_inner));
        let count = all.len();
        all.sort_unstable_by(|(one, fewer), (other, more)| (more, one).cmp(&(fewer, other)));
        all.truncate(most);
        (count, all)
    }

    /// Counts a connection in; none if this client has `per_client` already.
    pub fn admit(self: &Arc<Self>, peer: Option<SocketAddr>, per_client: usize) -> Option<Counted> {
        self.total.fetch_add(1, Ordering::Relaxed);
        let mut admitted = Counted { admission: Arc::clone(self), client: None };
        admitted.count(peer, per_client).then_some(admitted)
    }
}

impl Counted {
    /// Counts the connection as this client's, once it is known who that is; false if it has `per_client` already.
    pub fn count(&mut self, client: Option<SocketAddr>, per_client: usize) -> bool {
        let Some(client) = client.map(|client| client_key(client.ip())) else { return true };
        // Where few descriptors bound them all, no client has more than three quarters of what that leaves.
        let per_client = per_client.min((self.admission.most - self.admission.most / 4).max(1));
        let mut clients = self.admission.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(client).or_insert(0);
        if *count >= per_client {
            return false;
        }
        *count += 1;
        self.client = Some(client);
        true
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let admission = &self.admission;
        admission.total.fetch_sub(1, Ordering::Relaxed);
        let Some(client) = self.client else { return };
        let mut clients = admission.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn one_client_takes_not_all_that_descriptors_allow() {
        // Of 64 descriptors 48 are for clients, and 36 for one of them.
        let admission = Arc::new(Admission::new(64));
        let peer = |text: &str| Some(text.parse().unwrap());
        let held: Vec<_> = (0..48).filter_map(|_| admission.admit(peer("192.0.2.1:1"), 1000)).collect();
        assert_eq!(held.len(), 36);
        assert!(!admission.is_full(100_000));
        assert!(admission.admit(peer("192.0.2.2:1"), 1000).is_some());
    }
}

//! What limits of rates have counted, on its way from a process to the one that takes over from it.
//!
//! Owns what is passed of a table, and whose it is there. Of a key only its hash is known, so the secret of the hash goes along; and since the hash itself is the
//! standard library's, which may change with the compiler, so does a probe of it. What is counted, and how, is a matter of `rate.rs`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use config::LimitKey;
use net::clock;
use tls::crypto::digest::sha256;

use super::rate::{ActiveRate, RateTable};
use super::shared::SharedRate;
use super::{ActivePolicy, Policies};

/// Most keys of one [`RateCounts`].
pub const MAX_KEYS_PER_PIECE: usize = 1_500;

/// Most keys of all tables together. The others begin anew.
pub const MAX_KEYS_PASSED: usize = 2_000_000;

/// The secret of the hash of keys.
#[derive(Clone, PartialEq, Eq)]
pub struct RateKey {
    /// The secret.
    pub secret: [u8; 32],
    /// What the hash makes of something known. Where it makes something else of it, the keys are others.
    pub probe: u64,
}

/// Keys of one table that have used some of their burst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateCounts {
    /// Which table: a digest of all that must be the same.
    pub table: [u8; 32],
    /// When that was, on the clock that the processes of a machine share.
    pub at: Duration,
    /// The keys, [`MAX_KEYS_PER_PIECE`] at the most.
    pub used: Vec<UsedKey>,
}

/// How much of its burst a key has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedKey {
    /// Where it stands: what is kept of its hash, and behind that the number of its set.
    pub hash: u64,
    /// So much, in what its table counts in.
    pub ticks: u64,
}

/// The secret of this process, and whether it is that of the process before.
static SECRET: OnceLock<([u8; 32], bool)> = OnceLock::new();

/// The beginning of the hash of every key. Cloning it costs what beginning one would.
#[derive(Clone)]
pub(super) struct Seed {
    hasher: DefaultHasher,
    /// What the hash makes of something known.
    probe: u64,
}

impl PartialEq for Seed {
    fn eq(&self, other: &Seed) -> bool {
        self.probe == other.probe
    }
}

impl std::fmt::Debug for Seed {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seed").finish_non_exhaustive()
    }
}

impl Seed {
    /// That of this process.
    pub(super) fn own() -> Seed {
        Seed::of(&SECRET.get_or_init(|| (fresh_secret(), false)).0)
    }

    /// That of a secret.
    pub(super) fn of(secret: &[u8; 32]) -> Seed {
        let mut hasher = DefaultHasher::new();
        hasher.write(secret);
        Seed { probe: probe(hasher.clone()), hasher }
    }

    pub(super) fn hasher(&self) -> DefaultHasher {
        self.hasher.clone()
    }
}

/// From the random keys that the standard library has for its own tables: nothing can fail here.
fn fresh_secret() -> [u8; 32] {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new();
    let mut secret = [0; 32];
    for (part, index) in secret.chunks_exact_mut(8).zip(0_u64..) {
        part.copy_from_slice(&random.hash_one(index).to_be_bytes());
    }
    secret
}

fn probe(mut hasher: DefaultHasher) -> u64 {
    // What keys are made of: numbers, bytes, texts, addresses.
    (1_u8, &b"probe"[..], Some("probe"), std::net::IpAddr::from([192, 0, 2, 1])).hash(&mut hasher);
    hasher.finish()
}

/// The secret, for a process that takes over; none if nothing is counted by it.
pub fn key_to_pass() -> Option<RateKey> {
    SECRET.get().map(|(secret, _)| RateKey { secret: *secret, probe: Seed::of(secret).probe })
}

/// Goes on with the secret of another process, if the hash is the same here. To be called before a table is made.
pub fn resume_key(key: &RateKey) {
    if Seed::of(&key.secret).probe == key.probe {
        // One that is there already is in use.
        let _ = SECRET.set((key.secret, true));
    }
}

/// What a table of one process is known by in another: everything that must be the same for its counts to mean the same.
fn name_of(policy: &str, what: &str, (keys, max_keys): (&[LimitKey], usize)) -> [u8; 32] {
    sha256(format!("{policy:?} {what} {keys:?} {max_keys}").as_bytes())
}

/// That of the table of a rate of requests. One that nodes share depends on the secret and on the hash, which may differ between versions.
fn name_of_rate(policy: &str, rate: &ActiveRate) -> [u8; 32] {
    let what = match rate.table.ledger() {
        Some(_) => format!("requests of all nodes {:x}", rate.table.seed().probe),
        None => "requests".to_owned(),
    };
    name_of(policy, &what, (&rate.limit.key, rate.limit.max_keys))
}

impl ActivePolicy {
    /// Its rate, if nodes share it.
    pub(super) fn shared_rate(&self) -> Option<SharedRate> {
        let rate = self.rate.as_ref().filter(|rate| rate.table.ledger().is_some())?;
        Some(SharedRate::new(name_of_rate(&self.config.name, rate), rate))
    }

    fn rate_tables(&self) -> impl Iterator<Item = ([u8; 32], &Arc<RateTable>)> {
        let name: &str = &self.config.name;
        let requests = self.rate.iter().map(move |rate| (name_of_rate(name, rate), &rate.table));
        let bytes = self.bandwidth.iter().flat_map(move |(limit, tables)| {
            let what = (limit.key.as_deref().unwrap_or_default(), limit.max_keys);
            tables.named().map(move |(way, table)| (name_of(name, way, what), table))
        });
        requests.chain(bytes)
    }
}

impl Policies {
    /// Gives what all tables have counted, piece by piece. How many keys were too many is logged.
    ///
    /// # Errors
    /// Those of `take`, which end it.
    pub fn pass_counts(&self, take: &mut dyn FnMut(RateCounts) -> io::Result<()>) -> io::Result<()> {
        let (mut passed, mut left_out) = (0, 0);
        for (table, rates) in self.by_name.values().flat_map(|policy| policy.rate_tables()) {
            let at = clock::precise();
            let mut used = rates.used_at(at);
            loop {
                let most = MAX_KEYS_PER_PIECE.min(MAX_KEYS_PASSED - passed);
                let piece: Vec<UsedKey> = used.by_ref().take(most).collect();
                if piece.is_empty() {
                    break;
                }
                passed += piece.len();
                take(RateCounts { table, at, used: piece })?;
            }
            left_out += used.count();
        }
        if left_out > 0 {
            tracing::warn!(
                passed,
                left_out,
                "rates: there are more keys than are passed to another process; the others begin anew there"
            );
        }
        Ok(())
    }

    /// Has a table go on from what it had counted in the process before. A table that is another one here begins anew.
    ///
    /// # Errors
    /// No table of that kind can have counted this.
    pub fn go_on_with(&self, counts: &RateCounts) -> Result<(), String> {
        let is_resumed = SECRET.get().is_some_and(|(_, is_resumed)| *is_resumed);
        let mut tables = self.by_name.values().flat_map(|policy| policy.rate_tables());
        match tables.find(|(name, _)| *name == counts.table).filter(|_| is_resumed) {
            Some((_, table)) => table.go_on_with(&counts.used, counts.at),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_table_is_known_by_all_that_its_counts_depend_on() {
        let keys = [LimitKey::Client, LimitKey::Route];
        let name = name_of("a", "requests", (&keys, 1_024));
        assert_eq!(name, name_of("a", "requests", (&keys, 1_024)));
        for other in [
            name_of("b", "requests", (&keys, 1_024)),
            name_of("a", "upload", (&keys, 1_024)),
            name_of("a", "requests", (&keys[..1], 1_024)),
            name_of("a", "requests", (&keys, 2_048)),
            name_of("a", "requests", (&[], 1_024)),
            name_of("a\" requests", "requests", (&keys, 1_024)),
        ] {
            assert_ne!(name, other);
        }
    }

    #[test]
    fn a_secret_makes_the_hash_and_its_probe() {
        let hash = |secret: &[u8; 32]| {
            let mut hasher = Seed::of(secret).hasher();
            hasher.write_u64(7);
            hasher.finish()
        };
        let (one, other) = (fresh_secret(), fresh_secret());
        assert_ne!(one, other);
        assert_eq!(hash(&one), hash(&one));
        assert_ne!(hash(&one), hash(&other));
        assert_ne!(Seed::of(&one).probe, Seed::of(&other).probe);
        assert!(Seed::of(&one) == Seed::of(&one) && Seed::of(&one) != Seed::of(&other));
        assert!(!format!("{:?}", Seed::of(&one)).contains("state"), "the secret is not shown");
    }
}

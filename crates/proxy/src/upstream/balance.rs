//! Choosing a server: in turn by weight, or the less loaded of two random ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use config::Balance;

use super::server::{Server, ServerId, Standing};

/// Longest precomputed turn; weights are scaled down to fit.
const LONGEST_TURN: u64 = 4096;

/// The turn of a group: which server is next, spread so that a heavy one does not get its share in one burst.
#[derive(Debug)]
pub struct Schedule {
    turn: Vec<u16>,
    next: AtomicUsize,
}

impl Schedule {
    /// Spreads servers by weight (smooth weighted round robin over one whole turn), and goes on after so many choices.
    pub fn new(weights: &[u32], next: usize) -> Schedule {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let divisor = total.div_ceil(LONGEST_TURN).max(1);
        let weights: Vec<i64> =
            weights.iter().map(|weight| i64::try_from((u64::from(*weight) / divisor).max(1)).unwrap_or(1)).collect();
        let total: i64 = weights.iter().sum();
        let mut current = vec![0; weights.len()];
        let mut turn = Vec::new();
        for _ in 0..total {
            current.iter_mut().zip(&weights).for_each(|(current, weight)| *current += weight);
            let best = (0..current.len()).rev().max_by_key(|&index| current.get(index).copied());
            let Some((best, value)) = best.and_then(|best| Some((best, current.get_mut(best)?))) else { break };
            *value -= total;
            turn.push(u16::try_from(best).unwrap_or(u16::MAX));
        }
        Schedule { turn, next: AtomicUsize::new(next) }
    }

    /// Choices made so far.
    pub fn turn(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// The next server's index; those in `tried` never. Servers that fail their checks are not chosen, and those that are ejected only when no other is left.
    /// An ejected server that did not respond to a connect is left alone until its time is over; then one connection at a time finds out whether it is
    /// back: it is chosen for whoever gets to try, and nobody else waits for it.
    pub fn choose(&self, servers: &[Arc<Server>], balance: Balance, tried: &[ServerId]) -> Option<usize> {
        let at = |index: usize| servers.get(index).filter(|server| !tried.contains(&server.id));
        if let ([only], []) = (servers, tried)
            && only.standing() == Standing::Up
        {
            return Some(0);
        }
        let is_back = |index: usize| {
            at(index).is_some_and(|server| server.standing() == Standing::OnTrial && server.begin_trial())
        };
        let is_up = |index: usize| at(index).is_some_and(|server| server.standing() == Standing::Up);
        let chosen = match balance {
            Balance::RoundRobin => self.in_turn(|index| is_up(index) || is_back(index)),
            Balance::LeastLoaded => self.in_turn(is_back).or_else(|| self.less_loaded(servers, is_up)),
        };
        chosen.or_else(|| {
            self.in_turn(|index| {
                at(index).is_some_and(|server| match server.standing() {
                    Standing::Up => true,
                    Standing::Ejected => !server.is_silent(),
                    Standing::OnTrial => server.begin_trial(),
                    Standing::Unhealthy => false,
                })
            })
        })
    }

    fn in_turn(&self, usable: impl Fn(usize) -> bool) -> Option<usize> {
        self.first_from(self.next.fetch_add(1, Ordering::Relaxed), usable)
    }

    /// The first usable server of the turn from `start` on, once around.
    fn first_from(&self, start: usize, usable: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.turn.len())
            .filter_map(|offset| self.turn.get(start.wrapping_add(offset) % self.turn.len()))
            .map(|&index| usize::from(index))
            .find(|&index| usable(index))
    }

    /// Power of two choices, of two different ones. The turn holds heavier servers more often, and their load weighs less.
    fn less_loaded(&self, servers: &[Arc<Server>], usable: impl Fn(usize) -> bool) -> Option<usize> {
        let random = || fastrand::usize(..self.turn.len().max(1));
        let first = self.first_from(random(), &usable)?;
        let Some(second) = self.first_from(random(), |index| index != first && usable(index)) else {
            return Some(first);
        };
        let (one, other) = (servers.get(first)?, servers.get(second)?);
        let share = |server: &Server, of: &Server| server.load() as u128 * u128::from(of.config.weight);
        Some(if share(other, one) < share(one, other) { second } else { first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Ejection, ServerAddress, ServerConfig};
    use std::time::Duration;

    fn servers(weights: &[u32]) -> (Schedule, Vec<Arc<Server>>) {
        let configs: Vec<_> =
            weights.iter().map(|&weight| ServerConfig { address: ServerAddress::Unix("/x".into()), weight }).collect();
        let servers = configs.iter().map(|config| Arc::new(Server::new(config, 0))).collect();
        (Schedule::new(weights, 0), servers)
    }

    fn check(weights: &[u32], balance: Balance, tried: &[usize], rounds: usize) -> Vec<usize> {
        let (schedule, servers) = servers(weights);
        let tried: Vec<_> = tried.iter().map(|index| servers[*index].id).collect();
        let mut counts = vec![0; weights.len()];
        (0..rounds).filter_map(|_| schedule.choose(&servers, balance, &tried)).for_each(|index| counts[index] += 1);
        counts
    }

    #[test]
    fn weights_are_kept_exactly_in_turn() {
        assert_eq!(check(&[1, 1], Balance::RoundRobin, &[], 10), [5, 5]);
        assert_eq!(check(&[5, 1, 2], Balance::RoundRobin, &[], 80), [50, 10, 20]);
        assert_eq!(check(&[7], Balance::RoundRobin, &[], 3), [3]);
    }

    #[test]
    fn what_was_tried_is_left_out() {
        assert_eq!(check(&[1, 1, 1], Balance::RoundRobin, &[1], 10)[1], 0);
        assert_eq!(check(&[1, 1], Balance::LeastLoaded, &[0], 10), [0, 10]);
        assert_eq!(check(&[1], Balance::RoundRobin, &[0], 10), [0]);
        assert_eq!(check(&[1, 1], Balance::RoundRobin, &[0, 1], 10), [0, 0]);
    }

    #[test]
    fn a_heavy_server_does_not_get_its_share_in_one_burst() {
        assert_eq!(Schedule::new(&[3, 3, 3], 0).turn, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn an_ejected_server_is_used_only_when_all_are() {
        let (schedule, servers) = servers(&[1, 1]);
        let rule = Ejection { failures: 1, duration: Duration::from_secs(3600), ..Ejection::default() };
        servers[0].failed(rule);
        for _ in 0..10 {
            assert_eq!(schedule.choose(&servers, Balance::RoundRobin, &[]), Some(1));
        }
        servers[1].failed(rule);
        assert!(schedule.choose(&servers, Balance::LeastLoaded, &[]).is_some());
    }

    #[test]
    fn whoever_is_silent_is_tried_by_one_at_a_time() {
        for balance in [Balance::RoundRobin, Balance::LeastLoaded] {
            let (schedule, servers) = servers(&[1, 1]);
            let rule = |duration| Ejection { failures: 1, duration, ..Ejection::default() };
            let choose = || schedule.choose(&servers, balance, &[]);
            for server in &servers {
                server.note_silence(true);
                server.failed(rule(Duration::from_secs(3600)));
            }
            assert_eq!(choose(), None, "nobody waits while their time is not over");
            for server in &servers {
                server.restore();
                server.note_silence(true);
                server.failed(rule(Duration::ZERO));
            }
            let mut first = [choose(), choose()];
            first.sort();
            assert_eq!((first, choose()), ([Some(0), Some(1)], None), "one try at each");
            servers[1].end_trial();
            assert_eq!((choose(), choose()), (Some(1), None), "the try is over");
            // It has been connected to: ejected, but better than none.
            servers[1].note_silence(false);
            servers[1].end_trial();
            assert_eq!((choose(), choose()), (Some(1), Some(1)));
            servers[1].restore();
            assert_eq!((choose(), choose()), (Some(1), Some(1)));
            // Its time is over, but not the trial.
            servers[1].note_silence(true);
            servers[1].failed(rule(Duration::ZERO));
            assert_eq!((choose(), choose()), (Some(1), None));
        }
    }

    #[test]
    fn servers_that_fail_their_checks_are_not_chosen() {
        let (schedule, servers) = servers(&[1, 1]);
        servers.iter().for_each(|server| _ = server.set_healthy(false));
        assert_eq!(schedule.choose(&servers, Balance::RoundRobin, &[]), None);
        servers[1].set_healthy(true);
        assert_eq!(schedule.choose(&servers, Balance::LeastLoaded, &[]), Some(1));
    }

    #[test]
    fn the_less_loaded_is_preferred() {
        let (schedule, servers) = servers(&[1, 1]);
        let _busy: Vec<_> = (0..100).map(|_| servers[0].busy()).collect();
        assert!((0..100).all(|_| schedule.choose(&servers, Balance::LeastLoaded, &[]) == Some(1)));
    }

    #[test]
    fn load_is_seen_in_proportion_to_weight() {
        let (schedule, servers) = servers(&[3, 1]);
        let _busy: Vec<_> = [0, 0, 1].into_iter().map(|index| servers[index].busy()).collect();
        assert!((0..100).all(|_| schedule.choose(&servers, Balance::LeastLoaded, &[]) == Some(0)));
        let _more: Vec<_> = (0..2).map(|_| servers[0].busy()).collect();
        assert!((0..100).all(|_| schedule.choose(&servers, Balance::LeastLoaded, &[]) == Some(1)));
    }
}

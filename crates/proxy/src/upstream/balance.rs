//! Choosing a server: the first rank of which one is up, and within it in turn by weight, by load, or by a hash of something in the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use config::{Balance, ServerConfig};

use super::maglev::Table;
use super::server::{Server, ServerId, Standing};

/// Longest precomputed turn; weights are scaled down to fit.
const LONGEST_TURN: u64 = 4096;

/// How often a server that should get less at the moment is passed over for one request.
const PASSED_OVER: usize = 4;

/// What a server gets of the load, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// Lower ones first: whether it is a backup, its priority, and that of its SRV record.
    tier: (bool, u32, u16),
    weight: u32,
}

impl Rank {
    /// As configured.
    pub fn of(config: &ServerConfig) -> Rank {
        Rank { tier: (config.is_backup, config.priority, 0), weight: config.weight }
    }

    /// With what an SRV record says.
    pub fn within(self, weight: u16, priority: u16) -> Rank {
        let (is_backup, of_config, _) = self.tier;
        Rank { tier: (is_backup, of_config, priority), weight: self.weight.saturating_mul(u32::from(weight)) }
    }
}

/// What is known of a group while a server is chosen.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// How one is chosen.
    pub balance: &'a Balance,
    /// Over which time a server that is back gets its share.
    pub slow_start: Duration,
    /// Requests under way in the group, this one included.
    pub in_flight: usize,
    /// Requests under way at a server that has no bound of its own.
    pub most: Option<usize>,
    /// Servers that are down get requests rather than nobody.
    pub tries_anyway: bool,
}

/// What came of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The server of this index.
    Server(usize),
    /// Those that are up have as much to do as they may have.
    Busy,
    /// There is none.
    Nobody,
}

/// What one request asks of the choice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// The hash of what decides on its server.
    pub hash: Option<u64>,
    /// The server of its session.
    pub prefer: Option<ServerId>,
    /// Servers that will not do: it was there, or cannot go there.
    pub not: &'a [ServerId],
    /// It was somewhere. That takes no turn, or else the first tries of all would go to the server that fails.
    pub is_again: bool,
}

/// The order of a group: which server is next, spread so that a heavy one does not get its share in one burst.
#[derive(Debug)]
pub struct Schedule {
    tiers: Box<[Tier]>,
    /// By server.
    weights: Box<[u32]>,
}

/// Servers of one rank.
#[derive(Debug)]
struct Tier {
    members: Box<[u16]>,
    /// Them by weight, in turn.
    turn: Box<[u16]>,
    next: AtomicUsize,
    /// Choices made when none was up.
    spare: AtomicUsize,
    /// Where a hash decides.
    table: Option<Table>,
    weight: u64,
}

/// Smooth weighted round robin over one whole turn.
fn turn(members: &[u16], weight: impl Fn(u16) -> u32) -> Box<[u16]> {
    let total: u64 = members.iter().map(|member| u64::from(weight(*member))).sum();
    let divisor = total.div_ceil(LONGEST_TURN).max(1);
    let scaled = |member: &u16| i64::try_from((u64::from(weight(*member)) / divisor).max(1)).unwrap_or(1);
    let weights: Vec<i64> = members.iter().map(scaled).collect();
    let total: i64 = weights.iter().sum();
    let mut current = vec![0; weights.len()];
    let mut turn = Vec::new();
    for _ in 0..total {
        current.iter_mut().zip(&weights).for_each(|(current, weight)| *current += weight);
        let best = (0..current.len()).rev().max_by_key(|&place| current.get(place).copied());
        let Some((best, value)) = best.and_then(|best| Some((best, current.get_mut(best)?))) else { break };
        *value -= total;
        turn.extend(members.get(best));
    }
    turn.into()
}

impl Tier {
    fn new(members: Vec<u16>, servers: &[Arc<Server>], weights: &[u32], balance: &Balance, next: usize) -> Tier {
        let weight = |member: u16| weights.get(usize::from(member)).copied().unwrap_or(1);
        let named = members
            .iter()
            .filter_map(|member| Some((*member, &*servers.get(usize::from(*member))?.name, weight(*member))));
        Tier {
            turn: turn(&members, weight),
            next: AtomicUsize::new(next),
            spare: AtomicUsize::new(0),
            table: matches!(balance, Balance::Hash { .. }).then(|| Table::new(named)),
            weight: members.iter().map(|member| u64::from(weight(*member))).sum(),
            members: members.into(),
        }
    }

    /// The first usable server of all.
    fn first(&self, usable: impl Fn(usize) -> bool) -> Option<usize> {
        self.members.iter().map(|&index| usize::from(index)).find(|&index| usable(index))
    }

    /// The next usable server. A turn that somebody cannot take passes for all, or else the one behind it would get its requests, too.
    fn in_turn(&self, wish: Wish<'_>, usable: impl Fn(usize) -> bool) -> Option<usize> {
        if wish.is_again {
            return self.first_from(self.next.load(Ordering::Relaxed), usable);
        }
        (0..self.turn.len()).find_map(|_| {
            let place = self.next.fetch_add(1, Ordering::Relaxed) % self.turn.len();
            self.turn.get(place).map(|&index| usize::from(index)).filter(|&index| usable(index))
        })
    }

    /// The first usable server of the turn from `start` on, once around.
    fn first_from(&self, start: usize, usable: impl Fn(usize) -> bool) -> Option<usize> {
        let start = start % self.turn.len().max(1);
        let (before, from) = self.turn.split_at_checked(start)?;
        from.iter().chain(before).map(|&index| usize::from(index)).find(|&index| usable(index))
    }
}

impl Schedule {
    /// Spreads servers of these ranks, and goes on after so many choices in each of them.
    pub fn new(servers: &[Arc<Server>], ranks: &[Rank], balance: &Balance, turns: &[usize]) -> Schedule {
        let weights: Box<[u32]> = ranks.iter().map(|rank| rank.weight).collect();
        let mut order: Vec<_> = ranks.iter().map(|rank| rank.tier).collect();
        order.sort_unstable();
        order.dedup();
        let tiers = order.iter().enumerate().map(|(place, tier)| {
            let members = (0..u16::MAX).zip(ranks).filter(|(_, rank)| rank.tier == *tier).map(|(index, _)| index);
            Tier::new(members.collect(), servers, &weights, balance, turns.get(place).copied().unwrap_or(0))
        });
        Schedule { tiers: tiers.collect(), weights }
    }

    /// Choices made so far, by rank.
    pub fn turns(&self) -> Vec<usize> {
        self.tiers.iter().map(|tier| tier.next.load(Ordering::Relaxed)).collect()
    }

    /// The server for a request. Servers that fail their checks are not chosen, and those that are ejected only when no other is left, of whatever rank.
    /// An ejected server that did not respond to a connect is left alone until its time is over; then one connection at a time finds out whether it is
    /// back: it is chosen for whoever gets to try, and nobody else waits for it.
    pub fn choose(&self, servers: &[Arc<Server>], rule: Rule<'_>, wish: Wish<'_>) -> Choice {
        let at = |index: usize| servers.get(index).filter(|server| !wish.not.contains(&server.id));
        let has_room = |server: &Server| most_of(server, rule).is_none_or(|most| server.load() < most);
        if let ([only], []) = (servers, wish.not)
            && only.standing() == Standing::Up
        {
            return if has_room(only) { Choice::Server(0) } else { Choice::Busy };
        }
        let is_up =
            |index: usize| at(index).is_some_and(|server| server.standing() == Standing::Up && has_room(server));
        if let Some(preferred) = wish.prefer
            && let Some(index) = servers.iter().position(|server| server.id == preferred)
            && is_up(index)
        {
            return Choice::Server(index);
        }
        let is_back = |index: usize| {
            at(index)
                .filter(|server| has_room(server))
                .is_some_and(|server| server.standing() == Standing::OnTrial && server.begin_trial())
        };
        for tier in &self.tiers {
            let chosen = match rule.balance {
                Balance::RoundRobin if rule.slow_start.is_zero() => {
                    tier.in_turn(wish, |index| is_up(index) || is_back(index))
                }
                _ => tier.first(is_back).or_else(|| self.by_rule(tier, servers, rule, wish, is_up)),
            };
            if let Some(index) = chosen {
                return Choice::Server(index);
            }
            // Lower ranks stand in for servers that are down, not for busy ones.
            if tier.first(|index| at(index).is_some_and(|server| server.standing() == Standing::Up)).is_some() {
                return Choice::Busy;
            }
        }
        let is_left = |index: usize| {
            at(index).filter(|server| has_room(server)).is_some_and(|server| match server.standing() {
                Standing::Up => true,
                Standing::Ejected => !server.is_silent() || rule.tries_anyway,
                Standing::OnTrial => server.begin_trial(),
                Standing::Unhealthy => rule.tries_anyway,
            })
        };
        let left =
            self.tiers.iter().find_map(|tier| tier.first_from(tier.spare.fetch_add(1, Ordering::Relaxed), is_left));
        left.map_or(Choice::Nobody, Choice::Server)
    }

    /// One of a rank that is up. Those that are back lately are passed over now and then, which has no place where a hash decides.
    fn by_rule(
        &self,
        tier: &Tier,
        servers: &[Arc<Server>],
        rule: Rule<'_>,
        wish: Wish<'_>,
        is_up: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let pick = |without: Option<usize>| {
            let usable = |index: usize| Some(index) != without && is_up(index);
            match (rule.balance, wish.hash) {
                (Balance::Hash { balance_factor, .. }, Some(value)) => {
                    let is_within = |index| self.is_within(tier, servers, index, *balance_factor, rule.in_flight);
                    hashed(tier, value, |index| usable(index) && is_within(index))
                        .or_else(|| hashed(tier, value, usable))
                }
                (Balance::RoundRobin | Balance::Hash { .. }, _) => tier.in_turn(wish, usable),
                (Balance::LeastLoaded, _) => self.least_loaded(tier, servers, wish, usable),
                (Balance::RandomTwo, _) => self.less_loaded(tier, servers, usable),
            }
        };
        let first = pick(None)?;
        if rule.slow_start.is_zero() {
            return Some(first);
        }
        let gets_it = |index: usize| {
            let share = servers.get(index).map_or(1024, |server| server.share(rule.slow_start));
            share >= 1024 || fastrand::u64(..1024) < share
        };
        let mut chosen = first;
        for _ in 0..PASSED_OVER {
            if gets_it(chosen) {
                return Some(chosen);
            }
            chosen = pick(Some(chosen)).unwrap_or(chosen);
        }
        Some(chosen)
    }

    fn weight(&self, index: usize) -> u64 {
        self.weights.get(index).map_or(1, |weight| u64::from(*weight))
    }

    /// Whether a server has less than `factor` percent of its share of all that is under way.
    fn is_within(&self, tier: &Tier, servers: &[Arc<Server>], index: usize, factor: u32, in_flight: usize) -> bool {
        let Some(server) = servers.get(index).filter(|_| factor > 0) else { return true };
        let all = in_flight as u128 * u128::from(factor) * u128::from(self.weight(index));
        (server.load() as u128) < all.div_ceil(100 * u128::from(tier.weight.max(1))).max(1)
    }

    /// The one with the least load for its weight; of several, whose turn it is.
    fn least_loaded(
        &self,
        tier: &Tier,
        servers: &[Arc<Server>],
        wish: Wish<'_>,
        usable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let load = |index: usize| servers.get(index).map_or(u128::MAX >> 64, |server| server.load() as u128);
        let weight = |index: usize| u128::from(self.weight(index));
        let members = tier.members.iter().map(|&index| usize::from(index)).filter(|&index| usable(index));
        let least = members.map(|index| (load(index), weight(index), index));
        let least = least.min_by(|(one, w1, _), (other, w2, _)| (one * w2).cmp(&(other * w1)))?;
        let is_alike = |index: usize| usable(index) && load(index) * least.1 <= least.0 * weight(index);
        tier.in_turn(wish, is_alike).or(Some(least.2))
    }

    /// Power of two choices, of two different ones. The turn holds heavier servers more often, and their load weighs less.
    fn less_loaded(&self, tier: &Tier, servers: &[Arc<Server>], usable: impl Fn(usize) -> bool) -> Option<usize> {
        let random = || fastrand::usize(..tier.turn.len().max(1));
        let first = tier.first_from(random(), &usable)?;
        let Some(second) = tier.first_from(random(), |index| index != first && usable(index)) else {
            return Some(first);
        };
        let (one, other) = (servers.get(first)?, servers.get(second)?);
        let share = |server: &Server, of: usize| server.load() as u128 * u128::from(self.weight(of));
        Some(if share(other, first) < share(one, second) { second } else { first })
    }
}

/// Requests that a server may have under way.
pub fn most_of(server: &Server, rule: Rule<'_>) -> Option<usize> {
    server.config.max_in_flight.or(rule.most)
}

/// The server of a value, or another one that is always the same for it as long as the same ones can be used.
fn hashed(tier: &Tier, value: u64, usable: impl Fn(usize) -> bool) -> Option<usize> {
    let found = tier.table.as_ref().and_then(|table| table.find(value, &usable));
    found.or_else(|| tier.first_from((value >> 32) as usize, usable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Ejection, HashKey, ServerAddress};

    const BY_CLIENT: Balance = Balance::Hash { key: HashKey::Client, balance_factor: 0 };
    const BOUNDED: Balance = Balance::Hash { key: HashKey::Client, balance_factor: 125 };
    const ALL: [Balance; 4] = [Balance::RoundRobin, Balance::LeastLoaded, Balance::RandomTwo, BY_CLIENT];

    /// Some servers, and how they are chosen.
    struct Site {
        servers: Vec<Arc<Server>>,
        schedule: Schedule,
        balance: Balance,
        slow_start: Duration,
        in_flight: usize,
        most: Option<usize>,
        tries_anyway: bool,
    }

    impl Site {
        fn new(configs: &[ServerConfig], balance: Balance) -> Site {
            let servers: Vec<_> = configs.iter().map(|config| Arc::new(Server::new(config, 0))).collect();
            let ranks: Vec<_> = configs.iter().map(Rank::of).collect();
            let schedule = Schedule::new(&servers, &ranks, &balance, &[]);
            Site {
                servers,
                schedule,
                balance,
                slow_start: Duration::ZERO,
                in_flight: 1,
                most: None,
                tries_anyway: false,
            }
        }

        fn weighted(weights: &[u32], balance: Balance) -> Site {
            let config = |(last, weight): (u8, &u32)| {
                let address = ServerAddress::Ip(([10, 0, 0, last], 80).into());
                ServerConfig { weight: *weight, ..ServerConfig::at(address) }
            };
            Site::new(&(1..).zip(weights).map(config).collect::<Vec<_>>(), balance)
        }

        fn choose(&self, wish: Wish<'_>) -> Option<usize> {
            match self.choice(wish) {
                Choice::Server(index) => Some(index),
                Choice::Busy | Choice::Nobody => None,
            }
        }

        fn choice(&self, wish: Wish<'_>) -> Choice {
            let rule = Rule {
                balance: &self.balance,
                slow_start: self.slow_start,
                in_flight: self.in_flight,
                most: self.most,
                tries_anyway: self.tries_anyway,
            };
            self.schedule.choose(&self.servers, rule, wish)
        }

        /// So many requests more at a server.
        fn load(&self, index: usize, requests: usize) {
            (0..requests).for_each(|_| _ = self.servers[index].begin(None));
        }

        fn any(&self) -> Option<usize> {
            self.choose(Wish::default())
        }

        fn counts(&self, rounds: u64, not: &[usize]) -> Vec<usize> {
            let not: Vec<_> = not.iter().map(|index| self.servers[*index].id).collect();
            let mut counts = vec![0; self.servers.len()];
            for round in 0..rounds {
                let hash = Some(super::super::maglev::hash(&round.to_be_bytes()));
                self.choose(Wish { hash, not: &not, ..Wish::default() }).iter().for_each(|index| counts[*index] += 1);
            }
            counts
        }
    }

    fn check(weights: &[u32], balance: Balance, tried: &[usize], rounds: u64) -> Vec<usize> {
        Site::weighted(weights, balance).counts(rounds, tried)
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
        assert_eq!(*turn(&[0, 1, 2], |_| 3), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(*turn(&[4, 7], |member| u32::from(member == 4) + 1), [4, 7, 4]);
    }

    #[test]
    fn an_ejected_server_is_used_only_when_all_are() {
        let rule = Ejection { failures: 1, duration: Duration::from_secs(3600), ..Ejection::default() };
        for balance in ALL {
            let site = Site::weighted(&[1, 1], balance);
            site.servers[0].failed(rule);
            assert_eq!(site.counts(10, &[]), [0, 10]);
            site.servers[1].failed(rule);
            assert!(site.any().is_some());
        }
    }

    #[test]
    fn whoever_is_silent_is_tried_by_one_at_a_time() {
        for balance in ALL {
            let site = Site::weighted(&[1, 1], balance);
            let rule = |duration| Ejection { failures: 1, duration, ..Ejection::default() };
            for server in &site.servers {
                server.note_silence(true);
                server.failed(rule(Duration::from_secs(3600)));
            }
            assert_eq!(site.any(), None, "nobody waits while their time is not over");
            for server in &site.servers {
                server.restore();
                server.note_silence(true);
                server.failed(rule(Duration::ZERO));
            }
            let mut first = [site.any(), site.any()];
            first.sort();
            assert_eq!((first, site.any()), ([Some(0), Some(1)], None), "one try at each");
            site.servers[1].end_trial();
            assert_eq!((site.any(), site.any()), (Some(1), None), "the try is over");
            // It has been connected to: ejected, but better than none.
            site.servers[1].note_silence(false);
            site.servers[1].end_trial();
            assert_eq!((site.any(), site.any()), (Some(1), Some(1)));
            site.servers[1].restore();
            assert_eq!((site.any(), site.any()), (Some(1), Some(1)));
            // Its time is over, but not the trial.
            site.servers[1].note_silence(true);
            site.servers[1].failed(rule(Duration::ZERO));
            assert_eq!((site.any(), site.any()), (Some(1), None));
        }
    }

    /// Else whoever looks for a server would find it, find it full, and look again without end.
    #[test]
    fn a_server_without_room_is_not_tried_either() {
        for balance in ALL {
            for tries_anyway in [false, true] {
                let mut site = Site::weighted(&[1], balance.clone());
                (site.most, site.tries_anyway) = (Some(1), tries_anyway);
                site.load(0, 1);
                site.servers[0].note_silence(true);
                site.servers[0].failed(Ejection { failures: 1, duration: Duration::ZERO, ..Ejection::default() });
                assert_eq!(site.any(), None);
                site.servers[0].end();
                assert_eq!((site.any(), site.any()), (Some(0), None));
            }
        }
    }

    #[test]
    fn servers_that_fail_their_checks_are_not_chosen() {
        for balance in ALL {
            let site = Site::weighted(&[1, 1], balance);
            site.servers.iter().for_each(|server| _ = server.set_healthy(false));
            assert_eq!(site.any(), None);
            site.servers[1].set_healthy(true);
            assert_eq!(site.any(), Some(1));
        }
    }

    #[test]
    fn the_less_loaded_is_preferred() {
        for balance in [Balance::LeastLoaded, Balance::RandomTwo] {
            let site = Site::weighted(&[1, 1], balance);
            site.load(0, 100);
            assert!((0..100).all(|_| site.any() == Some(1)));
        }
        // Of many, the least loaded is always found, and a random one of two only now and then.
        let found = |balance| {
            let site = Site::weighted(&[1; 8], balance);
            (0..8).filter(|index| *index != 5).for_each(|index| site.load(index, 1));
            site.counts(800, &[])[5]
        };
        assert_eq!(found(Balance::LeastLoaded), 800);
        fastrand::seed(1);
        assert!((150..250).contains(&found(Balance::RandomTwo)), "two of eight are looked at");
    }

    #[test]
    fn load_is_seen_in_proportion_to_weight() {
        for balance in [Balance::LeastLoaded, Balance::RandomTwo] {
            let site = Site::weighted(&[3, 1], balance);
            site.load(0, 2);
            site.load(1, 1);
            assert!((0..100).all(|_| site.any() == Some(0)));
            site.load(0, 2);
            assert!((0..100).all(|_| site.any() == Some(1)));
        }
    }

    #[test]
    fn the_requests_of_a_server_that_is_left_out_go_to_all_others() {
        for balance in [Balance::RoundRobin, Balance::LeastLoaded] {
            let site = Site::weighted(&[1, 1, 1, 1], balance.clone());
            site.servers[1].set_healthy(false);
            assert_eq!(site.counts(30, &[]), [10, 0, 10, 10]);
            let site = Site::weighted(&[2, 1, 1], balance);
            site.servers[2].set_healthy(false);
            assert_eq!(site.counts(30, &[]), [20, 10, 0]);
        }
    }

    #[test]
    fn alike_ones_take_turns_by_weight() {
        assert_eq!(check(&[5, 1, 2], Balance::LeastLoaded, &[], 80), [50, 10, 20]);
    }

    #[test]
    fn the_same_value_leads_to_the_same_server_while_that_is_up() {
        let site = Site::weighted(&[1, 1, 1], BY_CLIENT);
        let of = |value: u64| site.choose(Wish { hash: Some(value), ..Wish::default() });
        let before: Vec<_> = (0..1000).map(|value| of(value << 20)).collect();
        assert_eq!((0..1000).map(|value| of(value << 20)).collect::<Vec<_>>(), before);
        site.servers[1].set_healthy(false);
        let without: Vec<_> = (0..1000).map(|value| of(value << 20)).collect();
        assert!(before.iter().zip(&without).all(|(one, other)| if *one == Some(1) {
            *other != Some(1)
        } else {
            one == other
        }));
        site.servers[1].set_healthy(true);
        assert_eq!((0..1000).map(|value| of(value << 20)).collect::<Vec<_>>(), before);
        // What has no value takes turns.
        assert_eq!([site.any(), site.any(), site.any()].iter().flatten().sum::<usize>(), 3);
    }

    #[test]
    fn a_value_that_everybody_asks_for_does_not_take_one_server_down() {
        let mut site = Site::weighted(&[1; 4], BOUNDED);
        let mut loads = [0; 4];
        for in_flight in 1..=400 {
            site.in_flight = in_flight;
            let chosen = site.choose(Wish { hash: Some(7), ..Wish::default() }).unwrap();
            loads[chosen] += 1;
            site.load(chosen, 1);
        }
        // 125 % of a fourth of 400.
        assert!(loads.iter().all(|load| *load <= 125), "{loads:?}");
        assert_eq!(loads.iter().filter(|load| **load >= 123).count(), 3, "no further than it must: {loads:?}");
    }

    #[test]
    fn a_lower_rank_serves_only_while_a_higher_one_is_down() {
        let config = |last: u8, priority: u32, is_backup: bool| ServerConfig {
            priority,
            is_backup,
            ..ServerConfig::at(ServerAddress::Ip(([10, 0, 0, last], 80).into()))
        };
        for balance in ALL {
            // In no order.
            let site = Site::new(
                &[config(1, 0, true), config(2, 0, false), config(3, 7, false), config(4, 0, false)],
                balance,
            );
            let served = |site: &Site| {
                let counts = site.counts(400, &[]);
                counts.iter().map(|count| *count > 0).collect::<Vec<_>>()
            };
            assert_eq!(served(&site), [false, true, false, true]);
            site.servers[1].set_healthy(false);
            assert_eq!(served(&site), [false, false, false, true]);
            site.servers[3].failed(Ejection {
                failures: 1,
                duration: Duration::from_secs(3600),
                ..Ejection::default()
            });
            assert_eq!(served(&site), [false, false, true, false]);
            site.servers[2].set_healthy(false);
            assert_eq!(served(&site), [true, false, false, false]);
            site.servers[0].set_healthy(false);
            assert_eq!(
                served(&site),
                [false, false, false, true],
                "ejected, but better than one that fails its checks"
            );
        }
    }

    #[test]
    fn a_server_that_is_back_gets_its_share_slowly() {
        fastrand::seed(1);
        for balance in [Balance::RoundRobin, Balance::LeastLoaded, Balance::RandomTwo] {
            let mut site = Site::weighted(&[1, 1, 1], balance);
            site.servers[1].set_healthy(false);
            site.servers[1].set_healthy(true);
            assert!((800..1200).contains(&site.counts(3000, &[])[1]), "at once, unless it is asked for");
            site.slow_start = Duration::from_secs(3600);
            let counts = site.counts(3000, &[]);
            assert!((50..200).contains(&counts[1]), "a tenth of a third: {counts:?}");
            assert!(counts[0].abs_diff(counts[2]) < 600, "what it does not get goes to all others: {counts:?}");
            site.servers[0].set_healthy(false);
            site.servers[2].set_healthy(false);
            assert_eq!(site.counts(10, &[])[1], 10, "all where there is no other");
        }
    }

    #[test]
    fn busy_servers_are_passed_over_and_lower_ranks_do_not_stand_in_for_them() {
        let at = |last: u8| ServerConfig::at(ServerAddress::Ip(([10, 0, 0, last], 80).into()));
        for balance in ALL {
            let own = ServerConfig { max_in_flight: Some(1), ..at(1) };
            let backup = ServerConfig { is_backup: true, ..at(3) };
            let mut site = Site::new(&[own, at(2), backup], balance);
            site.most = Some(3);
            site.load(0, 1);
            assert_eq!(site.counts(20, &[]), [0, 20, 0]);
            site.load(1, 3);
            assert_eq!(site.choice(Wish::default()), Choice::Busy);
            let tried = [site.servers[1].id];
            assert_eq!(site.choice(Wish { not: &tried, ..Wish::default() }), Choice::Busy);
            site.servers[0].set_healthy(false);
            assert_eq!(
                site.choice(Wish { not: &tried, ..Wish::default() }),
                Choice::Server(2),
                "the one that is up was tried"
            );
            site.servers[1].end();
            assert_eq!(site.any(), Some(1));
        }
        let mut alone = Site::weighted(&[1], Balance::RoundRobin);
        alone.most = Some(1);
        assert_eq!(alone.any(), Some(0));
        alone.load(0, 1);
        assert_eq!(alone.choice(Wish::default()), Choice::Busy);
    }

    #[test]
    fn what_becomes_of_requests_when_all_are_down_is_a_choice() {
        for balance in ALL {
            let mut site = Site::weighted(&[1, 1], balance);
            site.servers[0].set_healthy(false);
            site.servers[1].note_silence(true);
            site.servers[1].failed(Ejection {
                failures: 1,
                duration: Duration::from_secs(3600),
                ..Ejection::default()
            });
            assert_eq!(site.choice(Wish::default()), Choice::Nobody);
            site.tries_anyway = true;
            assert_eq!(site.counts(10, &[]), [5, 5]);
        }
    }
}

//! Choosing a server: the first rank of which one is up, and within it in turn by weight, by load, or by a hash of something in the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use config::{Balance, OwnZone, ServerConfig, UpstreamConfig};

use super::maglev::Table;
use super::server::{Server, ServerId, Standing};

/// Longest precomputed turn; weights are scaled down to fit.
const LONGEST_TURN: u64 = 4096;

/// How often a server that should get less at the moment is passed over for one request.
const PASSED_OVER: usize = 4;

/// How often a random server is drawn before the turn is walked.
const DRAWS: usize = 8;

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
    /// Those of the own zone, where there are others.
    near: Option<Box<Near>>,
}

/// Servers of one rank in the own zone.
#[derive(Debug)]
struct Near {
    tier: Tier,
    /// What those of them that are usable must weigh for requests to stay with them.
    least: u64,
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
            near: None,
        }
    }

    /// With those of a zone apart, unless all are there, or none.
    fn preferring(
        self,
        zone: &OwnZone,
        servers: &[Arc<Server>],
        weights: &[u32],
        balance: &Balance,
        next: usize,
    ) -> Tier {
        let is_near = |member: &u16| {
            let server = servers.get(usize::from(*member));
            server.is_some_and(|server| server.config.zone.as_deref() == Some(&zone.name))
        };
        let members: Vec<u16> = self.members.iter().copied().filter(is_near).collect();
        if members.is_empty() || members.len() == self.members.len() {
            return self;
        }
        let tier = Tier::new(members, servers, weights, balance, next);
        let least = (tier.weight * u64::from(zone.threshold)).div_ceil(100).max(1);
        Tier { near: Some(Box::new(Near { tier, least })), ..self }
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

    /// A random usable server, by weight. Drawn again where it is not usable, or else the one behind it would get its requests, too.
    fn any(&self, usable: impl Fn(usize) -> bool) -> Option<usize> {
        let random = || fastrand::usize(..self.turn.len().max(1));
        let drawn = (0..DRAWS).find_map(|_| {
            let index = usize::from(*self.turn.get(random())?);
            usable(index).then_some(index)
        });
        drawn.or_else(|| self.first_from(random(), usable))
    }

    /// The first usable server of the turn from `start` on, once around.
    fn first_from(&self, start: usize, usable: impl Fn(usize) -> bool) -> Option<usize> {
        let start = start % self.turn.len().max(1);
        let (before, from) = self.turn.split_at_checked(start)?;
        from.iter().chain(before).map(|&index| usize::from(index)).find(|&index| usable(index))
    }
}

impl Schedule {
    /// Spreads servers of these ranks, and goes on after so many choices in each of them and in its part in the own zone.
    pub fn new(servers: &[Arc<Server>], ranks: &[Rank], config: &UpstreamConfig, turns: &[[usize; 2]]) -> Schedule {
        let weight = |(rank, server): (&Rank, &Arc<Server>)| server.operated().weight.unwrap_or(rank.weight);
        let weights: Box<[u32]> = ranks.iter().zip(servers).map(weight).collect();
        let mut order: Vec<_> = ranks.iter().map(|rank| rank.tier).collect();
        order.sort_unstable();
        order.dedup();
        let tiers = order.iter().enumerate().map(|(place, tier)| {
            let members = (0..u16::MAX).zip(ranks).filter(|(_, rank)| rank.tier == *tier).map(|(index, _)| index);
            let ([next, near], balance) = (turns.get(place).copied().unwrap_or_default(), &config.balance);
            let tier = Tier::new(members.collect(), servers, &weights, balance, next);
            match &config.own_zone {
                None => tier,
                Some(zone) => tier.preferring(zone, servers, &weights, balance, near),
            }
        });
        Schedule { tiers: tiers.collect(), weights }
    }

    /// Choices made so far, by rank: of all, and of those in the own zone.
    pub fn turns(&self) -> Vec<[usize; 2]> {
        let near = |tier: &Tier| tier.near.as_ref().map_or(0, |near| near.tier.next.load(Ordering::Relaxed));
        self.tiers.iter().map(|tier| [tier.next.load(Ordering::Relaxed), near(tier)]).collect()
    }

    /// Those of a rank that are in the own zone, if enough of them are usable.
    fn near<'t>(&self, tier: &'t Tier, usable: impl Fn(usize) -> bool) -> Option<&'t Tier> {
        let near = tier.near.as_ref()?;
        let members = near.tier.members.iter().map(|&index| usize::from(index));
        let weight: u64 = members.filter(|&index| usable(index)).map(|index| self.weight(index)).sum();
        (weight >= near.least).then_some(&near.tier)
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
        let pick = |tier: &Tier| match rule.balance {
            Balance::RoundRobin if rule.slow_start.is_zero() => {
                tier.in_turn(wish, |index| is_up(index) || is_back(index))
            }
            _ => tier.first(is_back).or_else(|| self.by_rule(tier, servers, rule, wish, is_up)),
        };
        // Whatever this request may not have: that is not what its zone lacks.
        let is_usable =
            |index: usize| servers.get(index).is_some_and(|one| one.standing() == Standing::Up && has_room(one));
        for tier in &self.tiers {
            let chosen = self.near(tier, is_usable).and_then(pick).or_else(|| pick(tier));
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
                Standing::Drained => false,
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
        let gets_it = |index: usize| servers.get(index).is_none_or(|server| server.takes(rule.slow_start));
        let mut chosen = first;
        for _ in 0..PASSED_OVER {
            if gets_it(chosen) {
                return Some(chosen);
            }
            chosen = pick(Some(chosen)).unwrap_or(chosen);
        }
        Some(chosen)
    }

    /// What a server gets of the load, relative to the others.
    pub fn weight(&self, index: usize) -> u64 {
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
        let first = tier.any(&usable)?;
        let Some(second) = tier.any(|index| index != first && usable(index)) else {
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
mod tests;

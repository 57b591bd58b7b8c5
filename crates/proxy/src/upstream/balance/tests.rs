//! Which server is chosen: by turn, weight, load, hash, rank and zone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

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
        Site::preferring(None, configs, balance)
    }

    fn preferring(own_zone: Option<OwnZone>, configs: &[ServerConfig], balance: Balance) -> Site {
        let servers: Vec<_> = configs.iter().map(|config| Arc::new(Server::new(config, 0))).collect();
        let ranks: Vec<_> = configs.iter().map(Rank::of).collect();
        let config = UpstreamConfig { own_zone, balance: balance.clone(), ..UpstreamConfig::new("app") };
        let schedule = Schedule::new(&servers, &ranks, &config, &[]);
        Site { servers, schedule, balance, slow_start: Duration::ZERO, in_flight: 1, most: None, tries_anyway: false }
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
    fastrand::seed(1);
    let site = Site::weighted(&[1, 1, 1, 1], Balance::RandomTwo);
    site.servers[1].set_healthy(false);
    let counts = site.counts(3000, &[]);
    assert!(counts[1] == 0 && [0, 2, 3].iter().all(|index| counts[*index].abs_diff(1000) < 100), "{counts:?}");
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
        let site =
            Site::new(&[config(1, 0, true), config(2, 0, false), config(3, 7, false), config(4, 0, false)], balance);
        let served = |site: &Site| {
            let counts = site.counts(400, &[]);
            counts.iter().map(|count| *count > 0).collect::<Vec<_>>()
        };
        assert_eq!(served(&site), [false, true, false, true]);
        site.servers[1].set_healthy(false);
        assert_eq!(served(&site), [false, false, false, true]);
        site.servers[3].failed(Ejection { failures: 1, duration: Duration::from_secs(3600), ..Ejection::default() });
        assert_eq!(served(&site), [false, false, true, false]);
        site.servers[2].set_healthy(false);
        assert_eq!(served(&site), [true, false, false, false]);
        site.servers[0].set_healthy(false);
        assert_eq!(served(&site), [false, false, false, true], "ejected, but better than one that fails its checks");
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
        if site.balance == Balance::RoundRobin {
            let few = site.counts(33, &[]);
            assert!(matches!(few[1], 1 | 2), "also of few requests, whatever chance says: {few:?}");
        }
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
        site.servers[1].failed(Ejection { failures: 1, duration: Duration::from_secs(3600), ..Ejection::default() });
        assert_eq!(site.choice(Wish::default()), Choice::Nobody);
        site.tries_anyway = true;
        assert_eq!(site.counts(10, &[]), [5, 5]);
    }
}

/// Three servers in the own zone, three elsewhere.
fn zones(threshold: u32, balance: Balance) -> Site {
    let config = |last: u8| ServerConfig {
        zone: Some(if last < 3 { "a" } else { "b" }.to_owned()),
        ..ServerConfig::at(ServerAddress::Ip(([10, 0, 0, last], 80).into()))
    };
    let own = Some(OwnZone { name: "a".to_owned(), threshold });
    Site::preferring(own, &(0..6).map(config).collect::<Vec<_>>(), balance)
}

#[test]
fn requests_stay_in_their_zone_while_enough_of_it_is_usable() {
    fastrand::seed(1);
    for balance in ALL {
        let site = zones(60, balance.clone());
        let of = |counts: &[usize]| (counts[..3].iter().sum::<usize>(), counts[3..].iter().sum::<usize>());
        let even = |counts: &[usize], of: &[usize]| of.iter().all(|index| counts[*index].abs_diff(600 / of.len()) < 60);
        let counts = site.counts(600, &[]);
        assert!(of(&counts) == (600, 0) && even(&counts, &[0, 1, 2]), "{balance:?} {counts:?}");
        site.servers[0].set_healthy(false);
        let counts = site.counts(600, &[]);
        assert!(of(&counts) == (600, 0) && even(&counts, &[1, 2]), "two of three are enough: {balance:?} {counts:?}");
        site.servers[1].set_healthy(false);
        let counts = site.counts(600, &[]);
        assert!(even(&counts, &[2, 3, 4, 5]), "then all zones share: {balance:?} {counts:?}");
        site.servers[2].set_healthy(false);
        assert_eq!(of(&site.counts(600, &[])), (0, 600), "{balance:?}");
        site.servers[..2].iter().for_each(|server| _ = server.set_healthy(true));
        assert_eq!(of(&site.counts(600, &[])), (600, 0), "{balance:?}");
        // A retry stays in the zone while it has somebody else, then it leaves.
        assert_eq!(of(&site.counts(20, &[0])), (20, 0), "{balance:?}");
        assert_eq!(of(&site.counts(20, &[0, 1])), (0, 20), "{balance:?}");
    }
}

#[test]
fn how_much_of_a_zone_is_enough_can_be_chosen() {
    for (threshold, down, stays) in
        [(0, 2, true), (0, 3, false), (33, 2, true), (34, 2, false), (100, 0, true), (100, 1, false)]
    {
        let site = zones(threshold, Balance::RoundRobin);
        site.servers[..down].iter().for_each(|server| _ = server.set_healthy(false));
        let elsewhere: usize = site.counts(60, &[])[3..].iter().sum();
        assert_eq!(elsewhere == 0, stays, "{threshold} {down}");
    }
}

#[test]
fn a_zone_that_is_full_shares_with_the_others() {
    for balance in ALL {
        let mut site = zones(60, balance.clone());
        site.most = Some(1);
        site.load(0, 1);
        assert_eq!(site.counts(20, &[])[3..].iter().sum::<usize>(), 0, "{balance:?}");
        site.load(1, 1);
        let counts = site.counts(400, &[]);
        assert!(counts[..2] == [0, 0] && counts[2..].iter().all(|count| *count > 50), "{balance:?} {counts:?}");
    }
}

#[test]
fn in_a_zone_too_the_same_value_leads_to_the_same_server() {
    let site = zones(60, BY_CLIENT);
    let of =
        || (0..300).map(|value| site.choose(Wish { hash: Some(value << 20), ..Wish::default() })).collect::<Vec<_>>();
    let before = of();
    assert!((0..3).all(|index| before.contains(&Some(index))) && !before.contains(&Some(3)));
    site.servers[4].set_healthy(false);
    assert_eq!(of(), before, "what happens elsewhere moves nothing here");
    site.servers[1].set_healthy(false);
    let moved = before.iter().zip(of()).filter(|(one, other)| **one != *other).count();
    assert_eq!(moved, before.iter().filter(|one| **one == Some(1)).count());
}

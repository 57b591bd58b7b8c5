//! Faults of a fleet: its stores are killed, frozen, slow or out of reach, and configurations are pushed meanwhile. Requests must notice nothing.
//!
//! Each runs in a network namespace of its own and needs root, `etcd`, `redis-server`, `nft` and `tc`.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use rustix::process::Signal;

use super::fleet_site::{EDGES, FleetLoad, FleetSite, MEMBER_USER, MEMBERS, OPERATOR, Wish, store};
use super::ledger::Asked;
use super::network_faults::{command, inside};
use super::{Context, Found, percentile};
use crate::peers::pause;

/// Pushes in a row.
const PUSHES: u32 = 20;

/// Until the leases of who is cut off have ended.
const LEASE_ENDS: Duration = Duration::from_secs(12);

/// What all bytes to, from and between stores share: so little that each waits for those before it. Not every kernel has `netem`.
const NARROW: &str = "256kbit";

/// By how much p99 of a phase may be above twice that of the quiet beginning.
const SLACK: Duration = Duration::from_millis(50);

/// A run: load at all edges, and what happened when.
pub(super) struct Run {
    pub(super) site: FleetSite,
    load: FleetLoad,
    /// What clients noted whose load has ended.
    asked: Vec<Asked>,
    phases: Vec<(&'static str, Duration)>,
    notes: Vec<String>,
}

impl Run {
    /// Begins with a quiet time to compare with.
    pub(super) fn start(context: &Context, wish: Wish, is_hurried: bool) -> io::Result<Run> {
        let site = FleetSite::start(context, wish)?;
        let load = FleetSite::load(is_hurried);
        let run = Run { site, load, asked: Vec::new(), phases: vec![("quiet", Duration::ZERO)], notes: Vec::new() };
        pause(context.time / 4);
        Ok(run)
    }

    /// Has the clients of an edge end.
    pub(super) fn end_load_of(&mut self, number: u8) {
        self.asked.extend(self.load.end(number));
    }

    /// Notes so far; forgets what was noted beyond so many.
    pub(super) fn keep_notes(&mut self, most: usize) -> usize {
        self.notes.truncate(most);
        self.notes.len()
    }

    /// From now on it is so.
    pub(super) fn phase(&mut self, name: &'static str) {
        self.phases.push((name, self.load.elapsed()));
    }

    pub(super) fn note(&mut self, what: impl Display) {
        self.notes.push(what.to_string());
    }

    /// Pushes another configuration, and notes what came of it.
    pub(super) fn push(&mut self, when: &str, more: &[&str]) {
        let note = match self.site.push_next(more) {
            Ok(took) => format!("push {when}: {took:.1?}"),
            Err(error) => {
                let text: String = error.to_string().chars().take(120).collect();
                format!("push {when}: not done ({})", text.replace('|', "/"))
            }
        };
        self.note(note);
    }

    pub(super) fn finish(mut self) -> io::Result<Found> {
        let everywhere = self.site.is_served_everywhere();
        let mut asked = self.load.finish();
        asked.append(&mut self.asked);
        let unhappy = asked.iter().filter(|one| !one.is_ok()).count();
        let mut notes = vec![format!("{unhappy} requests not OK (aim 0)"), by_phase(&asked, &self.phases)];
        notes.append(&mut self.notes);
        notes.push(format!("the last push is served everywhere: {}", if everywhere { "yes" } else { "no (aim yes)" }));
        Ok(Found { decision: self.site.check(&asked)?, notes })
    }
}

/// How long requests took in each phase, and whether that is within the bound.
fn by_phase(asked: &[Asked], phases: &[(&'static str, Duration)]) -> String {
    let mut names: Vec<&str> = Vec::new();
    phases.iter().for_each(|(name, _)| {
        if !names.contains(name) {
            names.push(name)
        }
    });
    let is_in = |name: &str, one: &Asked| {
        phases.iter().rev().find(|(_, from)| one.began >= *from).is_some_and(|(of, _)| *of == name)
    };
    let took = |name: &str, share| percentile(asked.iter().filter(|one| is_in(name, one)).map(|one| one.took), share);
    let all: Vec<String> =
        names.iter().map(|name| format!("{name} {:.1?}, {:.1?}", took(name, 0.5), took(name, 0.99))).collect();
    let bound = names.first().map_or(Duration::ZERO, |quiet| took(quiet, 0.99)) * 2 + SLACK;
    let most = names.iter().skip(1).map(|name| took(name, 0.99)).max().unwrap_or_default();
    let longest = asked.iter().map(|one| one.took).max().unwrap_or_default();
    let is_within = if most <= bound { "kept" } else { "NOT kept" };
    format!("p50, p99: {}; bound of p99 {bound:.1?} {is_within}; the longest {longest:.1?}", all.join("; "))
}

/// One run in a network of its own, with these faults.
fn run(context: &Context, faults: impl FnOnce(&mut Run) -> io::Result<()> + Send) -> io::Result<Found> {
    inside(context, |context| {
        let mut run = Run::start(context, Wish::default(), false)?;
        faults(&mut run)?;
        run.finish()
    })
}

/// Each member of etcd, one after the other.
pub(super) fn member_killed(context: &Context) -> io::Result<Found> {
    run(context, |run| each_member(run, context.time))
}

pub(super) fn each_member(run: &mut Run, time: Duration) -> io::Result<()> {
    run.phase("one member away");
    for number in 1..=MEMBERS {
        run.site.kill_member(number);
        pause(time / 8);
        run.push(&format!("without member {number}"), &["--all"]);
        run.site.start_member(number)?;
        pause(time / 8);
    }
    Ok(())
}

/// All members of etcd.
pub(super) fn all_killed(context: &Context) -> io::Result<Found> {
    run(context, |run| no_etcd(run, context.time))
}

pub(super) fn no_etcd(run: &mut Run, time: Duration) -> io::Result<()> {
    run.phase("no etcd");
    (1..=MEMBERS).for_each(|number| run.site.kill_member(number));
    run.push("without etcd (aim: not done)", &["--all"]);
    pause(time / 2);
    run.phase("etcd is back");
    (1..=MEMBERS).try_for_each(|number| run.site.start_member(number))?;
    let took = run.site.wait_until_connected()?;
    run.note(format!("all edges connected {took:.1?} after the start"));
    run.push("with etcd again", &["--all"]);
    Ok(())
}

/// One edge is cut off from etcd and Redis.
pub(super) fn partition(context: &Context) -> io::Result<Found> {
    run(context, |run| edge_cut_off(run, context.time))
}

pub(super) fn edge_cut_off(run: &mut Run, time: Duration) -> io::Result<()> {
    filter()?;
    run.phase("edge 3 cut off");
    drop_both_ways("127.1.3.0/24")?;
    // Until its lease has ended.
    pause((time / 2).max(LEASE_ENDS));
    run.push("without edge 3", &["--all"]);
    run.phase("edge 3 is back");
    command("nft", "flush table inet faults")?;
    let took = run.site.wait_until_served(3)?;
    run.note(format!("edge 3 serves it {took:.1?} later"));
    Ok(())
}

/// A filter of packets that lets all through.
fn filter() -> io::Result<()> {
    command("nft", "add table inet faults")?;
    for hook in ["input", "output"] {
        command("nft", &format!("add chain inet faults {hook} {{ type filter hook {hook} priority 0 ; }}"))?;
    }
    Ok(())
}

fn drop_both_ways(address: &str) -> io::Result<()> {
    command("nft", &format!("add rule inet faults input ip daddr {address} drop"))?;
    command("nft", &format!("add rule inet faults input ip saddr {address} drop"))
}

/// Member 1 hears and says nothing of the others; those on its side (edges, operator) reach it alone, and all others the other members alone.
fn cut_off_first_member(on_its_side: &[u8]) -> io::Result<()> {
    let user = MEMBER_USER + 1;
    for rule in [
        format!("meta skuid {user} tcp dport 2380"),
        format!("meta skuid {user} tcp sport 2380"),
        "ip daddr 127.1.0.1 tcp dport 2380".to_owned(),
    ] {
        command("nft", &format!("add rule inet faults output {rule} drop"))?;
    }
    for of in (1..=EDGES).chain([OPERATOR]) {
        for number in 1..=MEMBERS {
            if on_its_side.contains(&of) != (number == 1) {
                drop_both_ways(&store(of, number).to_string())?;
            }
        }
    }
    Ok(())
}

/// The members of etcd are parted, with edges on either side.
pub(super) fn minority(context: &Context) -> io::Result<Found> {
    run(context, |run| members_parted(run, context.time))
}

pub(super) fn members_parted(run: &mut Run, time: Duration) -> io::Result<()> {
    filter()?;
    run.phase("edge 1 with the minority");
    cut_off_first_member(&[1])?;
    pause((time / 4).max(LEASE_ENDS));
    run.push("with the majority and edges 2, 3", &["--all"]);
    for number in [2, 3] {
        run.site.wait_until_served(number)?;
    }
    command("nft", "flush table inet faults")?;
    let took = run.site.wait_until_served(1)?;
    run.note(format!("edge 1 serves it {took:.1?} after the members are together"));
    run.phase("edges 2, 3 with the minority");
    cut_off_first_member(&[2, 3, OPERATOR])?;
    pause((time / 4).max(LEASE_ENDS));
    run.push("with the minority and edges 2, 3 (aim: not done)", &["--all"]);
    run.phase("together");
    command("nft", "flush table inet faults")?;
    run.site.wait_until_connected()?;
    run.push("together", &["--all"]);
    Ok(())
}

/// All that goes to or comes from the stores, and between members, waits.
pub(super) fn slow(context: &Context) -> io::Result<Found> {
    run(context, |run| {
        run.phase("slow stores");
        command("tc", "qdisc add dev lo root handle 1: htb default 10")?;
        command("tc", "class add dev lo parent 1: classid 1:10 htb rate 10gbit quantum 60000")?;
        command("tc", &format!("class add dev lo parent 1: classid 1:30 htb rate {NARROW}"))?;
        for place in ["src", "dst"] {
            let rule = "filter add dev lo parent 1: protocol ip prio 1 u32 match ip";
            command("tc", &format!("{rule} {place} 127.1.0.0/16 flowid 1:30"))?;
        }
        run.push("to a slow etcd", &["--all"]);
        pause(context.time / 2);
        command("tc", "qdisc del dev lo root")?;
        run.phase("fast again");
        run.push("to a fast etcd", &["--all"]);
        Ok(())
    })
}

/// Redis is killed and comes back empty; it is frozen and goes on.
pub(super) fn redis(context: &Context) -> io::Result<Found> {
    run(context, |run| redis_away(run, context.time))
}

pub(super) fn redis_away(run: &mut Run, time: Duration) -> io::Result<()> {
    run.site.wait_until_shared(true)?;
    run.phase("no Redis");
    run.site.kill_redis();
    let took = run.site.wait_until_shared(false)?;
    run.note(format!("edges count alone {took:.1?} after its kill"));
    pause(time / 4);
    run.site.start_redis()?;
    let took = run.site.wait_until_shared(true)?;
    run.note(format!("together {took:.1?} after its start"));
    run.phase("Redis frozen");
    run.site.signal_redis(Signal::STOP);
    let took = run.site.wait_until_shared(false)?;
    run.note(format!("alone {took:.1?} after it was frozen"));
    pause(time / 4);
    run.phase("Redis goes on");
    run.site.signal_redis(Signal::CONT);
    let took = run.site.wait_until_shared(true)?;
    run.note(format!("together {took:.1?} after it went on"));
    Ok(())
}

/// A roll-out in stages while members and Redis are killed and the stores are slow.
pub(super) fn rollout(context: &Context) -> io::Result<Found> {
    run(context, |run| staged_under_faults(run, context.time))
}

pub(super) fn staged_under_faults(run: &mut Run, time: Duration) -> io::Result<()> {
    let staged = ["--stages", "1,2", "--watch", "1"];
    run.phase("roll-outs under faults");
    run.site.kill_member(1);
    run.site.kill_redis();
    run.push("in stages without member 1 and Redis", &staged);
    run.site.start_member(1)?;
    run.site.start_redis()?;
    run.push("in stages, no wait", &["--stages", "1,2", "--watch", "1", "--no-wait"]);
    // Within the roll-out.
    run.site.kill_member(2);
    run.site.kill_member(3);
    pause(time / 4);
    run.site.start_member(2)?;
    run.site.start_member(3)?;
    let slowest = (1..=EDGES).map(|number| run.site.wait_until_served(number));
    let took = slowest.collect::<io::Result<Vec<_>>>()?.into_iter().sum::<Duration>();
    run.note(format!("went on by itself, everywhere {took:.1?} after etcd's return"));
    run.site.wait_until_complete().map(drop)
}

/// Pushes in a row.
pub(super) fn pushes(context: &Context) -> io::Result<Found> {
    run(context, pushes_in_a_row)
}

pub(super) fn pushes_in_a_row(run: &mut Run) -> io::Result<()> {
    run.phase("pushes");
    let mut took = Vec::new();
    for _ in 0..PUSHES {
        took.push(run.site.push_next(&["--all"])?);
    }
    let (half, most) = (percentile(took.iter().copied(), 0.5), took.iter().max().copied().unwrap_or_default());
    run.note(format!("{PUSHES} pushes, each to all, p50 {half:.1?}, the longest {most:.1?}"));
    Ok(())
}

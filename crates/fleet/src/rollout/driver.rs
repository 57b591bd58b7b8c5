//! Whoever drives a roll-out: looks at what the nodes report, and says what comes next.
//!
//! Any node can, since all there is to know is in the store; what is watched, with whose clock, begins anew when another one takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::{Counts, Phase, Report, Rollout, Shares, Stage};

/// How long the nodes of a stage may take to serve the generation.
const TAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// Fewer requests than these say nothing about shares.
const MIN_REQUESTS: u64 = 100;

/// The share of requests whose time is compared, percent: the slowest few may wait for anything.
const COMPARED: u64 = 90;

/// So much longer may they take whatever the bound is, microseconds: small times differ by chance.
const LEAST_DELAY: u64 = 10_000;

/// Digits of a generation that are shown.
const SHOWN: usize = 12;

/// What the driver knows of the stage under way.
#[derive(Debug)]
pub struct Driver {
    serial: u64,
    began: Instant,
    /// Nodes that were seen serving the generation.
    taken: BTreeSet<String>,
    /// Since when all of them do, and what each node had counted then.
    watched: Option<(Instant, BTreeMap<String, Counts>)>,
}

impl Driver {
    /// Takes over now.
    pub fn new(now: Instant) -> Driver {
        Driver { serial: 0, began: now, taken: BTreeSet::new(), watched: None }
    }

    /// What becomes of a roll-out by the reports of the nodes that are there; none: nothing yet.
    pub fn look(&mut self, rollout: &Rollout, reports: &BTreeMap<String, Report>, now: Instant) -> Option<Rollout> {
        if rollout.phase != Phase::Running {
            return None;
        }
        if self.serial != rollout.serial {
            *self = Driver { serial: rollout.serial, ..Driver::new(now) };
        }
        if rollout.nodes.is_empty() {
            return Some(self.next_stage(rollout, reports));
        }
        if let Some(why) = self.rejected(rollout, reports, now) {
            return Some(rollout.halted(&why));
        }
        if !rollout.nodes.iter().all(|node| self.taken.contains(node)) {
            return None;
        }
        let (since, before) = self
            .watched
            .get_or_insert_with(|| (now, reports.iter().map(|(node, report)| (node.clone(), report.counts)).collect()));
        let since = *since;
        let counted = |is_chosen: bool| {
            let chosen = reports.iter().filter(|(node, _)| rollout.nodes.contains(node) == is_chosen);
            chosen.fold(Counts::default(), |sum, (node, report)| sum.and(before.get(node), &report.counts))
        };
        let (here, elsewhere) = (counted(true), counted(false));
        let usual = shares(&elsewhere).or(rollout.usual);
        let usual_time = time(&elsewhere).or(rollout.usual_time);
        if let Some(why) = beyond(rollout, &here, usual).or_else(|| later(rollout, &here, usual_time)) {
            return Some(rollout.halted(&why));
        }
        let has_others = reports.keys().any(|node| !rollout.nodes.contains(node)) || rollout.usual.is_some();
        let watch = if has_others { Duration::from_secs(rollout.watch_seconds) } else { Duration::ZERO };
        (now.duration_since(since) >= watch).then(|| Rollout { usual, usual_time, ..self.next_stage(rollout, reports) })
    }

    /// Why it must not go on: a node does not take it, or is gone, or takes too long.
    fn rejected(&mut self, rollout: &Rollout, reports: &BTreeMap<String, Report>, now: Instant) -> Option<String> {
        let generation = Some(&rollout.generation);
        for node in &rollout.nodes {
            let short: String = rollout.generation.chars().take(SHOWN).collect();
            match reports.get(node) {
                Some(report) if report.rejected.as_ref() == generation => {
                    let why = report.problems.first().map_or("it does not say why", String::as_str);
                    return Some(format!("{node} rejects {short}: {why}"));
                }
                Some(report) if report.serving.as_ref() == generation => _ = self.taken.insert(node.clone()),
                Some(_) if now.duration_since(self.began) > TAKE_TIMEOUT => {
                    return Some(format!("{node} does not serve {short} after {} s", TAKE_TIMEOUT.as_secs()));
                }
                None if self.taken.contains(node) => {
                    return Some(format!("{node} is gone since it serves {short}"));
                }
                None if now.duration_since(self.began) > TAKE_TIMEOUT => {
                    return Some(format!("{node} is gone since it was to serve {short}"));
                }
                Some(_) | None => {}
            }
        }
        None
    }

    /// The first stage that has more nodes than there are; the end where all have it.
    fn next_stage(&self, rollout: &Rollout, reports: &BTreeMap<String, Report>) -> Rollout {
        let (serial, had) = (rollout.serial + 1, rollout.nodes.len());
        let is_all = |nodes: &[String]| reports.keys().all(|node| nodes.contains(node));
        if is_all(&rollout.nodes) {
            return Rollout { serial, phase: Phase::Complete, ..rollout.clone() };
        }
        let first = if had == 0 { 0 } else { rollout.stage + 1 };
        let later = rollout.stages.iter().copied().enumerate().skip(first);
        let sizes = later.map(|(number, stage)| (number, stage.of(reports.len())));
        // Behind the last stage that is named comes everybody.
        let (stage, size) = sizes
            .chain([(rollout.stages.len(), Stage::Percent(100).of(reports.len()))])
            .find(|(_, size)| *size > had)
            .unwrap_or((rollout.stages.len(), reports.len()));
        let others = reports.keys().filter(|node| !rollout.nodes.contains(node)).cloned();
        let nodes = rollout.nodes.iter().cloned().chain(others).take(size).collect();
        Rollout { serial, stage, nodes, ..rollout.clone() }
    }
}

impl Counts {
    /// Added: what a node has counted since it had counted as much as `before`. One that is new says nothing, and neither does one that began anew.
    fn and(self, before: Option<&Counts>, now: &Counts) -> Counts {
        let Some(before) = before.filter(|before| before.requests <= now.requests) else { return self };
        Counts {
            requests: self.requests + (now.requests - before.requests),
            failed: self.failed + now.failed.saturating_sub(before.failed),
            rejected: self.rejected + now.rejected.saturating_sub(before.rejected),
            times: self.times.and(&now.times.since(&before.times)),
        }
    }
}

fn shares(counts: &Counts) -> Option<Shares> {
    let share = |part: u64| part.saturating_mul(1_000) / counts.requests.max(1);
    (counts.requests >= MIN_REQUESTS).then(|| Shares { failed: share(counts.failed), rejected: share(counts.rejected) })
}

/// Which share is beyond its bound where the generation is, if one is.
fn beyond(rollout: &Rollout, here: &Counts, usual: Option<Shares>) -> Option<String> {
    let (here, usual) = (shares(here)?, usual?);
    let percent = |thousandths: u64| format!("{}.{} %", thousandths / 10, thousandths % 10);
    let kinds = [("5xx", here.failed, usual.failed), ("4xx", here.rejected, usual.rejected)];
    let (kind, here, usual) = kinds.into_iter().find(|(_, here, usual)| *here > usual + rollout.bound)?;
    Some(format!("responses of {kind} are {} where it is served, and {} elsewhere", percent(here), percent(usual)))
}

/// The time within which most requests were done, microseconds.
fn time(counts: &Counts) -> Option<u64> {
    (counts.times.all() >= MIN_REQUESTS).then(|| counts.times.within(COMPARED))
}

/// Whether requests take longer beyond the bound where the generation is.
fn later(rollout: &Rollout, here: &Counts, usual: Option<u64>) -> Option<String> {
    let (here, usual) = (time(here)?, usual?);
    let bound = usual.saturating_add(usual.saturating_mul(rollout.slower) / 100).max(usual.saturating_add(LEAST_DELAY));
    let millis = |micros: u64| format!("{}.{} ms", micros / 1_000, micros / 100 % 10);
    (rollout.slower > 0 && here > bound).then(|| {
        let (here, usual) = (millis(here), millis(usual));
        format!("{COMPARED} % of the requests take up to {here} where it is served, and up to {usual} elsewhere")
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const NEW: &str = "aaaa";
    const OLD: &str = "bbbb";

    /// A fleet under a clock that is moved by hand.
    struct Trial {
        driver: Driver,
        rollout: Rollout,
        reports: BTreeMap<String, Report>,
        now: Instant,
    }

    impl Trial {
        fn of(nodes: usize, stages: &str) -> Trial {
            let now = Instant::now();
            let rollout = Rollout {
                serial: 1,
                generation: NEW.into(),
                previous: Some(OLD.into()),
                phase: Phase::Running,
                stages: stages.split(',').map(|stage| stage.parse().unwrap()).collect(),
                stage: 0,
                nodes: Vec::new(),
                watch_seconds: 30,
                bound: 50,
                usual: None,
                slower: 100,
                usual_time: None,
                by: String::new(),
                at: 0,
                note: String::new(),
            };
            let old = || Report { serving: Some(OLD.into()), ..Report::default() };
            let reports = (0..nodes).map(|number| (format!("n{number:02}"), old())).collect();
            Trial { driver: Driver::new(now), rollout, reports, now }
        }

        /// Looks; gives whether anything became of it.
        fn look(&mut self) -> bool {
            let next = self.driver.look(&self.rollout, &self.reports, self.now);
            let is_news = next.is_some();
            next.into_iter().for_each(|next| {
                assert_eq!(next.serial, self.rollout.serial + 1);
                self.rollout = next;
            });
            is_news
        }

        /// Every node that is to have it takes it.
        fn take(&mut self) {
            let nodes = self.rollout.nodes.clone();
            nodes.iter().for_each(|node| self.reports.get_mut(node).unwrap().serving = Some(NEW.into()));
        }

        fn pass(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
        }

        fn count(&mut self, node: &str, requests: u64, failed: u64, rejected: u64) {
            let counts = &mut self.reports.get_mut(node).unwrap().counts;
            *counts = Counts {
                requests: counts.requests + requests,
                failed: counts.failed + failed,
                rejected: counts.rejected + rejected,
                ..*counts
            };
        }

        fn time(&mut self, node: &str, requests: u64, millis: u64) {
            self.count(node, requests, 0, 0);
            self.reports.get_mut(node).unwrap().counts.times.add(Duration::from_millis(millis), requests);
        }

        fn state(&self) -> (Phase, usize) {
            (self.rollout.phase, self.rollout.nodes.len())
        }
    }

    #[test]
    fn stages_follow_each_other_once_they_were_watched() {
        let mut trial = Trial::of(40, "1,10%");
        for size in [1, 4] {
            assert!(trial.look());
            assert_eq!(trial.state(), (Phase::Running, size));
            assert!(!trial.look(), "nobody has it yet");
            trial.take();
            assert!(!trial.look(), "it is not watched yet");
            trial.pass(29);
            assert!(!trial.look());
            trial.pass(1);
        }
        assert!(trial.look());
        assert_eq!(trial.state(), (Phase::Running, 40));
        trial.take();
        // With nobody to compare it with, and nothing known from before, nothing is waited for.
        assert!(trial.look());
        assert_eq!(trial.rollout.phase, Phase::Complete);
        assert!(!trial.look());
        assert_eq!(trial.rollout.wanted("n39"), Some(NEW));
    }

    #[test]
    fn a_stage_that_adds_nobody_is_left_out() {
        let mut trial = Trial::of(3, "1,10%,100%");
        let mut sizes = Vec::new();
        while trial.rollout.phase == Phase::Running {
            if trial.look() {
                sizes.push(trial.rollout.nodes.len());
            }
            trial.take();
            trial.pass(30);
        }
        assert_eq!(sizes, [1, 3, 3]);
        let mut alone = Trial::of(1, "1,10%");
        assert!(alone.look());
        alone.take();
        assert!(alone.look(), "one node has nobody beside it");
        assert_eq!(alone.rollout.phase, Phase::Complete);
    }

    #[test]
    fn a_node_that_rejects_it_halts_it_at_once() {
        let mut trial = Trial::of(3, "1");
        trial.look();
        let report = trial.reports.get_mut("n00").unwrap();
        report.rejected = Some(NEW.into());
        report.problems = vec!["no such file".into()];
        assert!(trial.look());
        assert_eq!(trial.rollout.phase, Phase::Halted);
        assert!(trial.rollout.note.contains("n00 rejects") && trial.rollout.note.contains("no such file"));
        assert_eq!(trial.rollout.wanted("n00"), Some(OLD));
        // One that rejects another generation says nothing about this one.
        let mut trial = Trial::of(3, "1");
        trial.look();
        trial.reports.get_mut("n00").unwrap().rejected = Some("cccc".into());
        trial.take();
        trial.look();
        assert_eq!(trial.rollout.phase, Phase::Running);
    }

    #[test]
    fn a_node_that_goes_or_takes_too_long_halts_it() {
        let mut trial = Trial::of(3, "1");
        trial.look();
        trial.take();
        trial.look();
        trial.reports.remove("n00");
        assert!(trial.look());
        assert!(trial.rollout.note.contains("is gone"), "{}", trial.rollout.note);
        let mut trial = Trial::of(3, "1");
        trial.look();
        trial.look();
        trial.pass(60);
        assert!(!trial.look());
        trial.pass(1);
        assert!(trial.look());
        assert!(trial.rollout.note.contains("after 60 s"), "{}", trial.rollout.note);
        // Another driver that takes over gives it its time again.
        let mut trial = Trial::of(3, "1");
        trial.look();
        trial.pass(3600);
        trial.driver = Driver::new(trial.now);
        assert!(!trial.look());
    }

    #[test]
    fn errors_beyond_those_elsewhere_halt_it() {
        for (here, elsewhere, expected) in [
            ((1_000, 60, 0), (1_000, 0, 0), Phase::Halted),
            ((1_000, 50, 0), (1_000, 0, 0), Phase::Running),
            ((1_000, 0, 60), (1_000, 0, 0), Phase::Halted),
            ((1_000, 300, 0), (1_000, 300, 0), Phase::Running),
            ((99, 99, 0), (1_000, 0, 0), Phase::Running),
            ((1_000, 900, 0), (99, 0, 0), Phase::Running),
        ] {
            let mut trial = Trial::of(3, "1");
            trial.count("n00", 5_000, 5_000, 0);
            trial.look();
            trial.take();
            trial.look();
            trial.pass(1);
            trial.count("n00", here.0, here.1, here.2);
            trial.count("n01", elsewhere.0, elsewhere.1, elsewhere.2);
            trial.look();
            assert_eq!(trial.rollout.phase, expected, "{here:?} {elsewhere:?}");
        }
    }

    #[test]
    fn times_beyond_those_elsewhere_halt_it() {
        for (here, elsewhere, slower, expected) in [
            ((1_000, 250), (1_000, 50), 100, Phase::Halted),
            ((1_000, 250), (1_000, 50), 0, Phase::Running),
            ((1_000, 250), (1_000, 50), 1_000, Phase::Running),
            ((1_000, 250), (1_000, 250), 100, Phase::Running),
            // A few milliseconds are chance.
            ((1_000, 5), (1_000, 1), 100, Phase::Running),
            ((99, 250), (1_000, 50), 100, Phase::Running),
            ((1_000, 250), (99, 50), 100, Phase::Running),
        ] {
            let mut trial = Trial::of(3, "1");
            trial.rollout.slower = slower;
            trial.time("n00", 5_000, 10_000);
            trial.look();
            trial.take();
            trial.look();
            trial.time("n00", here.0, here.1);
            trial.time("n01", elsewhere.0, elsewhere.1);
            trial.look();
            assert_eq!(trial.rollout.phase, expected, "{here:?} {elsewhere:?} {slower}");
        }
        // In the last stage with what was usual before.
        let mut trial = Trial::of(2, "1");
        trial.look();
        trial.take();
        trial.look();
        trial.time("n01", 1_000, 50);
        trial.pass(30);
        assert!(trial.look());
        assert_eq!(trial.rollout.usual_time, Some(47_500));
        trial.take();
        trial.look();
        trial.time("n01", 1_000, 250);
        assert!(trial.look());
        assert!(trial.rollout.note.contains("90 % of the requests take up to 235.0 ms"), "{}", trial.rollout.note);
    }

    #[test]
    fn the_last_stage_is_compared_with_what_was_usual_before() {
        let mut trial = Trial::of(2, "1");
        trial.look();
        trial.take();
        trial.look();
        trial.count("n01", 1_000, 10, 0);
        trial.pass(30);
        assert!(trial.look());
        assert_eq!(trial.rollout.usual, Some(Shares { failed: 10, rejected: 0 }));
        trial.take();
        assert!(!trial.look(), "it is watched, too");
        trial.count("n01", 1_000, 500, 0);
        assert!(trial.look());
        assert_eq!(trial.rollout.phase, Phase::Halted);
    }

    #[test]
    fn what_is_paused_stays() {
        let mut trial = Trial::of(3, "1");
        trial.look();
        trial.take();
        trial.rollout.phase = Phase::Paused;
        trial.pass(3600);
        assert!(!trial.look());
    }
}

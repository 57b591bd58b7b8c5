//! How a request enters a set, in steps of which each is one look or one change, so that a test can put those of several threads in any order.
//!
//! 1. Look for the word of the key. If it counts already, the request is counted there, if there is room; whoever sees the limit reached sees requests that are under way.
//! 2. Else claim a free word, or the shared one if there is none.
//! 3. Look through the others. If the key counts elsewhere, or is claimed in a word before this one, withdraw and begin again. A claim in a word behind this one is
//!    taken away, whose owner begins again. Of two claims at least the later one sees the other, so that only one of them can be settled.
//! 4. Settle: the claim becomes the count 1, unless it was taken away.
//!
//! The word that keys share has in the place of a hash a number that grows whenever somebody enters. Who is counted there without a claim has looked at it before the others
//! and finds it unchanged, so that all the time nobody could settle a claim elsewhere.

use std::hint::spin_loop;

use super::{CLAIM, COUNT_BITS, COUNT_MASK, SHARED, Set, WORDS};

/// How often a thread looks again for the end of a claim before it takes it away: its owner may not be running.
const PATIENCE: u32 = 64;

/// A request on its way into a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    tag: u64,
    most: u64,
    /// A number that no other thread has.
    claimant: u64,
    patience: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Look,
    /// Change a word from what it was seen to hold.
    Take {
        word: usize,
        before: u64,
        after: u64,
    },
    /// With this claim; look at another word, from this one on.
    Confirm {
        word: usize,
        claim: u64,
        at: usize,
    },
    Settle {
        word: usize,
        claim: u64,
    },
    Withdraw {
        word: usize,
        claim: u64,
    },
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// There are more.
    On,
    /// Counted in this word.
    In(usize),
    /// As many are under way as may be.
    Full,
}

impl Entry {
    /// A request of the key with this tag, of which there may be so many. `claimant`: a number that no other thread has.
    pub(super) fn new(tag: u64, most: u64, claimant: u64) -> Entry {
        Entry { tag, most, claimant, patience: PATIENCE, stage: Stage::Look }
    }

    /// The next step.
    pub(super) fn step(&mut self, set: &Set) -> Step {
        match self.stage {
            Stage::Look => self.look(set),
            Stage::Take { word, before, after } => self.take(set, word, before, after),
            Stage::Confirm { word, claim, at } => {
                self.stage = self.confirm(set, word, claim, at);
                Step::On
            }
            Stage::Settle { word, claim } => {
                self.stage = Stage::Look;
                if set.change(word, claim, vacated(claim) + 1) { Step::In(word) } else { Step::On }
            }
            Stage::Withdraw { word, claim } => {
                set.change(word, claim, vacated(claim));
                self.stage = Stage::Look;
                Step::On
            }
        }
    }

    fn look(&mut self, set: &Set) -> Step {
        // First, see above.
        let shared = set.load(SHARED);
        let (mut free, mut claimed) = (None, is_claimed(shared).then_some((SHARED, shared)));
        for word in 0..SHARED {
            let held = set.load(word);
            if is_free(held) {
                free = free.or(Some((word, held)));
            } else if held >> COUNT_BITS == self.tag {
                if !is_claimed(held) {
                    return self.join(word, held, held + 1);
                }
                claimed = Some((word, held));
            }
        }
        if let Some((word, held)) = claimed {
            return self.await_claim(word, held);
        }
        let (word, before, upper) = match free {
            // Who shares a word goes on sharing it, or a key would be counted in two places.
            _ if !is_free(shared) => return self.join(SHARED, shared, grown(shared) + (shared & COUNT_MASK) + 1),
            Some((word, before)) => (word, before, self.tag << COUNT_BITS),
            None => (SHARED, shared, grown(shared)),
        };
        self.stage = Stage::Take { word, before, after: upper | CLAIM | self.claimant };
        Step::On
    }

    /// A word counts already.
    fn join(&mut self, word: usize, before: u64, after: u64) -> Step {
        if before & COUNT_MASK >= self.most {
            return Step::Full;
        }
        self.stage = Stage::Take { word, before, after };
        Step::On
    }

    /// Somebody else has a claim that may be one of this key.
    fn await_claim(&mut self, word: usize, held: u64) -> Step {
        if self.patience == 0 {
            self.patience = PATIENCE;
            self.stage = Stage::Withdraw { word, claim: held };
            return Step::On;
        }
        self.patience -= 1;
        spin_loop();
        Step::On
    }

    fn take(&mut self, set: &Set, word: usize, before: u64, after: u64) -> Step {
        self.stage = Stage::Look;
        if !set.change(word, before, after) {
            return Step::On;
        }
        if !is_claimed(after) {
            return Step::In(word);
        }
        self.stage = Stage::Confirm { word, claim: after, at: 0 };
        Step::On
    }

    fn confirm(&self, set: &Set, word: usize, claim: u64, at: usize) -> Stage {
        if at == WORDS {
            return Stage::Settle { word, claim };
        }
        let next = Stage::Confirm { word, claim, at: at + 1 };
        let held = set.load(at);
        let is_elsewhere = at != word && !is_free(held) && (at == SHARED || held >> COUNT_BITS == self.tag);
        if !is_elsewhere {
            return next;
        }
        if !is_claimed(held) || at < word {
            return Stage::Withdraw { word, claim };
        }
        // What became of it meanwhile is looked at again.
        if set.change(at, held, vacated(held)) { next } else { Stage::Confirm { word, claim, at } }
    }
}

fn is_free(held: u64) -> bool {
    held & (CLAIM | COUNT_MASK) == 0
}

fn is_claimed(held: u64) -> bool {
    held & CLAIM != 0
}

/// A word without its claim.
fn vacated(held: u64) -> u64 {
    held & !(CLAIM | COUNT_MASK)
}

/// The next number of the word that is shared, which counts nobody yet.
fn grown(shared: u64) -> u64 {
    (shared >> COUNT_BITS).wrapping_add(1) << COUNT_BITS
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::collections::HashSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const KEY: u64 = 7;

    /// Somebody whose next step may come at any time.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    enum Actor {
        Entering(Entry),
        In(u64, usize),
        Full,
        /// A request under way that ends.
        Leaving(usize),
        Left,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct World {
        words: [u64; WORDS],
        actors: Vec<Actor>,
    }

    impl World {
        /// `counts`: tag and count of words; `leaving`: words of which one leaves; `entering`: tags of those who enter.
        fn new(counts: &[(usize, u64, u64)], leaving: &[usize], entering: &[u64], most: u64) -> World {
            let mut words = [0; WORDS];
            counts.iter().for_each(|(word, tag, count)| words[*word] = tag << COUNT_BITS | count);
            // The first is impatient once.
            let patience = |claimant| if claimant == 1 { 0 } else { PATIENCE };
            let entry = |(tag, claimant)| Entry { patience: patience(claimant), ..Entry::new(tag, most, claimant) };
            let entering = entering.iter().copied().zip(1..).map(|one| Actor::Entering(entry(one)));
            World { words, actors: leaving.iter().map(|word| Actor::Leaving(*word)).chain(entering).collect() }
        }

        /// Those that one step of one actor makes of it.
        fn next(&self) -> impl Iterator<Item = World> {
            (0..self.actors.len()).filter_map(|at| {
                let mut world = self.clone();
                let set = Set(world.words.map(AtomicU64::new));
                let actor = world.actors.get_mut(at)?;
                *actor = match actor {
                    Actor::Entering(entry) => match entry.step(&set) {
                        // To wait is no new state, or there would be no end of them.
                        Step::On if entry.patience > 0 => {
                            Actor::Entering(Entry { patience: PATIENCE, ..entry.clone() })
                        }
                        Step::On => Actor::Entering(entry.clone()),
                        Step::In(word) => Actor::In(entry.tag, word),
                        Step::Full => Actor::Full,
                    },
                    Actor::Leaving(word) => {
                        set.0[*word].fetch_sub(1, Ordering::SeqCst);
                        Actor::Left
                    }
                    _ => return None,
                };
                world.words = set.0.map(AtomicU64::into_inner);
                Some(world)
            })
        }

        /// The words that those of the key are counted in.
        fn entered(&self) -> Vec<usize> {
            let word = |actor: &Actor| if let Actor::In(KEY, word) = actor { Some(*word) } else { None };
            self.actors.iter().filter_map(word).collect()
        }
    }

    /// Takes every order in which steps can come. How many entered in the end, in all of them.
    fn explore(start: World, most: usize) -> HashSet<usize> {
        let (mut seen, mut open, mut ends) = (HashSet::new(), vec![start], HashSet::new());
        while let Some(world) = open.pop() {
            let entered = world.entered();
            assert!(entered.len() <= most, "{world:?}");
            assert!(entered.iter().all(|word| *word == entered[0]), "counted in two words: {world:?}");
            let mut is_end = true;
            for next in world.next() {
                is_end = false;
                if seen.insert(next.clone()) {
                    open.push(next);
                }
                assert!(seen.len() < 3_000_000, "no end: {world:?}");
            }
            if is_end {
                assert!(world.words.iter().all(|word| word & CLAIM == 0), "a claim is left: {world:?}");
                ends.insert(entered.len());
            }
        }
        ends
    }

    /// However the steps of those who meet fall, as many enter as there is room for.
    #[test]
    fn of_those_who_meet_exactly_so_many_enter() {
        let others = |words: std::ops::Range<usize>| words.map(|word| (word, 100 + word as u64, 1)).collect::<Vec<_>>();
        for (counts, leaving, entering, most, what) in [
            (vec![], vec![], 3, 2, "an empty set"),
            (others(0..1), vec![0], 3, 1, "the first word becomes free meanwhile"),
            (others(0..3), vec![0, 1], 2, 1, "two words become free meanwhile"),
            (others(0..SHARED), vec![], 2, 2, "only the shared word is free"),
            (others(0..SHARED), vec![0], 3, 2, "a word becomes free before the shared one is taken"),
            (others(0..SHARED), vec![3, 0], 2, 1, "two words become free before the shared one is taken"),
        ] {
            let ends = explore(World::new(&counts, &leaving, &vec![KEY; entering], most), most as usize);
            assert_eq!(ends, HashSet::from([entering.min(most as usize)]), "{what}");
        }
    }

    /// Beside others that are counted in the shared word, never more enter than that; fewer where they are counted together.
    #[test]
    fn beside_others_in_the_shared_word_never_too_many_enter() {
        let mut counts: Vec<_> = (0..SHARED).map(|word| (word, 100 + word as u64, 1)).collect();
        counts.push((SHARED, 5, 1));
        for (leaving, entering, most) in [
            (vec![], vec![KEY; 2], 1),
            (vec![0], vec![KEY; 2], 1),
            (vec![0, SHARED], vec![KEY; 2], 1),
            // Another one enters the shared word when the one that was there has left.
            (vec![0, SHARED], vec![KEY, KEY, 6], 2),
        ] {
            let ends = explore(World::new(&counts, &leaving, &entering, most), most as usize);
            assert!(!ends.is_empty() && ends.iter().all(|entered| *entered <= most as usize), "{ends:?}");
        }
    }

    /// A thread that does not run holds nobody up, and what it had claimed is not its any more when it goes on.
    #[test]
    fn a_claim_whose_owner_does_not_run_is_taken_away() {
        let set = Set::default();
        let mut stopped = Entry::new(KEY, 1, 1);
        (0..2).for_each(|_| assert_eq!(stopped.step(&set), Step::On));
        assert_eq!(set.load(0), KEY << COUNT_BITS | CLAIM | 1);
        let finish = |mut entry: Entry| (0..1_000).map(|_| entry.step(&set)).find(|step| *step != Step::On);
        assert_eq!(finish(Entry::new(KEY, 1, 2)), Some(Step::In(0)));
        assert_eq!(finish(stopped), Some(Step::Full));
        assert_eq!(set.load(0), KEY << COUNT_BITS | 1);
    }
}

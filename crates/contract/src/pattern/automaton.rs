//! Patterns as automata over bytes: complete where that stays small, so that a byte costs one look into a table whatever the text; else built while
//! matching, in bounded memory, and every state that is built is charged. Knows nothing of the pattern's grammar.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use regex_automata::Input;
use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::hybrid::dfa::{Cache, DFA as Lazy};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::pool::Pool;
use regex_syntax::hir::Hir;

/// The largest automaton of one pattern before it is made deterministic, in bytes: room for `.{0,4096}` in Unicode.
const MAX_NFA_BYTES: usize = 16 << 20;

/// The largest complete automaton, and what building it may take meanwhile, in bytes.
const MAX_DENSE_BYTES: usize = 256 << 10;
const MAX_BUILDING_BYTES: usize = 1 << 20;

/// What an automaton that is built while matching may hold per thread, in bytes; one that needs more for a few states gets that.
const LAZY_BYTES: usize = 512 << 10;

/// Bytes that are matched before the price of the states built for them is charged.
const PIECE_BYTES: usize = 8;

/// Bytes of new states that are built in the time of one step.
const BYTES_PER_STEP: usize = 8;

/// The most steps that matching one text may take, since nothing else has its turn meanwhile.
const MAX_STEPS: u64 = 400_000;

type Caches = Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>>;

/// One part of a pattern.
pub(super) enum Automaton {
    Complete(Box<dense::DFA<Vec<u32>>>),
    Lazy(Arc<Lazy>, Caches),
}

impl Automaton {
    pub fn new(hir: &Hir) -> Result<Self, String> {
        let too_large = || format!("its automaton is larger than {MAX_NFA_BYTES} bytes; ask for fewer repetitions");
        let config = thompson::Config::new().nfa_size_limit(Some(MAX_NFA_BYTES)).which_captures(WhichCaptures::None);
        let nfa = NFA::compiler().configure(config).build_from_hir(hir).map_err(|_| too_large())?;
        let config = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(MAX_DENSE_BYTES))
            .determinize_size_limit(Some(MAX_BUILDING_BYTES));
        if let Ok(complete) = dense::Builder::new().configure(config).build_from_nfa(&nfa) {
            return Ok(Self::Complete(Box::new(complete)));
        }
        let config = Lazy::config().cache_capacity(LAZY_BYTES).skip_cache_capacity_check(true);
        let lazy = Lazy::builder().configure(config).build_from_nfa(nfa).map_err(|_| too_large())?;
        let lazy = Arc::new(lazy);
        let maker = Arc::clone(&lazy);
        Ok(Self::Lazy(lazy, Pool::new(Box::new(move || maker.create_cache()))))
    }

    /// Whether matching costs nothing but its bytes.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete(_))
    }

    /// Whether it matches anywhere in the text; none if that takes more than `steps`, from which it takes what it costs.
    #[inline]
    pub fn is_match(&self, text: &[u8], steps: &mut u64) -> Option<bool> {
        match self {
            Self::Complete(complete) => {
                complete.try_search_fwd(&Input::new(text).earliest(true)).ok().map(|found| found.is_some())
            }
            Self::Lazy(lazy, caches) => {
                let most = (*steps).min(MAX_STEPS);
                let mut left = most;
                let found = search(lazy, &mut caches.get(), text, &mut left);
                *steps -= most - left;
                found
            }
        }
    }
}

fn search(lazy: &Lazy, cache: &mut Cache, text: &[u8], steps: &mut u64) -> Option<bool> {
    let mut state = lazy.start_state_forward(cache, &Input::new(text).earliest(true)).ok()?;
    for piece in text.chunks(PIECE_BYTES) {
        let (held, cleared) = (cache.memory_usage(), cache.clear_count());
        for &byte in piece {
            state = lazy.next_state(cache, state, byte).ok()?;
            // A match is known one byte late.
            if state.is_tagged() && (state.is_match() || state.is_dead() || state.is_quit()) {
                return (!state.is_quit()).then_some(state.is_match());
            }
        }
        let built = if cache.clear_count() == cleared {
            cache.memory_usage().saturating_sub(held)
        } else {
            cache.memory_usage()
        };
        *steps = steps.checked_sub((built / BYTES_PER_STEP) as u64)?;
    }
    lazy.next_eoi_state(cache, state).ok().map(|state| state.is_match())
}

//! Timers with threads of their own, measured as a program uses them: producers that set and cancel
//! timeouts, a million closures that come due, timers that only wait.
//!
//! Ground rules:
//!
//! - Every peer is measured through the same trait (`timer.rs`) and by the same works. The head of
//!   a work's file says what it does, and the units of its figures.
//! - A case has a process of its own, because some peers keep cancelled timers, and some keep
//!   threads. It is not pinned: the scheduler is part of what is measured.
//! - All closures capture something, so that boxing them allocates.

pub(crate) mod timer;
pub(crate) mod processor;
pub(crate) mod runs;
mod peers;
mod pairs;
pub(crate) mod due;
pub(crate) mod waiting;
mod firing;
pub(crate) mod verify;

use harness::Fallible;
use harness::case::Figures;

use crate::case::{self, Case, Peer, Suite, Work};
use peers::{AsyncIo, HashWheel, Heap, Ours, Pingora, ThreadPool, TimerWheel, Tokio};
use timer::Timer;

const NAME: &str = "threads";

pub(crate) fn suite() -> Suite {
    Suite {
        name: NAME,
        pinned: false,
        cases,
        measure: |case, short| case::measure(&PEERS, case, short),
        verify: || case::verify(&PEERS),
    }
}

/// In the order of the report.
const PEERS: [Peer; 8] = [
    peer::<Ours>(),
    peer::<Tokio>(),
    peer::<Pingora>(),
    peer::<ThreadPool>(),
    peer::<HashWheel>(),
    peer::<TimerWheel>(),
    peer::<AsyncIo>(),
    peer::<Heap>(),
];

const fn peer<T: Timer>() -> Peer {
    Peer { name: T::NAME, measure: measure_peer::<T>, verify: verify::verify::<T> }
}

const fn work(name: &'static str, sizes: &'static [usize], short: usize) -> Work {
    Work { name, delays: "-", sizes, short, rounds: 3 }
}

const PRODUCERS: &[usize] = &[1, 2, 4, 8];

/// In the order of the report. `firing` has sizes of its own, and one peer.
const WORKS: [Work; 8] = [
    work("pairs_at_once", PRODUCERS, 1),
    work("pairs_outstanding", PRODUCERS, 1),
    work("pairs_handed_over", PRODUCERS, 1),
    work("spread", &[1_000_000], 10_000),
    work("burst", &[1_000_000], 10_000),
    work("idle", &[100_000], 10_000),
    work("ticking", &[1], 1),
    work("heap", &[1_000_000], 10_000),
];

/// How many threads the pool has.
const FIRING: Work = Work { rounds: 5, ..work("firing", &[1, 2, 4], 1) };

fn cases(short: bool) -> Vec<(Case, usize)> {
    let of_all = WORKS.iter().flat_map(|work| work.cases(NAME, &PEERS, short));
    of_all.chain(FIRING.cases(NAME, &PEERS[..1], short)).collect()
}

fn measure_peer<T: Timer>(case: &Case, short: bool) -> Fallible<Figures> {
    match (case.work.as_str(), case.size) {
        ("pairs_at_once", producers) => pairs::at_once::<T>(producers, short),
        ("pairs_outstanding", producers) => pairs::outstanding::<T>(producers, short),
        ("pairs_handed_over", producers) => pairs::handed_over::<T>(producers, short),
        ("spread", timers) => due::spread::<T>(timers, short),
        ("burst", timers) => due::burst::<T>(timers, short),
        ("idle", timers) => waiting::idle::<T>(timers, waiting::time(short)),
        ("ticking", _) => waiting::ticking::<T>(short),
        ("heap", timers) => waiting::heap::<T>(timers),
        ("firing", threads) => firing::firing(threads, short),
        (work, _) => Err(format!("no work is called {work:?}")),
    }
}

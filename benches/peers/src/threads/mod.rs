//! Timers with threads of their own, measured as a program uses them: producers that set and cancel
//! timeouts, a million closures that come due, timers that only wait.
//!
//! Ground rules:
//!
//! - Every peer goes through the same door (`timer.rs`) and the same works. What a work does and in
//!   which units its figures are, its file says at the top.
//! - A case has a process of its own, because some peers keep what was cancelled, and some keep
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

use crate::case::{Case, Figure, Suite};
use peers::{AsyncIo, HashWheel, Heap, Ours, Pingora, ThreadPool, TimerWheel, Tokio};
use timer::Timer;

pub fn suite() -> Suite {
    Suite { name: "threads", pinned: false, cases, measure, verify: verify_all }
}

/// What a peer's name stands for.
struct Peer {
    name: &'static str,
    measure: fn(&Case, short: bool) -> Result<Vec<Figure>, String>,
    verify: fn() -> String,
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

/// A work, and its sizes in the long form and in the short one.
struct Work {
    name: &'static str,
    sizes: &'static [usize],
    short: usize,
    rounds: usize,
}

const PRODUCERS: &[usize] = &[1, 2, 4, 8];

/// In the order of the report. `firing` has sizes of its own, and one peer.
const WORKS: [Work; 8] = [
    Work { name: "pairs_at_once", sizes: PRODUCERS, short: 1, rounds: 3 },
    Work { name: "pairs_outstanding", sizes: PRODUCERS, short: 1, rounds: 3 },
    Work { name: "pairs_handed_over", sizes: PRODUCERS, short: 1, rounds: 3 },
    Work { name: "spread", sizes: &[1_000_000], short: 10_000, rounds: 3 },
    Work { name: "burst", sizes: &[1_000_000], short: 10_000, rounds: 3 },
    Work { name: "idle", sizes: &[100_000], short: 10_000, rounds: 3 },
    Work { name: "ticking", sizes: &[1], short: 1, rounds: 3 },
    Work { name: "heap", sizes: &[1_000_000], short: 10_000, rounds: 3 },
];

/// How many threads the pool has.
const FIRING: Work = Work { name: "firing", sizes: &[1, 2, 4], short: 1, rounds: 5 };

fn cases(short: bool) -> Vec<(Case, usize)> {
    let of_all = WORKS.iter().flat_map(|work| cases_of(work, &PEERS, short));
    of_all.chain(cases_of(&FIRING, &PEERS[..1], short)).collect()
}

fn cases_of(work: &Work, peers: &[Peer], short: bool) -> Vec<(Case, usize)> {
    let (sizes, rounds) =
        if short { (std::slice::from_ref(&work.short), 1) } else { (work.sizes, work.rounds) };
    let of_size = |size: usize| {
        peers.iter().map(move |peer| {
            let case = Case {
                suite: "threads".to_owned(),
                work: work.name.to_owned(),
                peer: peer.name.to_owned(),
                size,
                delays: "-".to_owned(),
            };
            (case, rounds)
        })
    };
    sizes.iter().copied().flat_map(of_size).collect()
}

fn measure(case: &Case, short: bool) -> Result<Vec<Figure>, String> {
    let peer = PEERS.iter().find(|peer| peer.name == case.peer);
    let peer = peer.ok_or_else(|| format!("no peer is called {:?}", case.peer))?;
    (peer.measure)(case, short)
}

fn measure_peer<T: Timer>(case: &Case, short: bool) -> Result<Vec<Figure>, String> {
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

fn verify_all() -> Vec<(&'static str, String)> {
    PEERS.iter().map(|peer| (peer.name, (peer.verify)())).collect()
}

pub(crate) fn figure(name: &str, value: f64) -> Figure {
    Figure { name: name.to_owned(), value }
}

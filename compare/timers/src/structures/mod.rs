//! The suite `structures`: single-threaded structures over virtual time, pinned to one core.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `timers.rs` | the verbs that are compared |
//! | `peers/` | the structures that have these verbs |
//! | `workloads/` | the works that are measured |
//! | `levels.rs` | the same on hierarchies of ours with fewer levels and more |
//! | `delays.rs` | how far ahead deadlines lie |
//! | `verify.rs` | whether each timer fires at its tick |

mod delays;
mod levels;
mod peers;
mod timers;
mod verify;
mod workloads;

use harness::Fallible;
use harness::case::Figures;

use crate::case::{Case, Suite};
use delays::Delays;
use timers::Timers;
use workloads::Plan;

pub(crate) const NAME: &str = "structures";

/// The works in the order of the report, and whether the delays may be long.
const WORKS: [(&str, &[&str]); 8] = [
    ("insert", &["uniform"]),
    ("pairs", &["uniform", "long"]),
    ("pairs_moving", &["uniform"]),
    ("reset", &["uniform"]),
    ("refire", &["uniform", "long"]),
    ("drain", &["uniform"]),
    ("idle_hour", &["hours"]),
    ("bytes", &["uniform"]),
];

const SIZES: [usize; 4] = [1_000, 100_000, 1_000_000, 10_000_000];

/// A structure, and the code that was compiled for it.
struct Peer {
    name: &'static str,
    exact_cancel: bool,
    measure: fn(&str, Plan) -> Fallible<Figures>,
    verify: fn() -> String,
}

const PEERS: [Peer; 9] = [
    peer::<peers::TickWheel>(),
    peer::<peers::TmWheel>(),
    peer::<peers::Nexus>(),
    peer::<peers::SlabWheel>(),
    peer::<peers::HashWheel>(),
    peer::<peers::Queue>(),
    peer::<peers::Tree>(),
    peer::<peers::Heap>(),
    peer::<peers::Ring>(),
];

const fn peer<T: Timers>() -> Peer {
    Peer {
        name: T::NAME,
        exact_cancel: T::EXACT_CANCEL,
        measure: workloads::measure::<T>,
        verify: verify::verify::<T>,
    }
}

pub(crate) fn suite() -> Suite {
    Suite { name: NAME, pinned: true, cases, measure, verify: verify_all }
}

fn cases(short: bool) -> Vec<(Case, usize)> {
    let mut cases = Vec::new();
    for (work, distributions) in WORKS {
        for &delays in distributions {
            for size in if short { &SIZES[..1] } else { &SIZES[..] } {
                let rounds = rounds(work, delays, *size);
                let peers = PEERS.iter().filter(|peer| affordable(peer.name, work, *size));
                cases.extend(peers.filter(|_| rounds > 0 || short).map(|peer| {
                    let case = Case::new(NAME, work, peer.name, *size, delays);
                    (case, if short { 1 } else { rounds })
                }));
            }
        }
    }
    let size = if short { SIZES[0] } else { 1_000_000 };
    cases.extend(levels::GEOMETRIES.iter().map(|&(name, _)| {
        let case = Case::new(NAME, levels::WORK, name, size, "uniform");
        (case, if short { 1 } else { 5 })
    }));
    cases
}

/// How often a case is repeated; zero if its figure would have no meaning.
fn rounds(work: &str, delays: &str, size: usize) -> usize {
    match (work, delays, size) {
        // Too little memory to be counted in pages.
        ("bytes", _, 1_000) => 0,
        // Next to nothing fires once all have a delay of days.
        ("refire", "long", 1_000) => 0,
        // The case with a million shows it.
        ("idle_hour" | "bytes", _, 10_000_000) => 0,
        // Warming up would take longer than the rest.
        ("pairs_moving", _, 10_000_000) | (_, "long", 10_000_000) => 0,
        (_, _, 10_000_000) => 2,
        ("bytes", _, _) => 3,
        _ => 5,
    }
}

/// Whether one run of a peer is over in 20 seconds.
fn affordable(peer: &str, work: &str, size: usize) -> bool {
    // With ten million timers a cancel searches slots of 2,800.
    !(peer == <peers::Ring as Timers>::NAME
        && size == 10_000_000
        && matches!(work, "pairs" | "reset"))
}

fn measure(case: &Case, short: bool) -> Fallible<Figures> {
    let plan = Plan { size: case.size, delays: Delays::named(&case.delays)?, short };
    if case.work == levels::WORK {
        return levels::measure(&case.peer, plan);
    }
    let peer = PEERS.iter().find(|peer| peer.name == case.peer);
    let peer = peer.ok_or_else(|| format!("no structure is called `{}`", case.peer))?;
    (peer.measure)(&case.work, plan)
}

fn verify_all() -> Vec<(&'static str, String)> {
    PEERS.iter().map(|peer| (peer.name, (peer.verify)())).collect()
}

/// Whether a peer's cancel leaves nothing behind, and does not search.
pub(crate) fn cancels_exactly(peer: &str) -> bool {
    PEERS.iter().any(|known| known.name == peer && known.exact_cancel)
}

//! Sleeps and timeouts as tasks use them: made, polled, reset, dropped; and tasks that wake.
//!
//! Ground rules:
//!
//! - All tasks run on a tokio runtime, with every peer's timers, so the executor costs every peer
//!   the same. It has a worker for each task that is measured, and two for the works that wake.
//!   Two works have other runtimes, with one thread (`runtimes.rs`).
//! - In works where no task has to wake, `delays` names the waker of the polls: `task` is the
//!   task's own, and `noop` one whose clone is free.
//! - All peers are measured through one trait (`timer.rs`). The works in which tasks only sleep
//!   come from the suite `threads`, with a task for each job (`tasks.rs`).

mod gateway;
mod loops;
mod peers;
mod runtimes;
mod tasks;
mod timer;
mod waiting;

use std::time::Duration;

use harness::Fallible;
use harness::case::Figures;

use crate::case::{self, Case, Peer, Suite, Work};
use crate::threads::{due, verify, waiting as jobs};
use tasks::Tasks;
use timer::Futures;

pub(crate) fn suite() -> Suite {
    Suite {
        name: NAME,
        pinned: false,
        cases,
        measure: |case, short| case::measure(PEERS, case, short),
        verify: || case::verify(PEERS),
    }
}

const NAME: &str = "futures";

/// In the order of the report.
const PEERS: &[Peer] = &[
    peer::<peers::Ours<false>>(),
    peer::<peers::Ours<true>>(),
    peer::<peers::Tokio<false>>(),
    #[cfg(tokio_unstable)]
    peer::<peers::Tokio<true>>(),
    peer::<peers::Pingora>(),
    peer::<peers::FuturesTimer>(),
    peer::<peers::AsyncIo>(),
];

const fn peer<F: Futures>() -> Peer {
    Peer { name: F::NAME, measure: measure_peer::<F>, verify: verify::verify::<Tasks<F>> }
}

/// A work, and its waker.
const fn work(name: &'static str, delays: &'static str, sizes: &'static [usize]) -> Work {
    Work { name, delays, sizes, short: 1, rounds: 3 }
}

const MILLION: &[usize] = &[1_000_000];

const CURRENT_THREAD: &str = "current_thread";
const SMOL: &str = "smol";

/// In the order of the report.
const WORKS: [Work; 15] = [
    work("ready", "task", &[1, 2]),
    work("once", "task", &[1, 2, 4, 8]),
    work("once", "noop", &[1, 2]),
    work("outstanding", "task", &[1, 2, 4, 8]),
    work("reset", "task", &[1, 2]),
    work("reset_at", "task", &[1, 2]),
    Work { short: 10_000, ..work("spread", "-", MILLION) },
    Work { short: 10_000, ..work("burst", "-", MILLION) },
    Work { short: 100, ..work("gateway", "-", &[50_000]) },
    work("proxy", "-", &[1_000]),
    Work { short: 100, ..work(CURRENT_THREAD, "-", &[10_000]) },
    Work { short: 100, ..work(SMOL, "-", &[10_000]) },
    work("ticking", "-", &[1]),
    Work { rounds: 1, ..work("blocked", "-", &[1]) },
    Work { rounds: 1, short: 10_000, ..work("idle", "-", MILLION) },
];

fn cases(short: bool) -> Vec<(Case, usize)> {
    let all = WORKS.iter().flat_map(|work| work.cases(NAME, PEERS, short));
    all.filter(|(case, _)| runs_on(&case.work, &case.peer)).collect()
}

/// Whether the runtime of a work has what a peer needs. tokio's timers need a runtime of tokio, and the alternative
/// one needs a runtime with several threads. Where no task may be early, `pingora-timeout` is left out: it is at times.
fn runs_on(work: &str, peer: &str) -> bool {
    match work {
        CURRENT_THREAD => !["tokio-alt", "pingora-timeout"].contains(&peer),
        SMOL => !peer.starts_with("tokio") && peer != "pingora-timeout",
        _ => true,
    }
}

fn measure_peer<F: Futures>(case: &Case, short: bool) -> Fallible<Figures> {
    let race = loops::Race { tasks: case.size, noop: case.delays == "noop", short };
    match (case.work.as_str(), case.size) {
        ("ready", _) => loops::ready::<F>(race),
        ("once", _) => loops::once::<F>(race),
        ("outstanding", _) => loops::outstanding::<F>(race),
        ("reset", _) => loops::reset::<F>(race),
        ("reset_at", _) => loops::reset_at::<F>(race),
        ("spread", tasks) => due::spread::<Tasks<F>>(tasks, short),
        ("burst", tasks) => due::burst::<Tasks<F>>(tasks, short),
        ("gateway", connections) => gateway::gateway::<F>(connections, short),
        ("proxy", _) => gateway::proxy::<F>(short),
        (CURRENT_THREAD, tasks) => runtimes::on_current_thread::<F>(tasks, short),
        (SMOL, tasks) => runtimes::on_smol::<F>(tasks, short),
        ("ticking", _) => waiting::ticking::<F>(short),
        ("blocked", _) => waiting::blocked::<F>(short),
        ("idle", tasks) => {
            let time = Duration::from_millis(if short { 100 } else { 5_000 });
            jobs::idle::<Tasks<F>>(tasks, time)
        }
        (work, _) => Err(format!("no work is called {work:?}")),
    }
}

//! Tests the file and the server against the store in memory, which is their model, and the claims of each store
//! against a slow and obvious oracle.
//!
//! Ground rules:
//!
//! - A history is a list of calls of a store. So claims overlap in any way, which the driver of a manual clock, with
//!   one run at a time, does not show; ends, joins and cancels meet in any order, and several in one commit.
//! - Which job a claim takes is a choice, within rules. The oracle gets each claimed job in its order (`oracle.rs`). It
//!   has a list of jobs and shares no structure with a store. The code (`Limits`) says which limit a scope has:
//!   `tests/scenarios` test that.
//! - A server gets every third commit twice, as if its answer had been lost.
//! - `tests/model` tests memory itself, by what a program sees.
//!
//! | | what must hold of the claims of each store |
//! | --- | --- |
//! | 1 | no job is claimed while as many of its scope are claimed as the limit allows (P23, P29) |
//! | 2 | after a claim with room left, no due job that may run is left (P25), and the store says when the next one is due |
//! | 3 | of any turns that are given while the same partitions may run, each has its share, less one (P26) |
//! | 4 | no job, of the same flow or of another, overtakes a job without a partition (P27) |
//! | 5 | the jobs of a partition are claimed in the order of due time, then of id (P16); none early (P7) |
//! | 6 | a partition that is paused has no claim (P28) |
//! | 7 | a store that has nothing to claim does not ask for a step at once |
//! | 8 | in no period are more jobs of a scope claimed than its rate and burst allow (P24), also across a restart; and after a quiet time the next job may be claimed |
//! | 9 | while a scope is held, none of its jobs is claimed |
//!
//! | | what must hold of a file and of a server |
//! | --- | --- |
//! | 10 | each operation has the answer that it has in memory, and a refusal the same reason |
//! | 11 | after each step each job and each group is what it is in memory, with its times and counts, or is gone (P31) |
//! | 12 | no job is there that is not in memory, so no callback comes twice (P31) |
//! | 13 | the open members of a group are those in memory, and a group is forgotten when it is in memory (P31) |
//! | 14 | the check of each store finds nothing (G1) |
//! | 15 | a schedule without overlap makes one occurrence if none of it is pending or claimed, and else none (P18) |

mod steps;
mod rates;
mod oracle;
#[cfg(feature = "redis")]
mod server;
mod place;
mod world;

#[cfg(feature = "redis")]
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

#[cfg(feature = "sqlite-unbundled")]
use super::sqlite::open::Location;
#[cfg(feature = "redis")]
use super::{ClaimRequest, End, Finish, NewJob, Op};
#[cfg(feature = "redis")]
use crate::values::id::JobId;
#[cfg(feature = "redis")]
use crate::values::time::Millis;
use place::Place;
use steps::{Step, steps};
use world::World;

/// The first two kinds share a flow. No process handles the last one.
const KINDS: [&str; 4] = ["charge", "refund", "mail", "unhandled"];
/// Most histories have the first four.
const PARTITIONS: [&str; 6] = ["acme", "beta", "core", "dune", "east", "fire"];
const KEYS: [&str; 2] = ["first", "second"];
const SCHEDULE: &str = "nightly";
const FLOW: &str = "stripe";
const AHEAD: Duration = Duration::from_millis(50);
const HOUR: Duration = Duration::from_secs(3600);
const LEASE: Duration = Duration::from_secs(30);
/// Half past an hour.
const BEGINNING: i64 = 1_800_001_800_000;

type Checked<T = ()> = Result<T, String>;

fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(wrong()) }
}

fn config(cases: u32) -> Config {
    let said = std::env::var("TICKWHEEL_JOBS_CASES").ok().and_then(|cases| cases.parse().ok());
    Config {
        cases: said.unwrap_or(cases),
        failure_persistence: None,
        rng_seed: if said.is_some() { RngSeed::Random } else { RngSeed::Fixed(1987) },
        ..Config::default()
    }
}

/// Does a history in memory, and on the store at a place beside it. Returns how many groups have ended with a callback.
fn agrees(place: Option<Place>, steps: &[Step]) -> Result<usize, TestCaseError> {
    let mut world = World::new(place);
    for (n, step) in steps.iter().enumerate() {
        world
            .step(step)
            .map_err(|wrong| TestCaseError::fail(format!("step {n}, {step:?}: {wrong}")))?;
    }
    world.agree_on_all().map_err(|wrong| TestCaseError::fail(format!("at the end: {wrong}")))?;
    Ok(world.callbacks.len())
}

/// Does many histories. Some of them must have callbacks.
fn all_agree(cases: u32, place: impl Fn() -> Option<Place>) {
    let (callbacks, config) = (core::cell::Cell::new(0), config(cases));
    let least = config.cases as usize / 8;
    let result = TestRunner::new(config).run(&steps(), |steps| {
        callbacks.set(callbacks.get() + agrees(place(), &steps)?);
        Ok(())
    });
    result.unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(callbacks.get() >= least, "{} callbacks", callbacks.get());
}

/// P23, P24, P25, P26, P28, P29: The claims of the store in memory keep limits, turns and order, and leave no job
/// behind.
#[test]
fn claims_in_memory_agree_with_the_oracle() {
    all_agree(150, || None);
}

/// P23, P24, P25, P26, P29, P31: The claims on a file agree with the oracle, and all else with memory.
#[cfg(feature = "sqlite-unbundled")]
#[test]
fn file_agrees_with_memory_and_the_oracle() {
    all_agree(40, || Some(Place::File(Location::temporary().unwrap())));
}

/// P23, P24, P25, P26, P29, P31, Redis P23, Redis P24, Redis P25, Redis P30, Redis P31: The same on a server.
#[cfg(feature = "redis")]
#[test]
fn server_agrees_with_memory_and_the_oracle() {
    let Some(server) = server::Process::start() else { return };
    let number = core::cell::Cell::new(0);
    all_agree(30, || {
        number.set(number.get() + 1);
        Some(Place::Server(server.queue(number.get())))
    });
}

/// P26: A weight that changes counts from the next claim on, also on a server, where a lane lay among those of its
/// earlier weight until its next turn.
#[cfg(feature = "redis")]
#[test]
fn weight_that_changes_counts_from_the_next_claim_on() {
    in_memory_and_on_a_server(&steps::changed_weight());
}

/// P26: A new partition has no turns before those that were full when it came, also on a server, where none of them was
/// in turn then.
#[cfg(feature = "redis")]
#[test]
fn new_partition_begins_behind_those_that_were_full() {
    in_memory_and_on_a_server(&steps::full_and_new());
}

#[cfg(feature = "redis")]
fn in_memory_and_on_a_server(steps: &[Step]) {
    agrees(None, steps).unwrap();
    let Some(server) = server::Process::start() else { return };
    agrees(Some(Place::Server(server.queue(1))), steps).unwrap();
}

/// A batch of which a full server took only a part has the same answers when it is sent again, also if there is memory
/// by then: each of its calls has the place that it had.
#[cfg(feature = "redis")]
#[test]
fn part_of_a_batch_has_its_answers_again() {
    let Some(server) = server::Process::start() else { return };
    let mut store = Place::Server(server.queue(1)).open(HOUR);
    let now = Millis::clamped(BEGINNING);
    let job = |number, kind: &str| NewJob {
        id: JobId::from_u128(number),
        kind: Arc::from(kind),
        due: now,
        key: None,
        callers_id: false,
        extra: None,
        payload: b"{}".to_vec(),
    };
    store.start_runner(&[Arc::from("mail")], now).unwrap();
    let inserts = vec![job(1, "mail"), job(2, "mail"), job(3, "mail")];
    let mut claim = ClaimRequest::new(now, 2, 2, Vec::new());
    claim.now = now;
    let claimed = store.apply(&world::batch(1, &[Op::InsertMany(inserts)], None, now)).unwrap();
    assert_eq!(claimed.claimed.len(), 0);
    let claimed = store.apply(&world::batch(2, &[], Some(claim), now)).unwrap().claimed;
    let end = |at: usize| Finish::of(claimed[at].id, claimed[at].fence, End::Completed);
    let ops = [
        Op::Finish(Finish { then: Some(Arc::new(vec![job(4, "new")])), ..end(0) }),
        Op::Finish(end(1)),
        Op::Cancel(JobId::from_u128(3)),
    ];
    let mut answers = |number| {
        let answers = store.apply(&world::batch(number, &ops, None, now)).unwrap().answers;
        answers.iter().map(|answer| format!("{answer:?}")).collect::<Vec<_>>()
    };
    server.set("maxmemory", "1");
    let first = answers(3);
    assert!(first[0].contains("Refused") && first[2].contains("Cancelled"), "{first:?}");
    server.set("maxmemory", "0");
    assert_eq!(answers(3), first);
}

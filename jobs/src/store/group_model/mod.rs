//! Tests the groups of the stores against a slow and obvious model.
//!
//! Ground rules:
//!
//! - A history is a list of calls of a store, so ends, joins and cancels meet in any order, and several in one commit.
//! - The oracle gets each call in its order (`oracle.rs`). It shares no code with a store.
//! - A server gets every third commit twice, as if its answer had been lost.
//!
//! | | what must hold |
//! | --- | --- |
//! | 1 | a callback is there if and only if its group is sealed and every member has ended (P31) |
//! | 2 | no job is there that the oracle does not know, so no callback comes twice (P31) |
//! | 3 | the counts of a group are those of its members |
//! | 4 | a group that is sealed, was cancelled, has ended or is unknown takes no member, and says why |
//! | 5 | a group is forgotten once it has ended, its retention is over, and no dead job names it; its id is free then (P31) |
//! | 6 | a callback whose id is taken is refused with its group, and no job takes the id of one that is to come |
//! | 7 | the store's check finds nothing (G1) |

mod oracle;
mod steps;
mod world;
mod runs;
#[allow(clippy::duplicate_mod, reason = "both models open the stores in the same way")]
#[path = "../lane_model/place.rs"]
mod place;
#[cfg(feature = "redis")]
#[allow(clippy::duplicate_mod, reason = "both models start a server in the same way")]
#[path = "../lane_model/server.rs"]
mod server;

use std::time::Duration;

use proptest::test_runner::{Config, RngSeed, TestCaseError};

#[cfg(feature = "sqlite-unbundled")]
use super::sqlite::open::Location;
use place::Place;
use steps::{Step, steps};
use world::World;

/// No process handles the last one.
const KINDS: [&str; 3] = ["row", "report", "unhandled"];
const KEYS: [&str; 2] = ["first", "second"];
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

/// Does a history on a store. Returns how many callbacks came.
fn agrees(place: Place, steps: &[Step]) -> Result<usize, TestCaseError> {
    let mut world = World::new(place);
    for (n, step) in steps.iter().enumerate() {
        world
            .step(step)
            .map_err(|wrong| TestCaseError::fail(format!("step {n}, {step:?}: {wrong}")))?;
    }
    Ok(world.oracle.callbacks)
}

/// Does many histories. Some of them must have callbacks.
fn all_agree(cases: u32, place: impl Fn() -> Place) {
    let callbacks = core::cell::Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(config(cases));
    let result = runner.run(&steps(), |steps| {
        callbacks.set(callbacks.get() + agrees(place(), &steps)?);
        Ok(())
    });
    result.unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(callbacks.get() > cases as usize / 4, "{} callbacks", callbacks.get());
}

/// P31: The groups of the store in memory agree with the oracle.
#[test]
fn groups_in_memory_agree_with_the_oracle() {
    all_agree(200, || Place::Memory);
}

/// P31: The same on a file.
#[cfg(feature = "sqlite-unbundled")]
#[test]
fn groups_on_a_file_agree_with_the_oracle() {
    all_agree(20, || Place::File(Location::temporary().unwrap()));
}

/// P31, Redis P31: The same on a server.
#[cfg(feature = "redis")]
#[test]
fn groups_on_a_server_agree_with_the_oracle() {
    let Some(server) = server::Process::start() else { return };
    let number = core::cell::Cell::new(0);
    all_agree(12, || {
        number.set(number.get() + 1);
        Place::Server(server.queue(number.get()))
    });
}

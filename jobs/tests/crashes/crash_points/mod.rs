//! A crash at every write of SQLite: see `checker.rs` for what must hold after it.
//!
//! By day power cuts are drawn after one of 16 events, and at night after each (`TICKWHEEL_STRIDE=1`).
//! `TICKWHEEL_CRASH_HISTORIES` says how many histories are made up (see `Effort` for the other sizes), and
//! `TICKWHEEL_CRASH_IMAGES` how many power cuts are drawn for each event.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `history.rs` | calls, the contents of the store after each, and the record of the disk |
//! | `checker.rs` | compares what a crash has left with these contents |
//! | `groups.rs` | the life of a group |
//! | `../disk/` | disks in memory under SQLite, and what a crash leaves on one |

mod checker;
mod groups;
mod history;
mod scripts;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tickwheel_jobs::Durability;

use crate::stride;
use checker::{Checker, Effort, Tally};
use history::History;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn effort(most_bits: u32, default_random: usize) -> Effort {
    let random = number("TICKWHEEL_CRASH_IMAGES", default_random);
    Effort { most_bits, random, drained: 9, stride: stride() }
}

fn crash_everywhere(durability: Durability, steps: &[history::Step], effort: Effort) -> Tally {
    let history = History::record(durability, steps);
    Checker::check(&history, effort, steps.len() as u64)
}

/// P1: A crash at any write of a script loses nothing that was synced.
#[test]
fn crash_at_any_write_loses_nothing_that_was_synced() {
    let tally = crash_everywhere(Durability::Synced, &scripts::every_verb(), effort(4, 2));
    println!("{tally:?}");
}

/// P2: A crash at any write of a script keeps a prefix of the written commits.
#[test]
fn crash_at_any_write_keeps_a_prefix_of_what_was_written() {
    let tally = crash_everywhere(Durability::Written, &scripts::every_verb(), effort(3, 3));
    println!("{tally:?}");
}

/// A call that changes nothing commits nothing. So a power cut after it may still lose the run before it.
#[test]
fn schedule_that_stands_as_it_is_makes_no_earlier_end_durable() {
    let schedule = || history::Step::Schedule { name: 1, ms: 800 };
    let steps = [schedule(), history::Step::Advance { ms: 1_200 }, schedule()];
    crash_everywhere(Durability::Synced, &steps, Effort { stride: 1, ..effort(2, 3) });
}

/// P15, P30: A crash at any write of a random history breaks no promise of its durability.
#[test]
fn crash_at_any_write_of_random_histories_breaks_no_promise() {
    let cases = number("TICKWHEEL_CRASH_HISTORIES", 2) as u32;
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 24, ..Config::default() };
    let histories = (any::<bool>(), prop::collection::vec(scripts::step(), 1..30));
    let run = |(synced, steps): (bool, Vec<history::Step>)| {
        let durability = if synced { Durability::Synced } else { Durability::Written };
        crash_everywhere(durability, &steps, effort(2, 1));
        Ok(())
    };
    TestRunner::new(config).run(&histories, run).unwrap_or_else(|failed| panic!("{failed}"));
}

//! The targets of the fuzzer. Each turns bytes into a history and runs it on a model of the crate's own tests, which
//! `cargo test` runs on histories of proptest. The models lie in `tests/model/` and `src/structure/tests/model.rs`.
//!
//! `fuzz_targets/` runs the targets under libFuzzer, and `tests/replay.rs` runs them on the corpus.

#![forbid(unsafe_code)]
#![allow(
    dead_code,
    reason = "proptest calls some functions of the models, and the fuzzer the rest"
)]

#[path = "../../tests/model/bytes.rs"]
mod bytes;
#[path = "../../src/structure/tests/model.rs"]
mod hierarchy;
#[path = "../../tests/model/wheel/mod.rs"]
mod wheel;

use hierarchy::Inside;
// For the model of the structure, which names them by its parent.
use tickwheel::{Geometry, Hierarchy, Key, Tick};

/// The targets, each with the folder of its corpus.
pub const TARGETS: [(&str, fn(&[u8])); 3] =
    [("hierarchy", run_hierarchy), ("wheel", wheel::run_bytes), ("keyed", wheel::run_key_bytes)];

/// Runs the target of this name.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(target, _)| *target == name);
    target.expect("it is in the list").1(bytes);
}

/// From outside the crate no key can be forged, and the thresholds are those of a wheel.
fn run_hierarchy(bytes: &[u8]) {
    let inside = Inside {
        make: |geometry, _| Hierarchy::new(geometry),
        forge: |_, _| None,
        advance_to_due: None,
    };
    let (setup, actions) = bytes::history(bytes);
    hierarchy::run(&setup, &actions, inside);
}

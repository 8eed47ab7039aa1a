//! The state that a death leaves behind: of a process, of a disk, or of the power. These tests wait more than they
//! compute, so they share one binary.
//!
//! | folder | what dies |
//! | --- | --- |
//! | `kill/` | processes that run jobs on a file, at random and at named points of the code |
//! | `exactly_once.rs` | processes whose effects end their runs |
//! | `beside.rs` | a process, by a job that runs beside others |
//! | `crash_points/` | the power, at every write of SQLite |
//! | `faults/` | the disk: it is full, fails, or has a damaged file |
//! | `disk/` | disks in memory, for the last two |
//! | `../deaths/` | children and the rules, which `tests/redis_kill` has too |

#![cfg(unix)]
#![deny(unsafe_code)]
#![allow(clippy::disallowed_methods)]

#[path = "../deaths/mod.rs"]
mod deaths;
#[path = "../deaths/node.rs"]
mod node;

mod beside;
mod crash_points;
mod disk;
mod exactly_once;
mod faults;
mod kill;

use deaths::process;

/// One of this many writes is followed by a power cut, and one of this many operations of a disk fails: of 16 by day,
/// of one at night (`TICKWHEEL_STRIDE=1`).
fn stride() -> usize {
    let said = std::env::var("TICKWHEEL_STRIDE").ok().and_then(|text| text.parse().ok());
    said.unwrap_or(16).max(1)
}

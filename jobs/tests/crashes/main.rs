//! What a death leaves behind: of a process, of a disk, and of the power. The tests wait more than they compute, so they
//! share one binary.
//!
//! | folder | what dies |
//! | --- | --- |
//! | `kill/` | processes that run jobs on a file, at random and at named points of the code; `tests/redis_kill` shares its rules |
//! | `exactly_once.rs` | processes whose effects end their runs |
//! | `beside/` | a process, by a job that runs beside others |
//! | `crash_points/` | the power, at every write of SQLite |
//! | `faults/` | the disk: it is full, fails, or has a damaged file |
//! | `disk/` | disks in memory, for the last two |

#![cfg(unix)]
#![deny(unsafe_code)]
#![allow(clippy::disallowed_methods)]

mod beside;
mod crash_points;
mod disk;
mod exactly_once;
mod faults;
mod kill;

/// Of how many writes, or operations of a disk, one is followed by a power cut or fails: of 16 by day, and each at night
/// (`TICKWHEEL_STRIDE=1`).
fn stride() -> usize {
    let said = std::env::var("TICKWHEEL_STRIDE").ok().and_then(|text| text.parse().ok());
    said.unwrap_or(16).max(1)
}

//! Disks that are full or fail, files that are damaged or not ours, readers that sit, and two runners.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `injected.rs` | every write, sync and read of a history fails |
//! | `full_disk.rs` | a file system without room |
//! | `files.rs` | files that are refused, and stay as they are |
//! | `damage.rs` | flipped bytes and cut files |
//! | `names.rs` | links, names, and files that are removed while they are in use |
//! | `others.rs` | a reader that sits, a second runner, a client beside the runner, clocks |
//! | `../disk/` | disks in memory under SQLite |
//!
//! Not here: a fork, which needs unsafe code, and a clock of the system that is set.

#![cfg(feature = "sqlite-unbundled")]
#![deny(unsafe_code)]

#[path = "../disk/mod.rs"]
mod disk;

mod damage;
mod files;
mod full_disk;
mod injected;
mod names;
mod others;

/// Of how many operations of a disk one fails: of eight by day, and each at night (`TICKWHEEL_STRIDE=1`).
fn stride() -> usize {
    let said = std::env::var("TICKWHEEL_STRIDE").ok().and_then(|text| text.parse().ok());
    said.unwrap_or(8).max(1)
}

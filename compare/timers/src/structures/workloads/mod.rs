//! The works that are measured of a structure, a function for each.
//!
//! | file | its works |
//! | --- | --- |
//! | `population.rs` | (what all of them share) |
//! | `frozen.rs` | `insert`, `pairs`, `reset` |
//! | `moving.rs` | `pairs_moving`, `refire` |
//! | `jumps.rs` | `drain`, `idle_hour` |
//! | `memory.rs` | `bytes` |

mod frozen;
mod jumps;
mod memory;
mod moving;
mod population;

pub(crate) use population::Plan;

use harness::Fallible;
use harness::case::{Figures, figure};

use super::timers::Timers;

/// Runs a work by its name.
pub(crate) fn measure<T: Timers>(work: &str, plan: Plan) -> Fallible<Figures> {
    let one = |value| vec![figure(work, value)];
    Ok(match work {
        "insert" => one(frozen::insert::<T>(plan)),
        "pairs" => one(frozen::pairs::<T>(plan)),
        "reset" => one(frozen::reset::<T>(plan)),
        "pairs_moving" => {
            let (nanos, share) = moving::pairs::<T>(plan);
            vec![figure(work, nanos), figure("fired_share", share)]
        }
        "refire" => one(moving::refire::<T>(plan)),
        "drain" => one(jumps::drain::<T>(plan)?),
        "idle_hour" => {
            let (near, far) = jumps::idle_hour::<T>(plan);
            vec![figure(work, near), figure("quiet_hour", far)]
        }
        "bytes" => {
            let (pending, after) = memory::bytes::<T>(plan)?;
            vec![figure(work, pending), figure("bytes_after", after)]
        }
        _ => return Err(format!("no work is called `{work}`")),
    })
}

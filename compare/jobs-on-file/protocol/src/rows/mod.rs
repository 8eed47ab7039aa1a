//! The rows, a file each. Every one opens the contender, works, and prints figures.

mod file;
mod fill;
mod idle;
mod insert;
mod instant;
mod late;
mod life;
mod life_random;
mod restart;
mod start;

use std::fs;

use crate::{Contender, Fallible, Setup};

pub(crate) fn measure<C: Contender>(row: &str, setup: &Setup) -> Fallible {
    if let Some(directory) = setup.path.parent() {
        fs::create_dir_all(directory)?;
    }
    match row {
        "life" => life::measure::<C>(setup),
        "life-random" => life_random::measure::<C>(setup),
        "insert" => insert::one_by_one::<C>(setup),
        "insert-random" => insert::random::<C>(setup),
        "late" => late::measure::<C>(setup),
        "start" => start::measure::<C>(setup),
        "instant" => instant::measure::<C>(setup),
        "fill" => fill::measure::<C>(setup),
        "before-kill" => restart::before::<C>(setup),
        "after-kill" => restart::after::<C>(setup),
        "memory" => idle::memory::<C>(setup),
        "idle" => idle::measure::<C>(setup),
        "file" => file::measure::<C>(setup),
        _ => Err(format!("no row is called `{row}`").into()),
    }
}

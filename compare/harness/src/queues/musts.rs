//! The goals beside the results.

use super::case::{Case, DISK, OURS};
use crate::results::Results;
use crate::table::{Better, number};

/// A goal: a sentence about a row, the value that is wanted, and a function that reads the figures.
/// It returns the value that was reached, and whether that is enough, or nothing if there are no
/// figures.
pub struct Must(pub &'static str, pub &'static str, pub fn(&Results<Case>) -> Option<Reached>);

pub struct Reached {
    pub text: String,
    pub enough: bool,
}

/// The peer that is best at a figure.
pub fn best_peer<'a>(
    results: &'a Results<Case>,
    row: &str,
    level: &str,
    figure: &str,
    better: Better,
) -> Option<(&'a str, f64)> {
    let is_peer =
        |case: &&Case| case.level == level && case.contender != OURS && case.contender != DISK;
    let peers = results.of_row(row).into_iter().filter(is_peer);
    let figures =
        peers.filter_map(|peer| Some((&*peer.contender, results.spread(peer, figure)?.median)));
    match better {
        Better::More => figures.max_by(|a, b| a.1.total_cmp(&b.1)),
        Better::Less => figures.min_by(|a, b| a.1.total_cmp(&b.1)),
    }
}

/// The goal of a rate in jobs a second: a minimum, and a multiple of the best peer's rate (none if
/// the multiple is zero).
pub fn rate(
    results: &Results<Case>,
    row: &str,
    level: &str,
    least: f64,
    times: f64,
) -> Option<Reached> {
    let rate = results.ours(row, level, "jobs_per_s")?;
    let mut reached = Reached { text: format!("{} a second", number(rate)), enough: rate >= least };
    if times > 0.0 {
        let (peer, best) = best_peer(results, row, level, "jobs_per_s", Better::More)?;
        reached.text += &format!(", {:.1} times {peer}", rate / best);
        reached.enough &= rate >= times * best;
    }
    Some(reached)
}
